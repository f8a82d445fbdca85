//! Ids into the files of a shard, one room a format.
//!
//! An [`Output`] says what is written; [`open`] gives the writer of one shard. The writer puts the ids
//! that stand around a document to it, refuses what the format cannot hold, and writes every file
//! aside, with its hash taken on the way, so that a shard is there whole or not at all. Layers, from
//! the document to the disk: `framed` (what stands around it), `rows` (cut or packed into sequences of
//! one length, where asked), a format, `aside` (one file).
//!
//! Invariant: the files depend on the output, the shard's name and the documents in their order, and on
//! nothing else. Tested by reading back (`crate::shards`), against the formats' own tools
//! (`tests/readers`) and against golden files that these made.

mod aside;
mod framed;
mod llmc;
mod megatron;
mod npy;

use std::path::Path;

use serde::{Deserialize, Serialize};

pub use aside::ASIDE;

use crate::{Error, Result, Written};

/// What is written: a format and its options.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Output {
    /// The format.
    pub format: Format,
    /// What stands before every document.
    #[serde(default)]
    pub before: Vec<u32>,
    /// What stands behind every document.
    #[serde(default)]
    pub after: Vec<u32>,
    /// Every id is smaller than this: the tokenizer's largest possible id, added tokens included, and
    /// one. The width of an id follows from it, so that all shards have the same.
    pub id_end: u64,
    /// The width of an id, where the format's own rule is not wanted.
    #[serde(default)]
    pub width: Option<Width>,
    /// Documents are cut or packed into sequences of one length.
    #[serde(default)]
    pub sequences: Option<Sequences>,
    /// A file is closed before it has more tokens than this, where the format allows several files.
    #[serde(default)]
    pub max_tokens: Option<u64>,
}

/// A format of files of token ids.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Format {
    /// `.bin` and `.idx` of Megatron-LM.
    Megatron,
    /// `.bin` of llm.c and modded-nanogpt.
    Llmc,
}

impl Format {
    /// Its name, which is that of the folder its files are in.
    pub fn name(self) -> &'static str {
        match self {
            Format::Megatron => "megatron",
            Format::Llmc => "llmc",
        }
    }
}

/// How wide an id is in a file, and how it is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Width {
    /// One byte.
    U8,
    /// Two bytes.
    U16,
    /// Four bytes.
    U32,
    /// Four bytes with a sign, which ids never have.
    I32,
}

impl Width {
    /// Bytes of an id.
    pub fn bytes(self) -> usize {
        match self {
            Width::U8 => 1,
            Width::U16 => 2,
            Width::U32 | Width::I32 => 4,
        }
    }

    /// The first number too large for it.
    pub fn end(self) -> u64 {
        match self {
            Width::U8 => 1 << 8,
            Width::U16 => 1 << 16,
            Width::U32 => 1 << 32,
            Width::I32 => 1 << 31,
        }
    }
}

/// Sequences of one length.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Sequences {
    /// Ids of a sequence.
    pub length: u64,
    /// How documents get into sequences.
    pub pack: Pack,
    /// What fills a sequence that documents do not fill.
    pub pad: u32,
    /// Sequences of a file; without, a shard is one file.
    #[serde(default)]
    pub per_file: Option<u64>,
}

/// How documents get into sequences.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Pack {
    /// A document begins a sequence; what is too long goes on in the next one.
    None,
    /// One document behind the other, cut wherever a sequence is full.
    Concat,
    /// Whole documents, and the last parts of those longer than a sequence, go where they fit best.
    Bestfit,
}

/// Writes one shard in one format, aside: under names that end in [`ASIDE`] until the whole shard is
/// there.
pub trait ShardWriter: Send {
    /// One document's ids, without what stands around documents.
    fn document(&mut self, ids: &[u32]) -> Result<()>;

    /// Complete and sync the files. They stand beside their final names.
    fn finish(self: Box<Self>) -> Result<Vec<Written>>;
}

/// The writer of the shard of this name ([`crate::Job::shard_name`]). Its files go to the folder of the format in this one.
pub fn open(output: &Output, folder: &Path, name: &str) -> Result<Box<dyn ShardWriter>> {
    let width = width(output)?;
    let place = aside::Place::new(folder, output.format.name(), name)?;
    let writer: Box<dyn ShardWriter> = match output.format {
        Format::Megatron => Box::new(megatron::Megatron::new(&place, width)?),
        Format::Llmc => Box::new(llmc::Llmc::new(place, width, output.max_tokens)?),
    };
    Ok(Box::new(framed::Framed::new(output, writer)))
}

/// The width of an id: the one asked for, or the format's own choice.
pub fn width(output: &Output) -> Result<Width> {
    let end = output.id_end;
    let own = match output.format {
        Format::Megatron if end < 65_500 => Width::U16,
        Format::Megatron => Width::I32,
        Format::Llmc if end <= Width::U16.end() => Width::U16,
        Format::Llmc => Width::U32,
    };
    let width = output.width.unwrap_or(own);
    let known: &[Width] = match output.format {
        Format::Megatron => &[Width::U8, Width::U16, Width::I32],
        Format::Llmc => &[Width::U16, Width::U32],
    };
    if !known.contains(&width) {
        return Err(Error::Refused(format!(
            "the format {} has no ids of the width {width:?}",
            output.format.name()
        )));
    }
    if end > width.end() {
        return Err(Error::Refused(format!(
            "ids up to {} do not fit into {width:?}, as the format {} has them",
            end - 1,
            output.format.name()
        )));
    }
    for id in output.before.iter().chain(&output.after) {
        if u64::from(*id) >= end {
            return Err(Error::Refused(format!(
                "the id {id} that stands at documents is not one of the tokenizer, which end at {}",
                end.saturating_sub(1)
            )));
        }
    }
    Ok(width)
}
