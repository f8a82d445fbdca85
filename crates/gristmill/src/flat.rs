//! The bytes of every id in one table, laid out to be copied many at a time.
//!
//! Where a text is the bytes of its tokens, one after the other, decoding needs no more than this. An
//! entry is as wide as a register and holds a short token whole; it is copied whole, and what follows
//! writes over what was too much. The bytes come from [`Parts::append_bytes`], whose loop over one id
//! after the other is what the tests here compare with.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use crate::error::{Error, Result};
use crate::memory::{Table, Word, prefer_large_pages};
use crate::parts::{Decoding, Parts};

/// The longest token that an entry holds.
const INLINE: usize = 15;
/// The highest byte of an entry: how long the token is, or one of these.
const LONG: u8 = 16;
/// The token is left out if special tokens are.
const SPECIAL: u8 = 17;
const UNKNOWN: u8 = 18;

/// Ids are copied in groups of so many, which the processor's nearest cache holds.
const GROUP: usize = 64;
/// Room for the bytes of a group of short tokens, and for what is too much after the last.
const ROOM: usize = GROUP * INLINE + 16;

/// The table is worth making when this part of its entries, as a number of ids, was decoded without it.
const WORTH_IT: usize = 8;

/// The bytes of every id.
pub(crate) struct Flat {
    entries: Table<Word>,
    /// The bytes of those that entries do not hold.
    others: Vec<u8>,
    /// Whether the bytes on two sides of a special token are made UTF-8 apart.
    parted: bool,
}

/// A [`Flat`] that is made once so many ids were decoded that it is worth it.
///
/// One call makes it, and nobody waits for it: others go the slow way meanwhile, and a child that is
/// forked meanwhile goes it for good.
#[derive(Default)]
pub(crate) struct FlatDecoding {
    flat: OnceLock<Option<Flat>>,
    /// How many ids were decoded without it.
    decoded: AtomicUsize,
    begun: AtomicBool,
}

impl FlatDecoding {
    /// The table, to decode `count` ids; `None` if it is not worth it yet or would not do.
    pub(crate) fn get(&self, parts: &Parts, count: usize) -> Option<&Flat> {
        let Decoding::Bytes { parted } = parts.decoding else {
            return None;
        };
        if let Some(flat) = self.flat.get() {
            return flat.as_ref();
        }
        let decoded = self.decoded.fetch_add(count, Ordering::Relaxed);
        let is_worth_it = decoded.saturating_add(count) >= parts.id_end() as usize / WORTH_IT;
        if !is_worth_it || self.begun.swap(true, Ordering::Relaxed) {
            return None;
        }
        let flat = Flat::new(parts, parted);
        self.flat.get_or_init(|| flat).as_ref()
    }
}

/// How to join the bytes of ids.
#[derive(Clone, Copy)]
pub(crate) struct Joining {
    pub(crate) skip_special: bool,
    /// A caller wants text, so bytes that are parted are to be made UTF-8.
    pub(crate) as_text: bool,
}

impl Flat {
    /// The table of a tokenizer whose tokens are joined; `parted` as in `Decoding::Bytes`. `None` if the
    /// tokens are too long together to be numbered.
    pub(crate) fn new(parts: &Parts, parted: bool) -> Option<Flat> {
        let count = parts.id_end().max(parts.literals.id_end()) as usize;
        let mut entries = Table::<Word>::new(count);
        let mut others = Vec::new();
        let mut bytes = Vec::new();
        for (id, entry) in (0..).zip(entries.get_mut()) {
            bytes.clear();
            if !parts.has(id) {
                *entry = packed(&[], UNKNOWN);
                continue;
            }
            parts.append_bytes(id, &mut bytes);
            let special = parts.is_skipped(id);
            if bytes.len() <= INLINE && !special {
                *entry = packed(&bytes, bytes.len() as u8);
                continue;
            }
            let start = u32::try_from(others.len()).ok()?;
            let length = u32::try_from(bytes.len()).ok()?;
            others.extend_from_slice(&bytes);
            let place = u64::from(start) | u64::from(length) << 32;
            *entry = packed(&place.to_le_bytes(), if special { SPECIAL } else { LONG });
        }
        Some(Flat {
            entries,
            others,
            parted,
        })
    }

    /// The bytes of `ids`, one after the other; the first unknown one is an error.
    pub(crate) fn join(&self, ids: &[u32], joining: Joining) -> Result<Vec<u8>> {
        let mut joined = Vec::with_capacity(ids.len() * 5);
        prefer_large_pages(joined.spare_capacity_mut());
        // What stands before this is UTF-8 already.
        let mut valid = 0;
        let mut room = [0; ROOM];
        for group in ids.chunks(GROUP) {
            let mut at = 0;
            for &id in group {
                let entry = self.entry(id);
                let length = entry[1] >> 56;
                if length > INLINE as u64 {
                    joined.extend_from_slice(&room[..at]);
                    at = 0;
                    self.join_other(id, joining, &mut joined, &mut valid)?;
                    continue;
                }
                // There is room: a group has no more tokens.
                if let Some(place) = room
                    .get_mut(at..)
                    .and_then(|rest| rest.first_chunk_mut::<16>())
                {
                    let number = u128::from(entry[0]) | u128::from(entry[1]) << 64;
                    *place = number.to_le_bytes();
                }
                at += length as usize;
            }
            joined.extend_from_slice(&room[..at]);
        }
        Ok(joined)
    }

    #[inline(always)]
    fn entry(&self, id: u32) -> Word {
        const NOTHING: Word = [0, (UNKNOWN as u64) << 56];
        *self.entries.get().get(id as usize).unwrap_or(&NOTHING)
    }

    /// A token that its entry does not hold.
    #[cold]
    fn join_other(
        &self,
        id: u32,
        joining: Joining,
        joined: &mut Vec<u8>,
        valid: &mut usize,
    ) -> Result<()> {
        let [place, kind] = self.entry(id);
        let kind = (kind >> 56) as u8;
        if kind == UNKNOWN {
            return Err(Error::UnknownId(id));
        }
        if kind == SPECIAL {
            if self.parted && joining.as_text {
                let rest = joined.split_off(*valid);
                joined.extend_from_slice(String::from_utf8_lossy(&rest).as_bytes());
                *valid = joined.len();
            }
            if joining.skip_special {
                return Ok(());
            }
        }
        let (start, length) = (place as u32 as usize, (place >> 32) as usize);
        let bytes = self.others.get(start..start + length);
        joined.extend_from_slice(bytes.unwrap_or_default());
        Ok(())
    }
}

/// An entry of up to 15 bytes.
fn packed(bytes: &[u8], kind: u8) -> Word {
    let mut entry = [0; 16];
    entry[..bytes.len()].copy_from_slice(bytes);
    entry[INLINE] = kind;
    let (low, high) = entry.split_at(8);
    [low, high].map(|half| {
        half.iter()
            .rev()
            .fold(0, |word, &byte| word << 8 | u64::from(byte))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decode::Broken;
    use crate::tokenizer::Tokenizer;
    use proptest::prelude::*;

    /// Every id, unknown ones too, in an order that puts short, long and special ones side by side.
    fn assert_same(tokenizer: &Tokenizer, parted: bool, ids: &[u32]) {
        let flat = Flat::new(&tokenizer.parts, parted).unwrap();
        for skip_special in [false, true] {
            for broken in [Broken::Keep, Broken::Replace] {
                let joining = Joining {
                    skip_special,
                    as_text: broken == Broken::Replace,
                };
                let found = flat.join(ids, joining).map_err(|error| error.to_string());
                let expected = tokenizer.parts.decode(ids, skip_special, broken);
                assert_eq!(found, expected.map_err(|error| error.to_string()));
            }
        }
    }

    #[test]
    fn every_id_is_what_it_was() {
        for name in crate::EMBEDDED {
            let tokenizer = Tokenizer::embedded(name).unwrap();
            let end = tokenizer.parts.id_end();
            let known: Vec<u32> = (0..end).filter(|&id| tokenizer.parts.has(id)).collect();
            assert_same(&tokenizer, false, &known);
            let mixed: Vec<u32> = (0..known.len())
                .map(|at| known[at * 7919 % known.len()])
                .collect();
            assert_same(&tokenizer, false, &mixed);
            assert_same(&tokenizer, false, &[]);
            for unknown in [end, end + 1, u32::MAX] {
                assert_same(&tokenizer, false, &[0, unknown, 1, u32::MAX - 1]);
            }
        }
    }

    proptest! {
        #[test]
        fn any_ids_are_what_they_were(ids in proptest::collection::vec(
            prop_oneof![6 => 0u32..50257, 2 => 50250u32..50257, 1 => Just(50256), 1 => 50257u32..50260],
            0..200,
        )) {
            static GPT2: OnceLock<Tokenizer> = OnceLock::new();
            let tokenizer = GPT2.get_or_init(|| Tokenizer::embedded("gpt2").unwrap());
            assert_same(tokenizer, false, &ids);
            let known: Vec<u32> = ids.into_iter().filter(|&id| id < 50257).collect();
            assert_same(tokenizer, false, &known);
        }
    }
}
