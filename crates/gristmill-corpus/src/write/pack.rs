//! Best-fit packing: pieces, the longest first, each into the fullest sequence that still has room.
//!
//! Pieces wait until there are [`WINDOW`] ids of them and are packed together, so memory is bounded and
//! time linear: a window is sorted by length, and the sequence with the least sufficient room is found in
//! a set of bits. Sequences come out in the order of their earliest document.
//!
//! Invariant: no piece is cut, lost or doubled, none overflows. Tested against the quadratic definition.

/// Ids that wait before they are packed.
const WINDOW: usize = 4 << 20;

/// Pieces shorter than a sequence that wait for being packed.
pub(super) struct Packer {
    length: usize,
    ids: Vec<u32>,
    waiting: Vec<Waiting>,
}

/// A piece that waits.
#[derive(Clone, Copy)]
pub(super) struct Waiting {
    start: usize,
    length: usize,
    pub(super) document: u64,
}

/// Pieces in their sequences.
pub(super) struct Packed {
    ids: Vec<u32>,
    waiting: Vec<Waiting>,
    bins: Vec<Vec<usize>>,
}

impl Packed {
    /// The pieces of each sequence.
    pub(super) fn bins(&self) -> impl Iterator<Item = impl Iterator<Item = &Waiting>> {
        self.bins
            .iter()
            .map(|bin| bin.iter().map(|number| &self.waiting[*number]))
    }

    /// The ids of a piece.
    pub(super) fn ids(&self, piece: &Waiting) -> &[u32] {
        &self.ids[piece.start..piece.start + piece.length]
    }
}

impl Packer {
    pub(super) fn new(length: usize) -> Packer {
        Packer {
            length,
            ids: Vec::new(),
            waiting: Vec::new(),
        }
    }

    /// One more piece, shorter than a sequence.
    pub(super) fn add(&mut self, ids: &[u32], document: u64) {
        self.waiting.push(Waiting {
            start: self.ids.len(),
            length: ids.len(),
            document,
        });
        self.ids.extend_from_slice(ids);
    }

    /// Enough waits.
    pub(super) fn is_full(&self) -> bool {
        self.ids.len() >= WINDOW.max(16 * self.length) || self.waiting.len() >= WINDOW
    }

    /// Everything that waits, in sequences.
    pub(super) fn pack(&mut self) -> Packed {
        let waiting = std::mem::take(&mut self.waiting);
        let bins = bins(&waiting, self.length);
        Packed {
            ids: std::mem::take(&mut self.ids),
            waiting,
            bins,
        }
    }
}

/// Which pieces share a sequence.
fn bins(waiting: &[Waiting], length: usize) -> Vec<Vec<usize>> {
    let mut by_length: Vec<usize> = (0..waiting.len()).collect();
    // Stable, so that equals stay in the order of the documents.
    by_length.sort_by_key(|number| std::cmp::Reverse(waiting[*number].length));
    let mut bins: Vec<Vec<usize>> = Vec::new();
    let mut room = Room::new(length);
    for number in by_length {
        let size = waiting[number].length;
        let (bin, left) = match room.take(size) {
            Some((bin, had)) => (bin, had - size),
            None => {
                bins.push(Vec::new());
                (bins.len() - 1, length - size)
            }
        };
        bins[bin].push(number);
        room.give(bin, left);
    }
    for bin in &mut bins {
        // Documents in their order, also within a sequence.
        bin.sort_unstable();
    }
    bins.sort_unstable_by_key(|bin| bin.first().copied());
    bins
}

/// Sequences by how much room they have: for each amount a stack, and two levels of bits that tell which
/// stacks are not empty.
struct Room {
    stacks: Vec<Vec<usize>>,
    words: Vec<u64>,
    over: Vec<u64>,
}

impl Room {
    fn new(length: usize) -> Room {
        let words = length / 64 + 1;
        Room {
            stacks: vec![Vec::new(); length + 1],
            words: vec![0; words],
            over: vec![0; words / 64 + 1],
        }
    }

    fn give(&mut self, bin: usize, room: usize) {
        self.stacks[room].push(bin);
        self.words[room / 64] |= 1 << (room % 64);
        self.over[room / 4096] |= 1 << (room / 64 % 64);
    }

    /// The sequence with the least room that is enough, and how much it has.
    fn take(&mut self, size: usize) -> Option<(usize, usize)> {
        let room = self.first_from(size)?;
        let bin = self.stacks[room].pop()?;
        if self.stacks[room].is_empty() {
            self.words[room / 64] &= !(1 << (room % 64));
            if self.words[room / 64] == 0 {
                self.over[room / 4096] &= !(1 << (room / 64 % 64));
            }
        }
        Some((bin, room))
    }

    fn first_from(&self, size: usize) -> Option<usize> {
        let word = size / 64;
        let here = self.words[word] & (u64::MAX << (size % 64));
        if here != 0 {
            return Some(word * 64 + here.trailing_zeros() as usize);
        }
        let next = word + 1;
        let mut at = next / 64;
        let mut bits = self.over.get(at)? & (u64::MAX << (next % 64));
        while bits == 0 {
            at += 1;
            bits = *self.over.get(at)?;
        }
        let word = at * 64 + bits.trailing_zeros() as usize;
        Some(word * 64 + self.words[word].trailing_zeros() as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The definition: every sequence is looked at for every piece.
    fn naive(lengths: &[usize], length: usize) -> Vec<Vec<usize>> {
        let mut order: Vec<usize> = (0..lengths.len()).collect();
        order.sort_by_key(|number| std::cmp::Reverse(lengths[*number]));
        let mut bins: Vec<(usize, usize, Vec<usize>)> = Vec::new();
        for (step, number) in order.into_iter().enumerate() {
            let size = lengths[number];
            // The least room; of equals the one that came to it last.
            let best = bins
                .iter_mut()
                .filter(|bin| bin.0 >= size)
                .min_by_key(|bin| (bin.0, std::cmp::Reverse(bin.1)));
            match best {
                Some(bin) => {
                    bin.0 -= size;
                    bin.1 = step;
                    bin.2.push(number);
                }
                None => bins.push((length - size, step, vec![number])),
            }
        }
        let mut bins: Vec<Vec<usize>> = bins.into_iter().map(|bin| bin.2).collect();
        bins.iter_mut().for_each(|bin| bin.sort_unstable());
        bins.sort_unstable_by_key(|bin| bin[0]);
        bins
    }

    proptest! {
        #[test]
        fn best_fit_is_its_definition(
            length in prop_oneof![1usize..200, 4000usize..9000],
            shares in prop::collection::vec(0u32..1000, 0..200),
        ) {
            let lengths: Vec<usize> = shares.iter().map(|part| *part as usize * length / 1000).collect();
            let waiting: Vec<Waiting> = lengths
                .iter()
                .map(|length| Waiting { start: 0, length: *length, document: 0 })
                .collect();
            prop_assert_eq!(bins(&waiting, length), naive(&lengths, length));
        }
    }
}
