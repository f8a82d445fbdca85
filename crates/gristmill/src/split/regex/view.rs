//! A text as a program sees it: characters before and after a position, and conditions on positions.
//!
//! Invariant: a view never looks outside its text, and a position inside a character is never made. Tested through the
//! engine and by walking texts below.

use super::ast::Assertion;
use super::charset::Class;
use super::program::Program;

/// A program together with the text it runs over.
#[derive(Clone, Copy)]
pub(crate) struct View<'r, 't> {
    /// The program.
    pub(crate) program: &'r Program,
    /// The text, which is valid UTF-8.
    pub(crate) text: &'t [u8],
    /// Where the newlines at the end of the text begin, if the program asks.
    final_newlines: usize,
}

impl<'r, 't> View<'r, 't> {
    /// A view of a text.
    pub(crate) fn new(program: &'r Program, text: &'t str) -> View<'r, 't> {
        let final_newlines = if program.needs_final_newlines {
            text.trim_end_matches('\n').len()
        } else {
            text.len()
        };
        View {
            program,
            text: text.as_bytes(),
            final_newlines,
        }
    }

    /// The position after a character of a class, given by number.
    #[inline]
    pub(crate) fn after(&self, class: u32, position: usize) -> Option<usize> {
        self.after_class(self.program.classes.get(class as usize)?, position)
    }

    /// The position after a character of a class.
    #[inline]
    pub(crate) fn after_class(&self, class: &Class, position: usize) -> Option<usize> {
        let byte = *self.text.get(position)?;
        if byte < 0x80 {
            return class.contains_ascii(byte).then_some(position + 1);
        }
        let (character, width) = decode(self.text, position);
        class.contains_wide(character).then_some(position + width)
    }

    /// The position of the character before one, which must be of a class given by number.
    pub(crate) fn before(&self, class: u32, position: usize) -> Option<usize> {
        let start = self.previous(position)?;
        self.after(class, start).map(|_| start)
    }

    /// The position of the character before one; `None` at the start.
    #[inline]
    pub(crate) fn previous(&self, position: usize) -> Option<usize> {
        let mut start = position.checked_sub(1)?;
        while start > 0 && self.text.get(start).is_some_and(|byte| byte & 0xC0 == 0x80) {
            start -= 1;
        }
        Some(start)
    }

    /// Whether a condition holds at a position.
    pub(crate) fn holds(&self, assertion: Assertion, position: usize) -> bool {
        let next = self.text.get(position).copied();
        let previous = position
            .checked_sub(1)
            .and_then(|before| self.text.get(before))
            .copied();
        let at_end = next.is_none();
        match assertion {
            Assertion::TextStart => position == 0,
            Assertion::TextEnd => at_end,
            Assertion::TextEndOrLastNewline => {
                at_end || next == Some(b'\n') && position + 1 == self.text.len()
            }
            Assertion::TextEndOrNewlines => position >= self.final_newlines,
            Assertion::LineStart => position == 0 || previous == Some(b'\n'),
            Assertion::LineStartNotAtEnd => position == 0 || previous == Some(b'\n') && !at_end,
            Assertion::LineEnd => at_end || next == Some(b'\n'),
            Assertion::WordBoundary => self.is_word_boundary(position),
            Assertion::NotWordBoundary => !self.is_word_boundary(position),
        }
    }

    fn is_word_boundary(&self, position: usize) -> bool {
        let Some(word) = &self.program.word else {
            return false;
        };
        let is_word = |at: usize| self.after_class(word, at).is_some();
        let before = self.previous(position).is_some_and(is_word);
        before != is_word(position)
    }
}

/// The bytes of the character that starts with this byte.
#[inline]
pub(crate) fn width(byte: u8) -> usize {
    match byte {
        0..0x80 => 1,
        0x80..0xE0 => 2,
        0xE0..0xF0 => 3,
        0xF0.. => 4,
    }
}

/// The character beyond ASCII that starts at a position, and its bytes.
#[inline]
fn decode(text: &[u8], position: usize) -> (u32, usize) {
    let byte = |offset: usize| {
        text.get(position + offset)
            .map_or(0, |byte| u32::from(*byte))
    };
    let tail = |offset: usize| byte(offset) & 0x3F;
    let lead = byte(0);
    match lead {
        ..0xE0 => ((lead & 0x1F) << 6 | tail(1), 2),
        0xE0..0xF0 => ((lead & 0x0F) << 12 | tail(1) << 6 | tail(2), 3),
        _ => (
            (lead & 0x07) << 18 | tail(1) << 12 | tail(2) << 6 | tail(3),
            4,
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_character_is_read_as_it_is() {
        let text: String = (0..=0x10_FFFF).filter_map(char::from_u32).collect();
        let mut position = 0;
        for character in text.chars() {
            let byte = text.as_bytes()[position];
            assert_eq!(width(byte), character.len_utf8());
            if byte >= 0x80 {
                let expected = (u32::from(character), character.len_utf8());
                assert_eq!(decode(text.as_bytes(), position), expected);
            }
            position += character.len_utf8();
        }
    }
}
