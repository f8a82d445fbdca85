//! Pieces seen lately and their ids: bounded, owned by one call at a time.
//!
//! Two tables: one for pieces of up to 15 bytes with up to 4 ids, one for other pieces of up to 31 bytes
//! (`tables.rs`). What a cache holds cannot change a result: an entry is used only if its key equals the
//! whole piece, bytes and length. Nothing is ever wiped; a table grows while it fills, up to a limit.
//! Tested below, and by the law that encoding gives the same ids whatever was encoded before.
//!
//! Pieces are looked for in groups ([`Cache::locate`], [`Cache::known`]): first all places of a group
//! are found and fetched, then they are compared, so that slow memory is waited for once a group.

use super::encoding::Waiting;
use super::greedy::DeadEnds;
use super::keys::{
    LONG, LongKey, Part, SHORT, ShortKey, long_key, long_key_of, short_key, short_key_of,
};
use super::merge::Scratch;
use super::sink::Sink;
use super::tables::{IDS, Known, LongTable, SHORT_IDS, ShortTable, count_of};
use crate::simd::{Isa, prefetch};
use crate::split::Bound;

/// The most pieces of a group.
pub(crate) const GROUP: usize = 64;
/// Room for the ids of the known pieces of a group.
pub(crate) const GROUP_IDS: usize = GROUP * 8;

/// The mutable state of encoding: what was seen, and buffers for what was not.
pub(crate) struct Cache {
    short: ShortTable,
    long: LongTable,
    group: Box<Group>,
    pub(crate) scratch: Scratch,
    pub(crate) dead_ends: DeadEnds,
    pub(super) waiting: Waiting,
    /// Ids of one unit, on their way to somewhere else.
    pub(crate) ids: Vec<u32>,
}

/// The pieces of a group: their keys and their places.
struct Group {
    spots: [Spot; GROUP],
    /// The keys of those that are not short.
    long_keys: [LongKey; GROUP],
}

/// Where a piece of a group would be.
#[derive(Clone, Copy)]
struct Spot {
    key: ShortKey,
    /// The number of its line in the first table.
    line: u32,
    /// The number of its line in the second table.
    long_line: u32,
}

/// No line of a table.
const NO_LINE: u32 = u32::MAX;

impl Cache {
    /// An empty cache.
    pub(crate) fn new() -> Cache {
        const NOWHERE: Spot = Spot {
            key: [0; 2],
            line: NO_LINE,
            long_line: NO_LINE,
        };
        Cache {
            short: ShortTable::new(),
            long: LongTable::new(),
            group: Box::new(Group {
                spots: [NOWHERE; GROUP],
                long_keys: [[[0; 2]; 2]; GROUP],
            }),
            scratch: Scratch::default(),
            dead_ends: DeadEnds::default(),
            waiting: Waiting::default(),
            ids: Vec::new(),
        }
    }

    /// Find out where the pieces of a group would be: the piece from the first bound to the second, and so
    /// on, in `text`, each bound counted from `base`. `units` says whether parts of pieces are another thing
    /// than pieces.
    #[inline(always)]
    pub(crate) fn locate(&mut self, text: &[u8], base: usize, bounds: &[u32], units: bool) {
        self.short.make_room();
        self.long.make_room();
        let (short, long) = (self.short.finder(), self.long.finder());
        let Some((&first, ends)) = bounds.split_first() else {
            return;
        };
        let mut start = base + Bound(first).at();
        let mut start_is_cut = Bound(first).is_cut();
        let Group { spots, long_keys } = &mut *self.group;
        for ((spot, long_key), &bound) in spots.iter_mut().zip(long_keys).zip(ends) {
            let bound = Bound(bound);
            let end = base + bound.at();
            let length = end - start;
            let is_unit = units & (start_is_cut | bound.is_cut());
            start_is_cut = bound.is_cut();
            // Text is read a little further than a piece goes.
            let rest = text.get(start..).unwrap_or_default();
            if let (Some(bytes), true) = (rest.first_chunk(), length <= SHORT) {
                let key = short_key_of(u128::from_le_bytes(*bytes), length, is_unit);
                let (number, line) = short.line(key);
                if let Some(line) = line {
                    prefetch(line);
                }
                *spot = Spot {
                    key,
                    line: number,
                    long_line: NO_LINE,
                };
            } else if let (Some(bytes), true) = (rest.first_chunk(), length <= LONG) {
                *long_key = long_key_of(bytes, length, is_unit);
                let (number, pair) = long.pair(long_key);
                if let Some([first, second]) = pair {
                    prefetch(first);
                    prefetch(second);
                }
                spot.line = NO_LINE;
                spot.long_line = number;
            } else {
                spot.line = NO_LINE;
                spot.long_line = NO_LINE;
            }
            start = end;
        }
    }

    /// Write the ids of the pieces of the group from the one numbered `from` on to the one before `to`, as
    /// long as they are known. Returns how many pieces and how many ids.
    #[inline(always)]
    pub(crate) fn known<I: Isa>(
        &self,
        isa: I,
        from: usize,
        to: usize,
        ids: &mut [u32; GROUP_IDS],
    ) -> (usize, usize) {
        let (short, long) = (self.short.finder(), self.long.finder());
        let spots = self.group.spots.get(from..to).unwrap_or_default();
        let mut count = 0;
        let mut pieces = 0;
        for spot in spots {
            let Some(place) = ids.get_mut(count..) else {
                break;
            };
            if let Some([keys, values]) = short.halves(spot.line) {
                let found = isa.find(keys, &spot.key);
                let place = place.first_chunk_mut::<SHORT_IDS>();
                let (Some(place), true) = (place, found != 0) else {
                    break;
                };
                let [low, high] = values[(found >> 2 & 1) as usize];
                // A mark: the ids are in the other table.
                if count_of(high) == 0 {
                    break;
                }
                let last = high & IDS;
                *place = [
                    low as u32,
                    (low >> 32) as u32,
                    last as u32,
                    (last >> 32) as u32,
                ];
                count += count_of(high);
            } else {
                let key = self.group.long_keys.get(from + pieces);
                let (Some(key), Some(place)) = (key, place.first_chunk_mut()) else {
                    break;
                };
                let Some(kept) = long.find(spot.long_line, key) else {
                    break;
                };
                let Some(number) = kept.write(place) else {
                    break;
                };
                count += number;
            }
            pieces += 1;
        }
        (pieces, count)
    }

    /// A piece of the group is not known in its line: bring near the one beside, where it may be.
    #[inline(always)]
    pub(super) fn expect_beside(&self, number: usize) {
        if let Some(spot) = self.group.spots.get(number) {
            self.short.finder().expect(spot.line ^ 1);
        }
    }

    /// Give `sink` the ids of a piece if they are known.
    #[inline]
    pub(crate) fn get(&mut self, piece: &[u8], part: Part, sink: &mut impl Sink) -> bool {
        if (1..=SHORT).contains(&piece.len()) {
            match self.short.get(short_key(piece, part), sink) {
                Known::Ids => return true,
                Known::Nothing => return false,
                Known::Mark => {}
            }
        }
        (1..=LONG).contains(&piece.len()) && self.long.get(&long_key(piece, part), sink)
    }

    /// Remember the ids of `piece`, if it is not too long.
    pub(crate) fn put(&mut self, piece: &[u8], part: Part, ids: &[u32]) {
        match (piece.len(), ids.len()) {
            (0, _) | (_, 0) => {}
            (..=SHORT, ..=SHORT_IDS) => self.short.put(short_key(piece, part), ids),
            (..=LONG, ..=LONG) => {
                if piece.len() <= SHORT {
                    self.short.mark(short_key(piece, part));
                }
                self.long.put(&long_key(piece, part), ids);
            }
            _ => {}
        }
    }

    /// Give back the memory that one very long piece took.
    pub(crate) fn shrink(&mut self) {
        self.scratch.shrink();
        self.dead_ends.shrink();
        self.ids.clear();
        self.ids.shrink_to(1 << 14);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simd::Plain;

    fn get(cache: &mut Cache, piece: &[u8], part: Part) -> Option<Vec<u32>> {
        let mut ids = Vec::new();
        cache.get(piece, part, &mut ids).then_some(ids)
    }

    #[test]
    fn keys_hold_length_and_bytes() {
        let mut cache = Cache::new();
        let pieces: [&[u8]; 8] = [
            b"a", b"a\0", &[0; 14], &[0; 15], &[0; 16], &[0; 17], &[0; 30], &[0; 31],
        ];
        for (id, piece) in (0..).zip(pieces) {
            cache.put(piece, Part::Piece, &[id]);
        }
        for (id, piece) in (0..).zip(pieces) {
            assert_eq!(get(&mut cache, piece, Part::Piece), Some(vec![id]));
        }
        assert_eq!(get(&mut cache, &[0; 29], Part::Piece), None);
        assert_eq!(get(&mut cache, &[0; 13], Part::Piece), None);
        assert_eq!(get(&mut cache, b"", Part::Piece), None);
    }

    #[test]
    fn as_many_ids_are_kept_as_there_is_room_for() {
        const HIGHEST: u32 = crate::vocab::MAX_ID - 1;
        for length in [1, 4, 15, 16, 31, 32] {
            let piece = vec![b'x'; length];
            for count in 1..40 {
                let mut cache = Cache::new();
                let ids: Vec<u32> = (0..count).map(|number| HIGHEST - number).collect();
                cache.put(&piece, Part::Piece, &ids);
                let kept = length <= LONG && ids.len() <= LONG;
                assert_eq!(get(&mut cache, &piece, Part::Piece), kept.then_some(ids));
            }
        }
    }

    #[test]
    fn units_are_kept_apart_from_pieces() {
        let mut cache = Cache::new();
        cache.put(b"ab", Part::Piece, &[1]);
        cache.put(b"ab", Part::Unit, &[2, 3]);
        assert_eq!(get(&mut cache, b"ab", Part::Piece), Some(vec![1]));
        assert_eq!(get(&mut cache, b"ab", Part::Unit), Some(vec![2, 3]));
    }

    #[test]
    fn the_last_newcomers_are_known() {
        let mut cache = Cache::new();
        for round in 0..1_500_000u32 {
            let key = round.wrapping_mul(0x9E37_79B9).to_string();
            let piece = if round % 2 == 0 {
                key
            } else {
                format!("{key:>20}")
            };
            let ids = vec![round; 1 + round as usize % 9];
            cache.put(piece.as_bytes(), Part::Piece, &ids);
            assert_eq!(get(&mut cache, piece.as_bytes(), Part::Piece), Some(ids));
            cache.locate(b"", 0, &[], true);
        }
    }

    #[test]
    fn groups_find_what_is_known() {
        let text =
            b"the quick brown fox jumps over the lazy dog, incomprehensibility and further still";
        let bounds = [0, 3, 9, 15, 19, 25, 30, 34, 39, 43, 44, 64];
        let mut cache = Cache::new();
        let piece = |number: usize| &text[bounds[number] as usize..bounds[number + 1] as usize];
        for number in 0..11 {
            if number != 6 {
                cache.put(
                    piece(number),
                    Part::Piece,
                    &vec![number as u32; 1 + number % 4],
                );
            }
        }
        cache.locate(text, 0, &bounds, true);
        let mut ids = [0; GROUP_IDS];
        let (pieces, count) = cache.known(Plain, 0, 11, &mut ids);
        assert_eq!((pieces, count), (6, 13));
        assert_eq!(&ids[..count], [0, 1, 1, 2, 2, 2, 3, 3, 3, 3, 4, 5, 5]);
        assert_eq!(cache.known(Plain, 6, 11, &mut ids).0, 0);
        // A short piece of many ids is not known there, but by itself.
        cache.put(piece(6), Part::Piece, &[5; 9]);
        assert_eq!(cache.known(Plain, 6, 11, &mut ids).0, 0);
        assert_eq!(get(&mut cache, piece(6), Part::Piece), Some(vec![5; 9]));
        let (pieces, count) = cache.known(Plain, 7, 11, &mut ids);
        assert_eq!(
            (pieces, &ids[..count]),
            (4, &[7, 7, 7, 7, 8, 9, 9, 10, 10, 10][..])
        );
    }
}
