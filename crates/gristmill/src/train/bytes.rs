//! Training over bytes: the rules of rustbpe, minbpe and CS336, and a tokenizer of ranks.
//!
//! The first 256 tokens are the bytes, then come the merges in their order, then the special tokens.
//! A rank tokenizer joins neighbours whose bytes together are a token. For merges made by training that
//! is the same as applying the merges: within a token that training made, the same pairs meet in the
//! same order wherever it stands. Tested against the trainers.

use std::borrow::Borrow;
use std::collections::BTreeMap;

use crate::error::{Error, Result};
use crate::format::ranks;
use crate::tokenizer::Tokenizer;
use crate::unicode::Script;
use crate::vocab::{LONGEST_TOKEN, Vocab};

use super::counts::WordCounts;
use super::merge::Goal;
use super::progress::Progress;
use super::queue::Ties;
use super::recipe::Parity;
use super::symbols::{Limits, Symbols};
use super::{Fill, Trainer, merge_words};

/// Matches any text whole: what a tokenizer without a pattern cuts by.
pub(super) const WHOLE: &str = r"[\s\S]+";

/// The 256 bytes as first symbols.
pub(super) fn byte_symbols(limits: Limits) -> Result<Symbols> {
    let mut symbols = Symbols::new(limits);
    for byte in 0..=u8::MAX {
        symbols.add(&[byte], 1, Script::ANY)?;
    }
    Ok(symbols)
}

impl Trainer {
    pub(super) fn train_bytes<C: Borrow<WordCounts>>(
        &self,
        counts: C,
        look: &mut dyn FnMut(&Progress) -> Result<()>,
    ) -> Result<Tokenizer> {
        let special = self.special_tokens.len();
        if self.vocab_size < 256 + special {
            return Err(Error::unsupported(format!(
                "vocab_size={}: the 256 bytes and {special} special tokens need at least {}",
                self.vocab_size,
                256 + special
            )));
        }
        let mut symbols = byte_symbols(Limits {
            size: self.max_token_length,
            size_of_first: true,
            ..Limits::default()
        })?;
        let ties = match self.parity {
            Parity::Minbpe => Ties::First,
            Parity::Cs336 => Ties::Greatest,
            _ => Ties::Ids,
        };
        let goal = Goal {
            symbols: self.vocab_size - special,
            count: self.min_frequency,
        };
        let fill = |give: &mut Fill<'_>| in_order(counts, ties == Ties::First, give);
        merge_words(&mut symbols, ties, goal, fill, look)?;
        let mut vocab = Vocab::with_capacity(symbols.len());
        for id in 0..symbols.len() as u32 {
            let token = symbols.bytes(id);
            if token.len() > LONGEST_TOKEN {
                return Err(Error::unsupported(format!(
                    "a token of {} bytes, which this training made of a long run; train with \
                     max_token_length={LONGEST_TOKEN} or less",
                    token.len()
                )));
            }
            vocab.insert(token, id)?;
        }
        let ids = symbols.len() as u32..;
        let special: BTreeMap<String, u32> = self.special_tokens.iter().cloned().zip(ids).collect();
        let config = ranks::Config {
            name: None,
            pattern: self.expression().unwrap_or(WHOLE).to_owned(),
        };
        ranks::build(ranks::model(vocab)?, &special, config)
    }
}

/// Give the words as bytes; `ordered` as the texts have them.
fn in_order<C: Borrow<WordCounts>>(counts: C, ordered: bool, give: &mut Fill<'_>) -> Result<()> {
    let mut row = Vec::new();
    let mut put = |word: &[u8], count| {
        row.clear();
        row.extend(word.iter().map(|&byte| u32::from(byte)));
        give(&row, count)
    };
    if !ordered {
        return counts
            .borrow()
            .entries(&mut |entry| put(entry.word, entry.count));
    }
    // Each word's place in the texts, and where in `written` it stands with its count and its length.
    let mut order: Vec<(u64, u64)> = Vec::new();
    let mut written = Vec::new();
    counts.borrow().entries(&mut |entry| {
        order.push((entry.first, written.len() as u64));
        written.extend(entry.count.to_le_bytes());
        written.extend((entry.word.len() as u32).to_le_bytes());
        written.extend(entry.word);
        Ok(())
    })?;
    drop(counts);
    order.sort_unstable();
    order.iter().try_for_each(|&(_, at)| {
        let entry = &written[at as usize..];
        let Some((&count, rest)) = entry.split_first_chunk() else {
            return Ok(());
        };
        let Some((&length, rest)) = rest.split_first_chunk() else {
            return Ok(());
        };
        let length = u32::from_le_bytes(length) as usize;
        put(&rest[..length], u64::from_le_bytes(count))
    })
}
