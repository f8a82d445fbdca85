//! Arrays as numpy saves them, `.npy` of version 1.0: a header padded to 128 bytes, then the numbers.
//!
//! Invariant: numpy loads and maps them; the header has its length before the number of rows is known.
//! Tested by numpy in `tests/test_shards.py`.

use super::aside::{Aside, Place};
use super::rows::{Beside, Items, Piece};
use super::{Sequences, Width};
use crate::{Result, Written};

/// Bytes before the numbers, whatever the shape.
pub(crate) const HEADER: usize = 128;

/// The header of an array in C order.
pub(crate) fn header(dtype: &str, shape: &[u64]) -> [u8; HEADER] {
    let sizes: Vec<String> = shape.iter().map(u64::to_string).collect();
    let comma = if shape.len() == 1 { "," } else { "" };
    let text = format!(
        "{{'descr': '{dtype}', 'fortran_order': False, 'shape': ({}{comma}), }}",
        sizes.join(", ")
    );
    let mut header = [b' '; HEADER];
    header[..8].copy_from_slice(b"\x93NUMPY\x01\0");
    header[8..10].copy_from_slice(&(HEADER as u16 - 10).to_le_bytes());
    // Two numbers of 20 digits, the most there can be, leave room.
    header[10..10 + text.len()].copy_from_slice(text.as_bytes());
    header[HEADER - 1] = b'\n';
    header
}

/// What numpy calls a width.
pub(crate) fn dtype(width: Width) -> &'static str {
    match width {
        Width::U8 => "|u1",
        Width::U16 => "<u2",
        Width::U32 => "<u4",
        Width::I32 => "<i4",
    }
}

/// A list of 64-bit numbers: an array of its own, or only the numbers.
pub(super) struct Numbers {
    file: Aside,
    header: bool,
    number: u64,
}

impl Numbers {
    pub(super) fn new(place: &Place, name: &str, with_header: bool) -> Result<Numbers> {
        let mut file = place.create(name)?;
        if with_header {
            file.write(&header("<u8", &[0]))?;
        }
        Ok(Numbers {
            file,
            header: with_header,
            number: 0,
        })
    }

    pub(super) fn push(&mut self, number: u64) -> Result<()> {
        self.number += 1;
        self.file.write(&number.to_le_bytes())
    }

    /// How many there are.
    pub(super) fn len(&self) -> u64 {
        self.number
    }

    pub(super) fn finish(mut self) -> Result<Written> {
        if self.header {
            self.file.rewrite_start(&header("<u8", &[self.number]))?;
        }
        self.file.finish(self.number, 0)
    }
}

/// Sequences of one length as arrays `[sequences, length]`.
pub(super) struct Npy {
    place: Place,
    width: Width,
    length: u64,
    per_file: Option<u64>,
    current: Option<(Aside, Beside, u64)>,
    number: u64,
    written: Vec<Written>,
}

impl Npy {
    pub(super) fn new(place: Place, width: Width, sequences: &Sequences) -> Npy {
        Npy {
            place,
            width,
            length: sequences.length,
            per_file: sequences.per_file,
            current: None,
            number: 0,
            written: Vec::new(),
        }
    }

    fn create(&mut self) -> Result<(Aside, Beside, u64)> {
        let stem = match self.per_file {
            Some(_) => format!("{}-{:06}", self.place.name, self.number),
            None => self.place.name.clone(),
        };
        self.number += 1;
        let mut file = self.place.create(&format!("{stem}.npy"))?;
        file.write(&header(dtype(self.width), &[0, self.length]))?;
        Ok((file, Beside::new(&self.place, &stem, self.length)?, 0))
    }

    fn close(&mut self) -> Result<()> {
        if let Some((mut file, beside, rows)) = self.current.take() {
            file.rewrite_start(&header(dtype(self.width), &[rows, self.length]))?;
            self.written.push(file.finish(rows, rows * self.length)?);
            self.written.extend(beside.finish()?);
        }
        Ok(())
    }
}

impl Items for Npy {
    fn item(&mut self, ids: &[u32], pieces: &[Piece]) -> Result<()> {
        let mut current = match self.current.take() {
            Some(current) => current,
            None => self.create()?,
        };
        current.0.ids(ids, self.width)?;
        current.1.row(current.2, pieces)?;
        current.2 += 1;
        let full = self.per_file.is_some_and(|most| current.2 >= most);
        self.current = Some(current);
        if full { self.close() } else { Ok(()) }
    }

    fn finish(mut self: Box<Self>) -> Result<Vec<Written>> {
        if self.number == 0 {
            // A shard without documents is an array without rows.
            self.current = Some(self.create()?);
        }
        self.close()?;
        Ok(self.written)
    }
}
