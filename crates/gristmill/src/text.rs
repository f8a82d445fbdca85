//! A text on its way through normalizers and pre-tokenizers, with the place in the original text of each of its bytes.
//!
//! The rules of alignment are those of the reference implementation of tokenizer.json: a replaced character takes the
//! span of the character it replaces, an added one the span of the byte before it, and an added one at the very start
//! the empty span there. Bytes with that empty span are called *floating*: the reference leaves them out when it rewrites
//! a text again, so they matter for the text as well, tracked or not.
//!
//! Invariant: floating bytes are a prefix of the text; spans never go backwards; a tracked text has one span per byte.
//! Tested by the unit tests here and against the reference by offsets of single-character tokens.

mod rewriter;

pub(crate) use rewriter::Rewriter;

use crate::error::{Error, Result};
use std::{borrow::Cow, ops::Range};

/// Where a byte comes from: a range of bytes of the original text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Span {
    /// First byte.
    pub(crate) start: usize,
    /// One past the last byte.
    pub(crate) end: usize,
}

#[derive(Clone, Debug)]
enum Origin<'a> {
    /// Nobody asks for offsets.
    Untracked,
    /// The text is the original text from byte `first` on.
    Unchanged { first: usize },
    /// One span per byte.
    Spans(Cow<'a, [Span]>),
}

/// Text under normalisation; see the module.
#[derive(Clone, Debug)]
pub(crate) struct Text<'a> {
    text: Cow<'a, str>,
    origin: Origin<'a>,
    /// Where this text starts in the original.
    base: usize,
    /// How many bytes at the start are floating.
    floating: usize,
    /// A part that was cut from floating bytes alone: it stands for no original text at all.
    rootless: bool,
    /// The bytes that rewriting may make of it at most.
    most: usize,
}

/// So many times as long as it was a text may become, and so many bytes more: far more than any
/// file in use makes of one, and far less than a hostile one could.
const MOST_GROWTH: (usize, usize) = (256, 1 << 16);

impl<'a> Text<'a> {
    /// A text whose offsets nobody asks for.
    pub(crate) fn untracked(text: &'a str) -> Self {
        Self::with_origin(text, Origin::Untracked, 0)
    }

    /// A text that starts at byte `base` of the original text.
    pub(crate) fn tracked(text: &'a str, base: usize) -> Self {
        Self::with_origin(text, Origin::Unchanged { first: base }, base)
    }

    fn with_origin(text: &'a str, origin: Origin<'a>, base: usize) -> Self {
        Self {
            text: Cow::Borrowed(text),
            origin,
            base,
            floating: 0,
            rootless: false,
            most: most_of(text.len()),
        }
    }

    /// Fails if a text made of this one has become too long.
    fn check_growth(&self, len: usize) -> Result<()> {
        if len <= self.most {
            return Ok(());
        }
        let times = MOST_GROWTH.0;
        Err(Error::Limit {
            what: format!("the tokenizer's file makes this text more than {times} times as long"),
            at: self.base,
        })
    }

    /// The text as it is now.
    pub(crate) fn as_str(&self) -> &str {
        &self.text
    }

    /// Where the text starts in the original.
    pub(crate) fn original_start(&self) -> usize {
        self.base
    }

    /// The same text, whose offsets nobody asks for from here on.
    pub(crate) fn without_origins(self) -> Text<'a> {
        Text {
            origin: Origin::Untracked,
            base: 0,
            ..self
        }
    }

    /// The same text, borrowing nothing.
    pub(crate) fn into_owned(self) -> Text<'static> {
        let origin = match self.origin {
            Origin::Untracked => Origin::Untracked,
            Origin::Unchanged { first } => Origin::Unchanged { first },
            Origin::Spans(spans) => Origin::Spans(Cow::Owned(spans.into_owned())),
        };
        Text {
            text: Cow::Owned(self.text.into_owned()),
            origin,
            base: self.base,
            floating: self.floating,
            rootless: self.rootless,
            most: self.most,
        }
    }

    /// A text each of whose bytes comes from the byte of this one that `origins` says, which has one
    /// entry more, for the end.
    pub(crate) fn rewritten(&self, text: String, origins: &[usize]) -> Text<'static> {
        let place = |at: usize| self.original_span(0..at).end;
        let spans = origins.windows(2).map(|pair| Span {
            start: place(pair[0]),
            end: place(pair[1]),
        });
        let origin = if self.is_tracked() {
            Origin::Spans(Cow::Owned(spans.collect()))
        } else {
            Origin::Untracked
        };
        Text {
            text: Cow::Owned(text),
            origin,
            base: self.base,
            floating: 0,
            rootless: false,
            most: self.most,
        }
    }

    /// Whether it is tracked and no byte of it was changed.
    pub(crate) fn is_unchanged(&self) -> bool {
        matches!(self.origin, Origin::Unchanged { .. })
    }

    /// Its length in bytes.
    pub(crate) fn len(&self) -> usize {
        self.text.len()
    }

    /// Whether nothing is left.
    pub(crate) fn is_empty(&self) -> bool {
        self.text.is_empty()
    }

    /// Whether origins are kept.
    pub(crate) fn is_tracked(&self) -> bool {
        !matches!(self.origin, Origin::Untracked)
    }

    /// Whether no byte is floating: then a rewrite that changes nothing may be left out.
    pub(crate) fn is_anchored(&self) -> bool {
        self.floating == 0
    }

    /// The bytes of the original text that `range` of this text stands for. Of an untracked text, `range` itself; of an
    /// empty range, the same distance from the start of the text in the original.
    pub(crate) fn original_span(&self, range: Range<usize>) -> Range<usize> {
        if range.is_empty() {
            return self.base + range.start..self.base + range.end;
        }
        match &self.origin {
            Origin::Untracked => range,
            Origin::Unchanged { first } => {
                first + self.text.floor_char_boundary(range.start)
                    ..first + self.text.ceil_char_boundary(range.end)
            }
            Origin::Spans(spans) => match (spans.get(range.start), spans.get(range.end - 1)) {
                (Some(first), Some(last)) => first.start..last.end,
                _ => self.base + range.start..self.base + range.end,
            },
        }
    }

    /// The part of the text in `range`, or `None` if an end is not on a character boundary.
    pub(crate) fn slice(&self, range: Range<usize>) -> Option<Text<'_>> {
        let text = self.text.get(range.clone())?;
        let origin = match &self.origin {
            Origin::Untracked => Origin::Untracked,
            Origin::Unchanged { first } => Origin::Unchanged {
                first: first + range.start,
            },
            Origin::Spans(spans) => Origin::Spans(Cow::Borrowed(spans.get(range.clone())?)),
        };
        let base = if self.is_tracked() {
            self.original_span(range.clone()).start
        } else {
            0
        };
        let floating = self.floating.clamp(range.start, range.end) - range.start;
        Some(Text {
            text: Cow::Borrowed(text),
            origin,
            base,
            floating,
            rootless: floating == text.len(),
            most: self.most,
        })
    }

    /// Drops what lies outside `range` without moving the start of the text in the original.
    pub(crate) fn narrow(self, range: Range<usize>) -> Self {
        fn cut<T: ?Sized + ToOwned>(value: Cow<'_, T>, part: impl Fn(&T) -> &T) -> Cow<'_, T> {
            match value {
                Cow::Borrowed(value) => Cow::Borrowed(part(value)),
                Cow::Owned(value) => {
                    Cow::Owned(part(std::borrow::Borrow::borrow(&value)).to_owned())
                }
            }
        }
        let origin = match self.origin {
            Origin::Untracked => Origin::Untracked,
            Origin::Unchanged { first } => Origin::Unchanged {
                first: first + range.start,
            },
            Origin::Spans(spans) => Origin::Spans(cut(spans, |spans| {
                spans.get(range.clone()).unwrap_or_default()
            })),
        };
        let floating = self.floating.clamp(range.start, range.end) - range.start;
        let text = cut(self.text, |text| {
            text.get(range.clone()).unwrap_or_default()
        });
        Self {
            text,
            origin,
            floating,
            ..self
        }
    }

    /// Rewrites the whole text: each item is a character and its change, 1 if it is new, 0 if it replaces the next
    /// character, -N if N more characters after that one go. `removed` characters go at the start.
    pub(crate) fn transform(
        &self,
        items: impl IntoIterator<Item = (char, isize)>,
        removed: usize,
    ) -> Result<Text<'static>> {
        let mut rewriter = Rewriter::new(self);
        rewriter.remove_first(removed);
        for (character, change) in items {
            rewriter.push(character, change);
        }
        rewriter.finish()
    }

    /// Puts `prefix` before the text, unless the text is empty.
    pub(crate) fn prepend(self, prefix: &str) -> Text<'a> {
        let Some(next) = self.text.chars().next() else {
            return self;
        };
        let mut output = Output::new(&self, prefix.len());
        if prefix.is_empty() {
            // The reference pushes the first character as an added one: its place is lost.
            output.push(next, self.start_span(), true);
        } else {
            let (first, floats) = self.span_at(0);
            for character in prefix.chars() {
                output.push(character, first, floats);
            }
            output.copy(&self, 0..next.len_utf8());
        }
        output.copy(&self, next.len_utf8()..self.len());
        output.finish(&self)
    }

    /// Puts `content` in place of each match, or returns `None` if there is none. Matches are in order, do not overlap and
    /// lie on character boundaries; they may be empty. An empty text has no matches.
    pub(crate) fn replace(
        &self,
        matches: impl IntoIterator<Item = Range<usize>>,
        content: &str,
    ) -> Result<Option<Text<'static>>> {
        let mut matches = matches.into_iter().peekable();
        if self.is_empty() || matches.peek().is_none() {
            return Ok(None);
        }
        let mut output = Output::new(self, 0);
        let mut copied = 0;
        for found in matches {
            if found.start < copied || self.text.get(found.clone()).is_none() {
                let reason = format!("a match at {found:?} overlaps another or cuts a character");
                return Err(Error::Format { reason });
            }
            output.copy(self, copied..found.start);
            let (span, floats) = match found.end.checked_sub(1) {
                Some(before) => self.span_at(before),
                None => (self.start_span(), true),
            };
            output.push_str(content, span, floats);
            self.check_growth(output.text.len())?;
            copied = found.end;
        }
        output.copy(self, copied..self.len());
        Ok(Some(output.finish(self)))
    }

    /// The empty span at the start of the text.
    fn start_span(&self) -> Span {
        Span {
            start: self.base,
            end: self.base,
        }
    }

    /// The span of the character that holds byte `at` (or of the byte itself), and whether it floats.
    fn span_at(&self, at: usize) -> (Span, bool) {
        let span = match &self.origin {
            Origin::Untracked => self.start_span(),
            Origin::Unchanged { first } => Span {
                start: first + self.text.floor_char_boundary(at),
                end: first + self.text.ceil_char_boundary(at + 1),
            },
            Origin::Spans(spans) => spans.get(at).copied().unwrap_or(self.start_span()),
        };
        (span, at < self.floating)
    }
}

/// The bytes that may be made of so many.
pub(crate) fn most_of(bytes: usize) -> usize {
    let (times, more) = MOST_GROWTH;
    bytes.saturating_mul(times).saturating_add(more)
}

/// A text in the making, with the spans of its bytes if they are tracked.
struct Output {
    text: String,
    spans: Option<Vec<Span>>,
    floating: usize,
}

impl Output {
    fn new(source: &Text<'_>, more: usize) -> Self {
        let capacity = source.len() + more;
        let spans = source.is_tracked().then(|| Vec::with_capacity(capacity));
        Self {
            text: String::with_capacity(capacity),
            spans,
            floating: 0,
        }
    }

    fn push(&mut self, character: char, span: Span, floats: bool) {
        self.push_str(character.encode_utf8(&mut [0; 4]), span, floats);
    }

    /// Appends text whose every byte has the same span.
    #[inline]
    fn push_str(&mut self, text: &str, span: Span, floats: bool) {
        if floats && self.floating == self.text.len() {
            self.floating += text.len();
        }
        self.text.push_str(text);
        if let Some(spans) = &mut self.spans {
            spans.extend(std::iter::repeat_n(span, text.len()));
        }
    }

    /// Appends a part of the source as it is.
    #[inline]
    fn copy(&mut self, source: &Text<'_>, range: Range<usize>) {
        if self.floating == self.text.len() {
            self.floating += source.floating.clamp(range.start, range.end) - range.start;
        }
        let text = source.text.get(range.clone()).unwrap_or_default();
        self.text.push_str(text);
        let Some(spans) = &mut self.spans else { return };
        match &source.origin {
            Origin::Untracked => {}
            Origin::Spans(known) => spans.extend_from_slice(known.get(range).unwrap_or_default()),
            Origin::Unchanged { first } => {
                let mut start = first + range.start;
                let ascii = text
                    .bytes()
                    .position(|byte| !byte.is_ascii())
                    .unwrap_or(text.len());
                spans.extend((start..start + ascii).map(|at| Span {
                    start: at,
                    end: at + 1,
                }));
                start += ascii;
                for character in text.get(ascii..).unwrap_or_default().chars() {
                    let span = Span {
                        start,
                        end: start + character.len_utf8(),
                    };
                    for _ in 0..character.len_utf8() {
                        spans.push(span);
                    }
                    start = span.end;
                }
            }
        }
    }

    fn finish(self, source: &Text<'_>) -> Text<'static> {
        Text {
            text: Cow::Owned(self.text),
            origin: self
                .spans
                .map_or(Origin::Untracked, |spans| Origin::Spans(Cow::Owned(spans))),
            base: source.base,
            floating: self.floating,
            rootless: source.rootless,
            most: source.most,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::iter::once;

    fn spans(text: &Text<'_>) -> Vec<(usize, usize)> {
        let spans = (0..text.len()).map(|at| text.original_span(at..at + 1));
        spans.map(|span| (span.start, span.end)).collect()
    }

    #[test]
    fn transforms_keep_the_place_of_what_they_replace() {
        let text = Text::tracked("élég", 10);
        assert_eq!(
            spans(&text),
            [(10, 12), (10, 12), (12, 13), (13, 15), (13, 15), (15, 16)]
        );
        let items = [('e', 0), ('\u{301}', 1), ('l', -1), ('g', 0)];
        let text = text.transform(items, 0).unwrap();
        assert_eq!(text.as_str(), "e\u{301}lg");
        assert_eq!(
            spans(&text),
            [(10, 12), (10, 12), (10, 12), (12, 13), (15, 16)]
        );
        assert_eq!(text.original_span(1..4), 10..13);
        let text = text.transform([('X', 0)], 3).unwrap();
        assert_eq!((text.as_str(), spans(&text)), ("X", vec![(15, 16)]));
    }

    #[test]
    fn prefixes_and_matches() {
        let text = Text::tracked("ab", 0).prepend("▁");
        assert_eq!(
            (text.as_str(), spans(&text)),
            ("▁ab", vec![(0, 1), (0, 1), (0, 1), (0, 1), (1, 2)])
        );
        let text = Text::tracked("a  b", 0)
            .replace(once(1..3), "é")
            .unwrap()
            .unwrap();
        assert_eq!(
            (text.as_str(), spans(&text)),
            ("aéb", vec![(0, 1), (2, 3), (2, 3), (3, 4)])
        );
        assert!(Text::untracked("").prepend("x").is_empty());
        assert!(
            Text::untracked("")
                .replace(once(0..0), "x")
                .unwrap()
                .is_none()
        );
        for wrong in [[0..1, 2..3], [2..4, 3..4], [2..3, 3..9]] {
            assert!(Text::untracked("éabc").replace(wrong, "x").is_err());
        }
    }

    #[test]
    fn slices_keep_their_place() {
        let text = Text::tracked("aébc", 5);
        let slice = text.slice(1..4).unwrap();
        assert_eq!(
            (slice.as_str(), spans(&slice)),
            ("éb", vec![(6, 8), (6, 8), (8, 9)])
        );
        assert!(text.slice(0..2).is_none() && text.slice(0..9).is_none());
        let text = text.replace(once(1..3), "ee").unwrap().unwrap();
        let slice = text.slice(2..4).unwrap();
        assert_eq!(
            (slice.as_str(), spans(&slice)),
            ("eb", vec![(6, 8), (8, 9)])
        );
        let slice = slice.prepend(" ");
        assert_eq!((slice.as_str(), slice.original_span(0..1)), (" eb", 6..8));
    }

    #[test]
    fn floating_bytes_come_again_or_fail() {
        for text in [Text::tracked("ab", 0), Text::untracked("ab")] {
            let text = text.replace(once(0..0), "_").unwrap().unwrap();
            assert_eq!((text.as_str(), text.is_anchored()), ("_ab", false));
            // Three characters for the two that stand for the original: the reference runs off the end.
            assert!(
                text.transform("_ab".chars().map(|character| (character, 0)), 0)
                    .is_err()
            );
            let again = text.transform([('x', 0), ('y', 0)], 0).unwrap();
            assert_eq!(again.as_str(), "_xy");
            let slice = text.slice(0..1).unwrap();
            assert_eq!(slice.transform([('z', 0)], 0).unwrap().as_str(), "z_");
        }
    }

    #[test]
    fn untouched_texts_are_borrowed() {
        let source = "  plain ";
        let narrow = Text::untracked(source).narrow(2..7);
        assert!(std::ptr::eq(narrow.as_str(), &source[2..7]));
        assert_eq!(
            Text::tracked(source, 3).narrow(2..7).original_span(0..5),
            5..10
        );
    }
}
