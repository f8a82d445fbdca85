//! Any processor: byte by byte, in loops that compilers turn into whatever the target has.

use super::{BLOCK, Isa, Table, find_in_numbers, marked_one_by_one, positions_one_by_one};

/// No particular instruction set.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plain;

impl Isa for Plain {
    type Block = [u8; BLOCK];

    #[inline(always)]
    fn load(self, bytes: &[u8; BLOCK]) -> Self::Block {
        *bytes
    }

    #[inline(always)]
    fn lookup(self, block: Self::Block, table: &Table) -> Self::Block {
        block.map(|byte| {
            let found = table.0[usize::from(byte & 0x7F)];
            if byte < 0x80 { found } else { 0 }
        })
    }

    #[inline(always)]
    fn any(self, block: Self::Block, bits: u8) -> u64 {
        mask(&block.map(|byte| u8::from(byte & bits != 0)))
    }

    #[inline(always)]
    fn equal(self, block: Self::Block, byte: u8) -> u64 {
        mask(&block.map(|other| u8::from(other == byte)))
    }

    #[inline(always)]
    fn continuations(self, block: Self::Block) -> u64 {
        mask(&block.map(|byte| u8::from(byte & 0xC0 == 0x80)))
    }

    #[inline(always)]
    fn find(self, pair: &[[u64; 2]; 2], word: &[u64; 2]) -> u32 {
        find_in_numbers(pair, word)
    }

    #[inline(always)]
    fn positions(self, mask: u64, base: u32, out: &mut [u32; BLOCK]) -> usize {
        positions_one_by_one(mask, base, out)
    }

    #[inline(always)]
    fn marked_positions(self, mask: u64, marked: u64, base: u32, out: &mut [u32; BLOCK]) -> usize {
        marked_one_by_one(mask, marked, base, out)
    }
}

/// The lowest bits of 64 bytes that are 0 or 1.
#[inline(always)]
fn mask(bytes: &[u8; BLOCK]) -> u64 {
    let (words, _) = bytes.as_chunks::<8>();
    words.iter().enumerate().fold(0, |mask, (at, word)| {
        // The product moves the bit of byte `i` to bit `56 + i`; no two of its terms meet.
        let gathered = u64::from_le_bytes(*word).wrapping_mul(0x0102_0408_1020_4080) >> 56;
        mask | gathered << (8 * at)
    })
}
