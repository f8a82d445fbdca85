//! Pairs of symbols: how often each is there, and where.
//!
//! Open addressing over pairs packed into a number. A pair whose count is 0 is forgotten when the
//! table grows. The places of a pair lie in one list of all places; they ascend, and some of them may
//! be places where the pair no longer is. Tested through the merging.

/// Odd, and without a pattern in its bits.
const MIX: u64 = 0x9E37_79B9_7F4A_7C15;
const NONE: u64 = u64::MAX;

/// A pair and what is known of it.
#[derive(Clone, Copy)]
pub(super) struct Pair {
    /// The left symbol above the right one.
    pub(super) key: u64,
    pub(super) count: u64,
    /// The list of its places.
    pub(super) from: u32,
    pub(super) places: u32,
}

const EMPTY: Pair = Pair {
    key: NONE,
    count: 0,
    from: 0,
    places: 0,
};

/// A pair as a number.
pub(super) fn key(left: u32, right: u32) -> u64 {
    u64::from(left) << 32 | u64::from(right)
}

/// The symbols of a pair.
pub(super) fn sides(key: u64) -> (u32, u32) {
    ((key >> 32) as u32, key as u32)
}

/// All pairs.
pub(super) struct Pairs {
    slots: Vec<Pair>,
    len: usize,
}

impl Pairs {
    pub(super) fn new() -> Pairs {
        Pairs {
            slots: vec![EMPTY; 1 << 10],
            len: 0,
        }
    }

    fn slot(&self, key: u64) -> usize {
        let mask = self.slots.len() - 1;
        let product = u128::from(key ^ MIX) * u128::from(MIX);
        let mut at = (product as u64 ^ (product >> 64) as u64) as usize & mask;
        while self.slots[at].key != key && self.slots[at].key != NONE {
            at = (at + 1) & mask;
        }
        at
    }

    /// The pair, if it is known.
    pub(super) fn get(&mut self, key: u64) -> Option<&mut Pair> {
        let at = self.slot(key);
        let pair = &mut self.slots[at];
        (pair.key == key).then_some(pair)
    }

    /// The pair; a new one has no count and no places.
    pub(super) fn entry(&mut self, key: u64) -> &mut Pair {
        if (self.len + 1) * 3 > self.slots.len() * 2 {
            self.grow();
        }
        let at = self.slot(key);
        if self.slots[at].key == NONE {
            self.slots[at].key = key;
            self.len += 1;
        }
        &mut self.slots[at]
    }

    fn grow(&mut self) {
        let alive = self.iter().count();
        let size = (alive * 3).next_power_of_two().max(1 << 10);
        let old = std::mem::replace(&mut self.slots, vec![EMPTY; size]);
        self.len = alive;
        for pair in old {
            if pair.key != NONE && pair.count > 0 {
                let at = self.slot(pair.key);
                self.slots[at] = pair;
            }
        }
    }

    /// The pairs that are there.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Pair> {
        self.slots
            .iter()
            .filter(|pair| pair.key != NONE && pair.count > 0)
    }

    /// The number of pairs known.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Let `keep` shorten the list of each pair, in the order of the lists.
    pub(super) fn relist(&mut self, mut keep: impl FnMut(&mut Pair)) {
        let mut order: Vec<u32> = (0..self.slots.len() as u32)
            .filter(|&at| self.slots[at as usize].places > 0)
            .collect();
        order.sort_unstable_by_key(|&at| self.slots[at as usize].from);
        for at in order {
            keep(&mut self.slots[at as usize]);
        }
    }
}
