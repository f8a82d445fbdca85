//! Shards read back: the documents of any format by their numbers, and what follows from that: verifying,
//! converting, merging.
//!
//! A [`Collection`] is the shards of one format: a folder with a `shards.json`, or files that others
//! wrote. It reads one shard at a time, through positioned reads, and holds of it what the format makes
//! necessary: nothing, or the places of its documents. A file that is cut off or changed is an error that
//! says what and where.
//!
//! Tested against the writers: any documents through any format come back.

mod chunks;
mod convert;
mod flat;
mod items;
mod megatron;
mod npy;
mod open;
mod table;
#[cfg(test)]
mod tests;
mod verify;
mod window;

use std::path::{Path, PathBuf};

pub use convert::{Converted, convert};
pub use verify::{Verified, verify};

use crate::write::{List, Width};
use crate::{Error, Result};

/// The documents of one shard.
pub(crate) trait Documents: Send {
    /// How many there are.
    fn len(&self) -> u64;

    /// How wide their ids are in the files.
    fn width(&self) -> Width;

    /// The ids of a document, behind those that are there.
    fn read(&mut self, number: u64, ids: &mut Vec<u32>) -> Result<()>;
}

/// What shards there are.
struct Known {
    /// The folder that the names of the list are in.
    folder: PathBuf,
    list: List,
    /// Whether the list was written with the shards, or made by looking at what is there.
    listed: bool,
    /// The number of documents up to the end of each shard.
    ends: Vec<u64>,
}

impl Known {
    /// The number of the first document of a shard.
    fn first(&self, shard: usize) -> u64 {
        shard.checked_sub(1).map_or(0, |before| self.ends[before])
    }
}

/// The shards of one format.
pub struct Collection {
    known: Known,
    /// The shard that is open.
    current: Option<(usize, Box<dyn Documents>)>,
}

impl Collection {
    /// Open a folder or a file. A folder that holds shards of several formats needs the name of one.
    pub fn open(path: &Path, format: Option<crate::write::Format>) -> Result<Collection> {
        let (folder, list, listed) = open::find(path, format)?;
        let mut known = Known {
            folder,
            list,
            listed,
            ends: Vec::new(),
        };
        if !listed {
            // How many documents there are is in the files.
            for number in 0..known.list.shards.len() {
                let shard = open::shard(&known, number)?;
                let list = &mut known.list;
                list.shards[number].documents = shard.len();
                list.width = shard.width();
                list.output.width = Some(list.width);
                list.output.id_end = list.width.end().min(1 << 31);
                list.documents = list.documents.saturating_add(shard.len());
            }
        }
        let mut documents = 0u64;
        for shard in &known.list.shards {
            documents = documents.saturating_add(shard.documents);
            known.ends.push(documents);
        }
        if documents != known.list.documents {
            return Err(Error::Input {
                path: path.to_owned(),
                reason: format!(
                    "its list has {} documents, and its shards {documents}",
                    known.list.documents
                ),
            });
        }
        Ok(Collection {
            known,
            current: None,
        })
    }

    /// What there is.
    pub fn list(&self) -> &List {
        &self.known.list
    }

    /// The folder that the names of the list are in.
    pub fn folder(&self) -> &Path {
        &self.known.folder
    }

    /// How many documents there are.
    pub fn documents(&self) -> u64 {
        self.known.list.documents
    }

    /// The ids of a document, behind those that are there, with what stands around it.
    pub fn read(&mut self, number: u64, ids: &mut Vec<u32>) -> Result<()> {
        if number >= self.documents() {
            return Err(Error::Refused(format!(
                "there is no document {number}: there are {}",
                self.documents()
            )));
        }
        let shard = self.known.ends.partition_point(|end| *end <= number);
        let first = self.known.first(shard);
        self.shard(shard)?.read(number - first, ids)
    }

    /// Every document in its order.
    pub fn each(&mut self, mut document: impl FnMut(u64, &[u32]) -> Result<()>) -> Result<()> {
        let mut ids = Vec::new();
        for number in 0..self.documents() {
            ids.clear();
            self.read(number, &mut ids)?;
            document(number, &ids)?;
        }
        Ok(())
    }

    fn shard(&mut self, number: usize) -> Result<&mut Box<dyn Documents>> {
        let shard = match self.current.take() {
            Some((current, shard)) if current == number => shard,
            _ => open::shard(&self.known, number)?,
        };
        Ok(&mut self.current.insert((number, shard)).1)
    }
}
