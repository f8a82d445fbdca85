//! The compiled rules of a SentencePiece normalizer: a double-array trie of byte strings and what they become.
//!
//! Layout: the size of the trie in bytes (u32, little-endian), its units (u32 each), then the replacements, each ended by a
//! zero byte or the end of the blob. In a unit, bits 0-7 and 31 are the label, bit 8 tells that a value hangs below, bits
//! 10-30 are the offset to the children, to be shifted by eight more if bit 9 is set; a unit with bit 31 is a value.
//!
//! Invariant: once loaded, every value is the start of a replacement that is valid UTF-8 and short, and no key is longer
//! than [`MAX_KEY`]; so a search takes bounded time and cannot fail. Tested with blobs cut, changed at random and cyclic.

use crate::error::{Error, Result};

/// More bytes than any key of a real charsmap has.
const MAX_KEY: u32 = 256;
/// More bytes than any replacement of a real charsmap has.
const MAX_REPLACEMENT: usize = 1024;

/// A trie of rules; see the module.
#[derive(Debug)]
pub(super) struct Charsmap {
    units: Vec<u32>,
    replacements: Box<str>,
    /// One bit for each pair of bytes that a key may start with; all pairs of a byte that is a key by itself.
    pairs: Box<[u64; 1024]>,
}

fn malformed(reason: &str) -> Error {
    Error::Format {
        reason: format!("precompiled_charsmap: {reason}"),
    }
}

fn is_value(unit: u32) -> bool {
    unit >> 31 != 0
}

fn has_value(unit: u32) -> bool {
    unit >> 8 & 1 != 0
}

/// What is combined with the place of a unit to get the base of its children.
fn offset(unit: u32) -> usize {
    ((unit >> 10) << (unit >> 6 & 8)) as usize
}

impl Charsmap {
    /// Reads and checks a blob.
    pub(super) fn new(blob: &[u8]) -> Result<Self> {
        let (size, rest) = blob
            .split_first_chunk::<4>()
            .ok_or_else(|| malformed("shorter than its header"))?;
        let size = u32::from_le_bytes(*size) as usize;
        let (trie, replacements) = rest
            .split_at_checked(size)
            .ok_or_else(|| malformed("the trie is cut off"))?;
        let (units, odd) = trie.as_chunks::<4>();
        if units.is_empty() || !odd.is_empty() {
            return Err(malformed("the trie is empty or has half a unit"));
        }
        let replacements = std::str::from_utf8(replacements)
            .map_err(|_| malformed("a replacement is not UTF-8"))?;
        let units: Vec<u32> = units.iter().map(|unit| u32::from_le_bytes(*unit)).collect();
        let mut charsmap = Self {
            units,
            replacements: replacements.into(),
            pairs: Box::new([0; 1024]),
        };
        charsmap.check_values()?;
        charsmap.check_keys()?;
        charsmap.pairs = charsmap.find_pairs();
        Ok(charsmap)
    }

    /// Every unit below which a value hangs must lead to one that is the start of a replacement.
    fn check_values(&self) -> Result<()> {
        let bytes = self.replacements.as_bytes();
        for (at, unit) in self
            .units
            .iter()
            .enumerate()
            .filter(|(_, unit)| !is_value(**unit) && has_value(**unit))
        {
            let leaf = self
                .units
                .get(at ^ offset(*unit))
                .filter(|leaf| is_value(**leaf));
            let value = leaf.ok_or_else(|| malformed("a rule has no value"))? & !(1 << 31);
            let rest = bytes
                .get(value as usize..)
                .filter(|_| self.replacements.is_char_boundary(value as usize));
            let rest =
                rest.ok_or_else(|| malformed("a rule points outside of the replacements"))?;
            let window = rest.get(..MAX_REPLACEMENT).unwrap_or(rest);
            if window.len() == MAX_REPLACEMENT && memchr::memchr(0, window).is_none() {
                let what = format!(
                    "precompiled_charsmap: a replacement of more than {MAX_REPLACEMENT} bytes"
                );
                return Err(Error::Limit {
                    what,
                    at: value as usize,
                });
            }
        }
        Ok(())
    }

    /// No path from the root may be longer than a key can be; in particular none may lead back to itself.
    ///
    /// A unit is the child of exactly one base, its place combined with its label, so the trie is a graph of bases with one
    /// edge per unit, and the longest path takes one visit of each.
    fn check_keys(&self) -> Result<()> {
        let mut edges: Vec<(usize, usize)> = self
            .units
            .iter()
            .enumerate()
            .filter(|(_, unit)| !is_value(**unit))
            .map(|(at, unit)| (at ^ (unit & 0xFF) as usize, at ^ offset(*unit)))
            .collect();
        edges.sort_unstable();
        let edges_from = |base: usize| edges.partition_point(|edge| edge.0 < base);
        // The height of each base: none while it is not known, and too much while its children are looked at.
        let mut heights = vec![None; self.units.len()];
        let mut stack = vec![(self.root(), edges_from(self.root()), 0)];
        while let Some((base, next, height)) = stack.pop() {
            if stack.len() > MAX_KEY as usize {
                return Err(malformed("a key is too long, or the trie is cyclic"));
            }
            let Some(edge) = edges.get(next).filter(|edge| edge.0 == base) else {
                if let Some(known) = heights.get_mut(base) {
                    *known = Some(height);
                }
                continue;
            };
            let child = heights.get(edge.1).copied().unwrap_or(Some(0_u32));
            match child {
                Some(below) => {
                    let height = height.max(below + 1);
                    if height > MAX_KEY {
                        return Err(malformed("a key is too long, or the trie is cyclic"));
                    }
                    stack.push((base, next + 1, height));
                }
                None => {
                    stack.push((base, next, height));
                    stack.push((edge.1, edges_from(edge.1), 0));
                }
            }
        }
        Ok(())
    }

    fn find_pairs(&self) -> Box<[u64; 1024]> {
        let mut pairs = Box::new([0; 1024]);
        for first in 0..=u8::MAX {
            let Some((base, value)) = self.step(self.root(), first) else {
                continue;
            };
            for second in 0..=u8::MAX {
                if value.is_some() || self.step(base, second).is_some() {
                    let pair = usize::from(first) << 8 | usize::from(second);
                    pairs[pair >> 6] |= 1 << (pair & 63);
                }
            }
        }
        pairs
    }

    /// The base of the first byte of a key.
    fn root(&self) -> usize {
        self.units.first().map_or(0, |unit| offset(*unit))
    }

    /// From one base by a byte to the next, and the value there if a key ends.
    #[inline]
    fn step(&self, base: usize, byte: u8) -> Option<(usize, Option<u32>)> {
        let at = base ^ usize::from(byte);
        let unit = *self.units.get(at)?;
        if unit & (1 << 31 | 0xFF) != u32::from(byte) {
            return None;
        }
        let base = at ^ offset(unit);
        let value = if has_value(unit) {
            self.units.get(base).map(|leaf| leaf & !(1 << 31))
        } else {
            None
        };
        Some((base, value))
    }

    /// Whether a key may start with `first`, if `next` comes then; at the end of a text, any byte may stand for that.
    #[inline]
    pub(super) fn may_start(&self, first: u8, next: u8) -> bool {
        let pair = usize::from(first) << 8 | usize::from(next);
        self.pairs[pair >> 6] >> (pair & 63) & 1 != 0
    }

    /// What the longest key at the start of `text` becomes, and its length.
    pub(super) fn longest(&self, text: &[u8]) -> Option<(&str, usize)> {
        let mut base = self.root();
        let mut found = None;
        for (at, byte) in text.iter().enumerate() {
            let Some((next, value)) = self.step(base, *byte) else {
                break;
            };
            base = next;
            found = value.map(|value| (value, at + 1)).or(found);
        }
        found.map(|(value, length)| (self.replacement(value), length))
    }

    /// What the shortest key at the start of `text` becomes. A zero byte ends the text.
    pub(super) fn shortest(&self, text: &str) -> Option<&str> {
        let mut base = self.root();
        for byte in text.bytes().take_while(|byte| *byte != 0) {
            let (next, value) = self.step(base, byte)?;
            base = next;
            if let Some(value) = value {
                return Some(self.replacement(value));
            }
        }
        None
    }

    fn replacement(&self, value: u32) -> &str {
        let rest = self.replacements.get(value as usize..).unwrap_or_default();
        memchr::memchr(0, rest.as_bytes())
            .and_then(|end| rest.get(..end))
            .unwrap_or(rest)
    }
}

/// Small charsmaps for tests.
#[cfg(test)]
pub(super) mod testing {
    use std::collections::BTreeMap;

    /// A blob with these rules. Every inner node has 256 units of its own, so the trie is large but easy to build.
    pub(crate) fn blob(rules: &[(&str, &str)]) -> Vec<u8> {
        let mut nodes: Vec<(BTreeMap<u8, usize>, Option<usize>)> = vec![Default::default()];
        let mut replacements = Vec::new();
        for (key, new) in rules {
            let mut node = 0;
            for byte in key.bytes() {
                let fresh = nodes.len();
                node = *nodes[node].0.entry(byte).or_insert(fresh);
                if node == fresh {
                    nodes.push(Default::default());
                }
            }
            nodes[node].1 = Some(replacements.len());
            replacements.extend(new.bytes().chain([0]));
        }
        let base = |node: usize| 256 * (node + 1);
        // An unused unit must not have the label of its place.
        let mut units: Vec<u32> = (0..base(nodes.len()) as u32)
            .map(|at| at & 0xFF ^ 1)
            .collect();
        let unit = |at: usize, label: u8, node: usize, value: bool| {
            ((at ^ base(node)) as u32) << 10 | u32::from(value) << 8 | u32::from(label)
        };
        units[0] = unit(0, 0, 0, false);
        for (number, (children, value)) in nodes.iter().enumerate() {
            for (label, child) in children {
                let at = base(number) ^ usize::from(*label);
                units[at] = unit(at, *label, *child, nodes[*child].1.is_some());
            }
            if let Some(value) = value {
                units[base(number)] = 1 << 31 | *value as u32;
            }
        }
        join(&units, &replacements)
    }

    pub(crate) fn join(units: &[u32], replacements: &[u8]) -> Vec<u8> {
        let size = (4 * units.len()) as u32;
        let units = std::iter::once(size)
            .chain(units.iter().copied())
            .flat_map(u32::to_le_bytes);
        units.chain(replacements.iter().copied()).collect()
    }

    /// Makes the only key of a blob with one key of two bytes end after its first byte.
    pub(crate) fn cut_key(blob: &mut [u8]) {
        let at = 4 * (1 + (256 ^ 0xC3));
        blob[at + 1] |= 1;
        let leaf = 4 * (1 + 512);
        blob[leaf..leaf + 4].copy_from_slice(&(1_u32 << 31).to_le_bytes());
        let second = 4 * (1 + (512 ^ 0xA9));
        blob[second] ^= 1;
    }
}

#[cfg(test)]
mod tests {
    use super::{testing::*, *};

    #[test]
    fn longest_and_shortest() {
        let charsmap =
            Charsmap::new(&blob(&[("a", "x"), ("ab", "yy"), ("abcd", ""), ("é", "e")])).unwrap();
        assert_eq!(charsmap.longest(b"abc"), Some(("yy", 2)));
        assert_eq!(charsmap.longest(b"abcd"), Some(("", 4)));
        assert_eq!(charsmap.shortest("abcd"), Some("x"));
        assert_eq!(charsmap.shortest("éa"), Some("e"));
        assert_eq!(charsmap.longest(b"b"), None);
        assert!(
            charsmap.may_start(b'a', b'z')
                && charsmap.may_start(0xC3, 0xA9)
                && !charsmap.may_start(0xC3, 0)
        );
    }

    #[test]
    fn refuses_broken_blobs() {
        let good = blob(&[("ab", "x"), ("é", "e")]);
        for length in 0..good.len() - 3 {
            assert!(
                Charsmap::new(&good[..length]).is_err() || length > 4 * 1025,
                "{length}"
            );
        }
        assert!(Charsmap::new(&[0, 0, 0, 0, b'a', 0]).is_err());
        assert!(Charsmap::new(&[255; 1000]).is_err());
        let not_utf8 = [good.as_slice(), &[0xFF]].concat();
        assert!(Charsmap::new(&not_utf8).is_err());
        let long = blob(&[("a", &"x".repeat(MAX_REPLACEMENT)), ("b", "y")]);
        assert!(matches!(Charsmap::new(&long), Err(Error::Limit { .. })));
    }

    #[test]
    fn refuses_cycles_and_long_keys() {
        // From the base 256, "a" leads back to the base 256.
        let mut units: Vec<u32> = (0..512).map(|at| at & 0xFF ^ 1).collect();
        units[0] = 256 << 10;
        units[256 ^ 0x61] = 0x61 << 10 | 0x61;
        assert!(Charsmap::new(&join(&units, b"")).is_err());
        let key = "k".repeat(MAX_KEY as usize);
        assert!(Charsmap::new(&blob(&[(&key, "x")])).is_ok());
        assert!(Charsmap::new(&blob(&[(&format!("{key}k"), "x")])).is_err());
    }

    #[test]
    fn changed_blobs_never_fail_later() {
        let good = blob(&[("ab", "x"), ("é", "e\0"), ("e\u{301}", "é"), ("中", "中国")]);
        let mut state = 1_u64;
        let mut random = |limit: usize| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) as usize % limit
        };
        let used: Vec<usize> = (0..good.len()).filter(|at| good[*at] != 0).collect();
        for _ in 0..4000 {
            let mut bad = good.clone();
            for _ in 0..1 + random(4) {
                bad[used[random(used.len())]] = random(256) as u8;
            }
            if let Ok(charsmap) = Charsmap::new(&bad) {
                for text in ["abab", "éé", "e\u{301}", "中中", "\0a"] {
                    for at in 0..text.len() {
                        charsmap.longest(&text.as_bytes()[at..]);
                    }
                    charsmap.shortest(text);
                }
            }
        }
    }
}
