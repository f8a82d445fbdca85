//! NFC, NFD, NFKC and NFKD of Unicode 9.0.
//!
//! A quick check finds the segments that may change; they run from one inert character to the next, and only they go
//! through the slow path, whose crate the reference uses too. Invariant: the cuts lie before inert characters, where the
//! slow path keeps no state. Tested against the slow path on whole texts: every character, and random strings.

use crate::{
    error::Result,
    text::{Rewriter, Text},
    unicode::{Role, Roles},
};
use std::ops::Range;
use unicode_normalization_alignments::{UnicodeNormalization, char::canonical_combining_class};

/// A normal form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// Canonical composition.
    Nfc,
    /// Canonical decomposition.
    Nfd,
    /// Compatibility composition.
    Nfkc,
    /// Compatibility decomposition.
    Nfkd,
}

impl Form {
    /// Normalizes a text.
    pub(super) fn apply(self, text: Text<'_>) -> Result<Text<'_>> {
        let source = text.as_str();
        let mut segment = self.next_segment(source, 0);
        if segment.is_none() && text.is_anchored() {
            return Ok(text);
        }
        let mut rewriter = Rewriter::new(&text);
        let mut kept = 0;
        while let Some(dirty) = segment {
            rewriter.keep(kept..dirty.start);
            self.rewrite(source.get(dirty.clone()).unwrap_or_default(), &mut rewriter);
            kept = dirty.end;
            segment = self.next_segment(source, kept);
        }
        rewriter.keep(kept..source.len());
        rewriter.finish()
    }

    /// The slow path.
    fn rewrite(self, segment: &str, rewriter: &mut Rewriter<'_>) {
        let mut push = |(character, change)| rewriter.push(character, change);
        match self {
            Self::Nfc => segment.nfc().for_each(&mut push),
            Self::Nfd => segment.nfd().for_each(&mut push),
            Self::Nfkc => segment.nfkc().for_each(&mut push),
            Self::Nfkd => segment.nfkd().for_each(&mut push),
        }
    }

    /// The lowest first byte of a character that is not inert.
    fn first_byte(self) -> u8 {
        match self {
            Self::Nfc => 0xCC,
            Self::Nfd => 0xC3,
            Self::Nfkc | Self::Nfkd => 0xC2,
        }
    }

    fn shift(self) -> u32 {
        match self {
            Self::Nfc => 0,
            Self::Nfd => 2,
            Self::Nfkc => 4,
            Self::Nfkd => 6,
        }
    }

    /// The first segment at or after `from` that may change. `from` is the start of the text or of an inert character.
    fn next_segment(self, text: &str, from: usize) -> Option<Range<usize>> {
        let roles = Roles::get();
        let mut segment = from;
        let mut last_class = 0;
        let mut at = from;
        loop {
            let next = skip_below(text.as_bytes(), at, self.first_byte());
            if next > at {
                segment = text.floor_char_boundary(next - 1);
                last_class = 0;
                at = next;
            }
            let character = text.get(at..)?.chars().next()?;
            match roles.role(character, self.shift()) {
                Role::Inert => {
                    segment = at;
                    last_class = 0;
                }
                Role::Ordered => {
                    let class = canonical_combining_class(character);
                    if class < last_class {
                        break;
                    }
                    last_class = class;
                }
                Role::Active => break,
            }
            at += character.len_utf8();
        }
        let rest = text.get(at..).unwrap_or_default();
        let length = rest
            .char_indices()
            .find(|(_, character)| roles.role(*character, self.shift()) == Role::Inert);
        Some(segment..length.map_or(text.len(), |(length, _)| at + length))
    }
}

/// The first place at or after `at` whose byte is not below `limit`, or the end of the text.
fn skip_below(bytes: &[u8], mut at: usize, limit: u8) -> usize {
    let rest = bytes.get(at..).unwrap_or_default();
    for chunk in rest.as_chunks::<32>().0 {
        if chunk.iter().fold(0, |highest, byte| highest.max(*byte)) >= limit {
            break;
        }
        at += chunk.len();
    }
    let rest = bytes.get(at..).unwrap_or_default();
    at + rest
        .iter()
        .position(|byte| *byte >= limit)
        .unwrap_or(rest.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str) {
        for form in [Form::Nfc, Form::Nfd, Form::Nfkc, Form::Nfkd] {
            let items: Vec<(char, isize)> = match form {
                Form::Nfc => text.nfc().collect(),
                Form::Nfd => text.nfd().collect(),
                Form::Nfkc => text.nfkc().collect(),
                Form::Nfkd => text.nfkd().collect(),
            };
            let source = Text::tracked(text, 7);
            let whole = source.transform(items, 0).unwrap();
            let ours = form.apply(source.clone()).unwrap();
            assert_eq!(ours.as_str(), whole.as_str(), "{form:?} {text:?}");
            for at in 0..whole.len() {
                assert_eq!(
                    ours.original_span(at..at + 1),
                    whole.original_span(at..at + 1),
                    "{form:?} {text:?} {at}"
                );
            }
            assert_eq!(
                form.apply(Text::untracked(text)).unwrap().as_str(),
                whole.as_str()
            );
        }
    }

    #[test]
    fn every_character_between_others() {
        let mut text = String::new();
        for character in '\0'..=char::MAX {
            text.clear();
            text.extend([
                'e', character, '\u{301}', '\u{1161}', character, '\u{334}', 'x',
            ]);
            check(&text);
        }
    }

    #[test]
    fn random_strings_of_hard_characters() {
        let alphabet: Vec<char> = "aeéo\u{300}\u{301}\u{323}\u{334}\u{345}\u{344}\u{f71}\u{f72}\u{f73}\u{f74}\u{f81}\u{94d}\u{93c}\u{915}\u{958}\
            \u{1100}\u{1161}\u{11a8}\u{11a7}가각\u{9c7}\u{9be}\u{b47}\u{b56}\u{fb01}\u{fdfa}\u{1f82}\u{1e69}\u{212b}\u{2126}\u{eb9}\u{eba}\
            \u{1df8}\u{1df9}\u{1611e}\u{1611f}\u{110a5}\u{110ba}\u{1d160}\u{e49}\u{5b0}\u{5b1}\u{fb2c}中あ\u{3099}か\u{ff76}\u{ff9e}\u{ac}\0 "
            .chars()
            .collect();
        let mut state = 1_u64;
        for _ in 0..60_000 {
            let mut text = String::new();
            for _ in 0..state >> 61 << 1 {
                state = state
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1_442_695_040_888_963_407);
                text.push(alphabet[(state >> 33) as usize % alphabet.len()]);
            }
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            check(&text);
        }
    }

    #[test]
    fn clean_text_is_not_copied() {
        for text in [
            "",
            "plain",
            "naïve Übergröße 中文 हिन्दी ภาษาไทย 한국어",
            "x\u{eb9}\u{eba}",
        ] {
            let normal = Form::Nfc.apply(Text::untracked(text)).unwrap();
            assert!(std::ptr::eq(normal.as_str(), text));
        }
    }

    #[test]
    fn long_runs_of_marks_are_linear() {
        for mark in ["\u{301}", "\u{301}\u{323}", "\u{94d}\u{93c}"] {
            let text = format!("a{}", mark.repeat(500_000));
            let start = std::time::Instant::now();
            for form in [Form::Nfc, Form::Nfkd] {
                assert!(form.apply(Text::tracked(&text, 0)).unwrap().len() >= 1_000_000);
            }
            assert!(start.elapsed().as_secs() < 20);
        }
    }
}
