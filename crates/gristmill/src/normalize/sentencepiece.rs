//! The normalizer of SentencePiece models.
//!
//! Leftmost longest rules, white space as U+2581, a dummy prefix or suffix. Invariant: text and origins equal those of
//! sentencepiece 0.2. Tested against it with models of several rule sets and all combinations of the switches.

use super::{charsmap::Charsmap, prefix::PrefixMatcher};
use crate::error::Result;
use crate::text::Text;

const SPACE_SYMBOL: &str = "\u{2581}";

/// The switches of a model's NormalizerSpec and TrainerSpec.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SentencePieceFlags {
    /// A white space goes before the text.
    pub(crate) add_dummy_prefix: bool,
    /// White space at the ends goes, and all but one in a row.
    pub(crate) remove_extra_whitespaces: bool,
    /// A space becomes U+2581.
    pub(crate) escape_whitespaces: bool,
    /// The white space goes after the text instead.
    pub(crate) treat_whitespace_as_suffix: bool,
}

/// A model's normalizer; see the module.
#[derive(Debug)]
pub(crate) struct SentencePieceNormalizer {
    charsmap: Option<Charsmap>,
    flags: SentencePieceFlags,
}

impl SentencePieceNormalizer {
    /// A normalizer with these rules; an empty charsmap has none.
    pub(crate) fn new(charsmap: &[u8], flags: SentencePieceFlags) -> Result<Self> {
        let charsmap = if charsmap.is_empty() {
            None
        } else {
            Some(Charsmap::new(charsmap)?)
        };
        Ok(Self { charsmap, flags })
    }

    /// The normalized text. `symbols` are passed on as they are.
    pub(crate) fn normalize(&self, text: &str, symbols: &PrefixMatcher) -> String {
        let mut output = Output {
            text: String::with_capacity(text.len() + text.len() / 2 + 8),
            origins: None,
        };
        self.run(text, symbols, &mut output);
        output.text
    }

    /// The normalized text and where each of its bytes comes from, as a byte of `text`, with one more entry for the end.
    /// There are no entries at all if nothing is left of the text but white space that is removed.
    pub(crate) fn normalize_with_origins(
        &self,
        text: &str,
        symbols: &PrefixMatcher,
    ) -> (String, Vec<usize>) {
        let mut output = Output {
            text: String::new(),
            origins: Some(Vec::new()),
        };
        self.run(text, symbols, &mut output);
        (output.text, output.origins.unwrap_or_default())
    }

    /// The normalized text, with its origins if the text has any.
    pub(crate) fn apply(&self, text: &Text<'_>, symbols: &PrefixMatcher) -> Text<'static> {
        if text.is_tracked() {
            let (normalized, origins) = self.normalize_with_origins(text.as_str(), symbols);
            text.rewritten(normalized, &origins)
        } else {
            text.rewritten(self.normalize(text.as_str(), symbols), &[])
        }
    }

    fn run(&self, text: &str, symbols: &PrefixMatcher, output: &mut Output) {
        let flags = self.flags;
        let mut at = 0;
        if flags.remove_extra_whitespaces {
            while let Some((" ", length)) = self.next(text, at, symbols) {
                at += length;
            }
        }
        if at == text.len() {
            return;
        }
        let space = if flags.escape_whitespaces {
            SPACE_SYMBOL
        } else {
            " "
        };
        if flags.add_dummy_prefix && !flags.treat_whitespace_as_suffix {
            output.push(space, at);
        }
        let mut after_space = flags.remove_extra_whitespaces;
        loop {
            let run = self.plain_run(text, at, symbols);
            if run > at {
                output.copy(text, at, run);
                after_space = false;
                at = run;
            }
            let Some((piece, length)) = self.next(text, at, symbols) else {
                break;
            };
            let piece = if after_space {
                piece.trim_start_matches(' ')
            } else {
                piece
            };
            if !piece.is_empty() {
                output.push_escaped(piece, space, at);
                after_space = flags.remove_extra_whitespaces && piece.ends_with(' ');
            }
            at += length;
        }
        if flags.remove_extra_whitespaces {
            at = output.trim_end(space).unwrap_or(at);
        }
        if flags.add_dummy_prefix && flags.treat_whitespace_as_suffix {
            output.push(space, at);
        }
        output.end(at);
    }

    /// How far from `at` the text has only characters that stay as they are and are no space.
    #[inline]
    fn plain_run(&self, text: &str, at: usize, symbols: &PrefixMatcher) -> usize {
        // Inside of a character, after a rule that matched a part of it, nothing is plain.
        let Some(rest) = text.get(at..).map(str::as_bytes) else {
            return at;
        };
        let Some(charsmap) = &self.charsmap else {
            let stops = |byte: &u8| *byte == b' ' || symbols.starts(*byte);
            let run = if symbols.is_empty() {
                memchr::memchr(b' ', rest)
            } else {
                rest.iter().position(stops)
            };
            return at + run.unwrap_or(rest.len());
        };
        let stops = |(place, byte): (usize, &u8)| {
            // At the end of the text only a key of one byte may start, whatever stands for the next.
            let next = rest.get(place + 1).copied().unwrap_or_default();
            let starts = *byte == b' ' || symbols.starts(*byte) || charsmap.may_start(*byte, next);
            starts && byte & 0xC0 != 0x80
        };
        at + rest
            .iter()
            .enumerate()
            .position(stops)
            .unwrap_or(rest.len())
    }

    /// What the text at `at` becomes and how many bytes it takes.
    fn next<'t>(
        &'t self,
        text: &'t str,
        at: usize,
        symbols: &PrefixMatcher,
    ) -> Option<(&'t str, usize)> {
        let bytes = text.as_bytes().get(at..)?;
        let first = *bytes.first()?;
        if symbols.starts(first)
            && let Some(length) = symbols.longest(bytes)
        {
            return text.get(at..at + length).map(|symbol| (symbol, length));
        }
        if let Some(found) = self
            .charsmap
            .as_ref()
            .and_then(|charsmap| charsmap.longest(bytes))
        {
            return Some(found);
        }
        match text.get(at..).and_then(|rest| rest.chars().next()) {
            Some(character) => text
                .get(at..at + character.len_utf8())
                .map(|piece| (piece, piece.len())),
            None => Some(("\u{FFFD}", 1)),
        }
    }
}

/// Text in the making, with the origin of each byte if asked for.
struct Output {
    text: String,
    origins: Option<Vec<usize>>,
}

impl Output {
    fn push(&mut self, text: &str, from: usize) {
        self.text.push_str(text);
        if let Some(origins) = &mut self.origins {
            origins.extend(std::iter::repeat_n(from, text.len()));
        }
    }

    /// Appends a piece, all of it from the same place, with `space` for its spaces.
    fn push_escaped(&mut self, piece: &str, space: &str, from: usize) {
        if piece == " " {
            return self.push(space, from);
        }
        let mut rest = piece;
        while let Some((before, after)) = rest.split_once(' ') {
            self.push(before, from);
            self.push(space, from);
            rest = after;
        }
        self.push(rest, from);
    }

    /// Appends a part of the original text, each character from its own place.
    fn copy(&mut self, text: &str, start: usize, end: usize) {
        let part = text.get(start..end).unwrap_or_default();
        self.text.push_str(part);
        if let Some(origins) = &mut self.origins {
            for (at, character) in part.char_indices() {
                origins.extend(std::iter::repeat_n(start + at, character.len_utf8()));
            }
        }
    }

    /// Drops every `space` at the end; where the first one of them came from, if any was there.
    fn trim_end(&mut self, space: &str) -> Option<usize> {
        let length = self.text.trim_end_matches(space).len();
        if length == self.text.len() {
            return None;
        }
        self.text.truncate(length);
        let origins = self.origins.as_mut()?;
        let first = origins.get(length).copied();
        origins.truncate(length);
        first
    }

    fn end(&mut self, at: usize) {
        if let Some(origins) = &mut self.origins {
            origins.push(at);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::normalize::charsmap::testing::blob;

    const NONE: SentencePieceFlags = SentencePieceFlags {
        add_dummy_prefix: false,
        remove_extra_whitespaces: false,
        escape_whitespaces: false,
        treat_whitespace_as_suffix: false,
    };
    const LLAMA: SentencePieceFlags = SentencePieceFlags {
        add_dummy_prefix: true,
        escape_whitespaces: true,
        ..NONE
    };
    const T5: SentencePieceFlags = SentencePieceFlags {
        remove_extra_whitespaces: true,
        ..LLAMA
    };
    const SUFFIX: SentencePieceFlags = SentencePieceFlags {
        treat_whitespace_as_suffix: true,
        ..T5
    };

    /// Rules as in "nmt_nfkc".
    fn rules() -> Vec<u8> {
        blob(&[
            ("\t", " "),
            ("\u{3000}", " "),
            ("\u{200b}", " "),
            ("\u{fb01}", "fi"),
            ("e\u{301}", "é"),
            ("\x01", ""),
        ])
    }

    fn normalize(charsmap: &[u8], flags: SentencePieceFlags, text: &str) -> (String, Vec<usize>) {
        let symbols = PrefixMatcher::new(["<a>", "<a><b>", "  x"]).unwrap();
        let normalizer = SentencePieceNormalizer::new(charsmap, flags).unwrap();
        let found = normalizer.normalize_with_origins(text, &symbols);
        assert_eq!(normalizer.normalize(text, &symbols), found.0);
        found
    }

    #[test]
    fn switches() {
        let text = " a  b ";
        assert_eq!(normalize(&[], NONE, text).0, " a  b ");
        assert_eq!(normalize(&[], LLAMA, text).0, "▁▁a▁▁b▁");
        assert_eq!(normalize(&[], T5, text).0, "▁a▁b");
        assert_eq!(normalize(&[], SUFFIX, text).0, "a▁b▁");
        assert_eq!(normalize(&[], T5, "a▁▁ ▁").0, "▁a");
        assert!(normalize(&[], LLAMA, "").1.is_empty());
        assert!(normalize(&[], T5, "  ").1.is_empty());
    }

    #[test]
    fn origins() {
        assert_eq!(
            normalize(&[], T5, " a "),
            ("▁a".to_owned(), vec![1, 1, 1, 1, 2])
        );
        let found = normalize(&rules(), T5, "\tﬁ\u{3000}é\u{200b}");
        assert_eq!(
            found,
            ("▁fi▁é".to_owned(), vec![1, 1, 1, 1, 1, 4, 4, 4, 7, 7, 9])
        );
    }

    #[test]
    fn symbols_pass_and_the_longest_wins() {
        assert_eq!(
            normalize(&rules(), T5, "<a><b>\t<a>  x").0,
            "▁<a><b>▁<a>▁▁x"
        );
        assert_eq!(normalize(&rules(), T5, "e\u{301}e\x01").0, "▁ée");
    }

    #[test]
    fn a_rule_may_end_inside_of_a_character() {
        let mut split = blob(&[("é", "e")]);
        // The key is made one byte shorter: the unit of its first byte gets the value.
        crate::normalize::charsmap::testing::cut_key(&mut split);
        assert_eq!(normalize(&split, NONE, "éa").0, "e\u{fffd}a");
    }

    #[test]
    fn long_texts_take_linear_time() {
        let start = std::time::Instant::now();
        for unit in [" ", "a", "e", "e\u{301}", "<a>", "<a", "  ", "\u{3000}"] {
            assert!(normalize(&rules(), T5, &unit.repeat(1 << 20)).0.len() <= 7 << 20);
        }
        assert!(start.elapsed().as_secs() < 20);
    }
}
