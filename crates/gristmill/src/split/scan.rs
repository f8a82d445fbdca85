//! The scanner: finds the matches of [`Rules`] in a text, one after the other.
//!
//! Invariant: the matches are those of a backtracking engine that searches from the end of the last match (leftmost, and the
//! first alternative that matches), found in time linear in the text. Every rule but those of white space either fails within
//! a bounded number of characters or matches about what it has read; a run of white space is measured once and remembered.
//! Tested in `tests.rs` against the engine.

use super::classes::kind_at;
use super::pattern::{Fold, UNBOUNDED};
use super::rules::{Cased, Class, Rule, Rules, Run, SetBit};
use std::iter::FusedIterator;
use std::ops::Range;

impl Rules {
    /// The matches in `text`, in order: byte ranges that are not empty and do not overlap.
    #[inline]
    pub(crate) fn matches<'a>(&'a self, text: &'a str) -> Matches<'a> {
        Matches {
            rules: self,
            text: text.as_bytes(),
            at: 0,
            white: WhiteRun::default(),
        }
    }
}

/// The matches of [`Rules`] in a text.
#[derive(Clone, Debug)]
pub(crate) struct Matches<'a> {
    rules: &'a Rules,
    text: &'a [u8],
    at: usize,
    white: WhiteRun,
}

/// A run of white space, as far as the scanner has come to it.
#[derive(Clone, Copy, Debug, Default)]
struct WhiteRun {
    end: usize,
    /// Where its last character starts.
    last: usize,
    /// Where its last line end ends; 0 if there is none.
    after_newline: usize,
}

impl Iterator for Matches<'_> {
    type Item = Range<usize>;

    #[inline]
    fn next(&mut self) -> Option<Range<usize>> {
        loop {
            let start = self.at;
            let (class, width) = self.class_at(start)?;
            let mut candidates = class.starts;
            while candidates != 0 {
                let number = candidates.trailing_zeros();
                candidates &= candidates - 1;
                if let Some(end) = self.end(number, class, width) {
                    self.at = end;
                    return Some(start..end);
                }
            }
            self.at = start + width;
        }
    }
}

impl FusedIterator for Matches<'_> {}

impl Matches<'_> {
    /// The end of the piece that begins at `start`, where every character is in some piece. No start may
    /// be before an earlier one.
    pub(super) fn piece_end(&mut self, start: usize) -> usize {
        self.at = start;
        self.next().map_or(self.text.len(), |piece| piece.end)
    }

    /// Where the white space at the end of the text starts.
    pub(super) fn white_at_end(&self) -> usize {
        let mut start = self.text.len();
        while start > 0 {
            let width = self.text[..start]
                .iter()
                .rev()
                .take(3)
                .take_while(|&byte| byte & 0xC0 == 0x80);
            let at = start.saturating_sub(width.count() + 1);
            match self.class_at(at) {
                Some((class, _)) if class.sets & self.rules.white != 0 => start = at,
                _ => break,
            }
        }
        start
    }

    /// The class and the length of the character at `at`; `None` at the end of the text.
    #[inline(always)]
    fn class_at(&self, at: usize) -> Option<(Class, usize)> {
        let byte = *self.text.get(at)?;
        if byte < 0x80 {
            return Some((self.rules.ascii(byte), 1));
        }
        let (kind, length) = kind_at(self.text, at, byte);
        Some((self.rules.kind(kind), length))
    }

    /// Where the match of one rule that starts at `self.at`, with a character of this class and length, ends.
    #[inline(always)]
    fn end(&mut self, number: u32, class: Class, width: usize) -> Option<usize> {
        match self.rules.rule(number)? {
            Rule::Run(run) => self.run_end(run, class, width),
            Rule::Cased(cased) => self.cased_end(cased, class, width),
            Rule::Contraction(fold) => self.contraction_end(self.at, *fold),
            Rule::NewlineRun => {
                let end = self.white_run().after_newline;
                (end > self.at).then_some(end)
            }
            Rule::SpaceBeforeSpace => {
                let run = self.white_run();
                let end = if run.end == self.text.len() {
                    run.end
                } else {
                    run.last
                };
                (end > self.at).then_some(end)
            }
            Rule::SpaceToEnd => Some(self.white_run().end).filter(|end| *end == self.text.len()),
        }
    }

    #[inline(always)]
    fn run_end(&self, run: &Run, first: Class, width: usize) -> Option<usize> {
        let with_prefix = first.sets & run.prefix != 0;
        let end = with_prefix
            .then(|| self.body_end(run, self.at + width))
            .flatten();
        if end.is_some() || run.prefix_required || first.sets & run.body == 0 {
            return end;
        }
        self.body_end(run, self.at)
    }

    #[inline(always)]
    fn body_end(&self, run: &Run, start: usize) -> Option<usize> {
        let end = if run.max == UNBOUNDED && run.min == 1 {
            let end = self.skip(start, run.body);
            (end > start).then_some(end)
        } else {
            self.counted_end(run, start)
        };
        if run.tail == 0 {
            end
        } else {
            end.map(|end| self.skip(end, run.tail))
        }
    }

    fn counted_end(&self, run: &Run, start: usize) -> Option<usize> {
        let mut at = start;
        let mut count = 0;
        while count < run.max
            && let Some((class, width)) = self.class_at(at)
            && class.sets & run.body != 0
        {
            at += width;
            count = count.saturating_add(1);
        }
        (count >= run.min).then_some(at)
    }

    /// The end of the run of characters of the set that starts at `at`.
    #[inline(always)]
    fn skip(&self, mut at: usize, set: SetBit) -> usize {
        while let Some((class, width)) = self.class_at(at)
            && class.sets & set != 0
        {
            at += width;
        }
        at
    }

    /// In the order of a backtracking engine: the form that needs a lower-case character, with the prefix and without, then the other.
    #[inline(always)]
    fn cased_end(&self, cased: &Cased, first: Class, width: usize) -> Option<usize> {
        let after_prefix = self.at + width;
        let mut upper_end = None;
        if first.sets & cased.prefix != 0 {
            match self.with_lower(cased, after_prefix) {
                Ok(end) => return Some(self.with_contraction(cased, end)),
                Err(end) => upper_end = Some(end).filter(|end| *end > after_prefix),
            }
        }
        if first.sets & (cased.upper | cased.lower) != 0 {
            match self.with_lower(cased, self.at) {
                Ok(end) => return Some(self.with_contraction(cased, end)),
                // Where the prefix was in `upper` as well, this run ends where the one after it did.
                Err(end) => upper_end = Some(end),
            }
        }
        upper_end.map(|end| self.with_contraction(cased, end))
    }

    /// The end of `upper* lower+`, or the end of `upper*` if no `lower+` can be had, even by giving back from `upper*`.
    #[inline(always)]
    fn with_lower(&self, cased: &Cased, start: usize) -> Result<usize, usize> {
        let mut at = start;
        // After the last character of the run of `upper` that can also be the `lower+`.
        let mut after_both = start;
        while let Some((class, width)) = self.class_at(at) {
            if class.sets & cased.upper == 0 {
                if class.sets & cased.lower != 0 {
                    return Ok(self.skip(at, cased.lower));
                }
                break;
            }
            at += width;
            if class.sets & cased.lower != 0 {
                after_both = at;
            }
        }
        if after_both > start {
            Ok(after_both)
        } else {
            Err(at)
        }
    }

    #[inline(always)]
    fn with_contraction(&self, cased: &Cased, end: usize) -> usize {
        cased
            .contraction
            .and_then(|fold| self.contraction_end(end, fold))
            .unwrap_or(end)
    }

    #[inline(always)]
    fn contraction_end(&self, at: usize, fold: Fold) -> Option<usize> {
        if self.text.get(at) != Some(&b'\'') {
            return None;
        }
        contraction_letters(self.text, at + 1, fold)
    }

    /// The run of white space that `self.at` is in.
    #[inline]
    fn white_run(&mut self) -> WhiteRun {
        if self.white.end <= self.at {
            self.white = self.measure_white_run();
        }
        self.white
    }

    fn measure_white_run(&self) -> WhiteRun {
        let mut run = WhiteRun {
            end: self.at,
            last: self.at,
            after_newline: 0,
        };
        while let Some((class, width)) = self.class_at(run.end)
            && class.sets & self.rules.white != 0
        {
            run.last = run.end;
            run.end += width;
            if class.sets & self.rules.newline != 0 {
                run.after_newline = run.end;
            }
        }
        run
    }
}

/// The end of the letters of a contraction, which start at `at`.
#[inline]
pub(super) fn contraction_letters(text: &[u8], at: usize, fold: Fold) -> Option<usize> {
    let letter = |at: usize| {
        let byte = text.get(at).copied().unwrap_or(0);
        if fold == Fold::Exact {
            byte
        } else {
            byte.to_ascii_lowercase()
        }
    };
    match (letter(at), letter(at + 1)) {
        (b's' | b't' | b'm' | b'd', _) => Some(at + 1),
        (b'r' | b'v', b'e') | (b'l', b'l') => Some(at + 2),
        _ if fold == Fold::Unicode && text.get(at..at + 2) == Some("\u{17F}".as_bytes()) => {
            Some(at + 2)
        }
        _ => None,
    }
}
