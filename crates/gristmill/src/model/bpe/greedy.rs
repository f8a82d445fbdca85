//! Encoding a piece by its longest tokens, without merging.
//!
//! Merging takes a step for each symbol that disappears. But what it comes to can be told from its end:
//!
//! 1. A token comes of one merge, the last one when its own bytes are merged; other merges that would
//!    give it never happen. So each token is a tree of tokens, and tokens that their own bytes do not
//!    become do not occur at all.
//! 2. If every merge has a later rank than those its two parts come of, then merging goes through the
//!    ranks once, in order. Then two tokens side by side stay apart if and only if no merge joins a
//!    part at the end of the first with a part at the beginning of the second while both are there and
//!    no merge of their own comes before it ([`Greedy::stay_apart`]).
//! 3. A row of tokens of which every two neighbours stay apart is what merging comes to, and so there
//!    is only one.
//!
//! Hence any way of finding such a row will do. This one takes the longest token, goes on behind it,
//! and where nothing fits takes the next shorter one. What has been reached once is reached in one way
//! only, so a place from which nothing leads on is never tried again, and the time is linear.
//!
//! Whether the first two points hold for a list of merges is checked when it is loaded
//! ([`Greedy::new`]). In some lists a few merges come before their parts; pieces in which these could
//! happen are left to merging. Tested against merging by definition, on random merges of every kind.

use aho_corasick::AhoCorasick;

use super::keys::SHORT;
use super::pairs::Pair;
use super::tokens::{NEVER_BORN, Tokens, Tree};
use crate::vocab::Vocab;

/// More strings of which merging by ranks says something else are too many to look for.
const MOST_EXCEPTIONS: usize = 256;

/// Where fewer bytes are left, each token is looked for.
const WORTH_A_ROW: usize = 64;

/// How many merges ahead memory is called for, in three steps.
const FAR: usize = 24;
const MIDDLE: usize = 16;
const NEAR: usize = 8;

/// The tokens of a vocabulary that texts become, and how to find those of a piece.
pub(crate) struct Greedy {
    pub(super) tokens: Tokens,
    /// Two tokens that merge earlier than one of them comes to be, as one string each. Where none of
    /// these stands, no such merge happens.
    exceptions: Option<AhoCorasick>,
}

/// The places in a piece from which nothing leads on.
#[derive(Default)]
pub(crate) struct DeadEnds {
    bits: Vec<u64>,
    any: bool,
}

impl Greedy {
    /// The trees of a vocabulary whose pieces begin as the symbols `first`, from the pairs that merge in
    /// the order of their ranks. None if the merges are not of the kind that this works for.
    ///
    /// A pair may be listed twice, which means the later merge, and then the answer may be None, or
    /// more of an exception than it had to be, but nothing else: if the earlier merge makes a token, the
    /// later one makes it again, for it has the same parts; if it is too early, it is an exception; and
    /// if it never happens, neither does the later one, since what joins parts of the two tokens has an
    /// earlier rank than the tokens.
    pub(crate) fn new(
        vocab: &Vocab,
        ordered: &[Pair],
        first: impl Iterator<Item = u32>,
    ) -> Option<Greedy> {
        let one_token_a_rank = |both: &[Pair]| {
            both[0].2.rank < both[1].2.rank
                || (both[0].2.rank == both[1].2.rank && both[0].2.id == both[1].2.id)
        };
        if !ordered.windows(2).all(one_token_a_rank) {
            return None;
        }
        let mut greedy = Greedy {
            tokens: Tokens::new(vocab),
            exceptions: None,
        };
        for id in first {
            let (left, right) = (id, id);
            let born = 0;
            greedy.tokens.insert(vocab, id, Tree { left, right, born });
        }
        let mut early = Vec::new();
        for (place, &(left, right, merge)) in ordered.iter().enumerate() {
            let ahead = |steps: usize| ordered.get(place + steps);
            let id = |&(_, _, merge): &Pair| merge.id;
            let tokens = &greedy.tokens;
            tokens.expect_place(vocab, ahead(FAR).map(id));
            if let Some(&(left, right, merge)) = ahead(MIDDLE) {
                tokens.expect(vocab, merge.id, left, right);
            }
            tokens.expect_slot(vocab, ahead(NEAR).map(id));
            let born = merge.rank + 1;
            let of_parts = [left, right].map(|id| greedy.tokens.tree(id).born);
            if of_parts[0].max(of_parts[1]) >= born {
                early.push((left, right));
            } else if greedy.come_together(left, right) {
                if greedy.tokens.tree(merge.id).born != NEVER_BORN {
                    return None;
                }
                let tree = Tree { left, right, born };
                greedy.tokens.insert(vocab, merge.id, tree);
            }
        }
        early.retain(|&(left, right)| greedy.come_together(left, right));
        if early.len() > MOST_EXCEPTIONS || !greedy.tokens.finish(vocab) {
            return None;
        }
        if !early.is_empty() {
            let both = |(left, right)| Some([vocab.get(left)?, vocab.get(right)?].concat());
            let strings: Option<Vec<Vec<u8>>> = early.into_iter().map(both).collect();
            greedy.exceptions = Some(AhoCorasick::new(strings?).ok()?);
        }
        Some(greedy)
    }

    /// What [`new`](Self::new) makes, from what it finds out: the tree of every token, in any order.
    /// None if so many tokens begin alike that it does not work.
    pub(crate) fn of_trees(vocab: &Vocab, trees: &[(u32, Tree)]) -> Option<Greedy> {
        let mut tokens = Tokens::new(vocab);
        for (place, &(id, tree)) in trees.iter().enumerate() {
            let ahead = |steps: usize| trees.get(place + steps);
            let id_of = |&(id, _): &(u32, Tree)| id;
            tokens.expect_place(vocab, ahead(FAR).map(id_of));
            if let Some(&(id, tree)) = ahead(MIDDLE) {
                tokens.expect(vocab, id, tree.left, tree.right);
            }
            tokens.expect_slot(vocab, ahead(NEAR).map(id_of));
            tokens.insert(vocab, id, tree);
        }
        tokens.finish(vocab).then_some(Greedy {
            tokens,
            exceptions: None,
        })
    }

    /// Whether the tokens are the same, and there are no exceptions.
    #[cfg(test)]
    pub(super) fn has_trees_of(&self, other: &Greedy, vocab: &Vocab) -> bool {
        let same = |id| self.tokens.tree(id) == other.tokens.tree(id);
        (0..vocab.id_end()).all(same) && self.exceptions.is_none() && other.exceptions.is_none()
    }

    /// Append the tokens of `piece`; false, and nothing, if it holds something that is no token, or an
    /// exception.
    #[inline(never)]
    pub(crate) fn encode(
        &self,
        vocab: &Vocab,
        piece: &[u8],
        ids: &mut Vec<u32>,
        dead_ends: &mut DeadEnds,
    ) -> bool {
        if self.is_exception(piece) {
            return false;
        }
        let from = ids.len();
        dead_ends.clear(piece.len());
        let windows = Windows::new(piece);
        let mut at = 0;
        let mut limit = piece.len();
        while at < piece.len() {
            let before = if ids.len() > from { ids.last() } else { None };
            let longest = self
                .tokens
                .longest(vocab, &piece[at..], windows.at(at), limit);
            match longest {
                Some((id, length)) => {
                    let fits = !dead_ends.contains(at + length)
                        && before.is_none_or(|&before| self.stay_apart(before, id));
                    if fits {
                        ids.push(id);
                        if limit >= WORTH_A_ROW && !dead_ends.any() {
                            let rest = &piece[at..];
                            let more = self.more_of(vocab, rest, windows.at(at), (id, length));
                            ids.resize(ids.len() + more, id);
                            at += length * more;
                        }
                        at += length;
                        limit = piece.len() - at;
                    } else {
                        limit = length - 1;
                    }
                }
                None => {
                    dead_ends.insert(at);
                    let Some(&before) = before else {
                        return false;
                    };
                    ids.pop();
                    let length = vocab.get(before).map_or(0, <[u8]>::len);
                    at -= length;
                    limit = length - 1;
                }
            }
        }
        true
    }

    /// How many more of the token that was found at the beginning of `rest` are sure to follow it, where
    /// one byte comes over and over: where enough of this byte is left, the longest token is the same,
    /// and if two of it stay apart, the walk takes one after the other.
    #[inline]
    fn more_of(&self, vocab: &Vocab, rest: &[u8], window: u128, found: (u32, usize)) -> usize {
        let byte = window as u8;
        if window == u128::from_ne_bytes([byte; WINDOW]) {
            self.more_in_row(vocab, rest, window, found)
        } else {
            0
        }
    }

    #[cold]
    fn more_in_row(&self, vocab: &Vocab, rest: &[u8], window: u128, found: (u32, usize)) -> usize {
        let (id, length) = found;
        // It may be a shorter one, because of the token before.
        let longest = self.tokens.longest(vocab, rest, window, rest.len());
        if longest != Some(found) || !self.stay_apart(id, id) {
            return 0;
        }
        let byte = window as u8;
        let row = rest.iter().take_while(|&&other| other == byte).count();
        // Near the end of the row a token may hold what follows it.
        let sure = row.saturating_sub(self.tokens.longest_like(vocab, window));
        sure / length
    }

    /// The token of one byte, which a unit of this byte becomes.
    #[inline]
    pub(crate) fn single(&self, byte: u8) -> Option<u32> {
        self.tokens.single(byte)
    }

    /// Whether the bytes of a character of four bytes hardly merge: to find its tokens anew takes less time
    /// than to remember them.
    #[inline]
    pub(crate) fn hardly_merges(&self, unit: &[u8]) -> bool {
        match unit {
            &[first, second, _, _] if first >= 0xF0 => {
                self.tokens.longest_beginning(first, second) <= 2
            }
            _ => false,
        }
    }

    /// Whether merges may happen in a piece that come before their parts.
    #[inline(always)]
    pub(super) fn is_exception(&self, piece: &[u8]) -> bool {
        self.exceptions
            .as_ref()
            .is_some_and(|exceptions| exceptions.is_match(piece))
    }

    /// Whether two tokens side by side stay as they are.
    #[inline(always)]
    pub(super) fn stay_apart(&self, left: u32, right: u32) -> bool {
        self.tokens.rank(left, right).is_none() && self.come_together(left, right)
    }

    /// Whether two tokens come to stand side by side at all: nothing joins parts of them.
    #[inline]
    fn come_together(&self, mut left: u32, mut right: u32) -> bool {
        // Until when, in ranks, the two symbols are there.
        let (mut left_until, mut right_until) = (u32::MAX, u32::MAX);
        loop {
            let (left_tree, right_tree) = (self.tokens.tree(left), self.tokens.tree(right));
            // Back to before the later of the two, or of both, came to be.
            let born = left_tree.born.max(right_tree.born);
            if born == 0 {
                return true;
            }
            if born == NEVER_BORN {
                return false;
            }
            if left_tree.born == born {
                left_until = born - 1;
                left = left_tree.right;
            }
            if right_tree.born == born {
                right_until = born - 1;
                right = right_tree.left;
            }
            // Of two merges of one rank the left one is done first.
            if let Some(rank) = self.tokens.rank(left, right)
                && rank < left_until
                && rank <= right_until
            {
                return false;
            }
        }
    }
}

/// The first bytes of what is left of a piece, from any place on.
struct Windows<'a> {
    piece: &'a [u8],
    /// The last of them, or all if the piece is short, and zeros in front.
    last: u128,
}

/// The bytes of a window.
const WINDOW: usize = SHORT + 1;

impl<'a> Windows<'a> {
    fn new(piece: &'a [u8]) -> Windows<'a> {
        let last = match piece.last_chunk() {
            Some(bytes) => u128::from_le_bytes(*bytes),
            None => {
                let mut bytes = [0; WINDOW];
                bytes[WINDOW - piece.len()..].copy_from_slice(piece);
                u128::from_le_bytes(bytes)
            }
        };
        Windows { piece, last }
    }

    /// The bytes from `at` on, the first one lowest, and zeros where the piece ends.
    #[inline(always)]
    fn at(&self, at: usize) -> u128 {
        match self.piece.get(at..).and_then(|rest| rest.first_chunk()) {
            Some(bytes) => u128::from_le_bytes(*bytes),
            None => {
                let behind = self.piece.len().saturating_sub(at);
                let missing = (WINDOW - behind) as u32;
                self.last.checked_shr(8 * missing).unwrap_or(0)
            }
        }
    }
}

impl DeadEnds {
    fn clear(&mut self, length: usize) {
        self.bits.clear();
        self.bits.resize(length / 64 + 1, 0);
        self.any = false;
    }

    fn insert(&mut self, at: usize) {
        self.any = true;
        if let Some(word) = self.bits.get_mut(at / 64) {
            *word |= 1 << (at % 64);
        }
    }

    fn any(&self) -> bool {
        self.any
    }

    fn contains(&self, at: usize) -> bool {
        self.bits
            .get(at / 64)
            .is_some_and(|word| word >> (at % 64) & 1 == 1)
    }

    /// Give back what a very long piece took.
    pub(crate) fn shrink(&mut self) {
        self.bits.clear();
        self.bits.shrink_to(1 << 10);
    }
}

#[cfg(test)]
mod tests {
    use super::super::keys::{Part, short_key};
    use super::super::merge::merge_naive;
    use super::super::pairs::{Merge, Merges};
    use super::super::walks::Walk;
    use super::*;
    use proptest::prelude::*;

    /// A vocabulary over three bytes, whose tokens are those of a few merges, in any order: parts may
    /// come to be after what they make, tokens in several ways, ranks be those of ids or of merges.
    fn model(choices: &[(usize, usize)], order: &[u32], ranked_by_id: bool) -> (Vocab, Merges) {
        let mut tokens: Vec<Vec<u8>> = vec![b"a".into(), b"b".into(), b"c".into()];
        let mut pairs: Vec<(usize, usize)> = Vec::new();
        for &(left, right) in choices {
            let (left, right) = (left % tokens.len(), right % tokens.len());
            let token = [&tokens[left][..], &tokens[right]].concat();
            if token.len() <= 24 {
                pairs.push((left, right));
                if !tokens.contains(&token) {
                    tokens.push(token);
                }
            }
        }
        let mut vocab = Vocab::with_capacity(tokens.len());
        for (id, token) in (0..).zip(&tokens) {
            vocab.insert(token, id).unwrap();
        }
        let mut merges = Vec::new();
        if ranked_by_id {
            for (id, token) in vocab.iter() {
                for cut in 1..token.len() {
                    let (left, right) = token.split_at(cut);
                    if let (Some(left), Some(right)) = (vocab.id(left), vocab.id(right)) {
                        merges.push((left, right, Merge { rank: id, id }));
                    }
                }
            }
        } else {
            let later = |place: usize| order.get(place).copied().unwrap_or(0);
            for (place, &(left, right)) in pairs.iter().enumerate() {
                let token = [&tokens[left][..], &tokens[right]].concat();
                // Some come before what stands in front of them in the list.
                let rank = 4 * place as u32 + 5 * later(place);
                let id = vocab.id(&token).unwrap();
                merges.push((left as u32, right as u32, Merge { rank, id }));
            }
        }
        (vocab, Merges::new(merges).unwrap())
    }

    fn greedily(greedy: &Greedy, vocab: &Vocab, text: &[u8]) -> Option<Vec<u32>> {
        let mut ids = vec![99];
        let mut dead_ends = DeadEnds::default();
        let done = greedy.encode(vocab, text, &mut ids, &mut dead_ends);
        assert_eq!(ids[0], 99);
        let found = done.then(|| ids[1..].to_vec());
        check_walks(greedy, vocab, text, found.as_deref());
        found
    }

    /// The beginnings of a text, all at once, are what each of them is alone.
    fn check_walks(greedy: &Greedy, vocab: &Vocab, text: &[u8], found: Option<&[u32]>) {
        let mut walks = Vec::new();
        for length in 1..=text.len().min(SHORT) {
            for (part, whole) in [
                (Part::Piece, false),
                (Part::Unit, false),
                (Part::Piece, true),
            ] {
                walks.push(Walk::new(short_key(&text[..length], part), whole));
            }
        }
        greedy.walk(&mut walks);
        for (length, three) in (1..).zip(walks.chunks(3)) {
            let start = &text[..length];
            let mut ids = Vec::new();
            let done = greedy.encode(vocab, start, &mut ids, &mut DeadEnds::default());
            let ids = done.then_some(&ids[..]);
            assert_eq!(three[0].ids(), ids);
            assert_eq!(three[1].ids(), ids);
            if let Some(token) = vocab.id(start) {
                assert!(greedy.is_exception(start) || three[2].ids() == Some(&[token]));
            } else {
                assert_eq!(three[2].ids(), ids);
            }
            if length == text.len() {
                assert_eq!(ids, found);
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(4000))]

        #[test]
        fn equals_merging(
            choices in proptest::collection::vec((0usize..30, 0usize..30), 0..24),
            order in proptest::collection::vec(0u32..3, 0..24),
            ranked_by_id: bool,
            texts in proptest::collection::vec("[abc]{0,40}|a{0,40}|(ab){0,20}", 1..8),
        ) {
            let (vocab, merges) = model(&choices, &order, ranked_by_id);
            if let Some(greedy) = Greedy::new(&vocab, &merges.in_order(), 0..3) {
                for text in texts {
                    let symbols: Vec<u32> = text.bytes().map(|byte| u32::from(byte - b'a')).collect();
                    let found = greedily(&greedy, &vocab, text.as_bytes());
                    if found.is_some() || greedy.exceptions.is_none() {
                        let merged = Some(merge_naive(&symbols, &merges));
                        prop_assert_eq!(found, merged, "{} {:?}", text, merges);
                    }
                }
            }
        }
    }

    #[test]
    fn what_comes_before_its_parts_is_an_exception_if_it_happens() {
        let (vocab, _) = model(&[(1, 2), (0, 3)], &[], false);
        let merge = |rank, id| Merge { rank, id };
        // b c becomes bc late, but then a bc is merged at once.
        let happens = Merges::new(vec![(1, 2, merge(9, 3)), (0, 3, merge(5, 4))]).unwrap();
        let greedy = Greedy::new(&vocab, &happens.in_order(), 0..3).unwrap();
        assert_eq!(greedily(&greedy, &vocab, b"cabcc"), None);
        assert_eq!(greedily(&greedy, &vocab, b"cabbc"), Some(vec![2, 0, 1, 3]));
        // Here a b is merged before that.
        let (vocab, _) = model(&[(1, 2), (0, 3), (0, 1), (5, 2)], &[], false);
        let list = vec![
            (1, 2, merge(9, 3)),
            (0, 3, merge(5, 4)),
            (0, 1, merge(1, 5)),
            (5, 2, merge(6, 4)),
        ];
        let never = Merges::new(list).unwrap();
        let greedy = Greedy::new(&vocab, &never.in_order(), 0..3).unwrap();
        assert_eq!(greedily(&greedy, &vocab, b"abcbc"), Some(vec![4, 3]));
    }

    #[test]
    fn what_is_no_token_is_left_to_others() {
        let (vocab, merges) = model(&[(0, 1)], &[], false);
        let greedy = Greedy::new(&vocab, &merges.in_order(), 0..3).unwrap();
        assert_eq!(greedily(&greedy, &vocab, b"abx"), None);
        assert_eq!(greedily(&greedy, &vocab, b""), Some(vec![]));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(600))]

        #[test]
        fn rows_of_one_byte_are_no_exception(
            choices in proptest::collection::vec((0usize..30, 0usize..30), 0..24),
            rows in proptest::collection::vec(("[abc]{0,3}", 0usize..150, 0usize..3), 1..4),
        ) {
            let (vocab, merges) = model(&choices, &[], true);
            if let Some(greedy) = Greedy::new(&vocab, &merges.in_order(), 0..3) {
                let row = |(before, count, byte): (String, usize, usize)| {
                    before + &["a", "b", "c"][byte].repeat(count)
                };
                let text: String = rows.into_iter().map(row).collect();
                let symbols: Vec<u32> = text.bytes().map(|byte| u32::from(byte - b'a')).collect();
                let found = greedily(&greedy, &vocab, text.as_bytes());
                if found.is_some() || greedy.exceptions.is_none() {
                    prop_assert_eq!(found, Some(merge_naive(&symbols, &merges)), "{}", text);
                }
            }
        }
    }

    #[test]
    fn long_tokens_are_found() {
        let doubled: Vec<(usize, usize)> = [(0, 0), (3, 3), (4, 4), (5, 5), (6, 3)].into();
        let (vocab, merges) = model(&doubled, &[], false);
        assert!(vocab.iter().any(|(_, token)| token.len() == 18));
        let greedy = Greedy::new(&vocab, &merges.in_order(), 0..3).unwrap();
        for length in 0..200 {
            let found = greedily(&greedy, &vocab, &vec![b'a'; length]);
            assert_eq!(found, Some(merge_naive(&vec![0; length], &merges)));
        }
    }
}
