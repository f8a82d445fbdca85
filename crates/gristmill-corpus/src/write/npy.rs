//! Arrays as numpy saves them, `.npy` of version 1.0: a header padded to 128 bytes, then the numbers.
//!
//! Invariant: numpy loads and maps them; the header has its length before the number of rows is known.
//! Tested by numpy in `tests/test_shards.py`.

use super::aside::{Aside, Place};
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
    // Three numbers of 20 digits, the most there can be, leave room.
    header[10..10 + text.len()].copy_from_slice(text.as_bytes());
    header[HEADER - 1] = b'\n';
    header
}

/// Where documents end, in ids from the beginning of the file beside: `.ends.npy`, `uint64`.
pub(super) struct Ends {
    file: Aside,
    number: u64,
}

impl Ends {
    pub(super) fn new(place: &Place, stem: &str) -> Result<Ends> {
        let mut file = place.create(&format!("{stem}.ends.npy"))?;
        file.write(&header("<u8", &[0]))?;
        Ok(Ends { file, number: 0 })
    }

    pub(super) fn push(&mut self, end: u64) -> Result<()> {
        self.number += 1;
        self.file.write(&end.to_le_bytes())
    }

    /// How many there are.
    pub(super) fn len(&self) -> u64 {
        self.number
    }

    pub(super) fn finish(mut self) -> Result<Written> {
        self.file.rewrite_start(&header("<u8", &[self.number]))?;
        self.file.finish(self.number, 0)
    }
}
