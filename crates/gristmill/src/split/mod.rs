//! Text to pieces: what pre-tokenizers of tokenizer.json and the patterns of rank files do.
//!
//! A [`PreTokenizer`] is a list of steps. Most split: they find matches in each piece ([`Finder`]) and
//! make pieces of the matches and of what lies between them ([`Behavior`]). A few change the text
//! first: a space put before it, a visible space in place of each. Splitting alone needs no copy and
//! no list: pieces are handed on one by one as ranges of the text. A step sees only its piece, never
//! the text around it, as in `tokenizers`.
//!
//! Finders: [`Rules`] for the known families of patterns, [`Regex`] for any other, which is also what
//! the rules are tested against; literals and classes of characters. Tested against `tokenizers`.

mod apart;
mod blocks;
mod bounds;
mod classes;
mod classes_table;
mod cuts;
mod pattern;
pub(crate) mod regex;
mod rules;
mod scan;
mod shape;
mod spaced;
#[cfg(test)]
mod tests;

use std::ops::Range;

use memchr::memmem;

use crate::alphabet;
use crate::error::Result;
use crate::simd::Tier;
use crate::text::Text;
use crate::unicode;

pub(crate) use bounds::{Batch, Bound, TakePieces};
pub(crate) use cuts::Cuts;
pub(crate) use pattern::Dialect;
pub(crate) use regex::Regex;
pub(crate) use rules::Rules;
pub(crate) use spaced::Spaced;

/// Where to cut.
pub(crate) enum Finder {
    /// A pattern of a known family.
    Rules(Box<Rules>),
    /// Any other pattern.
    Regex(Box<Regex>),
    /// A string.
    Literal(Box<memmem::Finder<'static>>),
    /// Single characters.
    Char(fn(char) -> bool),
    /// So many characters at a time.
    Length(usize),
    /// Runs of one script.
    Scripts,
}

/// What becomes of matches, as `tokenizers` names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Behavior {
    /// Dropped.
    Removed,
    /// Pieces of their own.
    Isolated,
    /// Part of the piece before.
    MergedWithPrevious,
    /// Part of the piece after.
    MergedWithNext,
    /// Pieces of their own, neighbours joined.
    Contiguous,
}

/// When a visible space is put before a piece that does not begin with one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Prepend {
    Always,
    /// Where the text begins.
    First,
    Never,
}

/// One step of a pre-tokenizer.
pub(crate) enum Step {
    Split {
        finder: Finder,
        behavior: Behavior,
        /// What matches is what lies between the matches.
        invert: bool,
    },
    Change(Change),
}

/// A step that changes the text of a piece.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    /// A space before a piece that does not begin with one.
    PrefixSpace,
    /// Spaces made visible.
    VisibleSpace { space: char, prepend: Prepend },
    /// The piece written in the byte-level alphabet.
    Written,
}

/// All steps of a tokenizer, in order.
#[derive(Default)]
pub(crate) struct PreTokenizer {
    steps: Vec<Step>,
    /// The number of steps up to the last that changes text.
    changing: usize,
    /// The number of steps up to the last that asks where its piece begins in the original text.
    asking: usize,
}

impl Finder {
    /// A pattern, by rule if its family is known.
    pub(crate) fn pattern(pattern: &str, dialect: Dialect) -> Result<Finder> {
        Ok(match Rules::recognise(pattern, dialect) {
            Some(rules) => Finder::Rules(Box::new(rules)),
            None => Finder::Regex(Box::new(Regex::new(pattern, dialect)?)),
        })
    }

    /// A string; the empty one is found at every character, as by the empty pattern.
    pub(crate) fn literal(text: &str) -> Result<Finder> {
        if text.is_empty() {
            return Ok(Finder::Regex(Box::new(Regex::new("", Dialect::Oniguruma)?)));
        }
        let finder = memmem::Finder::new(text).into_owned();
        Ok(Finder::Literal(Box::new(finder)))
    }

    /// Give `found` every match in `text`, left to right.
    fn each(&self, text: &str, mut found: impl FnMut(Range<usize>) -> Result<()>) -> Result<()> {
        match self {
            Finder::Rules(rules) => rules.matches(text).try_for_each(found),
            Finder::Regex(regex) => regex.matches(text).try_for_each(|range| found(range?)),
            Finder::Literal(finder) => {
                let width = finder.needle().len();
                finder
                    .find_iter(text.as_bytes())
                    .try_for_each(|at| found(at..at + width))
            }
            Finder::Char(wanted) => text
                .char_indices()
                .filter(|&(_, char)| wanted(char))
                .try_for_each(|(at, char)| found(at..at + char.len_utf8())),
            Finder::Scripts => unicode::script_pieces(text).try_for_each(found),
            Finder::Length(length) => {
                let mut start = 0;
                let ends = text
                    .char_indices()
                    .map(|(at, _)| at)
                    .skip(1)
                    .chain([text.len()]);
                for (count, end) in ends.enumerate() {
                    if (count + 1) % length == 0 || end == text.len() {
                        found(start..end)?;
                        start = end;
                    }
                }
                Ok(())
            }
        }
    }
}

impl PreTokenizer {
    /// A pre-tokenizer of these steps.
    pub(crate) fn new(steps: Vec<Step>) -> PreTokenizer {
        let changing = steps
            .iter()
            .rposition(|step| matches!(step, Step::Change(_)))
            .map_or(0, |at| at + 1);
        let asking = steps
            .iter()
            .rposition(|step| matches!(step, Step::Change(change) if change.asks_for_origin()))
            .map_or(0, |at| at + 1);
        PreTokenizer {
            steps,
            changing,
            asking,
        }
    }

    /// Whether a text without a space is one piece.
    pub(crate) fn finds_spaces_only(&self) -> bool {
        let literal = |step: &Step| {
            matches!(step, Step::Split { finder: Finder::Literal(finder), invert: false, .. }
                if finder.needle() == b" ")
        };
        self.steps.iter().all(literal)
    }

    /// Whether pieces depend on where they begin in the original text: then it must be tracked.
    pub(crate) fn asks_for_origins(&self) -> bool {
        self.asking > 0
    }

    /// Give `taker` every piece of `text`, many at a time, and some of them cut where `cuts` allows it, if
    /// the block scanner can do all there is to do; `None` if it cannot: nothing was done.
    pub(crate) fn batches<T: TakePieces>(
        &self,
        text: &str,
        cuts: Option<&Cuts>,
        taker: &mut T,
    ) -> Option<Result<()>> {
        let [
            Step::Split {
                finder: Finder::Rules(rules),
                behavior,
                invert,
            },
        ] = self.steps.as_slice()
        else {
            return None;
        };
        // The matches of a pattern with a shape leave nothing out.
        match (behavior, invert) {
            (Behavior::Isolated, _) | (Behavior::Removed, true) => {
                rules.batches(Tier::get(), text, cuts, taker)
            }
            _ => None,
        }
    }

    /// Give `piece` every piece of `text`: the text it lies in, which may be a changed one, and its
    /// range there. Pieces are never empty. `tracked` says whether the caller wants their origins.
    pub(crate) fn pieces(
        &self,
        text: &Text<'_>,
        tracked: bool,
        piece: &mut dyn FnMut(&Text<'_>, Range<usize>) -> Result<()>,
    ) -> Result<()> {
        if text.is_empty() {
            return Ok(());
        }
        let (changing, splitting) = self.steps.split_at(self.changing);
        if changing.is_empty() {
            return split(splitting, text.as_str(), 0, &mut |range| piece(text, range));
        }
        let mut texts = vec![text.clone()];
        for (number, step) in changing.iter().enumerate() {
            let forget = !tracked && number + 1 >= self.asking;
            texts = staged(step, &texts, forget)?;
        }
        for text in &texts {
            split(splitting, text.as_str(), 0, &mut |range| piece(text, range))?;
        }
        Ok(())
    }
}

/// Run splitting steps over the piece that starts at `base`.
fn split(
    steps: &[Step],
    piece: &str,
    base: usize,
    out: &mut dyn FnMut(Range<usize>) -> Result<()>,
) -> Result<()> {
    let Some((step, rest)) = steps.split_first() else {
        return out(base..base + piece.len());
    };
    let Step::Split {
        finder,
        behavior,
        invert,
    } = step
    else {
        // Steps that change text were run before.
        return split(rest, piece, base, out);
    };
    parts(finder, *behavior, *invert, piece, |range| {
        if range.is_empty() {
            Ok(())
        } else if rest.is_empty() {
            out(base + range.start..base + range.end)
        } else {
            split(rest, &piece[range.clone()], base + range.start, out)
        }
    })
}

/// Run one step over each text, into texts of their own, which may `forget` their origins.
fn staged<'t>(step: &Step, texts: &[Text<'t>], forget: bool) -> Result<Vec<Text<'t>>> {
    let mut staged = Vec::with_capacity(texts.len());
    for text in texts {
        match step {
            Step::Change(change) => {
                let changed = change.apply(text.clone(), forget)?;
                if !changed.is_empty() {
                    staged.push(changed);
                }
            }
            Step::Split {
                finder,
                behavior,
                invert,
            } => parts(finder, *behavior, *invert, text.as_str(), |range| {
                if !range.is_empty()
                    && let Some(part) = text.slice(range)
                {
                    staged.push(part.into_owned());
                }
                Ok(())
            })?,
        }
    }
    Ok(staged)
}

impl Change {
    /// Whether the change depends on where the piece begins in the original text.
    fn asks_for_origin(self) -> bool {
        matches!(
            self,
            Change::VisibleSpace {
                prepend: Prepend::First,
                ..
            }
        )
    }

    fn apply<'a>(self, text: Text<'a>, forget: bool) -> Result<Text<'a>> {
        let begins = text.original_start() == 0;
        let text = if forget { text.without_origins() } else { text };
        match self {
            Change::PrefixSpace if text.as_str().starts_with(' ') => Ok(text),
            Change::PrefixSpace => Ok(text.prepend(" ")),
            Change::VisibleSpace { space, prepend } => {
                let wanted = match prepend {
                    Prepend::Always => true,
                    Prepend::First => begins,
                    Prepend::Never => false,
                };
                visible_space(text, space, wanted)
            }
            Change::Written => text.transform(written(text.as_str()), 0),
        }
    }
}

/// Spaces made visible, and one put before the text if `wanted` and it begins with none.
fn visible_space<'a>(text: Text<'a>, space: char, wanted: bool) -> Result<Text<'a>> {
    let mut buffer = [0; 4];
    let visible: &str = space.encode_utf8(&mut buffer);
    let spaces = memchr::memchr_iter(b' ', text.as_str().as_bytes()).map(|at| at..at + 1);
    let text = match text.replace(spaces, visible)? {
        Some(replaced) => replaced,
        None => text,
    };
    if wanted && !text.as_str().starts_with(space) {
        return Ok(text.prepend(visible));
    }
    Ok(text)
}

/// The characters that write the bytes of a text, each with its change to the text.
fn written(text: &str) -> impl Iterator<Item = (char, isize)> {
    text.chars().flat_map(|char| {
        let mut buffer = [0; 4];
        let width = char.encode_utf8(&mut buffer).len();
        buffer
            .into_iter()
            .take(width)
            .enumerate()
            .map(|(at, byte)| (alphabet::char_of(byte), isize::from(at > 0)))
    })
}

/// Cut `text` at the matches of `finder`; `out` may be given empty parts.
fn parts(
    finder: &Finder,
    behavior: Behavior,
    invert: bool,
    text: &str,
    out: impl FnMut(Range<usize>) -> Result<()>,
) -> Result<()> {
    let mut joiner = Joiner {
        behavior,
        held: None,
        out,
    };
    let mut done = 0;
    finder.each(text, |found| {
        if done < found.start {
            joiner.add(done..found.start, invert)?;
        }
        done = found.end;
        joiner.add(found, !invert)
    })?;
    if done < text.len() {
        joiner.add(done..text.len(), invert)?;
    }
    joiner.finish()
}

/// Joins matches and the parts between them as a behaviour asks, one part late where it must wait.
struct Joiner<F> {
    behavior: Behavior,
    /// A part that the next one may join, and whether it is or ends in a match.
    held: Option<(Range<usize>, bool)>,
    out: F,
}

impl<F: FnMut(Range<usize>) -> Result<()>> Joiner<F> {
    fn add(&mut self, part: Range<usize>, is_match: bool) -> Result<()> {
        let joins = match self.behavior {
            Behavior::Isolated => return (self.out)(part),
            Behavior::Removed if is_match => return Ok(()),
            Behavior::Removed => return (self.out)(part),
            Behavior::Contiguous => matches!(self.held, Some((_, before)) if before == is_match),
            Behavior::MergedWithPrevious => is_match && matches!(self.held, Some((_, false))),
            Behavior::MergedWithNext => !is_match && matches!(self.held, Some((_, true))),
        };
        match &mut self.held {
            Some((held, before)) if joins => {
                held.end = part.end;
                *before = is_match;
            }
            _ => {
                self.finish()?;
                self.held = Some((part, is_match));
            }
        }
        Ok(())
    }

    fn finish(&mut self) -> Result<()> {
        match self.held.take() {
            Some((held, _)) => (self.out)(held),
            None => Ok(()),
        }
    }
}
