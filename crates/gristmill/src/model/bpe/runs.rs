//! The beginning of merging a long piece in which few pairs occur over and over: a run of one
//! character, a line drawn with dashes, padding.
//!
//! As long as one pair of lowest rank makes up a good part of the piece, all its places are merged in
//! one walk from left to right, which is the order the rule asks for. A new pair that would have to
//! come first (of lower rank, or of the same rank further left) ends the walk at once, and what is
//! left is for the heap, from whatever state it is in. Each walk makes the piece shorter by a
//! sixteenth or more, so all walks together take time proportional to the piece. Tested with `merge`.

use super::pairs::{Merges, NEVER};

/// A walk is worth it if this many times its pairs is the piece.
const WORTH_WALKING: usize = 8;

/// Merge while walks are worth it; returns how many symbols are left, at the front. `starts` has an
/// entry for each symbol and keeps those of the symbols left.
pub(crate) fn merge_runs(
    symbols: &mut [u32],
    merges: &Merges,
    mut starts: Option<&mut Vec<u32>>,
) -> usize {
    let mut count = symbols.len();
    loop {
        let (rank, places) = lowest(&symbols[..count], merges);
        if rank == NEVER || places * WORTH_WALKING < count {
            break;
        }
        let (left, finished) = walk(&mut symbols[..count], merges, rank, starts.as_deref_mut());
        count = left;
        if !finished {
            break;
        }
    }
    if let Some(starts) = starts {
        starts.truncate(count);
    }
    count
}

/// The lowest rank of all pairs, and how many pairs have it.
fn lowest(symbols: &[u32], merges: &Merges) -> (u32, usize) {
    let mut lowest = NEVER;
    let mut places = 0;
    for both in symbols.windows(2) {
        let rank = merges.rank(both[0], both[1]);
        if rank < lowest {
            lowest = rank;
            places = 0;
        }
        places += usize::from(rank == lowest);
    }
    (lowest, places)
}

/// Merge every pair of this rank, which is the lowest, from left to right. Returns how many symbols
/// are left, and whether the walk came to the end.
fn walk(
    symbols: &mut [u32],
    merges: &Merges,
    rank: u32,
    mut starts: Option<&mut Vec<u32>>,
) -> (usize, bool) {
    let mut kept = 0;
    let mut next = 1;
    let mut finished = true;
    while next < symbols.len() {
        let (current, other) = (symbols[kept], symbols[next]);
        let found = merges.rank(current, other);
        if finished
            && found == rank
            && let Some(merge) = merges.get(current, other)
        {
            symbols[kept] = merge.id;
            next += 1;
            let before = kept.checked_sub(1).map(|before| symbols[before]);
            let left = before.map_or(NEVER, |before| merges.rank(before, merge.id));
            let right = symbols
                .get(next)
                .map_or(NEVER, |&other| merges.rank(merge.id, other));
            // What merges here at once, or further left, comes before the rest of the walk.
            finished = left > rank && right >= rank;
            continue;
        }
        kept += 1;
        symbols[kept] = other;
        if let Some(starts) = starts.as_deref_mut() {
            starts[kept] = starts[next];
        }
        next += 1;
    }
    (kept + 1, finished)
}
