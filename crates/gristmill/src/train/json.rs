//! Training as `BpeTrainer` of tokenizers does it, and its tokenizer.json.
//!
//! The vocabulary is the special tokens, the alphabet by code point, what prefixes and suffixes make of
//! it, and the merges; ids decide between equally frequent pairs. What that library leaves to the order
//! of a hash table is decided here: of equally frequent characters the lower one is kept in a limited
//! alphabet, and symbols with a prefix or suffix are numbered by code point. A merge whose string is a
//! token already is that token. Tested against the library, and where its result changes from run to
//! run against the definition.

use std::borrow::Borrow;
use std::collections::{BTreeMap, BTreeSet};

use rustc_hash::FxHashMap;
use serde_json::{Map, Value, json};

use crate::alphabet;
use crate::error::{Error, Result};
use crate::format::json;
use crate::tokenizer::Tokenizer;

use super::counts::WordCounts;
use super::merge::{Goal, Merge};
use super::progress::Progress;
use super::queue::Ties;
use super::recipe::json_pre_tokenizer;
use super::symbols::{Limits, Symbols};
use super::{Fill, Trainer, Units, merge_words};

/// A character, and whether a prefix and a suffix are put to it.
type Variant = (char, bool, bool);

/// What words are made of.
#[derive(Default)]
struct Seen {
    chars: BTreeMap<char, u64>,
    variants: BTreeSet<Variant>,
}

impl Trainer {
    pub(super) fn train_json<C: Borrow<WordCounts>>(
        &self,
        counts: C,
        look: &mut dyn FnMut(&Progress) -> Result<()>,
    ) -> Result<Tokenizer> {
        let limits = Limits {
            size: self.max_token_length.map(|length| length.saturating_sub(1)),
            // A character that is dropped makes neighbours of others; an affix is no text.
            many_ways: self.limit_alphabet.is_some()
                || self.continuing_subword_prefix.is_some()
                || self.end_of_word_suffix.is_some(),
            ..Limits::default()
        };
        let prefix = self.continuing_subword_prefix.as_deref().unwrap_or("");
        let mut symbols = Symbols::new(limits).one_of_each(prefix);
        for token in &self.special_tokens {
            symbols.add_special(token.as_bytes())?;
        }
        let seen = self.seen(counts.borrow())?;
        let ids = self.alphabet(seen, &mut symbols)?;
        let goal = Goal {
            symbols: self.vocab_size,
            count: self.min_frequency,
        };
        let fill = |give: &mut Fill<'_>| {
            let counts = counts;
            let mut row = Vec::new();
            let plain = self.plain_bytes(&ids);
            counts.borrow().entries(&mut |entry| {
                row.clear();
                if let Some(ids) = &plain {
                    let of_byte = |&byte: &u8| ids[usize::from(byte)];
                    row.extend(entry.word.iter().filter_map(of_byte));
                    return give(&row, entry.count);
                }
                self.each_char(entry.word, &mut |variant| {
                    // A character that the alphabet has no room for is gone.
                    row.extend(ids.get(&variant));
                })?;
                give(&row, entry.count)
            })
        };
        let merges = merge_words(&mut symbols, Ties::Ids, goal, fill, look)?;
        json::read(&self.file(&symbols, &merges)?)
    }

    /// The symbols of all bytes, where each has one whatever stands beside it.
    fn plain_bytes(&self, ids: &FxHashMap<Variant, u32>) -> Option<Vec<Option<u32>>> {
        let affixes = self.continuing_subword_prefix.is_some() || self.end_of_word_suffix.is_some();
        let symbol = |byte| ids.get(&(alphabet::char_of(byte), false, false)).copied();
        (self.units == Units::Bytes && !affixes).then(|| (0..=u8::MAX).map(symbol).collect())
    }

    /// Give `found` the characters of a word, each with what is put to it.
    fn each_char(&self, word: &[u8], found: &mut dyn FnMut(Variant)) -> Result<()> {
        let prefixes = self.continuing_subword_prefix.is_some();
        let suffixes = self.end_of_word_suffix.is_some();
        let mut give = |at: usize, char: char, width: usize| {
            found((
                char,
                prefixes && at > 0,
                suffixes && at + width == word.len(),
            ));
        };
        if self.units == Units::Bytes {
            for (at, &byte) in word.iter().enumerate() {
                give(at, alphabet::char_of(byte), 1);
            }
            return Ok(());
        }
        let word = std::str::from_utf8(word)
            .map_err(|_| Error::unsupported("a word that is not UTF-8, with units=\"chars\""))?;
        for (at, char) in word.char_indices() {
            give(at, char, char.len_utf8());
        }
        Ok(())
    }

    fn seen(&self, counts: &WordCounts) -> Result<Seen> {
        let mut seen = Seen::default();
        if self.units == Units::Bytes {
            let mut bytes = [0u64; 256];
            let affixes =
                self.continuing_subword_prefix.is_some() || self.end_of_word_suffix.is_some();
            counts.entries(&mut |entry| {
                for &byte in entry.word {
                    let count = &mut bytes[usize::from(byte)];
                    *count = count.saturating_add(entry.count);
                }
                if affixes {
                    self.each_char(entry.word, &mut |variant| {
                        seen.variants.insert(variant);
                    })?;
                }
                Ok(())
            })?;
            for (byte, &count) in (0..=u8::MAX).zip(&bytes) {
                if count > 0 {
                    let char = alphabet::char_of(byte);
                    seen.chars.insert(char, count);
                    seen.variants.insert((char, false, false));
                }
            }
        } else {
            counts.entries(&mut |entry| {
                self.each_char(entry.word, &mut |variant| {
                    let count = seen.chars.entry(variant.0).or_default();
                    *count = count.saturating_add(entry.count);
                    seen.variants.insert(variant);
                })
            })?;
        }
        let all = || (0..=u8::MAX).map(alphabet::char_of).collect();
        let initial: Vec<char> = match (&self.initial_alphabet, self.units) {
            (Some(chars), _) => chars.clone(),
            (None, Units::Bytes) => all(),
            (None, Units::Chars) => Vec::new(),
        };
        for char in initial {
            seen.chars.insert(char, u64::MAX);
        }
        Ok(seen)
    }

    /// Make symbols of what words are made of.
    fn alphabet(&self, seen: Seen, symbols: &mut Symbols) -> Result<FxHashMap<Variant, u32>> {
        let mut kept: Vec<(char, u64)> = seen.chars.into_iter().collect();
        if let Some(limit) = self.limit_alphabet {
            kept.sort_by_key(|&(char, count)| (std::cmp::Reverse(count), char));
            kept.truncate(limit);
            kept.sort_unstable();
        }
        let mut ids = FxHashMap::default();
        for &(char, _) in &kept {
            let id = symbols.first(char.encode_utf8(&mut [0; 4]).as_bytes(), 1)?;
            ids.insert((char, false, false), id);
        }
        let kept: BTreeSet<char> = kept.into_iter().map(|(char, _)| char).collect();
        for variant in seen.variants {
            let (char, before, after) = variant;
            if !kept.contains(&char) || !(before || after) {
                continue;
            }
            let given = |given: bool, affix: &Option<String>| match affix {
                Some(affix) if given => affix.clone(),
                _ => String::new(),
            };
            let string = format!(
                "{}{char}{}",
                given(before, &self.continuing_subword_prefix),
                given(after, &self.end_of_word_suffix)
            );
            ids.insert(variant, symbols.first(string.as_bytes(), 1)?);
        }
        Ok(ids)
    }

    /// The tokenizer.json.
    fn file(&self, symbols: &Symbols, merges: &[Merge]) -> Result<Vec<u8>> {
        let string = |id: u32| String::from_utf8_lossy(symbols.bytes(id)).into_owned();
        let vocab: Map<String, Value> = (0..symbols.len() as u32)
            .map(|id| (string(id), id.into()))
            .collect();
        let added: Vec<Value> = (0..)
            .zip(&self.special_tokens)
            .map(|(id, content): (u32, _)| special_entry(id, content))
            .collect();
        let bytes = self.units == Units::Bytes;
        let affixed = |value: &Option<String>| value.clone().map_or(Value::Null, Value::from);
        let decoder = match (&self.end_of_word_suffix, &self.continuing_subword_prefix) {
            _ if bytes => byte_level(true),
            (Some(suffix), _) => json!({"type": "BPEDecoder", "suffix": suffix}),
            (None, Some(prefix)) => {
                json!({"type": "WordPiece", "prefix": prefix, "cleanup": false})
            }
            (None, None) => json!({"type": "Fuse"}),
        };
        let merges: Vec<Value> = last_of_each(merges)
            .map(|(left, right, _)| json!([string(left), string(right)]))
            .collect();
        let file = json!({
            "version": "1.0",
            "truncation": null,
            "padding": null,
            "added_tokens": added,
            "normalizer": null,
            "pre_tokenizer": json_pre_tokenizer(self.expression(), bytes),
            "post_processor": null,
            "decoder": decoder,
            "model": {
                "type": "BPE",
                "dropout": null,
                "unk_token": null,
                "continuing_subword_prefix": affixed(&self.continuing_subword_prefix),
                "end_of_word_suffix": affixed(&self.end_of_word_suffix),
                "fuse_unk": false,
                "byte_fallback": false,
                "ignore_merges": false,
                "vocab": vocab,
                "merges": merges,
            },
        });
        serde_json::to_vec(&file).map_err(|error| Error::format(error.to_string()))
    }
}

/// Merges without those that come again later, as the library keeps them.
fn last_of_each(merges: &[Merge]) -> impl Iterator<Item = Merge> {
    let mut last = FxHashMap::default();
    for (number, &(left, right, _)) in merges.iter().enumerate() {
        last.insert((left, right), number);
    }
    let kept: Vec<Merge> = merges
        .iter()
        .enumerate()
        .filter(|&(number, &(left, right, _))| last.get(&(left, right)) == Some(&number))
        .map(|(_, &merge)| merge)
        .collect();
    kept.into_iter()
}

/// The byte-level pre-tokenizer's twin that decodes.
pub(super) fn byte_level(use_regex: bool) -> Value {
    json!({
        "type": "ByteLevel",
        "add_prefix_space": false,
        "trim_offsets": true,
        "use_regex": use_regex,
    })
}

/// A special token among `added_tokens`.
pub(super) fn special_entry(id: u32, content: &str) -> Value {
    json!({
        "id": id,
        "content": content,
        "single_word": false,
        "lstrip": false,
        "rstrip": false,
        "normalized": false,
        "special": true,
    })
}
