//! Which pairs are listed, and where they stand: found by reading all words, and kept short.
//!
//! A list of every place of every pair would take more memory than the words. So a survey counts all
//! pairs but lists the most frequent ones only, as many as the room for lists allows. The others are
//! not needed before these are merged: no pair becomes more frequent than it was, and a new one is at
//! most as frequent as those it comes from. Then comes the next survey, of words that have become
//! shorter, and are moved together first. Where there are few words one survey lists all.
//!
//! Where a string may be made in two ways ([`Symbols::one_way`]) a pair can become more frequent, and
//! slots must stay as they are; then one survey lists all, whatever the room. Tested through the
//! merging, with no room as well.

use crate::error::Result;

use super::merge::Merging;
use super::pairs::{Pairs, bytes_of, hash, key, pairs_in, sides};
use super::words::Slot;

/// So many places are looked at together.
pub(super) const AT_ONCE: usize = 64;
/// So many places are always worth waiting for before lists are swept.
const SPARE: usize = 1 << 16;
/// What is left of the 90 bytes promised for a word is for what the texts and symbols take.
const BYTES_PER_WORD: usize = 84;
/// So many places, and pairs in so many bytes, find room anyway: 48 MB for both.
const PLACES_ANYWAY: usize = 1 << 22;
const PAIRS_ANYWAY: usize = 24 << 20;
/// Counts are told apart to so many bits for the choice of what is listed.
const BITS: u32 = 3;

/// The memory that a merging may take; more if there is no other way.
#[derive(Clone, Copy, Debug)]
pub(super) struct Room {
    /// For all together.
    bytes: usize,
    /// So many places are listed anyway.
    places: usize,
    /// So many pairs are known at a time.
    pairs: usize,
}

impl Room {
    /// What so many words may take.
    pub(super) fn of(words: usize) -> Room {
        let bytes = words * BYTES_PER_WORD;
        Room {
            bytes,
            places: PLACES_ANYWAY,
            pairs: pairs_in((bytes / 4).max(PAIRS_ANYWAY)),
        }
    }

    /// As little as there can be.
    #[cfg(test)]
    pub(super) fn none(_: usize) -> Room {
        Room {
            bytes: 0,
            places: 0,
            pairs: 3,
        }
    }
}

/// What a survey has found so far.
struct Found {
    /// The pairs and their places, by the [step](step_of) that the count stands on.
    steps: Vec<(usize, usize)>,
    /// The share of all pairs that were looked at.
    share: f64,
}

impl<S: Slot> Merging<'_, S> {
    /// Count the pairs of the words and list the places of the most frequent ones. `look` is called
    /// between two readings of all words.
    pub(super) fn survey(&mut self, look: &mut dyn FnMut() -> Result<()>) -> Result<()> {
        let again = self.listed != u64::MAX;
        (self.pairs, self.places) = (Pairs::new(), Vec::new());
        if again && self.symbols.one_way() {
            let symbols = &*self.symbols;
            self.words.compact(|id| symbols.span(id))?;
            self.symbols.unify_spans();
        }
        self.listed = 1;
        if self.symbols.one_way() {
            self.count_in_classes(look)?;
        } else {
            let mut pairs = Pairs::new();
            let mut some = Handful::default();
            self.count_pairs(|key, count| {
                if some.are_enough(key, count) {
                    some.count_in(&mut pairs);
                }
            });
            some.count_in(&mut pairs);
            self.pairs = pairs;
        }
        look()?;
        self.list();
        Ok(())
    }

    fn count_pairs(&self, mut found: impl FnMut(u64, u64)) {
        let symbols = &*self.symbols;
        self.words.pairs(
            |id| symbols.span(id),
            |_, left, right, count| {
                if symbols.may_join(left, right) {
                    found(key(left, right), count);
                }
            },
        );
    }

    /// Count the pairs, class by class where there are too many to count at a time, and keep those that
    /// are to be listed. Classes are cut in two until each fits.
    fn count_in_classes(&mut self, look: &mut dyn FnMut() -> Result<()>) -> Result<()> {
        self.listed = self.floor;
        let mut found = Found {
            steps: vec![(0, 0); step_of(u64::MAX) + 1],
            share: 0.0,
        };
        let mut waiting = vec![(0u64, 0i32)];
        while let Some((class, mut bits)) = waiting.pop() {
            look()?;
            let mut pairs = Pairs::new();
            let mut some = Handful::default();
            let of_class = |key, bits| hash(key) >> 32 & ((1u64 << bits) - 1) == class;
            self.count_pairs(|key, count| {
                if !of_class(key, bits) || !some.are_enough(key, count) {
                    return;
                }
                some.count_in(&mut pairs);
                if pairs.len() >= self.room.pairs && bits < 32 {
                    waiting.push((class | 1 << bits, bits + 1));
                    bits += 1;
                    pairs.keep(1, 0, |pair| of_class(pair.key, bits));
                }
            });
            some.count_in(&mut pairs);
            found.share += 0.5f64.powi(bits);
            for pair in pairs.iter() {
                let (pairs, places) = &mut found.steps[step_of(pair.count)];
                *pairs += 1;
                *places += pair.places as usize;
            }
            self.listed = self.listed.max(self.choose(&found));
            if waiting.is_empty() && self.pairs.len() == 0 {
                self.pairs = pairs;
            } else {
                let kept = pairs.iter().filter(|pair| pair.count >= self.listed);
                for pair in kept {
                    *self.pairs.entry(pair.key) = *pair;
                }
            }
        }
        self.pairs.keep(self.listed, self.pairs.len(), |_| true);
        Ok(())
    }

    /// The lowest count to list: that whose pairs all find room, with those of all higher counts.
    fn choose(&self, found: &Found) -> u64 {
        let total: usize = found.steps.iter().map(|&(_, places)| places).sum();
        let scaled = |number: usize| (number as f64 / found.share) as usize;
        let slots = self.words.slots.len() * size_of::<S>();
        let left = self.room.bytes.saturating_sub(slots);
        let most_pairs = self.room.pairs / 2;
        // The queue may take as much as the table of pairs; lists grow by half before they are swept.
        let left = left.saturating_sub(2 * bytes_of(self.room.pairs));
        let most_places = left / (size_of::<u32>() * 3 / 2);
        let most_places = most_places.max(self.room.places).max(scaled(total) / 8);
        let (mut pairs, mut places) = (0, 0);
        for (step, &(more_pairs, more_places)) in found.steps.iter().enumerate().rev() {
            let (before, after) = (pairs, pairs + more_pairs);
            (pairs, places) = (after, places + more_places);
            if before > 0 && (scaled(pairs) > most_pairs || scaled(places) > most_places) {
                return count_of_step(step + 1);
            }
        }
        0
    }

    /// Make room for so many pairs more: for want of other room, rare ones are no longer listed.
    pub(super) fn shed(&mut self, more: usize) {
        if self.symbols.one_way() {
            let most = (self.room.pairs / 2).saturating_sub(more);
            let mut steps = vec![0; step_of(u64::MAX) + 1];
            for pair in self.pairs.iter() {
                steps[step_of(pair.count)] += 1;
            }
            let mut pairs = 0;
            let over = steps.iter().rposition(|step| {
                pairs += step;
                pairs > most
            });
            if let Some(step) = over {
                self.listed = self.listed.max(count_of_step(step + 1));
            }
        }
        let listed = self.listed;
        let kept = self.pairs.iter().filter(|pair| pair.count >= listed);
        let more = more.max(kept.count());
        self.pairs.keep(listed, more, |_| true);
    }

    /// List the places of the pairs there are.
    fn list(&mut self) {
        let pairs = &mut self.pairs;
        let mut total = 0;
        pairs.relist(|pair| {
            pair.from = total;
            total += pair.places;
            pair.places = 0;
        });
        let total = total as usize;
        self.most_places = total + total / 2 + SPARE;
        let mut places = Vec::with_capacity(self.most_places);
        places.resize(total, 0);
        let symbols = &*self.symbols;
        let mut some = Handful::default();
        let mut put = |some: &mut Handful| {
            pairs.get_each(&some.keys, |number, pair| {
                places[(pair.from + pair.places) as usize] = some.with[number] as u32;
                pair.places += 1;
            });
            some.clear();
        };
        self.words.pairs(
            |id| symbols.span(id),
            |place, left, right, _| {
                if some.are_enough(key(left, right), place.into()) {
                    put(&mut some);
                }
            },
        );
        put(&mut some);
        self.places = places;
    }

    /// Drop lists that nobody needs any more, and if that is not enough the places in others where the
    /// pair no longer stands.
    pub(super) fn sweep(&mut self, needed: usize) {
        self.keep_places(false);
        if self.places.len() + needed > self.most_places / 4 * 3 {
            self.keep_places(true);
        }
        let wanted = self.places.len() + needed;
        self.most_places = self.most_places.max(wanted + wanted / 2);
    }

    fn keep_places(&mut self, standing_only: bool) {
        let (slots, symbols, places) = (&self.words.slots, &*self.symbols, &mut self.places);
        let mut end = 0;
        let mut standing = [0; AT_ONCE];
        self.pairs.relist(|pair| {
            let mut at = pair.from as usize;
            let stop = (pair.from + pair.places) as usize;
            pair.from = end as u32;
            pair.places = 0;
            if pair.count == 0 {
                return;
            }
            if !standing_only {
                places.copy_within(at..stop, end);
                end += stop - at;
            }
            let (left, right) = sides(pair.key);
            let wanted = (S::of(left), S::of(right), symbols.span(left));
            while standing_only && at < stop {
                let next = stop.min(at + AT_ONCE);
                let kept = standing_at(slots, &places[at..next], wanted, &mut standing);
                places[end..end + kept.len()].copy_from_slice(kept);
                end += kept.len();
                at = next;
            }
            pair.places = end as u32 - pair.from;
        });
        places.truncate(end);
    }
}

/// Some pairs, each with a number: they are looked up together.
#[derive(Default)]
struct Handful {
    keys: Vec<u64>,
    with: Vec<u64>,
}

impl Handful {
    /// Add one; whether it is time to look them up.
    #[inline]
    fn are_enough(&mut self, key: u64, with: u64) -> bool {
        self.keys.push(key);
        self.with.push(with);
        self.keys.len() >= AT_ONCE
    }

    fn clear(&mut self) {
        self.keys.clear();
        self.with.clear();
    }

    /// Count each as often as its number says.
    fn count_in(&mut self, pairs: &mut Pairs) {
        pairs.entry_each(&self.keys, |number, pair| {
            pair.count = pair.count.saturating_add(self.with[number]);
            pair.places += 1;
        });
        self.clear();
    }
}

/// The step of a ladder that a count stands on; each octave has as many.
fn step_of(count: u64) -> usize {
    let bits = u64::BITS - count.leading_zeros();
    if bits <= BITS + 1 {
        return count as usize;
    }
    let above = bits - BITS - 1;
    ((above << BITS) as u64 + (count >> above)) as usize
}

/// The lowest count that stands on a step.
fn count_of_step(step: usize) -> u64 {
    let within = 1 << BITS;
    match (step >> BITS).checked_sub(1) {
        None | Some(0) => step as u64,
        Some(above) => (((step & (within - 1)) + within) as u64) << above,
    }
}

/// The places, of a few, where two symbols stand whose first takes `gap` slots. There is no branch, so
/// that the processor waits for memory at many places at once.
#[inline(always)]
pub(super) fn standing_at<'a, S: Slot>(
    slots: &[S],
    places: &[u32],
    (left, right, gap): (S, S, u32),
    standing: &'a mut [u32; AT_ONCE],
) -> &'a [u32] {
    let mut found = 0;
    for &place in places {
        let middle = (place + gap) as usize;
        let next = slots[middle.min(slots.len() - 1)];
        standing[found] = place;
        found += usize::from((slots[place as usize] == left) & (next == right));
    }
    &standing[..found]
}
