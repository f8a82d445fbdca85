//! Sets of characters as masks, and the kind of any character in a few instructions.
//!
//! A [`Set`] has one bit for each ASCII character and one for each *kind* of the others. Code points outside ASCII that every
//! known property treats alike share a kind, so a set built from known properties says exactly what the pattern said.
//! Invariant: for every Unicode scalar value, `Set::contains` answers as `regex-syntax` does for the same class.
//! The test compares all properties over all scalar values.

use super::classes_table::{ABOVE, BLOCKS, KINDS, PAGES, PROPERTIES, RANGES};

/// The kinds in use, as a mask.
const ALL_KINDS: u32 = (1 << KINDS) - 1;

/// A set of characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Set {
    /// One bit for each ASCII character.
    pub(super) ascii: u128,
    /// One bit for each kind of the other characters.
    pub(super) kinds: u32,
}

impl Set {
    /// No character at all.
    pub(super) const EMPTY: Self = Self { ascii: 0, kinds: 0 };

    /// What `\p{name}` holds, or `\s` and `\d` under these letters; `None` for a property that the table does not know.
    pub(super) fn property(name: &str) -> Option<Self> {
        PROPERTIES
            .iter()
            .find(|(known, _)| *known == name)
            .map(|(_, set)| *set)
    }

    /// What `low-high` holds inside brackets: any ASCII range, and the few others that the table knows.
    pub(super) fn range(low: char, high: char) -> Option<Self> {
        if high.is_ascii() && low <= high {
            let ascii = (low..=high).fold(0, |mask, c| mask | 1 << u32::from(c));
            return Some(Self { ascii, kinds: 0 });
        }
        RANGES
            .iter()
            .find(|(first, last, _)| (*first, *last) == (low, high))
            .map(|(_, _, set)| *set)
    }

    /// Both sets together.
    pub(super) fn union(self, other: Self) -> Self {
        Self {
            ascii: self.ascii | other.ascii,
            kinds: self.kinds | other.kinds,
        }
    }

    /// What both sets hold.
    pub(super) fn intersection(self, other: Self) -> Self {
        Self {
            ascii: self.ascii & other.ascii,
            kinds: self.kinds & other.kinds,
        }
    }

    /// All other characters.
    pub(super) fn complement(self) -> Self {
        Self {
            ascii: !self.ascii,
            kinds: !self.kinds & ALL_KINDS,
        }
    }

    /// Whether every character of this set is in the other.
    pub(super) fn is_subset(self, other: Self) -> bool {
        self.intersection(other) == self
    }

    /// Whether the set holds this ASCII character.
    pub(super) fn contains_ascii(self, byte: u8) -> bool {
        byte < 128 && self.ascii >> byte & 1 == 1
    }

    /// Whether the set holds characters of this kind.
    pub(super) fn contains_kind(self, kind: u8) -> bool {
        kind < KINDS && self.kinds >> kind & 1 == 1
    }
}

/// The kind and the length in bytes of the character outside ASCII that starts at `at` with the byte `lead`.
///
/// Where no such character starts, the answer is some kind and some length of at least 1.
#[inline(always)]
pub(super) fn kind_at(text: &[u8], at: usize, lead: u8) -> (u8, usize) {
    let byte = |ahead: usize| text.get(at + ahead).copied().unwrap_or(0);
    let bytes = [lead, byte(1), byte(2), byte(3)];
    let found = look_up(bytes, &BLOCKS[..], kind_above);
    (found.value, found.length)
}

/// What is known of a character outside ASCII.
#[derive(Clone, Copy)]
pub(super) struct Found {
    pub(super) value: u8,
    /// Its bytes.
    pub(super) length: usize,
    /// Its code point.
    pub(super) code: u32,
}

/// The code point of such a character.
#[inline(always)]
pub(super) fn code_at(text: &[u8], at: usize, lead: u8) -> u32 {
    let byte = |ahead: usize| text.get(at + ahead).copied().unwrap_or(0);
    let (page, low, _) = parts(lead, byte);
    (page << 6 | low) as u32
}

/// [`kind_at`] of the character with these first bytes, with something else in the place of each kind:
/// `blocks` is [`BLOCKS`] translated, and `above` says what stands for a code point past the end of the table.
#[inline(always)]
pub(super) fn look_up(bytes: [u8; 4], blocks: &[u8], above: impl FnOnce(usize) -> u8) -> Found {
    let (page, low, length) = parts(bytes[0], |ahead| bytes[ahead & 3]);
    let value = match PAGES.get(page) {
        Some(&block) => blocks
            .get(usize::from(block) << 6 | low)
            .copied()
            .unwrap_or(0),
        None => above(page << 6 | low),
    };
    let code = (page << 6 | low) as u32;
    Found {
        value,
        length,
        code,
    }
}

/// The upper and the lower bits of a code point, and the length of its character, from its bytes.
#[inline(always)]
fn parts(lead: u8, byte: impl Fn(usize) -> u8) -> (usize, usize, usize) {
    let low_bits = |ahead: usize| usize::from(byte(ahead) & 0x3F);
    let lead_bits = usize::from(lead);
    if lead >= 0xF0 {
        (
            (lead_bits & 0x07) << 12 | low_bits(1) << 6 | low_bits(2),
            low_bits(3),
            4,
        )
    } else if lead >= 0xE0 {
        ((lead_bits & 0x0F) << 6 | low_bits(1), low_bits(2), 3)
    } else {
        (lead_bits & 0x1F, low_bits(1), 2)
    }
}

/// The kind of a code point past the end of the table.
#[cold]
pub(super) fn kind_above(code: usize) -> u8 {
    let within =
        |(low, high, _): &&(u32, u32, u8)| (*low as usize..=*high as usize).contains(&code);
    ABOVE.iter().find(within).map_or(0, |(_, _, kind)| *kind)
}

#[cfg(test)]
mod tests {
    use super::super::classes_table::UNICODE_VERSION;
    use super::*;
    use regex_syntax::hir::{Class, HirKind};

    fn contains(set: Set, c: char) -> bool {
        let mut buffer = [0; 4];
        let bytes = c.encode_utf8(&mut buffer).as_bytes();
        if c.is_ascii() {
            return set.contains_ascii(bytes[0]);
        }
        let (kind, length) = kind_at(bytes, 0, bytes[0]);
        assert_eq!(length, bytes.len());
        set.contains_kind(kind)
    }

    fn assert_same_as_regex_syntax(pattern: &str, set: Set) {
        let parsed = regex_syntax::parse(pattern).unwrap();
        let HirKind::Class(Class::Unicode(class)) = parsed.kind() else {
            panic!("{pattern} is not a class");
        };
        let mut expected = vec![false; 0x11_0000];
        for range in class.iter() {
            expected[range.start() as usize..=range.end() as usize].fill(true);
        }
        for c in '\0'..=char::MAX {
            assert_eq!(
                contains(set, c),
                expected[c as usize],
                "{pattern} {:x}",
                c as u32
            );
            assert_eq!(
                contains(set.complement(), c),
                !expected[c as usize],
                "not {pattern} {:x}",
                c as u32
            );
        }
    }

    #[test]
    fn every_property_over_all_scalar_values() {
        for (name, set) in PROPERTIES {
            let pattern = match name {
                "s" | "d" => format!("\\{name}"),
                _ => format!("\\p{{{name}}}"),
            };
            assert_same_as_regex_syntax(&pattern, set);
            assert_eq!(Set::property(name), Some(set));
        }
        for (low, high, set) in RANGES {
            assert_same_as_regex_syntax(&format!("[{low}-{high}]"), set);
        }
        assert_same_as_regex_syntax("[!-~]", Set::range('!', '~').unwrap());
    }

    #[test]
    fn the_version_is_that_of_the_regex_crates() {
        let (major, minor) = UNICODE_VERSION;
        assert!(regex_syntax::parse(&format!("\\p{{Age={major}.{minor}}}")).is_ok());
        assert!(regex_syntax::parse(&format!("\\p{{Age={}.0}}", major + 1)).is_err());
    }

    #[test]
    fn what_is_not_known_is_refused() {
        assert_eq!(Set::property("Greek"), None);
        assert_eq!(Set::range('z', 'a'), None);
        assert_eq!(Set::range('a', '\u{e9}'), None);
        assert_eq!(Set::range('\u{4e00}', '\u{9fff}'), None);
    }

    #[test]
    fn hostile_bytes_are_answered() {
        for lead in 0x80..=0xFF {
            for text in [&[lead][..], &[lead, 0xFF, 0xFF, 0xFF], &[lead, 0x80]] {
                let (kind, length) = kind_at(text, 0, lead);
                assert!(kind < KINDS && (1..=4).contains(&length));
            }
        }
    }
}
