//! Training as SentencePiece does it, and its model file.
//!
//! The most frequent characters become pieces, so many that they cover the share asked for; no piece
//! reaches across any other character, across a change of script, or beyond 16 characters. Merges come
//! first in the file, then characters, each with the next lower score. Unlike that library, which goes
//! on with pairs that stand nowhere when it runs out of others, training ends there. Tested against the
//! library.

use std::borrow::Borrow;
use std::collections::BTreeMap;

use crate::error::{Error, Result};
use crate::format;
use crate::tokenizer::Tokenizer;
use crate::unicode::{Script, sentencepiece_script};

use super::counts::WordCounts;
use super::merge::Goal;
use super::progress::Progress;
use super::queue::Ties;
use super::recipe::FENCE;
use super::symbols::{Limits, Symbols};
use super::{Fill, Trainer, merge_words};

/// The longest piece, unless another length is asked for.
const LONGEST: u32 = 16;
/// What stands for the unknown, and around a text.
const OWN: [&str; 3] = ["<unk>", "<s>", "</s>"];

impl Trainer {
    /// The pieces that stand for themselves, in the order of their ids.
    pub(super) fn meta_pieces(&self) -> Vec<String> {
        let own = OWN.iter().map(|&piece| piece.to_owned());
        let special = self.special_tokens.iter();
        let special = special.filter(|token| !OWN.contains(&token.as_str()));
        let bytes = (0..=u8::MAX)
            .filter(|_| self.byte_fallback)
            .map(|byte| format!("<0x{byte:02X}>"));
        own.chain(special.cloned()).chain(bytes).collect()
    }

    pub(super) fn train_sentencepiece<C: Borrow<WordCounts>>(
        &self,
        counts: C,
        look: &mut dyn FnMut(&Progress) -> Result<()>,
    ) -> Result<Tokenizer> {
        let meta = self.meta_pieces().len();
        let chars = self.required_chars(counts.borrow())?;
        let needed = meta + chars.len();
        if self.vocab_size < needed {
            return Err(Error::unsupported(format!(
                "vocab_size={}: {} characters and {meta} other pieces need at least {needed}; \
                 raise it, or lower character_coverage",
                self.vocab_size,
                chars.len()
            )));
        }
        let mut symbols = Symbols::new(Limits {
            size: Some(self.max_token_length.unwrap_or(LONGEST)),
            size_of_first: true,
            scripts: true,
            ..Limits::default()
        });
        let mut ids = BTreeMap::new();
        for &char in &chars {
            let mut buffer = [0; 4];
            let bytes = char.encode_utf8(&mut buffer).as_bytes();
            // The visible space goes with any script.
            let script = match char {
                '\u{2581}' => Script::ANY,
                char => sentencepiece_script(char),
            };
            ids.insert(char, symbols.add(bytes, 1, script)?);
        }
        let goal = Goal {
            symbols: self.vocab_size - meta,
            count: self.min_frequency,
        };
        let fill = |give: &mut Fill<'_>| {
            let counts = counts;
            let mut row = Vec::new();
            counts.borrow().entries(&mut |entry| {
                row.clear();
                for char in chars_of(entry.word)? {
                    match ids.get(&char) {
                        Some(&id) => row.push(id),
                        None => {
                            give(&row, entry.count)?;
                            row.clear();
                        }
                    }
                }
                give(&row, entry.count)
            })
        };
        merge_words(&mut symbols, Ties::Shortest, goal, fill, look)?;
        format::sentencepiece::read(&self.model_file(&symbols, chars.len())?)
    }

    /// The characters that get a piece, most frequent first.
    fn required_chars(&self, counts: &WordCounts) -> Result<Vec<char>> {
        let mut seen: BTreeMap<char, u64> = BTreeMap::new();
        let mut all = 0u64;
        counts.entries(&mut |entry| {
            for char in chars_of(entry.word)?.filter(|&char| char != '\0') {
                let count = seen.entry(char).or_default();
                *count = count.saturating_add(entry.count);
                all = all.saturating_add(entry.count);
            }
            Ok(())
        })?;
        if all == 0 {
            return Err(Error::unsupported(format!(
                "training on no text{}",
                match counts.left_out() {
                    0 => String::new(),
                    texts => format!(" but {texts} that are longer than max_sentence_length"),
                }
            )));
        }
        let mut seen: Vec<(char, u64)> = seen.into_iter().collect();
        seen.sort_by_key(|&(char, count)| (std::cmp::Reverse(count), char));
        let mut covered = 0u64;
        let mut required = Vec::new();
        for (char, count) in seen {
            // The comparison is of single precision there.
            let share = (covered as f64 / all as f64) as f32;
            if share >= self.character_coverage {
                break;
            }
            covered = covered.saturating_add(count);
            if char != FENCE {
                required.push(char);
            }
        }
        Ok(required)
    }

    fn model_file(&self, symbols: &Symbols, chars: usize) -> Result<Vec<u8>> {
        let meta = self.meta_pieces();
        let mut file = Vec::new();
        for piece in &meta {
            let kind = match piece.as_str() {
                "<unk>" => 2,
                byte if byte.starts_with("<0x") && !self.special_tokens.contains(piece) => 6,
                _ => 3,
            };
            write_piece(&mut file, piece.as_bytes(), 0.0, kind);
        }
        let pieces = (chars..symbols.len()).chain(0..chars);
        for (number, id) in pieces.enumerate() {
            // Negative zero, as the library has it for the first.
            let score = -(number as f32);
            write_piece(&mut file, symbols.bytes(id as u32), score, 1);
        }
        let mut trainer = Vec::new();
        write_number(&mut trainer, 3, 2);
        write_number(&mut trainer, 4, (meta.len() + symbols.len()) as u64);
        write_fixed(&mut trainer, 10, self.character_coverage);
        write_number(&mut trainer, 35, self.byte_fallback.into());
        write_bytes(&mut file, 2, &trainer);
        let mut normalizer = Vec::new();
        write_bytes(&mut normalizer, 1, self.normalization.name().as_bytes());
        write_bytes(&mut normalizer, 2, &self.normalization.charsmap()?);
        for switch in [3, 4, 5] {
            write_number(&mut normalizer, switch, 1);
        }
        write_bytes(&mut file, 3, &normalizer);
        Ok(file)
    }
}

fn chars_of(word: &[u8]) -> Result<std::str::Chars<'_>> {
    match std::str::from_utf8(word) {
        Ok(word) => Ok(word.chars()),
        Err(_) => Err(Error::unsupported("a word that is not UTF-8")),
    }
}

fn write_piece(file: &mut Vec<u8>, piece: &[u8], score: f32, kind: u64) {
    let mut entry = Vec::new();
    write_bytes(&mut entry, 1, piece);
    write_fixed(&mut entry, 2, score);
    if kind != 1 {
        write_number(&mut entry, 3, kind);
    }
    write_bytes(file, 1, &entry);
}

fn write_varint(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

fn write_number(out: &mut Vec<u8>, field: u64, number: u64) {
    write_varint(out, field << 3);
    write_varint(out, number);
}

fn write_bytes(out: &mut Vec<u8>, field: u64, bytes: &[u8]) {
    write_varint(out, field << 3 | 2);
    write_varint(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

fn write_fixed(out: &mut Vec<u8>, field: u64, number: f32) {
    write_varint(out, field << 3 | 5);
    out.extend_from_slice(&number.to_le_bytes());
}
