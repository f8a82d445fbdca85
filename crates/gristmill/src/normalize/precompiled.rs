//! Precompiled: the rules of a SentencePiece model as tokenizer.json applies them.
//!
//! This is not what SentencePiece does: a grapheme cluster of fewer than six bytes is replaced as a whole by what its
//! shortest matching prefix becomes; failing that, each character is replaced by itself. Invariant: the same text and
//! origins as the reference. Tested against it with the charsmap of T5.

use super::charsmap::Charsmap;
use crate::{
    error::Result,
    text::{Rewriter, Text},
};
use std::ops::Range;
use unicode_segmentation::UnicodeSegmentation;

/// Compiled rules.
#[derive(Debug)]
pub(crate) struct Precompiled(Charsmap);

impl Precompiled {
    /// Reads and checks the rules.
    pub(crate) fn new(charsmap: &[u8]) -> Result<Self> {
        Charsmap::new(charsmap).map(Self)
    }

    /// Normalizes a text.
    pub(super) fn apply<'a>(&self, text: Text<'a>) -> Result<Text<'a>> {
        let source = text.as_str();
        if self.matches(source).next().is_none() {
            return Ok(text);
        }
        let mut rewriter = Rewriter::new(&text);
        let mut run = 0;
        for (old, new) in self.matches(source) {
            rewriter.keep(run..old.start);
            run = old.end;
            let old = source.get(old).unwrap_or_default().chars().count();
            let count = new.chars().count();
            for (number, character) in new.chars().enumerate() {
                rewriter.push(character, isize::from(number >= old));
            }
            if count < old {
                rewriter.remove(old - count);
            }
        }
        rewriter.keep(run..source.len());
        rewriter.finish()
    }

    /// Parts of `text` with what they become, in order.
    fn matches<'t>(&'t self, text: &'t str) -> impl Iterator<Item = (Range<usize>, &'t str)> {
        let mut from = 0;
        let segments = std::iter::from_fn(move || {
            let segment = self.next_segment(text, from)?;
            from = segment.end;
            Some(segment)
        });
        segments.flat_map(move |segment| {
            let start = segment.start;
            let clusters = text.get(segment).unwrap_or_default().grapheme_indices(true);
            clusters.flat_map(move |(at, cluster)| self.matches_in_cluster(start + at, cluster))
        })
    }

    /// The matches in one grapheme cluster that starts at `start`.
    fn matches_in_cluster<'t>(
        &'t self,
        start: usize,
        cluster: &'t str,
    ) -> impl Iterator<Item = (Range<usize>, &'t str)> {
        let whole = if cluster.len() < 6 {
            self.0.shortest(cluster)
        } else {
            None
        };
        let parts = if whole.is_some() { "" } else { cluster };
        let parts = parts.char_indices().filter_map(move |(at, character)| {
            let part = cluster.get(at..at + character.len_utf8())?;
            Some((start + at..start + at + part.len(), self.0.shortest(part)?))
        });
        whole
            .map(|new| (start..start + cluster.len(), new))
            .into_iter()
            .chain(parts)
    }

    /// The next part of `text` at or after `from` where rules may apply. It is cut between ASCII characters, where clusters
    /// end too; the exception, a line feed after a carriage return, is kept whole where a rule may start with it.
    fn next_segment(&self, text: &str, from: usize) -> Option<Range<usize>> {
        let bytes = text.as_bytes();
        let byte = |at: usize| bytes.get(at).copied().unwrap_or_default();
        let found = (from..bytes.len())
            .find(|at| !byte(*at).is_ascii() || self.0.may_start(byte(*at), byte(at + 1)))?;
        // The character before may be the start of its cluster.
        let start = if found > from { found - 1 } else { found };
        let ends =
            |at: &usize| byte(at - 1).is_ascii() && byte(*at).is_ascii() && byte(*at) != b'\n';
        let end = (found + 1..bytes.len()).find(ends).unwrap_or(bytes.len());
        Some(start..end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::normalize::charsmap::testing::blob;

    fn spans(text: &Text<'_>) -> Vec<Range<usize>> {
        text.as_str()
            .char_indices()
            .map(|(at, _)| text.original_span(at..at + 1))
            .collect()
    }

    fn check(text: &str, new: &str, origins: &[Range<usize>]) {
        let rules = blob(&[
            ("\u{a0}", " "),
            ("\r", " "),
            ("\x01", ""),
            ("ﬁ", "fi"),
            ("e\u{301}", "é"),
            ("…", "..."),
        ]);
        let rules = Precompiled::new(&rules).unwrap();
        let tracked = rules.apply(Text::tracked(text, 0)).unwrap();
        assert_eq!(
            (tracked.as_str(), spans(&tracked).as_slice()),
            (new, origins)
        );
        assert_eq!(rules.apply(Text::untracked(text)).unwrap().as_str(), new);
    }

    #[test]
    fn clusters_are_replaced_as_a_whole() {
        check("a\r\nb", "a b", &[0..1, 1..2, 3..4]);
        check("\u{a0}\u{301}b", " b", &[0..2, 4..5]);
        check("e\u{301}e", "ée", &[0..1, 3..4]);
        // Six bytes are too many: each character goes by itself, and the rule for both never applies.
        check(
            "e\u{301}\u{301}\u{301}",
            "e\u{301}\u{301}\u{301}",
            &[0..1, 1..3, 3..5, 5..7],
        );
        check(
            "aﬁb…",
            "afib...",
            &[0..1, 1..4, 1..4, 4..5, 5..8, 5..8, 5..8],
        );
    }

    #[test]
    fn characters_removed_at_the_start_are_forgotten() {
        check("\x01ab", "ab", &[0..1, 1..2]);
        check("a\x01b", "ab", &[0..1, 2..3]);
        check("ﬁ\x01b", "fib", &[0..3, 3..4, 4..5]);
    }
}
