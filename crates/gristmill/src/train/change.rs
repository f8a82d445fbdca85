//! An existing tokenizer made larger by training on, or smaller by leaving out its last tokens.
//!
//! Training on begins with the words as the tokenizer encodes them; new tokens get the ids after all
//! there are, so no old id changes its meaning. Leaving out goes from the last merge backwards, so
//! what stays is a tokenizer of its own; the ids that stay close up in their order. Byte-level
//! tokenizers only, whatever their format; others are refused by name. Tested against the libraries
//! that read the results.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use crate::alphabet;
use crate::error::{Error, Result};
use crate::format::{self, Source, json, ranks};
use crate::model::bpe::Cache;
use crate::parts::{Normalization, Spelling};
use crate::tokenizer::Tokenizer;
use crate::unicode::Script;
use crate::vocab::{LONGEST_TOKEN, Vocab};

use super::counts::WordCounts;
use super::merge::{Goal, Merge};
use super::progress::Progress;
use super::queue::Ties;
use super::recipe::{Parity, Recipe, Split};
use super::symbols::{Limits, Symbols};
use super::{Fill, merge_words};

impl Tokenizer {
    /// Counts without words yet, for texts cut as this tokenizer cuts them.
    pub fn counts(&self, threads: usize, memory_limit: Option<usize>) -> Result<WordCounts> {
        Ok(WordCounts::new(self.recipe()?, threads, memory_limit))
    }

    fn recipe(&self) -> Result<Recipe> {
        let parts = &self.parts;
        let refuse = |what: &str| Err(Error::unsupported(format!("training on with {what}")));
        match &parts.source {
            Source::Ranks(config) => Ok(Recipe {
                parity: Parity::Rustbpe,
                split: Split::Pattern {
                    pattern: Some(config.pattern.clone()),
                    special_tokens: Vec::new(),
                },
            }),
            Source::Json(config) if parts.spelling == Spelling::Alphabet => {
                if !matches!(parts.normalization, Normalization::None) {
                    return refuse("a tokenizer that has a normalizer");
                }
                let pre_tokenizer = config.fields().get("pre_tokenizer");
                Ok(Recipe {
                    parity: Parity::Hf,
                    split: Split::PreTokenizer(pre_tokenizer.cloned().unwrap_or_default()),
                })
            }
            source => refuse(&format!("a {} that is not of bytes", source.name())),
        }
    }

    /// This tokenizer with up to so many tokens more, merged from words that its
    /// [`counts`](Tokenizer::counts) hold, no pair rarer than `min_frequency`.
    pub fn extended(
        &self,
        counts: &WordCounts,
        tokens: usize,
        min_frequency: u64,
        look: &mut dyn FnMut(&Progress) -> Result<()>,
    ) -> Result<Tokenizer> {
        counts.check(&self.recipe()?, "word counts for this tokenizer")?;
        let parts = &self.parts;
        let mut symbols = Symbols::new(Limits {
            size: Some(LONGEST_TOKEN as u32),
            size_of_first: true,
            known_stay: true,
            many_ways: true,
            ..Limits::default()
        })
        .one_of_each("");
        let end = parts.id_end();
        for id in 0..end {
            match parts.model.vocab.get(id) {
                Some(token) => symbols.add(token, token.len() as u32, Script::ANY)?,
                None => symbols.add_special(&[])?,
            };
        }
        let goal = Goal {
            symbols: end as usize + tokens,
            count: min_frequency,
        };
        let mut cache = Cache::new();
        let fill = |give: &mut Fill<'_>| {
            let mut row = Vec::new();
            counts.entries(&mut |entry| {
                row.clear();
                parts.model.encode(entry.word, &mut cache, &mut row)?;
                give(&row, entry.count)
            })
        };
        let merges = merge_words(&mut symbols, Ties::Ids, goal, fill, look)?;
        match &parts.source {
            Source::Ranks(config) => {
                let mut vocab = copy(&parts.model.vocab, Some)?;
                for id in end..symbols.len() as u32 {
                    vocab.insert(symbols.bytes(id), id)?;
                }
                ranks::build(ranks::model(vocab)?, &self.special_ids(), plain(config))
            }
            _ => self.with_merges(&symbols, end, &merges),
        }
    }

    fn special_ids(&self) -> BTreeMap<String, u32> {
        let added = self.parts.added.iter();
        added
            .map(|token| (token.content.clone(), token.id))
            .collect()
    }

    fn with_merges(&self, symbols: &Symbols, end: u32, merges: &[Merge]) -> Result<Tokenizer> {
        let mut file = self.as_json()?;
        let written = |id: u32| alphabet::write(symbols.bytes(id));
        let model = &mut file["model"];
        if let Value::Object(vocab) = &mut model["vocab"] {
            // The library gives ids of its own to added tokens that the model does not have.
            for token in self.parts.added.iter() {
                vocab
                    .entry(token.content.clone())
                    .or_insert(token.id.into());
            }
            vocab.extend((end..symbols.len() as u32).map(|id| (written(id), id.into())));
        }
        if let Value::Array(list) = &mut model["merges"] {
            let pair = |&(left, right, _): &Merge| json!([written(left), written(right)]);
            list.extend(merges.iter().map(pair));
        }
        from_json(&file)
    }

    fn as_json(&self) -> Result<Value> {
        serde_json::from_slice(&format::write(&self.parts)?)
            .map_err(|error| Error::format(error.to_string()))
    }

    /// This tokenizer with at most so many tokens, special ones included.
    pub fn pruned(&self, vocab_size: usize) -> Result<Tokenizer> {
        self.recipe()?;
        let parts = &self.parts;
        let gone = self.last_tokens(self.vocab_size().saturating_sub(vocab_size))?;
        let mut kept = BTreeMap::new();
        for id in (0..parts.id_end()).filter(|&id| parts.has(id) && !gone.contains(&id)) {
            kept.insert(id, kept.len() as u32);
        }
        let new_id = |id: u32| kept.get(&id).copied();
        match &parts.source {
            Source::Ranks(config) => {
                let vocab = copy(&parts.model.vocab, new_id)?;
                let special = self.special_ids().into_iter();
                let special = special.filter_map(|(token, id)| Some((token, new_id(id)?)));
                ranks::build(ranks::model(vocab)?, &special.collect(), plain(config))
            }
            _ => self.without(&gone, new_id),
        }
    }

    /// The tokens that so many last merges made.
    fn last_tokens(&self, number: usize) -> Result<BTreeSet<u32>> {
        let parts = &self.parts;
        let mut made: BTreeMap<u32, u32> = BTreeMap::new();
        for (_, _, merge) in parts.model.merges().iter() {
            let rank = made.entry(merge.id).or_insert(merge.rank);
            *rank = merge.rank.min(*rank);
        }
        let mut made: Vec<(u32, u32)> = made
            .into_iter()
            .filter(|&(id, _)| parts.added.by_id(id).is_none())
            .map(|(id, rank)| (rank, id))
            .collect();
        made.sort_unstable_by_key(|&made| std::cmp::Reverse(made));
        if made.len() < number {
            return Err(Error::unsupported(format!(
                "a vocabulary smaller than {}: only tokens that merges made are left out",
                self.vocab_size() - made.len()
            )));
        }
        Ok(made[..number].iter().map(|&(_, id)| id).collect())
    }

    fn without(
        &self,
        gone: &BTreeSet<u32>,
        new_id: impl Fn(u32) -> Option<u32>,
    ) -> Result<Tokenizer> {
        let parts = &self.parts;
        let mut file = self.as_json()?;
        let moved = parts
            .added
            .iter()
            .any(|token| new_id(token.id) != Some(token.id));
        if moved && !file["post_processor"].is_null() {
            return Err(Error::unsupported(
                "leaving out tokens where the post-processor names ids that would change",
            ));
        }
        let number = |value: &Value| {
            value
                .as_u64()
                .and_then(|id| new_id(u32::try_from(id).ok()?))
        };
        if let Value::Array(added) = &mut file["added_tokens"] {
            for token in added {
                token["id"] = number(&token["id"]).into();
            }
        }
        let model = &mut file["model"];
        if let Value::Object(vocab) = &mut model["vocab"] {
            let kept = std::mem::take(vocab).into_iter();
            let kept = kept.filter_map(|(token, id)| Some((token, number(&id)?.into())));
            *vocab = kept.collect();
        }
        let merges = parts.model.merges().in_order();
        let kept = merges.into_iter().filter(|(left, right, merge)| {
            [left, right, &merge.id].iter().all(|id| !gone.contains(id))
        });
        let spelled = |id: u32| parts.spelled(id).unwrap_or_default();
        let kept = kept.map(|(left, right, _)| json!([spelled(left), spelled(right)]));
        model["merges"] = kept.collect();
        from_json(&file)
    }
}

fn plain(config: &ranks::Config) -> ranks::Config {
    ranks::Config {
        name: None,
        pattern: config.pattern.clone(),
    }
}

/// A vocabulary with other ids; tokens that get none are left out.
fn copy(vocab: &Vocab, new_id: impl Fn(u32) -> Option<u32>) -> Result<Vocab> {
    let mut copy = Vocab::with_capacity(vocab.len());
    for (id, token) in vocab.iter() {
        if let Some(id) = new_id(id) {
            copy.insert(token, id)?;
        }
    }
    Ok(copy)
}

fn from_json(file: &Value) -> Result<Tokenizer> {
    let file = serde_json::to_vec(file).map_err(|error| Error::format(error.to_string()))?;
    json::read(&file)
}
