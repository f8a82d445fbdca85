//! One rewrite of a whole text, character by character or in runs that stay as they are.
//!
//! The same calls serve texts with and without origins. Invariant: the result, text and spans, is what the reference gets
//! from the list of (character, change) pairs these calls stand for; where the reference fails, so does `finish`.
//! Tested with `Text`.

use super::{Output, Text};
use crate::error::{Error, Result};
use std::ops::Range;

/// Builds a text from another one; see the module.
pub(crate) struct Rewriter<'t> {
    source: &'t Text<'t>,
    output: Output,
    /// The part of the source that is rewritten; what lies around it is kept.
    part: Range<usize>,
    /// How far the source is used up. Counted only where it matters: see `light`.
    at: usize,
    /// The last character pushed and its change.
    last: Option<(char, isize)>,
    /// No origins and nothing floating: only the characters count, and whether one was used up yet.
    light: bool,
    failed: bool,
}

impl<'t> Rewriter<'t> {
    /// Starts a rewrite.
    pub(crate) fn new(source: &'t Text<'t>) -> Self {
        // The reference looks for the part that stands for the original text, which leaves out the floating bytes, so
        // that they are kept and come again. Where there is no original text, the part is the empty one at the start.
        let part = if source.rootless {
            0..0
        } else {
            source.floating..source.len()
        };
        let mut output = Output::new(source, 0);
        output.copy(source, 0..part.start);
        let light = !source.is_tracked() && source.is_anchored();
        Self {
            source,
            output,
            at: part.start,
            part,
            last: None,
            light,
            failed: false,
        }
    }

    /// Drops the next `count` characters; before the first push only.
    pub(crate) fn remove_first(&mut self, count: usize) {
        self.use_up(count);
    }

    /// Appends a character: see [`Text::transform`].
    pub(crate) fn push(&mut self, character: char, change: isize) {
        if self.light && (change <= 0 || self.at > 0) {
            self.at = 1;
            self.output.text.push(character);
            return;
        }
        self.last = Some((character, change));
        let (span, floats) = if change > 0 {
            match self.at.checked_sub(1) {
                Some(before) => self.source.span_at(before),
                None => (self.source.start_span(), true),
            }
        } else if self.at < self.source.len() {
            self.source.span_at(self.at)
        } else {
            self.failed = true;
            return;
        };
        if change <= 0 {
            self.use_up(1 + change.unsigned_abs());
        }
        self.output.push(character, span, floats);
    }

    /// Appends a part of the source as it is, as if each of its characters were pushed with change 0.
    pub(crate) fn keep(&mut self, range: Range<usize>) {
        if range.is_empty() {
            return;
        }
        if self.light {
            self.at = 1;
            self.output.copy(self.source, range);
        } else if self.at == range.start && self.source.is_anchored() {
            self.at = range.end;
            let kept = self.source.text.get(range.clone()).unwrap_or_default();
            self.last = kept.chars().next_back().map(|character| (character, 0));
            self.output.copy(self.source, range);
        } else {
            let source = self.source;
            for character in source.text.get(range).unwrap_or_default().chars() {
                self.push(character, 0);
            }
        }
    }

    /// As [`Self::keep`], in ASCII lower case.
    pub(crate) fn keep_in_lower_case(&mut self, range: Range<usize>) {
        let start = self.output.text.len();
        self.keep(range);
        if let Some(kept) = self.output.text.get_mut(start..) {
            kept.make_ascii_lowercase();
        }
    }

    /// Drops `count` characters after the last one pushed. Before the first push this does nothing, not even drop: the
    /// reference forgets them too.
    pub(crate) fn remove(&mut self, count: usize) {
        let Some((character, change)) = self.last.filter(|_| !self.light) else {
            return;
        };
        let change_after = change - count.cast_signed();
        if change <= 0 {
            self.last = Some((character, change_after));
            self.use_up(count);
        } else {
            let length = self.output.text.len().saturating_sub(character.len_utf8());
            self.output.text.truncate(length);
            self.output.floating = self.output.floating.min(length);
            if let Some(spans) = &mut self.output.spans {
                spans.truncate(length);
            }
            self.push(character, change_after);
        }
    }

    /// Moves on by `count` characters, at most to the end of the part.
    fn use_up(&mut self, count: usize) {
        if self.light {
            self.at = self.at.max(count.min(1));
            return;
        }
        let rest = self
            .source
            .text
            .get(self.at..self.part.end)
            .unwrap_or_default();
        self.at += rest.chars().take(count).map(char::len_utf8).sum::<usize>();
    }

    /// The rewritten text.
    pub(crate) fn finish(mut self) -> Result<Text<'static>> {
        if self.failed {
            let what = "a text with added characters at its start that is rewritten once more (the reference fails on it)";
            return Err(Error::Unsupported {
                what: what.to_owned(),
            });
        }
        self.output
            .copy(self.source, self.part.end..self.source.len());
        self.source.check_growth(self.output.text.len())?;
        Ok(self.output.finish(self.source))
    }
}
