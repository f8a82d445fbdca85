//! The two tables of the cache.
//!
//! In each a key has two places side by side. A newcomer takes the first and moves what was there to the
//! second. In the table of short keys, what was in the second moves on to the line beside, if there is a
//! free place, and comes back when it is asked for. A short key with too many ids has a mark there, so
//! that the other table is not asked about keys that it does not have. So nothing is ever searched. A table that has got many
//! newcomers is made anew, larger, up to a limit. Tested here and in `cache.rs`.

use super::keys::{LongKey, ShortKey, hash, long_hash};
use super::sink::Sink;
use crate::memory::{Line, Lines, Word};
use crate::simd::prefetch;

/// The most ids beside a short key.
pub(super) const SHORT_IDS: usize = 4;
/// The most ids beside a long key; more are kept elsewhere.
const LONG_IDS: usize = 8;

/// What a table grows to at a time.
const GROWTH: usize = 4;
/// Lines of 64 bytes: 1 MiB at first, 16 MiB at most.
const SHORT_LINES: [usize; 2] = [1 << 14, 1 << 18];
/// 512 KiB at first, 8 MiB at most.
const LONG_LINES: [usize; 2] = [1 << 13, 1 << 17];
/// Ids of long keys that have many.
const MANY: usize = 1 << 16;

/// Above the last id: how many there are.
const COUNT_SHIFT: u32 = 56;
/// The ids of a number.
pub(super) const IDS: u64 = (1 << COUNT_SHIFT) - 1;

/// How many ids the number that holds the last ones counts.
#[inline(always)]
pub(super) fn count_of(last: u64) -> usize {
    (last >> COUNT_SHIFT) as usize
}

/// What is known of a short key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Known {
    Nothing,
    /// The ids were taken.
    Ids,
    /// It has more ids, which are in the other table if they are not gone.
    Mark,
}

/// Beside a key whose ids are in the other table: no ids.
const MARK: Word = [0; 2];

/// Lines of two short keys and two words of ids.
pub(super) struct ShortTable {
    lines: Lines,
    /// Newcomers since the table was made.
    fresh: usize,
}

/// A [`ShortTable`], to look into.
#[derive(Clone, Copy)]
pub(super) struct ShortFinder<'a>(&'a [Line]);

/// Pairs of lines, each with a long key and two words of ids.
pub(super) struct LongTable {
    lines: Lines,
    fresh: usize,
    many: Many,
}

/// A [`LongTable`], to look into.
#[derive(Clone, Copy)]
pub(super) struct LongFinder<'a> {
    pairs: &'a [[Line; 2]],
    many: &'a Many,
}

/// Lists of ids, the latest over the oldest.
struct Many {
    ids: Box<[u32]>,
    /// How many were ever written.
    written: u64,
}

/// The ids of a long key.
pub(super) struct Kept<'a> {
    words: [Word; 2],
    many: &'a Many,
}

/// Whether a table of so many lines should grow.
fn is_full(lines: &Lines, fresh: usize, limit: usize) -> bool {
    let count = lines.get().len();
    count < limit && fresh * 4 > count * 3
}

impl ShortTable {
    pub(super) fn new() -> ShortTable {
        ShortTable {
            lines: Lines::new(SHORT_LINES[0]),
            fresh: 0,
        }
    }

    #[inline(always)]
    pub(super) fn finder(&self) -> ShortFinder<'_> {
        ShortFinder(self.lines.get())
    }

    /// Grow if it is time.
    #[inline(always)]
    pub(super) fn make_room(&mut self) {
        if is_full(&self.lines, self.fresh, SHORT_LINES[1]) {
            self.grow();
        }
    }

    #[cold]
    fn grow(&mut self) {
        let mut grown = ShortTable {
            lines: Lines::new(self.lines.get().len() * GROWTH),
            fresh: 0,
        };
        for line in self.lines.get() {
            // The newer one last, so that it is the newer one again.
            for at in [1, 0] {
                if line[at] != [0; 2] {
                    grown.insert(line[at], line[at + 2]);
                }
            }
        }
        *self = grown;
    }

    /// Give `sink` the ids of a key, if they are there.
    #[inline]
    pub(super) fn get(&mut self, key: ShortKey, sink: &mut impl Sink) -> Known {
        let (number, line) = self.finder().line(key);
        let Some(line) = line else {
            return Known::Nothing;
        };
        for at in [1, 0] {
            if line[at] == key {
                return give(line[at + 2], sink);
            }
        }
        let beside = self.lines.get_mut().get_mut(number as usize ^ 1);
        let Some(beside) = beside else {
            return Known::Nothing;
        };
        let Some(at) = beside[..2].iter().position(|other| *other == key) else {
            return Known::Nothing;
        };
        let ids = beside[at + 2];
        beside[at] = [0; 2];
        self.insert(key, ids);
        give(ids, sink)
    }

    /// The ids of a key are in the other table.
    pub(super) fn mark(&mut self, key: ShortKey) {
        self.insert(key, MARK);
        self.fresh += 1;
    }

    /// Remember the ids of a key, unless it is there.
    pub(super) fn put(&mut self, key: ShortKey, ids: &[u32]) {
        let (_, line) = self.finder().line(key);
        if line.is_some_and(|line| line[..2].contains(&key)) {
            return;
        }
        let [words] = counted(ids);
        self.insert(key, words);
        self.fresh += 1;
    }

    fn insert(&mut self, key: ShortKey, ids: Word) {
        let number = self.finder().line(key).0 as usize;
        let lines = self.lines.get_mut();
        let Some(line) = lines.get_mut(number) else {
            return;
        };
        let [first, second, first_ids, second_ids] = *line;
        *line = [key, first, ids, first_ids];
        if second != [0; 2]
            && let Some(beside) = lines.get_mut(number ^ 1)
            && let Some(at) = beside[..2].iter().position(|other| *other == [0; 2])
        {
            beside[at] = second;
            beside[at + 2] = second_ids;
        }
    }
}

impl<'a> ShortFinder<'a> {
    /// Where a key would be.
    #[inline(always)]
    pub(super) fn line(self, key: ShortKey) -> (u32, Option<&'a Line>) {
        let number = hash(key) as u32 & (self.0.len() as u32).wrapping_sub(1);
        (number, self.0.get(number as usize))
    }

    /// Bring a line near, if there is one of this number.
    #[inline(always)]
    pub(super) fn expect(self, line: u32) {
        if let Some(line) = self.0.get(line as usize) {
            prefetch(line);
        }
    }

    /// The keys of a line, and their ids.
    #[inline(always)]
    pub(super) fn halves(self, line: u32) -> Option<[&'a [Word; 2]; 2]> {
        match self.0.get(line as usize)?.as_chunks().0 {
            [keys, ids] => Some([keys, ids]),
            _ => None,
        }
    }
}

impl LongTable {
    pub(super) fn new() -> LongTable {
        LongTable {
            lines: Lines::new(LONG_LINES[0]),
            fresh: 0,
            many: Many {
                ids: Box::default(),
                written: 0,
            },
        }
    }

    #[inline(always)]
    pub(super) fn finder(&self) -> LongFinder<'_> {
        LongFinder {
            pairs: self.lines.get().as_chunks().0,
            many: &self.many,
        }
    }

    /// Grow if it is time.
    #[inline(always)]
    pub(super) fn make_room(&mut self) {
        if is_full(&self.lines, self.fresh, LONG_LINES[1]) {
            self.grow();
        }
    }

    #[cold]
    fn grow(&mut self) {
        let larger = Lines::new(self.lines.get().len() * GROWTH);
        let old = std::mem::replace(&mut self.lines, larger);
        self.fresh = 0;
        for pair in old.get().as_chunks::<2>().0 {
            for line in [pair[1], pair[0]] {
                if line != Line::default() {
                    self.insert(line);
                }
            }
        }
    }

    /// Give `sink` the ids of a key, if they are there.
    #[inline]
    pub(super) fn get(&self, key: &LongKey, sink: &mut impl Sink) -> bool {
        let finder = self.finder();
        let (number, _) = finder.pair(key);
        match finder.find(number, key) {
            Some(kept) => kept.push(sink),
            None => false,
        }
    }

    pub(super) fn put(&mut self, key: &LongKey, ids: &[u32]) {
        let [low, high] = if ids.len() <= LONG_IDS {
            counted(ids)
        } else {
            let count = (ids.len() as u64) << COUNT_SHIFT;
            [[0; 2], [self.many.put(ids), count]]
        };
        self.insert([key[0], key[1], low, high]);
        self.fresh += 1;
    }

    fn insert(&mut self, entry: Line) {
        let number = self.finder().pair(&[entry[0], entry[1]]).0 as usize;
        let pairs = self.lines.get_mut().as_chunks_mut::<2>().0;
        if let Some([first, second]) = pairs.get_mut(number) {
            *second = *first;
            *first = entry;
        }
    }
}

impl<'a> LongFinder<'a> {
    /// Where a key would be.
    #[inline(always)]
    pub(super) fn pair(self, key: &LongKey) -> (u32, Option<&'a [Line; 2]>) {
        let number = long_hash(key) as u32 & (self.pairs.len() as u32).wrapping_sub(1);
        (number, self.pairs.get(number as usize))
    }

    /// The ids of a key, if they are at its place.
    #[inline(always)]
    pub(super) fn find(self, number: u32, key: &LongKey) -> Option<Kept<'a>> {
        let pair = self.pairs.get(number as usize)?;
        let line = pair.iter().find(|line| line[..2] == *key)?;
        Some(Kept {
            words: [line[2], line[3]],
            many: self.many,
        })
    }
}

impl Kept<'_> {
    fn count(&self) -> usize {
        count_of(self.words[1][1])
    }

    /// Write the ids and return their number; nothing where they are elsewhere.
    #[inline(always)]
    pub(super) fn write(&self, place: &mut [u32; LONG_IDS]) -> Option<usize> {
        let [[a, b], [c, d]] = self.words;
        let halves = |number: u64| [number as u32, (number >> 32) as u32];
        let [[a, e], [b, f], [c, g], [d, h]] = [a, b, c, d & IDS].map(halves);
        *place = [a, e, b, f, c, g, d, h];
        Some(self.count()).filter(|&count| count <= LONG_IDS)
    }

    /// Give `sink` the ids; false if they were written over.
    fn push(&self, sink: &mut impl Sink) -> bool {
        let mut place = [0; LONG_IDS];
        let ids = match self.write(&mut place) {
            Some(count) => place.get(..count),
            None => self.many.get(self.words[1][0], self.count()),
        };
        ids.map(|ids| sink.push(ids)).is_some()
    }
}

impl Many {
    /// Where the ids are from now on.
    fn put(&mut self, ids: &[u32]) -> u64 {
        if self.ids.is_empty() {
            self.ids = vec![0; MANY].into_boxed_slice();
        }
        let left = MANY - self.written as usize % MANY;
        if left < ids.len() {
            self.written += left as u64;
        }
        let start = self.written;
        let at = start as usize % MANY;
        if let Some(place) = self.ids.get_mut(at..at + ids.len()) {
            place.copy_from_slice(ids);
            self.written += ids.len() as u64;
        }
        start
    }

    /// So many ids from there on, unless they were written over.
    fn get(&self, start: u64, count: usize) -> Option<&[u32]> {
        if self.written - start > MANY as u64 {
            return None;
        }
        let at = start as usize % MANY;
        self.ids.get(at..at + count)
    }
}

/// Give `sink` the ids of a word, unless it is a mark.
#[inline(always)]
fn give(ids: Word, sink: &mut impl Sink) -> Known {
    if ids == MARK {
        return Known::Mark;
    }
    push(&[ids], sink);
    Known::Ids
}

/// Give `sink` the ids that some words hold.
#[inline(always)]
fn push<const WORDS: usize>(words: &[Word; WORDS], sink: &mut impl Sink) {
    let mut ids = [[0; 4]; WORDS];
    for (four, [low, high]) in ids.iter_mut().zip(words) {
        let last = high & IDS;
        *four = [
            *low as u32,
            (low >> 32) as u32,
            last as u32,
            (last >> 32) as u32,
        ];
    }
    let ids = ids.as_flattened();
    sink.push(&ids[..count_of(words[WORDS - 1][1]).min(ids.len())]);
}

/// The ids and, above the last, their number.
fn counted<const WORDS: usize>(ids: &[u32]) -> [Word; WORDS] {
    let mut words = [[0; 2]; WORDS];
    for (number, pair) in words.as_flattened_mut().iter_mut().zip(ids.chunks(2)) {
        let high = pair.get(1).copied().unwrap_or(0);
        *number = u64::from(pair[0]) | u64::from(high) << 32;
    }
    words[WORDS - 1][1] |= (ids.len() as u64) << COUNT_SHIFT;
    words
}

#[cfg(test)]
mod tests {
    use super::super::keys::{Part, long_key, short_key};
    use super::*;

    #[test]
    fn tables_grow_no_further_than_their_limit_and_forget_little() {
        let (mut short, mut long) = (ShortTable::new(), LongTable::new());
        for round in 0..100_000u32 {
            let piece = round.to_string();
            short.put(short_key(piece.as_bytes(), Part::Piece), &[round; 3]);
            short.make_room();
            let piece = format!("{round:>20}");
            long.put(&long_key(piece.as_bytes(), Part::Unit), &[round; 7]);
            long.make_room();
        }
        let mut forgotten = [0, 0];
        for round in 0..100_000u32 {
            let mut ids = Vec::new();
            let key = short_key(round.to_string().as_bytes(), Part::Piece);
            let known = short.get(key, &mut ids) == Known::Ids;
            assert_eq!(ids, if known { vec![round; 3] } else { vec![] });
            forgotten[0] += u32::from(!known);
            ids.clear();
            let key = long_key(format!("{round:>20}").as_bytes(), Part::Unit);
            let known = long.get(&key, &mut ids);
            assert_eq!(ids, if known { vec![round; 7] } else { vec![] });
            forgotten[1] += u32::from(!known);
        }
        assert!(forgotten[0] < 5_000, "{forgotten:?}");
        assert!(forgotten[1] < 30_000, "{forgotten:?}");
        for _ in 0..3 {
            short.fresh = usize::MAX / 8;
            short.make_room();
            long.fresh = usize::MAX / 8;
            long.make_room();
        }
        assert_eq!(short.lines.get().len(), SHORT_LINES[1]);
        assert_eq!(long.lines.get().len(), LONG_LINES[1]);
    }

    #[test]
    fn many_ids_are_there_until_they_are_written_over() {
        let mut table = LongTable::new();
        let key = |number: u32| long_key(number.to_string().as_bytes(), Part::Piece);
        for round in 0..10_000u32 {
            table.put(&key(round), &[round; 29]);
        }
        for round in 0..10_000u32 {
            let mut ids = Vec::new();
            if table.get(&key(round), &mut ids) {
                assert_eq!(ids, [round; 29]);
                assert!(round > 7_000);
            } else {
                assert!(ids.is_empty() && round < 9_990);
            }
        }
    }
}
