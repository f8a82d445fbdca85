//! What a family of patterns makes of words, numbers, signs and white space, as the block scanner
//! needs it: for every character a few flags, and a few choices.
//!
//! Every pattern of the families in use has the same skeleton: contractions, words, numbers, runs of
//! other signs, white space. [`Shape::of`] finds it in [`Rules`], which say the same in full, and
//! answers only if every choice is one that `blocks.rs` knows. A character that does not fit is
//! flagged [`ODD`] and left to the scanner in `scan.rs`. Tested with `blocks.rs`.

use super::classes_table::{BLOCKS, KINDS};
use super::pattern::{Fold, UNBOUNDED};
use super::rules::{Class, Rule, Rules, Run, SetBit};
use crate::simd::Table;

/// Part of a word.
pub(super) const LETTER: u8 = 1;
/// Part of a number.
pub(super) const NUMBER: u8 = 1 << 1;
/// White space.
pub(super) const WHITE: u8 = 1 << 2;
/// White space that ends a line.
pub(super) const NEWLINE: u8 = 1 << 3;
/// Where words have two cases: a letter that is only in the first set.
pub(super) const UPPER: u8 = 1 << 4;
/// A letter that is only in the second set.
pub(super) const LOWER: u8 = 1 << 5;
/// Part of a word that may also stand among other signs.
pub(super) const MARK: u8 = 1 << 6;
/// The other scanner has to look at it.
pub(super) const ODD: u8 = 1 << 7;

/// Where contractions stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Contractions {
    Nowhere,
    /// Pieces of their own, which begin with the apostrophe.
    Apart(Fold),
    /// The end of a word.
    AfterWord(Fold),
}

/// The skeleton of a pattern.
#[derive(Clone, Debug)]
pub(crate) struct Shape {
    /// The flags of ASCII characters.
    pub(super) ascii: Table,
    /// The flags of the others, as `classes_table::BLOCKS` has their kinds.
    pub(super) blocks: Box<[u8]>,
    /// The flags of each kind.
    pub(super) kinds: [u8; 32],
    /// A word may begin with any sign or space but the end of a line; else only with a space.
    pub(super) any_prefix: bool,
    /// Numbers have at most so many digits: 1, 2, 3 or [`UNBOUNDED`].
    pub(super) digits: u32,
    /// A number may begin with a space.
    pub(super) spaced_numbers: bool,
    /// Ends of lines belong to the signs before them.
    pub(super) newlines_after_signs: bool,
    /// So do slashes after these ends of lines.
    pub(super) slashes_after_newlines: bool,
    /// White space up to its last end of line is a piece.
    pub(super) newline_pieces: bool,
    pub(super) cased: bool,
    pub(super) contractions: Contractions,
}

/// The rules of a pattern, by their parts in the skeleton.
struct Skeleton {
    contraction: Option<Fold>,
    prefix: SetBit,
    word: Word,
    number: Run,
    sign: Run,
    newline_pieces: bool,
}

#[derive(Clone, Copy)]
enum Word {
    Plain(SetBit),
    Cased {
        upper: SetBit,
        lower: SetBit,
        contraction: Option<Fold>,
    },
}

impl Shape {
    /// The shape of these rules, if they have one.
    pub(super) fn of(rules: &Rules) -> Option<Shape> {
        let skeleton = Skeleton::of(rules)?;
        let any_prefix = skeleton.has_any_prefix(rules)?;
        let newline = |byte: u8| rules.ascii(byte).sets & rules.newline != 0;
        if skeleton.newline_pieces && !(0..128).all(|byte| newline(byte) == is_newline(byte)) {
            return None;
        }
        let spaced = |run: &Run| only_ascii(rules, run.prefix, |byte| byte == b' ');
        if !spaced(&skeleton.sign) || (skeleton.number.prefix != 0 && !spaced(&skeleton.number)) {
            return None;
        }
        let tail = skeleton.sign.tail;
        let slashes = tail != 0 && rules.ascii(b'/').sets & tail != 0;
        let in_tail = |byte| is_newline(byte) || (slashes && byte == b'/');
        if tail != 0 && !only_ascii(rules, tail, in_tail) {
            return None;
        }
        let flags =
            |class: Class, newline, space| skeleton.flags(rules, class, any_prefix, newline, space);
        let mut ascii = Table([0; 128]);
        for (byte, slot) in (0..128).zip(&mut ascii.0) {
            *slot = flags(rules.ascii(byte), is_newline(byte), byte == b' ')?;
        }
        let mut kinds = [ODD; 32];
        for (kind, slot) in (0..KINDS).zip(&mut kinds) {
            *slot = flags(rules.kind(kind), false, false)?;
            // The places of these in a run of several bytes each take more than a mask to tell.
            let counted = skeleton.number.max != UNBOUNDED && skeleton.number.max > 1;
            if *slot & WHITE != 0 || (*slot & NUMBER != 0 && counted) {
                *slot |= ODD;
            }
        }
        let (cased, contractions) = match (skeleton.word, skeleton.contraction) {
            (Word::Plain(_), None) => (false, Contractions::Nowhere),
            (Word::Plain(_), Some(fold)) => (false, Contractions::Apart(fold)),
            (Word::Cased { contraction, .. }, None) => (
                true,
                contraction.map_or(Contractions::Nowhere, Contractions::AfterWord),
            ),
            (Word::Cased { .. }, Some(_)) => return None,
        };
        Some(Shape {
            ascii,
            blocks: BLOCKS
                .iter()
                .map(|&kind| kinds[usize::from(kind & 0x1F)])
                .collect(),
            kinds,
            any_prefix,
            digits: skeleton.number.max,
            spaced_numbers: skeleton.number.prefix != 0,
            newlines_after_signs: tail != 0,
            slashes_after_newlines: slashes,
            newline_pieces: skeleton.newline_pieces,
            cased,
            contractions,
        })
    }
}

impl Skeleton {
    fn of(rules: &Rules) -> Option<Skeleton> {
        let mut rest = (0..).map_while(|number| rules.rule(number));
        let mut rule = rest.next()?;
        let mut contraction = None;
        if let Rule::Contraction(fold) = rule {
            contraction = Some(*fold);
            rule = rest.next()?;
        }
        let (prefix, word) = match rule {
            Rule::Run(run) if is_plain(run, UNBOUNDED) => (run.prefix, Word::Plain(run.body)),
            Rule::Cased(cased) => (
                cased.prefix,
                Word::Cased {
                    upper: cased.upper,
                    lower: cased.lower,
                    contraction: cased.contraction,
                },
            ),
            _ => return None,
        };
        let Rule::Run(number) = rest.next()? else {
            return None;
        };
        let Rule::Run(sign) = rest.next()? else {
            return None;
        };
        let few = (1..=3).contains(&number.max) && number.prefix == 0;
        let counted = if few { number.max } else { UNBOUNDED };
        if !is_plain(number, counted)
            || sign.prefix_required
            || (sign.min, sign.max) != (1, UNBOUNDED)
        {
            return None;
        }
        let mut rule = rest.next()?;
        let mut newline_pieces = false;
        loop {
            match rule {
                Rule::NewlineRun if !newline_pieces => newline_pieces = true,
                // What it does, it does at the end of the text, which is the other scanner's.
                Rule::SpaceToEnd => {}
                _ => break,
            }
            rule = rest.next()?;
        }
        let (Rule::SpaceBeforeSpace, Rule::Run(white), None) = (rule, rest.next()?, rest.next())
        else {
            return None;
        };
        let all_white = white.prefix == 0 && white.tail == 0 && white.min == 1;
        (all_white && white.body == rules.white).then_some(Skeleton {
            contraction,
            prefix,
            word,
            number: *number,
            sign: *sign,
            newline_pieces,
        })
    }

    /// Whether words may begin with any sign: false if with a space only, `None` if with neither.
    fn has_any_prefix(&self, rules: &Rules) -> Option<bool> {
        if only_ascii(rules, self.prefix, |byte| byte == b' ') {
            return Some(false);
        }
        (rules.ascii(b' ').sets & self.prefix != 0).then_some(true)
    }

    /// The flags of the characters of a class; `None` if it must not be left to any scanner but one
    /// that follows the rules to the letter, since it may stand between pieces.
    fn flags(
        &self,
        rules: &Rules,
        class: Class,
        any_prefix: bool,
        newline: bool,
        space: bool,
    ) -> Option<u8> {
        let is = |set: SetBit| class.sets & set != 0;
        let (letter, case) = match self.word {
            Word::Plain(body) => (is(body), 0),
            Word::Cased { upper, lower, .. } => match (is(upper), is(lower)) {
                (true, false) => (true, UPPER),
                (false, true) => (true, LOWER),
                (either, _) => (either, 0),
            },
        };
        let number = is(self.number.body);
        let white = is(rules.white);
        let sign = is(self.sign.body);
        if !(letter || number || white || sign) {
            return None;
        }
        let mut flags = case;
        for (holds, flag) in [(letter, LETTER), (number, NUMBER), (white, WHITE)] {
            flags |= if holds { flag } else { 0 };
        }
        if white && newline {
            flags |= NEWLINE;
        }
        if letter && sign {
            flags |= MARK;
        }
        let kinds = u32::from(letter) + u32::from(number) + u32::from(white);
        let one = kinds == u32::from(letter || number || white) && !(sign && (number || white));
        // A letter without case that may stand before a word makes the same word as its first letter.
        let may_prefix = if any_prefix {
            !newline && !number && !letter
        } else {
            space
        };
        let as_expected = is(self.prefix) == may_prefix || (letter && case == 0);
        // Of signs, those that end lines are white space too.
        let newline_sign = newline && !white;
        if !one || !as_expected || newline_sign {
            flags |= ODD;
        }
        Some(flags)
    }
}

fn is_newline(byte: u8) -> bool {
    byte == b'\n' || byte == b'\r'
}

/// Whether a run is of its body alone, but for an optional prefix, and at most so long.
fn is_plain(run: &Run, max: u32) -> bool {
    !run.prefix_required && run.tail == 0 && (run.min, run.max) == (1, max)
}

/// Whether the set holds these ASCII characters and nothing else.
fn only_ascii(rules: &Rules, set: SetBit, wanted: impl Fn(u8) -> bool) -> bool {
    (0..128).all(|byte| (rules.ascii(byte).sets & set != 0) == wanted(byte))
        && (0..KINDS).all(|kind| rules.kind(kind).sets & set == 0)
}
