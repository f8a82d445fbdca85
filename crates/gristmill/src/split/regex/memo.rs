//! What is known of choice points: a few bits for each pair of a slot and a position.
//!
//! Invariant: an entry once recorded holds for the whole text, whatever search asks (see `search.rs` for why). Entries lie
//! in pages that appear when first written and are dropped once the search has moved past them, so memory follows the
//! distance that searches look ahead. Tested against a plain map below and through the engine.

use std::collections::VecDeque;

use super::program::Slot;

/// Positions per page, as a power of two.
const PAGE_BITS: u32 = 12;
const PAGE: usize = 1 << PAGE_BITS;
const WORDS: usize = PAGE / 64;

/// What became of a choice point at a position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// The atomic groups down to this depth are given up: at the depth of the choice point itself that is plain failure,
    /// below it the atomic groups between match and what follows them fails.
    Fails(u8),
    /// The look-ahead that the choice point is in matches.
    Succeeds,
}

/// The outcomes of every slot.
pub(crate) struct Memo {
    slots: Vec<SlotMemo>,
    /// The page that the first page of every slot is.
    first_page: usize,
    /// Bytes in live pages.
    bytes: usize,
}

struct SlotMemo {
    slot: Slot,
    /// Bits an outcome takes.
    planes: usize,
    pages: VecDeque<Option<Box<[u64]>>>,
}

impl SlotMemo {
    fn new(slot: Slot) -> SlotMemo {
        let outcomes = usize::from(slot.depth) + 1 + usize::from(slot.in_look_ahead);
        SlotMemo {
            slot,
            planes: (usize::BITS - outcomes.leading_zeros()) as usize,
            pages: VecDeque::new(),
        }
    }

    fn code(&self, outcome: Outcome) -> usize {
        match outcome {
            Outcome::Fails(depth) => usize::from(depth) + 1,
            Outcome::Succeeds => usize::from(self.slot.depth) + 2,
        }
    }
}

impl Memo {
    /// An empty memo for a program's slots; nothing is allocated for their entries.
    pub(crate) fn new(slots: &[Slot]) -> Memo {
        Memo {
            slots: slots.iter().copied().map(SlotMemo::new).collect(),
            first_page: 0,
            bytes: 0,
        }
    }

    /// Bytes held for entries.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Forgets what lies before a position; no search asks for it again.
    pub(crate) fn forget_before(&mut self, position: usize) {
        let page = position >> PAGE_BITS;
        while self.first_page < page {
            self.first_page += 1;
            for slot in &mut self.slots {
                if slot.pages.pop_front().flatten().is_some() {
                    self.bytes -= slot.planes * WORDS * 8;
                }
            }
        }
    }

    /// Whether a slot has no entry at all.
    #[inline]
    pub(crate) fn is_empty(&self, slot: u32) -> bool {
        self.slots
            .get(slot as usize)
            .is_none_or(|slot| slot.pages.is_empty())
    }

    /// What is known of a slot at a position.
    #[inline]
    pub(crate) fn get(&self, slot: u32, position: usize) -> Option<Outcome> {
        let slot = self.slots.get(slot as usize)?;
        if slot.pages.is_empty() {
            return None;
        }
        let index = (position >> PAGE_BITS).checked_sub(self.first_page)?;
        let page = slot.pages.get(index)?.as_deref()?;
        let (word, bit) = (position % PAGE / 64, position % 64);
        let mut code = 0;
        for plane in 0..slot.planes {
            let bits = page.get(plane * WORDS + word).copied().unwrap_or(0);
            code |= ((bits >> bit & 1) as usize) << plane;
        }
        match u8::try_from(code).ok()?.checked_sub(1)? {
            depth if depth <= slot.slot.depth => Some(Outcome::Fails(depth)),
            _ => Some(Outcome::Succeeds),
        }
    }

    /// Records an outcome at every position from `first` to `last`, both included. Positions already forgotten are skipped.
    pub(crate) fn record(&mut self, slot: u32, first: usize, last: usize, outcome: Outcome) {
        let first = first.max(self.first_page << PAGE_BITS);
        let Some(slot) = self.slots.get_mut(slot as usize) else {
            return;
        };
        let code = slot.code(outcome);
        let mut position = first;
        while position <= last {
            let index = (position >> PAGE_BITS) - self.first_page;
            if slot.pages.len() <= index {
                slot.pages.resize_with(index + 1, || None);
            }
            let Some(place) = slot.pages.get_mut(index) else {
                return;
            };
            let planes = slot.planes;
            let page = place.get_or_insert_with(|| {
                self.bytes += planes * WORDS * 8;
                vec![0; planes * WORDS].into_boxed_slice()
            });
            // One word at a time: the bits from `position` to the end of the word or of the range.
            let (word, bit) = (position % PAGE / 64, position % 64);
            let count = (64 - bit).min(last - position + 1);
            let mask = (u64::MAX >> (64 - count)) << bit;
            for plane in (0..planes).filter(|plane| code >> plane & 1 == 1) {
                if let Some(bits) = page.get_mut(plane * WORDS + word) {
                    *bits |= mask;
                }
            }
            position += count;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    #[test]
    fn entries_are_what_was_recorded() {
        let slots = [
            Slot {
                depth: 0,
                in_look_ahead: false,
            },
            Slot {
                depth: 0,
                in_look_ahead: true,
            },
            Slot {
                depth: 5,
                in_look_ahead: true,
            },
        ];
        let mut memo = Memo::new(&slots);
        let mut plain: HashMap<(u32, usize), Outcome> = HashMap::new();
        let mut state = 1u64;
        let mut random = |below: usize| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            (state >> 33) as usize % below
        };
        for _ in 0..300 {
            let slot = random(3);
            let first = random(20_000);
            let last = first + random(300);
            let outcome = match (slot, random(2)) {
                (0, _) => Outcome::Fails(0),
                (_, 0) => Outcome::Succeeds,
                (1, _) => Outcome::Fails(0),
                _ => Outcome::Fails(random(6) as u8),
            };
            let slot = slot as u32;
            // An outcome never changes once known, so the test records only the unknown.
            for position in first..=last {
                if memo.get(slot, position).is_none() {
                    memo.record(slot, position, position, outcome);
                    plain.insert((slot, position), outcome);
                }
            }
        }
        memo.forget_before(9_000);
        let kept = 8192;
        for slot in 0..3 {
            for position in 0..21_000 {
                let expected = plain.get(&(slot, position)).copied();
                let expected = expected.filter(|_| position >= kept);
                assert_eq!(memo.get(slot, position), expected, "{slot} {position}");
            }
        }
    }

    #[test]
    fn ranges_cross_words_and_pages() {
        let slots = [Slot {
            depth: 0,
            in_look_ahead: false,
        }];
        let mut memo = Memo::new(&slots);
        memo.record(0, 63, 9_000, Outcome::Fails(0));
        assert_eq!(memo.get(0, 62), None);
        assert!((63..=9_000).all(|position| memo.get(0, position).is_some()));
        assert_eq!(memo.get(0, 9_001), None);
        assert_eq!(memo.bytes(), 3 * 512);
        memo.forget_before(1 << 20);
        assert_eq!(memo.bytes(), 0);
    }
}
