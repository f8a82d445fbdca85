//! Short byte strings as numbers: compared at once, hashed in a few steps.
//!
//! A key holds the bytes, zeros, and in its last byte the length, so that no two strings share one.
//! Tested below.

use crate::memory::Word;

/// The longest string of a short key.
pub(super) const SHORT: usize = 15;
/// The longest string of a long one.
pub(super) const LONG: usize = 31;

/// What some bytes are: the same bytes may have other ids as a piece than as a part of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// A whole piece, which may be a token as a whole.
    Piece,
    /// A part of a piece, whose ids come of merging.
    Unit,
}

/// A string of up to 15 bytes. No string has zeros alone.
pub(super) type ShortKey = Word;
/// The same for up to 31.
pub(super) type LongKey = [Word; 2];

/// Beside the length: the bytes are a part of a piece.
const UNIT_SHIFT: u32 = 63;
/// Where the length is in the last number.
const LENGTH_SHIFT: u32 = 56;

/// The key of up to 15 bytes.
#[inline]
pub(super) fn short_key(bytes: &[u8], part: Part) -> ShortKey {
    let [key] = key(bytes, part);
    key
}

/// The key of up to 31 bytes.
#[inline]
pub(super) fn long_key(bytes: &[u8], part: Part) -> LongKey {
    key(bytes, part)
}

/// The bytes and, in the last place, their number.
#[inline]
fn key<const WORDS: usize>(bytes: &[u8], part: Part) -> [Word; WORDS] {
    let mut padded = [[[0; 8]; 2]; WORDS];
    padded.as_flattened_mut().as_flattened_mut()[..bytes.len()].copy_from_slice(bytes);
    let mut words = padded.map(|word| word.map(u64::from_le_bytes));
    words[WORDS - 1][1] |= end(bytes.len(), part == Part::Unit);
    words
}

#[inline(always)]
fn end(length: usize, is_unit: bool) -> u64 {
    (length as u64) << LENGTH_SHIFT | u64::from(is_unit) << UNIT_SHIFT
}

/// The bits of so many of 16 bytes.
const KEPT: [ShortKey; 17] = {
    let mut kept = [[0; 2]; 17];
    let mut length = 1;
    while length <= 16 {
        let bits = u128::MAX >> (128 - 8 * length);
        kept[length] = [bits as u64, (bits >> 64) as u64];
        length += 1;
    }
    kept
};

/// The key of the lowest `length` bytes, up to 15, of sixteen.
#[inline(always)]
pub(super) fn short_key_of(bytes: u128, length: usize, is_unit: bool) -> ShortKey {
    let kept = KEPT[length & 15];
    [
        bytes as u64 & kept[0],
        (bytes >> 64) as u64 & kept[1] | end(length, is_unit),
    ]
}

/// The key of the first `length` bytes, 16 to 31, of these.
#[inline(always)]
pub(super) fn long_key_of(bytes: &[u8; 32], length: usize, is_unit: bool) -> LongKey {
    let (halves, _) = bytes.as_chunks::<16>();
    let [low, high] = [halves[0], halves[1]].map(u128::from_le_bytes);
    let kept = KEPT[length & 15];
    [
        [low as u64, (low >> 64) as u64],
        [
            high as u64 & kept[0],
            (high >> 64) as u64 & kept[1] | end(length, is_unit),
        ],
    ]
}

/// The length of the string of a key.
#[inline(always)]
pub(super) fn length_of(key: ShortKey) -> usize {
    (key[1] >> LENGTH_SHIFT) as usize & SHORT
}

/// The bytes of a key, the first one lowest, its length above them.
#[inline(always)]
pub(super) fn bytes_of(key: ShortKey) -> u128 {
    u128::from(key[0]) | u128::from(key[1]) << 64
}

#[inline(always)]
pub(super) fn hash(key: ShortKey) -> u64 {
    mixed(key[0], key[1])
}

#[inline(always)]
pub(super) fn long_hash(key: &LongKey) -> u64 {
    let [[a, b], [c, d]] = *key;
    mixed(mixed(a, b), mixed(c, d))
}

/// Both numbers, multiplied, and the product folded.
#[inline(always)]
fn mixed(a: u64, b: u64) -> u64 {
    const ODD: u64 = 0x9E37_79B9_7F4A_7C15;
    const OTHER: u64 = 0xD6E8_FEB8_6659_FD93;
    let product = u128::from(a ^ ODD) * u128::from(b ^ OTHER);
    product as u64 ^ (product >> 64) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ways_to_a_key_are_one() {
        let bytes: [u8; 32] = std::array::from_fn(|at| at as u8 ^ 0xA5);
        let low = u128::from_le_bytes(*bytes.first_chunk().unwrap());
        for (part, is_unit) in [(Part::Piece, false), (Part::Unit, true)] {
            for length in 1..=SHORT {
                let key = short_key(&bytes[..length], part);
                assert_eq!(short_key_of(low, length, is_unit), key);
                assert_eq!(length_of(key), length);
                assert_eq!(bytes_of(key).to_le_bytes()[..length], bytes[..length]);
            }
            for length in SHORT + 1..=LONG {
                let key = long_key(&bytes[..length], part);
                assert_eq!(long_key_of(&bytes, length, is_unit), key);
            }
        }
    }
}
