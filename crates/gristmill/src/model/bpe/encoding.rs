//! The ids of pieces as scanners find them, many at a time.
//!
//! Known ones are gathered in one loop over a group of them, which is where most of the time of encoding
//! goes. The others wait until some have come together, so that they can wait for memory together
//! (`walks.rs`); from the first of them on, the ids of known ones wait with them ([`Waiting`]). Tested
//! through `Tokenizer`, and by the law that the ids are those of pieces encoded one by one.

use std::ops::Range;

use super::Bpe;
use super::cache::{Cache, GROUP, GROUP_IDS};
use super::greedy::Greedy;
use super::keys::{Part, SHORT, short_key};
use super::sink::Sink;
use super::walks::Walk;
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
            greedy: model.greedy.as_ref(),
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
            greedy: None,
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
    /// The short way for pieces that are not known, if the model sees the text as it is.
    greedy: Option<&'a Greedy>,
}

/// Pieces that are not known, and what comes between them.
#[derive(Default)]
pub(super) struct Waiting {
    unknown: Vec<Unknown>,
    walks: Vec<Walk>,
    /// The ids of known pieces behind the first unknown one.
    ids: Vec<u32>,
    /// The ids of unknown pieces that turned out to be known after all.
    found: Vec<u32>,
}

/// A piece that is not known.
struct Unknown {
    /// Its place in the text.
    start: usize,
    end: usize,
    is_unit: bool,
    /// How many of [`Waiting::ids`] come before it.
    before: usize,
    way: Way,
}

/// How an unknown piece becomes ids.
enum Way {
    /// These of [`Waiting::found`].
    Found(Range<usize>),
    /// By the walk of this number.
    Walk(usize),
    /// By itself, when it is its turn.
    Alone,
}

/// So many unknown pieces do not wait for more.
const MOST_WAITING: usize = 64;

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
                if cache.waiting.unknown.is_empty() {
                    sink.push(&gathered[..ids]);
                } else {
                    cache.waiting.ids.extend_from_slice(&gathered[..ids]);
                }
                done += pieces;
                let Some(&[start, end, ..]) = group.get(done..) else {
                    break;
                };
                let (from, to) = (Bound(start), Bound(end));
                let is_unit = from.is_cut() | to.is_cut();
                let (start, end) = (batch.base + from.at(), batch.base + to.at());
                if self.greedy.is_some() {
                    cache.expect_beside(done);
                    let waiting = &mut cache.waiting;
                    waiting.unknown.push(Unknown {
                        start,
                        end,
                        is_unit,
                        before: waiting.ids.len(),
                        way: Way::Alone,
                    });
                } else {
                    unknown(&self.text[start..end], is_unit, cache, sink)?;
                }
                done += 1;
            }
            if cache.waiting.unknown.len() >= MOST_WAITING {
                self.finish(cache, sink, &unknown)?;
            }
            bounds = &bounds[count..];
        }
        if !cache.waiting.unknown.is_empty() {
            self.finish(cache, sink, &unknown)?;
        }
        Ok(())
    }

    /// Give `sink` the ids of all pieces that wait.
    #[inline(never)]
    fn finish<S: Sink>(
        &self,
        cache: &mut Cache,
        sink: &mut S,
        unknown: &impl Fn(&[u8], bool, &mut Cache, &mut S) -> Result<()>,
    ) -> Result<()> {
        let mut waiting = std::mem::take(&mut cache.waiting);
        self.walk(&mut waiting, cache);
        let mut done = 0;
        let mut result = Ok(());
        for piece in &waiting.unknown {
            sink.push(&waiting.ids[done..piece.before]);
            done = piece.before;
            let bytes = &self.text[piece.start..piece.end];
            let ids = match &piece.way {
                Way::Found(range) => waiting.found.get(range.clone()),
                Way::Walk(number) => waiting.walks.get(*number).and_then(Walk::ids),
                Way::Alone => None,
            };
            match ids {
                Some(ids) => {
                    if matches!(piece.way, Way::Walk(_)) && !self.is_found_anew(piece, bytes) {
                        cache.put(bytes, self.part(piece.is_unit), ids);
                    }
                    sink.push(ids);
                }
                None => result = unknown(bytes, piece.is_unit, cache, sink),
            }
            if result.is_err() {
                break;
            }
        }
        sink.push(&waiting.ids[done..]);
        waiting.unknown.clear();
        waiting.walks.clear();
        waiting.ids.clear();
        waiting.found.clear();
        cache.waiting = waiting;
        result
    }

    /// Find the ids of short pieces that wait.
    fn walk(&self, waiting: &mut Waiting, cache: &mut Cache) {
        for piece in &mut waiting.unknown {
            let bytes = &self.text[piece.start..piece.end];
            let part = self.part(piece.is_unit);
            let from = waiting.found.len();
            if cache.get(bytes, part, &mut waiting.found) {
                piece.way = Way::Found(from..waiting.found.len());
            } else if (1..=SHORT).contains(&bytes.len()) {
                piece.way = Way::Walk(waiting.walks.len());
                let whole = self.units && part == Part::Piece;
                waiting.walks.push(Walk::new(short_key(bytes, part), whole));
            }
        }
        if let Some(greedy) = self.greedy {
            greedy.walk(&mut waiting.walks);
        }
    }

    /// Whether to look for the tokens again takes less time than to remember them.
    fn is_found_anew(&self, piece: &Unknown, bytes: &[u8]) -> bool {
        let hardly_merges = |greedy: &Greedy| greedy.hardly_merges(bytes);
        piece.is_unit && (bytes.len() == 1 || self.greedy.is_some_and(hardly_merges))
    }

    /// What a piece or a part of one is to the cache.
    fn part(&self, is_unit: bool) -> Part {
        if self.units && is_unit {
            Part::Unit
        } else {
            Part::Piece
        }
    }
}
