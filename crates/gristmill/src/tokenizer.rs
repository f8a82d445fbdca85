//! The tokenizer: the rooms of the crate, one after the other.
//!
//! A text is cut at added tokens, normalised, cut into pieces, and each piece becomes ids. That is
//! [`Tokenizer::tokens_of`]; the public methods differ in what they keep of it. A [`Tokenizer`] is
//! immutable but for a pool of caches, each used by one call at a time, which cannot change a result.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ops::Range;
use std::path::Path;

use crate::alphabet;
use crate::decode::Broken;
use crate::error::{Error, Result};
use crate::flat::{FlatDecoding, Joining};
use crate::format::{self, Options};
use crate::memory::prefer_large_pages;
use crate::model::bpe::sink::{Count, Sink};
use crate::model::bpe::{Cache, Covered, Encoding};
use crate::parallel;
use crate::parts::{Normalization, Parts, Spelling};
use crate::place::Places;
use crate::pool::Pool;
use crate::post::Placed;
use crate::special::{Part, Special, Stage};
use crate::text::Text;
use crate::visible::VisibleSpaces;

/// A byte-pair-encoding tokenizer, loaded from a file.
///
/// ```
/// use gristmill::{Special, Tokenizer};
///
/// let tokenizer = Tokenizer::embedded("gpt2")?;
/// let ids = tokenizer.encode("Hello, world!", &Special::Text)?;
/// assert_eq!(ids, [15496, 11, 995, 0]);
/// assert_eq!(tokenizer.decode(&ids)?, "Hello, world!");
/// # Ok::<(), gristmill::Error>(())
/// ```
pub struct Tokenizer {
    pub(crate) parts: Parts,
    /// Where spaces are made visible and nothing else is done to a text.
    visible_spaces: Option<VisibleSpaces>,
    caches: Pool<Cache>,
    decoding: FlatDecoding,
}

/// A token of a text and its place there, as [`Tokenizer::encode_with_offsets`] gives it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Offset {
    /// Where the token starts.
    pub start: usize,
    /// Where it ends.
    pub end: usize,
}

/// What offsets count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Bytes of UTF-8.
    Bytes,
    /// Characters: Unicode scalar values.
    Chars,
}

/// A token in the making and the bytes of the text it comes from.
struct Found<'a> {
    id: u32,
    span: Range<usize>,
    /// For an added token, the text it took, after normalisation if it is found there.
    taken: Option<&'a str>,
}

/// Part of a text: an added token, or text to be cut into pieces.
enum Segment<'t> {
    /// Its id, the bytes of the text it comes from, and what was found there.
    Token(u32, Range<usize>, &'t str),
    Text(&'t Text<'t>),
}

impl Tokenizer {
    pub(crate) fn new(parts: Parts) -> Tokenizer {
        Tokenizer {
            visible_spaces: VisibleSpaces::of(&parts),
            parts,
            caches: Pool::new(),
            decoding: FlatDecoding::default(),
        }
    }
    /// Load the tokenizer at `path`: a file in any supported format, or a folder that holds one.
    pub fn load(path: impl AsRef<Path>) -> Result<Tokenizer> {
        Self::load_with(path, &Options::default())
    }

    /// [`Tokenizer::load`], with what a rank file does not hold.
    pub fn load_with(path: impl AsRef<Path>, options: &Options) -> Result<Tokenizer> {
        format::load(path.as_ref(), options)
    }

    /// Read a tokenizer from the content of a tokenizer file.
    pub fn from_bytes(data: &[u8], options: &Options) -> Result<Tokenizer> {
        format::read(data, options)
    }

    /// An embedded tokenizer: one of [`EMBEDDED`](crate::EMBEDDED).
    pub fn embedded(name: &str) -> Result<Tokenizer> {
        format::embedded::load(name)
    }

    /// The content of a file of the format the tokenizer came from. Read with
    /// [`Tokenizer::options`], it gives the same tokenizer.
    pub fn to_bytes(&self) -> Result<Vec<u8>> {
        format::write(&self.parts)
    }

    /// What the tokenizer's format keeps outside of its file: for rank files, the pattern and the
    /// special tokens.
    pub fn options(&self) -> Options {
        format::options(&self.parts)
    }

    /// Write the tokenizer, in the format that [`Tokenizer::to_bytes_for`] finds for the name. The file
    /// appears whole or not at all.
    pub fn save(&self, path: impl AsRef<Path>) -> Result<()> {
        format::save(path.as_ref(), &self.to_bytes_for(path.as_ref())?)
    }

    /// Turn a text into ids.
    pub fn encode(&self, text: &str, special: &Special) -> Result<Vec<u32>> {
        let mut ids = Vec::with_capacity(text.len() / 3);
        self.encode_into(text, special, false, &mut ids)?;
        Ok(ids)
    }

    /// Append the ids of a text to `ids`. `add_special_tokens` puts the tokens of the file's template
    /// around them. On an error `ids` is as it was.
    pub fn encode_into(
        &self,
        text: &str,
        special: &Special,
        add_special_tokens: bool,
        ids: &mut Vec<u32>,
    ) -> Result<()> {
        // What is used already keeps its pages.
        prefer_large_pages(ids.spare_capacity_mut());
        let mut cache = self.take_cache();
        let result = self.encode_cached(text, special, add_special_tokens, &mut cache, ids);
        self.put_cache(cache);
        result
    }

    /// [`Tokenizer::encode_into`] with a cache that the caller holds.
    pub(crate) fn encode_cached(
        &self,
        text: &str,
        special: &Special,
        add_special_tokens: bool,
        cache: &mut Cache,
        ids: &mut Vec<u32>,
    ) -> Result<()> {
        self.parts.added.check(special)?;
        let from = ids.len();
        if let Err(error) = self.encode_with(text, special, cache, ids) {
            ids.truncate(from);
            return Err(error);
        }
        self.parts.post.wrap(ids, from, add_special_tokens);
        Ok(())
    }

    /// A cache for one call, to be put back after it.
    pub(crate) fn take_cache(&self) -> Box<Cache> {
        self.caches.take(Cache::new)
    }

    /// Keep a cache for the next call.
    pub(crate) fn put_cache(&self, cache: Box<Cache>) {
        self.caches.put(cache);
    }

    /// The number of ids that `encode_into` would append.
    pub fn count(&self, text: &str, special: &Special, add_special_tokens: bool) -> Result<usize> {
        self.parts.added.check(special)?;
        let mut cache = self.caches.take(Cache::new);
        let mut count = Count::default();
        let result = self.encode_with(text, special, &mut cache, &mut count);
        self.caches.put(cache);
        result?;
        Ok(self.parts.post.wrapped_count(count.0, add_special_tokens))
    }

    fn encode_with<S: Sink>(
        &self,
        text: &str,
        special: &Special,
        cache: &mut Cache,
        sink: &mut S,
    ) -> Result<()> {
        let parts = &self.parts;
        if let Some(visible) = &self.visible_spaces
            && !parts.added.matter(Stage::Normalized, special)
        {
            return visible.encode(parts, text, special, cache, sink);
        }
        let tracked = parts.pre_tokenizer.asks_for_origins();
        self.segments(text, special, tracked, &mut |segment| match segment {
            Segment::Token(id, ..) => {
                sink.push(&[id]);
                Ok(())
            }
            Segment::Text(text) => {
                let mut encoding = Encoding {
                    model: &parts.model,
                    text: text.as_str().as_bytes(),
                    cache,
                    sink,
                };
                let cuts = parts.model.cuts.as_ref();
                let done = parts
                    .pre_tokenizer
                    .batches(text.as_str(), cuts, &mut encoding);
                if let Some(done) = done {
                    return done;
                }
                parts.pre_tokenizer.pieces(text, false, &mut |text, range| {
                    let piece = &text.as_str().as_bytes()[range];
                    parts.model.encode(piece, cache, sink)
                })
            }
        })
    }

    /// [`Tokenizer::encode`] without any short way: no masks, no cache, no cuts.
    #[cfg(test)]
    pub(crate) fn encode_plainly(&self, text: &str, special: &Special) -> Result<Vec<u32>> {
        let parts = &self.parts;
        let mut ids = Vec::new();
        self.segments(text, special, true, &mut |segment| match segment {
            Segment::Token(id, ..) => {
                ids.push(id);
                Ok(())
            }
            Segment::Text(text) => parts.pre_tokenizer.pieces(text, true, &mut |text, range| {
                let piece = &text.as_str().as_bytes()[range];
                parts.model.encode_plainly(piece, &mut ids)
            }),
        })?;
        Ok(ids)
    }

    /// Turn a text into ids, and say for each where it stands in the text.
    ///
    /// A token that holds a part of a character has the whole character's place; tokens that
    /// `add_special_tokens` puts around the text have the place 0 to 0.
    pub fn encode_with_offsets(
        &self,
        text: &str,
        special: &Special,
        add_special_tokens: bool,
        unit: Unit,
    ) -> Result<(Vec<u32>, Vec<Offset>)> {
        self.parts.added.check(special)?;
        let mut cache = self.take_cache();
        let plain = self.plain_offsets(text, special, add_special_tokens, unit, &mut cache);
        self.put_cache(cache);
        match plain? {
            Some(found) => Ok(found),
            None => self.offsets_of_tokens(text, special, add_special_tokens, unit),
        }
    }

    /// [`Tokenizer::encode_with_offsets`] of any text.
    pub(crate) fn offsets_of_tokens(
        &self,
        text: &str,
        special: &Special,
        add_special_tokens: bool,
        unit: Unit,
    ) -> Result<(Vec<u32>, Vec<Offset>)> {
        let mut places = Places::new(text);
        let mut tokens = Vec::new();
        let trims = self.parts.post.trims();
        self.tokens_of(text, special, &mut |found| {
            let (leading, trailing) = if trims {
                self.spaces_around(&found)
            } else {
                (0, 0)
            };
            tokens.push(Placed {
                first: tokens.is_empty(),
                id: found.id,
                start: places.char_at(found.span.start),
                end: places.char_at(found.span.end),
                leading,
                trailing,
            });
        })?;
        let tokens = self.parts.post.place(tokens, add_special_tokens);
        let mut offset = |token: &Placed| match unit {
            Unit::Chars => Offset {
                start: token.start,
                end: token.end,
            },
            Unit::Bytes => Offset {
                start: places.byte_at(token.start),
                end: places.byte_at(token.end),
            },
        };
        Ok((
            tokens.iter().map(|token| token.id).collect(),
            tokens.iter().map(&mut offset).collect(),
        ))
    }

    /// The white space characters a token begins and ends with, as its format writes it.
    fn spaces_around(&self, found: &Found<'_>) -> (usize, usize) {
        let is_space = |char: &char| *char == alphabet::char_of(b' ') || char.is_whitespace();
        let token: Cow<'_, str> = match found.taken {
            Some(taken) => taken.into(),
            // Of the alphabet, only the sign for a space counts as one.
            None if self.parts.spelling == Spelling::Alphabet
                && let Some(bytes) = self.parts.model.vocab.get(found.id) =>
            {
                let is_space = |byte: &&u8| **byte == b' ';
                return (
                    bytes.iter().take_while(is_space).count(),
                    bytes.iter().rev().take_while(is_space).count(),
                );
            }
            None => self.parts.spelled(found.id).unwrap_or_default(),
        };
        (
            token.chars().take_while(is_space).count(),
            token.chars().rev().take_while(is_space).count(),
        )
    }

    /// The longest prefix of `text` that ends at a token and a character boundary and holds at most
    /// `max_tokens` tokens of the encoded text; its length in bytes.
    pub fn truncate(&self, text: &str, max_tokens: usize, special: &Special) -> Result<usize> {
        let mut spans = Vec::new();
        self.tokens_of(text, special, &mut |found| spans.push(found.span))?;
        if spans.len() <= max_tokens {
            return Ok(text.len());
        }
        // A prefix ends where all tokens before end and none behind begins earlier: in some models places
        // overlap, or are those of parts of characters.
        let mut ahead = vec![text.len(); spans.len() + 1];
        for (number, span) in spans.iter().enumerate().rev() {
            ahead[number] = ahead[number + 1].min(span.start);
        }
        let (mut end, mut longest) = (0, 0);
        for (span, &next) in spans.iter().zip(&ahead[1..]).take(max_tokens) {
            end = span.end.max(end);
            if end <= next && text.is_char_boundary(end) {
                longest = end;
            }
        }
        Ok(longest)
    }

    /// Give `found` every token of the text with the bytes it comes from.
    fn tokens_of(
        &self,
        text: &str,
        special: &Special,
        found: &mut dyn FnMut(Found<'_>),
    ) -> Result<()> {
        self.parts.added.check(special)?;
        let mut cache = self.caches.take(Cache::new);
        let mut covered: Vec<Covered> = Vec::new();
        let parts = &self.parts;
        let result = self.segments(text, special, true, &mut |segment| match segment {
            Segment::Token(id, span, taken) => {
                found(Found {
                    id,
                    span,
                    taken: Some(taken),
                });
                Ok(())
            }
            Segment::Text(text) if self.byte_tokens_of(text, &mut cache, found)? => Ok(()),
            Segment::Text(text) => parts.pre_tokenizer.pieces(text, true, &mut |text, range| {
                covered.clear();
                let piece = &text.as_str().as_bytes()[range.clone()];
                parts
                    .model
                    .encode_covered(piece, &mut cache, &mut covered)?;
                for token in &covered {
                    let (start, end) = (range.start + token.start, range.start + token.end);
                    let span = if start < end {
                        text.original_span(start..end)
                    } else {
                        let at = text.original_span(start..start + 1).start;
                        at..at
                    };
                    found(Found {
                        id: token.id,
                        span,
                        taken: None,
                    });
                }
                Ok(())
            }),
        });
        self.caches.put(cache);
        result
    }

    /// What [`Tokenizer::tokens_of`] does for a text that nothing changed, where tokens are bytes: their
    /// lengths tell their places. False if that is not so: nothing was done.
    fn byte_tokens_of(
        &self,
        text: &Text<'_>,
        cache: &mut Cache,
        found: &mut dyn FnMut(Found<'_>),
    ) -> Result<bool> {
        let Parts {
            model,
            pre_tokenizer,
            ..
        } = &self.parts;
        if !text.is_unchanged() || !model.keeps_bytes() {
            return Ok(false);
        }
        let bytes = text.as_str().as_bytes();
        let mut ids = Vec::with_capacity(bytes.len() / 3);
        let mut encoding = Encoding {
            model,
            text: bytes,
            cache,
            sink: &mut ids,
        };
        match pre_tokenizer.batches(text.as_str(), model.cuts.as_ref(), &mut encoding) {
            Some(done) => done?,
            None => return Ok(false),
        }
        let mut start = 0;
        for id in ids {
            let end = start + model.vocab.get(id).map_or(0, <[u8]>::len);
            found(Found {
                id,
                span: text.original_span(start..end),
                taken: None,
            });
            start = end;
        }
        debug_assert_eq!(start, bytes.len());
        Ok(true)
    }

    /// Cut a text at added tokens and normalise what lies between them.
    fn segments(
        &self,
        text: &str,
        special: &Special,
        tracked: bool,
        out: &mut dyn FnMut(Segment<'_>) -> Result<()>,
    ) -> Result<()> {
        let added = &self.parts.added;
        added.cut(Stage::Raw, text, special, |part| match part {
            Part::Token(token, span) => out(Segment::Token(token.id, span.clone(), &text[span])),
            Part::Text(range) => {
                let base = range.start;
                let part = &text[range];
                let part = if tracked {
                    Text::tracked(part, base)
                } else {
                    Text::untracked(part)
                };
                self.normalized_segments(part, base, special, out)
            }
        })
    }

    fn normalized_segments(
        &self,
        text: Text<'_>,
        base: usize,
        special: &Special,
        out: &mut dyn FnMut(Segment<'_>) -> Result<()>,
    ) -> Result<()> {
        let text = match &self.parts.normalization {
            Normalization::None => text,
            Normalization::Json(normalizer) => normalizer.apply(text)?,
            Normalization::SentencePiece(normalizer) => {
                normalizer.apply(&text, self.parts.model.fixed_symbols())
            }
        };
        let added = &self.parts.added;
        if !added.matter(Stage::Normalized, special) {
            // A part begins where its first character comes from, even if it is the whole text.
            return match text.slice(0..text.len()) {
                Some(part) => out(Segment::Text(&part)),
                None => Ok(()),
            };
        }
        let result = added.cut(
            Stage::Normalized,
            text.as_str(),
            special,
            |part| match part {
                Part::Token(token, range) => {
                    let taken = &text.as_str()[range.clone()];
                    out(Segment::Token(token.id, text.original_span(range), taken))
                }
                Part::Text(range) => match text.slice(range) {
                    Some(part) => out(Segment::Text(&part)),
                    None => Ok(()),
                },
            },
        );
        result.map_err(|error| match error {
            Error::SpecialToken { token, at } => {
                let at = base + text.original_span(at..at + 1).start.saturating_sub(base);
                Error::SpecialToken { token, at }
            }
            other => other,
        })
    }

    /// Turn ids into text. Bytes that are not UTF-8 become U+FFFD.
    pub fn decode(&self, ids: &[u32]) -> Result<String> {
        self.decode_with(ids, false)
    }

    /// [`Tokenizer::decode`], leaving special tokens out if asked to.
    pub fn decode_with(&self, ids: &[u32], skip_special_tokens: bool) -> Result<String> {
        let bytes = self.decode_nearly(ids, skip_special_tokens)?;
        Ok(match String::from_utf8(bytes) {
            Ok(text) => text,
            Err(error) => String::from_utf8_lossy(error.as_bytes()).into_owned(),
        })
    }

    /// The bytes that [`Tokenizer::decode_with`] makes text of: what in them is not UTF-8 is still to
    /// become U+FFFD.
    pub fn decode_nearly(&self, ids: &[u32], skip_special_tokens: bool) -> Result<Vec<u8>> {
        self.joined(ids, skip_special_tokens, Broken::Replace)
    }

    /// Turn ids into the bytes they stand for, valid UTF-8 or not.
    pub fn decode_bytes(&self, ids: &[u32], skip_special_tokens: bool) -> Result<Vec<u8>> {
        self.joined(ids, skip_special_tokens, Broken::Keep)
    }

    fn joined(&self, ids: &[u32], skip_special: bool, broken: Broken) -> Result<Vec<u8>> {
        let joining = Joining {
            skip_special,
            as_text: broken == Broken::Replace,
        };
        match self.decoding.get(&self.parts, ids.len()) {
            Some(flat) => flat.join(ids, joining),
            None => self.parts.decode(ids, skip_special, broken),
        }
    }

    /// [`Tokenizer::decode_with`] for each of many lists of ids, on several threads; `threads` is
    /// their number, 0 for one a core.
    pub fn decode_batch<T: AsRef<[u32]> + Sync>(
        &self,
        batch: &[T],
        skip_special_tokens: bool,
        threads: usize,
    ) -> Result<Vec<String>> {
        parallel::map(batch, threads, weight_of_ids, |ids| {
            self.decode_with(ids.as_ref(), skip_special_tokens)
        })
    }

    /// [`Tokenizer::decode_nearly`] for each of many lists of ids.
    pub fn decode_batch_nearly<T: AsRef<[u32]> + Sync>(
        &self,
        batch: &[T],
        skip_special_tokens: bool,
        threads: usize,
    ) -> Result<Vec<Vec<u8>>> {
        parallel::map(batch, threads, weight_of_ids, |ids| {
            self.decode_nearly(ids.as_ref(), skip_special_tokens)
        })
    }

    /// The name of the format the tokenizer came in.
    pub fn format_name(&self) -> &'static str {
        self.parts.source.name()
    }

    /// The id of a token, written as [`Tokenizer::id_to_token`] writes it.
    pub fn token_to_id(&self, token: &str) -> Option<u32> {
        self.parts.id_of(token)
    }

    /// The id of the token with these bytes, written as [`Tokenizer::token_bytes`] gives them.
    pub fn bytes_to_id(&self, bytes: &[u8]) -> Option<u32> {
        let added = std::str::from_utf8(bytes)
            .ok()
            .and_then(|content| self.parts.added.by_content(content));
        match added {
            Some(token) => Some(token.id),
            None => self.parts.model.vocab.id(bytes),
        }
    }

    /// The token with this id, as its format writes it. An added token that is matched after
    /// normalisation is given as it is matched, as by `tokenizers`.
    pub fn id_to_token(&self, id: u32) -> Result<String> {
        match self.parts.added.by_id(id) {
            Some(token) => Ok(token.pattern.clone()),
            None => Ok(self
                .parts
                .spelled(id)
                .ok_or(Error::UnknownId(id))?
                .into_owned()),
        }
    }

    /// The bytes of the token with this id.
    pub fn token_bytes(&self, id: u32) -> Result<Vec<u8>> {
        if !self.parts.has(id) {
            return Err(Error::UnknownId(id));
        }
        let mut bytes = Vec::new();
        self.parts.append_bytes(id, &mut bytes);
        Ok(bytes)
    }

    /// The number of tokens, added tokens included, as the format's own library counts them.
    pub fn vocab_size(&self) -> usize {
        let parts = &self.parts;
        match parts.source {
            // tiktoken and mistral-common size an embedding: one more than the highest id.
            format::Source::Ranks(_) | format::Source::Tekken(_) => parts.id_end() as usize,
            _ => {
                let own = parts.model.vocab.len() + parts.literals.len();
                let added = parts.added.iter();
                own + added
                    .filter(|token| parts.own_id_of(&token.content).is_none())
                    .count()
            }
        }
    }

    /// One more than the highest id that encoding can give.
    pub fn id_end(&self) -> u32 {
        self.parts.id_end()
    }

    /// The special tokens and their ids.
    pub fn special_tokens(&self) -> BTreeMap<&str, u32> {
        self.parts
            .added
            .iter()
            .filter(|token| token.special)
            .map(|token| (&*token.content, token.id))
            .collect()
    }

    /// What was loaded, for people to read: names and values.
    pub fn info(&self) -> format::Info {
        format::info(&self.parts)
    }

    /// Do `work` for each text, on several threads, and give the results in order.
    ///
    /// `threads` is their number, 0 for one a core. The first error, in the order of the texts, is
    /// the result.
    pub fn for_each_text<T: AsRef<str> + Sync, R: Send>(
        &self,
        texts: &[T],
        threads: usize,
        work: impl Fn(&Tokenizer, &str) -> Result<R> + Sync,
    ) -> Result<Vec<R>> {
        parallel::map(
            texts,
            threads,
            |text| text.as_ref().len(),
            |text| work(self, text.as_ref()),
        )
    }
}

/// About how much work it is to decode some ids, in bytes of text.
fn weight_of_ids<T: AsRef<[u32]>>(ids: &T) -> usize {
    ids.as_ref().len() * 4
}
