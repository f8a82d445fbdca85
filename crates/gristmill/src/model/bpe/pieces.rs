//! SentencePiece's beginning and end of merging.
//!
//! A text begins as its characters, but for user-defined symbols, which stand as they are and merge
//! with nothing. A character may take part in merges without being a token itself; left alone at the
//! end it is as unknown as one that takes part in none. An unknown character becomes its byte tokens
//! where the model has them, else the unknown token, one for a run. Such characters are symbols of
//! their own while merging, numbered from [`Pieces::first_own`] on. Tested against `sentencepiece`.

use rustc_hash::FxHashMap;

use crate::error::Result;
use crate::normalize::PrefixMatcher;
use crate::vocab::Vocab;

use super::{Covered, Merge, Merges};

/// How a SentencePiece model's texts become symbols and its symbols tokens.
pub(crate) struct Pieces {
    /// User-defined symbols.
    pub(crate) fixed: PrefixMatcher,
    /// The symbol of each character that is a token or part of one.
    chars: FxHashMap<char, u32>,
    /// The characters that are no tokens, by symbol, from `first_own` on.
    own: Vec<char>,
    first_own: u32,
    unknown: u32,
    /// The byte tokens, if unknown characters become bytes.
    bytes: Option<Box<[u32; 256]>>,
}

/// A kind of piece that takes part in merging.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Normal,
    UserDefined,
}

/// A piece of the model: its text, id, score and kind.
pub(crate) struct Piece<'a> {
    pub(crate) text: &'a str,
    pub(crate) id: u32,
    pub(crate) score: f32,
    pub(crate) kind: Kind,
}

impl Pieces {
    /// The symbols and merges of a model. `vocab` holds the pieces and everything else.
    pub(crate) fn new(
        pieces: &[Piece<'_>],
        vocab: &Vocab,
        fixed: PrefixMatcher,
        unknown: u32,
        bytes: Option<Box<[u32; 256]>>,
    ) -> Result<(Pieces, Merges)> {
        let first_own = vocab.id_end();
        let mut model = Pieces {
            fixed,
            chars: FxHashMap::default(),
            own: Vec::new(),
            first_own,
            unknown,
            bytes,
        };
        let normal = |piece: &&Piece<'_>| piece.kind == Kind::Normal;
        // A user-defined symbol of one character is never met as a character.
        let mut of_text: FxHashMap<&str, u32> = FxHashMap::default();
        for piece in pieces.iter().filter(normal) {
            of_text.insert(piece.text, piece.id);
            if let Some(char) = only_char(piece.text) {
                model.chars.insert(char, piece.id);
            }
        }
        for char in pieces
            .iter()
            .filter(normal)
            .flat_map(|piece| piece.text.chars())
        {
            model.chars.entry(char).or_insert_with(|| {
                model.own.push(char);
                first_own + (model.own.len() - 1) as u32
            });
        }
        let ranks = ranks(pieces);
        let mut merges = Vec::with_capacity(pieces.len() * 3);
        let symbol = |text: &str| match only_char(text) {
            Some(char) => model.chars.get(&char).copied(),
            None => of_text.get(text).copied(),
        };
        for (piece, &rank) in pieces.iter().zip(&ranks) {
            if piece.kind != Kind::Normal {
                continue;
            }
            for (cut, _) in piece.text.char_indices().skip(1) {
                let (left, right) = piece.text.split_at(cut);
                if let Some(left) = symbol(left)
                    && let Some(right) = symbol(right)
                {
                    merges.push((left, right, Merge { rank, id: piece.id }));
                }
            }
        }
        Ok((model, Merges::new(merges)?))
    }

    /// The characters that are tokens of their own and take part in merging.
    pub(crate) fn chars(&self) -> impl Iterator<Item = char> {
        let tokens = self.chars.iter().filter(|&(_, &id)| id < self.first_own);
        tokens.map(|(&char, _)| char)
    }

    /// Give `symbol` each symbol of `text` and the number of bytes it stands for.
    pub(crate) fn symbols(&self, vocab: &Vocab, text: &str, mut symbol: impl FnMut(u32, u32)) {
        let mut at = 0;
        while let Some(char) = text[at..].chars().next() {
            let rest = &text.as_bytes()[at..];
            if self.fixed.starts(rest[0])
                && let Some(length) = self.fixed.longest(rest)
                && let Some(id) = vocab.id(&rest[..length])
            {
                symbol(id, length as u32);
                at += length;
                continue;
            }
            let width = char.len_utf8();
            match self.chars.get(&char) {
                Some(&id) => symbol(id, width as u32),
                None => self.stand_in(&rest[..width], &mut symbol),
            }
            at += width;
        }
    }

    /// What stands for an unknown character; of several bytes, the last covers it.
    fn stand_in(&self, char: &[u8], symbol: &mut impl FnMut(u32, u32)) {
        let Some(bytes) = &self.bytes else {
            return symbol(self.unknown, char.len() as u32);
        };
        for (at, &byte) in char.iter().enumerate() {
            let width = if at + 1 == char.len() { char.len() } else { 0 };
            symbol(bytes[byte as usize], width as u32);
        }
    }

    /// Turn symbols that are no tokens into what stands for them, and runs of unknown tokens into one.
    pub(crate) fn finish(&self, ids: &mut Vec<u32>, from: usize) {
        if ids[from..].iter().any(|&id| id >= self.first_own) {
            let symbols = ids.split_off(from);
            for id in symbols {
                match self.own_char(id) {
                    Some(char) => {
                        let mut buffer = [0; 4];
                        let char = char.encode_utf8(&mut buffer).as_bytes();
                        self.stand_in(char, &mut |id, _| ids.push(id));
                    }
                    None => ids.push(id),
                }
            }
        }
        let mut kept = from;
        for at in from..ids.len() {
            if at == from || ids[at] != self.unknown || ids[at - 1] != self.unknown {
                ids[kept] = ids[at];
                kept += 1;
            }
        }
        ids.truncate(kept);
    }

    /// [`Pieces::finish`] for tokens with the bytes they cover.
    pub(crate) fn finish_covered(&self, tokens: &mut Vec<Covered>) {
        let symbols = std::mem::take(tokens);
        for symbol in symbols {
            match self.own_char(symbol.id) {
                Some(char) => {
                    let mut buffer = [0; 4];
                    let char = char.encode_utf8(&mut buffer).as_bytes();
                    self.stand_in(char, &mut |id, width| {
                        tokens.push(Covered {
                            id,
                            start: symbol.start,
                            end: symbol.start + width as usize,
                        });
                    });
                }
                None => tokens.push(symbol),
            }
        }
        tokens.dedup_by(|next, run| {
            let same = next.id == self.unknown && run.id == self.unknown;
            if same {
                run.end = next.end;
            }
            same
        });
    }

    fn own_char(&self, id: u32) -> Option<char> {
        let number = id.checked_sub(self.first_own)?;
        self.own.get(number as usize).copied()
    }
}

fn only_char(text: &str) -> Option<char> {
    let mut chars = text.chars();
    chars.next().filter(|_| chars.next().is_none())
}

/// Higher scores merge first; equal scores have equal rank.
fn ranks(pieces: &[Piece<'_>]) -> Vec<u32> {
    let mut order: Vec<usize> = (0..pieces.len()).collect();
    order.sort_by(|&a, &b| pieces[b].score.total_cmp(&pieces[a].score));
    let mut ranks = vec![0; pieces.len()];
    let mut rank = 0;
    for (place, &at) in order.iter().enumerate() {
        if place > 0 && pieces[order[place - 1]].score != pieces[at].score {
            rank += 1;
        }
        ranks[at] = rank;
    }
    ranks
}
