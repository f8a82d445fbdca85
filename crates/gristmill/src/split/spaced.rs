//! Texts of models that see no pieces, only spaces made visible: where nothing can merge.
//!
//! Models in the manner of SentencePiece write every space as a character of its own, `▁`, and merge the
//! whole text at once. But no token spans the end of one word and the space before the next, or a letter
//! and most signs; there the text may be cut ([`Cuts`]), and falls into short units that come again and
//! again. They are found in the text as it is, before spaces are made visible, 64 bytes at a time: where
//! two ASCII letters meet, no cut is looked for, anywhere else a table says whether one may be.
//!
//! Invariant: every bound is one that `Cuts` allows between the characters beside it, spaces made
//! visible. Tested below against asking at every boundary, on every tier.

use super::bounds::{Bounds, TakePieces};
use super::classes::code_at;
use super::cuts::Cuts;
use crate::error::Result;
use crate::simd::{BLOCK, Isa, Table, Tier, Work};

/// A model's cuts, and how it writes a space.
pub(crate) struct Spaced {
    /// What stands for a space.
    space: char,
    /// For each ASCII character, the ones that may stand behind a cut after it.
    ascii: Box<[u128; 128]>,
    /// The flag [`LETTER`] of each ASCII letter.
    letters: Table,
}

const LETTER: u8 = 1;

impl Spaced {
    /// Where `space` stands for a space.
    pub(crate) fn new(cuts: &Cuts, space: char) -> Spaced {
        let mut spaced = Spaced {
            space,
            ascii: Box::new([0; 128]),
            letters: Table([0; 128]),
        };
        for left in 0..128u8 {
            if left.is_ascii_alphabetic() {
                spaced.letters.0[usize::from(left)] = LETTER;
            }
            for right in 0..128u8 {
                let allowed = spaced.allow(cuts, left.into(), left, right.into(), right);
                spaced.ascii[usize::from(left)] |= u128::from(allowed) << right;
            }
        }
        spaced
    }

    /// What a character is to the model, and its first and last byte.
    fn written(&self, code: u32, first: u8, last: u8) -> (u32, u8, u8) {
        if code != u32::from(b' ') {
            return (code, first, last);
        }
        let mut bytes = [0; 4];
        let bytes = self.space.encode_utf8(&mut bytes).as_bytes();
        (self.space.into(), bytes[0], bytes[bytes.len() - 1])
    }

    /// Whether the text may be cut between two characters, of which the first ends in one byte and the
    /// second begins with another.
    #[inline]
    fn allow(&self, cuts: &Cuts, left: u32, end: u8, right: u32, start: u8) -> bool {
        let (left, _, end) = self.written(left, end, end);
        let (right, start, _) = self.written(right, start, start);
        cuts.allow(left, end, right, start)
    }

    /// Give `taker` the units of `text`; together they are the whole text.
    pub(crate) fn units<T: TakePieces>(
        &self,
        tier: Tier,
        text: &str,
        cuts: &Cuts,
        taker: &mut T,
    ) -> Result<()> {
        tier.run(Scan {
            spaced: self,
            cuts,
            text,
            taker,
        })
    }

    /// Which of `places` in the block at `base`, where characters begin, are cuts.
    #[inline(always)]
    fn cuts_at(
        &self,
        cuts: &Cuts,
        text: &[u8],
        base: usize,
        mut places: u64,
        last: &mut Last,
    ) -> u64 {
        let mut found = 0;
        while places != 0 {
            let place = places.trailing_zeros();
            places &= places - 1;
            let at = base + place as usize;
            let (Some(&end), Some(&start)) = (text.get(at.wrapping_sub(1)), text.get(at)) else {
                continue;
            };
            let allowed = if (end | start) < 0x80 {
                self.ascii[usize::from(end & 0x7F)] >> (start & 0x7F) & 1 == 1
            } else {
                let left = if end < 0x80 { end.into() } else { last.char };
                let right = if start < 0x80 {
                    start.into()
                } else {
                    let code = code_at(text, at, start);
                    last.char = code;
                    code
                };
                self.allow(cuts, left, end, right, start)
            };
            found |= u64::from(allowed) << place;
        }
        found
    }
}

/// The last character outside ASCII.
#[derive(Default)]
struct Last {
    char: u32,
}

struct Scan<'a, T> {
    spaced: &'a Spaced,
    cuts: &'a Cuts,
    text: &'a str,
    taker: &'a mut T,
}

impl<T: TakePieces> Work for Scan<'_, T> {
    type Output = Result<()>;

    #[inline(always)]
    fn run<I: Isa>(self, isa: I) -> Result<()> {
        let Scan {
            spaced,
            cuts,
            text,
            taker,
        } = self;
        let text = text.as_bytes();
        let mut out = Bounds::new(isa, taker);
        out.push(0);
        let mut last = Last::default();
        // Nothing stands before the first character.
        let mut letter_before = 1;
        let mut base = 0;
        loop {
            let at_end = base >= text.len();
            if at_end {
                out.push(text.len());
            }
            if at_end || out.is_full(base) {
                out.hand_on(base)?;
            }
            if at_end {
                return Ok(());
            }
            let mut padded = [0; BLOCK];
            let (bytes, inside) = match text.get(base..).and_then(|rest| rest.first_chunk()) {
                Some(bytes) => (bytes, !0),
                None => {
                    let rest = text.get(base..).unwrap_or_default();
                    padded[..rest.len()].copy_from_slice(rest);
                    (&padded, (1 << rest.len()) - 1)
                }
            };
            let block = isa.load(bytes);
            let letters = isa.any(isa.lookup(block, &spaced.letters), LETTER);
            let wide = isa.any(block, 0x80);
            let mut places = !(letters & (letters << 1 | letter_before)) & inside;
            if wide != 0 {
                places &= !isa.continuations(block);
            }
            if base == 0 {
                places &= !1;
                if let (Some(&first), true) = (text.first(), wide & 1 == 1) {
                    last.char = code_at(text, 0, first);
                }
            }
            letter_before = letters >> 63;
            let found = spaced.cuts_at(cuts, text, base, places, &mut last);
            out.push_all(found, 0, base);
            base += BLOCK;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::bounds::Batch;
    use super::*;
    use crate::vocab::Vocab;
    use proptest::prelude::*;

    struct Taken(Vec<usize>);

    impl TakePieces for Taken {
        #[inline(always)]
        fn take<I: Isa>(&mut self, _: I, batch: &Batch<'_>) -> Result<()> {
            let bounds = batch.bounds.iter();
            self.0
                .extend(bounds.skip(1).map(|&bound| batch.base + bound as usize));
            Ok(())
        }
    }

    fn cuts() -> Cuts {
        let tokens = ["▁a", "ab", "▁▁", "中文", "b,", "\n\n", "é中", "1é", "é▁"];
        let mut vocab = Vocab::with_capacity(tokens.len());
        for (id, token) in (0..).zip(tokens) {
            vocab.insert(token.as_bytes(), id).unwrap();
        }
        vocab.insert(&[0x96, 0x87, b'x'], 100).unwrap();
        Cuts::new(&vocab)
    }

    fn check(text: &str) {
        let cuts = cuts();
        let spaced = Spaced::new(&cuts, '▁');
        let visible = text.replace(' ', "▁");
        let letters =
            |left: char, right: char| left.is_ascii_alphabetic() && right.is_ascii_alphabetic();
        let mut expected = Vec::new();
        let mut at = 0;
        let mut before = None;
        for (shown, char) in visible.char_indices() {
            if let Some(left) = before
                && !letters(left, char)
                && cuts.allow(
                    left.into(),
                    visible.as_bytes()[shown - 1],
                    char.into(),
                    visible.as_bytes()[shown],
                )
            {
                expected.push(at);
            }
            at += if char == '▁' && !text[at..].starts_with('▁') {
                1
            } else {
                char.len_utf8()
            };
            before = Some(char);
        }
        expected.push(text.len());
        for tier in Tier::all() {
            let mut taken = Taken(Vec::new());
            spaced.units(tier, text, &cuts, &mut taken).unwrap();
            assert_eq!(taken.0, expected, "{} {text:?}", tier.name());
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]

        #[test]
        fn units_are_cut_where_it_is_allowed(text in "[ab ,1\n▁é中文😀x]{1,300}") {
            check(&text);
        }
    }

    #[test]
    fn long_texts_come_in_several_batches() {
        check(&" a, b1 中文 é中".repeat(1000));
        check(&"a".repeat(5000));
    }
}
