//! Formats that are ids one behind the other: llm.c's and modded-nanogpt's, nanoGPT's, OLMo's, datatrove's.
//! They differ in what stands before the ids, in the names, and in what lies beside.
//!
//! Where documents end is kept beside every file: in datatrove's own `.index`, and in `.ends.npy` for
//! the others, which do not know. llm.c's files are cut to the very id, so that a document may go on in
//! the next file of its shard; the ids behind the last end are then its beginning. Files of the others
//! end with the document with which they reach `max_tokens`.
//!
//! Invariant: a file is `head + ids * width` bytes; llm.c's are smaller than 2 GiB, which their readers
//! read in one call. Tested by reading back, with numpy, and by the real readers in `tests/readers`.

use flate2::Compression;
use flate2::write::GzEncoder;
use std::io::Write;

use super::aside::{Aside, Place};
use super::npy::Numbers;
use super::{Format, Output, ShardWriter, Width};
use crate::{Result, Written};

/// Bytes before the ids of llm.c.
pub(crate) const LLMC_HEADER: usize = 1024;

/// What a reader gets in one call on Linux.
const ONE_READ: u64 = 0x7fff_f000;

/// What an llm.c file begins with: what it is, and its version.
pub(crate) fn llmc_magic(width: Width) -> [u32; 2] {
    match width {
        Width::U32 | Width::I32 => [20_240_801, 7],
        Width::U8 | Width::U16 => [20_240_520, 1],
    }
}

/// The files of one shard.
pub(super) struct Flat {
    place: Place,
    format: Format,
    width: Width,
    /// The tokenizer's name, for datatrove's metadata.
    tokenizer: String,
    /// The most ids of a file.
    most: u64,
    /// Files end at this very number, and not with a document.
    exact: bool,
    /// More than one file a shard is possible, so that files have numbers.
    numbered: bool,
    current: Option<Part>,
    number: u64,
    documents: u64,
    written: Vec<Written>,
}

/// A file that is being written, and what lies beside it.
struct Part {
    stem: String,
    file: Aside,
    ends: Numbers,
    /// OLMo's rows.
    rows: Option<(Aside, GzEncoder<Vec<u8>>)>,
    tokens: u64,
    /// Where the last document ended.
    end: u64,
}

impl Flat {
    pub(super) fn new(place: Place, output: &Output, width: Width) -> Flat {
        let exact = output.format == Format::Llmc;
        let cap = match exact {
            true => (ONE_READ - LLMC_HEADER as u64) / width.bytes() as u64,
            false => u64::MAX,
        };
        Flat {
            place,
            format: output.format,
            width,
            tokenizer: output.tokenizer.clone().unwrap_or_default(),
            most: output.max_tokens.map_or(cap, |most| most.clamp(1, cap)),
            exact,
            numbered: exact || output.max_tokens.is_some(),
            current: None,
            number: 0,
            documents: 0,
            written: Vec::new(),
        }
    }

    /// The next file.
    fn create(&mut self) -> Result<Part> {
        let mut stem = self.place.name.clone();
        if self.numbered {
            stem = format!("{stem}-{:06}", self.number);
            self.number += 1;
        }
        let (stem, name, ends) = match self.format {
            Format::Llmc => {
                let stem = format!("{stem}_train");
                (
                    stem.clone(),
                    format!("{stem}.bin"),
                    format!("{stem}.ends.npy"),
                )
            }
            Format::Dolma => (
                stem.clone(),
                format!("{stem}.npy"),
                format!("{stem}.ends.npy"),
            ),
            Format::Datatrove => (
                stem.clone(),
                format!("{stem}.ds"),
                format!("{stem}.ds.index"),
            ),
            _ => (
                stem.clone(),
                format!("{stem}.bin"),
                format!("{stem}.ends.npy"),
            ),
        };
        let mut file = self.place.create(&name)?;
        if self.format == Format::Llmc {
            file.write(&[0; LLMC_HEADER])?;
        }
        let rows = match self.format {
            Format::Dolma => Some((
                self.place.create(&format!("{stem}.csv.gz"))?,
                GzEncoder::new(Vec::new(), Compression::default()),
            )),
            _ => None,
        };
        let ends = Numbers::new(&self.place, &ends, self.format != Format::Datatrove)?;
        Ok(Part {
            stem,
            file,
            ends,
            rows,
            tokens: 0,
            end: 0,
        })
    }

    fn part(&mut self) -> Result<&mut Part> {
        let part = match self.current.take() {
            Some(part) => part,
            None => self.create()?,
        };
        Ok(self.current.insert(part))
    }

    fn close(&mut self) -> Result<()> {
        let Some(mut part) = self.current.take() else {
            return Ok(());
        };
        if self.format == Format::Llmc {
            let [magic, version] = llmc_magic(self.width);
            let mut header = [0; 12];
            header[..4].copy_from_slice(&magic.to_le_bytes());
            header[4..8].copy_from_slice(&version.to_le_bytes());
            // The cap keeps the number in 31 bits.
            header[8..].copy_from_slice(&(part.tokens as u32).to_le_bytes());
            part.file.rewrite_start(&header)?;
        }
        let documents = part.ends.len();
        if self.format == Format::Datatrove {
            let mut metadata = self.place.create(&format!("{}.ds.metadata", part.stem))?;
            metadata.write(metadata_of(&self.tokenizer, self.width, part.tokens).as_bytes())?;
            self.written.push(metadata.finish(documents, 0)?);
        }
        if let Some((mut file, rows)) = part.rows {
            let rows = rows.finish().map_err(|error| file.error(error))?;
            file.write(&rows)?;
            self.written.push(file.finish(documents, 0)?);
        }
        self.written.push(part.file.finish(documents, part.tokens)?);
        self.written.push(part.ends.finish()?);
        Ok(())
    }

    /// Note that a document has ended.
    fn end(&mut self) -> Result<()> {
        self.documents += 1;
        let (number, shard) = (self.documents, self.place.name.clone());
        let part = self.part()?;
        part.ends.push(part.tokens)?;
        if let Some((file, rows)) = &mut part.rows {
            // Where a document came from is not known here: its place in the shard stands for it.
            writeln!(rows, "{},{},,{shard},{number}", part.end, part.tokens)
                .map_err(|error| file.error(error))?;
            if rows.get_ref().len() > 1 << 16 {
                file.write(&std::mem::take(rows.get_mut()))?;
            }
        }
        part.end = part.tokens;
        Ok(())
    }
}

impl ShardWriter for Flat {
    fn document(&mut self, mut ids: &[u32]) -> Result<()> {
        let (most, width, exact) = (self.most, self.width, self.exact);
        loop {
            // A file is closed when there is more to come, so that no file is empty but a shard's only one.
            if self
                .current
                .as_ref()
                .is_some_and(|part| part.tokens >= most)
            {
                self.close()?;
            }
            let part = self.part()?;
            let room = match exact {
                true => usize::try_from(most - part.tokens).unwrap_or(usize::MAX),
                false => ids.len(),
            };
            let (now, later) = ids.split_at(room.min(ids.len()));
            part.file.ids(now, width)?;
            part.tokens += now.len() as u64;
            ids = later;
            if ids.is_empty() {
                return self.end();
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

/// datatrove's three lines: whose ids and how wide they are, how many, and that for people. Of a tokenizer
/// without a name it says how wide they are twice.
fn metadata_of(tokenizer: &str, width: Width, tokens: u64) -> String {
    let bytes = width.bytes();
    let name = match tokenizer {
        "" => format!("Unknown Tokenizer|{bytes}"),
        name => name.to_owned(),
    };
    format!("{name}|{bytes}\n{tokens}\n{}", metric(tokens))
}

/// A number with three digits and a letter, as datatrove writes it.
fn metric(number: u64) -> String {
    let mut exponent = number.checked_ilog10().unwrap_or(0) as usize;
    let shown = |exponent: usize| {
        let number = number as f64 / 10f64.powi((exponent / 3 * 3) as i32);
        format!("{number:.*}", 2 - exponent % 3)
    };
    // Rounding may carry: 99950 is 100 k.
    let whole = |text: &str| text.split('.').next().map_or(0, str::len);
    if whole(&shown(exponent)) > exponent % 3 + 1 {
        exponent += 1;
    }
    let letter = ["", "k", "M", "G", "T", "P", "E"]
        .get(exponent / 3)
        .unwrap_or(&"");
    format!("{} {letter}T", shown(exponent))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_for_people_are_those_of_humanize() {
        for (number, text) in [
            (0, "0.00 T"),
            (12, "12.0 T"),
            (999, "999 T"),
            (1000, "1.00 kT"),
            (123_456, "123 kT"),
            (12_345_678, "12.3 MT"),
            (5_000_000_000, "5.00 GT"),
            (9995, "9.99 kT"),
            (9996, "10.0 kT"),
            (99_949, "99.9 kT"),
            (99_950, "100 kT"),
            (999_499, "999 kT"),
            (999_500, "1.00 MT"),
        ] {
            assert_eq!(metric(number), text);
        }
    }
}
