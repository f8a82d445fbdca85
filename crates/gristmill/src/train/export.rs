//! A tokenizer written in another format than the one it came from, where that format gives the same
//! ids: ranks as tokenizer.json, and a byte-level tokenizer.json as ranks.
//!
//! The two differ in what may merge: neighbours whose bytes together are a token, or the pairs of a
//! list. In a vocabulary that training made these are the same, since the bytes of a token, encoded
//! with the tokens before it, are the two it was merged from; each token is checked for that. And the
//! pattern must be one that both engines read alike. What fails is refused by name. Tested against the
//! libraries that read the files.

use std::borrow::Cow;
use std::path::Path;

use serde_json::{Map, Value, json};

use crate::alphabet;
use crate::error::{Error, Result};
use crate::format::{Source, ranks};
use crate::parts::{Normalization, Parts, Spelling};
use crate::split::{Dialect, Rules};
use crate::tokenizer::Tokenizer;
use crate::vocab::Vocab;

use super::bytes::WHOLE;
use super::json::{byte_level, special_entry};
use super::{GPT2, PATTERNS};

impl Tokenizer {
    /// The content of a file of this name: a tokenizer.json for `.json`, ranks for `.tiktoken`, and
    /// for any other name the format the tokenizer came from. Fails where that format would not give
    /// the same ids.
    pub fn to_bytes_for(&self, path: &Path) -> Result<Vec<u8>> {
        let parts = &self.parts;
        let suffix = path.extension().unwrap_or_default().to_string_lossy();
        match (&*suffix, &parts.source) {
            ("json", Source::Ranks(config)) => ranks_as_json(parts, &config.pattern),
            ("tiktoken", Source::Json(config)) => json_as_ranks(parts, config.fields())
                .map(|tokenizer| ranks::write(&tokenizer.parts)),
            ("json", Source::SentencePiece(_))
            | ("tiktoken", Source::Tekken(_) | Source::SentencePiece(_))
            | ("model", Source::Json(_) | Source::Tekken(_)) => Err(Error::unsupported(format!(
                "writing a {} as {suffix}",
                parts.source.name()
            ))),
            _ => self.to_bytes(),
        }
    }
}

/// The two tokens that a token was merged from: what its bytes become with the tokens before it.
fn halves(vocab: &Vocab, token: &[u8], rank: u32) -> Option<(u32, u32)> {
    // Where the parts end.
    let mut ends: Vec<usize> = (1..=token.len()).collect();
    loop {
        let start = |place: usize| place.checked_sub(1).map_or(0, |before| ends[before]);
        let best = (1..ends.len())
            .filter_map(|place| {
                let (from, to) = (start(place - 1), ends[place]);
                let id = vocab.id(&token[from..to]).filter(|&id| id < rank)?;
                Some((id, place))
            })
            .min();
        let Some((_, place)) = best else {
            break;
        };
        ends.remove(place - 1);
    }
    match ends[..] {
        [middle, _] => Some((vocab.id(&token[..middle])?, vocab.id(&token[middle..])?)),
        _ => None,
    }
}

fn ranks_as_json(parts: &Parts, pattern: &str) -> Result<Vec<u8>> {
    let vocab = &parts.model.vocab;
    let mut merges = Vec::new();
    for (id, token) in vocab.iter().filter(|(_, token)| token.len() > 1) {
        let (left, right) = halves(vocab, token, id).ok_or_else(|| not_trained(token))?;
        let written = |id: u32| alphabet::write(vocab.get(id).unwrap_or_default());
        merges.push(json!([written(left), written(right)]));
    }
    let mut tokens: Map<String, Value> = vocab
        .iter()
        .map(|(id, token)| (alphabet::write(token), id.into()))
        .collect();
    // The library gives ids of its own to added tokens that the model does not have.
    for token in parts.added.iter() {
        if tokens
            .insert(token.content.clone(), token.id.into())
            .is_some()
        {
            return Err(Error::unsupported(format!(
                "writing a tokenizer.json whose special token {:?} is another token, too",
                token.content
            )));
        }
    }
    let mut added: Vec<_> = parts.added.iter().collect();
    added.sort_by_key(|token| token.id);
    let added: Vec<Value> = added
        .iter()
        .map(|token| special_entry(token.id, &token.content))
        .collect();
    let write = if pattern == WHOLE {
        byte_level(false)
    } else {
        check_pattern(pattern)?;
        let split = json!({
            "type": "Split",
            "pattern": {"Regex": pattern},
            // What the pattern does not match is dropped, as with ranks.
            "behavior": "Removed",
            "invert": true,
        });
        json!({"type": "Sequence", "pretokenizers": [split, byte_level(false)]})
    };
    let file = json!({
        "version": "1.0",
        "truncation": null,
        "padding": null,
        "added_tokens": added,
        "normalizer": null,
        "pre_tokenizer": write,
        "post_processor": null,
        "decoder": byte_level(true),
        "model": {
            "type": "BPE",
            "dropout": null,
            "unk_token": null,
            "continuing_subword_prefix": null,
            "end_of_word_suffix": null,
            "fuse_unk": false,
            "byte_fallback": false,
            "ignore_merges": false,
            "vocab": tokens,
            "merges": merges,
        },
    });
    serde_json::to_vec(&file).map_err(|error| Error::format(error.to_string()))
}

fn not_trained(token: &[u8]) -> Error {
    Error::unsupported(format!(
        "writing this tokenizer in another format: the token {:?} is not what the tokens before it \
         merge to",
        String::from_utf8_lossy(token)
    ))
}

/// A byte-level tokenizer.json as ranks.
fn json_as_ranks(parts: &Parts, fields: &Map<String, Value>) -> Result<Tokenizer> {
    let refuse = |what: &str| Err(Error::unsupported(format!("writing {what} as ranks")));
    if parts.spelling != Spelling::Alphabet {
        return refuse("a tokenizer whose tokens are not bytes");
    }
    if !matches!(parts.normalization, Normalization::None) {
        return refuse("a tokenizer with a normalizer");
    }
    if parts.added.iter().any(|token| !token.special) {
        return refuse("a tokenizer with added tokens that are not special");
    }
    let pattern = pattern_of(fields.get("pre_tokenizer").unwrap_or(&Value::Null))?;
    check_pattern(&pattern)?;
    let special: std::collections::BTreeMap<String, u32> = parts
        .added
        .iter()
        .map(|token| (token.content.clone(), token.id))
        .collect();
    let from = &parts.model.vocab;
    let mut vocab = Vocab::with_capacity(from.len());
    for (id, token) in from
        .iter()
        .filter(|(id, _)| parts.added.by_id(*id).is_none())
    {
        vocab.insert(token, id)?;
    }
    let mut merges = 0;
    for (left, right, merge) in parts.model.merges().iter() {
        let token = vocab.get(merge.id).unwrap_or_default();
        if halves(&vocab, token, merge.id) != Some((left, right)) {
            return Err(not_trained(token));
        }
        merges += 1;
    }
    if merges + 256 != vocab.len() {
        return refuse("a vocabulary that is not the 256 bytes and one token for each merge");
    }
    let config = ranks::Config {
        name: None,
        pattern: pattern.into_owned(),
    };
    ranks::build(ranks::model(vocab)?, &special, config)
}

/// The pattern of a byte-level pre-tokenizer.
fn pattern_of(value: &Value) -> Result<Cow<'_, str>> {
    let other = || {
        Err(Error::unsupported(format!(
            "the pre-tokenizer {value} as a pattern"
        )))
    };
    let is_byte_level = |value: &Value, regex: bool| {
        value["type"] == "ByteLevel"
            && value["add_prefix_space"] == false
            && value["use_regex"].as_bool().unwrap_or(true) == regex
    };
    if is_byte_level(value, true) {
        return Ok(GPT2.into());
    }
    if is_byte_level(value, false) {
        return Ok(WHOLE.into());
    }
    match value["pretokenizers"].as_array().map(Vec::as_slice) {
        Some([split, last]) if split["type"] == "Split" && is_byte_level(last, false) => {
            let isolated = split["behavior"] == "Isolated" && split["invert"] == false;
            let removed = split["behavior"] == "Removed" && split["invert"] == true;
            match split["pattern"]["Regex"].as_str() {
                // An isolated match leaves the rest in, which ranks drop; the known patterns leave
                // nothing.
                Some(pattern) if removed || (isolated && is_known(pattern)) => Ok(pattern.into()),
                _ => other(),
            }
        }
        _ => other(),
    }
}

fn is_known(pattern: &str) -> bool {
    PATTERNS.iter().any(|(_, known)| *known == pattern)
}

/// Fails unless both engines read the pattern alike.
fn check_pattern(pattern: &str) -> Result<()> {
    let read = |dialect| Rules::recognise(pattern, dialect).map(|rules| format!("{rules:?}"));
    let (one, other) = (read(Dialect::FancyRegex), read(Dialect::Oniguruma));
    if pattern == WHOLE || (one.is_some() && one == other) {
        return Ok(());
    }
    Err(Error::unsupported(format!(
        "writing a tokenizer in another format whose pattern may mean something else there: {pattern:?}"
    )))
}
