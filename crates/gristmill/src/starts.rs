//! Where strings may begin in a text: by their first two bytes, 64 bytes at a time.
//!
//! A text hardly ever holds the beginning of one of a tokenizer's added tokens, of which there may be
//! thousands. To walk through their automaton takes several steps a byte; to see that no two bytes begin
//! any of them takes a fraction of one. Invariant: no place is passed over where one of the strings
//! stands. Tested below on every tier, and with `special.rs` against the automaton alone.

use crate::simd::{BLOCK, Isa, Table, Tier, Work};

/// More different first bytes outside ASCII are too many to compare with.
const MOST_WIDE: usize = 4;

/// The first two bytes of some strings.
pub(crate) struct Starts {
    /// The ASCII bytes that begin one.
    first: Table,
    /// The others.
    wide: Vec<u8>,
    /// For each first byte, the second ones.
    second: Box<[[u64; 4]; 256]>,
}

const BEGINS: u8 = 1;

impl Starts {
    /// Of these strings, none of them empty. `None` if they begin in too many ways.
    pub(crate) fn of<'a>(strings: impl Iterator<Item = &'a [u8]>) -> Option<Starts> {
        let mut starts = Starts {
            first: Table([0; 128]),
            wide: Vec::new(),
            second: Box::new([[0; 4]; 256]),
        };
        for string in strings {
            let &first = string.first()?;
            match starts.first.0.get_mut(usize::from(first)) {
                Some(flag) => *flag = BEGINS,
                None if starts.wide.contains(&first) => {}
                None => starts.wide.push(first),
            }
            let second = &mut starts.second[usize::from(first)];
            match string.get(1) {
                Some(&byte) => second[usize::from(byte >> 6)] |= 1 << (byte & 63),
                None => *second = [u64::MAX; 4],
            }
        }
        (starts.wide.len() <= MOST_WIDE).then_some(starts)
    }

    /// The first place from `from` on where one may begin.
    pub(crate) fn next(&self, tier: Tier, text: &[u8], from: usize) -> Option<usize> {
        tier.run(Search {
            starts: self,
            text,
            from,
        })
    }

    /// Whether one may begin with these bytes; at the end of a text, zero stands for any second.
    #[inline(always)]
    fn may_begin(&self, first: u8, second: u8) -> bool {
        self.second[usize::from(first)][usize::from(second >> 6)] >> (second & 63) & 1 == 1
    }
}

struct Search<'a> {
    starts: &'a Starts,
    text: &'a [u8],
    from: usize,
}

impl Work for Search<'_> {
    type Output = Option<usize>;

    #[inline(always)]
    fn run<I: Isa>(self, isa: I) -> Option<usize> {
        let Search { starts, text, from } = self;
        let mut base = from;
        while let Some(rest) = text.get(base..).filter(|rest| !rest.is_empty()) {
            let mut padded = [0; BLOCK];
            let (bytes, inside) = match rest.first_chunk() {
                Some(bytes) => (bytes, !0),
                None => {
                    padded[..rest.len()].copy_from_slice(rest);
                    (&padded, (1 << rest.len()) - 1)
                }
            };
            let block = isa.load(bytes);
            let mut places = isa.any(isa.lookup(block, &starts.first), BEGINS);
            for &byte in &starts.wide {
                places |= isa.equal(block, byte);
            }
            places &= inside;
            while places != 0 {
                let at = base + places.trailing_zeros() as usize;
                places &= places - 1;
                if let [first, second, ..] = text[at..] {
                    if starts.may_begin(first, second) {
                        return Some(at);
                    }
                } else {
                    // What it goes on with is not known here.
                    return Some(at);
                }
            }
            base += BLOCK;
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn places_are_those_of_the_first_two_bytes(
            strings in proptest::collection::vec("[a<é▁中🙂\\n]{1,3}", 1..5),
            text in "[ab<>é▁中🙂\\n ]{0,150}",
            from in 0usize..70,
        ) {
            let bytes = text.as_bytes();
            let begin = |at: usize| strings.iter().any(|string| {
                let shortest = string.len().min(2).min(bytes.len() - at);
                bytes[at..].starts_with(&string.as_bytes()[..shortest])
            });
            let expected = (from..bytes.len()).find(|&at| begin(at));
            let starts = Starts::of(strings.iter().map(String::as_bytes)).unwrap();
            for tier in Tier::all() {
                prop_assert_eq!(starts.next(tier, bytes, from), expected, "{}", tier.name());
            }
        }
    }

    #[test]
    fn too_many_ways_to_begin_are_refused() {
        let strings = ["é", "ж", "م", "中", "한", "🙂"];
        assert!(Starts::of(strings.iter().map(|string| string.as_bytes())).is_none());
    }
}
