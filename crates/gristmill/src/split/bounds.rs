//! Where pieces begin, on the way from the block scanners to whoever encodes them.
//!
//! Scanners find places 64 at a time; takers want many pieces at once. In between lies [`Bounds`], a
//! list on the stack. It goes no further than fits a number of 31 bits; the last bit says that a place
//! is no beginning of a piece but lies inside one, where it may be cut. Tested with the scanners.

use crate::error::{Error, Result};
use crate::simd::{BLOCK, Isa, MARK as CUT};

/// Beginnings of pieces are handed on when there are so many.
const BATCH: usize = 512;
/// Those of one more block, which are written 64 at a time, and the end of the text.
const ROOM: usize = BATCH + 2 * BLOCK + 1;
/// A batch goes no further, so that any place in it, and the length of a piece, fit a [`Bound`].
const FARTHEST: usize = 1 << 30;
/// The longest piece.
const LONGEST: usize = 1 << 31;

/// Several pieces, or parts of pieces, one after the other: where the first begins, and from there on
/// where each begins and the last ends.
pub(crate) struct Batch<'a> {
    pub(crate) base: usize,
    /// [`Bound`]s, as numbers.
    pub(crate) bounds: &'a [u32],
}

/// Where a piece or a part of one begins, counted from the beginning of a batch.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bound(pub(crate) u32);

impl Bound {
    /// The place.
    #[inline(always)]
    pub(crate) fn at(self) -> usize {
        (self.0 & !CUT) as usize
    }

    /// Whether it lies inside a piece, where nothing merges.
    #[inline(always)]
    pub(crate) fn is_cut(self) -> bool {
        self.0 & CUT != 0
    }
}

/// Takes the pieces of a text as they are found.
pub(crate) trait TakePieces {
    /// The next ones. To be `#[inline(always)]`, so that it is compiled for the instruction set.
    fn take<I: Isa>(&mut self, isa: I, batch: &Batch<'_>) -> Result<()>;
}

/// Collects where pieces begin.
pub(super) struct Bounds<'a, I, T> {
    isa: I,
    base: usize,
    bounds: [u32; ROOM],
    count: usize,
    /// Where the last piece begins.
    pub(super) last_piece: usize,
    taker: &'a mut T,
}

impl<'a, I: Isa, T: TakePieces> Bounds<'a, I, T> {
    pub(super) fn new(isa: I, taker: &'a mut T) -> Bounds<'a, I, T> {
        Bounds {
            isa,
            base: 0,
            bounds: [0; ROOM],
            count: 0,
            last_piece: 0,
            taker,
        }
    }

    /// Whether there may be no room for those of the block at `at`.
    pub(super) fn is_full(&self, at: usize) -> bool {
        self.count >= BATCH || at.saturating_sub(self.base) >= FARTHEST
    }

    /// Add the bits of `starts` in the block at `at`, and those of `cuts`, which lie inside pieces.
    #[inline(always)]
    pub(super) fn push_all(&mut self, starts: u64, cuts: u64, at: usize) {
        // A batch that begins behind this block counts from there.
        let from = (at as u32).wrapping_sub(self.base as u32);
        // There is room: a block adds to fewer than a batch.
        let place = self.bounds.get_mut(self.count..);
        if let Some(place) = place.and_then(|rest| rest.first_chunk_mut::<BLOCK>()) {
            if starts != 0 {
                self.last_piece = at + 63 - starts.leading_zeros() as usize;
            }
            let inside = cuts & !starts;
            if inside == 0 {
                self.count += self.isa.positions(starts, from, place);
            } else {
                let both = starts | inside;
                self.count += self.isa.marked_positions(both, inside, from, place);
            }
        }
    }

    pub(super) fn push(&mut self, at: usize) {
        self.bounds[self.count] = (at - self.base) as u32;
        self.count += 1;
        self.last_piece = at;
    }

    /// Hand on all pieces but the last, whose end is not known: it is not before `at`.
    #[inline(always)]
    pub(super) fn hand_on(&mut self, at: usize) -> Result<()> {
        if self.count >= 2 {
            let batch = Batch {
                base: self.base,
                bounds: &self.bounds[..self.count],
            };
            self.taker.take(self.isa, &batch)?;
            let last = self.bounds[self.count - 1];
            self.base += Bound(last).at();
            self.bounds[0] = last & CUT;
            self.count = 1;
        }
        if at.saturating_sub(self.base) >= LONGEST - 2 * BLOCK {
            return Err(Error::Limit {
                what: "a piece of text is longer than 2 GiB".into(),
                at: self.base,
            });
        }
        Ok(())
    }
}
