//! `.bin` files of llm.c and modded-nanogpt: 256 numbers of 32 bits, the first three of which say what it
//! is, its version and how many ids follow, then the ids. Ids of 32 bits are llm.c's variant for Llama 3.
//!
//! A file ends before it has more ids than its readers can count, and a document may then go on in the
//! next. Where documents end is kept beside, in `.ends.npy`: the format itself does not say.
//!
//! Invariant: a file is `1024 + ids * width` bytes, and smaller than 2 GiB, which its readers read in one
//! call. Tested against the header's description and with the readers' own code in `tests/readers`.

use super::aside::{Aside, Place};
use super::npy::Ends;
use super::{ShardWriter, Width};
use crate::Result;
use crate::Written;

/// Bytes before the ids.
pub(crate) const HEADER: usize = 1024;

/// What a reader gets in one call on Linux.
const ONE_READ: u64 = 0x7fff_f000;

/// The first two numbers.
pub(crate) fn magic(width: Width) -> [u32; 2] {
    match width {
        Width::U32 | Width::I32 => [20_240_801, 7],
        Width::U8 | Width::U16 => [20_240_520, 1],
    }
}

/// The files of one shard.
pub(super) struct Llmc {
    place: Place,
    width: Width,
    /// The most ids of a file.
    most: u64,
    current: Option<Part>,
    number: u64,
    written: Vec<Written>,
}

/// A file that is being written, and where its documents end.
struct Part {
    file: Aside,
    ends: Ends,
    tokens: u64,
}

impl Llmc {
    pub(super) fn new(place: Place, width: Width, most: Option<u64>) -> Result<Llmc> {
        let cap = (ONE_READ - HEADER as u64) / width.bytes() as u64;
        Ok(Llmc {
            place,
            width,
            most: most.map_or(cap, |most| most.clamp(1, cap)),
            current: None,
            number: 0,
            written: Vec::new(),
        })
    }

    /// The file that has room, opened if need be.
    fn part(&mut self) -> Result<&mut Part> {
        if self
            .current
            .as_ref()
            .is_some_and(|part| part.tokens == self.most)
        {
            self.close()?;
        }
        let part = match self.current.take() {
            Some(part) => part,
            None => {
                let stem = format!("train_{}-{:03}", self.place.name, self.number);
                self.number += 1;
                let mut file = self.place.create(&format!("{stem}.bin"))?;
                file.write(&[0; HEADER])?;
                Part {
                    file,
                    ends: Ends::new(&self.place, &stem)?,
                    tokens: 0,
                }
            }
        };
        Ok(self.current.insert(part))
    }

    fn close(&mut self) -> Result<()> {
        let Some(mut part) = self.current.take() else {
            return Ok(());
        };
        let [magic, version] = magic(self.width);
        let mut header = [0; 12];
        header[..4].copy_from_slice(&magic.to_le_bytes());
        header[4..8].copy_from_slice(&version.to_le_bytes());
        // The cap keeps the number in 31 bits.
        header[8..].copy_from_slice(&(part.tokens as u32).to_le_bytes());
        part.file.rewrite_start(&header)?;
        let documents = part.ends.len();
        self.written.push(part.file.finish(documents, part.tokens)?);
        self.written.push(part.ends.finish()?);
        Ok(())
    }
}

impl ShardWriter for Llmc {
    fn document(&mut self, mut ids: &[u32]) -> Result<()> {
        let (most, width) = (self.most, self.width);
        loop {
            let part = self.part()?;
            let room = usize::try_from(most - part.tokens).unwrap_or(usize::MAX);
            let (now, later) = ids.split_at(room.min(ids.len()));
            part.file.ids(now, width)?;
            part.tokens += now.len() as u64;
            ids = later;
            if ids.is_empty() {
                part.ends.push(part.tokens)?;
                return Ok(());
            }
        }
    }

    fn finish(mut self: Box<Self>) -> Result<Vec<Written>> {
        // A shard without documents is a file without ids.
        self.part()?;
        self.close()?;
        Ok(self.written)
    }
}
