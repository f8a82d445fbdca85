//! Documents of shards into other shards: another format, other files, or all of it in one.
//!
//! Documents stream, so memory is that of one writer. What stands around documents stays as it is.
//! Invariant: the result is what would have been written in the first place with one shard for all.
//! Tested by writing documents in parts and at once, and by conversions there and back.

use std::fs;
use std::path::Path;

use serde::Serialize;

use super::Collection;
use crate::write::{ASIDE, LIST, Output, ShardWriter, finish_output, open_bare};
use crate::{Error, Result, Written};

/// What a conversion wrote.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Converted {
    /// Documents.
    pub documents: u64,
    /// Ids, those that only fill included.
    pub tokens: u64,
    /// The files of all shards and what lies beside.
    pub files: Vec<Written>,
}

/// Write the documents of collections, one behind the other, to shards of at most so many tokens
/// (`None`: one shard) in the folder of the output's format. `check` is asked between documents.
pub fn convert(
    sources: &mut [Collection],
    output: &Output,
    folder: &Path,
    shard_tokens: Option<u64>,
    check: &dyn Fn() -> Result<()>,
) -> Result<Converted> {
    let place = folder.join(output.format.name());
    if place.join(LIST).exists() {
        return Err(Error::Refused(format!(
            "{} holds shards already: choose another folder, or remove it",
            place.display()
        )));
    }
    let mut shards = Shards {
        output,
        folder,
        most: shard_tokens.unwrap_or(u64::MAX),
        current: None,
        written: Vec::new(),
    };
    for source in sources {
        source.each(|_, ids| {
            check()?;
            shards.document(ids)
        })?;
    }
    if shards.written.is_empty() {
        shards.current()?;
    }
    shards.close()?;
    let mut files: Vec<Written> = shards
        .written
        .iter()
        .flat_map(|shard| shard.1.clone())
        .collect();
    let documents = shards.written.iter().map(|shard| shard.0).sum();
    files.extend(finish_output(folder, output, shards.written)?);
    Ok(Converted {
        documents,
        tokens: files.iter().map(|file| file.tokens).sum(),
        files,
    })
}

/// Shards that are written one after the other.
struct Shards<'a> {
    output: &'a Output,
    folder: &'a Path,
    most: u64,
    /// The writer, and its documents and ids.
    current: Option<(Box<dyn ShardWriter>, u64, u64)>,
    written: Vec<(u64, Vec<Written>)>,
}

impl Shards<'_> {
    fn current(&mut self) -> Result<&mut (Box<dyn ShardWriter>, u64, u64)> {
        let current = match self.current.take() {
            Some(current) => current,
            None => {
                let name = format!("shard-{:06}", self.written.len());
                (open_bare(self.output, self.folder, &name)?, 0, 0)
            }
        };
        Ok(self.current.insert(current))
    }

    fn document(&mut self, ids: &[u32]) -> Result<()> {
        let most = self.most;
        let (writer, documents, tokens) = self.current()?;
        writer.document(ids)?;
        *documents += 1;
        *tokens += ids.len() as u64;
        if *tokens >= most {
            self.close()
        } else {
            Ok(())
        }
    }

    fn close(&mut self) -> Result<()> {
        let Some((writer, documents, _)) = self.current.take() else {
            return Ok(());
        };
        let files = writer.finish()?;
        for file in &files {
            let path = self.folder.join(&file.name);
            let aside = self.folder.join(format!("{}{ASIDE}", file.name));
            fs::rename(aside, &path).map_err(Error::io(&path))?;
        }
        self.written.push((documents, files));
        Ok(())
    }
}
