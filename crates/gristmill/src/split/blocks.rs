//! The block scanner: where the pieces of a [`Shape`] begin, 64 bytes at a time.
//!
//! Each block becomes a few masks, one bit for each byte: letters, numbers, white space and so on. The
//! bytes of a character all have its bits. A piece begins where these change, but for a space before a
//! word, a sign before letters, a line end after signs and so on: a few operations on masks, carried
//! from block to block ([`Shape::resolve`]).
//!
//! What masks cannot tell, or not simply, is marked as odd: white space of several bytes, a contraction
//! across two blocks, an upper-case letter after one without case, the end of the text. There the
//! scanner in `scan.rs` takes over. Where a piece ends depends only on the text from its beginning on, so
//! it goes on from the last beginning before the odd place, until it agrees with the masks on a
//! beginning after which nothing is odd.
//!
//! Invariant: the pieces are those of `Rules::matches`. Tested here against it, on every tier, with
//! texts at every place in a block.

use super::bounds::{Bounds, TakePieces};
use super::classes::{kind_above, look_up};
use super::cuts::Cuts;
use super::pattern::{Fold, UNBOUNDED};
use super::rules::Rules;
use super::scan::contraction_letters;
use super::shape::*;
use crate::error::Result;
use crate::simd::{BLOCK, Isa, Tier, Work};

impl Rules {
    /// Give `taker` the pieces of `text`, some at a time, some of them cut where `cuts` allows it; together
    /// they are the whole text. None if the
    /// pattern has no shape: nothing was done.
    pub(crate) fn batches<T: TakePieces>(
        &self,
        tier: Tier,
        text: &str,
        cuts: Option<&Cuts>,
        taker: &mut T,
    ) -> Option<Result<()>> {
        let shape = self.shape()?;
        Some(tier.run(Scan {
            rules: self,
            shape,
            text,
            cuts,
            taker,
        }))
    }
}

/// The work of the block scanner.
struct Scan<'a, T> {
    rules: &'a Rules,
    shape: &'a Shape,
    text: &'a str,
    cuts: Option<&'a Cuts>,
    taker: &'a mut T,
}

/// What a block of text consists of, one bit for each byte.
#[derive(Clone, Copy, Default)]
struct Masks {
    letter: u64,
    number: u64,
    white: u64,
    newline: u64,
    upper: u64,
    lower: u64,
    mark: u64,
    odd: u64,
    space: u64,
    slash: u64,
    apostrophe: u64,
    /// Bytes that continue a character.
    inside: u64,
    /// Where pieces may be cut.
    cut: u64,
}

impl Masks {
    fn sign(&self) -> u64 {
        !(self.letter | self.number | self.white)
    }
}

/// What one block has to know of the one before it.
#[derive(Clone, Copy, Default)]
struct Carry {
    before: Masks,
    /// Nothing stands before the first block: not even a sign.
    begun: bool,
    /// The block ended in ends of lines that belong to signs.
    tail: bool,
    /// The block ended in white space that does not.
    white: bool,
    /// The block ended in a sign that begins the word of the letters after it, if any follow.
    lone_sign: bool,
    /// The digits since the last beginning of a number piece.
    digits: u32,
}

/// What a block has to know of the characters outside ASCII in the block before it.
#[derive(Default)]
struct Wide {
    /// The flags of bytes that lie behind the block.
    overlap: [u8; 4],
    /// The last such character.
    char: u32,
}

impl<T: TakePieces> Work for Scan<'_, T> {
    type Output = Result<()>;

    #[inline(always)]
    fn run<I: Isa>(self, isa: I) -> Result<()> {
        let Scan {
            rules,
            shape,
            text,
            cuts,
            taker,
        } = self;
        let bytes = text.as_bytes();
        if bytes.is_empty() {
            return Ok(());
        }
        let mut slow = rules.matches(text);
        let mut out = Bounds::new(isa, taker);
        out.push(0);
        // White space at the end is another thing than elsewhere.
        let end = slow.white_at_end().min(bytes.len().saturating_sub(1));
        let mut wide = Wide::default();
        let mut next = shape.classify(isa, bytes, 0, &mut wide, cuts);
        let mut carry = Carry::default();
        // Pieces that begin before this are found.
        let mut done = 0;
        // Whether masks and scanner agree that one begins there.
        let mut agreed = true;
        let mut base = 0;
        loop {
            let at_end = base >= bytes.len();
            if at_end {
                out.push(bytes.len());
            }
            if at_end || out.is_full(base) {
                out.hand_on(base)?;
            }
            if at_end {
                return Ok(());
            }
            let masks = next;
            next = shape.classify(isa, bytes, base + BLOCK, &mut wide, cuts);
            let (mut starts, mut odd) = shape.resolve(bytes, base, &masks, &next, &mut carry);
            if base == 0 {
                starts &= !1;
            }
            if end < base + BLOCK {
                odd |= if end < base { !0 } else { !0 << (end - base) };
            }
            if odd == 0 && agreed {
                out.push_all(starts, masks.cut, base);
                base += BLOCK;
                continue;
            }
            let stop = (base + BLOCK).min(bytes.len());
            let mut from = if agreed { base } else { done };
            while from < stop {
                let at = from - base;
                let ahead = !0 << at;
                if !agreed {
                    if starts >> at & 1 == 1 && odd & ahead == 0 {
                        out.push_all(starts & ahead, masks.cut & ahead, base);
                        agreed = true;
                        break;
                    }
                    out.push(from);
                } else {
                    // The last beginning before the odd place; what is behind it does not count.
                    let place = (odd & ahead).trailing_zeros();
                    if place >= 64 {
                        out.push_all(starts & ahead, masks.cut & ahead, base);
                        break;
                    }
                    let sure = ahead & ((1 << place) - 1);
                    out.push_all(starts & sure, masks.cut & sure, base);
                    agreed = false;
                    from = out.last_piece;
                }
                from = slow.piece_end(from);
            }
            done = from;
            base += BLOCK;
        }
    }
}

impl Shape {
    /// The masks of the block at `base`. `wide` comes from the block before.
    #[inline(always)]
    fn classify<I: Isa>(
        &self,
        isa: I,
        text: &[u8],
        base: usize,
        carried: &mut Wide,
        cuts: Option<&Cuts>,
    ) -> Masks {
        let mut padded = [0; BLOCK];
        let bytes = match text.get(base..).and_then(|rest| rest.first_chunk()) {
            Some(bytes) => bytes,
            None => {
                let rest = text.get(base..).unwrap_or_default();
                padded[..rest.len()].copy_from_slice(rest);
                &padded
            }
        };
        let block = isa.load(bytes);
        let ascii = isa.lookup(block, &self.ascii);
        let wide = isa.any(block, 0x80);
        let mut masks = Masks {
            letter: isa.any(ascii, LETTER),
            number: isa.any(ascii, NUMBER),
            white: isa.any(ascii, WHITE),
            newline: isa.any(ascii, NEWLINE),
            upper: isa.any(ascii, UPPER),
            lower: isa.any(ascii, LOWER),
            mark: isa.any(ascii, MARK),
            odd: isa.any(ascii, ODD),
            space: isa.equal(block, b' '),
            slash: isa.equal(block, b'/'),
            apostrophe: isa.equal(block, b'\''),
            inside: 0,
            cut: 0,
        };
        if wide != 0 {
            masks.inside = isa.continuations(block);
            let leads = wide & !masks.inside;
            let (flags, cut) = self.flags_of_wide(text, base, leads, carried, cuts);
            masks.cut = cut;
            let flags = isa.load(&flags);
            masks.letter |= isa.any(flags, LETTER) & wide;
            masks.number |= isa.any(flags, NUMBER) & wide;
            masks.white |= isa.any(flags, WHITE) & wide;
            masks.upper |= isa.any(flags, UPPER) & wide;
            masks.lower |= isa.any(flags, LOWER) & wide;
            masks.mark |= isa.any(flags, MARK) & wide;
            masks.odd |= isa.any(flags, ODD) & wide;
        }
        masks
    }

    /// The flags of characters outside ASCII, which begin at `leads`, in the place of each of their
    /// bytes, and which of the characters begin where a piece may be cut. The places of other characters
    /// hold anything.
    #[inline(always)]
    fn flags_of_wide(
        &self,
        text: &[u8],
        base: usize,
        mut leads: u64,
        carried: &mut Wide,
        cuts: Option<&Cuts>,
    ) -> ([u8; BLOCK], u64) {
        let mut flags = [0; BLOCK + 4];
        flags[..4].copy_from_slice(&carried.overlap);
        // The block, with room for the rest of its last character.
        let mut padded = [0; BLOCK + 4];
        let rest = text.get(base..).unwrap_or_default();
        let window: &[u8; BLOCK + 4] = match rest.first_chunk() {
            Some(window) => window,
            None => {
                padded[..rest.len()].copy_from_slice(rest);
                &padded
            }
        };
        let before = base.checked_sub(1).and_then(|at| text.get(at));
        let before = before.copied().unwrap_or(0);
        let mut cut = 0;
        while leads != 0 {
            let place = leads.trailing_zeros() as usize & (BLOCK - 1);
            leads &= leads - 1;
            let bytes = [0, 1, 2, 3].map(|ahead| window[place + ahead]);
            let above = |code| self.kinds[usize::from(kind_above(code) & 0x1F)];
            let found = look_up(bytes, &self.blocks, above);
            for ahead in 0..4 {
                flags[place + ahead] = found.value;
            }
            if let Some(cuts) = cuts {
                let end = if place == 0 {
                    before
                } else {
                    window[place - 1]
                };
                let left = if end < 0x80 { end.into() } else { carried.char };
                cut |= u64::from(cuts.allow(left, end, found.code, bytes[0])) << place;
                carried.char = found.code;
            }
        }
        if base == 0 {
            // Nothing stands before the first character.
            cut &= !1;
        }
        let [.., a, b, c, d] = flags;
        carried.overlap = [a, b, c, d];
        let mut own = [0; BLOCK];
        own.copy_from_slice(&flags[..BLOCK]);
        (own, cut)
    }

    /// Where in the block at `base` pieces begin, and where that is not certain: a beginning before the
    /// first odd place is one, if the piece before it began before an odd place too or the scanner said so.
    #[inline(always)]
    fn resolve(
        &self,
        text: &[u8],
        base: usize,
        masks: &Masks,
        next: &Masks,
        carry: &mut Carry,
    ) -> (u64, u64) {
        let before = &carry.before;
        let after = |mask: u64, carried: u64| mask << 1 | carried >> 63;
        let signs = masks.sign();
        let signs_before = after(signs, if carry.begun { before.sign() } else { 0 });
        let letters_before = after(masks.letter, before.letter);
        let numbers_before = after(masks.number, before.number);
        let spaces_before = after(masks.space, before.space);
        let leads = !masks.inside;
        let mut odd = masks.odd | (masks.mark & signs_before);

        // Ends of lines right after signs are theirs.
        let mut tail = 0;
        if self.newlines_after_signs {
            let tail_before = u64::from(carry.tail);
            tail = grown(masks.newline, masks.newline & signs_before, tail_before);
            if self.slashes_after_newlines {
                odd |= masks.slash & (tail << 1 | tail_before);
            }
            carry.tail = tail >> 63 == 1;
        }

        // White space: where a run of it begins, after its last end of line, and its last character.
        let white = masks.white & !tail;
        let white_before = white << 1 | u64::from(carry.white);
        carry.white = white >> 63 == 1;
        let white_ahead = masks.white >> 1 | next.white << 63;
        let mut starts = white & !white_before & leads;
        if self.newline_pieces {
            let plain = white & !masks.newline;
            let newlines_before = after(masks.newline, before.newline);
            let after_newline = plain & newlines_before & white_before;
            starts |= after_newline | (plain & !white_ahead);
            odd |= before_further_newline(plain, after_newline, masks, next);
        } else {
            starts |= white & !white_ahead;
        }

        // Signs, which may follow a space.
        let sign_starts = signs & !signs_before & !spaces_before & leads;
        starts |= sign_starts;

        // Words, which may follow a space, or any one sign or space.
        let mut word_starts = masks.letter & !letters_before & leads;
        if self.any_prefix {
            let further = signs & signs_before & leads;
            let lone = signs & !further;
            let (sum, first) = lone.overflowing_add(sign_starts);
            let (sum, second) = sum.overflowing_add(u64::from(carry.lone_sign));
            let after_lone = sum & !lone;
            carry.lone_sign = first || second;
            let plain_before = after(masks.white & !masks.newline, before.white & !before.newline);
            word_starts &= !(plain_before | after_lone);
        } else {
            word_starts &= !spaces_before;
        }
        if self.cased {
            word_starts |= masks.upper & after(masks.lower, before.lower) & leads;
            let either = |masks: &Masks| masks.letter & !masks.upper & !masks.lower;
            odd |= masks.upper & after(either(masks), either(before));
        }
        starts |= word_starts;

        // Numbers.
        starts |= self.number_starts(masks, numbers_before, spaces_before, &mut carry.digits);

        // Contractions.
        let letters_ahead = masks.letter >> 1 | next.letter << 63;
        let apostrophes = masks.apostrophe & letters_ahead;
        match self.contractions {
            Contractions::Nowhere => {}
            Contractions::Apart(fold) => {
                let candidates = apostrophes & sign_starts;
                if candidates != 0 {
                    contractions(text, base, fold, false, candidates, &mut starts, &mut odd);
                }
            }
            Contractions::AfterWord(fold) => {
                let candidates = apostrophes & letters_before;
                if candidates != 0 {
                    contractions(text, base, fold, true, candidates, &mut starts, &mut odd);
                }
            }
        }
        carry.before = *masks;
        carry.begun = true;
        (starts, odd)
    }
}

impl Shape {
    /// Where numbers begin, and further pieces of those that are too long for one.
    #[inline(always)]
    fn number_starts(
        &self,
        masks: &Masks,
        numbers_before: u64,
        spaces_before: u64,
        digits: &mut u32,
    ) -> u64 {
        let leads = !masks.inside;
        let mut starts = masks.number & !numbers_before & leads;
        match self.digits {
            UNBOUNDED if self.spaced_numbers => starts & !spaces_before,
            UNBOUNDED => starts,
            1 => masks.number & leads,
            most => {
                let mut inner = masks.number & masks.number << 1;
                if most == 3 {
                    inner &= masks.number << 2;
                }
                let mut further = starts;
                // Digits of several bytes are odd, and their places here say nothing.
                if (1..=most).contains(digits) {
                    let place = most - *digits;
                    let up_to = (2 << place) - 1;
                    if masks.number & up_to == up_to {
                        further |= 1 << place;
                        starts |= 1 << place;
                    }
                }
                while further != 0 {
                    further = further << most & inner;
                    starts |= further;
                }
                *digits = if masks.number >> 63 == 1 {
                    starts.leading_zeros() + 1
                } else {
                    0
                };
                starts
            }
        }
    }
}

/// The bits of `mask` that follow, without a gap, one of `seeds`, each the first bit of its run, or the
/// bit before the block if `carried` is 1.
#[inline(always)]
fn grown(mask: u64, seeds: u64, carried: u64) -> u64 {
    // The sum moves a bit through every run that has a seed, and leaves the others.
    mask & !mask.wrapping_add(seeds).wrapping_add(carried)
}

/// Of the places in `after_newline`, where white space goes on after an end of line, those where it
/// ends in a further end of line or goes on past the next block.
#[inline(always)]
fn before_further_newline(plain: u64, after_newline: u64, masks: &Masks, next: &Masks) -> u64 {
    let (sum, overflow) = plain.overflowing_add(after_newline);
    let mut found = sum & !plain & masks.newline;
    if found == 0 && !overflow {
        return 0;
    }
    let last_before = |limit: u64| 1u64.checked_shl(63 - (after_newline & limit).leading_zeros());
    let mut places = 0;
    while found != 0 {
        let at = found.trailing_zeros();
        found &= found - 1;
        places |= last_before((1 << at) - 1).unwrap_or(0);
    }
    if overflow {
        let width = (next.white & !next.newline).trailing_ones();
        if width == 64 || next.newline >> width & 1 == 1 {
            places |= last_before(!0).unwrap_or(0);
        }
    }
    places
}

/// Make pieces, or ends of words, of the contractions whose apostrophes are `candidates`.
#[inline]
fn contractions(
    text: &[u8],
    base: usize,
    fold: Fold,
    after_word: bool,
    mut candidates: u64,
    starts: &mut u64,
    odd: &mut u64,
) {
    /// A contraction that begins here or further on may end in the next block.
    const LATE: u32 = 61;
    let mut last_end = 64;
    while candidates != 0 {
        let at = candidates.trailing_zeros();
        candidates &= candidates - 1;
        if at >= LATE {
            *odd |= 1 << at;
            continue;
        }
        // After one contraction, another is no end of a word.
        if after_word && at == last_end {
            continue;
        }
        if let Some(end) = contraction_letters(text, base + at as usize + 1, fold) {
            let end = (end - base) as u32;
            let first = if after_word { at } else { at + 1 };
            let covered = ((1u64 << end) - 1) & !((1 << first) - 1);
            *starts = *starts & !covered | 1 << end;
            last_end = end;
        }
    }
}
