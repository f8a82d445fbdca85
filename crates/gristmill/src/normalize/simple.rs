//! The normalizers that look at one character at a time: Lowercase, Strip, StripAccents and Nmt.
//!
//! Invariant: a text without a character they care about is passed on untouched. Tested against the reference with
//! every scalar value.

use crate::{
    error::Result,
    text::{Rewriter, Text},
};
use unicode_normalization_alignments::char::is_combining_mark;

/// Lower case of each character by itself, without the context rules.
pub(super) fn lowercase(text: Text<'_>) -> Result<Text<'_>> {
    let source = text.as_str();
    let changes =
        |character: char| !character.is_ascii() && !character.to_lowercase().eq([character]);
    let changed =
        source.bytes().any(|byte| byte.is_ascii_uppercase()) || source.chars().any(changes);
    if text.is_anchored() && !changed {
        return Ok(text);
    }
    let mut rewriter = Rewriter::new(&text);
    let mut run = 0;
    for (at, character) in source
        .char_indices()
        .filter(|(_, character)| changes(*character))
    {
        rewriter.keep_in_lower_case(run..at);
        for (number, lower) in character.to_lowercase().enumerate() {
            rewriter.push(lower, isize::from(number > 0));
        }
        run = at + character.len_utf8();
    }
    rewriter.keep_in_lower_case(run..source.len());
    rewriter.finish()
}

/// Drops white space at the ends.
pub(super) fn strip(text: Text<'_>, left: bool, right: bool) -> Result<Text<'_>> {
    let source = text.as_str();
    let start = if left {
        source.len() - source.trim_start().len()
    } else {
        0
    };
    let end = if right {
        source.trim_end().len().max(start)
    } else {
        source.len()
    };
    if start == 0 && end == source.len() {
        return Ok(text);
    }
    if text.is_anchored() {
        return Ok(text.narrow(start..end));
    }
    let mut rewriter = Rewriter::new(&text);
    rewriter.remove_first(source.get(..start).unwrap_or_default().chars().count());
    rewriter.keep(start..end);
    // Where the reference marks the characters removed at the end is of no consequence: nothing comes after them.
    rewriter.finish()
}

/// Drops combining marks: general category M of Unicode 9.0.
pub(super) fn strip_accents(text: Text<'_>) -> Result<Text<'_>> {
    filter(text, |character| {
        character < '\u{300}' || !is_combining_mark(character)
    })
}

/// SentencePiece's cleaning rules as tokenizer.json has them.
pub(super) fn nmt(text: Text<'_>) -> Result<Text<'_>> {
    let text = filter(
        text,
        |character| !matches!(character, '\x01'..='\x08' | '\x0B' | '\x0E'..='\x1F' | '\x7F' | '\u{8F}' | '\u{9F}'),
    )?;
    to_spaces(text, |character| {
        matches!(
            character,
            '\t' | '\n' | '\x0C' | '\r' | '\u{1680}' | '\u{200B}'
                ..='\u{200F}' | '\u{2028}' | '\u{2029}' | '\u{2581}' | '\u{FEFF}' | '\u{FFFD}'
        )
    })
}

/// Keeps the characters for which `keep` holds.
pub(super) fn filter(text: Text<'_>, keep: impl Fn(char) -> bool) -> Result<Text<'_>> {
    let source = text.as_str();
    if text.is_anchored() && source.chars().all(&keep) {
        return Ok(text);
    }
    let mut rewriter = Rewriter::new(&text);
    let mut run = 0;
    let mut started = false;
    for (at, character) in source.char_indices() {
        if keep(character) {
            started = true;
            continue;
        }
        rewriter.keep(run..at);
        if started {
            rewriter.remove(1);
        } else {
            rewriter.remove_first(1);
        }
        run = at + character.len_utf8();
    }
    rewriter.keep(run..source.len());
    rewriter.finish()
}

/// Puts a space in the place of each character for which `is_space` holds.
pub(super) fn to_spaces(text: Text<'_>, is_space: impl Fn(char) -> bool) -> Result<Text<'_>> {
    let source = text.as_str();
    if text.is_anchored() && !source.chars().any(&is_space) {
        return Ok(text);
    }
    let mut rewriter = Rewriter::new(&text);
    let mut kept = 0;
    for (at, space) in source.match_indices(is_space) {
        rewriter.keep(kept..at);
        rewriter.push(' ', 0);
        kept = at + space.len();
    }
    rewriter.keep(kept..source.len());
    rewriter.finish()
}
