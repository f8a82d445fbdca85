//! The BERT normalizer.
//!
//! Invariant: the steps run in the order of the reference: cleaning, Chinese characters, accents, lower case. Tested
//! against the reference with every scalar value.

use super::{Bert, Form, simple};
use crate::{
    error::Result,
    text::{Rewriter, Text},
    unicode::{is_bert_control, is_nonspacing_mark},
};

impl Bert {
    /// Normalizes a text.
    pub(super) fn apply<'a>(&self, mut text: Text<'a>) -> Result<Text<'a>> {
        if self.clean_text {
            text = simple::filter(text, |character| {
                !(matches!(character, '\0' | '\u{FFFD}') || is_bert_control(character))
            })?;
            text = simple::to_spaces(text, |character| {
                character != ' ' && character.is_whitespace()
            })?;
        }
        if self.handle_chinese_chars {
            text = surround_chinese(text)?;
        }
        if self.strip_accents {
            text = Form::Nfd.apply(text)?;
            text = simple::filter(text, |character| !is_nonspacing_mark(character))?;
        }
        if self.lowercase {
            text = simple::lowercase(text)?;
        }
        Ok(text)
    }
}

/// Puts a space on each side of every Chinese character.
fn surround_chinese(text: Text<'_>) -> Result<Text<'_>> {
    let source = text.as_str();
    if text.is_anchored() && !source.chars().any(is_chinese) {
        return Ok(text);
    }
    let mut rewriter = Rewriter::new(&text);
    let mut run = 0;
    for (at, character) in source
        .char_indices()
        .filter(|(_, character)| is_chinese(*character))
    {
        rewriter.keep(run..at);
        rewriter.push(' ', 0);
        rewriter.push(character, 1);
        rewriter.push(' ', 1);
        run = at + character.len_utf8();
    }
    rewriter.keep(run..source.len());
    rewriter.finish()
}

/// The ranges of the reference, its gap before U+2B920 included.
fn is_chinese(character: char) -> bool {
    matches!(
        character,
        '\u{3400}'..='\u{4DBF}'
            | '\u{4E00}'..='\u{9FFF}'
            | '\u{F900}'..='\u{FAFF}'
            | '\u{20000}'..='\u{2A6DF}'
            | '\u{2A700}'..='\u{2B73F}'
            | '\u{2B740}'..='\u{2B81F}'
            | '\u{2B920}'..='\u{2CEAF}'
            | '\u{2F800}'..='\u{2FA1F}'
    )
}
