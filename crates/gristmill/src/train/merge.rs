//! The merging: the most frequent pair becomes a symbol, again and again.
//!
//! Only what a merge touches is counted anew. A merge of (a, b) to n visits the places of (a, b),
//! left to right; a place where the pair no longer stands is passed over. At each place the pair
//! (x, a) with the neighbour before is lost and (x, n) won, and so with the neighbour after. These
//! changes are summed up by neighbour, so each pair is looked up once for a merge. All places of a new
//! pair come up within one merge, since a pair is there as soon as both of its symbols are, so its
//! list is written in one piece; lists that are no longer needed are swept out now and then.
//!
//! Only pairs of a count that some memory allows are listed (`survey.rs`), and of these only pairs
//! above a threshold are in the queue. When the queue is empty the threshold is lowered and the table
//! of pairs is read once; when all that is listed is merged, the words are surveyed again. The result
//! is that of counting all pairs anew before each merge, which is what the tests compare it with.

use std::time::{Duration, Instant};

use crate::error::Result;

use super::pairs::{Pairs, key, sides};
use super::progress::{Progress, Stage};
use super::queue::{Candidate, Queue, Ties};
use super::survey::{AT_ONCE, Room, standing_at};
use super::symbols::{Joined, Symbols};
use super::words::{Slot, Words};

/// Between two looks at the clock.
const MERGES_BETWEEN: usize = 16;
/// Between two reports.
const REPORT_EVERY: Duration = Duration::from_millis(50);
/// How much lower the next threshold is.
const STEP: u64 = 4;

/// Two symbols and what they became.
pub(super) type Merge = (u32, u32, u32);

/// When to stop.
#[derive(Clone, Copy, Debug)]
pub(super) struct Goal {
    /// The number of symbols wanted.
    pub(super) symbols: usize,
    /// The lowest count that is merged; at least 1.
    pub(super) count: u64,
}

/// What a neighbour has lost to a merge.
#[derive(Clone, Copy, Default)]
struct Tally {
    count: u64,
    places: u32,
    /// Where its next place goes.
    next: u32,
}

/// The neighbours on one side of a merge.
#[derive(Default)]
struct Side {
    /// By symbol.
    tallies: Vec<Tally>,
    /// Each symbol once.
    seen: Vec<u32>,
    /// Each symbol and where the merged pair stood.
    places: Vec<(u32, u32)>,
}

impl Side {
    #[inline]
    fn add(&mut self, symbol: u32, place: u32, count: u64) {
        let tally = &mut self.tallies[symbol as usize];
        if tally.places == 0 {
            self.seen.push(symbol);
        }
        tally.count += count;
        tally.places += 1;
        self.places.push((symbol, place));
    }

    fn clear(&mut self) {
        for &symbol in &self.seen {
            self.tallies[symbol as usize] = Tally::default();
        }
        self.seen.clear();
        self.places.clear();
    }
}

/// A merging in progress.
pub(super) struct Merging<'a, S> {
    pub(super) words: Words<S>,
    pub(super) symbols: &'a mut Symbols,
    /// The pairs that are listed.
    pub(super) pairs: Pairs,
    /// Their places.
    pub(super) places: Vec<u32>,
    /// Lists are swept when they are longer.
    pub(super) most_places: usize,
    /// All pairs of this count or more are listed.
    pub(super) listed: u64,
    pub(super) room: Room,
    /// Rarer pairs are not merged.
    pub(super) floor: u64,
    queue: Queue,
    threshold: u64,
    before: Side,
    after: Side,
    /// The pairs that the merge at hand has brought.
    brought: Vec<u64>,
    /// Pairs to be looked up.
    keys: Vec<u64>,
}

impl<'a, S: Slot> Merging<'a, S> {
    pub(super) fn new(
        words: Words<S>,
        symbols: &'a mut Symbols,
        ties: Ties,
        goal: Goal,
        room: Room,
    ) -> Merging<'a, S> {
        Merging {
            words,
            symbols,
            pairs: Pairs::new(),
            places: Vec::new(),
            most_places: 0,
            listed: u64::MAX,
            room,
            floor: goal.count.max(1),
            queue: Queue::new(ties),
            threshold: u64::MAX,
            before: Side::default(),
            after: Side::default(),
            brought: Vec::new(),
            keys: Vec::new(),
        }
    }

    /// Merge until there are so many symbols or nothing is left to merge. Gives the words back.
    pub(super) fn run(
        mut self,
        symbols: usize,
        merges: &mut Vec<Merge>,
        look: &mut dyn FnMut(&Progress) -> Result<()>,
    ) -> Result<Words<S>> {
        let mut reported = Instant::now();
        while self.symbols.len() < symbols {
            let made = Progress {
                stage: Stage::Merging,
                pairs: self.pairs.len() as u64,
                merges: merges.len() as u64,
                ..Progress::default()
            };
            let Some(best) = self.best(&mut || look(&made))? else {
                break;
            };
            let (left, right) = sides(best);
            let id = match self.symbols.join(left, right)? {
                Joined::New(id) | Joined::Known(id) => id,
                Joined::Never => {
                    self.forget(best);
                    continue;
                }
            };
            merges.push((left, right, id));
            self.merge(left, right, id);
            if merges.len().is_multiple_of(MERGES_BETWEEN) && reported.elapsed() > REPORT_EVERY {
                look(&made)?;
                reported = Instant::now();
            }
        }
        Ok(self.words)
    }

    /// The pair to merge next.
    fn best(&mut self, look: &mut dyn FnMut() -> Result<()>) -> Result<Option<u64>> {
        loop {
            let Some(top) = self.queue.pop(self.symbols) else {
                if self.threshold > self.listed.max(self.floor) {
                    self.lower();
                } else if self.listed > self.floor {
                    self.survey(look)?;
                    self.threshold = u64::MAX;
                } else {
                    return Ok(None);
                }
                continue;
            };
            let now = self.candidate(top.pair);
            let Some(now) = now.filter(|now| now.count >= self.threshold) else {
                continue;
            };
            if now == top {
                return Ok(Some(top.pair));
            }
            // One that has become more frequent was put in again when it did.
            if now.count <= top.count {
                self.queue.push(now, self.symbols);
            }
        }
    }

    /// Fill the queue with the pairs between the old threshold and a lower one.
    fn lower(&mut self) {
        let below = self.threshold;
        let most = self.pairs.iter().map(|pair| pair.count);
        let most = most.filter(|&count| count < below).max().unwrap_or(0);
        self.threshold = (most / STEP).max(self.listed).max(self.floor);
        let range = self.threshold..below;
        let found = self.pairs.iter();
        let found = found.filter(|pair| range.contains(&pair.count));
        let found: Vec<u64> = found.map(|pair| pair.key).collect();
        for pair in found {
            self.put(pair);
        }
    }

    fn put(&mut self, pair: u64) {
        if let Some(candidate) = self.candidate(pair)
            && candidate.count >= self.threshold
        {
            self.queue.push(candidate, self.symbols);
        }
    }

    /// A pair as it is now; `None` if it is nowhere.
    fn candidate(&mut self, key: u64) -> Option<Candidate> {
        let ties = self.queue.ties();
        let count = self.pairs.get(key)?.count;
        if count == 0 {
            return None;
        }
        let first = if ties == Ties::First {
            self.first_place(key)
        } else {
            0
        };
        Some(Candidate {
            count,
            tie: ties.of(key, self.symbols, || first),
            pair: key,
        })
    }

    fn forget(&mut self, key: u64) {
        if let Some(pair) = self.pairs.get(key) {
            (pair.count, pair.places) = (0, 0);
        }
    }

    /// The first place of a pair, which is where the texts have it first.
    fn first_place(&mut self, key: u64) -> u64 {
        let Some(&mut pair) = self.pairs.get(key) else {
            return u64::MAX;
        };
        let list = &self.places[pair.from as usize..(pair.from + pair.places) as usize];
        let stands = |place: &u32| stands(&self.words, self.symbols, key, *place);
        let passed = list.iter().take_while(|place| !stands(place)).count();
        let first = list.get(passed).map_or(u64::MAX, |&place| place.into());
        if let Some(pair) = self.pairs.get(key) {
            // Where it no longer stands it never will again.
            pair.from += passed as u32;
            pair.places -= passed as u32;
        }
        first
    }

    fn merge(&mut self, left: u32, right: u32, joined: u32) {
        let symbols = self.symbols.len();
        self.before.tallies.resize(symbols, Tally::default());
        self.after.tallies.resize(symbols, Tally::default());
        self.replace(left, right, joined);
        let needed = self.before.places.len() + self.after.places.len();
        if self.places.len() + needed > self.most_places {
            self.sweep(needed);
        }
        let brought = self.before.seen.len() + self.after.seen.len();
        if self.pairs.spare() < brought {
            self.shed(brought);
            self.threshold = self.threshold.max(self.listed);
        }
        self.gain(joined, true);
        self.gain(joined, false);
        self.lose(left, true);
        self.lose(right, false);
        for pair in std::mem::take(&mut self.brought) {
            self.put(pair);
        }
        self.before.clear();
        self.after.clear();
    }

    /// Put the joined symbol wherever the pair stands, and note its neighbours.
    fn replace(&mut self, left: u32, right: u32, joined: u32) {
        let merged = key(left, right);
        let Some(&mut pair) = self.pairs.get(merged) else {
            return;
        };
        let (gap, width) = (self.symbols.span(left), self.symbols.span(right));
        let (left, right) = (S::of(left), S::of(right));
        let mut lost = 0;
        let (mut word_end, mut count) = (0, 0);
        let list = pair.from as usize..(pair.from + pair.places) as usize;
        let mut standing = [0; AT_ONCE];
        for places in self.places[list].chunks(AT_ONCE) {
            for &place in standing_at(&self.words.slots, places, (left, right, gap), &mut standing)
            {
                let (start, middle) = (place as usize, (place + gap) as usize);
                let slots = &mut self.words.slots;
                // A place just before may have taken this one's symbol.
                if slots[start] != left || slots[middle] != right {
                    continue;
                }
                let end = middle + width as usize;
                let (before, after) = (slots[start - 1], slots[end]);
                // What a stale place might take for a symbol.
                slots[middle] = S::DEAD;
                slots[start] = S::of(joined);
                slots[end - 1] = S::of(joined);
                if place >= word_end {
                    (word_end, count) = self.words.count_at(end as u32 - 1);
                }
                lost += count;
                if before != S::BORDER {
                    self.before.add(before.id(), place, count);
                }
                if after != S::BORDER {
                    self.after.add(after.id(), place, count);
                }
            }
        }
        if let Some(pair) = self.pairs.get(merged) {
            pair.count = pair.count.saturating_sub(lost);
            pair.places = 0;
        }
    }

    /// Count the pairs that a joined symbol makes with its neighbours on one side.
    fn gain(&mut self, joined: u32, before: bool) {
        let side = if before {
            &mut self.before
        } else {
            &mut self.after
        };
        self.keys.clear();
        for &symbol in &side.seen {
            let (left, right) = if before {
                (symbol, joined)
            } else {
                (joined, symbol)
            };
            let tally = &mut side.tallies[symbol as usize];
            // A pair never becomes more frequent than it is at first.
            if tally.count < self.listed || !self.symbols.may_join(left, right) {
                tally.next = u32::MAX;
            } else {
                self.keys.push(key(left, right));
            }
        }
        let mut mixed = Vec::new();
        let places = &mut self.places;
        self.pairs.entry_each(&self.keys, |_, pair| {
            let (left, right) = sides(pair.key);
            let tally = &mut side.tallies[if before { left } else { right } as usize];
            let from = places.len() as u32;
            let old = pair.from as usize..(pair.from + pair.places) as usize;
            // Only a string that two ways lead to has places already.
            let again = !old.is_empty();
            places.extend_from_within(old);
            tally.next = places.len() as u32;
            pair.from = from;
            pair.places += tally.places;
            pair.count += tally.count;
            places.resize(places.len() + tally.places as usize, 0);
            if again {
                mixed.push(from as usize..places.len());
            }
            // What the merge takes away from it comes later; rarer ones are found in the table.
            if pair.count >= self.threshold {
                self.brought.push(pair.key);
            }
        });
        for &(symbol, place) in &side.places {
            let tally = &mut side.tallies[symbol as usize];
            if tally.next != u32::MAX {
                let back = if before { self.symbols.span(symbol) } else { 0 };
                self.places[tally.next as usize] = place - back;
                tally.next += 1;
            }
        }
        for list in mixed {
            self.places[list].sort_unstable();
        }
    }

    /// Take away what the pairs of a merged symbol and its neighbours on one side have lost.
    fn lose(&mut self, merged: u32, before: bool) {
        let side = if before { &self.before } else { &self.after };
        self.keys.clear();
        self.keys.extend(side.seen.iter().map(|&symbol| {
            if before {
                key(symbol, merged)
            } else {
                key(merged, symbol)
            }
        }));
        self.pairs.get_each(&self.keys, |number, pair| {
            let lost = side.tallies[side.seen[number] as usize].count;
            pair.count = pair.count.saturating_sub(lost);
        });
    }
}

/// Whether a pair still stands at a place.
fn stands<S: Slot>(words: &Words<S>, symbols: &Symbols, pair: u64, place: u32) -> bool {
    let (left, right) = sides(pair);
    let next = (place + symbols.span(left)) as usize;
    words.slots[place as usize] == S::of(left) && words.slots.get(next) == Some(&S::of(right))
}
