//! AVX2: a block is two registers.

use std::arch::x86_64::*;

use super::{BLOCK, Isa, Table, Work, both_halves, marked_one_by_one, positions_one_by_one};

/// Proof that the processor has AVX2 and BMI.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Avx2(());

impl Avx2 {
    pub(super) fn detect() -> Option<Avx2> {
        (is_x86_feature_detected!("avx2")
            && is_x86_feature_detected!("bmi1")
            && is_x86_feature_detected!("bmi2")
            && is_x86_feature_detected!("lzcnt")
            && is_x86_feature_detected!("popcnt"))
        .then_some(Avx2(()))
    }
}

/// The work, compiled for these instructions.
#[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
pub(super) fn run<W: Work>(isa: Avx2, work: W) -> W::Output {
    work.run(isa)
}

/// The highest bits of 64 bytes.
#[inline(always)]
fn mask(low: __m256i, high: __m256i) -> u64 {
    // SAFETY: only called with a proof in hand.
    let (low, high) = unsafe { (_mm256_movemask_epi8(low), _mm256_movemask_epi8(high)) };
    u64::from(low as u32) | u64::from(high as u32) << 32
}

// SAFETY (all blocks below): a value of the type exists only where the processor has these
// instructions; loads and stores are within the arrays they are given.
impl Isa for Avx2 {
    type Block = (__m256i, __m256i);

    #[inline(always)]
    fn load(self, bytes: &[u8; BLOCK]) -> Self::Block {
        let start = bytes.as_ptr();
        // SAFETY: as above.
        unsafe {
            (
                _mm256_loadu_si256(start.cast()),
                _mm256_loadu_si256(start.add(32).cast()),
            )
        }
    }

    #[inline(always)]
    fn lookup(self, block: Self::Block, table: &Table) -> Self::Block {
        // SAFETY: as above; each of the eight rows of the table has 16 bytes.
        unsafe {
            let mut found = (_mm256_setzero_si256(), _mm256_setzero_si256());
            for row in 0..8u8 {
                let start = table.0.as_ptr().add(16 * usize::from(row));
                let entries = _mm256_broadcastsi128_si256(_mm_load_si128(start.cast()));
                let first = _mm256_set1_epi8((16 * row) as i8);
                // Of this row 0x70 to 0x7F, of any other at least 0x80, for which the shuffle gives 0.
                let of_row = |bytes| {
                    let beyond = _mm256_sub_epi8(bytes, first);
                    let index = _mm256_adds_epu8(beyond, _mm256_set1_epi8(0x70));
                    _mm256_shuffle_epi8(entries, index)
                };
                found.0 = _mm256_or_si256(found.0, of_row(block.0));
                found.1 = _mm256_or_si256(found.1, of_row(block.1));
            }
            found
        }
    }

    #[inline(always)]
    fn any(self, block: Self::Block, bits: u8) -> u64 {
        // SAFETY: as above.
        unsafe {
            let bits = _mm256_set1_epi8(bits as i8);
            let none =
                |bytes| _mm256_cmpeq_epi8(_mm256_and_si256(bytes, bits), _mm256_setzero_si256());
            !mask(none(block.0), none(block.1))
        }
    }

    #[inline(always)]
    fn equal(self, block: Self::Block, byte: u8) -> u64 {
        // SAFETY: as above.
        unsafe {
            let byte = _mm256_set1_epi8(byte as i8);
            mask(
                _mm256_cmpeq_epi8(block.0, byte),
                _mm256_cmpeq_epi8(block.1, byte),
            )
        }
    }

    #[inline(always)]
    fn continuations(self, block: Self::Block) -> u64 {
        // SAFETY: as above.
        unsafe {
            let first = _mm256_set1_epi8(-64);
            mask(
                _mm256_cmpgt_epi8(first, block.0),
                _mm256_cmpgt_epi8(first, block.1),
            )
        }
    }

    #[inline(always)]
    fn find(self, pair: &[[u64; 2]; 2], word: &[u64; 2]) -> u32 {
        // SAFETY: as above.
        let equal = unsafe {
            let pair = _mm256_loadu_si256(pair.as_ptr().cast());
            let word = _mm256_broadcastsi128_si256(_mm_loadu_si128(word.as_ptr().cast()));
            _mm256_movemask_pd(_mm256_castsi256_pd(_mm256_cmpeq_epi64(pair, word)))
        };
        both_halves(equal as u32)
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
