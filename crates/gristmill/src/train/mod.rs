//! Training: texts to words, words to merges, merges to a [`Tokenizer`].
//!
//! A [`Trainer`] is what is wanted; [`WordCounts`] are what was seen; merging one with the other's
//! rules gives the merges of the trainer that is followed, pair for pair:
//!
//! * `recipe.rs`: how texts become words; `counts.rs`, `table.rs`, `run.rs`: words counted on all
//!   cores, in memory and in files;
//! * `bytes.rs`, `json.rs`, `sentencepiece.rs`: for each family of parities the first symbols, and the
//!   tokenizer made of the merges;
//! * `symbols.rs`, `words.rs`, `pairs.rs`, `survey.rs`, `queue.rs`, `merge.rs`: the merging, the same
//!   for all;
//! * `change.rs`: an existing tokenizer made larger or smaller; `export.rs`: written in another format.
//!
//! The result does not depend on the number of threads, on how texts are cut into batches, or on the
//! memory limit. Tested here against counting all pairs anew before each merge, and from Python
//! against the trainers themselves.

mod bytes;
mod change;
mod counts;
mod export;
mod json;
mod merge;
mod nmt_nfkc;
mod pairs;
mod progress;
mod queue;
mod recipe;
mod run;
mod sentencepiece;
mod survey;
mod symbols;
mod table;
#[cfg(test)]
mod tests;
mod words;

use std::borrow::Borrow;

use crate::error::{Error, Result};
use crate::tokenizer::Tokenizer;

pub use counts::{BATCH_BYTES, Texts, WordCounts};
pub use progress::{Progress, Stage};
pub use recipe::{Normalization, Parity};

use merge::{Goal, Merge, Merging};
use queue::Ties;
use recipe::{Recipe, Split};
use survey::Room;
use symbols::Symbols;
use words::{Slot, Words};

/// rustbpe's default, which is GPT-4's.
const GPT4: &str = r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+";
/// nanochat's, with numbers of up to two digits.
const NANOCHAT: &str = r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}{1,2}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+";
/// GPT-2's.
const GPT2: &str = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+";
/// o200k_base's, spelled as every engine reads it.
const O200K: &str = r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+";
/// Llama 3's.
const LLAMA3: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";
/// Qwen2's and Qwen3's.
const QWEN2: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";

/// Patterns that go by a name.
pub(crate) const PATTERNS: [(&str, &str); 7] = [
    ("gpt2", GPT2),
    ("gpt4", GPT4),
    ("cl100k", GPT4),
    ("o200k", O200K),
    ("llama3", LLAMA3),
    ("qwen2", QWEN2),
    ("nanochat", NANOCHAT),
];

/// What first symbols are, for [`Parity::Hf`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Units {
    /// Bytes, written in the byte-level alphabet.
    #[default]
    Bytes,
    /// Characters.
    Chars,
}

/// What is to be trained.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Trainer {
    /// The number of tokens, special ones included.
    pub vocab_size: usize,
    /// Whose merges are to be made.
    pub parity: Parity,
    /// The name of a pattern, or a regular expression, that cuts texts into words. Without one a text
    /// is a word. SentencePiece has its own way and no pattern.
    pub pattern: Option<String>,
    /// Special tokens; control symbols of SentencePiece.
    pub special_tokens: Vec<String>,
    /// Rarer pairs are not merged.
    pub min_frequency: u64,
    /// No token is longer, in bytes or for SentencePiece in characters. For [`Parity::Hf`] tokens are
    /// shorter, as in that library, but for those of two first symbols.
    pub max_token_length: Option<u32>,
    /// For [`Parity::Hf`]: only so many of the most frequent characters are kept.
    pub limit_alphabet: Option<usize>,
    /// For [`Parity::Hf`]: characters that are kept whether they are seen or not; by default all that
    /// write bytes, or none if the units are characters.
    pub initial_alphabet: Option<Vec<char>>,
    /// For [`Parity::Hf`]: begins every symbol that does not begin a word.
    pub continuing_subword_prefix: Option<String>,
    /// For [`Parity::Hf`]: ends every symbol that ends a word.
    pub end_of_word_suffix: Option<String>,
    /// For [`Parity::Hf`]: what first symbols are.
    pub units: Units,
    /// For SentencePiece: the share of characters that get a piece of their own.
    pub character_coverage: f32,
    /// For SentencePiece: what is done to characters first.
    pub normalization: Normalization,
    /// For SentencePiece: other characters become bytes, each a piece.
    pub byte_fallback: bool,
    /// For SentencePiece: longer texts, in bytes, are left out.
    pub max_sentence_length: usize,
    /// The threads to count words on; 0 for as many as there are cores.
    pub threads: usize,
    /// The bytes that tables of words may take before they go to files.
    pub memory_limit: Option<usize>,
}

impl Trainer {
    /// A trainer with the defaults of the one it follows.
    pub fn new(vocab_size: usize, parity: Parity) -> Trainer {
        let pattern = match parity {
            Parity::Rustbpe | Parity::Minbpe => Some("gpt4".to_owned()),
            Parity::Hf | Parity::Cs336 => Some("gpt2".to_owned()),
            Parity::SentencePiece => None,
        };
        Trainer {
            vocab_size,
            parity,
            pattern,
            special_tokens: Vec::new(),
            min_frequency: 0,
            max_token_length: None,
            limit_alphabet: None,
            initial_alphabet: None,
            continuing_subword_prefix: None,
            end_of_word_suffix: None,
            units: Units::Bytes,
            character_coverage: 0.9995,
            normalization: Normalization::NmtNfkc,
            byte_fallback: false,
            max_sentence_length: 4192,
            threads: 0,
            memory_limit: None,
        }
    }

    /// The regular expression that `pattern` names or is.
    fn expression(&self) -> Option<&str> {
        let pattern = self.pattern.as_deref()?;
        let known = PATTERNS.iter().find(|(name, _)| *name == pattern);
        Some(known.map_or(pattern, |(_, expression)| expression))
    }

    /// Fails if the options do not make sense together.
    pub fn check(&self) -> Result<()> {
        let refuse = |what: String| Err(Error::unsupported(what));
        let mut seen = std::collections::BTreeSet::new();
        for token in &self.special_tokens {
            if token.is_empty() || !seen.insert(token) {
                return refuse(format!("the special token {token:?}, empty or given twice"));
            }
        }
        let only_hf = [
            ("limit_alphabet", self.limit_alphabet.is_some()),
            ("initial_alphabet", self.initial_alphabet.is_some()),
            (
                "continuing_subword_prefix",
                self.continuing_subword_prefix.is_some(),
            ),
            ("end_of_word_suffix", self.end_of_word_suffix.is_some()),
            ("units=\"chars\"", self.units != Units::Bytes),
        ];
        if let Some((name, _)) = only_hf.iter().find(|(_, given)| *given)
            && self.parity != Parity::Hf
        {
            return refuse(format!("{name}, which only parity=\"hf\" has"));
        }
        if self.parity == Parity::SentencePiece && self.pattern.is_some() {
            return refuse(
                "a pattern with parity=\"sentencepiece\", which cuts words at white space".into(),
            );
        }
        if !(0.98..=1.0).contains(&self.character_coverage) {
            return refuse(format!(
                "character_coverage={}; SentencePiece takes 0.98 to 1.0",
                self.character_coverage
            ));
        }
        if self.parity != Parity::Hf && self.pattern.as_deref() == Some("whitespace") {
            return refuse("the pattern \"whitespace\", which only parity=\"hf\" has".into());
        }
        Ok(())
    }

    fn recipe(&self) -> Recipe {
        let split = match self.parity {
            Parity::Rustbpe | Parity::Minbpe | Parity::Cs336 => Split::Pattern {
                pattern: self.expression().map(str::to_owned),
                special_tokens: match self.parity {
                    Parity::Cs336 => self.special_tokens.clone(),
                    _ => Vec::new(),
                },
            },
            Parity::Hf => Split::PreTokenizer(recipe::json_pre_tokenizer(
                self.expression(),
                self.units == Units::Bytes,
            )),
            Parity::SentencePiece => Split::SentencePiece {
                normalization: self.normalization,
                longest: self.max_sentence_length,
                meta: self.meta_pieces(),
            },
        };
        Recipe {
            parity: self.parity,
            split,
        }
    }

    /// Counts without words yet, for texts cut as this trainer wants them.
    pub fn counts(&self) -> Result<WordCounts> {
        self.check()?;
        Ok(WordCounts::new(
            self.recipe(),
            self.threads,
            self.memory_limit,
        ))
    }

    /// Merge the words. Counts that are given away, not lent, are dropped before the merging, which
    /// then takes less memory. `look` is called from time to time; its error ends the training.
    pub fn train<C: Borrow<WordCounts>>(
        &self,
        counts: C,
        look: &mut dyn FnMut(&Progress) -> Result<()>,
    ) -> Result<Tokenizer> {
        self.check()?;
        let recipe = self.recipe();
        counts
            .borrow()
            .check(&recipe, "word counts for this trainer")?;
        match self.parity {
            Parity::Rustbpe | Parity::Minbpe | Parity::Cs336 => self.train_bytes(counts, look),
            Parity::Hf => self.train_json(counts, look),
            Parity::SentencePiece => self.train_sentencepiece(counts, look),
        }
    }
}

/// Between two looks.
const WORDS_BETWEEN: u64 = 1 << 16;

/// Takes words: symbols, and count. They come in the order in which the texts have them first, where
/// that matters.
type Fill<'a> = dyn FnMut(&[u32], u64) -> Result<()> + 'a;

/// Merge words, which `fill` gives as symbols; what it needs for that is dropped before the merging.
fn merge_words(
    symbols: &mut Symbols,
    ties: Ties,
    goal: Goal,
    fill: impl FnOnce(&mut Fill<'_>) -> Result<()>,
    look: &mut dyn FnMut(&Progress) -> Result<()>,
) -> Result<Vec<Merge>> {
    // Symbols of two bytes, for as long as they do.
    let narrow = if symbols.one_way() {
        symbols.len()
    } else {
        goal.symbols.max(symbols.len())
    };
    if narrow < u16::END as usize {
        merge_slots::<u16>(symbols, ties, goal, Room::of, fill, look)
    } else {
        merge_slots::<u32>(symbols, ties, goal, Room::of, fill, look)
    }
}

fn merge_slots<S: Slot>(
    symbols: &mut Symbols,
    ties: Ties,
    goal: Goal,
    room: fn(usize) -> Room,
    fill: impl FnOnce(&mut Fill<'_>) -> Result<()>,
    look: &mut dyn FnMut(&Progress) -> Result<()>,
) -> Result<Vec<Merge>> {
    let mut words = Words::<S>::new();
    let wanted = goal.symbols.saturating_sub(symbols.len()) as u64;
    let (mut number, mut sum) = (0, 0u64);
    fill(&mut |word, count| {
        if number % WORDS_BETWEEN == 0 {
            look(&Progress {
                stage: Stage::Pairs,
                words: number,
                wanted,
                ..Progress::default()
            })?;
        }
        number += 1;
        // Every pair's count is at most this.
        let pairs = count.checked_mul(word.len() as u64);
        sum = pairs
            .and_then(|pairs| sum.checked_add(pairs))
            .ok_or_else(|| Error::unsupported("counts whose sum does not fit 64 bits"))?;
        words.push(word.iter().copied(), count)
    })?;
    let mut look = |progress: &Progress| {
        look(&Progress {
            words: number,
            wanted,
            ..*progress
        })
    };
    look(&Progress {
        stage: Stage::Pairs,
        ..Progress::default()
    })?;
    let room = room(words.len());
    let mut merges = Vec::new();
    let end = goal.symbols.min(S::END as usize);
    let merging = Merging::new(words, symbols, ties, goal, room);
    let mut words = merging.run(end, &mut merges, &mut look)?;
    if symbols.len() == end && end < goal.symbols {
        words.compact(|id| symbols.span(id))?;
        symbols.unify_spans();
        let merging = Merging::new(words.resized::<u32>()?, symbols, ties, goal, room);
        merging.run(goal.symbols, &mut merges, &mut look)?;
    }
    Ok(merges)
}
