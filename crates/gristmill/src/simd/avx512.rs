//! AVX-512: a block is one register, a mask is what comparisons give anyway.

use std::arch::x86_64::*;

use super::{BLOCK, Isa, Table, Work, both_halves};

/// Proof that the processor has AVX-512 F, BW, VL, VBMI and VBMI2, and BMI.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Avx512(());

impl Avx512 {
    pub(super) fn detect() -> Option<Avx512> {
        (is_x86_feature_detected!("avx512f")
            && is_x86_feature_detected!("avx512bw")
            && is_x86_feature_detected!("avx512vl")
            && is_x86_feature_detected!("avx512vbmi")
            && is_x86_feature_detected!("avx512vbmi2")
            && is_x86_feature_detected!("bmi1")
            && is_x86_feature_detected!("bmi2")
            && is_x86_feature_detected!("lzcnt")
            && is_x86_feature_detected!("popcnt"))
        .then_some(Avx512(()))
    }
}

/// The work, compiled for these instructions.
#[target_feature(
    enable = "avx512f,avx512bw,avx512vl,avx512vbmi,avx512vbmi2,bmi1,bmi2,lzcnt,popcnt"
)]
pub(super) fn run<W: Work>(isa: Avx512, work: W) -> W::Output {
    work.run(isa)
}

// SAFETY (all blocks below): a value of the type exists only where the processor has these
// instructions; loads and stores are within the arrays they are given.
impl Isa for Avx512 {
    type Block = __m512i;

    #[inline(always)]
    fn load(self, bytes: &[u8; BLOCK]) -> Self::Block {
        // SAFETY: as above.
        unsafe { _mm512_loadu_si512(bytes.as_ptr().cast()) }
    }

    #[inline(always)]
    fn lookup(self, block: Self::Block, table: &Table) -> Self::Block {
        // SAFETY: as above; the table has 128 bytes.
        unsafe {
            let low = _mm512_load_si512(table.0.as_ptr().cast());
            let high = _mm512_load_si512(table.0.as_ptr().add(64).cast());
            let ascii = !_mm512_movepi8_mask(block);
            _mm512_maskz_permutex2var_epi8(ascii, low, block, high)
        }
    }

    #[inline(always)]
    fn any(self, block: Self::Block, bits: u8) -> u64 {
        // SAFETY: as above.
        unsafe { _mm512_test_epi8_mask(block, _mm512_set1_epi8(bits as i8)) }
    }

    #[inline(always)]
    fn equal(self, block: Self::Block, byte: u8) -> u64 {
        // SAFETY: as above.
        unsafe { _mm512_cmpeq_epi8_mask(block, _mm512_set1_epi8(byte as i8)) }
    }

    #[inline(always)]
    fn continuations(self, block: Self::Block) -> u64 {
        // SAFETY: as above.
        unsafe { _mm512_cmplt_epi8_mask(block, _mm512_set1_epi8(-64)) }
    }

    #[inline(always)]
    fn find(self, pair: &[[u64; 2]; 2], word: &[u64; 2]) -> u32 {
        // SAFETY: as above.
        let equal = unsafe {
            let pair = _mm256_loadu_si256(pair.as_ptr().cast());
            let word = _mm256_broadcastsi128_si256(_mm_loadu_si128(word.as_ptr().cast()));
            _mm256_cmpeq_epi64_mask(pair, word)
        };
        both_halves(equal.into())
    }

    #[inline(always)]
    fn positions(self, mask: u64, base: u32, out: &mut [u32; BLOCK]) -> usize {
        // SAFETY: as above.
        let base = unsafe { _mm512_set1_epi32(base as i32) };
        self.write(mask, NUMBERS, out, |place| {
            // SAFETY: as above.
            unsafe { _mm512_add_epi32(place, base) }
        })
    }

    #[inline(always)]
    fn marked_positions(self, mask: u64, marked: u64, base: u32, out: &mut [u32; BLOCK]) -> usize {
        // SAFETY: as above.
        let (base, low, numbers) = unsafe {
            let numbers = _mm512_loadu_si512(NUMBERS.as_ptr().cast());
            let marks = _mm512_maskz_set1_epi8(marked, BLOCK as i8);
            let mut all = [0; BLOCK];
            _mm512_storeu_si512(all.as_mut_ptr().cast(), _mm512_or_si512(numbers, marks));
            (
                _mm512_set1_epi32(base as i32),
                _mm512_set1_epi32(BLOCK as i32 - 1),
                all,
            )
        };
        self.write(mask, numbers, out, |place| {
            // SAFETY: as above.
            unsafe {
                // The bit of a mark moves to the top.
                let mark = _mm512_slli_epi32::<25>(_mm512_andnot_si512(low, place));
                _mm512_or_si512(_mm512_add_epi32(_mm512_and_si512(place, low), base), mark)
            }
        })
    }
}

/// The bytes of a block, counted.
const NUMBERS: [u8; BLOCK] = {
    let mut numbers = [0; BLOCK];
    let mut at = 0;
    while at < BLOCK {
        numbers[at] = at as u8;
        at += 1;
    }
    numbers
};

impl Avx512 {
    /// Write those of `bytes` that the mask has, each made wide and then what `finish` makes of it.
    #[inline(always)]
    fn write(
        self,
        mask: u64,
        bytes: [u8; BLOCK],
        out: &mut [u32; BLOCK],
        finish: impl Fn(__m512i) -> __m512i,
    ) -> usize {
        let count = mask.count_ones() as usize;
        // SAFETY: as above; of the 64 places, each round writes 16.
        unsafe {
            let bytes = _mm512_loadu_si512(bytes.as_ptr().cast());
            let packed = _mm512_maskz_compress_epi8(mask, bytes);
            let wide = |bytes| finish(_mm512_cvtepu8_epi32(bytes));
            let out = out.as_mut_ptr();
            _mm512_storeu_si512(out.cast(), wide(_mm512_castsi512_si128(packed)));
            if count > 16 {
                let second = _mm512_extracti32x4_epi32::<1>(packed);
                _mm512_storeu_si512(out.add(16).cast(), wide(second));
                if count > 32 {
                    let third = _mm512_extracti32x4_epi32::<2>(packed);
                    _mm512_storeu_si512(out.add(32).cast(), wide(third));
                    let fourth = _mm512_extracti32x4_epi32::<3>(packed);
                    _mm512_storeu_si512(out.add(48).cast(), wide(fourth));
                }
            }
        }
        count
    }
}
