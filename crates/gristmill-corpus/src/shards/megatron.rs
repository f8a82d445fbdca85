//! Documents of Megatron-LM's `.bin` and `.idx`, also of those that others wrote.
//!
//! Nothing of the index is held in memory: each number is read where it is needed. Tested by reading back
//! what was written, and by cutting and changing it.

use std::path::Path;

use super::Documents;
use super::window::Window;
use crate::Result;
use crate::write::{MEGATRON_MAGIC, MEGATRON_VERSION, Width, megatron_code};

/// Bytes before the lengths.
const HEADER: u64 = 34;

/// Both files of a shard.
pub(super) struct Megatron {
    bin: Window,
    /// The index three times, once for each of its lists, so that each is read on from where it was.
    lengths: Window,
    places: Window,
    firsts: Window,
    width: Width,
    sequences: u64,
    documents: u64,
}

impl Megatron {
    pub(super) fn open(bin: &Path, idx: &Path) -> Result<Megatron> {
        let (bin, places, firsts) = (Window::open(bin)?, Window::open(idx)?, Window::open(idx)?);
        let mut idx = Window::open(idx)?;
        if idx.bytes(0, 9)? != MEGATRON_MAGIC {
            return Err(idx.damaged("is no index of Megatron: it does not begin with MMIDIDX"));
        }
        let version = idx.u64(9)?;
        if version != MEGATRON_VERSION {
            return Err(idx.damaged(format!("has version {version}, which is not known")));
        }
        let code = idx.bytes(17, 1)?.first().copied();
        let width = [Width::U8, Width::U16, Width::I32]
            .into_iter()
            .find(|width| megatron_code(*width) == code);
        let Some(width) = width else {
            return Err(idx.damaged(format!("holds numbers of type {code:?}, which are no ids")));
        };
        let (sequences, ends) = (idx.u64(18)?, idx.u64(26)?);
        let size = sequences
            .checked_mul(12)
            .zip(ends.checked_mul(8))
            .and_then(|(lengths, documents)| lengths.checked_add(documents))
            .and_then(|bytes| bytes.checked_add(HEADER));
        // Indexes of several modes have one more byte a sequence.
        let with_modes = size.and_then(|size| size.checked_add(sequences));
        if ends == 0 || (size != Some(idx.size()) && with_modes != Some(idx.size())) {
            let have = idx.size();
            return Err(idx.damaged(format!(
                "has {have} bytes, which is not what {sequences} sequences of {ends} documents take"
            )));
        }
        let mut shard = Megatron {
            bin,
            lengths: idx,
            places,
            firsts,
            width,
            sequences,
            documents: ends - 1,
        };
        shard.check_ends()?;
        Ok(shard)
    }

    /// The last sequence ends where `.bin` does, and is the last document's.
    fn check_ends(&mut self) -> Result<()> {
        let end = match self.sequences {
            0 => 0,
            number => {
                let (start, length) = self.sequence(number - 1)?;
                start + length * self.width.bytes() as u64
            }
        };
        if end != self.bin.size() {
            let have = self.bin.size();
            return Err(self.bin.damaged(format!(
                "has {have} bytes, and its index says that it ends at {end}"
            )));
        }
        let last = self.document_start(self.documents)?;
        if last != self.sequences {
            return Err(self.firsts.damaged(format!(
                "its documents end at sequence {last}, and it has {}",
                self.sequences
            )));
        }
        Ok(())
    }

    /// Where a sequence begins in `.bin`, and its ids.
    fn sequence(&mut self, number: u64) -> Result<(u64, u64)> {
        let length = self.lengths.u32(HEADER + 4 * number)?;
        let start = self.places.u64(HEADER + 4 * self.sequences + 8 * number)?;
        if length > i32::MAX as u32 || start > self.bin.size() {
            return Err(self.firsts.damaged(format!(
                "sequence {number} has {} ids at byte {start} of {}",
                length as i32,
                self.bin.size()
            )));
        }
        Ok((start, u64::from(length)))
    }

    /// The first sequence of a document.
    fn document_start(&mut self, number: u64) -> Result<u64> {
        self.firsts.u64(HEADER + 12 * self.sequences + 8 * number)
    }
}

impl Documents for Megatron {
    fn len(&self) -> u64 {
        self.documents
    }

    fn width(&self) -> Width {
        self.width
    }

    fn read(&mut self, number: u64, ids: &mut Vec<u32>) -> Result<()> {
        let (first, end) = (
            self.document_start(number)?,
            self.document_start(number + 1)?,
        );
        if first > end || end > self.sequences {
            return Err(self.firsts.damaged(format!(
                "document {number} has the sequences from {first} to {end} of {}",
                self.sequences
            )));
        }
        for sequence in first..end {
            let (start, length) = self.sequence(sequence)?;
            self.bin.ids(start, length, self.width, ids)?;
        }
        Ok(())
    }
}
