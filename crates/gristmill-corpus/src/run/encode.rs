//! One block into ids.

use gristmill::{Special, Tokenizer};

use super::progress::{Counts, Stage, add};
use crate::read::{Block, Parser, Reason, Record};
use crate::{Error, Job, OnError, Result};

/// A document that is bad.
pub(super) const BAD: u32 = u32::MAX;
/// A document without text, which is left out.
pub(super) const EMPTY: u32 = u32::MAX - 1;

/// What became of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Item {
    /// How many ids it has, or [`BAD`] or [`EMPTY`].
    pub(super) ids: u32,
    /// Bytes of its text.
    pub(super) text: u32,
}

/// What a block became.
#[derive(Debug, Default)]
pub(super) struct Room {
    /// The ids of all documents.
    pub(super) ids: Vec<u32>,
    /// All records, in order.
    pub(super) items: Vec<Item>,
    /// The bad ones among them, in order.
    pub(super) bad: Vec<Record>,
}

impl Room {
    /// So many bytes are held until it is written.
    pub(super) fn held(&self) -> usize {
        size_of_val(self.ids.as_slice())
            + size_of_val(self.items.as_slice())
            + size_of_val(self.bad.as_slice())
    }

    /// So many bytes are held when it is kept.
    pub(super) fn capacity(&self) -> usize {
        self.ids.capacity() * size_of::<u32>() + self.items.capacity() * size_of::<Item>()
    }
}

/// Encodes the blocks of one job.
pub(super) struct Encoder<'a> {
    tokenizer: &'a Tokenizer,
    job: &'a Job,
    parser: Parser,
    special: Special,
}

impl<'a> Encoder<'a> {
    pub(super) fn new(tokenizer: &'a Tokenizer, job: &'a Job) -> Result<Encoder<'a>> {
        let special = match job.encode.special.as_str() {
            "text" => Special::Text,
            "parse" => Special::Parse,
            "forbid" => Special::Forbid,
            other => {
                return Err(Error::Refused(format!(
                    "special tokens in texts are \"text\", \"parse\" or \"forbid\", not {other:?}"
                )));
            }
        };
        Ok(Encoder {
            tokenizer,
            job,
            parser: Parser::new(&job.read)?,
            special,
        })
    }

    /// Take `block` apart and encode it. Whether its bytes are still wanted, by the quarantine.
    pub(super) fn encode(
        &mut self,
        block: &mut Block,
        room: &mut Room,
        counts: &Counts,
    ) -> Result<bool> {
        counts.timed(Stage::Parse, || self.parser.take_apart(block));
        room.ids.clear();
        room.items.clear();
        room.bad.clear();
        counts.timed(Stage::Encode, || self.encode_all(block, room))?;
        let documents = room.items.iter().filter(|item| item.ids < EMPTY).count();
        let text: u64 = room.items.iter().map(|item| u64::from(item.text)).sum();
        add(&counts.text_bytes, text);
        add(&counts.records, room.items.len() as u64);
        add(&counts.documents, documents as u64);
        add(&counts.tokens, room.ids.len() as u64);
        add(&counts.bad, room.bad.len() as u64);
        Ok(!room.bad.is_empty() && self.job.read.on_error != OnError::Skip)
    }

    fn encode_all(&self, block: &Block, room: &mut Room) -> Result<()> {
        let encode = &self.job.encode;
        for record in &block.records {
            if record.bad.is_some() {
                room.bad.push(*record);
                room.items.push(Item { ids: BAD, text: 0 });
                continue;
            }
            let mut item = Item {
                ids: EMPTY,
                text: record.length,
            };
            if item.text > 0 || self.job.read.keep_empty {
                let before = room.ids.len();
                let bytes = block.bytes.get(record.range()).unwrap_or_default();
                let refused = match simdutf8::basic::from_utf8(bytes) {
                    Ok(text) => self
                        .tokenizer
                        .encode_into(
                            text,
                            &self.special,
                            encode.add_special_tokens,
                            &mut room.ids,
                        )
                        .err(),
                    Err(_) => Some(gristmill::Error::InvalidUtf8 { at: 0, len: 0 }),
                };
                item.ids = (room.ids.len() - before) as u32;
                if let Some(error) = refused {
                    room.bad.push(bad(record, error)?);
                    item.ids = BAD;
                }
            }
            room.items.push(item);
        }
        Ok(())
    }
}

/// A record whose text the tokenizer refused, if it is the text's fault.
fn bad(record: &Record, error: gristmill::Error) -> Result<Record> {
    let (reason, at) = match error {
        gristmill::Error::SpecialToken { at, .. } => (Reason::SpecialToken, at),
        gristmill::Error::Limit { at, .. } => (Reason::Refused, at),
        gristmill::Error::InvalidUtf8 { at, .. } => (Reason::InvalidUtf8, at),
        other => return Err(other.into()),
    };
    Ok(Record {
        bad: Some(reason),
        bad_at: at as u32,
        ..*record
    })
}
