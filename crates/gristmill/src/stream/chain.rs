//! The decoders of tokenizer.json, one token after the other.
//!
//! A decoder maps a list of tokens to a list of texts. Here each is a stage with a memory of its own.
//! Stages before the first one that joins everything into one text work on pieces, which come whole;
//! stages after it work on a text, which comes in parts. A stage that looks at one piece alone and
//! comes first is not here at all: `texts.rs` has applied it to every token. What a stage does to a
//! piece it leaves to `decode.rs`, so only the order of things is told twice.
//!
//! Invariant: what a stage keeps is what the next tokens may still change; and it keeps no more than
//! one piece, one run of bytes, or the beginning of one literal, but for [`Later::Whole`], which can
//! say nothing before the end.

use std::borrow::Cow;
use std::str;

use crate::decode::{self, Broken, Decoder};
use crate::error::{Error, Result};

use super::literal::Literal;
use super::utf8::{REPLACEMENT, Utf8};

/// More stages than any tokenizer has; a longer chain waits for the end.
const MOST_STAGES: usize = 64;

/// A stage on pieces. Numbers are places in the list of decoders.
enum Early {
    /// Looks at one piece alone.
    Each(usize),
    /// Does something else to the first piece; the character it drops there, if it does.
    First(usize, Option<char>),
    /// Does something else to the last piece; the text that ends words.
    Last(usize, String),
    /// Drops pieces that are equal to the one before.
    Repeats(usize),
    /// Tokens that name bytes; a run of them is text as a whole or not at all.
    ByteRuns,
    /// The byte-level alphabet; what comes after is one text.
    ByteLevel,
    /// A space between tokens.
    Spaces,
}

/// A stage on a text.
enum Later {
    Literal(Literal),
    /// Up to so many of a character off the start and the end.
    Trim {
        content: char,
        start: usize,
        stop: usize,
    },
    /// A text that is nothing but the name of a byte.
    Byte,
    /// Anything that has to see the whole text.
    Whole(usize),
}

/// What a stage remembers of a stream.
#[derive(Debug, Default)]
pub(super) struct Memory {
    held: Vec<u8>,
    count: usize,
    dropped: usize,
    flag: bool,
    utf8: Utf8,
}

/// A decoder in stages.
pub(super) struct Chain {
    early: Vec<Early>,
    later: Vec<Later>,
    /// How many decoders look at one token alone and come first.
    fixed: usize,
}

/// The decoders of a sequence, without the sequences in it.
pub(super) fn leaves(decoder: &Decoder) -> Vec<&Decoder> {
    let mut found = Vec::new();
    let mut open = vec![decoder];
    while let Some(next) = open.pop() {
        match next {
            Decoder::Sequence(inner) => open.extend(inner.iter().rev()),
            other => found.push(other),
        }
    }
    found
}

impl Chain {
    /// The stages of a decoder; `None` if nothing can be said before the end.
    pub(super) fn new(decoder: Option<&Decoder>) -> Option<Chain> {
        let mut chain = Chain {
            early: Vec::new(),
            later: Vec::new(),
            fixed: 0,
        };
        let Some(decoder) = decoder else {
            chain.early.push(Early::Spaces);
            return Some(chain);
        };
        let mut one_text = false;
        let mut may_vanish = false;
        for (at, leaf) in leaves(decoder).into_iter().enumerate() {
            if one_text {
                chain.add_later(at, leaf);
                // An empty text, in which something may be found, is not the same as no text.
                if may_vanish && matches!(chain.later.last(), Some(Later::Whole(_))) {
                    return None;
                }
                may_vanish |= matches!(leaf, Decoder::Ctc { .. });
            } else {
                one_text = chain.add_early(at, leaf);
            }
            if chain.early.len() + chain.later.len() > MOST_STAGES {
                return None;
            }
        }
        Some(chain)
    }

    /// Whether all that follows is one text.
    fn add_early(&mut self, at: usize, leaf: &Decoder) -> bool {
        let stage = match leaf {
            Decoder::Fuse => return true,
            Decoder::ByteLevel => Early::ByteLevel,
            Decoder::Replace(_) | Decoder::Strip { .. } if self.early.is_empty() => {
                self.fixed = at + 1;
                return false;
            }
            Decoder::Replace(_) | Decoder::Strip { .. } | Decoder::Sequence(_) => Early::Each(at),
            Decoder::ByteFallback => Early::ByteRuns,
            Decoder::Metaspace { replacement, .. } => Early::First(at, Some(*replacement)),
            Decoder::WordPiece { .. } => Early::First(at, None),
            Decoder::Suffix(suffix) => Early::Last(at, suffix.clone()),
            Decoder::Ctc { .. } => Early::Repeats(at),
        };
        self.early.push(stage);
        matches!(leaf, Decoder::ByteLevel)
    }

    fn add_later(&mut self, at: usize, leaf: &Decoder) {
        let mut literal = |pattern: &[u8], content: &[u8]| {
            let found = Literal::new(pattern, content).map(Later::Literal);
            self.later.extend(found);
        };
        let cleanup = |literal: &mut dyn FnMut(&[u8], &[u8])| {
            for (from, to) in decode::CLEANED {
                literal(from.as_bytes(), to.as_bytes());
            }
        };
        match leaf {
            // One text is the first and the last.
            Decoder::Metaspace {
                replacement,
                drop_first,
            } => {
                let space = if *drop_first { "" } else { " " };
                literal(
                    replacement.encode_utf8(&mut [0; 4]).as_bytes(),
                    space.as_bytes(),
                );
            }
            Decoder::WordPiece { cleanup: true, .. } => cleanup(&mut literal),
            Decoder::WordPiece { .. } | Decoder::Fuse => {}
            Decoder::Suffix(suffix) => literal(suffix.as_bytes(), b""),
            Decoder::Ctc {
                pad,
                delimiter,
                cleanup: cleans,
            } => {
                if *cleans && delimiter.is_empty() {
                    self.later.push(Later::Whole(at));
                    return;
                }
                literal(pad.as_bytes(), b"");
                if *cleans {
                    cleanup(&mut literal);
                    literal(delimiter.as_bytes(), b" ");
                }
            }
            Decoder::Replace(replace) => match replace.as_literal() {
                Some((pattern, content)) if !pattern.is_empty() => {
                    literal(pattern, content.as_bytes());
                }
                _ => self.later.push(Later::Whole(at)),
            },
            Decoder::Strip {
                content,
                start,
                stop,
            } => self.later.push(Later::Trim {
                content: *content,
                start: *start,
                stop: *stop,
            }),
            Decoder::ByteFallback => self.later.push(Later::Byte),
            Decoder::ByteLevel | Decoder::Sequence(_) => self.later.push(Later::Whole(at)),
        }
    }

    /// How many decoders are applied to a token before it comes here.
    pub(super) fn fixed(&self) -> usize {
        self.fixed
    }

    /// What a stream remembers in the beginning.
    pub(super) fn memories(&self) -> Box<[Memory]> {
        let stages = self.early.len() + self.later.len();
        (0..stages).map(|_| Memory::default()).collect()
    }

    /// Whether the state after a token that passes through unchanged is always the same, but for
    /// what only a first token changes.
    pub(super) fn forgets(&self) -> bool {
        let early = self.early.iter().all(|stage| {
            matches!(
                stage,
                Early::First(_, Some(_)) | Early::ByteRuns | Early::Spaces
            )
        });
        early
            && self
                .later
                .iter()
                .all(|stage| matches!(stage, Later::Trim { stop: 0, .. }))
    }

    /// Whether a token has a character that every stage lets through.
    pub(super) fn passes(&self, token: &[u8]) -> bool {
        let dropped = |char: char| {
            let first = self.early.iter();
            let mut first = first.filter_map(|stage| match stage {
                Early::First(_, mark) => *mark,
                _ => None,
            });
            let mut trimmed = self.later.iter().filter_map(|stage| match stage {
                Later::Trim { content, .. } => Some(*content),
                _ => None,
            });
            first.any(|mark| mark == char) || trimmed.any(|content| content == char)
        };
        let text = str::from_utf8(token).unwrap_or_default();
        let mut chars = text.chars();
        decode::byte_token(token).is_none()
            && chars.any(|char| char.is_alphanumeric() && !dropped(char))
    }

    /// Whether a prompt can be told from what follows it.
    pub(super) fn takes_prompts(&self) -> bool {
        !self
            .later
            .iter()
            .any(|stage| matches!(stage, Later::Whole(_)))
    }

    /// Whether all text of the tokens so far was given.
    pub(super) fn is_clean(&self, memories: &[Memory]) -> bool {
        let (early, later) = memories.split_at(self.early.len().min(memories.len()));
        let early = self
            .early
            .iter()
            .zip(early)
            .all(|(stage, memory)| match stage {
                Early::ByteRuns => memory.held.is_empty(),
                Early::Last(..) => !memory.flag,
                Early::ByteLevel => memory.utf8.is_empty(),
                Early::Each(_) | Early::First(..) | Early::Repeats(_) | Early::Spaces => true,
            });
        early
            && self
                .later
                .iter()
                .zip(later)
                .all(|(stage, memory)| match stage {
                    Later::Literal(_) | Later::Trim { .. } => memory.count == 0,
                    Later::Byte | Later::Whole(_) => memory.held.is_empty(),
                })
    }

    /// What waits now belongs to a prompt, whose text is not given again.
    pub(super) fn settle(&self, memories: &mut [Memory]) {
        let (early, later) = memories.split_at_mut(self.early.len().min(memories.len()));
        for (stage, memory) in self.early.iter().zip(early) {
            match stage {
                Early::ByteRuns => {
                    memory.held.drain(..memory.count);
                    memory.count = 0;
                }
                // What the end of a word will be, and was not while it was the last.
                Early::Last(_, suffix) => {
                    memory.flag &= !suffix.is_empty() && memory.held.ends_with(suffix.as_bytes());
                    memory.held = suffix.clone().into_bytes();
                }
                _ => {}
            }
        }
        for (stage, memory) in self.later.iter().zip(later) {
            match stage {
                Later::Literal(_) => memory.count = 0,
                Later::Byte => {
                    memory.flag |= !memory.held.is_empty();
                    memory.held.clear();
                }
                Later::Trim { .. } | Later::Whole(_) => {}
            }
        }
    }

    /// Append the text that is certain after this token.
    pub(super) fn push(
        &self,
        decoder: Option<&Decoder>,
        token: &[u8],
        memories: &mut [Memory],
        out: &mut Vec<u8>,
    ) -> Result<()> {
        let (early, later) = memories.split_at_mut(self.early.len().min(memories.len()));
        if later.is_empty() {
            return piece(&self.early, early, decoder, token, out);
        }
        let mut text = Vec::new();
        piece(&self.early, early, decoder, token, &mut text)?;
        self.text(text, later, decoder, false, out)
    }

    /// Append the rest; nothing more comes.
    pub(super) fn end(
        &self,
        decoder: Option<&Decoder>,
        memories: &mut [Memory],
        out: &mut Vec<u8>,
    ) -> Result<()> {
        let (early, later) = memories.split_at_mut(self.early.len().min(memories.len()));
        let mut text = Vec::new();
        for at in 0..self.early.len() {
            let (Some(stages), Some(memories)) = (self.early.get(at..), early.get_mut(at..)) else {
                break;
            };
            end_pieces(stages, memories, decoder, &mut text)?;
        }
        self.text(text, later, decoder, true, out)
    }

    fn text(
        &self,
        text: Vec<u8>,
        memories: &mut [Memory],
        decoder: Option<&Decoder>,
        ends: bool,
        out: &mut Vec<u8>,
    ) -> Result<()> {
        let mut text = text;
        for (stage, memory) in self.later.iter().zip(memories) {
            if text.is_empty() && !ends {
                return Ok(());
            }
            let mut next = Vec::with_capacity(text.len());
            later(stage, memory, decoder, &text, ends, &mut next)?;
            text = next;
        }
        out.extend_from_slice(&text);
        Ok(())
    }
}

/// Give a piece to the first of the stages.
fn piece(
    stages: &[Early],
    memories: &mut [Memory],
    decoder: Option<&Decoder>,
    token: &[u8],
    out: &mut Vec<u8>,
) -> Result<()> {
    let (Some((stage, stages)), Some((memory, memories))) =
        (stages.split_first(), memories.split_first_mut())
    else {
        out.extend_from_slice(token);
        return Ok(());
    };
    let mut next = |token: &[u8]| piece(stages, memories, decoder, token, out);
    match stage {
        Early::Each(at) => {
            for text in run(decoder, *at, &[token])? {
                next(&text)?;
            }
        }
        Early::First(at, _) => {
            let is_first = !std::mem::replace(&mut memory.flag, true);
            let before: &[&[u8]] = if is_first { &[] } else { &[b""] };
            let texts = run(decoder, *at, &[before, &[token]].concat())?;
            for text in texts.iter().skip(before.len()) {
                next(text)?;
            }
        }
        Early::Last(at, suffix) => {
            if std::mem::take(&mut memory.flag) {
                let held = std::mem::take(&mut memory.held);
                for text in run(decoder, *at, &[&held, b""])?.iter().take(1) {
                    next(text)?;
                }
            }
            if memchr::memmem::find(token, suffix.as_bytes()).is_some() {
                memory.flag = true;
                memory.held = token.to_vec();
            } else {
                next(token)?;
            }
        }
        Early::Repeats(at) => {
            if !memory.flag || memory.held != token {
                memory.flag = true;
                memory.held.clear();
                memory.held.extend_from_slice(token);
                for text in run(decoder, *at, &[token])? {
                    next(&text)?;
                }
            }
        }
        Early::ByteRuns => match decode::byte_token(token) {
            Some(byte) => in_run(memory, byte, &mut next)?,
            None => {
                end_run(memory, &mut next)?;
                next(token)?;
            }
        },
        Early::ByteLevel => {
            let mut bytes = Vec::new();
            decode::append_byte_level(token, &mut bytes);
            let mut text = Vec::new();
            memory.utf8.push(&bytes, &mut text);
            next(&text)?;
        }
        Early::Spaces => {
            if std::mem::replace(&mut memory.flag, true) {
                next(b" ")?;
            }
            next(token)?;
        }
    }
    Ok(())
}

/// Let the first of the stages give what it kept.
fn end_pieces(
    stages: &[Early],
    memories: &mut [Memory],
    decoder: Option<&Decoder>,
    out: &mut Vec<u8>,
) -> Result<()> {
    let (Some((stage, stages)), Some((memory, memories))) =
        (stages.split_first(), memories.split_first_mut())
    else {
        return Ok(());
    };
    let mut next = |token: &[u8]| piece(stages, memories, decoder, token, out);
    match stage {
        Early::Last(at, _) if std::mem::take(&mut memory.flag) => {
            for text in run(decoder, *at, &[&memory.held])? {
                next(&text)?;
            }
        }
        Early::ByteRuns => end_run(memory, &mut next)?,
        Early::ByteLevel => {
            let mut text = Vec::new();
            memory.utf8.end(&mut text);
            next(&text)?;
        }
        _ => {}
    }
    Ok(())
}

/// A byte goes on with a run; what is known to be broken need not wait.
fn in_run(memory: &mut Memory, byte: u8, next: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<()> {
    if memory.flag {
        return next(REPLACEMENT);
    }
    memory.held.push(byte);
    match str::from_utf8(&memory.held[memory.count..]) {
        Ok(_) => memory.count = memory.held.len(),
        Err(error) if error.error_len().is_none() => {}
        Err(_) => {
            memory.flag = true;
            give_up(memory, next)?;
        }
    }
    Ok(())
}

fn end_run(memory: &mut Memory, next: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<()> {
    memory.flag = false;
    if memory.held.is_empty() {
        return Ok(());
    }
    if memory.count < memory.held.len() {
        return give_up(memory, next);
    }
    memory.count = 0;
    next(&std::mem::take(&mut memory.held))
}

/// One U+FFFD for each byte of a broken run.
fn give_up(memory: &mut Memory, next: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<()> {
    memory.count = 0;
    for _ in std::mem::take(&mut memory.held) {
        next(REPLACEMENT)?;
    }
    Ok(())
}

/// Append what a stage makes of the next part of its text.
fn later(
    stage: &Later,
    memory: &mut Memory,
    decoder: Option<&Decoder>,
    text: &[u8],
    ends: bool,
    out: &mut Vec<u8>,
) -> Result<()> {
    match stage {
        Later::Literal(literal) => {
            literal.push(&mut memory.count, text, out);
            if ends {
                literal.end(&mut memory.count, out);
            }
        }
        Later::Trim {
            content,
            start,
            stop,
        } => trim(memory, (*content, *start, *stop), text, out),
        Later::Byte => {
            memory.held.extend_from_slice(text);
            // "<0x41>" is the longest text that can be the name of a byte.
            memory.flag |= memory.held.len() > 6;
            if memory.flag || ends {
                let held = std::mem::take(&mut memory.held);
                match decode::byte_token(&held).filter(|_| !memory.flag) {
                    Some(byte) if byte.is_ascii() => out.push(byte),
                    Some(_) => out.extend_from_slice(REPLACEMENT),
                    None => out.extend_from_slice(&held),
                }
            }
        }
        Later::Whole(at) => {
            memory.held.extend_from_slice(text);
            if ends {
                for text in run(decoder, *at, &[&memory.held])? {
                    out.extend_from_slice(&text);
                }
            }
        }
    }
    Ok(())
}

/// Drop the first of a character; keep the last, which are dropped if nothing follows.
fn trim(
    memory: &mut Memory,
    (content, start, stop): (char, usize, usize),
    text: &[u8],
    out: &mut Vec<u8>,
) {
    if memory.flag && stop == 0 {
        out.extend_from_slice(text);
        return;
    }
    let mut buffer = [0; 4];
    let content_bytes: &[u8] = content.encode_utf8(&mut buffer).as_bytes();
    // Stages are given whole characters.
    for char in str::from_utf8(text).unwrap_or_default().chars() {
        if !memory.flag && char == content && memory.dropped < start {
            memory.dropped += 1;
            continue;
        }
        memory.flag = true;
        if char == content {
            memory.count += 1;
            if memory.count > stop {
                memory.count -= 1;
                out.extend_from_slice(content_bytes);
            }
            continue;
        }
        for _ in 0..std::mem::take(&mut memory.count) {
            out.extend_from_slice(content_bytes);
        }
        out.extend_from_slice(char.encode_utf8(&mut [0; 4]).as_bytes());
    }
}

/// What one decoder of the sequence makes of these texts alone.
fn run<'a>(decoder: Option<&Decoder>, at: usize, texts: &[&'a [u8]]) -> Result<Vec<Cow<'a, [u8]>>> {
    let leaves = decoder.map(leaves).unwrap_or_default();
    match leaves.get(at) {
        Some(leaf) => leaf.run(
            texts.iter().map(|&text| Cow::Borrowed(text)).collect(),
            Broken::Replace,
        ),
        None => Err(Error::format("the decoder has fewer parts than it had")),
    }
}
