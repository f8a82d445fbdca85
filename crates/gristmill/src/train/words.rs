//! The words of a training as rows of symbols, in one arena, with their counts.
//!
//! Every symbol has as many slots as the first symbols it was merged from. Its first and its last
//! slot hold its id; what lies between is dead. So both neighbours of a symbol are found without a
//! search, a pair is named by the place where it starts, and nothing ever moves. A border stands
//! before and after each word. The count of a short word follows its border; those of long words,
//! which stand at the end, are in a table. Tested through the merging.

use crate::error::{Error, Result};

/// Longer words are long: their counts are found by a search, not by walking.
const SHORT: usize = 96;

/// A slot: an id, or a sign.
pub(super) trait Slot: Copy + Eq {
    /// Where a word begins or ends.
    const BORDER: Self;
    /// What was a symbol of its own.
    const DEAD: Self;
    /// Ids are below this.
    const END: u32;

    fn of(id: u32) -> Self;
    fn id(self) -> u32;
    fn push_count(slots: &mut Vec<Self>, count: u64);
    fn count(slots: &[Self]) -> u64;
}

impl Slot for u16 {
    const BORDER: u16 = u16::MAX;
    const DEAD: u16 = u16::MAX - 1;
    const END: u32 = Self::DEAD as u32;

    fn of(id: u32) -> u16 {
        id as u16
    }

    fn id(self) -> u32 {
        u32::from(self)
    }

    fn push_count(slots: &mut Vec<u16>, count: u64) {
        slots.extend([0, 16, 32, 48].map(|shift| (count >> shift) as u16));
    }

    fn count(slots: &[u16]) -> u64 {
        let parts = slots.iter().take(4).rev();
        parts.fold(0, |count, &part| count << 16 | u64::from(part))
    }
}

impl Slot for u32 {
    const BORDER: u32 = u32::MAX;
    const DEAD: u32 = u32::MAX - 1;
    const END: u32 = Self::DEAD;

    fn of(id: u32) -> u32 {
        id
    }

    fn id(self) -> u32 {
        self
    }

    fn push_count(slots: &mut Vec<u32>, count: u64) {
        slots.extend([count as u32, (count >> 32) as u32]);
    }

    fn count(slots: &[u32]) -> u64 {
        let parts = slots.iter().take(2).rev();
        parts.fold(0, |count, &part| count << 32 | u64::from(part))
    }
}

/// All words.
pub(super) struct Words<S> {
    pub(super) slots: Vec<S>,
    /// From here on words are long.
    long_from: u32,
    /// Where each long word ends, and its count.
    long: Vec<(u32, u64)>,
    /// Where each word starts, and where the texts have it first, if that matters.
    firsts: Vec<(u32, u64)>,
    ordered: bool,
}

/// Takes words in; the long ones wait.
pub(super) struct Builder<S> {
    words: Words<S>,
    waiting: Vec<(Box<[u32]>, u64, u64)>,
}

impl<S: Slot> Builder<S> {
    /// `ordered` words come in the order in which the texts have them.
    pub(super) fn new(ordered: bool) -> Builder<S> {
        Builder {
            words: Words {
                slots: vec![S::BORDER],
                long_from: u32::MAX,
                long: Vec::new(),
                firsts: Vec::new(),
                ordered,
            },
            waiting: Vec::new(),
        }
    }

    /// Take in a word. One symbol has no pairs, so it is left out.
    pub(super) fn push(&mut self, word: &[u32], count: u64, first: u64) -> Result<()> {
        match word.len() {
            0 | 1 => Ok(()),
            2..=SHORT => {
                self.words.push(word, first)?;
                S::push_count(&mut self.words.slots, count);
                self.words.slots.push(S::BORDER);
                Ok(())
            }
            _ => {
                self.waiting.push((word.into(), count, first));
                Ok(())
            }
        }
    }

    pub(super) fn finish(self) -> Result<Words<S>> {
        let mut words = self.words;
        words.long_from = place(words.slots.len())?;
        for (word, count, first) in self.waiting {
            words.push(&word, first)?;
            let end = place(words.slots.len())?;
            words.long.push((end, count));
        }
        Ok(words)
    }
}

/// A place in the arena, which has fewer than four billion.
fn place(at: usize) -> Result<u32> {
    match u32::try_from(at) {
        Ok(at) if at < u32::MAX => Ok(at),
        _ => Err(Error::unsupported(
            "training on words of together four billion symbols or more",
        )),
    }
}

impl<S: Slot> Words<S> {
    fn push(&mut self, word: &[u32], first: u64) -> Result<()> {
        let start = place(self.slots.len())?;
        if self.ordered {
            self.firsts.push((start, first));
        }
        self.slots.extend(word.iter().map(|&id| S::of(id)));
        self.slots.push(S::BORDER);
        place(self.slots.len()).map(drop)
    }

    /// Where the word that holds `at` ends, and its count.
    #[inline]
    pub(super) fn count_at(&self, at: u32) -> (u32, u64) {
        if at >= self.long_from {
            let word = self.long.partition_point(|&(end, _)| end <= at);
            return self.long[word];
        }
        let rest = &self.slots[at as usize..];
        let length = rest
            .iter()
            .position(|&slot| slot == S::BORDER)
            .unwrap_or(rest.len());
        let count = S::count(rest.get(length + 1..).unwrap_or_default());
        (at + length as u32, count)
    }

    /// Where the texts have a place first, in bytes.
    pub(super) fn first_at(&self, at: u32) -> u64 {
        let after = self.firsts.partition_point(|&(start, _)| start <= at);
        match after.checked_sub(1).map(|word| self.firsts[word]) {
            Some((start, first)) => first + u64::from(at - start),
            None => 0,
        }
    }

    /// Where long words begin.
    pub(super) fn long_from(&self) -> u32 {
        self.long_from
    }

    /// Give `found` the place and the two symbols of every pair of neighbours, and the word's count.
    pub(super) fn pairs(&self, mut found: impl FnMut(u32, u32, u32, u64)) {
        let mut at = 1u32;
        let end = self.slots.len() as u32;
        let count_slots = size_of::<u64>() / size_of::<S>();
        while at < end {
            let (stop, count) = self.count_at(at);
            let word = &self.slots[at as usize..stop.min(end) as usize];
            let is_long = at >= self.long_from;
            let word = word.strip_suffix(&[S::BORDER]).unwrap_or(word);
            for (place, pair) in (at..).zip(word.windows(2)) {
                found(place, pair[0].id(), pair[1].id(), count);
            }
            at = if is_long {
                stop
            } else {
                stop + 2 + count_slots as u32
            };
        }
    }
}
