//! The bytes of a piece as symbols, and whole characters where it comes to the same.
//!
//! Merging begins with bytes. But when the bytes of a character merge among themselves before any of
//! them could merge with a neighbour, whatever the neighbour, the character may as well begin as the
//! symbol it becomes. That is so under two conditions. At each of its own merges the rank is lower than
//! that of every merge that has the character's first symbol on its right side, or its last on its
//! left: then nothing outside can come first. And every merge of the symbol it becomes has a higher
//! rank than all of these: then being there from the beginning, it does nothing that it could not have
//! done in time. Both hold for most characters of most vocabularies, and spare text that is not ASCII
//! half of its merges or more. Tested against merging from bytes.

use std::sync::OnceLock;

use crate::vocab::Vocab;

use super::NONE;
use super::pairs::{Merges, NEVER};

/// Characters below this have a place in the table.
const TABLE: usize = 0x1_0000;

/// The symbols a piece of bytes begins as.
pub(crate) struct Bytes {
    symbols: Box<[u32; 256]>,
    /// The symbol of each character that may begin whole, [`NONE`] for the others. Made when something
    /// is merged for the first time.
    chars: OnceLock<Box<[u32]>>,
}

impl Bytes {
    /// The symbols of every byte, from the single-byte tokens of the vocabulary.
    pub(crate) fn new(vocab: &Vocab) -> Bytes {
        let mut symbols = Box::new([NONE; 256]);
        for (byte, symbol) in (0..=255u8).zip(symbols.iter_mut()) {
            *symbol = vocab.id(&[byte]).unwrap_or(NONE);
        }
        Bytes {
            symbols,
            chars: OnceLock::new(),
        }
    }

    /// The symbol of each character that may begin whole. Vocabulary and merges are those of the
    /// model, always.
    fn chars(&self, vocab: &Vocab, merges: &Merges) -> &[u32] {
        self.chars.get_or_init(|| {
            let mut chars = vec![NONE; TABLE].into_boxed_slice();
            let neighbours = Neighbours::new(merges);
            for (id, token) in vocab.iter() {
                if let Some(char) = wide_char(token)
                    && let Some(place) = chars.get_mut(char as usize)
                {
                    let symbols = token.iter().map(|&byte| self.symbol(byte));
                    if neighbours.cannot_part(symbols.collect(), merges) == Some(id) {
                        *place = id;
                    }
                }
            }
            chars
        })
    }

    /// The symbol of a byte, [`NONE`] if it has none.
    pub(crate) fn symbol(&self, byte: u8) -> u32 {
        self.symbols[byte as usize]
    }

    /// The first byte that has no symbol.
    pub(crate) fn missing(&self) -> Option<u8> {
        (0..=255).find(|&byte| self.symbol(byte) == NONE)
    }

    /// Append what `piece`, which is text, begins as.
    pub(crate) fn begin(
        &self,
        vocab: &Vocab,
        merges: &Merges,
        piece: &str,
        symbols: &mut Vec<u32>,
    ) {
        let bytes = piece.as_bytes();
        let chars = self.chars(vocab, merges);
        let mut at = 0;
        while let Some(&byte) = bytes.get(at) {
            if byte < 0x80 {
                symbols.push(self.symbol(byte));
                at += 1;
                continue;
            }
            let char = piece[at..].chars().next().unwrap_or_default();
            let whole = chars.get(char as usize).copied().unwrap_or(NONE);
            let end = at + char.len_utf8();
            if whole == NONE {
                symbols.extend(bytes[at..end].iter().map(|&byte| self.symbol(byte)));
            } else {
                symbols.push(whole);
            }
            at = end;
        }
    }
}

/// The character, if it is one of several bytes and nothing else.
fn wide_char(token: &[u8]) -> Option<char> {
    if !(2..=4).contains(&token.len()) {
        return None;
    }
    let mut chars = std::str::from_utf8(token).ok()?.chars();
    chars.next().filter(|_| chars.next().is_none())
}

/// How early a symbol may merge with anything on either side of it.
struct Neighbours {
    /// The lowest rank of the merges that have a symbol on the right side, by symbol.
    with_left: Vec<u32>,
    /// On the left side.
    with_right: Vec<u32>,
}

impl Neighbours {
    fn new(merges: &Merges) -> Neighbours {
        let symbols = merges.iter().map(|(left, right, _)| left.max(right) + 1);
        let count = symbols.max().unwrap_or(0) as usize;
        let mut neighbours = Neighbours {
            with_left: vec![NEVER; count],
            with_right: vec![NEVER; count],
        };
        for (left, right, merge) in merges.iter() {
            let lower = |rank: &mut u32| *rank = merge.rank.min(*rank);
            lower(&mut neighbours.with_left[right as usize]);
            lower(&mut neighbours.with_right[left as usize]);
        }
        neighbours
    }

    /// The symbol that `symbols` become among themselves before anything else can happen to them.
    fn cannot_part(&self, mut symbols: Vec<u32>, merges: &Merges) -> Option<u32> {
        let mut highest = 0;
        while symbols.len() > 1 {
            let ranks = symbols.windows(2).map(|both| merges.rank(both[0], both[1]));
            let (rank, at) = ranks.zip(0..).min()?;
            if rank >= self.outside(&symbols) {
                return None;
            }
            highest = rank.max(highest);
            let merge = merges.get(symbols[at], symbols[at + 1])?;
            symbols.splice(at..at + 2, [merge.id]);
        }
        (highest < self.outside(&symbols)).then_some(symbols[0])
    }

    /// The lowest rank of the merges of the first symbol with something before it and of the last
    /// with something after it.
    fn outside(&self, symbols: &[u32]) -> u32 {
        let rank = |ranks: &[u32], symbol: Option<&u32>| {
            let rank = symbol.and_then(|&symbol| ranks.get(symbol as usize));
            rank.copied().unwrap_or(NEVER)
        };
        rank(&self.with_left, symbols.first()).min(rank(&self.with_right, symbols.last()))
    }
}

#[cfg(test)]
mod tests {
    use super::super::merge::merge_naive;
    use super::super::pairs::Merge;
    use super::*;
    use proptest::prelude::*;

    /// A vocabulary of all bytes, a few characters and random pieces of them, merged in random order.
    fn model(order: &[usize]) -> (Vocab, Merges) {
        let mut tokens: Vec<Vec<u8>> = (0..=255).map(|byte| vec![byte]).collect();
        let text = "éа中文ab".as_bytes();
        let mut cuts = Vec::new();
        for start in 0..text.len() {
            for end in start + 2..=text.len().min(start + 5) {
                cuts.push(text[start..end].to_vec());
            }
        }
        for &at in order {
            let token = &cuts[at % cuts.len()];
            if !tokens.contains(token) {
                tokens.push(token.clone());
            }
        }
        let mut vocab = Vocab::with_capacity(tokens.len());
        for (id, token) in (0..).zip(&tokens) {
            vocab.insert(token, id).unwrap();
        }
        let mut pairs = Vec::new();
        for (id, token) in vocab.iter() {
            for cut in 1..token.len() {
                if let (Some(left), Some(right)) =
                    (vocab.id(&token[..cut]), vocab.id(&token[cut..]))
                {
                    pairs.push((left, right, Merge { rank: id, id }));
                }
            }
        }
        (vocab, Merges::new(pairs).unwrap())
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(3000))]

        #[test]
        fn whole_characters_come_to_the_same(
            order in proptest::collection::vec(0usize..1000, 0..40),
            text in "[éа中文ab]{0,12}",
        ) {
            let (vocab, merges) = model(&order);
            let bytes = Bytes::new(&vocab);
            let mut begun = Vec::new();
            bytes.begin(&vocab, &merges, &text, &mut begun);
            let plain: Vec<u32> = text.bytes().map(u32::from).collect();
            prop_assert_eq!(merge_naive(&begun, &merges), merge_naive(&plain, &merges));
        }
    }

    #[test]
    fn some_characters_begin_whole() {
        let (vocab, merges) = model(&[]);
        assert!(
            Bytes::new(&vocab)
                .chars(&vocab, &merges)
                .iter()
                .all(|&symbol| symbol == NONE)
        );
        let e_acute = vocab.len() as u32;
        let mut vocab = vocab;
        vocab.insert("é".as_bytes(), e_acute).unwrap();
        let merges = Merges::new(vec![(
            0xC3,
            0xA9,
            Merge {
                rank: 0,
                id: e_acute,
            },
        )])
        .unwrap();
        let bytes = Bytes::new(&vocab);
        assert_eq!(bytes.chars(&vocab, &merges)['é' as usize], e_acute);
    }
}
