//! Pairs of symbols: how often each is there, and where.
//!
//! Open addressing over pairs packed into a number. A pair whose count is 0 is forgotten when the
//! table grows. The places of a pair lie in one list of all places; they ascend, and some of them may
//! be places where the pair no longer is. Tested through the merging.

/// Odd, and without a pattern in its bits.
const MIX: u64 = 0x9E37_79B9_7F4A_7C15;
const NONE: u64 = u64::MAX;
/// So many pairs are looked for together.
const AT_ONCE: usize = 64;
/// Not where it would be if nothing were in its way.
const MISS: u32 = u32::MAX;

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

/// A number without a pattern.
#[inline]
pub(super) fn hash(key: u64) -> u64 {
    let product = u128::from(key ^ MIX) * u128::from(MIX);
    product as u64 ^ (product >> 64) as u64
}

/// The slots for so many pairs: at most two thirds are taken.
fn slots_for(pairs: usize) -> usize {
    (pairs + pairs / 2 + 1).next_power_of_two().max(FEWEST)
}

/// The bytes of a table for so many pairs.
pub(super) fn bytes_of(pairs: usize) -> usize {
    slots_for(pairs) * size_of::<Pair>()
}

/// The pairs that tables of so many bytes have room for.
pub(super) fn pairs_in(bytes: usize) -> usize {
    let slots = (bytes / size_of::<Pair>()).max(FEWEST);
    // The largest power of two.
    (1 << slots.ilog2()) / 3 * 2
}

/// All pairs that are kept.
pub(super) struct Pairs {
    slots: Vec<Pair>,
    len: usize,
}

/// The fewest slots of a table.
const FEWEST: usize = 1 << 10;

impl Pairs {
    pub(super) fn new() -> Pairs {
        Pairs {
            slots: vec![EMPTY; FEWEST],
            len: 0,
        }
    }

    fn slot(&self, key: u64) -> usize {
        let mask = self.slots.len() - 1;
        let mut at = hash(key) as usize & mask;
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
        if self.spare() == 0 {
            self.keep(1, self.len, |_| true);
        }
        let at = self.slot(key);
        if self.slots[at].key == NONE {
            self.slots[at].key = key;
            self.len += 1;
        }
        &mut self.slots[at]
    }

    /// Give `found` the number of each key and its pair; what is not known is left out.
    pub(super) fn get_each(&mut self, keys: &[u64], mut found: impl FnMut(usize, &mut Pair)) {
        self.each(keys, |pairs, number, at| {
            if at != MISS {
                found(number, &mut pairs.slots[at as usize]);
            } else if let Some(pair) = pairs.get(keys[number]) {
                found(number, pair);
            }
        });
    }

    /// Give `found` the number of each key and its pair; a new one has no count and no places.
    pub(super) fn entry_each(&mut self, keys: &[u64], mut found: impl FnMut(usize, &mut Pair)) {
        if self.spare() < keys.len() {
            self.keep(1, self.len.max(keys.len()), |_| true);
        }
        self.each(keys, |pairs, number, at| {
            let pair = match at {
                MISS => pairs.entry(keys[number]),
                at => &mut pairs.slots[at as usize],
            };
            found(number, pair);
        });
    }

    /// Look for many pairs, a few at a time before any is used, so that no lookup waits for another.
    #[inline]
    fn each(&mut self, keys: &[u64], mut found: impl FnMut(&mut Pairs, usize, u32)) {
        let mut numbers = 0..keys.len();
        for some in keys.chunks(AT_ONCE) {
            let mask = self.slots.len() - 1;
            let mut places = [MISS; AT_ONCE];
            for (place, &key) in places.iter_mut().zip(some) {
                let at = hash(key) as usize & mask;
                if self.slots[at].key == key {
                    *place = at as u32;
                }
            }
            for (&at, number) in places.iter().zip(numbers.by_ref().take(some.len())) {
                found(self, number, at);
            }
        }
    }

    /// So many more pairs fit in without another table.
    pub(super) fn spare(&self) -> usize {
        (self.slots.len() / 3 * 2).saturating_sub(self.len)
    }

    /// Forget the pairs of a lower count and those that are not `wanted`, in a table with room for so
    /// many more.
    pub(super) fn keep(&mut self, lowest: u64, more: usize, wanted: impl Fn(&Pair) -> bool) {
        let kept = |pair: &Pair| pair.key != NONE && pair.count >= lowest && wanted(pair);
        self.len = self.slots.iter().filter(|pair| kept(pair)).count();
        let size = slots_for(self.len + more);
        let old = std::mem::replace(&mut self.slots, vec![EMPTY; size]);
        for pair in old.into_iter().filter(kept) {
            let at = self.slot(pair.key);
            self.slots[at] = pair;
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
