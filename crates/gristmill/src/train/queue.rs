//! Which pair is merged next: a heap of candidates, and the rule for equally frequent ones.
//!
//! A candidate may have become less frequent, or rarer at its first place, since it was put in; never
//! better. So the best one is found by taking the top, bringing it up to date, and putting it back if
//! it changed. Tested here against sorting, and against the reference trainers.

use super::pairs::sides;
use super::symbols::Symbols;

/// Which of equally frequent pairs comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ties {
    /// The one of lowest ids, left before right.
    Ids,
    /// The one that the texts have first.
    First,
    /// The one of greatest bytes, left before right.
    Greatest,
    /// The one that makes the shortest, then smallest string.
    Shortest,
}

/// A pair that may be next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Candidate {
    pub(super) count: u64,
    /// Of equal counts the lowest is first.
    pub(super) tie: u64,
    pub(super) pair: u64,
}

impl Ties {
    /// The tie of a pair; `first` is where the texts have it first.
    pub(super) fn of(self, pair: u64, symbols: &Symbols, first: impl FnOnce() -> u64) -> u64 {
        let (left, right) = sides(pair);
        match self {
            Ties::Ids => pair,
            Ties::First => first(),
            Ties::Greatest => !prefix(symbols.bytes(left).iter(), 8),
            Ties::Shortest => {
                let size = u64::from(symbols.size(left) + symbols.size(right)).min(0xFFFF);
                let bytes = symbols.bytes(left).iter().chain(symbols.bytes(right));
                size << 48 | prefix(bytes, 6)
            }
        }
    }

    /// Whether `a` comes before `b`.
    fn before(self, a: &Candidate, b: &Candidate, symbols: &Symbols) -> bool {
        if a.count != b.count {
            return a.count > b.count;
        }
        if a.tie != b.tie {
            return a.tie < b.tie;
        }
        let ((a, b), (c, d)) = (sides(a.pair), sides(b.pair));
        let bytes = |id| symbols.bytes(id);
        match self {
            Ties::Ids | Ties::First => false,
            Ties::Greatest => (bytes(a), bytes(b)) > (bytes(c), bytes(d)),
            Ties::Shortest => {
                let one = bytes(a).iter().chain(bytes(b));
                one.lt(bytes(c).iter().chain(bytes(d)))
            }
        }
    }
}

/// The first bytes as a number that orders as they do.
fn prefix<'a>(bytes: impl Iterator<Item = &'a u8>, length: usize) -> u64 {
    let mut prefix = 0;
    let mut taken = 0;
    for byte in bytes.take(length) {
        prefix = prefix << 8 | u64::from(*byte);
        taken += 1;
    }
    prefix << (8 * (length - taken))
}

/// A heap of candidates, each with up to four below it.
pub(super) struct Queue {
    ties: Ties,
    heap: Vec<Candidate>,
}

const WAYS: usize = 4;

impl Queue {
    pub(super) fn new(ties: Ties) -> Queue {
        Queue {
            ties,
            heap: Vec::new(),
        }
    }

    pub(super) fn ties(&self) -> Ties {
        self.ties
    }

    pub(super) fn push(&mut self, candidate: Candidate, symbols: &Symbols) {
        self.heap.push(candidate);
        let mut at = self.heap.len() - 1;
        while at > 0 {
            let above = (at - 1) / WAYS;
            if !self.ties.before(&candidate, &self.heap[above], symbols) {
                break;
            }
            self.heap[at] = self.heap[above];
            at = above;
        }
        self.heap[at] = candidate;
    }

    pub(super) fn pop(&mut self, symbols: &Symbols) -> Option<Candidate> {
        let last = self.heap.pop()?;
        let Some(&top) = self.heap.first() else {
            return Some(last);
        };
        let mut at = 0;
        loop {
            let below = at * WAYS + 1;
            let end = (below + WAYS).min(self.heap.len());
            let Some(mut best) = (below < end).then_some(below) else {
                break;
            };
            for other in below + 1..end {
                if self
                    .ties
                    .before(&self.heap[other], &self.heap[best], symbols)
                {
                    best = other;
                }
            }
            if !self.ties.before(&self.heap[best], &last, symbols) {
                break;
            }
            self.heap[at] = self.heap[best];
            at = best;
        }
        self.heap[at] = last;
        Some(top)
    }
}
