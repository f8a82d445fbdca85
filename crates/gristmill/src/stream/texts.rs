//! The text of every id of a tokenizer, and how texts follow each other.
//!
//! Made once for a tokenizer, in one pass over its vocabulary, and shared by all its streams. Every
//! token lies in one arena with what a stream asks of it; for decoders of tokenizer.json the steps
//! that look at one token alone have been applied to it.

use std::borrow::Cow;
use std::str;
use std::sync::Arc;

use crate::decode::{Broken, Decoder};
use crate::error::{Error, Result};
use crate::format::sentencepiece::{Decoding as Pieces, SPACE, Type};
use crate::parts::Decoding;
use crate::tokenizer::Tokenizer;

use super::chain::{self, Chain, Memory};
use super::sentencepiece::{self, Spaces};
use super::utf8::Utf8;

/// A hostile decoder must not make a small file large: all texts together.
const LARGEST: usize = 1 << 30;

/// Some token has the id.
const KNOWN: u32 = 1;
/// It is left out when special tokens are.
const SPECIAL: u32 = 1 << 1;
/// Its text is not empty, and whole characters.
const WHOLE: u32 = 1 << 2;
/// After it, what came before does not matter.
const PASSES: u32 = 1 << 3;
/// In SentencePiece models: it is a byte, begins with the visible space, or gives no text.
const BYTE: u32 = 1 << 4;
const MARKED: u32 = 1 << 5;
const SILENT: u32 = 1 << 6;

/// A text of at most so many bytes is copied as so many, in one move.
pub(super) const SHORT: usize = 16;

/// A token: where its text begins, and what it is. The text ends where the next one's begins.
#[derive(Clone, Copy)]
struct Entry {
    start: u32,
    what: u32,
}

/// How the texts of tokens follow each other.
enum Way {
    Bytes {
        parted: bool,
    },
    SentencePiece(Spaces),
    Chain(Chain),
    /// The decoder has to see all ids.
    Whole,
}

/// What a stream keeps between two ids.
pub(super) enum State {
    Bytes(Utf8),
    SentencePiece(sentencepiece::State),
    Chain(Box<[Memory]>),
    Whole(Vec<u32>),
}

impl State {
    /// Whether tokens are bytes and none waits.
    #[inline]
    pub(super) fn is_ready(&self) -> bool {
        matches!(self, State::Bytes(utf8) if utf8.is_empty())
    }
}

/// What each id of a tokenizer gives, for streams.
pub struct TokenTexts {
    tokenizer: Arc<Tokenizer>,
    /// The texts, one after the other, and `SHORT` bytes that are no text.
    arena: Vec<u8>,
    entries: Vec<Entry>,
    way: Way,
}

impl TokenTexts {
    /// Look at every token once. Fails if a decoder makes the tokens larger than a gigabyte.
    pub fn new(tokenizer: Arc<Tokenizer>) -> Result<Arc<TokenTexts>> {
        let way = match &tokenizer.parts.decoding {
            Decoding::Bytes { parted } => Way::Bytes { parted: *parted },
            Decoding::SentencePiece(pieces) => Way::SentencePiece(Spaces {
                drop_first: pieces.drop_first_space,
                drop_all: pieces.drop_all_spaces,
            }),
            Decoding::Strings(decoder) => match Chain::new(decoder.as_ref()) {
                Some(chain) => Way::Chain(chain),
                None => Way::Whole,
            },
        };
        let mut texts = TokenTexts {
            arena: Vec::new(),
            entries: Vec::new(),
            way,
            tokenizer,
        };
        texts.fill()?;
        Ok(Arc::new(texts))
    }

    fn fill(&mut self) -> Result<()> {
        let tokenizer = Arc::clone(&self.tokenizer);
        let parts = &tokenizer.parts;
        let end = parts.id_end();
        self.entries.reserve_exact(end as usize + 1);
        for id in 0..=end {
            // Below LARGEST.
            let start = self.arena.len() as u32;
            let mut what = 0;
            if parts.has(id) {
                what = KNOWN | self.append(id)?;
                if parts.is_skipped(id) {
                    what |= SPECIAL;
                }
            }
            let text = &self.arena[start as usize..];
            if !text.is_empty() && what & BYTE == 0 && std::str::from_utf8(text).is_ok() {
                what |= WHOLE;
            }
            if self.arena.len() > LARGEST {
                return Err(Error::unsupported(
                    "a decoder that makes the texts of the tokens larger than 1 GiB",
                ));
            }
            self.entries.push(Entry { start, what });
        }
        self.arena.extend_from_slice(&[0; SHORT]);
        self.arena.shrink_to_fit();
        Ok(())
    }

    /// Append the text of a token and say what it is.
    fn append(&mut self, id: u32) -> Result<u32> {
        let parts = &self.tokenizer.parts;
        match (&self.way, &parts.decoding) {
            (Way::Bytes { .. }, _) => {
                let from = self.arena.len();
                parts.append_bytes(id, &mut self.arena);
                let text = &self.arena[from..];
                let whole = !text.is_empty() && std::str::from_utf8(text).is_ok();
                Ok(if whole { PASSES } else { 0 })
            }
            (Way::SentencePiece(_), Decoding::SentencePiece(pieces)) => {
                let piece = parts.model.vocab.get(id).unwrap_or_default();
                Ok(append_piece(pieces, id, piece, &mut self.arena))
            }
            (Way::Chain(chain), Decoding::Strings(decoder)) => {
                let Some(token) = parts.decoded_as(id) else {
                    return Ok(SILENT);
                };
                let token = fixed(decoder.as_ref(), chain.fixed(), token)?;
                self.arena.extend_from_slice(&token);
                let passes = chain.forgets() && chain.passes(&token);
                Ok(if passes { PASSES } else { 0 })
            }
            _ => Ok(0),
        }
    }

    /// The tokenizer these are the texts of.
    pub fn tokenizer(&self) -> &Tokenizer {
        &self.tokenizer
    }

    fn entry(&self, id: u32) -> Option<(&[u8], u32)> {
        let at = id as usize;
        let entry = self
            .entries
            .get(at)
            .filter(|entry| entry.what & KNOWN > 0)?;
        let end = self.entries.get(at + 1)?.start;
        Some((
            self.arena.get(entry.start as usize..end as usize)?,
            entry.what,
        ))
    }

    /// Where tokens are bytes, append the text of one that is whole characters: what a stream gives
    /// for it when nothing waits. `false`, and nothing appended, for any other.
    #[inline]
    pub(super) fn append_whole(&self, id: u32, skip_special: bool, out: &mut Vec<u8>) -> bool {
        let skipped = if skip_special { SPECIAL } else { 0 };
        let at = id as usize;
        let (Some(entry), Some(next)) = (self.entries.get(at), self.entries.get(at + 1)) else {
            return false;
        };
        let is_whole = entry.what & (WHOLE | skipped) == WHOLE;
        if !(is_whole && matches!(self.way, Way::Bytes { .. })) {
            return false;
        }
        let len = (next.start - entry.start) as usize;
        let Some(text) = self.arena.get(entry.start as usize..) else {
            return false;
        };
        match text.first_chunk::<SHORT>() {
            Some(short) if len <= SHORT => {
                out.extend_from_slice(short);
                out.truncate(out.len() - (SHORT - len));
            }
            _ => out.extend_from_slice(text.get(..len).unwrap_or_default()),
        }
        true
    }

    /// The text of a token that is whole characters, where tokens are bytes.
    pub fn whole(&self, id: u32) -> Option<&str> {
        let (text, what) = self.entry(id)?;
        let is_whole = what & WHOLE > 0 && matches!(self.way, Way::Bytes { .. });
        str::from_utf8(text).ok().filter(|_| is_whole)
    }

    /// Of the ids before a stream, those at the end that matter to what follows.
    pub fn context(
        &self,
        prompt: impl DoubleEndedIterator<Item = u32>,
        skip_special_tokens: bool,
    ) -> Vec<u32> {
        let mut context = Vec::new();
        for id in prompt.rev() {
            context.push(id);
            let what = self.entry(id).map_or(0, |(_, what)| what);
            let counts = !(skip_special_tokens && what & SPECIAL > 0);
            if what & PASSES > 0 && counts {
                break;
            }
        }
        context.reverse();
        context
    }

    /// The state of a stream that goes on after these ids, whose text was given already.
    pub(super) fn open(&self, prompt: &[u32], skip_special: bool) -> Result<State> {
        let mut state = match &self.way {
            Way::Bytes { .. } => State::Bytes(Utf8::default()),
            Way::SentencePiece(_) => State::SentencePiece(sentencepiece::State::default()),
            Way::Chain(chain) => State::Chain(chain.memories()),
            Way::Whole => State::Whole(Vec::new()),
        };
        if prompt.is_empty() {
            return Ok(state);
        }
        let takes_prompts = match &self.way {
            Way::Chain(chain) => chain.takes_prompts(),
            Way::Whole => false,
            _ => true,
        };
        if !takes_prompts {
            return Err(Error::unsupported(
                "a prompt before a stream of a decoder that has to see the whole text",
            ));
        }
        let mut given = Vec::new();
        for &id in prompt {
            self.push(&mut state, id, skip_special, &mut given)?;
            given.clear();
        }
        if let (Way::Chain(chain), State::Chain(memories)) = (&self.way, &mut state) {
            chain.settle(memories);
        }
        Ok(state)
    }

    /// Append the text that is certain after one more id; whether some token has it.
    #[inline]
    pub(super) fn push(
        &self,
        state: &mut State,
        id: u32,
        skip_special: bool,
        out: &mut Vec<u8>,
    ) -> Result<bool> {
        let Some((text, what)) = self.entry(id) else {
            return Ok(false);
        };
        let skipped = skip_special && what & SPECIAL > 0;
        match (&self.way, state) {
            (Way::Bytes { parted }, State::Bytes(utf8)) => {
                if *parted && what & SPECIAL > 0 {
                    utf8.end(out);
                }
                if skipped {
                } else if what & WHOLE > 0 && utf8.is_empty() {
                    out.extend_from_slice(text);
                } else {
                    utf8.push(text, out);
                }
            }
            _ if skipped || what & SILENT > 0 && matches!(self.way, Way::Chain(_)) => {}
            (Way::SentencePiece(spaces), State::SentencePiece(state)) => {
                if what & BYTE > 0 {
                    for &byte in text {
                        state.push_byte(byte, out);
                    }
                } else {
                    state.push(text, what & MARKED > 0, *spaces, out);
                }
            }
            (Way::Chain(chain), State::Chain(memories)) => {
                chain.push(self.decoder(), text, memories, out)?;
            }
            (_, State::Whole(ids)) => ids.push(id),
            _ => {}
        }
        Ok(true)
    }

    /// Append what is left; nothing more comes.
    pub(super) fn end(
        &self,
        state: &mut State,
        skip_special: bool,
        out: &mut Vec<u8>,
    ) -> Result<()> {
        match (&self.way, state) {
            (_, State::Bytes(utf8)) => utf8.end(out),
            (_, State::SentencePiece(state)) => state.end(out),
            (Way::Chain(chain), State::Chain(memories)) => {
                chain.end(self.decoder(), memories, out)?;
            }
            (_, State::Whole(ids)) => {
                let text = self.tokenizer.decode_with(ids, skip_special)?;
                ids.clear();
                out.extend_from_slice(text.as_bytes());
            }
            _ => {}
        }
        Ok(())
    }

    /// Whether all text of the ids so far was given.
    #[inline]
    pub(super) fn is_clean(&self, state: &State) -> bool {
        match (&self.way, state) {
            (_, State::Bytes(utf8)) => utf8.is_empty(),
            (_, State::SentencePiece(state)) => state.is_clean(),
            (Way::Chain(chain), State::Chain(memories)) => chain.is_clean(memories),
            (_, State::Whole(ids)) => ids.is_empty(),
            _ => true,
        }
    }

    /// Append the text of an id alone, as a whole decode of it gives it; whether some token has it.
    pub(super) fn append_alone(
        &self,
        id: u32,
        skip_special: bool,
        out: &mut Vec<u8>,
    ) -> Result<bool> {
        let mut state = self.open(&[], skip_special)?;
        let known = self.push(&mut state, id, skip_special, out)?;
        if known {
            self.end(&mut state, skip_special, out)?;
        }
        Ok(known)
    }

    fn decoder(&self) -> Option<&Decoder> {
        match &self.tokenizer.parts.decoding {
            Decoding::Strings(decoder) => decoder.as_ref(),
            _ => None,
        }
    }
}

/// What the first decoders make of one token.
fn fixed<'a>(
    decoder: Option<&Decoder>,
    decoders: usize,
    token: Cow<'a, [u8]>,
) -> Result<Cow<'a, [u8]>> {
    let leaves = decoder.map(chain::leaves).unwrap_or_default();
    let mut token = token;
    for leaf in leaves.into_iter().take(decoders) {
        token = match leaf.run(vec![token], Broken::Replace)?.pop() {
            Some(text) => text,
            None => Cow::Borrowed(&[]),
        };
    }
    Ok(token)
}

/// Append what a SentencePiece piece writes inside of a text, and say what it is.
fn append_piece(pieces: &Pieces, id: u32, piece: &[u8], arena: &mut Vec<u8>) -> u32 {
    let piece = String::from_utf8_lossy(piece);
    match pieces.kinds.get(id as usize) {
        Some(Type::Byte(byte)) => {
            arena.push(*byte);
            BYTE
        }
        Some(Type::Unknown) => {
            arena.extend_from_slice(pieces.unknown_surface.as_bytes());
            if pieces.unknown_surface.is_empty() {
                0
            } else {
                PASSES
            }
        }
        Some(Type::Control) | None => SILENT,
        Some(_) => {
            arena.extend_from_slice(piece.replace(SPACE, " ").as_bytes());
            let marked = piece.starts_with(SPACE);
            let stays = piece.len() > if marked { SPACE.len() } else { 0 };
            (if marked { MARKED } else { 0 }) | (if stays { PASSES } else { 0 })
        }
    }
}
