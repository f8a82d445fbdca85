//! A literal replaced in a text that comes in parts.
//!
//! What waits is always a beginning of the literal, so its length is all there is to remember. A byte
//! that does not go on with it lets go of as much as can no longer be part of a match (the table of
//! Knuth, Morris and Pratt says how much), so a text that almost matches for ever costs no more than
//! any other. Matches are found from the left and do not overlap, as everywhere.

use memchr::memchr;

/// A literal and what it becomes.
pub(super) struct Literal {
    pattern: Vec<u8>,
    content: Vec<u8>,
    /// For each beginning of the pattern, the length of the longest shorter one that it ends with.
    borders: Vec<usize>,
}

impl Literal {
    /// `None` if there is nothing to look for.
    pub(super) fn new(pattern: &[u8], content: &[u8]) -> Option<Literal> {
        if pattern.is_empty() {
            return None;
        }
        let mut borders = vec![0; pattern.len()];
        let mut length = 0;
        for at in 1..pattern.len() {
            while length > 0 && pattern[at] != pattern[length] {
                length = borders[length - 1];
            }
            if pattern[at] == pattern[length] {
                length += 1;
            }
            borders[at] = length;
        }
        Some(Literal {
            pattern: pattern.to_vec(),
            content: content.to_vec(),
            borders,
        })
    }

    /// Append what is certain after `text`; `waits` is how much of the pattern waits.
    pub(super) fn push(&self, waits: &mut usize, text: &[u8], out: &mut Vec<u8>) {
        let pattern = &self.pattern;
        let mut rest = text;
        while let Some((&byte, after)) = rest.split_first() {
            if *waits == 0 {
                let found = memchr(pattern[0], rest).unwrap_or(rest.len());
                if found > 0 {
                    out.extend_from_slice(&rest[..found]);
                    rest = &rest[found..];
                    continue;
                }
            }
            while *waits > 0 && pattern[*waits] != byte {
                let border = self.borders[*waits - 1];
                out.extend_from_slice(&pattern[..*waits - border]);
                *waits = border;
            }
            if pattern[*waits] != byte {
                out.push(byte);
            } else if *waits + 1 == pattern.len() {
                out.extend_from_slice(&self.content);
                *waits = 0;
            } else {
                *waits += 1;
            }
            rest = after;
        }
    }

    /// Nothing more comes: what waits is text.
    pub(super) fn end(&self, waits: &mut usize, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.pattern[..std::mem::take(waits)]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn parts_give_what_the_whole_gives(
            pattern in "[ab]{1,5}",
            content in "[abc]{0,2}",
            parts in prop::collection::vec("[abc]{0,6}", 0..8),
        ) {
            let literal = Literal::new(pattern.as_bytes(), content.as_bytes()).unwrap();
            let (mut waits, mut out) = (0, Vec::new());
            for part in &parts {
                literal.push(&mut waits, part.as_bytes(), &mut out);
            }
            literal.end(&mut waits, &mut out);
            prop_assert_eq!(out, parts.concat().replace(&pattern, &content).into_bytes());
        }
    }
}
