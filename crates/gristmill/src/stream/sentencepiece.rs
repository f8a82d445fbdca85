//! SentencePiece's decoding, one id after the other.
//!
//! The rules are those of `format::sentencepiece::Decoding`: bytes are characters as far as they are
//! UTF-8, one U+FFFD for each that is not; the space that was put before the text is dropped again.

use std::str;

use super::utf8::REPLACEMENT;

/// Which spaces are dropped at the start.
#[derive(Clone, Copy, Debug)]
pub(super) struct Spaces {
    pub(super) drop_first: bool,
    pub(super) drop_all: bool,
}

/// What a text has come to.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct State {
    /// Bytes that may become a character.
    bytes: [u8; 4],
    len: u8,
    /// There is text.
    started: bool,
    /// The last token was the space that is dropped.
    dropped: bool,
}

impl State {
    /// Whether nothing waits.
    pub(super) fn is_clean(self) -> bool {
        self.len == 0
    }

    /// A piece that is one byte.
    pub(super) fn push_byte(&mut self, byte: u8, out: &mut Vec<u8>) {
        // Three wait at most, so there is room.
        if let Some(place) = self.bytes.get_mut(usize::from(self.len)) {
            *place = byte;
            self.len += 1;
        }
        self.settle(false, out);
    }

    /// Give what is certain of the bytes, or all of it as U+FFFD when no byte follows.
    fn settle(&mut self, ends: bool, out: &mut Vec<u8>) {
        while self.len > 0 {
            let bytes = &self.bytes[..usize::from(self.len)];
            let broken = match str::from_utf8(bytes) {
                Ok(text) => {
                    out.extend_from_slice(text.as_bytes());
                    self.started = true;
                    self.len = 0;
                    return;
                }
                Err(error) => error.error_len(),
            };
            let Some(broken) = broken.or(ends.then_some(bytes.len())) else {
                return;
            };
            for _ in 0..broken {
                out.extend_from_slice(REPLACEMENT);
            }
            self.started = true;
            self.bytes.rotate_left(broken);
            self.len -= broken as u8;
        }
    }

    /// Any other piece. `text` is what it writes inside of a text, `marked` whether the space it may
    /// begin with is the visible one, which is dropped at the start of a text.
    pub(super) fn push(&mut self, text: &[u8], marked: bool, spaces: Spaces, out: &mut Vec<u8>) {
        self.settle(true, out);
        let at_start = !self.dropped && !self.started;
        self.dropped = false;
        let mut text = text;
        if at_start && spaces.drop_first && marked {
            text = text.get(1..).unwrap_or_default();
            self.dropped = !spaces.drop_all;
        }
        self.started |= !text.is_empty();
        out.extend_from_slice(text);
    }

    /// Nothing more comes.
    pub(super) fn end(&mut self, out: &mut Vec<u8>) {
        self.settle(true, out);
    }
}
