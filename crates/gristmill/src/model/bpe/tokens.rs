//! The tokens that texts become: by their bytes, by their two parts, and what each is made of.
//!
//! All of it is looked up at random, and a look that misses the processor's caches costs as much as a
//! hundred steps. So a table holds 4 bytes a slot, the number of a token and a few bits of what it is
//! looked up by, and all else of a token lies in one place of 32 bytes. Built once, then never changed.
//! Tested with `greedy.rs`.

use std::cmp::Reverse;

use rustc_hash::FxHashMap;

use super::NONE;
use super::keys::{Part, SHORT, ShortKey, hash, short_key, short_key_of};
use crate::memory::Table;
use crate::simd::prefetch;
use crate::vocab::Vocab;

/// The symbols a token is made of, and when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Tree {
    pub(crate) left: u32,
    pub(crate) right: u32,
    /// One more than the rank of the merge it comes of; 0 for a symbol that pieces begin as, and
    /// [`NEVER_BORN`] for what no text becomes.
    pub(crate) born: u32,
}

/// See [`Tree::born`].
pub(super) const NEVER_BORN: u32 = u32::MAX;

/// The most tokens with the same first bytes.
const MOST_ALIKE: usize = 512;

/// See above.
pub(super) struct Tokens {
    /// For each token its key, its parts and when it is born.
    cells: Table<[u64; 4]>,
    by_bytes: Slots,
    by_parts: Slots,
    /// Tokens of one byte.
    single: Box<[u32; 256]>,
    /// For the first two bytes, the length of the longest token, at most [`SHORT`] + 1.
    longest: Box<[u8]>,
    /// Tokens longer than a key, by their first bytes; the longest first.
    long: FxHashMap<[u8; SHORT + 1], Vec<u32>>,
    /// How many are born.
    born: usize,
}

/// The search for the longest token that a window begins with, while it waits for memory.
#[derive(Clone, Copy)]
pub(super) struct Search {
    /// The length it is at; 1 for a single byte, which waits for nothing, and 0 for nothing at all.
    length: u8,
    /// The slot that comes next.
    place: u32,
    tag: u32,
    /// The token that may be it, once the slot has told.
    id: u32,
}

impl Tokens {
    /// Tokens that are not born yet.
    pub(super) fn new(vocab: &Vocab) -> Tokens {
        let count = vocab.id_end() as usize;
        let mut tokens = Tokens {
            cells: Table::new(count),
            by_bytes: Slots::new(vocab.len()),
            by_parts: Slots::new(vocab.len()),
            single: Box::new([NONE; 256]),
            longest: vec![0; 1 << 16].into_boxed_slice(),
            long: FxHashMap::default(),
            born: 0,
        };
        for cell in tokens.cells.get_mut() {
            cell[3] = NEVER_BORN.into();
        }
        tokens
    }

    /// What a token is made of.
    #[inline(always)]
    pub(super) fn tree(&self, id: u32) -> Tree {
        let cell = self.cells.get().get(id as usize);
        cell.map_or(
            Tree {
                left: NONE,
                right: NONE,
                born: NEVER_BORN,
            },
            |&[_, _, parts, born]| Tree {
                left: parts as u32,
                right: (parts >> 32) as u32,
                born: born as u32,
            },
        )
    }

    /// Whether some text becomes this token.
    #[inline(always)]
    pub(super) fn is_born(&self, id: u32) -> bool {
        self.tree(id).born != NEVER_BORN
    }

    /// A token is born. Its bytes are looked up from now on, and so are its parts.
    pub(super) fn insert(&mut self, vocab: &Vocab, id: u32, tree: Tree) {
        let Some(token) = vocab.get(id) else {
            return;
        };
        let parts = u64::from(tree.left) | u64::from(tree.right) << 32;
        let short = token.len() <= SHORT;
        let key = if short {
            short_key(token, Part::Piece)
        } else {
            [0; 2]
        };
        if let Some(cell) = self.cells.get_mut().get_mut(id as usize) {
            *cell = [key[0], key[1], parts, tree.born.into()];
        }
        self.born += 1;
        if tree.born > 0 {
            self.by_parts.insert(hash_of_parts(parts), id);
        }
        let [first, second, ..] = *token else {
            if let [only] = *token {
                self.single[usize::from(only)] = id;
            }
            return;
        };
        let longest = &mut self.longest[two(first, second)];
        *longest = (*longest).max(token.len().min(SHORT + 1) as u8);
        if short {
            self.by_bytes.insert(hash(key), id);
        } else if let Some(&start) = token.first_chunk() {
            self.long.entry(start).or_default().push(id);
        }
    }

    /// Bring near where the bytes of a token lie that will be inserted.
    #[inline]
    pub(super) fn expect_place(&self, vocab: &Vocab, id: Option<u32>) {
        if let Some(id) = id {
            vocab.expect_span_of(id);
        }
    }

    /// Then its bytes, and what is known of it and its parts.
    #[inline]
    pub(super) fn expect(&self, vocab: &Vocab, id: u32, left: u32, right: u32) {
        vocab.expect_bytes_of(id);
        let cells = self.cells.get();
        for token in [id, left, right] {
            if let Some(cell) = cells.get(token as usize) {
                prefetch(cell);
            }
        }
        let parts = u64::from(left) | u64::from(right) << 32;
        self.by_parts.expect(hash_of_parts(parts));
    }

    /// Then its slot, unless it is born.
    #[inline]
    pub(super) fn expect_slot(&self, vocab: &Vocab, id: Option<u32>) {
        if let Some(id) = id
            && self.tree(id).born == NEVER_BORN
            && let Some(token) = vocab.get(id)
            && token.len() <= SHORT
        {
            self.by_bytes.expect(hash(short_key(token, Part::Piece)));
        }
    }

    /// Ends the insertions. False if so many long tokens begin alike that trying each takes too long.
    pub(super) fn finish(&mut self, vocab: &Vocab) -> bool {
        if self.born < vocab.len() {
            self.insert_unborn(vocab);
        }
        let length = |id: &u32| vocab.get(*id).map_or(0, <[u8]>::len);
        for ids in self.long.values_mut() {
            ids.sort_unstable_by_key(|id| Reverse(length(id)));
        }
        self.long.values().all(|ids| ids.len() <= MOST_ALIKE)
    }

    /// Tokens that no text becomes are found by their bytes too: a piece may be one as a whole.
    #[cold]
    fn insert_unborn(&mut self, vocab: &Vocab) {
        for (id, token) in vocab.iter() {
            if self.tree(id).born == NEVER_BORN && (2..=SHORT).contains(&token.len()) {
                let key = short_key(token, Part::Piece);
                if let Some(cell) = self.cells.get_mut().get_mut(id as usize) {
                    *cell = [key[0], key[1], u64::MAX, NEVER_BORN.into()];
                }
                self.by_bytes.insert(hash(key), id);
            }
        }
    }

    /// Begin to look for the longest token of at most `limit` bytes that a window begins with: one that
    /// may be there, the slot of which is called for.
    #[inline(always)]
    pub(super) fn seek(&self, window: u128, limit: usize) -> Search {
        for length in (2..=limit.min(SHORT)).rev() {
            let hash = hash(short_key_of(window, length, false));
            if self.by_bytes.may_have(hash) {
                self.by_bytes.expect(hash);
                return Search {
                    length: length as u8,
                    place: hash as u32 & self.by_bytes.mask as u32,
                    tag: tag(hash),
                    id: NONE,
                };
            }
        }
        Search {
            length: limit.min(1) as u8,
            place: 0,
            tag: 0,
            id: self.single[usize::from(window as u8)],
        }
    }

    /// Go on with what was called for. The token and its length, once it is found; NONE where nothing
    /// fits.
    #[inline(always)]
    pub(super) fn advance(&self, window: u128, search: &mut Search) -> Option<(u32, usize)> {
        let length = usize::from(search.length);
        if length < 2 {
            let id = if length == 0 { NONE } else { search.id };
            return Some((id, length));
        }
        let cells = self.cells.get();
        if search.id != NONE {
            let key = short_key_of(window, length, false);
            if cells
                .get(search.id as usize)
                .is_some_and(|cell| cell[..2] == key)
            {
                return Some((search.id, length));
            }
            search.place = (search.place + 1) & self.by_bytes.mask as u32;
        }
        match self.by_bytes.next(&mut search.place, search.tag) {
            Some(id) => {
                search.id = id;
                if let Some(cell) = cells.get(id as usize) {
                    prefetch(cell);
                }
            }
            None => *search = self.seek(window, length - 1),
        }
        None
    }

    /// The rank of the merge of two symbols, if it makes a token that is born.
    #[inline(always)]
    pub(super) fn rank(&self, left: u32, right: u32) -> Option<u32> {
        let parts = u64::from(left) | u64::from(right) << 32;
        let cells = self.cells.get();
        let found = self.by_parts.find(hash_of_parts(parts), |id| {
            cells.get(id as usize).is_some_and(|cell| cell[2] == parts)
        });
        found.map(|id| self.tree(id).born - 1)
    }

    /// The longest token of at most `limit` bytes that begins a text, which goes on to `rest`, and whose
    /// first bytes, and zeros where it ends, are `window`. And the token's length.
    #[inline(always)]
    pub(super) fn longest(
        &self,
        vocab: &Vocab,
        rest: &[u8],
        window: u128,
        limit: usize,
    ) -> Option<(u32, usize)> {
        let [first, second, ..] = window.to_le_bytes();
        if limit > 1 {
            let longest = usize::from(self.longest[two(first, second)]);
            if longest > SHORT
                && limit > SHORT
                && let Some(found) = self.longest_of_long(vocab, rest, limit)
            {
                return Some(found);
            }
            let cells = self.cells.get();
            for length in (2..=limit.min(longest).min(SHORT)).rev() {
                let key: ShortKey = short_key_of(window, length, false);
                let found = self.by_bytes.find(hash(key), |id| {
                    let cell = cells.get(id as usize);
                    cell.is_some_and(|cell| cell[..2] == key && cell[3] != u64::from(NEVER_BORN))
                });
                if let Some(id) = found {
                    return Some((id, length));
                }
            }
        }
        let id = self.single[usize::from(first)];
        (id != NONE && limit > 0).then_some((id, 1))
    }

    /// The token of one byte.
    #[inline]
    pub(super) fn single(&self, byte: u8) -> Option<u32> {
        let id = self.single[usize::from(byte)];
        (id != NONE).then_some(id)
    }

    /// The length of the longest token that begins with two bytes, at most [`SHORT`] + 1.
    #[inline]
    pub(super) fn longest_beginning(&self, first: u8, second: u8) -> usize {
        self.longest[two(first, second)].into()
    }

    /// So many bytes tell that a token begins with some of this window: no token that begins like it is
    /// longer, and any other differs from it in the first two.
    pub(super) fn longest_like(&self, vocab: &Vocab, window: u128) -> usize {
        let bytes = window.to_le_bytes();
        let longest = self.longest_beginning(bytes[0], bytes[1]);
        let ids = self.long.get(&bytes).filter(|_| longest > SHORT);
        let first = ids.and_then(|ids| vocab.get(*ids.first()?));
        first.map_or(longest.max(2), <[u8]>::len)
    }

    #[cold]
    fn longest_of_long(&self, vocab: &Vocab, rest: &[u8], limit: usize) -> Option<(u32, usize)> {
        let ids = self.long.get(rest.first_chunk()?)?;
        ids.iter().find_map(|&id| {
            let token = vocab.get(id)?;
            (token.len() <= limit && rest.starts_with(token)).then_some((id, token.len()))
        })
    }
}

/// Numbers of tokens, hashed by something that their finder compares.
struct Slots {
    /// One more than the number, 0 for none, and above it some bits of the hash.
    slots: Table<u32>,
    mask: usize,
    /// A bit for each hash that is there, and by chance for others: small enough to stay near, it
    /// answers most questions about what is not there.
    filter: Table<u64>,
    filter_mask: usize,
}

/// The least bits of a filter for each number.
const FILTER_BITS: usize = 8;

/// The bits of a number.
const NUMBER_BITS: u32 = 22;
const NUMBER: u32 = (1 << NUMBER_BITS) - 1;

impl Slots {
    fn new(count: usize) -> Slots {
        let slots = (2 * count).next_power_of_two().max(2);
        let bits = (FILTER_BITS * count).next_power_of_two().max(64);
        Slots {
            slots: Table::new(slots),
            mask: slots - 1,
            filter: Table::new(bits / 64),
            filter_mask: bits - 1,
        }
    }

    /// The bit of a hash: its number in the filter, and the bit in that.
    #[inline(always)]
    fn bit(&self, hash: u64) -> (usize, u32) {
        let bit = (hash >> 32) as usize & self.filter_mask;
        (bit / 64, bit as u32 % 64)
    }

    /// False if no number of this hash is here.
    #[inline(always)]
    fn may_have(&self, hash: u64) -> bool {
        let (at, bit) = self.bit(hash);
        self.filter
            .get()
            .get(at)
            .is_some_and(|bits| bits >> bit & 1 == 1)
    }

    /// No more than it was made for, so that some are always free.
    fn insert(&mut self, hash: u64, number: u32) {
        let mut place = hash as usize & self.mask;
        let slots = self.slots.get_mut();
        while slots[place] != 0 {
            place = (place + 1) & self.mask;
        }
        slots[place] = tag(hash) | (number + 1);
        let (at, bit) = self.bit(hash);
        if let Some(bits) = self.filter.get_mut().get_mut(at) {
            *bits |= 1 << bit;
        }
    }

    /// The number in the first slot from `place` on that has this tag; `place` is left there.
    #[inline(always)]
    fn next(&self, place: &mut u32, tag: u32) -> Option<u32> {
        let slots = self.slots.get();
        loop {
            let slot = *slots.get(*place as usize)?;
            if slot == 0 {
                return None;
            }
            if slot & !NUMBER == tag {
                return Some((slot & NUMBER) - 1);
            }
            *place = (*place + 1) & self.mask as u32;
        }
    }

    #[inline]
    fn expect(&self, hash: u64) {
        if let Some(slot) = self.slots.get().get(hash as usize & self.mask) {
            prefetch(slot);
        }
    }

    #[inline(always)]
    fn find(&self, hash: u64, is_it: impl Fn(u32) -> bool) -> Option<u32> {
        if !self.may_have(hash) {
            return None;
        }
        let mut place = (hash as usize & self.mask) as u32;
        loop {
            let number = self.next(&mut place, tag(hash))?;
            if is_it(number) {
                return Some(number);
            }
            place = (place + 1) & self.mask as u32;
        }
    }
}

/// The bits of a hash that stand above a number.
fn tag(hash: u64) -> u32 {
    (hash >> 32) as u32 & !NUMBER
}

fn hash_of_parts(parts: u64) -> u64 {
    let product = parts.wrapping_mul(0x9E37_79B9_7F4A_7C15);
    product ^ product >> 29
}

fn two(first: u8, second: u8) -> usize {
    usize::from(first) << 8 | usize::from(second)
}
