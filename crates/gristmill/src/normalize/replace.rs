//! Replace: every match of a pattern becomes the same content.
//!
//! Invariant: matches are found left to right and do not overlap; an empty one is not taken right after another match,
//! and an empty text has none. Tested against the reference with literal patterns, the empty one among them.

use crate::error::Result;
use crate::split::Regex;
use crate::text::Text;
use memchr::memmem::Finder;
use std::fmt;

/// A pattern and what its matches become.
#[derive(Debug)]
pub(crate) struct Replace {
    pattern: Pattern,
    content: String,
}

enum Pattern {
    /// Matches at every character boundary.
    Empty,
    Byte(u8),
    Literal(Box<Finder<'static>>),
    Regex(Box<Regex>),
}

impl fmt::Debug for Pattern {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => formatter.write_str("Empty"),
            Self::Byte(byte) => formatter.debug_tuple("Byte").field(byte).finish(),
            Self::Literal(finder) => formatter
                .debug_tuple("Literal")
                .field(&String::from_utf8_lossy(finder.needle()))
                .finish(),
            Self::Regex(_) => formatter.write_str("Regex"),
        }
    }
}

impl Replace {
    /// Replaces the string `pattern`.
    pub(crate) fn literal(pattern: &str, content: String) -> Self {
        let pattern = match pattern.as_bytes() {
            [] => Pattern::Empty,
            [byte] => Pattern::Byte(*byte),
            bytes => Pattern::Literal(Box::new(Finder::new(bytes).into_owned())),
        };
        Self { pattern, content }
    }

    /// The character that a space is replaced by, if that is what it does.
    pub(crate) fn space(&self) -> Option<char> {
        let mut content = self.content.chars();
        match (&self.pattern, content.next(), content.next()) {
            (Pattern::Byte(b' '), Some(space), None) if space != ' ' => Some(space),
            _ => None,
        }
    }

    /// Replaces what a regular expression matches.
    pub(crate) fn regex(pattern: Regex, content: String) -> Self {
        Self {
            pattern: Pattern::Regex(Box::new(pattern)),
            content,
        }
    }

    /// The pattern and the content, if the pattern is a string.
    pub(crate) fn as_literal(&self) -> Option<(&[u8], &str)> {
        let pattern = match &self.pattern {
            Pattern::Empty => &[],
            Pattern::Byte(byte) => std::slice::from_ref(byte),
            Pattern::Literal(finder) => finder.needle(),
            Pattern::Regex(_) => return None,
        };
        Some((pattern, &self.content))
    }

    /// A text with its matches replaced; `None` if there are none.
    pub(crate) fn in_text(&self, text: &str) -> Result<Option<String>> {
        let text = Text::untracked(text);
        let replaced = self.apply(text.clone())?;
        Ok((replaced.as_str() != text.as_str()).then(|| replaced.as_str().to_owned()))
    }

    /// Normalizes a text.
    pub(super) fn apply<'a>(&self, text: Text<'a>) -> Result<Text<'a>> {
        let source = text.as_str();
        let content = self.content.as_str();
        let replaced = match &self.pattern {
            Pattern::Byte(byte) => {
                let found = memchr::memchr_iter(*byte, source.as_bytes());
                text.replace(found.map(|at| at..at + 1), content)?
            }
            Pattern::Literal(finder) => {
                let length = finder.needle().len();
                text.replace(
                    finder
                        .find_iter(source.as_bytes())
                        .map(|at| at..at + length),
                    content,
                )?
            }
            Pattern::Empty => {
                let boundaries = source
                    .char_indices()
                    .map(|(at, _)| at)
                    .chain([source.len()]);
                text.replace(boundaries.map(|at| at..at), content)?
            }
            Pattern::Regex(_) if source.is_empty() => None,
            Pattern::Regex(regex) => {
                text.replace(regex.matches(source).collect::<Result<Vec<_>>>()?, content)?
            }
        };
        Ok(replaced.unwrap_or(text))
    }
}
