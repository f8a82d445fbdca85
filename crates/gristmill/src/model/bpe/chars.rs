//! The characters of a piece as symbols, and what stands in for a character the vocabulary lacks.
//!
//! This is the beginning of `tokenizers`' BPE without a byte-level alphabet, followed to the letter,
//! for ids depend on it: a character is looked up with the prefix or suffix its place gives it; if it
//! is no token, its bytes stand in, provided every one of them is a token; else the unknown token,
//! once for each character or once for a run of them. A pending unknown token is written only when a
//! character that is a token follows, after any bytes in between. Tested against `tokenizers`.

use crate::vocab::Vocab;

use super::{MergeList, NONE};

/// How characters become symbols.
pub(crate) struct Chars {
    /// Put before every character of a piece but the first when it is looked up.
    pub(crate) prefix: String,
    /// Put after the last character of a piece when it is looked up.
    pub(crate) suffix: String,
    /// The symbols of the 256 bytes, [`NONE`] where there is no token such as `<0x0A>`.
    pub(crate) bytes: Option<Box<[u32; 256]>>,
    /// The symbol for what has none; without it, such a character is dropped.
    pub(crate) unknown: Option<u32>,
    /// Whether a run of unknown characters is one unknown token.
    pub(crate) fuse_unknown: bool,
}

impl Chars {
    /// The byte tokens (`<0x00>` to `<0xFF>`) of a vocabulary.
    pub(crate) fn byte_tokens(vocab: &Vocab) -> Box<[u32; 256]> {
        let mut symbols = Box::new([NONE; 256]);
        for (byte, symbol) in (0..=255u8).zip(symbols.iter_mut()) {
            let name = format!("<0x{byte:02X}>");
            *symbol = vocab.id(name.as_bytes()).unwrap_or(NONE);
        }
        symbols
    }

    /// Whether what a character becomes depends on its neighbours alone: its place in the piece does
    /// not matter, and none is dropped, which would bring together what was apart.
    pub(crate) fn may_cut(&self) -> bool {
        let bytes_cover = |bytes: &[u32; 256]| !bytes.contains(&NONE);
        self.prefix.is_empty()
            && self.suffix.is_empty()
            && (self.unknown.is_some() || self.bytes.as_deref().is_some_and(bytes_cover))
    }

    /// Whether besides what becomes of a character that is no token does not depend on its neighbours
    /// either: it becomes its bytes, which merge with nothing.
    pub(crate) fn stand_alone(&self, merges: &MergeList) -> bool {
        let Some(bytes) = self.bytes.as_deref() else {
            return false;
        };
        self.may_cut() && !bytes.contains(&NONE) && !merges.has_parts(bytes)
    }

    /// Give `symbol` each symbol of `piece` and the number of bytes of the piece it stands for.
    pub(crate) fn symbols(&self, vocab: &Vocab, piece: &[u8], mut symbol: impl FnMut(u32, u32)) {
        let mut written = Vec::new();
        let mut pending = None;
        for (start, end) in characters(piece) {
            let character = self.dressed(piece, start, end, &mut written);
            let width = (end - start) as u32;
            if let Some(id) = vocab.id(character) {
                if let Some((id, width)) = pending.take() {
                    symbol(id, width);
                }
                symbol(id, width);
            } else if let Some(bytes) = self.stand_in(character) {
                for &byte in character {
                    symbol(bytes[byte as usize], 1);
                }
            } else if let Some(unknown) = self.unknown {
                pending = match pending {
                    Some((id, before)) if self.fuse_unknown => Some((id, before + width)),
                    Some((id, before)) => {
                        symbol(id, before);
                        Some((unknown, width))
                    }
                    None => Some((unknown, width)),
                };
            }
        }
        if let Some((id, width)) = pending {
            symbol(id, width);
        }
    }

    /// The character with what its place in the piece puts around it.
    fn dressed<'a>(
        &self,
        piece: &'a [u8],
        start: usize,
        end: usize,
        written: &'a mut Vec<u8>,
    ) -> &'a [u8] {
        let prefix = if start > 0 { &*self.prefix } else { "" };
        let suffix = if end == piece.len() {
            &*self.suffix
        } else {
            ""
        };
        let character = &piece[start..end];
        if prefix.is_empty() && suffix.is_empty() {
            return character;
        }
        written.clear();
        written.extend_from_slice(prefix.as_bytes());
        written.extend_from_slice(character);
        written.extend_from_slice(suffix.as_bytes());
        written
    }

    /// The table of byte symbols, if it has every byte of `character`.
    fn stand_in(&self, character: &[u8]) -> Option<&[u32; 256]> {
        let bytes = self.bytes.as_deref()?;
        character
            .iter()
            .all(|&byte| bytes[byte as usize] != NONE)
            .then_some(bytes)
    }
}

/// Where the characters of UTF-8 text start and end.
fn characters(text: &[u8]) -> impl Iterator<Item = (usize, usize)> {
    let starts = (0..text.len()).filter(|&at| !is_continuation(text[at]));
    let ends =
        (1..=text.len()).filter(|&at| text.get(at).is_none_or(|&byte| !is_continuation(byte)));
    starts.zip(ends)
}

fn is_continuation(byte: u8) -> bool {
    byte & 0xC0 == 0x80
}
