//! Places inside a piece that no token spans.
//!
//! Whatever merges gives a token of the vocabulary. So if no token holds the end of one character
//! followed by the beginning of the next, nothing can ever merge across the boundary between these
//! two, and what lies before it and after it may be encoded apart, with the same ids. Long pieces,
//! such as a sentence of Chinese or a whole text of a SentencePiece model, fall into short units that
//! come again and again.
//!
//! The test may say that a token spans a boundary when none does, never the other way round: pairs of
//! characters are bits of a table that some pairs share, and where a token holds only a part of one
//! of the two characters, only the two bytes beside the boundary count. Characters that are no
//! symbols of their own never stand beside a cut, since what becomes of them depends on their
//! neighbours. Tested by encoding with and without cuts.

use std::ops::Range;

use crate::vocab::Vocab;

/// A bit for each pair of characters, several pairs to a bit.
const PAIR_BITS: u32 = 20;
/// A bit for each character.
const CHAR_BITS: usize = 0x11_0000;

/// Which boundaries some token may span.
pub(crate) struct Cuts {
    pairs: Bits,
    /// Pairs of bytes, for tokens that hold a part of a character.
    bytes: Bits,
    /// Characters beside which a cut may be; none where it may be beside any.
    known: Option<Bits>,
    /// For each ASCII character, the ones that it stays together with.
    ascii: Box<[u128; 128]>,
}

impl Cuts {
    /// The boundaries that no token of `vocab` spans, between any characters.
    pub(crate) fn new(vocab: &Vocab) -> Cuts {
        Cuts::beside(vocab, None)
    }

    /// The boundaries that no token of `vocab` spans, between characters that are `known`.
    pub(crate) fn between(vocab: &Vocab, known: impl Iterator<Item = char>) -> Cuts {
        let mut chars = Bits::new(CHAR_BITS);
        for char in known {
            chars.set(char as usize);
        }
        Cuts::beside(vocab, Some(chars))
    }

    fn beside(vocab: &Vocab, known: Option<Bits>) -> Cuts {
        let mut cuts = Cuts {
            pairs: Bits::new(1 << PAIR_BITS),
            bytes: Bits::new(1 << 16),
            known,
            ascii: Box::new([0; 128]),
        };
        for (_, token) in vocab.iter() {
            cuts.span(token);
        }
        if let Some(known) = &cuts.known {
            let unknown = |&char: &usize| !known.get(char);
            let column = (0..128)
                .filter(unknown)
                .fold(0, |bits, char| bits | 1 << char);
            for (char, row) in cuts.ascii.iter_mut().enumerate() {
                *row |= if unknown(&char) { u128::MAX } else { column };
            }
        }
        cuts
    }

    /// Note every boundary between characters that lies inside `token`.
    fn span(&mut self, token: &[u8]) {
        let Some((mut left, mut at)) = next_char(token, 0) else {
            return;
        };
        while let Some((right, end)) = next_char(token, at) {
            match (left, right) {
                (Some(left), Some(right)) => {
                    self.pairs.set(pair(left.into(), right.into()));
                    if left.is_ascii() && right.is_ascii() {
                        self.ascii[left as usize] |= 1 << right as u32;
                    }
                }
                _ => self.bytes.set(byte_pair(token[at - 1], token[at])),
            }
            (left, at) = (right, end);
        }
    }

    /// Cut `text` wherever no token spans the boundary; the parts cover it and are not empty.
    pub(crate) fn units<'a>(&'a self, text: &'a str) -> impl Iterator<Item = Range<usize>> + 'a {
        let bytes = text.as_bytes();
        let mut start = 0;
        std::iter::from_fn(move || {
            if start == bytes.len() {
                return None;
            }
            let end = self.unit_end(text, start);
            let unit = start..end;
            start = end;
            Some(unit)
        })
    }

    /// Where the unit that begins at `start` ends.
    #[inline]
    fn unit_end(&self, text: &str, start: usize) -> usize {
        let bytes = text.as_bytes();
        let mut at = start;
        loop {
            // From one ASCII character to the next there is nothing to decode.
            while let Some(&[left, right]) = bytes.get(at..).and_then(|rest| rest.first_chunk())
                && (left | right) < 0x80
            {
                at += 1;
                if self.ascii[usize::from(left & 0x7F)] >> (right & 0x7F) & 1 == 0 {
                    return at;
                }
            }
            let mut chars = text[at..].chars();
            let (Some(left), Some(right)) = (chars.next(), chars.next()) else {
                return bytes.len();
            };
            at += left.len_utf8();
            if self.allows(bytes, left, at, right) {
                return at;
            }
        }
    }

    /// Whether nothing merges across the boundary at `at`, between `left` and `right`.
    #[inline]
    fn allows(&self, text: &[u8], left: char, at: usize, right: char) -> bool {
        self.allow(left.into(), text[at - 1], right.into(), text[at])
    }

    /// Whether nothing merges across the boundary between two characters, of which the first ends in
    /// one byte and the second begins with another.
    #[inline(always)]
    pub(crate) fn allow(&self, left: u32, end: u8, right: u32, start: u8) -> bool {
        let known = |char: u32| match &self.known {
            Some(known) => known.get(char as usize),
            None => true,
        };
        !self.pairs.get(pair(left, right))
            && !self.bytes.get(byte_pair(end, start))
            && known(left)
            && known(right)
    }
}

#[inline(always)]
fn pair(left: u32, right: u32) -> usize {
    let both = u64::from(left) << 21 | u64::from(right);
    (both.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> (64 - PAIR_BITS)) as usize
}

fn byte_pair(left: u8, right: u8) -> usize {
    usize::from(left) << 8 | usize::from(right)
}

fn is_continuation(byte: u8) -> bool {
    byte & 0xC0 == 0x80
}

/// The bytes up to the next that begins a character: the character they are, if all of it is there,
/// and where they end. None at the end of `bytes`.
#[inline]
fn next_char(bytes: &[u8], at: usize) -> Option<(Option<char>, usize)> {
    let rest = bytes.get(at..)?;
    let (&first, after) = rest.split_first()?;
    let tail = after.iter().take_while(|&&byte| is_continuation(byte));
    let length = 1 + tail.count();
    if first < 0x80 && length == 1 {
        return Some((Some(first.into()), at + 1));
    }
    let mut chars = std::str::from_utf8(&rest[..length])
        .unwrap_or_default()
        .chars();
    Some((chars.next(), at + length))
}

/// Bits by number. One that lies outside is never set.
struct Bits(Box<[u64]>);

impl Bits {
    fn new(count: usize) -> Bits {
        Bits(vec![0; count.div_ceil(64)].into_boxed_slice())
    }

    fn set(&mut self, number: usize) {
        if let Some(word) = self.0.get_mut(number / 64) {
            *word |= 1 << (number % 64);
        }
    }

    #[inline(always)]
    fn get(&self, number: usize) -> bool {
        self.0
            .get(number / 64)
            .is_some_and(|word| word >> (number % 64) & 1 != 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn units(tokens: &[&[u8]], known: &str, text: &str) -> Vec<String> {
        let mut vocab = Vocab::with_capacity(tokens.len());
        for (id, token) in (0..).zip(tokens) {
            vocab.insert(token, id).unwrap();
        }
        let cuts = Cuts::between(&vocab, known.chars());
        cuts.units(text).map(|unit| text[unit].to_owned()).collect()
    }

    #[test]
    fn cuts_where_no_token_spans() {
        let tokens: [&[u8]; 3] = [b"ab", "中文".as_bytes(), b"xabx"];
        let known = "abx中文国";
        assert_eq!(units(&tokens, known, "abba"), ["ab", "b", "a"]);
        assert_eq!(units(&tokens, known, "中文国中文"), ["中文", "国", "中文"]);
        assert_eq!(units(&tokens, known, "xab"), ["xab"]);
        assert_eq!(units(&tokens, known, ""), Vec::<String>::new());
        assert_eq!(units(&tokens, known, "a"), ["a"]);
    }

    #[test]
    fn units_end_where_it_is_allowed() {
        let tokens: [&[u8]; 5] = [b"ab", b"  ", "中a".as_bytes(), b"b\xC3", "é中".as_bytes()];
        let mut vocab = Vocab::with_capacity(tokens.len());
        for (id, token) in (0..).zip(tokens) {
            vocab.insert(token, id).unwrap();
        }
        for cuts in [Cuts::new(&vocab), Cuts::between(&vocab, "ab 中é\n".chars())] {
            for text in [
                "a",
                "ab",
                "ba",
                "abab  c",
                "中ab中",
                "bé中b é\n\n中",
                "xa?x中x é",
            ] {
                let mut ends = Vec::new();
                let mut left = None;
                for (at, right) in text.char_indices() {
                    ends.extend(
                        left.filter(|&left| cuts.allows(text.as_bytes(), left, at, right))
                            .map(|_| at),
                    );
                    left = Some(right);
                }
                ends.push(text.len());
                let found: Vec<usize> = cuts.units(text).map(|unit| unit.end).collect();
                assert_eq!(found, ends, "{text:?}");
            }
        }
    }

    #[test]
    fn unknown_characters_stay_with_their_neighbours() {
        assert_eq!(units(&[], "ab", "a?b"), ["a?b"]);
        assert_eq!(units(&[], "ab", "ab?"), ["a", "b?"]);
    }

    #[test]
    fn a_part_of_a_character_forbids_cuts_beside_its_bytes() {
        // The end of 中 (E4 B8 AD) with the beginning of any character that starts with E5.
        let tokens: [&[u8]; 1] = [&[0xAD, 0xE5]];
        assert_eq!(
            units(&tokens, "中国文", "中国文中文"),
            ["中国", "文", "中", "文"]
        );
    }
}
