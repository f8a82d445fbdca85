//! Where a text may be cut so that its parts fall into the same pieces as the whole.
//!
//! Cut between a letter and a sign or white space, patterns of a known [`Shape`](super::shape::Shape)
//! have nothing in common on the two sides:
//!
//! - No piece holds both characters. A word holds letters, behind at most one other character, and may
//!   end in a contraction, which begins with an apostrophe; that is no sign here. Numbers, signs and
//!   white space hold no letters. A contraction goes on in letters alone.
//! - What follows falls into pieces by itself: where a piece ends depends only on the text from its
//!   beginning on, and one begins here.
//! - What comes before does so too: to find a piece nothing is read past the first character behind a
//!   run of one class. Only letters run up to the cut, and they end there as they do at the end of the
//!   text. White space looks at what follows it, and that is the letter at the latest.
//!
//! A character counts as a letter, a sign or white space if it is that and nothing else for the shape.
//! Tested here on all pairs of awkward characters, and with whole tokenizers through batches.

use super::classes::{kind_above, look_up};
use super::shape::{LETTER, MARK, NUMBER, ODD, Shape, WHITE};
use super::{Behavior, Finder, PreTokenizer, Rules, Step};

impl PreTokenizer {
    /// The first place from `from` on and before `to` where `text` may be cut and `is_allowed` says yes
    /// to the characters before and behind it. `None` if there is none or it is not known of these steps.
    pub(crate) fn cut(
        &self,
        text: &str,
        from: usize,
        to: usize,
        is_allowed: impl Fn(char, char) -> bool,
    ) -> Option<usize> {
        let [
            Step::Split {
                finder: Finder::Rules(rules),
                behavior: Behavior::Isolated,
                ..
            }
            | Step::Split {
                finder: Finder::Rules(rules),
                behavior: Behavior::Removed,
                invert: true,
            },
        ] = self.steps.as_slice()
        else {
            return None;
        };
        rules.cut(text, from, to, is_allowed)
    }
}

impl Rules {
    fn cut(
        &self,
        text: &str,
        from: usize,
        to: usize,
        is_allowed: impl Fn(char, char) -> bool,
    ) -> Option<usize> {
        let shape = self.shape()?;
        let from = text.ceil_char_boundary(from);
        let mut chars = text.get(from..)?.char_indices();
        let (_, mut before) = chars.next()?;
        for (at, char) in chars {
            let at = from + at;
            if at >= to {
                return None;
            }
            if ends_word(shape, before) && follows_word(shape, char) && is_allowed(before, char) {
                return Some(at);
            }
            before = char;
        }
        None
    }
}

fn ends_word(shape: &Shape, char: char) -> bool {
    const OTHERS: u8 = NUMBER | WHITE | MARK | ODD;
    // Of ASCII, what is sure to be in no other set, such as that of what may follow signs.
    let known = !char.is_ascii() || char.is_ascii_alphabetic();
    known && flags(shape, char) & (LETTER | OTHERS) == LETTER
}

fn follows_word(shape: &Shape, char: char) -> bool {
    let flags = flags(shape, char);
    flags & (LETTER | NUMBER | MARK | ODD) == 0 && char != '\''
}

fn flags(shape: &Shape, char: char) -> u8 {
    let mut buffer = [0; 4];
    let bytes = char.encode_utf8(&mut buffer).as_bytes();
    match *bytes {
        [byte] => shape.ascii.0.get(usize::from(byte)).copied().unwrap_or(ODD),
        [_, _, ..] => {
            let above = |code| shape.kinds[usize::from(kind_above(code) & 0x1F)];
            look_up(buffer, &shape.blocks, above).value
        }
        [] => ODD,
    }
}

#[cfg(test)]
mod tests {
    use super::super::Dialect;
    use super::*;
    use std::ops::Range;

    const PATTERNS: [(&str, Dialect); 4] = [
        (
            r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+",
            Dialect::Oniguruma,
        ),
        (
            r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
            Dialect::Oniguruma,
        ),
        (
            r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
            Dialect::Oniguruma,
        ),
        (
            r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+",
            Dialect::Oniguruma,
        ),
    ];

    fn pieces(rules: &Rules, text: &str, offset: usize) -> Vec<Range<usize>> {
        let moved = |range: Range<usize>| range.start + offset..range.end + offset;
        rules.matches(text).map(moved).collect()
    }

    /// Whether every cut of the text leaves its pieces; how many there are.
    fn check(rules: &Rules, text: &str) -> usize {
        let whole = pieces(rules, text, 0);
        let mut cuts = 0;
        let mut from = 0;
        while let Some(at) = rules.cut(text, from, text.len(), |_, _| true) {
            let mut parts = pieces(rules, &text[..at], 0);
            parts.extend(pieces(rules, &text[at..], at));
            assert_eq!(parts, whole, "{text:?} cut at {at}");
            cuts += 1;
            from = at;
        }
        cuts
    }

    #[test]
    fn parts_have_the_pieces_of_the_whole() {
        const AWKWARD: [&str; 24] = [
            "a", "B", "中", "e\u{301}", "\u{301}", "ǅ", "ª", "1", "½", "٢", " ", "\n", "\r", "\t",
            "\u{3000}", "\u{85}", ".", "/", "'", "'s", "'ll", "ſ", "🙂", "，",
        ];
        for (pattern, dialect) in PATTERNS {
            let rules = Rules::recognise(pattern, dialect).unwrap();
            assert!(rules.shape().is_some(), "{pattern}");
            let mut cuts = 0;
            for a in AWKWARD {
                for b in AWKWARD {
                    for c in AWKWARD {
                        cuts += check(&rules, &format!("{a}{b}{c}"));
                        cuts += check(&rules, &format!(" {c}{a}{b}{c}{b}'{a}"));
                        cuts += check(&rules, &format!("x\n{c}{a}l{b}{a}{c}  {b}"));
                    }
                }
            }
            assert!(cuts > 10_000, "{pattern}: {cuts}");
        }
    }

    #[test]
    fn no_cut_is_known_of_other_steps() {
        let plain = || Step::Split {
            finder: Finder::pattern(PATTERNS[0].0, PATTERNS[0].1).unwrap(),
            behavior: Behavior::Isolated,
            invert: false,
        };
        let cut = |steps| PreTokenizer::new(steps).cut("a b c d", 2, 7, |_, _| true);
        assert_eq!(cut(vec![plain()]), Some(3));
        assert_eq!(cut(vec![plain(), plain()]), None);
        assert_eq!(cut(vec![]), None);
    }
}
