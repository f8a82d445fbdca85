//! ByteLevel: each byte of the text becomes the character that stands for it.
//!
//! Invariant: printable bytes of Latin-1 stand for themselves, the others for U+0100 and on, in order. Tested against the
//! reference with every scalar value.

use crate::{
    error::Result,
    text::{Rewriter, Text},
};

const ALPHABET: [char; 256] = alphabet();

const fn alphabet() -> [char; 256] {
    let mut characters = ['\0'; 256];
    let mut next = 0x100;
    let mut byte = 0_u8;
    loop {
        characters[byte as usize] = if matches!(byte, b'!'..=b'~' | 0xA1..=0xAC | 0xAE..=0xFF) {
            byte as char
        } else {
            next += 1;
            match char::from_u32(next - 1) {
                Some(character) => character,
                None => '\0',
            }
        };
        if byte == u8::MAX {
            return characters;
        }
        byte += 1;
    }
}

/// Normalizes a text.
pub(super) fn apply(text: Text<'_>) -> Result<Text<'_>> {
    let source = text.as_str();
    if text.is_anchored() && source.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Ok(text);
    }
    let mut rewriter = Rewriter::new(&text);
    let mut run = 0;
    for (at, character) in source
        .char_indices()
        .filter(|(_, character)| !character.is_ascii_graphic())
    {
        rewriter.keep(run..at);
        run = at + character.len_utf8();
        for (number, byte) in source
            .as_bytes()
            .get(at..run)
            .unwrap_or_default()
            .iter()
            .enumerate()
        {
            rewriter.push(ALPHABET[usize::from(*byte)], isize::from(number > 0));
        }
    }
    rewriter.keep(run..source.len());
    rewriter.finish()
}
