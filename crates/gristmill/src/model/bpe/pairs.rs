//! Which pairs of symbols merge, how early, and into what.
//!
//! Merging asks for the rank of a pair far more often than for the symbol it becomes, so the two lie
//! apart: a table of 8 bytes a slot holds pair and rank, a second, read once for each merge done,
//! holds the symbols. Pairs of low symbols, which bytes usually are and with which every piece
//! begins, have a grid of their own. Immutable once built. Tested below against a plain map.
//!
//! Most pieces are encoded without merging (`greedy.rs`), and then the tables are never looked at: a
//! [`MergeList`] makes them when they are first needed.

use std::sync::OnceLock;

use rustc_hash::FxHashSet;

use crate::error::{Error, Result};
use crate::vocab::Vocab;

/// What a pair of adjacent symbols becomes, and how early.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Merge {
    /// Lower merges first.
    pub(crate) rank: u32,
    /// The symbol that takes the pair's place.
    pub(crate) id: u32,
}

/// The rank of a pair that does not merge.
pub(crate) const NEVER: u32 = u32::MAX;

/// Symbols have this many bits, so that a pair of them and a rank fit 64.
const SYMBOL_BITS: u32 = 21;
const RANK_BITS: u32 = 64 - 2 * SYMBOL_BITS;
const RANKS: u64 = 1 << RANK_BITS;

/// No slot of the table holds this: its rank is kept out.
const EMPTY: u64 = u64::MAX;

/// Pairs of symbols below this are in the grid.
const GRID: u32 = 512;

/// Two symbols and what they become.
pub(crate) type Pair = (u32, u32, Merge);

/// Pairs in the order of their ranks, and the table of them once it is needed.
pub(crate) struct MergeList {
    pairs: Origin,
    table: OnceLock<Merges>,
}

/// Where the pairs of a [`MergeList`] are.
pub(super) enum Origin {
    /// Here; of a pair that is given twice, the later one counts.
    Listed(Vec<Pair>),
    /// In the table, which is there.
    Table,
    /// In the vocabulary: two tokens merge if their bytes together are a token, whose id is the
    /// merge's rank.
    Vocab,
}

impl MergeList {
    /// Pairs in the order of their ranks. Fails if symbols or ranks are too many.
    pub(crate) fn new(pairs: Vec<Pair>) -> Result<MergeList> {
        check(&pairs)?;
        Ok(MergeList {
            pairs: Origin::Listed(pairs),
            table: OnceLock::new(),
        })
    }

    /// The pairs that a vocabulary of ranks implies. Its ids are below a bound that pairs can hold.
    pub(crate) fn of_ranks() -> MergeList {
        MergeList {
            pairs: Origin::Vocab,
            table: OnceLock::new(),
        }
    }

    /// The table of all pairs. `vocab` is that of the model, always.
    pub(crate) fn table(&self, vocab: &Vocab) -> &Merges {
        self.table.get_or_init(|| match &self.pairs {
            Origin::Listed(pairs) => Merges::build(pairs),
            Origin::Table => Merges::build(&[]),
            Origin::Vocab => Merges::build(&pairs_of_ranks(vocab)),
        })
    }

    /// Whether one of these symbols is a part of any pair.
    pub(super) fn has_parts(&self, symbols: &[u32]) -> bool {
        let symbols: FxHashSet<u32> = symbols.iter().copied().collect();
        let has = |left: u32, right: u32| symbols.contains(&left) || symbols.contains(&right);
        match (&self.pairs, self.table.get()) {
            (Origin::Listed(pairs), _) => pairs.iter().any(|pair| has(pair.0, pair.1)),
            (Origin::Table, Some(table)) => table.iter().any(|pair| has(pair.0, pair.1)),
            // A vocabulary of ranks has the pairs of its bytes.
            (Origin::Table, None) | (Origin::Vocab, _) => true,
        }
    }

    pub(super) fn origin(&self) -> &Origin {
        &self.pairs
    }
}

impl From<Merges> for MergeList {
    fn from(table: Merges) -> MergeList {
        MergeList {
            pairs: Origin::Table,
            table: table.into(),
        }
    }
}

/// Every way to cut a token into two tokens, in the order of their ranks.
pub(super) fn pairs_of_ranks(vocab: &Vocab) -> Vec<Pair> {
    let mut pairs = Vec::with_capacity(vocab.len() * 3);
    for (id, token) in vocab.iter() {
        for cut in 1..token.len() {
            if let Some(left) = vocab.id(&token[..cut])
                && let Some(right) = vocab.id(&token[cut..])
            {
                pairs.push((left, right, Merge { rank: id, id }));
            }
        }
    }
    pairs
}

/// Fails if symbols or ranks are too many for the table.
fn check(pairs: &[Pair]) -> Result<()> {
    let fits = |&(left, right, merge): &Pair| {
        left.max(right).max(merge.id) >> SYMBOL_BITS == 0 && u64::from(merge.rank) < RANKS - 1
    };
    if pairs.iter().all(fits) {
        return Ok(());
    }
    Err(Error::unsupported(format!(
        "more than {} tokens or {} merges",
        1 << SYMBOL_BITS,
        RANKS - 1
    )))
}

/// All pairs that merge.
pub(crate) struct Merges {
    /// Pair and rank, hashed by pair, looked for from there on.
    slots: Box<[u64]>,
    /// The symbol of each slot's pair.
    ids: Box<[u32]>,
    /// 64 less the number of bits of a slot's number.
    shift: u32,
    /// The ranks of all pairs of symbols below [`GRID`].
    grid: Box<[u32]>,
    count: usize,
}

impl std::fmt::Debug for Merges {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_list().entries(self.in_order()).finish()
    }
}

impl Merges {
    /// A table of these pairs: left, right, and what they become. A pair given twice keeps the later
    /// merge, as in `tokenizers`. Fails if symbols or ranks are too many.
    pub(crate) fn new(pairs: Vec<Pair>) -> Result<Merges> {
        check(&pairs)?;
        Ok(Merges::build(&pairs))
    }

    /// A table of pairs that fit it.
    pub(super) fn build(pairs: &[Pair]) -> Merges {
        let slots = (pairs.len() * 2).next_power_of_two().max(2);
        let mut merges = Merges {
            slots: vec![EMPTY; slots].into_boxed_slice(),
            ids: vec![0; slots].into_boxed_slice(),
            shift: 64 - slots.trailing_zeros(),
            grid: vec![NEVER; (GRID * GRID) as usize].into_boxed_slice(),
            count: 0,
        };
        for &(left, right, merge) in pairs {
            merges.insert(left, right, merge);
        }
        merges
    }

    fn insert(&mut self, left: u32, right: u32, merge: Merge) {
        let slot = self.slot(left, right);
        if self.slots[slot] == EMPTY {
            self.count += 1;
        }
        self.slots[slot] = pair(left, right) << RANK_BITS | u64::from(merge.rank);
        self.ids[slot] = merge.id;
        if left < GRID && right < GRID {
            self.grid[(left * GRID + right) as usize] = merge.rank;
        }
    }

    /// The rank of a pair, [`NEVER`] if it does not merge.
    #[inline]
    pub(crate) fn rank(&self, left: u32, right: u32) -> u32 {
        if left < GRID && right < GRID {
            return self.grid[(left * GRID + right) as usize];
        }
        match self.slots[self.slot(left, right)] {
            EMPTY => NEVER,
            slot => (slot & (RANKS - 1)) as u32,
        }
    }

    /// What a pair merges into.
    pub(crate) fn get(&self, left: u32, right: u32) -> Option<Merge> {
        let slot = self.slot(left, right);
        match self.slots[slot] {
            EMPTY => None,
            found => Some(Merge {
                rank: (found & (RANKS - 1)) as u32,
                id: self.ids[slot],
            }),
        }
    }

    /// The slot that holds a pair, or the empty one where it would be. At most half of the slots are
    /// taken, so there is one.
    #[inline]
    fn slot(&self, left: u32, right: u32) -> usize {
        let pair = pair(left, right);
        let last = self.slots.len() - 1;
        let mut slot = (pair.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> self.shift) as usize;
        while self.slots[slot] != EMPTY && self.slots[slot] >> RANK_BITS != pair {
            slot = (slot + 1) & last;
        }
        slot
    }

    /// The number of pairs.
    pub(crate) fn len(&self) -> usize {
        self.count
    }

    /// All pairs, in no order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = Pair> {
        let symbol = |bits: u64| (bits & ((1 << SYMBOL_BITS) - 1)) as u32;
        let taken = self.slots.iter().zip(&self.ids);
        let taken = taken.filter(|&(&slot, _)| slot != EMPTY);
        taken.map(move |(&slot, &id)| {
            let rank = (slot & (RANKS - 1)) as u32;
            let pair = slot >> RANK_BITS;
            (
                symbol(pair >> SYMBOL_BITS),
                symbol(pair),
                Merge { rank, id },
            )
        })
    }

    /// All pairs, lowest rank first.
    pub(crate) fn in_order(&self) -> Vec<Pair> {
        // Ranks are numbers without large gaps: so many of each, and then each to its place.
        let ranks = self.iter().map(|(_, _, merge)| merge.rank as usize + 1);
        let mut ends = vec![0; ranks.max().unwrap_or(0)];
        for (_, _, merge) in self.iter() {
            ends[merge.rank as usize] += 1;
        }
        let mut end = 0;
        for count in &mut ends {
            end += *count;
            *count = end;
        }
        let mut all = vec![(0, 0, Merge { rank: 0, id: 0 }); self.count];
        for (left, right, merge) in self.iter() {
            let place = &mut ends[merge.rank as usize];
            *place -= 1;
            all[*place] = (left, right, merge);
        }
        all
    }
}

/// A pair as a number. Symbols that no table holds give one that no table holds either.
#[inline]
fn pair(left: u32, right: u32) -> u64 {
    u64::from(left) << SYMBOL_BITS | u64::from(right)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashMap;

    proptest! {
        #[test]
        fn equals_a_plain_map(
            list in proptest::collection::vec((500u32..530, 500u32..530, 0u32..50, 0u32..9), 0..200),
        ) {
            let pairs: Vec<_> = list
                .into_iter()
                .map(|(left, right, rank, id)| (left, right, Merge { rank, id }))
                .collect();
            // Later pairs of a list win.
            let expected: HashMap<(u32, u32), Merge> = pairs
                .iter()
                .map(|&(left, right, merge)| ((left, right), merge))
                .collect();
            let merges = Merges::new(pairs).unwrap();
            prop_assert_eq!(merges.len(), expected.len());
            prop_assert_eq!(merges.in_order().len(), expected.len());
            for left in 495..535 {
                for right in 495..535 {
                    let merge = expected.get(&(left, right)).copied();
                    prop_assert_eq!(merges.get(left, right), merge);
                    prop_assert_eq!(merges.rank(left, right), merge.map_or(NEVER, |merge| merge.rank));
                }
            }
        }
    }

    #[test]
    fn too_many_are_refused() {
        let merge = Merge { rank: 0, id: 0 };
        assert!(Merges::new(vec![(1 << 21, 0, merge)]).is_err());
        assert!(
            Merges::new(vec![(
                0,
                0,
                Merge {
                    rank: 1 << 22,
                    id: 0
                }
            )])
            .is_err()
        );
        assert!(Merges::new(vec![((1 << 21) - 1, (1 << 21) - 1, merge)]).is_ok());
    }
}
