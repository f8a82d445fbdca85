//! The longest of a set of strings at the start of a text: user-defined symbols of SentencePiece models.
//!
//! A trie of bytes. Invariant: a search reads no more of the text than the longest symbol has bytes.
//! Tested against a search through the whole list.

use crate::error::{Error, Result};
use std::collections::HashMap;

/// SentencePiece looks at no more matches than this at one place.
const MAX_NESTED: usize = 64;

/// A set of symbols; see the module.
#[derive(Clone, Debug)]
pub(crate) struct PrefixMatcher {
    children: HashMap<(u32, u8), u32>,
    ends: Vec<bool>,
    starts: [bool; 256],
}

impl Default for PrefixMatcher {
    fn default() -> Self {
        Self {
            children: HashMap::new(),
            ends: vec![false],
            starts: [false; 256],
        }
    }
}

impl PrefixMatcher {
    /// A matcher of these symbols.
    pub(crate) fn new<'s>(symbols: impl IntoIterator<Item = &'s str>) -> Result<Self> {
        let mut matcher = Self::default();
        for symbol in symbols {
            if symbol.is_empty() || symbol.contains('\0') {
                let what = format!("the user-defined symbol {symbol:?}: empty or with a zero byte");
                return Err(Error::Unsupported { what });
            }
            matcher.insert(symbol)?;
        }
        for (_, start) in matcher.children.keys().filter(|(node, _)| *node == 0) {
            matcher.starts[usize::from(*start)] = true;
        }
        matcher.check_nesting()?;
        Ok(matcher)
    }

    /// Refuses more symbols at one place than SentencePiece has room for.
    fn check_nesting(&self) -> Result<()> {
        let mut edges: Vec<(u32, u32)> = self
            .children
            .iter()
            .map(|((node, _), child)| (*child, *node))
            .collect();
        edges.sort_unstable();
        let mut nested = vec![0_usize];
        for (child, parent) in edges {
            let above = nested.get(parent as usize).copied().unwrap_or_default();
            let count =
                above + usize::from(self.ends.get(child as usize).copied().unwrap_or_default());
            if count > MAX_NESTED {
                let what =
                    format!("more than {MAX_NESTED} user-defined symbols that start each other");
                return Err(Error::Unsupported { what });
            }
            nested.push(count);
        }
        Ok(())
    }

    fn insert(&mut self, symbol: &str) -> Result<()> {
        let mut node = 0;
        for byte in symbol.bytes() {
            let fresh = u32::try_from(self.ends.len()).map_err(|_| Error::Unsupported {
                what: "user-defined symbols of more than 4 GiB".to_owned(),
            })?;
            node = *self.children.entry((node, byte)).or_insert(fresh);
            if node == fresh {
                self.ends.push(false);
            }
        }
        if let Some(end) = self.ends.get_mut(node as usize) {
            *end = true;
        }
        Ok(())
    }

    /// Whether there are no symbols.
    pub(crate) fn is_empty(&self) -> bool {
        self.children.is_empty()
    }

    /// Whether a symbol may start with `byte`.
    #[inline]
    pub(crate) fn starts(&self, byte: u8) -> bool {
        self.starts[usize::from(byte)]
    }

    /// The length of the longest symbol at the start of `text`.
    pub(crate) fn longest(&self, text: &[u8]) -> Option<usize> {
        let mut node = 0;
        let mut found = None;
        for (at, byte) in text.iter().enumerate() {
            let Some(next) = self.children.get(&(node, *byte)) else {
                break;
            };
            node = *next;
            if self.ends.get(node as usize).copied().unwrap_or_default() {
                found = Some(at + 1);
            }
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn longest_of_all() {
        let symbols = ["<a>", "<a><b>", "<", "\n\n", "\n", "中文", "中"];
        let matcher = PrefixMatcher::new(symbols).unwrap();
        for text in [
            "", "<", "<a", "<a>", "<a><b", "<a><b>x", "\n", "\n\n\n", "中x", "中文", "文", "x<",
        ] {
            let naive = symbols
                .iter()
                .filter(|symbol| text.starts_with(**symbol))
                .map(|symbol| symbol.len())
                .max();
            assert_eq!(matcher.longest(text.as_bytes()), naive, "{text:?}");
        }
        assert_eq!(PrefixMatcher::default().longest(b"x"), None);
    }

    #[test]
    fn refuses_what_sentencepiece_cannot_hold() {
        let runs: Vec<String> = (1..=65).map(|length| "a".repeat(length)).collect();
        assert!(PrefixMatcher::new(runs.iter().take(64).map(String::as_str)).is_ok());
        assert!(PrefixMatcher::new(runs.iter().map(String::as_str)).is_err());
        assert!(PrefixMatcher::new([""]).is_err());
        assert!(PrefixMatcher::new(["a\0b"]).is_err());
    }
}
