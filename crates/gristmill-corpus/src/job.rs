//! What a job is: plain data that travels as JSON from the plan to whichever process makes its shards.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::write::Output;

/// The shards to be made in one go: usually one; several where an input can only be read from its
/// beginning.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Job {
    /// Its number in the plan, from which its shards have their names.
    pub number: u64,
    /// The folder that the shards go to.
    pub folder: PathBuf,
    /// What is read, in this order.
    pub units: Vec<Unit>,
    /// How it is read.
    pub read: Read,
    /// How it is encoded.
    pub encode: Encode,
    /// What is written.
    pub outputs: Vec<Output>,
    /// A shard ends behind the document with which it has got so many bytes of text; without, the job is
    /// one shard.
    pub shard_bytes: Option<u64>,
    /// So many of its shards exist already: their documents are read over.
    pub skip: u64,
}

impl Job {
    /// The name of one of its shards, which those of the shard's files begin with. Names are in the order
    /// of the shards.
    pub fn shard_name(&self, shard: u64) -> String {
        match self.shard_bytes {
            None => format!("shard-{:06}", self.number),
            Some(_) => format!("shard-{:06}-{shard:04}", self.number),
        }
    }
}

/// A range of one file.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Unit {
    /// The file.
    pub path: PathBuf,
    /// Of what kind it is, as [`crate::read`] names it.
    pub format: String,
    /// How it is compressed: `none`, `gzip`, `zstd`, `bz2` or `xz`.
    pub compression: String,
    /// The first byte, or the first row group. A record belongs to the range that its first byte is in.
    pub start: u64,
    /// Behind the last one; without, to the end of the file.
    pub end: Option<u64>,
    /// The size of the file when the plan was made: another one now is an error.
    pub size: u64,
    /// The time it was changed last, in nanoseconds, when the plan was made.
    pub modified: u64,
}

/// How units are read.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Read {
    /// The field with the text, of records that have fields; a dotted path leads into objects.
    pub field: String,
    /// What stands between documents of plain text; without, each file is one.
    pub separator: Option<String>,
    /// The most bytes of a document.
    pub max_document: u64,
    /// What is done with a record that cannot be read.
    pub on_error: OnError,
    /// What is done with half a surrogate pair in JSON.
    pub surrogates: Surrogates,
    /// Documents without text are written, too.
    pub keep_empty: bool,
}

/// What is done with a record that cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum OnError {
    /// It is counted.
    Skip,
    /// It is counted and kept in a file beside the shards.
    Quarantine,
    /// It ends the run.
    Stop,
}

/// What is done with half a surrogate pair in JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Surrogates {
    /// The record is bad.
    Error,
    /// U+FFFD takes its place.
    Replace,
}

/// How documents are encoded.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Encode {
    /// What a special token in a text is: `text`, `parse` or `forbid`, with which the record is bad.
    pub special: String,
    /// Whether the tokenizer puts around each text what its file says.
    pub add_special_tokens: bool,
}

/// A file of a shard.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub struct Written {
    /// Its name in the folder of the shards, with slashes.
    pub name: String,
    /// Its size.
    pub bytes: u64,
    /// The XXH3 of 128 bits of its content, in hexadecimal.
    pub xxh3: String,
    /// Documents, or sequences of one length, in it or described by it.
    pub items: u64,
    /// Ids in it, those around documents and those that only fill included.
    pub tokens: u64,
}

/// What became of one shard, for the journal.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub struct ShardReport {
    /// The job's number.
    pub job: u64,
    /// Which of the job's shards it is, from 0 on.
    pub shard: u64,
    /// No other shard of the job comes after it. A job has at least one shard, even without a document.
    pub last: bool,
    /// Its files.
    pub files: Vec<Written>,
    /// Records found: `documents + empty +` the sum of `bad`.
    pub records: u64,
    /// Documents written.
    pub documents: u64,
    /// Documents without text that were left out.
    pub empty: u64,
    /// Records that could not be used, by reason.
    pub bad: BTreeMap<String, u64>,
    /// Files that were cut off or damaged: what stands behind the last whole record is one bad one.
    pub partial: Vec<PathBuf>,
    /// Bytes of text in the documents.
    pub text_bytes: u64,
    /// Bytes read from files.
    pub read_bytes: u64,
    /// Ids of the documents, without those that an output puts around them.
    pub tokens: u64,
    /// The largest id.
    pub largest: Option<u32>,
    /// Documents by length: how many have 2^n to 2^(n+1) - 1 ids.
    pub lengths: Vec<u64>,
}
