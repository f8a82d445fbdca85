//! Ids and the bytes they stand for, both ways.
//!
//! A [`Vocab`] is immutable once built. All bytes lie in one arena; the table from bytes to ids
//! stores ids and a few bits of the hash, and reads the bytes back from the arena. Ids may be sparse; two ids never share
//! the same bytes, and no id is given twice: building checks both. Tested below, and by every golden
//! file.

use std::collections::BTreeMap;
use std::hash::BuildHasher;
use std::sync::Arc;

use rustc_hash::{FxBuildHasher, FxHashMap};

use crate::error::{Error, Result};
use crate::memory::{Table, prefer_large_pages};
use crate::simd::prefetch;

/// Ids lie below this: a hostile file must not make a table of four billion rows, and pairs of ids
/// must fit the table of merges.
pub(crate) const MAX_ID: u32 = 1 << 21;

/// The longest token, in bytes, of formats whose merges are found by trying every cut of every token:
/// a hostile file must not make that take for ever. The longest in use have a few hundred.
pub(crate) const LONGEST_TOKEN: usize = 1024;

/// The bits of a slot that hold one more than an id.
const NUMBER_BITS: u32 = 22;
const NUMBER: u32 = (1 << NUMBER_BITS) - 1;
const _: () = assert!(MAX_ID <= NUMBER);

/// Where the bytes of a token lie in the arena.
#[derive(Clone, Copy)]
struct Span {
    start: u32,
    end: u32,
}

/// Of an id that no token has: no token ends before it starts.
const ABSENT: Span = Span { start: 1, end: 0 };

/// The bytes of each id and the id of each byte string.
pub(crate) struct Vocab {
    arena: Vec<u8>,
    spans: Vec<Span>,
    /// One more than an id, 0 for none, and above it some bits of the hash of its bytes. At most half
    /// of them are taken.
    slots: Table<u32>,
    mask: usize,
    count: usize,
    /// Tokens that are not in the table yet, and the hashes of their bytes.
    waiting: Vec<(u64, u32)>,
}

/// So many tokens wait for their slots to arrive from memory.
const MOST_WAITING: usize = 32;

impl Vocab {
    /// An empty vocabulary with room for `tokens` tokens.
    pub(crate) fn with_capacity(tokens: usize) -> Vocab {
        let slots = (2 * tokens).next_power_of_two().max(2);
        let mut arena = Vec::with_capacity(tokens.saturating_mul(8));
        let mut spans = Vec::with_capacity(tokens);
        prefer_large_pages(arena.spare_capacity_mut());
        prefer_large_pages(spans.spare_capacity_mut());
        Vocab {
            arena,
            spans,
            slots: Table::new(slots),
            mask: slots - 1,
            count: 0,
            waiting: Vec::with_capacity(MOST_WAITING),
        }
    }

    /// Add a token. Fails if the id or the bytes are there already, or the id is out of range.
    pub(crate) fn insert(&mut self, bytes: &[u8], id: u32) -> Result<()> {
        self.insert_soon(bytes, id)?;
        self.settle()
    }

    /// Add a token that [`id`](Self::id) need not find before [`settle`](Self::settle). One of them fails
    /// where [`insert`](Self::insert) does.
    pub(crate) fn insert_soon(&mut self, bytes: &[u8], id: u32) -> Result<()> {
        self.check(id, bytes.len())?;
        let start = self.arena.len();
        self.arena.extend_from_slice(bytes);
        self.wait(start, id)
    }

    /// Add a token of the bytes of two that are there, as [`insert_soon`](Self::insert_soon) does.
    pub(crate) fn join_soon(&mut self, left: u32, right: u32, id: u32) -> Result<()> {
        let start = self.arena.len();
        for part in [left, right] {
            let span = self.span(part).unwrap_or(ABSENT);
            let Some(length) = span.end.checked_sub(span.start) else {
                return Err(Error::format(format!("no token has the id {part}")));
            };
            self.check(id, self.arena.len() - start + length as usize)?;
            self.arena
                .extend_from_within(span.start as usize..span.end as usize);
        }
        self.wait(start, id)
    }

    fn check(&self, id: u32, length: usize) -> Result<()> {
        if id >= MAX_ID {
            return Err(too_large(id));
        }
        if u32::try_from(self.arena.len() + length).is_err() {
            return Err(Error::format("the vocabulary is larger than 4 GiB"));
        }
        if self.get(id).is_some() {
            return Err(Error::format(format!("two tokens have the id {id}")));
        }
        Ok(())
    }

    /// Add the token whose bytes end the arena from `start` on.
    fn wait(&mut self, start: usize, id: u32) -> Result<()> {
        let at = id as usize;
        if self.spans.len() <= at {
            self.spans.resize(at + 1, ABSENT);
        }
        // The arena is shorter than 4 GiB: `check`.
        self.spans[at] = Span {
            start: start as u32,
            end: self.arena.len() as u32,
        };
        let hash = hash(self.arena.get(start..).unwrap_or_default());
        self.expect(hash);
        self.waiting.push((hash, id));
        if self.waiting.len() == MOST_WAITING {
            return self.settle();
        }
        Ok(())
    }

    /// Put all tokens that wait into the table.
    pub(crate) fn settle(&mut self) -> Result<()> {
        while (self.count + self.waiting.len()) * 2 > self.mask + 1 {
            self.grow();
        }
        for at in 0..self.waiting.len() {
            let (hash, id) = self.waiting[at];
            let bytes = self.get(id).unwrap_or_default();
            let (place, known) = self.place(bytes, hash);
            if known.is_some() {
                return Err(Error::format(format!(
                    "the token {:?} has two ids",
                    String::from_utf8_lossy(bytes)
                )));
            }
            self.slots.get_mut()[place] = slot(hash, id);
        }
        self.count += self.waiting.len();
        self.waiting.clear();
        Ok(())
    }

    /// Make the table twice as large.
    #[cold]
    fn grow(&mut self) {
        let count = 2 * (self.mask + 1);
        let mut grown: Table<u32> = Table::new(count);
        self.mask = count - 1;
        let cells = grown.get_mut();
        for slot in self.slots.get().iter().filter(|&&slot| slot != 0) {
            let bytes = self.get((slot & NUMBER) - 1).unwrap_or_default();
            let mut place = hash(bytes) as usize & self.mask;
            while cells[place] != 0 {
                place = (place + 1) & self.mask;
            }
            cells[place] = *slot;
        }
        self.slots = grown;
    }

    /// The id of these bytes.
    #[inline]
    pub(crate) fn id(&self, bytes: &[u8]) -> Option<u32> {
        self.place(bytes, hash(bytes)).1
    }

    /// [`id`](Self::id) for bytes whose hash is known.
    #[inline]
    pub(crate) fn id_of_hash(&self, bytes: &[u8], hash: u64) -> Option<u32> {
        self.place(bytes, hash).1
    }

    /// Bring near what looking for bytes of this hash begins with.
    #[inline]
    pub(crate) fn expect(&self, hash: u64) {
        if let Some(slot) = self.slots.get().get(hash as usize & self.mask) {
            prefetch(slot);
        }
    }

    /// Bring near where the bytes lie that it goes on with, once its beginning is near.
    #[inline]
    pub(crate) fn expect_span(&self, hash: u64) {
        if let Some(span) = self.first_of(hash).and_then(|id| self.spans.get(id)) {
            prefetch(span);
        }
    }

    /// Bring near these bytes, once it is near where they lie.
    #[inline]
    pub(crate) fn expect_bytes(&self, hash: u64) {
        if let Some(id) = self.first_of(hash) {
            self.expect_bytes_of(id as u32);
        }
    }

    /// Bring near the bytes of this id, once it is near where they lie.
    #[inline]
    pub(crate) fn expect_bytes_of(&self, id: u32) {
        let first = self
            .span(id)
            .and_then(|span| self.arena.get(span.start as usize));
        if let Some(first) = first {
            prefetch(first);
        }
    }

    /// Bring near where the bytes of this id lie.
    #[inline]
    pub(crate) fn expect_span_of(&self, id: u32) {
        if let Some(span) = self.spans.get(id as usize) {
            prefetch(span);
        }
    }

    /// The id in the first slot of a hash.
    #[inline]
    fn first_of(&self, hash: u64) -> Option<usize> {
        let slot = self.slots.get().get(hash as usize & self.mask)?;
        ((slot & NUMBER) as usize).checked_sub(1)
    }

    /// The slot of these bytes and their id, or the free slot where they would be.
    #[inline]
    fn place(&self, bytes: &[u8], hash: u64) -> (usize, Option<u32>) {
        let slots = self.slots.get();
        let tag = slot(hash, 0) & !NUMBER;
        let mut place = hash as usize & self.mask;
        loop {
            let slot = slots[place];
            if slot == 0 {
                return (place, None);
            }
            let id = (slot & NUMBER) - 1;
            if slot & !NUMBER == tag && self.get(id) == Some(bytes) {
                return (place, Some(id));
            }
            place = (place + 1) & self.mask;
        }
    }

    fn span(&self, id: u32) -> Option<Span> {
        self.spans.get(id as usize).copied()
    }

    /// The bytes of this id.
    #[inline]
    pub(crate) fn get(&self, id: u32) -> Option<&[u8]> {
        let span = self.span(id)?;
        self.arena.get(span.start as usize..span.end as usize)
    }

    /// Fails if some token is longer than [`LONGEST_TOKEN`].
    pub(crate) fn check_lengths(&self) -> Result<()> {
        match self.iter().find(|(_, token)| token.len() > LONGEST_TOKEN) {
            Some((id, _)) => Err(Error::unsupported(format!(
                "a token longer than {LONGEST_TOKEN} bytes (id {id})"
            ))),
            None => Ok(()),
        }
    }

    /// The number of tokens.
    pub(crate) fn len(&self) -> usize {
        self.count
    }

    /// One more than the highest id, 0 if there is none.
    pub(crate) fn id_end(&self) -> u32 {
        // Below MAX_ID + 1 by construction.
        self.spans.len() as u32
    }

    /// All tokens in the order of their ids.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, &[u8])> {
        (0..self.id_end()).filter_map(|id| Some((id, self.get(id)?)))
    }
}

/// Tokens of a byte-level vocabulary that are not written in its alphabet, and so no bytes.
#[derive(Default)]
pub(crate) struct Literals {
    by_id: BTreeMap<u32, Arc<str>>,
    ids: FxHashMap<Arc<str>, u32>,
}

impl Literals {
    /// Add a token. Fails if the id or the token is there already, or the id is out of range.
    pub(crate) fn insert(&mut self, token: &str, id: u32) -> Result<()> {
        if id >= MAX_ID {
            return Err(too_large(id));
        }
        let token: Arc<str> = token.into();
        if self.ids.insert(Arc::clone(&token), id).is_some() {
            return Err(Error::format(format!("the token {token:?} has two ids")));
        }
        if self.by_id.insert(id, token).is_some() {
            return Err(Error::format(format!("two tokens have the id {id}")));
        }
        Ok(())
    }

    /// The id of this token.
    pub(crate) fn id(&self, token: &str) -> Option<u32> {
        self.ids.get(token).copied()
    }

    /// The token of this id.
    pub(crate) fn get(&self, id: u32) -> Option<&str> {
        self.by_id.get(&id).map(|token| &**token)
    }

    /// The number of tokens.
    pub(crate) fn len(&self) -> usize {
        self.by_id.len()
    }

    /// One more than the highest id, 0 if there is none.
    pub(crate) fn id_end(&self) -> u32 {
        self.by_id.last_key_value().map_or(0, |(&id, _)| id + 1)
    }

    /// All ids, in order.
    pub(crate) fn ids(&self) -> impl Iterator<Item = u32> {
        self.by_id.keys().copied()
    }
}

fn too_large(id: u32) -> Error {
    Error::format(format!("id {id} is too large: ids must be below {MAX_ID}"))
}

/// What bytes are looked up by.
#[inline]
pub(crate) fn hash(bytes: &[u8]) -> u64 {
    FxBuildHasher.hash_one(bytes)
}

fn slot(hash: u64, id: u32) -> u32 {
    (hash >> 32) as u32 & !NUMBER | (id + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ways_with_sparse_ids() {
        let mut vocab = Vocab::with_capacity(2);
        vocab.insert(b"ab", 7).unwrap();
        vocab.insert(b"", 3).unwrap();
        vocab.insert(b"a", 0).unwrap();
        assert_eq!(vocab.id(b"ab"), Some(7));
        assert_eq!(vocab.id(b""), Some(3));
        assert_eq!(vocab.id(b"b"), None);
        assert_eq!(vocab.get(7), Some(&b"ab"[..]));
        assert_eq!(vocab.get(1), None);
        assert_eq!(vocab.get(8), None);
        assert_eq!(vocab.len(), 3);
        assert_eq!(vocab.id_end(), 8);
        assert_eq!(
            vocab.iter().map(|(id, _)| id).collect::<Vec<_>>(),
            [0, 3, 7]
        );
    }

    #[test]
    fn grows_beyond_its_capacity() {
        let mut vocab = Vocab::with_capacity(0);
        for id in 0..5000 {
            vocab.insert(id.to_string().as_bytes(), 3 * id).unwrap();
        }
        for id in 0..5000 {
            let text = id.to_string();
            assert_eq!(vocab.id(text.as_bytes()), Some(3 * id));
            assert_eq!(vocab.get(3 * id), Some(text.as_bytes()));
            assert_eq!(vocab.get(3 * id + 1), None);
        }
        assert_eq!(vocab.id(b"5000"), None);
        assert_eq!(vocab.len(), 5000);
    }

    #[test]
    fn joins_what_is_there() {
        let mut vocab = Vocab::with_capacity(2);
        vocab.insert(b"ab", 1).unwrap();
        vocab.join_soon(1, 1, 2).unwrap();
        vocab.join_soon(2, 1, 4).unwrap();
        vocab.settle().unwrap();
        assert_eq!(vocab.get(4), Some(&b"ababab"[..]));
        assert_eq!(vocab.id(b"abab"), Some(2));
        assert!(vocab.join_soon(2, 2, 4).is_err());
        assert!(vocab.join_soon(1, 3, 5).is_err());
        assert!(vocab.join_soon(9, 1, 5).is_err());
        vocab.join_soon(1, 1, 5).unwrap();
        assert!(vocab.settle().is_err());
    }

    #[test]
    fn refuses_what_is_not_one_to_one() {
        let mut vocab = Vocab::with_capacity(2);
        vocab.insert(b"a", 0).unwrap();
        assert!(vocab.insert(b"a", 1).is_err());
        assert!(vocab.insert(b"b", 0).is_err());
        assert!(vocab.insert(b"b", MAX_ID).is_err());
    }
}
