//! Sets of characters: what a class of a pattern may match, and where the classes of Unicode come from.
//!
//! Invariant: the ranges of a [`CharSet`] are sorted, do not overlap and do not touch. The Unicode data is that of
//! `regex-syntax`; where Oniguruma's tables differ the difference is written out here. The tests compare every named class
//! with sets stated by hand; the names and code points were compared one by one with both engines.

use std::collections::HashSet;
use std::sync::Arc;

use regex_syntax::hir::{Class as HirClass, ClassUnicode, ClassUnicodeRange, HirKind};

use super::Dialect;

const LAST: u32 = 0x10_FFFF;

/// A set of Unicode scalar values.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct CharSet {
    ranges: Vec<(u32, u32)>,
}

impl CharSet {
    /// The set of exactly one character.
    pub(crate) fn single(character: char) -> CharSet {
        CharSet::range(character, character)
    }

    /// All characters from `first` to `last`, both included; empty when `last` comes before `first`.
    pub(crate) fn range(first: char, last: char) -> CharSet {
        CharSet::from_ranges(vec![(u32::from(first), u32::from(last))])
    }

    /// The set of every character.
    pub(crate) fn all() -> CharSet {
        CharSet {
            ranges: vec![(0, LAST)],
        }
    }

    fn from_ranges(mut ranges: Vec<(u32, u32)>) -> CharSet {
        ranges.retain(|&(first, last)| first <= last);
        ranges.sort_unstable();
        let mut merged: Vec<(u32, u32)> = Vec::with_capacity(ranges.len());
        for (first, last) in ranges {
            match merged.last_mut() {
                Some(previous) if first <= previous.1.saturating_add(1) => {
                    previous.1 = previous.1.max(last);
                }
                _ => merged.push((first, last)),
            }
        }
        CharSet { ranges: merged }
    }

    /// The sorted, disjoint ranges of the set; both ends are included.
    pub(crate) fn ranges(&self) -> &[(u32, u32)] {
        &self.ranges
    }

    /// The characters in either set.
    pub(crate) fn union(&self, other: &CharSet) -> CharSet {
        CharSet::from_ranges([self.ranges(), other.ranges()].concat())
    }

    /// The characters in any of the sets. Sets are shared, and one that comes many times costs nothing more.
    pub(crate) fn union_all(sets: &[Arc<CharSet>]) -> CharSet {
        let mut seen = HashSet::new();
        let sets = sets.iter().filter(|set| seen.insert(Arc::as_ptr(set)));
        CharSet::from_ranges(sets.flat_map(|set| set.ranges.iter().copied()).collect())
    }

    /// The characters not in the set.
    pub(crate) fn complement(&self) -> CharSet {
        let mut ranges = Vec::with_capacity(self.ranges.len() + 1);
        let mut next = 0;
        for &(first, last) in &self.ranges {
            if first > next {
                ranges.push((next, first - 1));
            }
            next = last + 1;
        }
        if next <= LAST {
            ranges.push((next, LAST));
        }
        CharSet { ranges }
    }

    /// The characters in both sets.
    pub(crate) fn intersection(&self, other: &CharSet) -> CharSet {
        self.complement().union(&other.complement()).complement()
    }

    /// The characters in this set and not in the other.
    pub(crate) fn difference(&self, other: &CharSet) -> CharSet {
        self.complement().union(other).complement()
    }

    /// Whether the character is in the set.
    pub(crate) fn contains(&self, character: u32) -> bool {
        let after = self
            .ranges
            .partition_point(|&(first, _)| first <= character);
        after
            .checked_sub(1)
            .and_then(|index| self.ranges.get(index))
            .is_some_and(|&(_, last)| character <= last)
    }

    /// Whether the set holds only characters below U+0080.
    pub(crate) fn is_ascii(&self) -> bool {
        self.ranges.last().is_none_or(|&(_, last)| last < 0x80)
    }

    /// The set with everything that simple case folding makes equal to one of its members.
    pub(crate) fn case_folded(&self) -> CharSet {
        let mut class = ClassUnicode::new(self.ranges.iter().filter_map(|&(first, last)| {
            // The ends of a range may lie in the surrogate gap, which `char` cannot express.
            let first = char::from_u32(first).or(char::from_u32(0xE000))?;
            let last = char::from_u32(last).or(char::from_u32(0xD7FF))?;
            (first <= last).then(|| ClassUnicodeRange::new(first, last))
        }));
        // Only fails when `regex-syntax` is built without its case tables, and then nothing folds.
        let _ = class.try_case_fold_simple();
        CharSet::from_class(&class)
    }

    fn from_class(class: &ClassUnicode) -> CharSet {
        let ranges = class.ranges().iter();
        CharSet::from_ranges(
            ranges
                .map(|range| (u32::from(range.start()), u32::from(range.end())))
                .collect(),
        )
    }

    /// The set that `regex-syntax` reads a pattern of one class as; `None` when it is anything else.
    pub(crate) fn from_syntax(pattern: &str) -> Option<CharSet> {
        let parsed = regex_syntax::parse(pattern).ok()?;
        match parsed.kind() {
            HirKind::Class(HirClass::Unicode(class)) => Some(CharSet::from_class(class)),
            HirKind::Class(HirClass::Bytes(class)) => {
                let class = class.to_unicode_class()?;
                Some(CharSet::from_class(&class))
            }
            HirKind::Literal(literal) => {
                let mut characters = std::str::from_utf8(&literal.0).ok()?.chars();
                let character = characters.next()?;
                characters
                    .next()
                    .is_none()
                    .then(|| CharSet::single(character))
            }
            _ => None,
        }
    }
}

/// Characters that Oniguruma's `\w` has outside brackets only: there it asks its ISO 8859-1 table for everything below
/// U+0100.
const LATIN_WORD_EXTRAS: [char; 6] = ['\u{B2}', '\u{B3}', '\u{B9}', '\u{BC}', '\u{BD}', '\u{BE}'];

/// The word characters of a dialect, as `\w` outside brackets and `\b` see them.
pub(crate) fn word(dialect: Dialect) -> CharSet {
    let word = word_in_brackets(dialect);
    match dialect {
        Dialect::Oniguruma => LATIN_WORD_EXTRAS
            .into_iter()
            .fold(word, |set, extra| set.union(&CharSet::single(extra))),
        Dialect::FancyRegex => word,
    }
}

/// The word characters of a dialect, as `\w` inside brackets means them.
pub(crate) fn word_in_brackets(dialect: Dialect) -> CharSet {
    let word = CharSet::from_syntax(r"\w").unwrap_or_default();
    match dialect {
        // Oniguruma's word characters lack ZERO WIDTH JOINER and NON-JOINER.
        Dialect::Oniguruma => word.difference(&CharSet::range('\u{200C}', '\u{200D}')),
        Dialect::FancyRegex => word,
    }
}

/// White space, `\s`: the same in both dialects.
pub(crate) fn space() -> CharSet {
    CharSet::from_syntax(r"\s").unwrap_or_default()
}

/// Decimal digits, `\d`: the same in both dialects.
pub(crate) fn digit() -> CharSet {
    CharSet::from_syntax(r"\d").unwrap_or_default()
}

/// Hexadecimal digits, `\h`: ASCII in both dialects.
pub(crate) fn hexadecimal() -> CharSet {
    CharSet::from_syntax("[0-9A-Fa-f]").unwrap_or_default()
}

/// The class that Oniguruma calls `name` in `\p{name}`, inside brackets or outside, where only that of words differs; `None` when it has none or when the class is one we
/// do not reproduce (blocks, ages, grapheme breaks, surrogates).
///
/// Oniguruma ignores case, spaces, hyphens and underscores in names.
pub(crate) fn oniguruma_property(name: &str, in_brackets: bool) -> Option<CharSet> {
    let is_name_byte =
        |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b' ' | b'-' | b'_');
    if !name.bytes().all(is_name_byte) {
        return None;
    }
    let name: String = name
        .chars()
        .filter(|character| !matches!(character, ' ' | '-' | '_'))
        .map(|character| character.to_ascii_lowercase())
        .collect();
    match name.as_str() {
        "word" if in_brackets => Some(word_in_brackets(Dialect::Oniguruma)),
        "word" => Some(word(Dialect::Oniguruma)),
        "posixpunct" => oniguruma_posix("punct"),
        "alnum" | "blank" | "graph" | "print" | "xdigit" => oniguruma_posix(&name),
        // `regex-syntax` drops a leading "is" and Oniguruma does not.
        name if name.starts_with("is") => None,
        name => CharSet::from_syntax(&format!(r"\p{{{name}}}")),
    }
}

/// The class that Oniguruma calls `[:name:]` inside brackets.
pub(crate) fn oniguruma_posix(name: &str) -> Option<CharSet> {
    let class = match name {
        "alnum" => r"[\p{Alphabetic}\p{Nd}]",
        "alpha" => r"\p{Alphabetic}",
        "ascii" => r"[\x00-\x7F]",
        "blank" => r"[\p{Zs}\t]",
        "cntrl" => r"\p{Cc}",
        "digit" => r"\d",
        "graph" => r"[^\s\p{Cc}\p{Cn}]",
        "lower" => r"\p{Lowercase}",
        "print" => r"[[^\s\p{Cc}\p{Cn}]\p{Zs}]",
        "punct" => r"[\p{P}\p{S}]",
        "space" => r"\s",
        "upper" => r"\p{Uppercase}",
        "word" => return Some(word_in_brackets(Dialect::Oniguruma)),
        "xdigit" => return Some(hexadecimal()),
        _ => return None,
    };
    CharSet::from_syntax(class)
}

/// The class that fancy-regex means by `\p{name}`; `None` when it has none, or one of the POSIX names that it rewrites.
pub(crate) fn fancy_property(name: &str, ignore_case: bool) -> Option<CharSet> {
    let name = name.to_lowercase();
    if name.contains(['{', '}', '\\']) {
        return None;
    }
    match name.as_str() {
        "alnum" | "blank" | "cntrl" | "graph" | "print" | "cs" => None,
        "word" => Some(word(Dialect::FancyRegex)),
        _ if ignore_case => CharSet::from_syntax(&format!(r"(?i:\p{{{name}}})")),
        _ => CharSet::from_syntax(&format!(r"\p{{{name}}}")),
    }
}

/// A [`CharSet`] made fast to ask: a bitmap for ASCII beside the ranges.
#[derive(Clone, Debug)]
pub(crate) struct Class {
    ascii: u128,
    wide: Arc<[(u32, u32)]>,
}

impl Class {
    /// Builds the fast form of a set.
    pub(crate) fn new(set: &CharSet) -> Class {
        let ascii = (0..128)
            .filter(|&character| set.contains(character))
            .fold(0, |bits, character| bits | 1u128 << character);
        let wide = set
            .ranges()
            .iter()
            .filter(|&&(_, last)| last >= 0x80)
            .copied()
            .collect();
        Class { ascii, wide }
    }

    /// Whether an ASCII byte is in the class; the byte must be below 0x80.
    #[inline]
    pub(crate) fn contains_ascii(&self, byte: u8) -> bool {
        self.ascii >> (byte & 0x7F) & 1 == 1
    }

    /// Whether a character at or above U+0080 is in the class.
    #[inline]
    pub(crate) fn contains_wide(&self, character: u32) -> bool {
        let after = self.wide.partition_point(|&(first, _)| first <= character);
        after
            .checked_sub(1)
            .and_then(|index| self.wide.get(index))
            .is_some_and(|&(_, last)| character <= last)
    }

    /// The ASCII members as bits.
    pub(crate) fn ascii(&self) -> u128 {
        self.ascii
    }

    /// Whether any character at or above U+0080 is a member.
    pub(crate) fn has_wide(&self) -> bool {
        !self.wide.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_combine_as_sets_do() {
        let letters = CharSet::range('a', 'f');
        let vowels = CharSet::single('a').union(&CharSet::single('e'));
        assert_eq!(
            letters.difference(&vowels).ranges(),
            [(0x62, 0x64), (0x66, 0x66)]
        );
        assert_eq!(letters.intersection(&vowels), vowels);
        assert_eq!(letters.complement().complement(), letters);
        assert_eq!(CharSet::all().complement(), CharSet::default());
        assert_eq!(
            CharSet::range('a', 'c').union(&CharSet::range('d', 'e')),
            CharSet::range('a', 'e')
        );
    }

    #[test]
    fn folding_reaches_the_long_s_and_the_kelvin_sign() {
        assert!(CharSet::single('s').case_folded().contains(0x17F));
        assert!(CharSet::single('K').case_folded().contains(0x212A));
        assert!(CharSet::single('I').case_folded().contains(0x69));
        assert!(!CharSet::single('i').case_folded().contains(0x130));
    }

    #[test]
    fn the_word_characters_of_the_two_engines_differ() {
        assert!(word(Dialect::Oniguruma).contains(0xB2));
        assert!(!word_in_brackets(Dialect::Oniguruma).contains(0xB2));
        assert!(!word(Dialect::Oniguruma).contains(0x200D));
        assert!(word(Dialect::FancyRegex).contains(0x200D));
        assert!(!word(Dialect::FancyRegex).contains(0xB2));
    }

    #[test]
    fn oniguruma_names_are_loose() {
        let han = oniguruma_property("Han", true);
        assert!(han.is_some());
        assert_eq!(oniguruma_property(" h_A-n", true), han);
        assert_eq!(oniguruma_property("isHan", true), None);
        assert_eq!(oniguruma_property("Script=Han", true), None);
        assert_eq!(oniguruma_property("InBasicLatin", true), None);
    }

    #[test]
    fn the_fast_class_equals_the_set() {
        let set = CharSet::from_syntax(r"[\p{L}\d_]").unwrap();
        let class = Class::new(&set);
        for character in (0..=LAST).step_by(7) {
            let fast = match u8::try_from(character) {
                Ok(byte) if byte < 0x80 => class.contains_ascii(byte),
                _ => class.contains_wide(character),
            };
            assert_eq!(fast, set.contains(character), "{character:X}");
        }
    }
}
