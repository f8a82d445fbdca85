//! How a text becomes words: what the trainer of each parity does before it counts.
//!
//! A [`Recipe`] is data: it is written into files of counts, and counts may be added up only if their
//! recipes are equal. A [`Splitter`] is a recipe made ready. Splitting is the encoder's own
//! (`crate::split`, `crate::normalize`), so a tokenizer cuts texts as the training did. Tested against
//! the reference trainers.

use aho_corasick::{AhoCorasick, MatchKind};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::error::{Error, Result};
use crate::format::json::parts::pre_tokenizer;
use crate::format::sentencepiece::SPACE;
use crate::normalize::{PrefixMatcher, SentencePieceFlags, SentencePieceNormalizer};
use crate::simd::Isa;
use crate::split::{Batch, Behavior, Change, Dialect, Finder, PreTokenizer, Step, TakePieces};
use crate::text::Text;

use super::nmt_nfkc;
use super::table::Table;

/// Stands where a piece must not reach across, as in SentencePiece.
pub(super) const FENCE: char = '\u{1f}';
/// SentencePiece leaves out lines with this character, its own sign for the unknown.
const RESERVED: char = '\u{2585}';
/// Words are shorter than this, and texts that are not cut at all.
const LONGEST_WORD: usize = 1 << 31;

/// Which trainer is followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Parity {
    /// rustbpe 0.1, nanochat's trainer: bytes; of equally frequent pairs the one of lowest ids.
    Rustbpe,
    /// `BpeTrainer` of Hugging Face tokenizers 0.23: the same rule over an alphabet of characters.
    Hf,
    /// minbpe and tiktoken's educational trainer: of equally frequent pairs the one seen first.
    Minbpe,
    /// The assignment of Stanford's CS336: the pair of lexicographically greatest bytes.
    Cs336,
    /// SentencePiece 0.2.3: the shortest, then lexicographically smallest piece.
    SentencePiece,
}

/// What SentencePiece does to characters before it counts words.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Normalization {
    /// NFKC with the changes of a machine translation system: SentencePiece's default.
    #[default]
    NmtNfkc,
    /// Nothing.
    Identity,
}

/// How texts become words.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Recipe {
    pub(super) parity: Parity,
    pub(super) split: Split,
}

/// The cutting of texts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Split {
    /// What a pattern of the fancy-regex dialect matches; without one the text is one word. Special
    /// tokens in the text are cut out first.
    Pattern {
        pattern: Option<String>,
        special_tokens: Vec<String>,
    },
    /// A pre-tokenizer of tokenizer.json.
    PreTokenizer(Value),
    /// SentencePiece's own way.
    SentencePiece {
        normalization: Normalization,
        /// Longer texts, in bytes, are left out.
        longest: usize,
        /// Pieces that stand for themselves; in a text they are fences.
        meta: Vec<String>,
    },
}

impl Recipe {
    /// No recipe yet.
    pub(super) fn none() -> Recipe {
        Recipe {
            parity: Parity::Rustbpe,
            split: Split::PreTokenizer(Value::Null),
        }
    }

    /// Whether words must know where they were first seen.
    pub(super) fn is_ordered(&self) -> bool {
        self.parity == Parity::Minbpe
    }
}

/// The pre-tokenizer that `tokenizers` is used with for a pattern over bytes or characters.
pub(super) fn json_pre_tokenizer(pattern: Option<&str>, bytes: bool) -> Value {
    let mut steps = Vec::new();
    match pattern {
        None => {}
        Some("whitespace") => steps.push(json!({"type": "WhitespaceSplit"})),
        Some(pattern) => steps.push(json!({
            "type": "Split",
            "pattern": {"Regex": pattern},
            "behavior": "Isolated",
            "invert": false,
        })),
    }
    if bytes {
        steps.push(json!({
            "type": "ByteLevel",
            "add_prefix_space": false,
            "trim_offsets": true,
            "use_regex": false,
        }));
    }
    match steps.len() {
        0 => Value::Null,
        1 => steps.remove(0),
        _ => json!({"type": "Sequence", "pretokenizers": steps}),
    }
}

/// A recipe made ready.
pub(super) struct Splitter {
    way: Way,
    /// Texts are cut at these.
    special: Option<AhoCorasick>,
}

enum Way {
    Steps(PreTokenizer),
    SentencePiece(Box<Spaced>),
}

/// SentencePiece's way.
struct Spaced {
    normalizer: SentencePieceNormalizer,
    longest: usize,
    meta: PrefixMatcher,
}

impl Splitter {
    pub(super) fn new(recipe: &Recipe) -> Result<Splitter> {
        let (way, special) = match &recipe.split {
            Split::Pattern {
                pattern,
                special_tokens,
            } => {
                let steps = match pattern {
                    None => Vec::new(),
                    Some(pattern) => vec![Step::Split {
                        finder: Finder::pattern(pattern, Dialect::FancyRegex)?,
                        behavior: Behavior::Removed,
                        invert: true,
                    }],
                };
                (Way::Steps(PreTokenizer::new(steps)), at(special_tokens)?)
            }
            Split::PreTokenizer(value) => {
                let mut steps = pre_tokenizer(value)?;
                // Words of bytes are counted as the bytes they are.
                if matches!(steps.last(), Some(Step::Change(Change::Written))) {
                    steps.pop();
                }
                (Way::Steps(PreTokenizer::new(steps)), None)
            }
            Split::SentencePiece {
                normalization,
                longest,
                meta,
            } => {
                let spaced = Spaced {
                    normalizer: SentencePieceNormalizer::new(
                        &normalization.charsmap()?,
                        SentencePieceFlags {
                            add_dummy_prefix: true,
                            remove_extra_whitespaces: true,
                            escape_whitespaces: true,
                            treat_whitespace_as_suffix: false,
                        },
                    )?,
                    longest: *longest,
                    meta: PrefixMatcher::new(meta.iter().map(String::as_str))?,
                };
                (Way::SentencePiece(Box::new(spaced)), None)
            }
        };
        Ok(Splitter { way, special })
    }

    /// Count the words of a text that begins at the place `base` of all the texts; `room` is asked
    /// from time to time whether the table may grow. Says whether the text was left out.
    pub(super) fn count(
        &self,
        text: &str,
        base: u64,
        table: &mut Table,
        room: &mut dyn FnMut(&mut Table) -> Result<()>,
    ) -> Result<bool> {
        match &self.way {
            Way::SentencePiece(spaced) => {
                room(table)?;
                return Ok(spaced.count(text, 1, table));
            }
            Way::Steps(steps) => match &self.special {
                None => count_steps(steps, text, base, table, room)?,
                Some(special) => {
                    let mut start = 0;
                    for found in special.find_iter(text) {
                        let part = &text[start..found.start()];
                        count_steps(steps, part, base + start as u64, table, room)?;
                        start = found.end();
                    }
                    count_steps(steps, &text[start..], base + start as u64, table, room)?;
                }
            },
        }
        Ok(false)
    }

    /// Count a word that is there so many times, or for SentencePiece a text, as its own reader of
    /// words and counts has it. Says whether it was left out.
    pub(super) fn count_word(
        &self,
        word: &[u8],
        times: u64,
        place: u64,
        table: &mut Table,
    ) -> bool {
        match (&self.way, std::str::from_utf8(word)) {
            (Way::SentencePiece(spaced), Ok(text)) => spaced.count(text, times, table),
            (Way::SentencePiece(_), Err(_)) => true,
            (Way::Steps(_), _) => {
                table.add(word, times, place);
                false
            }
        }
    }
}

/// Finds any of these, the longest of those that start first; `None` if there are none.
fn at(special_tokens: &[String]) -> Result<Option<AhoCorasick>> {
    if special_tokens.is_empty() {
        return Ok(None);
    }
    AhoCorasick::builder()
        .match_kind(MatchKind::LeftmostLongest)
        .build(special_tokens)
        .map(Some)
        .map_err(|error| Error::unsupported(format!("these special tokens: {error}")))
}

/// Counts the pieces of a text as words.
struct Counting<'a> {
    bytes: &'a [u8],
    base: u64,
    table: &'a mut Table,
    room: &'a mut dyn FnMut(&mut Table) -> Result<()>,
}

impl TakePieces for Counting<'_> {
    #[inline(always)]
    fn take<I: Isa>(&mut self, _: I, batch: &Batch<'_>) -> Result<()> {
        (self.room)(self.table)?;
        for pair in batch.bounds.windows(2) {
            let (start, end) = (batch.base + pair[0] as usize, batch.base + pair[1] as usize);
            let place = self.base + start as u64;
            self.table.add_in(self.bytes, start, end, 1, place);
        }
        Ok(())
    }
}

fn count_steps(
    steps: &PreTokenizer,
    text: &str,
    base: u64,
    table: &mut Table,
    room: &mut dyn FnMut(&mut Table) -> Result<()>,
) -> Result<()> {
    let bytes = text.as_bytes();
    if bytes.len() >= LONGEST_WORD {
        return Err(Error::unsupported(
            "training on a text of 2 GiB or more; cut it into documents",
        ));
    }
    room(table)?;
    let mut counting = Counting {
        bytes,
        base,
        table,
        room,
    };
    if let Some(done) = steps.batches(text, None, &mut counting) {
        return done;
    }
    let mut found = 0usize;
    steps.pieces(&Text::untracked(text), false, &mut |text, range| {
        if found.is_multiple_of(PIECES_BETWEEN) {
            room(table)?;
        }
        found += 1;
        let place = base + range.start as u64;
        table.add_in(text.as_str().as_bytes(), range.start, range.end, 1, place);
        Ok(())
    })
}

/// So many pieces are counted before `room` is asked again; a batch of the scanner has as many.
pub(super) const PIECES_BETWEEN: usize = 1024;

impl Spaced {
    /// Count the words of a text that is there so many times; whether it was left out.
    fn count(&self, text: &str, times: u64, table: &mut Table) -> bool {
        // Its reader of lines has taken off their ends.
        let text = text.trim_end_matches(['\r', '\n']);
        if text.len() > self.longest || text.contains(RESERVED) {
            return true;
        }
        // Training normalises without regard to symbols that stand for themselves.
        let normal = self.normalizer.normalize(text, &PrefixMatcher::default());
        let normal = self.fenced(normal);
        let bytes = normal.as_bytes();
        let mut start = 0;
        for (at, _) in normal.match_indices(SPACE) {
            table.add_in(bytes, start, at, times, 0);
            start = at;
        }
        table.add_in(bytes, start, bytes.len(), times, 0);
        false
    }

    /// The text with a fence in place of each piece that stands for itself.
    fn fenced(&self, text: String) -> String {
        let bytes = text.as_bytes();
        if self.meta.is_empty() || !bytes.iter().any(|&byte| self.meta.starts(byte)) {
            return text;
        }
        let mut fenced = String::with_capacity(text.len());
        let (mut at, mut done) = (0, 0);
        while at < bytes.len() {
            let found = if self.meta.starts(bytes[at]) {
                self.meta.longest(&bytes[at..])
            } else {
                None
            };
            match found {
                Some(length) => {
                    fenced.push_str(&text[done..at]);
                    fenced.push(FENCE);
                    at += length;
                    done = at;
                }
                None => at += 1,
            }
        }
        fenced.push_str(&text[done..]);
        fenced
    }
}

impl Normalization {
    /// The rules as SentencePiece writes them into a model.
    pub(super) fn charsmap(self) -> Result<Vec<u8>> {
        match self {
            Normalization::NmtNfkc => nmt_nfkc::charsmap(),
            Normalization::Identity => Ok(Vec::new()),
        }
    }

    /// The name SentencePiece has for them.
    pub(super) fn name(self) -> &'static str {
        match self {
            Normalization::NmtNfkc => "nmt_nfkc",
            Normalization::Identity => "identity",
        }
    }
}
