//! Byte-pair merging of one piece: the symbols it starts from become the tokens it ends as.
//!
//! The rule, the same for every format: while some adjacent pair of symbols can merge, merge the one
//! of lowest rank, and of several of that rank the leftmost. [`merge_naive`] is that sentence and
//! nothing else; the tests hold the two fast forms to it.
//!
//! - A short piece is scanned for its lowest rank again after each merge: quadratic, but in a few
//!   cache lines.
//! - A long piece in which the same pairs occur over and over is walked through while that helps
//!   (`runs.rs`). What is left keeps its possible merges in a heap. Symbols stay where they are: a merged symbol
//!   lives on in the slot of its left part, the slots it swallowed are dead, and `links` walks over
//!   them. An entry of the heap whose pair has changed since is recognised by its rank and dropped.
//!   Time is O(n log n) whatever the piece, memory 18 bytes a symbol: the heap is swept of dropped
//!   entries before it may grow.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::pairs::{Merges, NEVER};
use super::runs::merge_runs;

/// Buffers of the long form, kept from piece to piece.
#[derive(Default)]
pub(crate) struct Scratch {
    links: Vec<u32>,
    heap: BinaryHeap<Reverse<u64>>,
}

impl Scratch {
    /// Give back what a very long piece took.
    pub(crate) fn shrink(&mut self) {
        const KEPT: usize = 1 << 14;
        self.links.clear();
        self.links.shrink_to(KEPT);
        self.heap.clear();
        self.heap.shrink_to(KEPT);
    }
}

/// Up to this many symbols the quadratic form is faster.
const SHORT: usize = 24;

/// Merge `symbols` in place and return how many are left, at the front.
///
/// `starts`, if wanted, is empty and receives for each symbol left the index of the first symbol it was made of.
/// The caller keeps `symbols` below `u32::MAX` long.
pub(crate) fn merge(
    symbols: &mut [u32],
    merges: &Merges,
    scratch: &mut Scratch,
    starts: Option<&mut Vec<u32>>,
) -> usize {
    if symbols.len() <= SHORT {
        merge_short(symbols, merges, starts)
    } else {
        merge_long(symbols, merges, scratch, starts)
    }
}

fn merge_short(symbols: &mut [u32], merges: &Merges, starts: Option<&mut Vec<u32>>) -> usize {
    let mut count = symbols.len();
    let mut first = [0u32; SHORT];
    for (index, slot) in first.iter_mut().enumerate() {
        *slot = index as u32;
    }
    // `ranks[i]` is that of symbols i and i + 1; the last symbol's stays at NEVER.
    let mut ranks = [NEVER; SHORT];
    for (rank, both) in ranks.iter_mut().zip(symbols.windows(2)) {
        *rank = merges.rank(both[0], both[1]);
    }
    while let Some((best, id)) = lowest(&ranks[..count], symbols, merges) {
        symbols[best] = id;
        symbols.copy_within(best + 2..count, best + 1);
        first.copy_within(best + 2..count, best + 1);
        ranks.copy_within(best + 1..count, best);
        count -= 1;
        if best > 0 {
            ranks[best - 1] = merges.rank(symbols[best - 1], id);
        }
        ranks[best] = if best + 1 < count {
            merges.rank(id, symbols[best + 1])
        } else {
            NEVER
        };
    }
    if let Some(starts) = starts {
        starts.extend_from_slice(&first[..count]);
    }
    count
}

/// The leftmost pair of lowest rank, and the symbol it becomes.
fn lowest(ranks: &[u32], symbols: &[u32], merges: &Merges) -> Option<(usize, u32)> {
    let rank = ranks.iter().copied().min().filter(|&rank| rank != NEVER)?;
    let best = ranks.iter().position(|&other| other == rank)?;
    Some((best, merges.get(symbols[best], symbols[best + 1])?.id))
}

/// Marks a slot whose symbol was merged into one further left.
const DEAD: u32 = u32::MAX;

fn merge_long(
    symbols: &mut [u32],
    merges: &Merges,
    scratch: &mut Scratch,
    mut starts: Option<&mut Vec<u32>>,
) -> usize {
    if let Some(starts) = starts.as_deref_mut() {
        starts.clear();
        starts.extend(0..symbols.len() as u32);
    }
    let count = merge_runs(symbols, merges, starts.as_deref_mut());
    let mut work = Work {
        symbols: &mut symbols[..count],
        merges,
        links: &mut scratch.links,
        heap: &mut scratch.heap,
    };
    work.fill();
    while let Some(Reverse(entry)) = work.heap.pop() {
        let (rank, at) = ((entry >> 32) as u32, entry as u32 as usize);
        if work.rank_at(at) == rank {
            work.apply(at);
        }
    }
    work.compact(starts)
}

/// A long piece being merged.
struct Work<'a> {
    symbols: &'a mut [u32],
    merges: &'a Merges,
    /// For a living slot, the slot after its symbol. For the last slot of a symbol that holds
    /// several, where that symbol lives: the way back.
    links: &'a mut Vec<u32>,
    /// Possible merges as rank and slot: lowest rank first, then leftmost.
    heap: &'a mut BinaryHeap<Reverse<u64>>,
}

impl Work<'_> {
    fn fill(&mut self) {
        let count = self.symbols.len();
        self.links.clear();
        self.links.extend(1..=count as u32);
        let mut entries = std::mem::take(self.heap).into_vec();
        entries.clear();
        entries.reserve_exact(count + count / 4);
        for (at, both) in self.symbols.windows(2).enumerate() {
            let rank = self.merges.rank(both[0], both[1]);
            if rank != NEVER {
                entries.push(entry(rank, at));
            }
        }
        *self.heap = BinaryHeap::from(entries);
    }

    /// The rank of the symbol living at `at` with the one after it.
    fn rank_at(&self, at: usize) -> u32 {
        let left = self.symbols[at];
        if left == DEAD {
            return NEVER;
        }
        match self.symbols.get(self.links[at] as usize) {
            Some(&right) => self.merges.rank(left, right),
            None => NEVER,
        }
    }

    /// Let the symbol at `at` swallow the one after it.
    fn apply(&mut self, at: usize) {
        let right = self.links[at] as usize;
        let Some(merge) = self.merges.get(self.symbols[at], self.symbols[right]) else {
            return;
        };
        let end = self.links[right];
        self.symbols[at] = merge.id;
        self.symbols[right] = DEAD;
        self.links[at] = end;
        self.links[end as usize - 1] = at as u32;
        self.offer(at);
        if at > 0 {
            let before = at - 1;
            let left = if self.symbols[before] == DEAD {
                self.links[before] as usize
            } else {
                before
            };
            self.offer(left);
        }
    }

    fn offer(&mut self, at: usize) {
        let rank = self.rank_at(at);
        if rank == NEVER {
            return;
        }
        if self.heap.len() == self.heap.capacity() {
            self.sweep();
        }
        self.heap.push(entry(rank, at));
    }

    /// Drop the entries whose pair is gone. At most one entry a living symbol remains, so a full
    /// heap loses a fifth or more and the cost is spread over the merges since the last sweep.
    fn sweep(&mut self) {
        let mut entries = std::mem::take(self.heap).into_vec();
        entries
            .retain(|&Reverse(entry)| self.rank_at(entry as u32 as usize) == (entry >> 32) as u32);
        entries.sort_unstable();
        entries.dedup();
        *self.heap = BinaryHeap::from(entries);
    }

    /// Move the living symbols to the front.
    fn compact(self, starts: Option<&mut Vec<u32>>) -> usize {
        let mut count = 0;
        let mut at = 0;
        let mut kept = starts;
        while at < self.symbols.len() {
            if let Some(starts) = kept.as_deref_mut() {
                starts[count] = starts[at];
            }
            self.symbols[count] = self.symbols[at];
            count += 1;
            at = self.links[at] as usize;
        }
        if let Some(starts) = kept {
            starts.truncate(count);
        }
        count
    }
}

fn entry(rank: u32, at: usize) -> Reverse<u64> {
    Reverse(u64::from(rank) << 32 | at as u64)
}

/// The definition, slowly: what the other forms must equal.
#[cfg(test)]
pub(crate) fn merge_naive(symbols: &[u32], merges: &Merges) -> Vec<u32> {
    let mut symbols = symbols.to_vec();
    loop {
        let best = symbols
            .windows(2)
            .enumerate()
            .filter_map(|(at, both)| Some((merges.get(both[0], both[1])?, at)))
            .min_by_key(|&(merge, at)| (merge.rank, at));
        let Some((merge, at)) = best else {
            return symbols;
        };
        symbols.splice(at..at + 2, [merge.id]);
    }
}

#[cfg(test)]
mod tests {
    use super::super::pairs::Merge;
    use super::*;
    use proptest::prelude::*;

    /// Merges over a tiny alphabet, in any order of ranks: new symbols may merge before old ones.
    fn any_merges() -> impl Strategy<Value = Merges> {
        proptest::collection::vec((0u32..12, 0u32..12, 0u32..40, 0u32..12), 0..60).prop_map(
            |list| {
                let pairs = list
                    .into_iter()
                    .map(|(left, right, rank, id)| (left, right, Merge { rank, id }));
                Merges::new(pairs.collect()).unwrap()
            },
        )
    }

    fn starts_are_true(symbols: &[u32], starts: &[u32], count: usize) {
        assert_eq!(starts.len(), count);
        assert!(starts.is_sorted_by(|a, b| a < b));
        assert!(starts.first().is_none_or(|&first| first == 0));
        assert!(starts.iter().all(|&at| (at as usize) < symbols.len()));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]

        #[test]
        fn both_forms_equal_the_definition(
            merges in any_merges(),
            symbols in proptest::collection::vec(0u32..6, 0..120),
        ) {
            let expected = merge_naive(&symbols, &merges);
            let mut scratch = Scratch::default();

            let mut long = symbols.clone();
            let mut starts = Vec::new();
            let count = merge_long(&mut long, &merges, &mut scratch, Some(&mut starts));
            prop_assert_eq!(&long[..count], &expected[..]);
            starts_are_true(&symbols, &starts, count);

            if symbols.len() <= SHORT {
                let mut short = symbols.clone();
                let mut short_starts = Vec::new();
                let count = merge_short(&mut short, &merges, Some(&mut short_starts));
                prop_assert_eq!(&short[..count], &expected[..]);
                prop_assert_eq!(short_starts, starts);
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(4000))]

        #[test]
        fn runs_equal_the_definition(
            merges in any_merges(),
            runs in proptest::collection::vec((0u32..4, 1usize..40), 0..8),
        ) {
            let run = |(symbol, length)| std::iter::repeat_n(symbol, length);
            let symbols: Vec<u32> = runs.into_iter().flat_map(run).collect();
            let expected = merge_naive(&symbols, &merges);
            let mut long = symbols.clone();
            let mut starts = Vec::new();
            let count = merge_long(&mut long, &merges, &mut Scratch::default(), Some(&mut starts));
            prop_assert_eq!(&long[..count], &expected[..]);
            starts_are_true(&symbols, &starts, count);
        }
    }

    #[test]
    fn long_runs_of_one_symbol_take_linear_memory() {
        let pairs = (0..8).map(|id| {
            (
                id,
                id,
                Merge {
                    rank: id,
                    id: id + 1,
                },
            )
        });
        let merges = Merges::new(pairs.collect()).unwrap();
        let mut symbols = vec![0; 100_003];
        let mut scratch = Scratch::default();
        let count = merge_long(&mut symbols, &merges, &mut scratch, None);
        assert_eq!(count, 100_003 / 256 + 4);
        assert!(scratch.heap.capacity() <= 125_010);
    }
}
