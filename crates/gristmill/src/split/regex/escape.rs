//! What follows a backslash, outside and inside brackets, in both dialects.
//!
//! Invariant: every escape is either read as its engine reads it or refused by name; an unknown letter is never taken for
//! itself. Tested by the differential tests of the whole engine.

use std::sync::Arc;

use super::Dialect;
use super::ast::{Assertion, Node};
use super::charset::{self, CharSet};
use super::parse::Parser;
use crate::error::Result;

/// What an escape inside brackets stands for.
pub(super) enum Escaped {
    /// One character.
    Character(char),
    /// A set of characters.
    Set(Arc<CharSet>),
}

impl Parser<'_> {
    /// An escape outside brackets, read after its backslash.
    pub(super) fn escape(&mut self) -> Result<Node> {
        let assertion = match (self.peek(), self.dialect) {
            (Some('A'), _) => Some(Assertion::TextStart),
            (Some('z'), _) => Some(Assertion::TextEnd),
            (Some('Z'), Dialect::Oniguruma) => Some(Assertion::TextEndOrLastNewline),
            (Some('Z'), Dialect::FancyRegex) => Some(Assertion::TextEndOrNewlines),
            (Some('b'), _) => Some(Assertion::WordBoundary),
            (Some('B'), _) => Some(Assertion::NotWordBoundary),
            _ => None,
        };
        if let Some(assertion) = assertion {
            self.next();
            if self.dialect == Dialect::FancyRegex && self.rest().starts_with('{') {
                return Err(self.unsupported("a brace after an anchor"));
            }
            return Ok(Node::Assertion(assertion));
        }
        match self.peek() {
            Some('N') => {
                self.next();
                Ok(Node::Class(Arc::new(CharSet::single('\n').complement())))
            }
            Some('O') => {
                self.next();
                Ok(Node::Class(Arc::new(CharSet::all())))
            }
            Some('w' | 'W') => {
                let negative = self.next() == Some('W');
                let dialect = self.dialect;
                let word = self.set("word".to_owned(), negative, || Some(charset::word(dialect)));
                self.known(word, "`\\w`")
            }
            Some('p' | 'P') => self.property(false).map(Node::Class),
            _ => self.plain_escape(),
        }
    }

    /// The escapes outside brackets that are read as they are inside.
    fn plain_escape(&mut self) -> Result<Node> {
        let numeric = matches!(self.peek(), Some('x' | 'u' | 'U'));
        match self.escape_in_brackets()? {
            Escaped::Set(set) => Ok(Node::Class(set)),
            Escaped::Character(character) if self.dialect == Dialect::Oniguruma => {
                let cased = character.is_ascii_alphabetic();
                if numeric && self.flags.ignore_case && cased {
                    return Err(self.unsupported("a letter given by number where case is ignored"));
                }
                self.literal(character)
            }
            // fancy-regex ignores the case of numbered characters, and of no other escaped one.
            Escaped::Character(character) => Ok(Node::Literal {
                character,
                folded: numeric && self.flags.ignore_case,
            }),
        }
    }

    /// An escape inside brackets, read after its backslash.
    pub(super) fn escape_in_brackets(&mut self) -> Result<Escaped> {
        let Some(character) = self.peek() else {
            return Err(self.unsupported("a backslash at the end"));
        };
        if matches!(character, 'p' | 'P') {
            return self.property(true).map(Escaped::Set);
        }
        self.next();
        let control = match character {
            'a' => Some('\u{7}'),
            'b' => Some('\u{8}'),
            'e' => Some('\u{1B}'),
            'f' => Some('\u{C}'),
            'n' => Some('\n'),
            'r' => Some('\r'),
            't' => Some('\t'),
            'v' => Some('\u{B}'),
            _ => None,
        };
        if let Some(control) = control {
            return Ok(Escaped::Character(control));
        }
        match character {
            'd' | 'D' | 's' | 'S' | 'h' | 'H' | 'w' | 'W' => self.perl_class(character),
            'x' | 'u' | 'U' => self.numbered(character).map(Escaped::Character),
            '1'..='9' => Err(self.unsupported("a back-reference")),
            '0' => Err(self.unsupported("an octal escape")),
            'k' => Err(self.unsupported("a named back-reference")),
            'g' => Err(self.unsupported("a subexpression call")),
            '<' | '>' if self.dialect == Dialect::FancyRegex => {
                Err(self.unsupported(&format!("the escape `\\{character}`")))
            }
            letter if letter.is_ascii_alphabetic() => {
                Err(self.unsupported(&format!("the escape `\\{letter}`")))
            }
            itself => Ok(Escaped::Character(itself)),
        }
    }

    fn perl_class(&mut self, letter: char) -> Result<Escaped> {
        let dialect = self.dialect;
        let negative = letter.is_ascii_uppercase();
        let (key, build): (&str, fn(Dialect) -> CharSet) = match letter.to_ascii_lowercase() {
            'd' => ("digit", |_| charset::digit()),
            's' => ("space", |_| charset::space()),
            'h' => ("hexadecimal", |_| charset::hexadecimal()),
            _ => ("word in brackets", charset::word_in_brackets),
        };
        let set = self.set(key.to_owned(), negative, || Some(build(dialect)));
        set.map(Escaped::Set)
            .ok_or_else(|| self.unsupported("this class"))
    }

    /// A set or its complement, from the cache.
    fn set(
        &mut self,
        key: String,
        negative: bool,
        build: impl FnOnce() -> Option<CharSet>,
    ) -> Option<Arc<CharSet>> {
        let set = self.cached_set(key.clone(), build)?;
        if !negative {
            return Some(set);
        }
        self.cached_set(format!("not {key}"), || Some(set.complement()))
    }

    fn known(&self, set: Option<Arc<CharSet>>, what: &str) -> Result<Node> {
        set.map(Node::Class)
            .ok_or_else(|| self.unsupported(&format!("the class {what}")))
    }

    /// `\x41`, `\x{41}`, `\u0041` and, in fancy-regex, `\u{41}`, `\U00000041` and `\U{41}`, read after the letter.
    fn numbered(&mut self, letter: char) -> Result<char> {
        let digits = match (letter, self.dialect) {
            ('x', _) => 2,
            ('u', _) => 4,
            (_, Dialect::FancyRegex) => 8,
            (_, Dialect::Oniguruma) => return Err(self.unsupported(r"the escape `\U`")),
        };
        let rest = self.rest();
        let braces =
            rest.starts_with('{') && (letter == 'x' || self.dialect == Dialect::FancyRegex);
        let written = if braces {
            let inside = rest.get(1..).unwrap_or_default();
            inside.split_once('}').map(|(inside, _)| inside)
        } else {
            rest.get(..digits)
        };
        let written = written.filter(|written| {
            (1..=8).contains(&written.len()) && written.bytes().all(|b| b.is_ascii_hexdigit())
        });
        let character = written
            .and_then(|written| u32::from_str_radix(written, 16).ok())
            .and_then(char::from_u32);
        let (Some(written), Some(character)) = (written, character) else {
            return Err(self.unsupported(&format!("this form of `\\{letter}`")));
        };
        // Oniguruma takes `\x80` and above for a byte of UTF-8, not for a character.
        if self.dialect == Dialect::Oniguruma && letter == 'x' && !braces && !character.is_ascii() {
            return Err(self.unsupported(r"a byte above 7F given as `\xHH`"));
        }
        for _ in 0..written.len() + if braces { 2 } else { 0 } {
            self.next();
        }
        Ok(character)
    }

    /// `\p{..}`, `\P{..}`, `\p{^..}` and, in fancy-regex, `\pL`, read after the backslash.
    pub(super) fn property(&mut self, in_brackets: bool) -> Result<Arc<CharSet>> {
        let mut negative = self.next() == Some('P');
        let rest = self.rest();
        let name = if let Some(inside) = rest.strip_prefix('{') {
            let Some((name, _)) = inside.split_once('}') else {
                return Err(self.unsupported("a property name that is not closed"));
            };
            for _ in 0..name.chars().count() + 2 {
                self.next();
            }
            match name.strip_prefix('^') {
                Some(name) => {
                    negative = !negative;
                    name
                }
                None => name,
            }
        } else {
            match (self.next(), self.dialect) {
                (Some(letter), Dialect::FancyRegex) if letter.is_ascii_alphabetic() => {
                    rest.get(..1).unwrap_or_default()
                }
                _ => return Err(self.unsupported("a property name without braces")),
            }
        };
        let dialect = self.dialect;
        let ignore_case = self.flags.ignore_case && dialect == Dialect::FancyRegex;
        let build = || match dialect {
            Dialect::Oniguruma => charset::oniguruma_property(name, in_brackets),
            Dialect::FancyRegex => charset::fancy_property(name, ignore_case),
        };
        let key = format!("property {in_brackets} {ignore_case} {name}");
        self.set(key, negative, build)
            .ok_or_else(|| self.unsupported(&format!(r"the property `\p{{{name}}}`")))
    }
}
