//! Byte-pair encoding of one piece of text.
//!
//! A piece becomes symbols, symbols merge, what is left are the ids. The formats differ only in how
//! symbols begin ([`Units`]): as the bytes of the piece, or as its characters with something in
//! place of a character that the vocabulary lacks. Merging is one room ([`merge`]), remembering
//! another ([`cache`]). Tested by the golden files of each format and against the oracles.

mod bytes;
pub(crate) mod cache;
mod chars;
mod encoding;
mod greedy;
mod keys;
pub(crate) mod merge;
mod pairs;
mod pieces;
mod runs;
pub(crate) mod sink;
mod tables;
mod tokens;
mod walks;

pub(crate) use bytes::Bytes;
pub(crate) use cache::Cache;
pub(crate) use chars::Chars;
pub(crate) use encoding::{Encoding, SpacedEncoding};
use greedy::Greedy;
use keys::Part;
pub(crate) use pairs::{Merge, MergeList, Merges, Pair};
use pairs::{Origin, pairs_of_ranks};
pub(crate) use pieces::{Kind, Piece, Pieces};
use sink::Sink;
pub(crate) use tokens::Tree;

use std::sync::LazyLock;

use crate::error::{Error, Result};
use crate::normalize::PrefixMatcher;
use crate::split::Cuts;
use crate::vocab::Vocab;

/// No symbol.
const NONE: u32 = u32::MAX;

/// What a piece consists of before anything is merged.
pub(crate) enum Units {
    /// Its bytes. A byte without a symbol is dropped, as `tokenizers` does.
    Bytes(Box<Bytes>),
    /// Its characters, as `tokenizers` has it.
    Chars(Box<Chars>),
    /// Its characters, as SentencePiece has it.
    Pieces(Box<Pieces>),
}

/// A byte-pair-encoding model.
pub(crate) struct Bpe {
    pub(crate) vocab: Vocab,
    merges: MergeList,
    pub(crate) units: Units,
    /// A piece that is a token as a whole is that token, whatever its merges would give.
    pub(crate) whole_pieces: bool,
    /// Where long pieces may be cut; none where what one character becomes is not independent of
    /// characters further away.
    pub(crate) cuts: Option<Cuts>,
    /// The short way to what merging comes to, where there is one.
    greedy: Option<Greedy>,
}

/// Shorter pieces are worth remembering whole.
const WORTH_CUTTING: usize = 16;

/// A longer row of one byte is encoded whole.
const LONG_ROW: usize = 64;

/// A token and the bytes of the piece it covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Covered {
    pub(crate) id: u32,
    pub(crate) start: usize,
    pub(crate) end: usize,
}

impl Bpe {
    /// A model of these parts.
    pub(crate) fn new(vocab: Vocab, merges: MergeList, units: Units, whole_pieces: bool) -> Bpe {
        let first: Option<Vec<u32>> = match &units {
            Units::Bytes(bytes) if bytes.missing().is_none() => {
                Some((0..=255).map(|byte| bytes.symbol(byte)).collect())
            }
            Units::Chars(chars) if chars.may_cut() => {
                Some(char_tokens(&vocab).map(|(id, _)| id).collect())
            }
            _ => None,
        };
        let (merges, greedy) = short_way(&vocab, merges, first.as_deref());
        Bpe::of_parts(vocab, merges, units, whole_pieces, greedy)
    }

    /// A model of ranks, whose pieces are bytes, with the tree of every token.
    pub(crate) fn of_trees(vocab: Vocab, trees: &[(u32, Tree)]) -> Bpe {
        let units = Units::Bytes(Box::new(Bytes::new(&vocab)));
        let greedy = Greedy::of_trees(&vocab, trees);
        Bpe::of_parts(vocab, MergeList::of_ranks(), units, true, greedy)
    }

    fn of_parts(
        vocab: Vocab,
        merges: MergeList,
        units: Units,
        whole_pieces: bool,
        greedy: Option<Greedy>,
    ) -> Bpe {
        let cuts = match &units {
            Units::Bytes(bytes) if bytes.missing().is_some() => None,
            Units::Bytes(_) => Some(Cuts::new(&vocab)),
            Units::Chars(chars) if chars.stand_alone(&merges) => Some(Cuts::new(&vocab)),
            Units::Chars(chars) if chars.may_cut() => {
                let chars = char_tokens(&vocab).map(|(_, char)| char);
                Some(Cuts::between(&vocab, chars))
            }
            Units::Chars(_) => None,
            Units::Pieces(pieces) => Some(Cuts::between(&vocab, pieces.chars())),
        };
        Bpe {
            vocab,
            merges,
            units,
            whole_pieces,
            cuts,
            greedy,
        }
    }

    /// Whether both take the same short way, without any exception.
    #[cfg(test)]
    pub(crate) fn has_trees_of(&self, other: &Bpe) -> bool {
        let both = self.greedy.as_ref().zip(other.greedy.as_ref());
        both.is_some_and(|(one, other)| one.has_trees_of(other, &self.vocab))
    }

    /// All pairs that merge.
    pub(crate) fn merges(&self) -> &Merges {
        self.merges.table(&self.vocab)
    }

    /// The first byte that is no token of its own, in a model of bytes.
    pub(crate) fn missing_byte(&self) -> Option<u8> {
        match &self.units {
            Units::Bytes(bytes) => bytes.missing(),
            Units::Chars(_) | Units::Pieces(_) => None,
        }
    }

    /// Whether the tokens of every piece are its bytes, one after the other.
    pub(crate) fn keeps_bytes(&self) -> bool {
        matches!(&self.units, Units::Bytes(bytes) if bytes.missing().is_none())
    }

    /// SentencePiece's user-defined symbols, which its normalizer leaves alone.
    pub(crate) fn fixed_symbols(&self) -> &PrefixMatcher {
        static NONE: LazyLock<PrefixMatcher> = LazyLock::new(PrefixMatcher::default);
        match &self.units {
            Units::Pieces(pieces) => &pieces.fixed,
            Units::Bytes(_) | Units::Chars(_) => &NONE,
        }
    }

    /// Give `sink` the ids of `piece`.
    pub(crate) fn encode<S: Sink>(
        &self,
        piece: &[u8],
        cache: &mut Cache,
        sink: &mut S,
    ) -> Result<()> {
        if cache.get(piece, Part::Piece, sink) {
            return Ok(());
        }
        self.encode_unknown(piece, cache, sink)
    }

    /// Give `sink` the ids of a piece that the cache does not know.
    #[inline(never)]
    fn encode_unknown<S: Sink>(&self, piece: &[u8], cache: &mut Cache, sink: &mut S) -> Result<()> {
        if let Some(id) = self.whole(piece) {
            cache.put(piece, Part::Piece, &[id]);
            sink.push(&[id]);
            return Ok(());
        }
        let Some(cuts) = self.cuts_of(piece) else {
            return self.encode_merged(piece, Some(Part::Piece), cache, sink);
        };
        cuts.units(text(piece))
            .try_for_each(|unit| self.encode_unit(&piece[unit], cache, sink))
    }

    /// Give `sink` the ids of a part of a piece across whose ends nothing merges.
    #[inline(never)]
    fn encode_unit<S: Sink>(&self, unit: &[u8], cache: &mut Cache, sink: &mut S) -> Result<()> {
        let part = self.part_of_piece();
        if let Some(greedy) = &self.greedy {
            if let &[byte] = unit
                && let Some(id) = greedy.single(byte)
            {
                sink.push(&[id]);
                return Ok(());
            }
            if greedy.hardly_merges(unit) {
                return self.encode_merged(unit, None, cache, sink);
            }
        }
        if cache.get(unit, part, sink) {
            return Ok(());
        }
        self.encode_merged(unit, Some(part), cache, sink)
    }

    /// [`Bpe::encode`] by merging alone.
    #[cfg(test)]
    pub(crate) fn encode_plainly(&self, piece: &[u8], ids: &mut Vec<u32>) -> Result<()> {
        if let Some(id) = self.whole(piece) {
            ids.push(id);
            return Ok(());
        }
        let from = ids.len();
        self.merge_symbols(piece, &mut Cache::new(), ids, Some(&mut Vec::new()))?;
        if let Units::Pieces(pieces) = &self.units {
            pieces.finish(ids, from);
        }
        Ok(())
    }

    /// What a part of a piece is: the same as a piece, unless pieces may be tokens as a whole.
    fn part_of_piece(&self) -> Part {
        if self.whole_pieces {
            Part::Unit
        } else {
            Part::Piece
        }
    }

    /// Give `sink` what a piece or a unit becomes by merging, and remember it as what it is said to be.
    fn encode_merged<S: Sink>(
        &self,
        bytes: &[u8],
        part: Option<Part>,
        cache: &mut Cache,
        sink: &mut S,
    ) -> Result<()> {
        let mut ids = std::mem::take(&mut cache.ids);
        ids.clear();
        let merged = self.merge(bytes, cache, &mut ids);
        if merged.is_ok() {
            if let Some(part) = part {
                cache.put(bytes, part, &ids);
            }
            sink.push(&ids);
        }
        cache.ids = ids;
        merged
    }

    /// Whether a piece falls into several units.
    fn is_cut(&self, piece: &[u8]) -> bool {
        let units = self.cuts_of(piece).map(|cuts| cuts.units(text(piece)));
        units.is_some_and(|mut units| units.nth(1).is_some())
    }

    /// The cuts, if a piece is long enough. One byte over and over is left to the short way, which takes all
    /// of it in a few steps.
    fn cuts_of(&self, piece: &[u8]) -> Option<&Cuts> {
        let cuts = self
            .cuts
            .as_ref()
            .filter(|_| piece.len() >= WORTH_CUTTING)?;
        let is_row = || piece.len() > LONG_ROW && piece[1..] == piece[..piece.len() - 1];
        (self.greedy.is_none() || !is_row()).then_some(cuts)
    }

    /// Append the tokens of `piece` and the bytes of it that each covers, as `tokenizers` counts
    /// them: a dropped character leaves no gap, what follows moves up.
    pub(crate) fn encode_covered(
        &self,
        piece: &[u8],
        cache: &mut Cache,
        tokens: &mut Vec<Covered>,
    ) -> Result<()> {
        if let Some(id) = self.whole(piece) {
            tokens.push(Covered {
                id,
                start: 0,
                end: piece.len(),
            });
            return Ok(());
        }
        let Some(cuts) = self.cuts_of(piece) else {
            return self.cover_unit(piece, 0, cache, tokens);
        };
        cuts.units(text(piece)).try_for_each(|unit| {
            let start = unit.start;
            self.cover_unit(&piece[unit], start, cache, tokens)
        })
    }

    /// The tokens of a unit that begins at `offset`.
    fn cover_unit(
        &self,
        unit: &[u8],
        offset: usize,
        cache: &mut Cache,
        tokens: &mut Vec<Covered>,
    ) -> Result<()> {
        let mut ids = Vec::new();
        let part = self.part_of_piece();
        if !cache.get(unit, part, &mut ids) {
            self.encode_merged(unit, Some(part), cache, &mut ids)?;
        }
        let from = tokens.len();
        let plain = self.cover_plainly(unit, &ids, tokens);
        if !plain {
            tokens.truncate(from);
            self.cover_by_symbols(unit, cache, tokens)?;
        }
        for token in &mut tokens[from..] {
            token.start += offset;
            token.end += offset;
        }
        Ok(())
    }

    /// Where every token stands for its own bytes and nothing else, their lengths tell the places;
    /// false if some token does not.
    fn cover_plainly(&self, unit: &[u8], ids: &[u32], tokens: &mut Vec<Covered>) -> bool {
        let mut start = 0;
        for &id in ids {
            let token = self.vocab.get(id).unwrap_or_default();
            let end = start + token.len();
            if unit.get(start..end) != Some(token) {
                return false;
            }
            tokens.push(Covered { id, start, end });
            start = end;
        }
        start == unit.len()
    }

    fn cover_by_symbols(
        &self,
        piece: &[u8],
        cache: &mut Cache,
        tokens: &mut Vec<Covered>,
    ) -> Result<()> {
        let mut ids = Vec::new();
        let mut starts = Vec::new();
        self.merge_symbols(piece, cache, &mut ids, Some(&mut starts))?;
        let widths = self.widths(piece);
        let ends = starts.iter().skip(1).map(|&at| at as usize);
        let ends = ends.chain([widths.len()]);
        let mut covered = Vec::with_capacity(ids.len());
        let mut position = 0;
        for ((&id, &first), last) in ids.iter().zip(&starts).zip(ends) {
            let width: usize = widths[first as usize..last]
                .iter()
                .map(|&width| width as usize)
                .sum();
            covered.push(Covered {
                id,
                start: position,
                end: position + width,
            });
            position += width;
        }
        match &self.units {
            Units::Bytes(bytes) if widths.len() < piece.len() => {
                move_up(piece, bytes, &mut covered);
            }
            Units::Pieces(pieces) => pieces.finish_covered(&mut covered),
            _ => {}
        }
        tokens.append(&mut covered);
        Ok(())
    }

    fn whole(&self, piece: &[u8]) -> Option<u32> {
        if self.whole_pieces {
            self.vocab.id(piece)
        } else {
            None
        }
    }

    /// The tokens of a unit.
    fn merge(&self, unit: &[u8], cache: &mut Cache, ids: &mut Vec<u32>) -> Result<()> {
        if let Some(greedy) = &self.greedy
            && greedy.encode(&self.vocab, unit, ids, &mut cache.dead_ends)
        {
            return Ok(());
        }
        let from = ids.len();
        self.merge_symbols(unit, cache, ids, None)?;
        if let Units::Pieces(pieces) = &self.units {
            pieces.finish(ids, from);
        }
        Ok(())
    }

    /// The symbols a piece becomes once all is merged.
    fn merge_symbols(
        &self,
        piece: &[u8],
        cache: &mut Cache,
        ids: &mut Vec<u32>,
        starts: Option<&mut Vec<u32>>,
    ) -> Result<()> {
        if piece.len() >= NONE as usize {
            return Err(Error::Limit {
                what: "a piece of text is longer than 4 GiB".into(),
                at: 0,
            });
        }
        let from = ids.len();
        match &self.units {
            Units::Bytes(bytes) if self.cuts.is_some() && starts.is_none() => {
                bytes.begin(&self.vocab, self.merges(), text(piece), ids);
            }
            Units::Bytes(bytes) => {
                let symbols = piece.iter().map(|&byte| bytes.symbol(byte));
                ids.extend(symbols.filter(|&symbol| symbol != NONE));
            }
            Units::Chars(chars) => chars.symbols(&self.vocab, piece, |id, _| ids.push(id)),
            Units::Pieces(pieces) => {
                pieces.symbols(&self.vocab, text(piece), |id, _| ids.push(id));
            }
        }
        let count = merge::merge(&mut ids[from..], self.merges(), &mut cache.scratch, starts);
        ids.truncate(from + count);
        if piece.len() > 1 << 16 {
            cache.shrink();
        }
        Ok(())
    }

    /// How many bytes of the piece each symbol stands for.
    fn widths(&self, piece: &[u8]) -> Vec<u32> {
        match &self.units {
            Units::Bytes(bytes) => piece
                .iter()
                .filter(|&&byte| bytes.symbol(byte) != NONE)
                .map(|_| 1)
                .collect(),
            Units::Chars(chars) => {
                let mut widths = Vec::new();
                chars.symbols(&self.vocab, piece, |_, width| widths.push(width));
                widths
            }
            Units::Pieces(pieces) => {
                let mut widths = Vec::new();
                pieces.symbols(&self.vocab, text(piece), |_, width| widths.push(width));
                widths
            }
        }
    }
}

/// The short way to what merging comes to, if `first`, the symbols that pieces begin as, allow one; and
/// the merges, which are ready for use if there is none.
fn short_way(
    vocab: &Vocab,
    merges: MergeList,
    first: Option<&[u32]>,
) -> (MergeList, Option<Greedy>) {
    let way = |pairs: &[Pair]| Greedy::new(vocab, pairs, first?.iter().copied());
    let (found, table) = match merges.origin() {
        Origin::Listed(pairs) => match way(pairs) {
            Some(greedy) => (Some(greedy), None),
            None => {
                let table = Merges::build(pairs);
                // A pair that is listed twice may be all that is in the way.
                let twice = table.len() < pairs.len();
                let found = twice.then(|| way(&table.in_order()));
                (found.flatten(), Some(table))
            }
        },
        Origin::Table => return (merges, None),
        Origin::Vocab => {
            let pairs = pairs_of_ranks(vocab);
            let found = way(&pairs);
            let table = found.is_none().then(|| Merges::build(&pairs));
            (found, table)
        }
    };
    (table.map_or(merges, MergeList::from), found)
}

/// The tokens that are one character, and their ids.
fn char_tokens(vocab: &Vocab) -> impl Iterator<Item = (u32, char)> {
    vocab.iter().filter_map(|(id, token)| {
        let token = (token.len() <= 4).then(|| str::from_utf8(token).ok())??;
        let mut chars = token.chars();
        let char = chars.next()?;
        chars.next().is_none().then_some((id, char))
    })
}

/// A piece, which is always text.
fn text(piece: &[u8]) -> &str {
    std::str::from_utf8(piece).unwrap_or_default()
}

/// Where bytes were dropped, `tokenizers` measures what is left in its byte-level alphabet, in which
/// a byte is one or two bytes long, and reads the result as positions in the whole piece.
fn move_up(piece: &[u8], bytes: &Bytes, tokens: &mut [Covered]) {
    let width = |byte: u8| 1 + usize::from(crate::alphabet::is_wide(byte));
    // For each byte of the written piece, the byte of the piece it writes.
    let written: Vec<usize> = piece
        .iter()
        .enumerate()
        .flat_map(|(at, &byte)| std::iter::repeat_n(at, width(byte)))
        .collect();
    let kept: Vec<usize> = piece
        .iter()
        .filter(|&&byte| bytes.symbol(byte) != NONE)
        .map(|&byte| width(byte))
        .collect();
    let mut position = 0;
    for token in tokens {
        let length: usize = kept[token.start..token.end].iter().sum();
        token.start = written[position];
        token.end = written[position + length - 1] + 1;
        position += length;
    }
}
