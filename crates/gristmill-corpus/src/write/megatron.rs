//! Megatron-LM's `.bin` and `.idx`, of its version 1: byte for byte what its own builder writes when every
//! document is one sequence.
//!
//! `.bin` holds the ids of all documents, nothing else. `.idx` holds the length of each document, where
//! it begins in `.bin`, and which sequences are which document. A document without ids has no sequence:
//! it only repeats the last entry of the document index.
//!
//! Invariant: `.idx` is `34 + 12 * sequences + 8 * (documents + 1)` bytes. Tested against golden files
//! that megatron-core made, and by its reader in `tests/readers`.

use super::aside::{Aside, Place};
use super::{ShardWriter, Width};
use crate::{Error, Result, Written};

/// What `.idx` begins with.
pub(crate) const MAGIC: &[u8; 9] = b"MMIDIDX\0\0";

/// Its version, as 64 bits.
pub(crate) const VERSION: u64 = 1;

/// The number of a width in `.idx`. There is none for 32 bits without a sign.
pub(crate) fn code(width: Width) -> Option<u8> {
    match width {
        Width::U8 => Some(1),
        Width::I32 => Some(4),
        Width::U16 => Some(8),
        Width::U32 => None,
    }
}

/// Both files of one shard. The index is kept in four bytes a document until the end.
pub(super) struct Megatron {
    bin: Aside,
    idx: Aside,
    width: Width,
    /// The length of every document in ids.
    lengths: Vec<u32>,
    /// How many of them are 0.
    empty: u64,
    tokens: u64,
    /// The most ids of a document: lengths have 32 bits and a sign.
    longest: usize,
}

impl Megatron {
    pub(super) fn new(place: &Place, width: Width) -> Result<Megatron> {
        Ok(Megatron {
            bin: place.create(&format!("{}.bin", place.name))?,
            idx: place.create(&format!("{}.idx", place.name))?,
            width,
            lengths: Vec::new(),
            empty: 0,
            tokens: 0,
            longest: i32::MAX as usize,
        })
    }

    fn index(&mut self) -> Result<()> {
        let Some(code) = code(self.width) else {
            return Err(Error::Refused("Megatron has no such ids".to_owned()));
        };
        let documents = self.lengths.len() as u64;
        let idx = &mut self.idx;
        idx.write(MAGIC)?;
        idx.write(&VERSION.to_le_bytes())?;
        idx.write(&[code])?;
        idx.write(&(documents - self.empty).to_le_bytes())?;
        idx.write(&(documents + 1).to_le_bytes())?;
        for length in self.lengths.iter().filter(|length| **length > 0) {
            idx.write(&length.to_le_bytes())?;
        }
        let mut pointer = 0u64;
        for length in self.lengths.iter().filter(|length| **length > 0) {
            idx.write(&pointer.to_le_bytes())?;
            pointer += u64::from(*length) * self.width.bytes() as u64;
        }
        let mut sequences = 0u64;
        idx.write(&sequences.to_le_bytes())?;
        for length in &self.lengths {
            sequences += u64::from(*length > 0);
            idx.write(&sequences.to_le_bytes())?;
        }
        Ok(())
    }
}

impl ShardWriter for Megatron {
    fn document(&mut self, ids: &[u32]) -> Result<()> {
        let length = match u32::try_from(ids.len()) {
            Ok(length) if ids.len() <= self.longest => length,
            _ => {
                return Err(Error::Refused(format!(
                    "a document of {} ids is too long for Megatron, which counts up to {}; \
                     --max-document leaves such documents out",
                    ids.len(),
                    self.longest
                )));
            }
        };
        self.bin.ids(ids, self.width)?;
        self.lengths.push(length);
        self.empty += u64::from(length == 0);
        self.tokens += u64::from(length);
        Ok(())
    }

    fn finish(mut self: Box<Self>) -> Result<Vec<Written>> {
        self.index()?;
        let documents = self.lengths.len() as u64;
        Ok(vec![
            self.bin.finish(documents, self.tokens)?,
            self.idx.finish(documents, 0)?,
        ])
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Format, Output, open};
    use super::*;

    fn output() -> Output {
        Output {
            format: Format::Megatron,
            before: vec![],
            after: vec![50256],
            id_end: 50257,
            width: None,
            sequences: None,
            max_tokens: None,
            tokenizer: None,
        }
    }

    #[test]
    fn the_bytes_are_those_of_the_description() {
        let folder = tempfile::tempdir().unwrap();
        let mut writer = open(&output(), folder.path(), "a").unwrap();
        for ids in [&[5, 6, 7][..], &[8], &[9, 10, 11, 12, 13]] {
            writer.document(ids).unwrap();
        }
        let written = writer.finish().unwrap();
        assert_eq!(written[0].name, "megatron/a.bin");
        assert_eq!((written[0].items, written[0].tokens), (3, 12));
        let idx = std::fs::read(folder.path().join("megatron/a.idx.aside")).unwrap();
        let mut expected = b"MMIDIDX\0\0\x01\0\0\0\0\0\0\0\x08".to_vec();
        for number in [3u64, 4] {
            expected.extend(number.to_le_bytes());
        }
        for length in [4u32, 2, 6] {
            expected.extend(length.to_le_bytes());
        }
        for number in [0u64, 8, 12, 0, 1, 2, 3] {
            expected.extend(number.to_le_bytes());
        }
        assert_eq!(idx, expected);
        assert_eq!(written[1].bytes, 102);
        let hash = xxhash_rust::xxh3::xxh3_128(&idx);
        assert_eq!(written[1].xxh3, format!("{hash:032x}"));
    }

    #[test]
    fn a_document_without_ids_has_no_sequence_and_nothing_around_it() {
        let folder = tempfile::tempdir().unwrap();
        let mut writer = open(&output(), folder.path(), "a").unwrap();
        for ids in [&[][..], &[8], &[]] {
            writer.document(ids).unwrap();
        }
        writer.finish().unwrap();
        let bin = std::fs::read(folder.path().join("megatron/a.bin.aside")).unwrap();
        assert_eq!(bin, [8, 0, 0x50, 0xc4]);
        let idx = std::fs::read(folder.path().join("megatron/a.idx.aside")).unwrap();
        let documents: Vec<u8> = [0u64, 0, 1, 1]
            .iter()
            .flat_map(|n| n.to_le_bytes())
            .collect();
        assert!(idx.ends_with(&documents));
    }

    #[test]
    fn the_width_changes_at_65500() {
        let at = |id_end| super::super::width(&Output { id_end, ..output() }).unwrap();
        assert_eq!(at(65_499), Width::U16);
        assert_eq!(at(65_500), Width::I32);
    }

    #[test]
    fn a_document_longer_than_the_index_can_say_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let place = Place::new(folder.path(), "megatron", "a").unwrap();
        let mut writer = Megatron::new(&place, Width::U16).unwrap();
        writer.longest = 3;
        writer.document(&[1, 2, 3]).unwrap();
        let error = writer.document(&[1, 2, 3, 4]).unwrap_err().to_string();
        assert!(error.contains("a document of 4 ids is too long"), "{error}");
    }
}
