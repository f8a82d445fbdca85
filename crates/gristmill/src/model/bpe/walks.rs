//! Several short pieces at once through [`Greedy`].
//!
//! Most of the time of a piece that was not seen before goes into waiting for memory: for the slot of
//! a token, then for the token. So a [`Walk`] waits while others go on: each visit does what can be
//! done with what has arrived, asks for what is needed next, and leaves. What a walk comes to is what
//! [`Greedy::encode`] finds. Tested against it, and through `Tokenizer`.

use super::NONE;
use super::greedy::Greedy;
use super::keys::{SHORT, ShortKey, bytes_of, length_of};
use super::tokens::Search;

/// A piece of up to 15 bytes on its way through its tokens.
pub(super) struct Walk {
    key: ShortKey,
    /// The piece may be a token as a whole, whatever merges give.
    whole: bool,
    /// Nothing where the walk is over.
    search: Option<Search>,
    /// Whether it has come to the end of the piece.
    arrived: bool,
    /// Where the next token begins.
    at: usize,
    /// The tokens so far, and where each of them begins.
    count: usize,
    ids: [u32; SHORT],
    begins: [u8; SHORT],
    /// The places from which nothing leads on.
    dead_ends: u32,
}

impl Walk {
    pub(super) fn new(key: ShortKey, whole: bool) -> Walk {
        Walk {
            key,
            whole,
            search: None,
            arrived: false,
            at: 0,
            count: 0,
            ids: [0; SHORT],
            begins: [0; SHORT],
            dead_ends: 0,
        }
    }

    /// The tokens of the piece; nothing where they are not found in this way.
    pub(super) fn ids(&self) -> Option<&[u32]> {
        let ids = self.ids.get(..self.count);
        ids.filter(|_| self.arrived)
    }

    /// What is left of the piece, and what the key has behind it.
    #[inline(always)]
    fn window(&self) -> u128 {
        window(self.key, self.at)
    }

    /// How much is left.
    #[inline(always)]
    fn left(&self) -> usize {
        length_of(self.key) - self.at
    }
}

/// What a key has from a place on.
#[inline(always)]
fn window(key: ShortKey, at: usize) -> u128 {
    bytes_of(key) >> (8 * (at & SHORT))
}

impl Greedy {
    /// Take all walks to their ends.
    pub(super) fn walk(&self, walks: &mut [Walk]) {
        for walk in walks.iter_mut() {
            let bytes = bytes_of(walk.key).to_le_bytes();
            let length = length_of(walk.key);
            if !self.is_exception(&bytes[..length]) {
                walk.search = Some(self.tokens.seek(walk.window(), length));
            }
        }
        let mut waiting = true;
        while waiting {
            waiting = false;
            for walk in walks.iter_mut() {
                if let Some(search) = &mut walk.search {
                    let window = window(walk.key, walk.at);
                    if let Some((id, length)) = self.tokens.advance(window, search) {
                        self.step(walk, id, length);
                    }
                    waiting |= walk.search.is_some();
                }
            }
        }
    }

    /// Go on with a token of so many bytes, the longest that may come next, or back if there is none.
    #[inline(always)]
    fn step(&self, walk: &mut Walk, id: u32, length: usize) {
        let mut limit = length.saturating_sub(1);
        if id != NONE {
            let end = walk.at + length;
            if self.fits(walk, id, end) {
                walk.ids[walk.count] = id;
                walk.begins[walk.count] = walk.at as u8;
                walk.count += 1;
                walk.at = end;
                limit = walk.left();
                if limit == 0 {
                    walk.arrived = true;
                    walk.search = None;
                    return;
                }
            }
        }
        while limit == 0 {
            walk.dead_ends |= 1 << walk.at;
            let Some(last) = walk.count.checked_sub(1) else {
                walk.search = None;
                return;
            };
            let begin = usize::from(walk.begins[last]);
            limit = walk.at - begin - 1;
            walk.at = begin;
            walk.count = last;
        }
        walk.search = Some(self.tokens.seek(walk.window(), limit));
    }

    /// Whether the token that ends there may be the next one.
    #[inline(always)]
    fn fits(&self, walk: &Walk, id: u32, end: usize) -> bool {
        if end == length_of(walk.key) && walk.count == 0 && walk.whole {
            return true;
        }
        self.tokens.is_born(id)
            && walk.dead_ends >> end & 1 == 0
            && (walk.count == 0 || self.stay_apart(walk.ids[walk.count - 1], id))
    }
}
