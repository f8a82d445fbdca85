//! Ids into the files of a shard, one room a format.

use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::{Result, Written};

/// What is written: a format and its options.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Output {
    /// The format's name.
    pub format: String,
    /// What stands before every document.
    pub before: Vec<u32>,
    /// What stands behind every document.
    pub after: Vec<u32>,
}

/// Writes one shard in one format, aside: under names that end in `.aside` until the whole shard is there.
pub trait ShardWriter: Send {
    /// One document's ids, without what stands around documents.
    fn document(&mut self, ids: &[u32]) -> Result<()>;

    /// Complete and sync the files. They stand beside their final names.
    fn finish(self: Box<Self>, folder: &Path) -> Result<Vec<Written>>;
}
