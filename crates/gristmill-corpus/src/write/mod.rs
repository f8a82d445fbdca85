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
mod chunks;
mod finish;
mod flat;
mod framed;
mod megatron;
mod npy;
mod pack;
mod rows;
mod table;
#[cfg(test)]
pub(crate) mod tests;

use std::path::Path;

use serde::{Deserialize, Serialize};

pub use aside::ASIDE;
pub(crate) use aside::{Aside, Place};
pub use finish::{LIST, List, Shard, finish_output};
pub(crate) use flat::{LLMC_HEADER, llmc_magic};
pub(crate) use megatron::{
    MAGIC as MEGATRON_MAGIC, VERSION as MEGATRON_VERSION, code as megatron_code,
};
pub(crate) use table::COLUMN;

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
    /// A file of ids one behind the other ends with so many: llm.c's exactly there, the others with the
    /// document that reaches them.
    #[serde(default)]
    pub max_tokens: Option<u64>,
    /// The tokenizer's name, for formats that note it.
    #[serde(default)]
    pub tokenizer: Option<String>,
}

/// A format of files of token ids.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Format {
    /// `.bin` and `.idx` of Megatron-LM.
    Megatron,
    /// `.bin` of llm.c and modded-nanogpt.
    Llmc,
    /// nanoGPT's `.bin`: ids and nothing else.
    Nanogpt,
    /// Arrays of sequences that numpy loads.
    Npy,
    /// OLMo's `.npy`, which are ids and nothing else, and `.csv.gz`.
    Dolma,
    /// datatrove's `.ds`, `.ds.index` and `.ds.metadata`.
    Datatrove,
    /// MosaicML's `.mds`.
    Mds,
    /// litdata's chunks for its TokensLoader.
    Litdata,
    /// Parquet, a list of ids a row.
    Parquet,
    /// Arrow IPC files, a list of ids a row.
    Arrow,
}

impl Format {
    /// All of them.
    pub const ALL: [Format; 10] = [
        Format::Megatron,
        Format::Llmc,
        Format::Nanogpt,
        Format::Npy,
        Format::Dolma,
        Format::Datatrove,
        Format::Mds,
        Format::Litdata,
        Format::Parquet,
        Format::Arrow,
    ];

    /// Its name, which is that of the folder its files are in.
    pub fn name(self) -> &'static str {
        match self {
            Format::Megatron => "megatron",
            Format::Llmc => "llmc",
            Format::Nanogpt => "nanogpt",
            Format::Npy => "npy",
            Format::Dolma => "dolma",
            Format::Datatrove => "datatrove",
            Format::Mds => "mds",
            Format::Litdata => "litdata",
            Format::Parquet => "parquet",
            Format::Arrow => "arrow",
        }
    }

    /// The widths an id can have, the narrowest first. The format's own choice is the first that holds all
    /// ids, but for Megatron, which leaves two bytes early.
    fn widths(self) -> &'static [Width] {
        match self {
            Format::Megatron => &[Width::U16, Width::I32],
            Format::Llmc | Format::Nanogpt | Format::Npy => &[Width::U16, Width::U32],
            Format::Datatrove | Format::Parquet | Format::Arrow => &[Width::U16, Width::U32],
            Format::Dolma => &[Width::U8, Width::U16, Width::U32],
            // torch, which reads them, has no 32 bits without a sign that it can count with.
            Format::Mds => &[Width::U16, Width::I32, Width::U32],
            Format::Litdata => &[Width::U16, Width::I32],
        }
    }

    /// Whether it holds sequences of one length: always, or where asked.
    fn sequences(self) -> Takes {
        match self {
            Format::Npy => Takes::Always,
            Format::Mds | Format::Litdata | Format::Parquet | Format::Arrow => Takes::WhereAsked,
            _ => Takes::Never,
        }
    }
}

/// Whether a format holds sequences of one length.
#[derive(PartialEq, Eq)]
enum Takes {
    Always,
    WhereAsked,
    Never,
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

/// The most ids of a sequence.
const LONGEST: u64 = 1 << 28;

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

/// The writer of the shard of this name ([`crate::Job::shard_name`]). Its files go to the folder of the
/// format in this one.
pub fn open(output: &Output, folder: &Path, name: &str) -> Result<Box<dyn ShardWriter>> {
    let writer = open_bare(output, folder, name)?;
    Ok(Box::new(framed::Framed::new(output, writer)))
}

/// The writer of documents that bring what stands around them.
pub(crate) fn open_bare(
    output: &Output,
    folder: &Path,
    name: &str,
) -> Result<Box<dyn ShardWriter>> {
    check(output)?;
    let width = width(output)?;
    let place = aside::Place::new(folder, output.format.name(), name)?;
    let writer: Box<dyn ShardWriter> = match (output.format, &output.sequences) {
        (Format::Megatron, _) => Box::new(megatron::Megatron::new(&place, width)?),
        (Format::Npy, Some(sequences)) => {
            let npy = npy::Npy::new(place, width, sequences);
            Box::new(rows::Rows::new(sequences, Box::new(npy)))
        }
        (Format::Mds | Format::Litdata, sequences) => {
            let chunks = chunks::Chunks::new(place, output, width);
            in_rows(sequences.as_ref(), Box::new(chunks))
        }
        (Format::Parquet | Format::Arrow, sequences) => {
            let table = table::Table::new(place, output, width);
            in_rows(sequences.as_ref(), Box::new(table))
        }
        _ => Box::new(flat::Flat::new(place, output, width)),
    };
    Ok(writer)
}

fn in_rows(sequences: Option<&Sequences>, items: Box<dyn rows::Items>) -> Box<dyn ShardWriter> {
    match sequences {
        Some(sequences) => Box::new(rows::Rows::new(sequences, items)),
        None => Box::new(rows::Whole(items)),
    }
}

/// Refuse options that the format has not got, before anything is read.
pub fn check(output: &Output) -> Result<()> {
    let name = output.format.name();
    let refused = |what: &str| Err(Error::Refused(format!("the format {name} {what}")));
    width(output)?;
    match (output.format.sequences(), &output.sequences) {
        (Takes::Always, None) => return refused("needs the length of a sequence, --seq-len"),
        (Takes::Never, Some(_)) => {
            return refused("holds documents, not sequences of one length: leave out --seq-len");
        }
        _ => {}
    }
    if let Some(sequences) = &output.sequences {
        if u64::from(sequences.pad) >= output.id_end {
            return Err(Error::Refused(format!(
                "the id {} that fills sequences is not one of the tokenizer, which end at {}",
                sequences.pad,
                output.id_end.saturating_sub(1)
            )));
        }
        if !(1..=LONGEST).contains(&sequences.length) {
            return Err(Error::Refused(format!(
                "sequences of {} ids: there must be 1 to {LONGEST}",
                sequences.length
            )));
        }
        if sequences.per_file == Some(0) {
            return refused("cannot have files without sequences");
        }
    }
    let flat = [
        Format::Llmc,
        Format::Nanogpt,
        Format::Dolma,
        Format::Datatrove,
    ];
    if output.max_tokens.is_some() && !flat.contains(&output.format) {
        return refused("has no files of so many tokens");
    }
    Ok(())
}

/// The width of an id: the one asked for, or the format's own choice.
pub fn width(output: &Output) -> Result<Width> {
    let (end, name) = (output.id_end, output.format.name());
    let widths = output.format.widths();
    let narrow = |width: &Width| match (output.format, width) {
        // As its own tool chooses.
        (Format::Megatron, Width::U16) => end < 65_500,
        _ => end <= width.end(),
    };
    let own = widths.iter().copied().find(narrow);
    let Some(width) = output.width.or(own) else {
        return Err(Error::Refused(format!(
            "ids up to {} do not fit into the format {name}",
            end.saturating_sub(1)
        )));
    };
    if !widths.contains(&width) {
        return Err(Error::Refused(format!(
            "the format {name} has no ids as {width:?}"
        )));
    }
    if end > width.end() {
        return Err(Error::Refused(format!(
            "ids up to {} do not fit into {width:?}, as {name} is to have them",
            end.saturating_sub(1)
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
