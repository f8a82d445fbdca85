//! NEON: a block is four registers.

use std::arch::aarch64::*;

use super::{BLOCK, Isa, Table, Work, find_in_numbers, marked_one_by_one, positions_one_by_one};

/// Proof that the processor has NEON.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Neon(());

impl Neon {
    pub(super) fn detect() -> Option<Neon> {
        std::arch::is_aarch64_feature_detected!("neon").then_some(Neon(()))
    }
}

/// The work, compiled for these instructions.
#[target_feature(enable = "neon")]
pub(super) fn run<W: Work>(isa: Neon, work: W) -> W::Output {
    work.run(isa)
}

/// The mask of 64 bytes that are all ones or all zeros.
#[inline(always)]
fn mask(block: [uint8x16_t; 4]) -> u64 {
    const WEIGHTS: [u8; 16] = [1, 2, 4, 8, 16, 32, 64, 128, 1, 2, 4, 8, 16, 32, 64, 128];
    // SAFETY: only called with a proof in hand.
    unsafe {
        let weights = vld1q_u8(WEIGHTS.as_ptr());
        let weighted = block.map(|bytes| vandq_u8(bytes, weights));
        let low = vpaddq_u8(weighted[0], weighted[1]);
        let high = vpaddq_u8(weighted[2], weighted[3]);
        let sums = vpaddq_u8(low, high);
        vgetq_lane_u64::<0>(vreinterpretq_u64_u8(vpaddq_u8(sums, sums)))
    }
}

// SAFETY (all blocks below): a value of the type exists only where the processor has these
// instructions; loads and stores are within the arrays they are given.
impl Isa for Neon {
    type Block = [uint8x16_t; 4];

    #[inline(always)]
    fn load(self, bytes: &[u8; BLOCK]) -> Self::Block {
        // SAFETY: as above.
        unsafe { std::array::from_fn(|at| vld1q_u8(bytes.as_ptr().add(16 * at))) }
    }

    #[inline(always)]
    fn lookup(self, block: Self::Block, table: &Table) -> Self::Block {
        let start = table.0.as_ptr();
        // SAFETY: as above; each half of the table has 64 bytes.
        unsafe {
            let low = vld1q_u8_x4(start);
            let high = vld1q_u8_x4(start.add(64));
            block.map(|bytes| {
                let found = vqtbl4q_u8(low, bytes);
                vqtbx4q_u8(found, high, vsubq_u8(bytes, vdupq_n_u8(64)))
            })
        }
    }

    #[inline(always)]
    fn any(self, block: Self::Block, bits: u8) -> u64 {
        // SAFETY: as above.
        unsafe {
            let bits = vdupq_n_u8(bits);
            mask(block.map(|bytes| vtstq_u8(bytes, bits)))
        }
    }

    #[inline(always)]
    fn equal(self, block: Self::Block, byte: u8) -> u64 {
        // SAFETY: as above.
        unsafe {
            let byte = vdupq_n_u8(byte);
            mask(block.map(|bytes| vceqq_u8(bytes, byte)))
        }
    }

    #[inline(always)]
    fn continuations(self, block: Self::Block) -> u64 {
        // SAFETY: as above.
        unsafe {
            let first = vdupq_n_s8(-64);
            mask(block.map(|bytes| vcltq_s8(vreinterpretq_s8_u8(bytes), first)))
        }
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
