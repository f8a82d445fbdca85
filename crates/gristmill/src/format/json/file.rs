//! The shape of tokenizer.json, as serde reads it.
//!
//! The vocabulary and the merges, which are nearly all of the file, go straight into lists of places
//! in it (`scan.rs`, and here whatever that does not take); the small rest stays JSON until its own
//! reader takes it, and is kept for writing the file again.

use std::fmt;

use serde::de::{Deserialize, Deserializer, Error as _, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::Value;

use super::scan::{self, Span, Strings};

/// Read a tokenizer.json.
pub(super) fn read(text: &str) -> serde_json::Result<File> {
    match read_scanned(text) {
        Some(file) => Ok(file),
        // What is unusual or wrong, the reader of any JSON takes or tells.
        None => serde_json::from_str(text),
    }
}

/// Read a file whose lists are scanned; None if they are not of the usual kind, or anything is wrong.
pub(super) fn read_scanned(text: &str) -> Option<File> {
    let found = scan::lists(text)?;
    let mut file: File = serde_json::from_str(&found.rest).ok()?;
    if let Some(tokens) = found.tokens {
        file.model.vocab = Some(Tokens::Ids(tokens));
    }
    if let Some(merges) = found.merges {
        file.model.merges = Some(merges);
    }
    Some(file)
}

/// A tokenizer.json.
#[derive(serde::Deserialize)]
pub(super) struct File {
    #[serde(default)]
    pub(super) version: Option<String>,
    #[serde(default)]
    pub(super) truncation: Value,
    #[serde(default)]
    pub(super) padding: Value,
    #[serde(default)]
    pub(super) added_tokens: Vec<Added>,
    #[serde(default)]
    pub(super) normalizer: Value,
    #[serde(default)]
    pub(super) pre_tokenizer: Value,
    #[serde(default)]
    pub(super) post_processor: Value,
    #[serde(default)]
    pub(super) decoder: Value,
    pub(super) model: Model,
}

/// An added token, as the file has it.
#[derive(Clone, Debug, PartialEq, Eq, serde::Deserialize, serde::Serialize)]
pub(super) struct Added {
    pub(super) id: u32,
    pub(super) content: String,
    pub(super) single_word: bool,
    pub(super) lstrip: bool,
    pub(super) rstrip: bool,
    pub(super) normalized: bool,
    pub(super) special: bool,
}

/// The model, of whatever kind.
#[derive(serde::Deserialize)]
pub(super) struct Model {
    #[serde(rename = "type", default)]
    pub(super) kind: Option<String>,
    #[serde(default)]
    pub(super) dropout: Option<f64>,
    #[serde(default)]
    pub(super) unk_token: Option<String>,
    #[serde(default)]
    pub(super) continuing_subword_prefix: Option<String>,
    #[serde(default)]
    pub(super) end_of_word_suffix: Option<String>,
    #[serde(default)]
    pub(super) fuse_unk: Option<bool>,
    #[serde(default)]
    pub(super) byte_fallback: Option<bool>,
    #[serde(default)]
    pub(super) ignore_merges: Option<bool>,
    #[serde(default)]
    max_input_chars_per_word: Option<IgnoredAny>,
    #[serde(default)]
    pub(super) vocab: Option<Tokens>,
    #[serde(default)]
    pub(super) merges: Option<List<(Span, Span)>>,
}

impl Model {
    /// The kind of model, which old files leave to be guessed.
    pub(super) fn kind(&self) -> &str {
        match (&self.kind, &self.vocab) {
            (Some(kind), _) => kind,
            (None, Some(Tokens::Scored)) => "Unigram",
            (None, _) if self.merges.is_some() => "BPE",
            (None, _) if self.max_input_chars_per_word.is_some() => "WordPiece",
            (None, _) => "WordLevel",
        }
    }
}

/// Entries of a list, and the strings they name.
#[derive(Default)]
pub(super) struct List<T> {
    pub(super) entries: Vec<T>,
    pub(super) strings: Strings,
}

impl<T> List<T> {
    fn keep<E: serde::de::Error>(&mut self, text: &str) -> Result<Span, E> {
        self.strings
            .keep(text)
            .ok_or_else(|| E::custom("the file is too large"))
    }
}

/// The vocabulary.
pub(super) enum Tokens {
    /// Tokens and their ids.
    Ids(List<(Span, u32)>),
    /// Tokens with scores: not the vocabulary of a BPE model.
    Scored,
}

impl<'de> Deserialize<'de> for Tokens {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct TokensVisitor;
        impl<'de> Visitor<'de> for TokensVisitor {
            type Value = Tokens;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("a vocabulary")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut tokens = List::default();
                while let Some((token, id)) = map.next_entry::<String, u32>()? {
                    let token = tokens.keep(&token)?;
                    tokens.entries.push((token, id));
                }
                Ok(Tokens::Ids(tokens))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
                while list.next_element::<IgnoredAny>()?.is_some() {}
                Ok(Tokens::Scored)
            }
        }
        deserializer.deserialize_any(TokensVisitor)
    }
}

/// The merges, written as `["a", "b"]` or, in older files, as `"a b"`.
impl<'de> Deserialize<'de> for List<(Span, Span)> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct PairsVisitor;
        impl<'de> Visitor<'de> for PairsVisitor {
            type Value = List<(Span, Span)>;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("a list of merges")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
                let mut pairs = List::default();
                while let Some(merge) = list.next_element::<Merge>()? {
                    let (left, right) = match &merge {
                        Merge::Pair(left, right) => (&**left, &**right),
                        Merge::Joined(line) if is_comment(line) => continue,
                        Merge::Joined(line) => {
                            halves(line).ok_or_else(|| A::Error::custom("a merge is no pair"))?
                        }
                    };
                    let pair = (pairs.keep(left)?, pairs.keep(right)?);
                    pairs.entries.push(pair);
                }
                Ok(pairs)
            }
        }
        deserializer.deserialize_seq(PairsVisitor)
    }
}

/// One merge in either spelling.
enum Merge {
    Pair(String, String),
    Joined(String),
}

impl<'de> Deserialize<'de> for Merge {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct MergeVisitor;
        impl<'de> Visitor<'de> for MergeVisitor {
            type Value = Merge;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("a merge: two tokens")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
                let pair = (list.next_element()?, list.next_element()?);
                match (pair, list.next_element::<IgnoredAny>()?) {
                    ((Some(left), Some(right)), None) => Ok(Merge::Pair(left, right)),
                    _ => Err(A::Error::custom("a merge is no pair")),
                }
            }

            fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Self::Value, E> {
                Ok(Merge::Joined(text.to_owned()))
            }
        }
        deserializer.deserialize_any(MergeVisitor)
    }
}

/// Old merges.txt files begin with a comment, which found its way into the lists of merges.
pub(super) fn is_comment(line: &str) -> bool {
    line.starts_with("#version")
}

/// The two tokens of a merge in the older spelling.
pub(super) fn halves(line: &str) -> Option<(&str, &str)> {
    let (left, right) = line.split_once(' ')?;
    (!right.contains(' ')).then_some((left, right))
}
