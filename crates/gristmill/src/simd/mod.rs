//! Sixty-four bytes at a time, on whatever the processor has for it.
//!
//! An algorithm is written once, over [`Isa`]: a handful of operations on a block of 64 bytes, most
//! of which answer with one bit for each byte. It is packed as [`Work`] and given to
//! [`Tier::run`], which compiles it once for each instruction set and runs the copy for the best one
//! that is here. This is the only room of the crate with `unsafe`; a value of an instruction set's type
//! is the proof that the processor has it, and only detection makes one.
//!
//! `GRISTMILL_SIMD` (`avx512`, `avx2`, `neon`, `plain`) asks for a lesser tier, for tests and
//! measurements; one that is not here is ignored. Every tier is tested against the plain one below.

#![expect(
    unsafe_code,
    reason = "intrinsics, each behind a proof that the processor has them"
)]

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
#[cfg(target_arch = "aarch64")]
mod neon;
mod plain;

use std::sync::OnceLock;

#[cfg(test)]
pub(crate) use plain::Plain;

/// The bytes of a block.
pub(crate) const BLOCK: usize = 64;

/// One byte for each ASCII character, to be looked up 64 at a time.
#[derive(Clone, Debug)]
#[repr(align(64))]
pub(crate) struct Table(pub(crate) [u8; 128]);

/// An instruction set: what can be done with 64 bytes. A mask has the bit `i` for the byte `i`.
pub(crate) trait Isa: Copy {
    /// 64 bytes in registers.
    type Block: Copy;

    /// The block of these bytes.
    fn load(self, bytes: &[u8; BLOCK]) -> Self::Block;

    /// What the table says of each byte; 0 for bytes outside ASCII.
    fn lookup(self, block: Self::Block, table: &Table) -> Self::Block;

    /// Which bytes have one of these bits.
    fn any(self, block: Self::Block, bits: u8) -> u64;

    /// Which bytes are this byte.
    fn equal(self, block: Self::Block, byte: u8) -> u64;

    /// Which bytes continue a character of UTF-8: 0x80 to 0xBF.
    fn continuations(self, block: Self::Block) -> u64;

    /// Which of the two words `pair` is `word`: bit 0 for the first, bit 2 for the second.
    fn find(self, pair: &[[u64; 2]; 2], word: &[u64; 2]) -> u32;

    /// Write the number of each bit of `mask` plus `base`, lowest first; what lies behind is overwritten with
    /// anything. Returns how many there are.
    fn positions(self, mask: u64, base: u32, out: &mut [u32; BLOCK]) -> usize;

    /// [`Isa::positions`], with [`MARK`] added to those that `marked` has too.
    fn marked_positions(self, mask: u64, marked: u64, base: u32, out: &mut [u32; BLOCK]) -> usize;
}

/// Beside a position.
pub(crate) const MARK: u32 = 1 << 31;

/// Something to do with an instruction set. `run` is to be `#[inline(always)]`, as is everything that
/// it calls with the instruction set.
pub(crate) trait Work {
    /// What comes of it.
    type Output;

    /// Do it.
    fn run<I: Isa>(self, isa: I) -> Self::Output;
}

/// The instruction set in use.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Tier {
    /// AVX-512 with byte permutations: Ice Lake, Zen 4 and later.
    #[cfg(target_arch = "x86_64")]
    Avx512(avx512::Avx512),
    /// AVX2: Haswell, Zen and later.
    #[cfg(target_arch = "x86_64")]
    Avx2(avx2::Avx2),
    /// Every 64-bit ARM.
    #[cfg(target_arch = "aarch64")]
    Neon(neon::Neon),
    /// Any processor.
    Plain(plain::Plain),
}

impl Tier {
    /// The best tier of this processor, or the one asked for.
    pub(crate) fn get() -> Tier {
        static TIER: OnceLock<Tier> = OnceLock::new();
        *TIER.get_or_init(|| {
            let asked = std::env::var("GRISTMILL_SIMD").unwrap_or_default();
            let tiers = Tier::all();
            let wanted = tiers.iter().find(|tier| tier.name() == asked);
            *wanted
                .or(tiers.first())
                .unwrap_or(&Tier::Plain(plain::Plain))
        })
    }

    /// Every tier of this processor, best first.
    pub(crate) fn all() -> Vec<Tier> {
        let mut tiers = Vec::new();
        #[cfg(target_arch = "x86_64")]
        {
            tiers.extend(avx512::Avx512::detect().map(Tier::Avx512));
            tiers.extend(avx2::Avx2::detect().map(Tier::Avx2));
        }
        #[cfg(target_arch = "aarch64")]
        tiers.extend(neon::Neon::detect().map(Tier::Neon));
        tiers.push(Tier::Plain(plain::Plain));
        tiers
    }

    /// How `GRISTMILL_SIMD` calls the tier.
    pub(crate) fn name(self) -> &'static str {
        match self {
            #[cfg(target_arch = "x86_64")]
            Tier::Avx512(_) => "avx512",
            #[cfg(target_arch = "x86_64")]
            Tier::Avx2(_) => "avx2",
            #[cfg(target_arch = "aarch64")]
            Tier::Neon(_) => "neon",
            Tier::Plain(_) => "plain",
        }
    }

    /// Do some work in the copy compiled for this tier.
    #[inline]
    pub(crate) fn run<W: Work>(self, work: W) -> W::Output {
        match self {
            #[cfg(target_arch = "x86_64")]
            // SAFETY: the value proves that the processor has what the function is compiled for.
            Tier::Avx512(isa) => unsafe { avx512::run(isa, work) },
            #[cfg(target_arch = "x86_64")]
            // SAFETY: the value proves that the processor has what the function is compiled for.
            Tier::Avx2(isa) => unsafe { avx2::run(isa, work) },
            #[cfg(target_arch = "aarch64")]
            // SAFETY: the value proves that the processor has what the function is compiled for.
            Tier::Neon(isa) => unsafe { neon::run(isa, work) },
            Tier::Plain(isa) => work.run(isa),
        }
    }
}

/// Fetch the line of memory that `place` begins in, to be read soon.
#[inline(always)]
pub(crate) fn prefetch<T>(place: &T) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: every x86-64 processor has it, and it does nothing that a program could tell.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(std::ptr::from_ref(place).cast()) }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = place;
}

/// [`Isa::find`] without vectors, and without a branch.
#[inline(always)]
fn find_in_numbers(pair: &[[u64; 2]; 2], word: &[u64; 2]) -> u32 {
    let same = |one: &[u64; 2]| u32::from((one[0] ^ word[0]) | (one[1] ^ word[1]) == 0);
    same(&pair[0]) | same(&pair[1]) << 2
}

/// Of two masks of two bits each, bit 0 and bit 2 where both bits are set.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn both_halves(mask: u32) -> u32 {
    mask & mask >> 1 & 0b101
}

/// The positions of the bits of a mask, one by one.
#[inline(always)]
fn positions_one_by_one(mut mask: u64, base: u32, out: &mut [u32; BLOCK]) -> usize {
    let count = mask.count_ones() as usize;
    for place in out.iter_mut().take(count) {
        *place = base.wrapping_add(mask.trailing_zeros());
        mask &= mask.wrapping_sub(1);
    }
    count
}

/// The same, some of them marked.
#[inline(always)]
fn marked_one_by_one(mut mask: u64, marked: u64, base: u32, out: &mut [u32; BLOCK]) -> usize {
    let count = mask.count_ones() as usize;
    for place in out.iter_mut().take(count) {
        let at = mask.trailing_zeros();
        *place = base.wrapping_add(at) | ((marked >> at & 1) as u32 * MARK);
        mask &= mask.wrapping_sub(1);
    }
    count
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every answer of an instruction set about some bytes.
    #[derive(Clone, Copy)]
    struct Answers<'a> {
        bytes: &'a [u8; BLOCK],
        table: &'a Table,
        bits: u8,
        byte: u8,
        mask: u64,
    }

    impl Work for Answers<'_> {
        type Output = (Vec<u64>, Vec<u32>);

        #[inline(always)]
        fn run<I: Isa>(self, isa: I) -> Self::Output {
            let block = isa.load(self.bytes);
            let found = isa.lookup(block, self.table);
            let mut masks = vec![
                isa.any(block, self.bits),
                isa.equal(block, self.byte),
                isa.continuations(block),
            ];
            // What was found, bit by bit.
            masks.extend((0..8).map(|bit| isa.any(found, 1 << bit)));
            let numbers = |at: usize| [0, 8].map(|ahead| (self.bytes[at + ahead] & 1).into());
            let pair = [numbers(0), numbers(1)];
            masks.push(isa.find(&pair, &numbers(2)).into());
            let mut places = [0; BLOCK];
            let count = isa.positions(self.mask, 1000, &mut places);
            let mut all = places[..count].to_vec();
            let marked = u64::from_le_bytes(*self.bytes.first_chunk().unwrap());
            let count = isa.marked_positions(self.mask, marked, 1000, &mut places);
            all.extend(&places[..count]);
            (masks, all)
        }
    }

    #[test]
    fn every_tier_answers_by_definition() {
        let mut state = 0x9E37_79B9_7F4A_7C15u64;
        let mut random = || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state
        };
        for round in 0..4000u32 {
            let bytes: [u8; BLOCK] = std::array::from_fn(|_| (random() >> 32) as u8);
            let table = Table(std::array::from_fn(|_| (random() >> 32) as u8));
            let bits = 1 << (random() % 8);
            let byte = bytes[(random() % 64) as usize];
            let mask = match round % 4 {
                0 => random(),
                1 => random() & random() & random(),
                2 => u64::MAX,
                _ => 0,
            };
            let of = |test: &dyn Fn(u8) -> bool| {
                (0..BLOCK).fold(0, |mask, at| mask | u64::from(test(bytes[at])) << at)
            };
            let found = |byte: u8| table.0.get(usize::from(byte)).copied().unwrap_or(0);
            let mut masks = vec![
                of(&|other| other & bits != 0),
                of(&|other| other == byte),
                of(&|other| other & 0xC0 == 0x80),
            ];
            masks.extend((0..8).map(|bit| of(&|other| found(other) >> bit & 1 == 1)));
            let word = |at: usize| [bytes[at] & 1, bytes[at + 8] & 1];
            let same = |at: usize| u64::from(word(at) == word(2));
            masks.push(same(0) | same(1) << 2);
            let marked = u64::from_le_bytes(*bytes.first_chunk().unwrap());
            let places = (0..64).filter(|at| mask >> at & 1 == 1);
            let plain = places.clone().map(|at| at + 1000);
            let mark = |at: u32| if marked >> at & 1 == 1 { MARK } else { 0 };
            let expected: (Vec<u64>, Vec<u32>) = (
                masks,
                plain.chain(places.map(|at| at + 1000 + mark(at))).collect(),
            );
            let answers = Answers {
                bytes: &bytes,
                table: &table,
                bits,
                byte,
                mask,
            };
            for tier in Tier::all() {
                assert!(tier.run(answers) == expected, "{} {bytes:?}", tier.name());
            }
        }
    }
}
