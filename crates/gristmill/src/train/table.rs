//! The table that words are counted in.
//!
//! Open addressing over slots of 32 bytes. A word of up to 16 bytes lies in its slot; of a longer one
//! the slot has the hash and the place in an arena. Counts are of 64 bits and saturate. A table may
//! also keep where each word was first seen; then the lowest place wins. Hashes are seeded at random,
//! so that no text can be made to collide, and nothing that leaves the table depends on them.
//! Tested below against a plain map.

use std::cmp::Ordering;
use std::hash::{BuildHasher, RandomState};

use rustc_hash::FxBuildHasher;

/// The most bytes of a word that lies in its slot.
const INLINE: usize = 16;
/// Odd, and without a pattern in its bits.
const MIX: u64 = 0x9E37_79B9_7F4A_7C15;
/// Slots are numbered by `u32`.
const MOST_SLOTS: usize = 1 << 31;

/// A word and its count; empty if the count is 0.
#[derive(Clone, Copy, Default)]
struct Slot {
    /// The word itself, or its hash above its place in the arena.
    key: u128,
    count: u64,
    len: u32,
}

/// Words and their counts.
pub(super) struct Table {
    /// A power of two, or none.
    slots: Vec<Slot>,
    /// Where the word of each slot was first seen; empty if nobody wants to know.
    firsts: Vec<u64>,
    arena: Vec<u8>,
    len: usize,
    ordered: bool,
    seed: u64,
}

/// A word of a table.
#[derive(Clone, Copy)]
pub(super) struct Entry<'a> {
    pub(super) word: &'a [u8],
    pub(super) count: u64,
    /// Where it was first seen; 0 if the table does not know.
    pub(super) first: u64,
}

impl Table {
    /// An empty table; an `ordered` one knows where words were first seen.
    pub(super) fn new(ordered: bool) -> Table {
        Table {
            slots: Vec::new(),
            firsts: Vec::new(),
            arena: Vec::new(),
            len: 0,
            ordered,
            seed: RandomState::new().hash_one(MIX),
        }
    }

    /// The number of different words.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// The bytes the table takes.
    pub(super) fn bytes(&self) -> usize {
        self.slots.capacity() * size_of::<Slot>()
            + self.firsts.capacity() * 8
            + self.arena.capacity()
    }

    /// Whether so many more words might make the table take more than `budget` bytes.
    pub(super) fn would_outgrow(&self, more: usize, budget: usize) -> bool {
        let slot = size_of::<Slot>() + if self.ordered { 8 } else { 0 };
        let needed = slots_for(self.len + more).max(self.slots.len());
        // While it grows, the old slots are there beside the new ones.
        let growing = if needed > self.slots.len() {
            self.slots.len()
        } else {
            0
        };
        needed > MOST_SLOTS || (needed + growing) * slot + self.arena.capacity() > budget
    }

    /// Forget everything, and give the memory back.
    pub(super) fn clear(&mut self) {
        *self = Table::new(self.ordered);
    }

    /// Count a word so often, first seen at a place.
    pub(super) fn add(&mut self, word: &[u8], count: u64, first: u64) {
        self.add_in(word, 0, word.len(), count, first);
    }

    /// Count the word that lies in `text` from `start` to `end`.
    #[inline]
    pub(super) fn add_in(&mut self, text: &[u8], start: usize, end: usize, count: u64, first: u64) {
        let len = end - start;
        if count == 0 || len == 0 {
            return;
        }
        if self.slots.len() < slots_for(self.len + 1) {
            self.grow();
        }
        let at = if len <= INLINE {
            let key = inline_key(text, start, len);
            let mask = self.slots.len() - 1;
            let mut at = self.hash_inline(key, len) as usize & mask;
            loop {
                let slot = &self.slots[at];
                if slot.count == 0 {
                    self.insert(at, key, len);
                    break at;
                }
                if slot.key == key && slot.len as usize == len {
                    break at;
                }
                at = (at + 1) & mask;
            }
        } else {
            self.find_long(&text[start..end])
        };
        let slot = &mut self.slots[at];
        slot.count = slot.count.saturating_add(count);
        if self.ordered {
            let known = &mut self.firsts[at];
            *known = first.min(*known);
        }
    }

    fn find_long(&mut self, word: &[u8]) -> usize {
        let hash = self.hash_long(word);
        let mask = self.slots.len() - 1;
        let mut at = hash as usize & mask;
        loop {
            let slot = self.slots[at];
            if slot.count == 0 {
                let place = self.arena.len() as u128;
                self.arena.extend_from_slice(word);
                self.insert(at, u128::from(hash) << 64 | place, word.len());
                return at;
            }
            let same = slot.len as usize == word.len() && (slot.key >> 64) as u64 == hash;
            if same && self.in_arena(&slot) == word {
                return at;
            }
            at = (at + 1) & mask;
        }
    }

    fn insert(&mut self, at: usize, key: u128, len: usize) {
        self.slots[at] = Slot {
            key,
            count: 0,
            // Texts are cut before a word gets longer; see `LONGEST_WORD`.
            len: len as u32,
        };
        if self.ordered {
            self.firsts[at] = u64::MAX;
        }
        self.len += 1;
    }

    fn grow(&mut self) {
        let size = slots_for(self.len + 1).max(64);
        let old = std::mem::replace(&mut self.slots, vec![Slot::default(); size]);
        let firsts = if self.ordered {
            std::mem::replace(&mut self.firsts, vec![u64::MAX; size])
        } else {
            Vec::new()
        };
        let mask = size - 1;
        for (number, slot) in old.into_iter().enumerate() {
            if slot.count == 0 {
                continue;
            }
            let hash = match slot.len as usize {
                len if len <= INLINE => self.hash_inline(slot.key, len),
                _ => (slot.key >> 64) as u64,
            };
            let mut at = hash as usize & mask;
            while self.slots[at].count != 0 {
                at = (at + 1) & mask;
            }
            self.slots[at] = slot;
            if self.ordered {
                self.firsts[at] = firsts[number];
            }
        }
    }

    #[inline]
    fn hash_inline(&self, key: u128, len: usize) -> u64 {
        let high = (key >> 64) as u64 ^ (len as u64).wrapping_mul(MIX);
        fold(
            key as u64 ^ self.seed,
            high ^ self.seed.rotate_left(32) ^ MIX,
        )
    }

    fn hash_long(&self, word: &[u8]) -> u64 {
        fold(FxBuildHasher.hash_one(word) ^ self.seed, MIX)
    }

    fn in_arena(&self, slot: &Slot) -> &[u8] {
        let start = slot.key as u64 as usize;
        &self.arena[start..start + slot.len as usize]
    }

    /// Every word, in no order.
    pub(super) fn for_each<E>(
        &self,
        mut found: impl FnMut(Entry<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        (0..self.slots.len())
            .filter(|&at| self.slots[at].count != 0)
            .try_for_each(|at| self.give(at, &mut found))
    }

    /// The numbers of the slots that hold words, in the order of the words.
    pub(super) fn sorted(&self) -> Vec<u32> {
        let mut order: Vec<u32> = (0..self.slots.len() as u32)
            .filter(|&at| self.slots[at as usize].count != 0)
            .collect();
        order.sort_unstable_by(|&a, &b| self.compare(a, b));
        order
    }

    /// Give `found` the word of a slot.
    pub(super) fn give<E>(
        &self,
        at: usize,
        found: impl FnOnce(Entry<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        let slot = &self.slots[at];
        let first = self.firsts.get(at).copied().unwrap_or(0);
        let inline = slot.key.to_le_bytes();
        found(Entry {
            word: self.word_of(slot, &inline),
            count: slot.count,
            first,
        })
    }

    fn compare(&self, a: u32, b: u32) -> Ordering {
        let (a, b) = (&self.slots[a as usize], &self.slots[b as usize]);
        if a.len as usize <= INLINE && b.len as usize <= INLINE {
            // The rest of a short word's key is zero.
            let order = u128::from_be_bytes(a.key.to_le_bytes())
                .cmp(&u128::from_be_bytes(b.key.to_le_bytes()));
            return order.then(a.len.cmp(&b.len));
        }
        let (left, right) = (a.key.to_le_bytes(), b.key.to_le_bytes());
        self.word_of(a, &left).cmp(self.word_of(b, &right))
    }

    /// The word of a slot whose key has the bytes `inline`.
    fn word_of<'a>(&'a self, slot: &Slot, inline: &'a [u8; INLINE]) -> &'a [u8] {
        match slot.len as usize {
            len if len <= INLINE => &inline[..len],
            _ => self.in_arena(slot),
        }
    }
}

/// The slots for so many words: never more than three quarters are taken.
fn slots_for(words: usize) -> usize {
    (words + words / 3 + 1).next_power_of_two()
}

#[inline]
fn inline_key(text: &[u8], start: usize, len: usize) -> u128 {
    if let Some(chunk) = text
        .get(start..)
        .and_then(|rest| rest.first_chunk::<INLINE>())
    {
        return u128::from_le_bytes(*chunk) & (u128::MAX >> (128 - 8 * len));
    }
    let mut bytes = [0; INLINE];
    bytes[..len].copy_from_slice(&text[start..start + len]);
    u128::from_le_bytes(bytes)
}

#[inline]
fn fold(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    product as u64 ^ (product >> 64) as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    fn content(table: &Table) -> Vec<(Vec<u8>, u64, u64)> {
        let mut all = Vec::new();
        for at in table.sorted() {
            let keep = |entry: Entry<'_>| {
                all.push((entry.word.to_vec(), entry.count, entry.first));
                Ok::<_, ()>(())
            };
            table.give(at as usize, keep).unwrap();
        }
        all
    }

    proptest! {
        #[test]
        fn counts_as_a_map_does(
            words in proptest::collection::vec(
                (proptest::collection::vec(0u8..3, 0..40), 0u64..5, 0u64..100), 0..400
            ),
            ordered: bool,
        ) {
            let mut table = Table::new(ordered);
            let mut map: BTreeMap<Vec<u8>, (u64, u64)> = BTreeMap::new();
            for (word, count, first) in &words {
                table.add(word, *count, *first);
                if *count > 0 && !word.is_empty() {
                    let known = map.entry(word.clone()).or_insert((0, u64::MAX));
                    *known = (known.0 + count, known.1.min(*first));
                }
            }
            let expected: Vec<_> = map
                .into_iter()
                .map(|(word, (count, first))| (word, count, if ordered { first } else { 0 }))
                .collect();
            prop_assert_eq!(content(&table), expected);
        }
    }

    #[test]
    fn counts_saturate() {
        let mut table = Table::new(false);
        table.add(b"a", u64::MAX - 1, 0);
        table.add(b"a", 5, 0);
        assert_eq!(content(&table), [(b"a".to_vec(), u64::MAX, 0)]);
    }

    #[test]
    fn it_says_before_it_outgrows_its_budget() {
        let mut table = Table::new(false);
        let budget = 1 << 16;
        let mut words = 0u32;
        while !table.would_outgrow(1, budget) {
            table.add(&words.to_le_bytes(), 1, 0);
            words += 1;
            assert!(table.bytes() <= budget);
        }
        assert!(words > 500);
    }
}
