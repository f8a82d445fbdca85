//! Whether shards are what their list says: every file's size and hash, every header, every id.
//!
//! Invariant: a byte that differs is found, by the hash at the latest, and nothing that is found ends the
//! search. Tested by changing every file of every format.

use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde::Serialize;
use xxhash_rust::xxh3::Xxh3Default;

use super::{Collection, Documents, Known, open};
use crate::write::Format;
use crate::{Error, Result, Written};

/// What was found.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Verified {
    /// Files read.
    pub files: u64,
    /// Bytes read.
    pub bytes: u64,
    /// Documents read.
    pub documents: u64,
    /// Documents without any id.
    pub bare: u64,
    /// Ids read, what stands around documents included.
    pub tokens: u64,
    /// The largest id.
    pub largest: Option<u32>,
    /// Documents that begin with what is to stand before them.
    pub begun: u64,
    /// Documents that end with what is to stand behind them.
    pub ended: u64,
    /// What is wrong, each with the file or the document.
    pub problems: Vec<String>,
}

/// Look at all shards of a collection, with so many threads. `check` is asked now and then, by the calling
/// thread too.
pub fn verify(
    collection: &Collection,
    threads: usize,
    check: &(dyn Fn() -> Result<()> + Sync),
) -> Result<Verified> {
    let known = &collection.known;
    let next = AtomicUsize::new(0);
    let number = known.list.shards.len();
    let found: Mutex<Vec<(usize, Verified)>> = Mutex::new(Vec::new());
    let work = || -> Result<()> {
        loop {
            let shard = next.fetch_add(1, Ordering::Relaxed);
            if shard >= number {
                return Ok(());
            }
            let verified = of_shard(known, shard, check)?;
            if let Ok(mut found) = found.lock() {
                found.push((shard, verified));
            }
        }
    };
    std::thread::scope(|scope| {
        let others: Vec<_> = (1..threads.clamp(1, number.max(1)))
            .map(|_| scope.spawn(work))
            .collect();
        let mut outcome = work();
        for other in others {
            let ended = other.join().unwrap_or(Err(Error::Interrupted));
            outcome = outcome.and(ended);
        }
        outcome
    })?;
    let mut found = found.into_inner().unwrap_or_default();
    found.sort_by_key(|(shard, _)| *shard);
    let mut all = Verified::default();
    for (_, one) in found {
        all.files += one.files;
        all.bytes += one.bytes;
        all.documents += one.documents;
        all.bare += one.bare;
        all.tokens += one.tokens;
        all.largest = all.largest.max(one.largest);
        all.begun += one.begun;
        all.ended += one.ended;
        all.problems.extend(one.problems);
    }
    Ok(all)
}

fn of_shard(
    known: &Known,
    number: usize,
    check: &(dyn Fn() -> Result<()> + Sync),
) -> Result<Verified> {
    let mut found = Verified::default();
    for file in &known.list.shards[number].files {
        check()?;
        if let Err(error) = of_file(&known.folder, file, known.listed, &mut found, check) {
            interrupted(&error)?;
            found.problems.push(error.to_string());
        }
    }
    if !found.problems.is_empty() {
        // What documents are in changed files says nothing.
        return Ok(found);
    }
    let outcome = open::shard(known, number)
        .and_then(|mut shard| of_documents(known, number, &mut shard, &mut found, check));
    if let Err(error) = outcome {
        interrupted(&error)?;
        found.problems.push(error.to_string());
    }
    Ok(found)
}

fn interrupted(error: &Error) -> Result<()> {
    match error {
        Error::Interrupted => Err(Error::Interrupted),
        _ => Ok(()),
    }
}

/// The size and the hash of a file.
fn of_file(
    folder: &Path,
    file: &Written,
    listed: bool,
    found: &mut Verified,
    check: &(dyn Fn() -> Result<()> + Sync),
) -> Result<()> {
    let path = folder.join(&file.name);
    let mut opened = File::open(&path).map_err(Error::io(&path))?;
    let mut hash = Xxh3Default::new();
    let mut block = vec![0; 1 << 20];
    let mut bytes = 0u64;
    loop {
        check()?;
        match opened.read(&mut block) {
            Ok(0) => break,
            Ok(read) => {
                bytes += read as u64;
                hash.update(&block[..read]);
            }
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(error) => return Err(Error::io(&path)(error)),
        }
    }
    found.files += 1;
    found.bytes += bytes;
    if bytes != file.bytes {
        let reason = format!(
            "has {bytes} bytes, and had {} when it was written",
            file.bytes
        );
        return Err(super::window::damaged(&path, reason));
    }
    if listed && format!("{:032x}", hash.digest128()) != file.xxh3 {
        let reason = "is not what was written: its hash is another one";
        return Err(super::window::damaged(&path, reason));
    }
    Ok(())
}

/// The ids of every document.
fn of_documents(
    known: &Known,
    number: usize,
    shard: &mut Box<dyn Documents>,
    found: &mut Verified,
    check: &(dyn Fn() -> Result<()> + Sync),
) -> Result<()> {
    let output = &known.list.output;
    let first = known.first(number);
    let mut ids = Vec::new();
    for document in 0..shard.len() {
        if document % 64 == 0 {
            check()?;
        }
        ids.clear();
        shard.read(document, &mut ids)?;
        found.documents += 1;
        found.tokens += ids.len() as u64;
        let largest = ids.iter().copied().max();
        found.largest = found.largest.max(largest);
        if largest.is_some_and(|id| u64::from(id) >= output.id_end) {
            found.problems.push(format!(
                "document {}: the id {} is not one of the tokenizer, which end at {}",
                first + document,
                largest.unwrap_or(0),
                output.id_end - 1
            ));
        }
        // Megatron's empty documents have nothing around them.
        let bare = ids.is_empty() && output.format == Format::Megatron;
        found.bare += u64::from(ids.is_empty());
        let framed = output.before.len() + output.after.len() <= ids.len();
        found.begun += u64::from(bare || (framed && ids.starts_with(&output.before)));
        found.ended += u64::from(bare || (framed && ids.ends_with(&output.after)));
    }
    Ok(())
}
