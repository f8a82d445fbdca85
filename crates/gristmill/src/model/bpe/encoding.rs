//! The ids of pieces as scanners find them, many at a time.
//!
//! Known ones are gathered in one loop over a group of them, which is where most of the time of encoding
//! goes; the others are encoded one by one. Tested through `Tokenizer`, and by the law that the ids are
//! those of pieces encoded one by one.

use super::Bpe;
use super::cache::{Cache, GROUP, GROUP_IDS};
use super::keys::Part;
use super::sink::Sink;
use crate::error::Result;
use crate::simd::Isa;
use crate::split::{Batch, Bound, TakePieces};

/// Encodes the pieces of a text as they are found.
pub(crate) struct Encoding<'a, S> {
    pub(crate) model: &'a Bpe,
    pub(crate) text: &'a [u8],
    pub(crate) cache: &'a mut Cache,
    pub(crate) sink: &'a mut S,
}

impl<S: Sink> TakePieces for Encoding<'_, S> {
    #[inline(always)]
    fn take<I: Isa>(&mut self, isa: I, batch: &Batch<'_>) -> Result<()> {
        let model = self.model;
        // Only where pieces may be tokens as a whole, parts of them are another thing.
        let work = Groups {
            text: self.text,
            units: model.whole_pieces,
        };
        work.encode(
            isa,
            batch,
            self.cache,
            self.sink,
            |piece, is_unit, cache, sink| {
                if is_unit {
                    model.encode_unit(piece, cache, sink)
                } else {
                    model.encode(piece, cache, sink)
                }
            },
        )
    }
}

/// Encodes the units of a text whose spaces the model sees as another character. They are known by what
/// they are in the text.
pub(crate) struct SpacedEncoding<'a, S> {
    pub(crate) model: &'a Bpe,
    pub(crate) text: &'a [u8],
    pub(crate) space: &'a str,
    /// One more space stands before the text.
    pub(crate) prefixed: bool,
    pub(crate) cache: &'a mut Cache,
    pub(crate) sink: &'a mut S,
}

impl<S: Sink> TakePieces for SpacedEncoding<'_, S> {
    #[inline(always)]
    fn take<I: Isa>(&mut self, isa: I, batch: &Batch<'_>) -> Result<()> {
        let (model, space) = (self.model, self.space);
        let mut batch = Batch {
            base: batch.base,
            bounds: batch.bounds,
        };
        if self.prefixed
            && let [first, rest @ ..] = batch.bounds
            && let Some(&end) = rest.first()
            && batch.base + Bound(*first).at() == 0
        {
            let unit = self
                .text
                .get(..batch.base + Bound(end).at())
                .unwrap_or_default();
            let visible = [space, &visible(unit, space)].concat();
            model.encode(visible.as_bytes(), self.cache, self.sink)?;
            batch.bounds = rest;
        }
        let work = Groups {
            text: self.text,
            units: false,
        };
        work.encode(
            isa,
            &batch,
            self.cache,
            self.sink,
            |unit, _, cache, sink| model.encode_spaced(unit, space, cache, sink),
        )
    }
}

/// A unit with its spaces made visible.
fn visible(unit: &[u8], space: &str) -> String {
    str::from_utf8(unit).unwrap_or_default().replace(' ', space)
}

impl Bpe {
    /// Give `sink` the ids of a unit, whose spaces the model sees as another character.
    #[inline(never)]
    fn encode_spaced<S: Sink>(
        &self,
        unit: &[u8],
        space: &str,
        cache: &mut Cache,
        sink: &mut S,
    ) -> Result<()> {
        if cache.get(unit, Part::Piece, sink) {
            return Ok(());
        }
        let visible = visible(unit, space);
        if self.is_cut(visible.as_bytes()) {
            return self.encode(visible.as_bytes(), cache, sink);
        }
        let mut ids = std::mem::take(&mut cache.ids);
        ids.clear();
        let merged = self.merge(visible.as_bytes(), cache, &mut ids);
        if merged.is_ok() {
            cache.put(unit, Part::Piece, &ids);
            sink.push(&ids);
        }
        cache.ids = ids;
        merged
    }
}

/// Pieces of a text, a group at a time.
struct Groups<'a> {
    text: &'a [u8],
    /// Whether parts of pieces are another thing than pieces.
    units: bool,
}

impl Groups<'_> {
    /// Give `sink` the ids of a batch; `unknown` encodes what the cache does not know, and is told whether
    /// it is a part of a piece.
    #[inline(always)]
    fn encode<I: Isa, S: Sink>(
        &self,
        isa: I,
        batch: &Batch<'_>,
        cache: &mut Cache,
        sink: &mut S,
        unknown: impl Fn(&[u8], bool, &mut Cache, &mut S) -> Result<()>,
    ) -> Result<()> {
        let mut gathered = [0; GROUP_IDS];
        let mut bounds = batch.bounds;
        while bounds.len() > 1 {
            let group = &bounds[..bounds.len().min(GROUP + 1)];
            let count = group.len() - 1;
            cache.locate(self.text, batch.base, group, self.units);
            let mut done = 0;
            loop {
                let (pieces, ids) = cache.known(isa, done, count, &mut gathered);
                sink.push(&gathered[..ids]);
                done += pieces;
                let Some(&[start, end, ..]) = group.get(done..) else {
                    break;
                };
                let (start, end) = (Bound(start), Bound(end));
                let piece = &self.text[batch.base + start.at()..batch.base + end.at()];
                unknown(piece, start.is_cut() | end.is_cut(), cache, sink)?;
                done += 1;
            }
            bounds = &bounds[count..];
        }
        Ok(())
    }
}
