//! The words of a training as rows of symbols, in one arena, with their counts.
//!
//! Every symbol has as many slots as its span says. Its first and its last slot hold its id; what lies
//! between is dead. So both neighbours of a symbol are found without a search, a pair is named by the
//! place where it starts, and between two [compactions](Words::compact) nothing ever moves. A border
//! stands before and after each word, and the word's count follows the latter; long words have theirs
//! in a table as well, so that no walk to a count is long. Words keep the order they came in. Tested
//! through the merging.

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
    /// A count of so much or more stands in the slots after this one.
    const LARGE: u64;

    fn of(id: u32) -> Self;
    fn id(self) -> u32;
    /// The low part of a number.
    fn part(number: u64) -> Self;
    fn number(self) -> u64;
}

impl Slot for u16 {
    const BORDER: u16 = u16::MAX;
    const DEAD: u16 = u16::MAX - 1;
    const END: u32 = Self::DEAD as u32;
    const LARGE: u64 = u16::MAX as u64;

    fn of(id: u32) -> u16 {
        id as u16
    }

    fn id(self) -> u32 {
        u32::from(self)
    }

    fn part(number: u64) -> u16 {
        number as u16
    }

    fn number(self) -> u64 {
        u64::from(self)
    }
}

impl Slot for u32 {
    const BORDER: u32 = u32::MAX;
    const DEAD: u32 = u32::MAX - 1;
    const END: u32 = Self::DEAD;
    const LARGE: u64 = u32::MAX as u64;

    fn of(id: u32) -> u32 {
        id
    }

    fn id(self) -> u32 {
        self
    }

    fn part(number: u64) -> u32 {
        number as u32
    }

    fn number(self) -> u64 {
        u64::from(self)
    }
}

/// The slots of a count: one, or a sign and so many parts of it.
fn push_count<S: Slot>(slots: &mut Vec<S>, count: u64) {
    if count < S::LARGE {
        slots.push(S::part(count));
        return;
    }
    slots.push(S::part(S::LARGE));
    let bits = 8 * size_of::<S>();
    slots.extend((0..64).step_by(bits).map(|shift| S::part(count >> shift)));
}

/// The count that `slots` begin with, and how many slots it takes.
fn count_of<S: Slot>(slots: &[S]) -> (u64, usize) {
    let Some((&first, rest)) = slots.split_first() else {
        return (0, 0);
    };
    if first.number() < S::LARGE {
        return (first.number(), 1);
    }
    let bits = 8 * size_of::<S>();
    let parts = 64 / bits;
    let parts_read = rest.iter().take(parts).rev();
    let count = parts_read.fold(0, |count, part| count << bits | part.number());
    (count, 1 + parts)
}

/// Where the first border is.
#[inline]
fn border<S: Slot>(slots: &[S]) -> Option<usize> {
    if let Some(first) = slots.first_chunk::<16>() {
        // Most are here, and nobody knows where: without a branch for each.
        let mut found = 0u16;
        for (at, &slot) in first.iter().enumerate() {
            found |= u16::from(slot == S::BORDER) << at;
        }
        if found != 0 {
            return Some(found.trailing_zeros() as usize);
        }
    }
    slots.iter().position(|&slot| slot == S::BORDER)
}

/// All words.
pub(super) struct Words<S> {
    pub(super) slots: Vec<S>,
    /// Where each long word ends, and its count.
    long: Vec<(u32, u64)>,
    len: usize,
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
    pub(super) fn new() -> Words<S> {
        Words {
            slots: vec![S::BORDER],
            long: Vec::new(),
            len: 0,
        }
    }

    /// The number of words.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Take in a word. One symbol has no pairs, so it is left out.
    pub(super) fn push(&mut self, word: impl Iterator<Item = u32>, count: u64) -> Result<()> {
        let start = self.slots.len();
        self.slots.extend(word.map(S::of));
        self.close(start, count)
    }

    /// End the word that began at `start`, or forget it if it has no pairs.
    fn close(&mut self, start: usize, count: u64) -> Result<()> {
        let length = self.slots.len() - start;
        if length < 2 {
            self.slots.truncate(start);
            return Ok(());
        }
        let end = place(self.slots.len())?;
        if length > SHORT {
            self.long.push((end, count));
        }
        self.slots.push(S::BORDER);
        push_count(&mut self.slots, count);
        self.slots.push(S::BORDER);
        self.len += 1;
        place(self.slots.len()).map(drop)
    }

    /// Where the word that holds `at` ends, and its count.
    #[inline]
    pub(super) fn count_at(&self, at: u32) -> (u32, u64) {
        let rest = &self.slots[at as usize..];
        let near = &rest[..rest.len().min(SHORT + 1)];
        if let Some(length) = border(near) {
            return (at + length as u32, count_of(&rest[length + 1..]).0);
        }
        let word = self.long.partition_point(|&(end, _)| end <= at);
        self.long.get(word).copied().unwrap_or((u32::MAX, 0))
    }

    /// Give `found` each word: where it starts, its slots, and its count.
    pub(super) fn each(&self, mut found: impl FnMut(u32, &[S], u64)) {
        let mut start = 1;
        while start < self.slots.len() {
            let end = self.count_at(start as u32).0 as usize;
            let (count, width) = count_of(&self.slots[end + 1..]);
            found(start as u32, &self.slots[start..end], count);
            start = end + width + 2;
        }
    }

    /// Give `found` the place and the two symbols of every pair of neighbours, and the word's count.
    pub(super) fn pairs(
        &self,
        span: impl Fn(u32) -> u32,
        mut found: impl FnMut(u32, u32, u32, u64),
    ) {
        self.each(|start, word, count| {
            let mut at = 0;
            let mut left = word[0].id();
            loop {
                let next = at + span(left) as usize;
                let Some(right) = word.get(next).map(|slot| slot.id()) else {
                    return;
                };
                found(start + at as u32, left, right, count);
                (at, left) = (next, right);
            }
        });
    }

    /// Leave one slot to each symbol, and leave out words of one symbol. All places change.
    pub(super) fn compact(&mut self, span: impl Fn(u32) -> u32) -> Result<()> {
        self.long.clear();
        self.len = 0;
        let (mut from, mut to) = (1, 1);
        while from < self.slots.len() {
            let start = to;
            // A symbol is read before its slot may be written to.
            while self.slots[from] != S::BORDER {
                let symbol = self.slots[from];
                self.slots[to] = symbol;
                to += 1;
                from += span(symbol.id()) as usize;
            }
            let (count, width) = count_of(&self.slots[from + 1..]);
            // The count with the borders around it.
            let end = from + width + 2;
            match to - start {
                0 | 1 => to = start,
                length => {
                    if length > SHORT {
                        self.long.push((place(to)?, count));
                    }
                    self.slots.copy_within(from..end, to);
                    to += end - from;
                    self.len += 1;
                }
            }
            from = end;
        }
        self.slots.truncate(to);
        self.slots.shrink_to_fit();
        Ok(())
    }

    /// Words that were just compacted, in slots of another size.
    pub(super) fn resized<T: Slot>(self) -> Result<Words<T>> {
        let mut resized = Words::new();
        let mut done = Ok(());
        self.each(|_, word, count| {
            if done.is_ok() {
                done = resized.push(word.iter().map(|slot| slot.id()), count);
            }
        });
        done.map(|()| resized)
    }
}
