//! Bracketed classes `[..]` of both dialects.
//!
//! Invariant: the set built is the set the engine of the dialect builds. Oniguruma's brackets are parsed here;
//! fancy-regex's are handed to `regex-syntax`, as that engine does, after its own escapes are resolved. Tested by
//! comparing random classes with both engines and by the cases below.

use std::sync::Arc;

use super::Dialect;
use super::charset::{self, CharSet};
use super::escape::Escaped;
use super::parse::Parser;
use crate::error::Result;

/// What came last inside Oniguruma's brackets: it decides what a hyphen means.
enum Last {
    /// Nothing since the opening bracket.
    Nothing,
    /// One character, which a hyphen may make the start of a range.
    Character(char),
    /// A class such as `\w`.
    Class,
    /// A range or a nested bracket.
    Whole,
}

impl Parser<'_> {
    /// A bracketed class, read after its opening bracket.
    pub(super) fn brackets(&mut self) -> Result<Arc<CharSet>> {
        match self.dialect {
            Dialect::FancyRegex => self.fancy_brackets(),
            Dialect::Oniguruma => self.oniguruma_top_brackets(),
        }
    }

    fn oniguruma_top_brackets(&mut self) -> Result<Arc<CharSet>> {
        let (set, negative) = self.oniguruma_brackets()?;
        let set = if self.flags.ignore_case {
            // Beyond ASCII one character may fold to several, and then a class matches text longer than a character.
            if !set.is_ascii() {
                return Err(
                    self.unsupported("a class with characters beyond ASCII where case is ignored")
                );
            }
            set.case_folded()
        } else {
            set
        };
        Ok(Arc::new(if negative { set.complement() } else { set }))
    }

    /// The set inside the brackets, and whether the brackets negate it.
    fn oniguruma_brackets(&mut self) -> Result<(CharSet, bool)> {
        self.enter()?;
        let negative = self.eat("^");
        // What stands before the last `&&`, and the items since.
        let mut before: Option<CharSet> = None;
        let mut items = Vec::new();
        let mut last = Last::Nothing;
        if self.eat("]") {
            items.push(Arc::new(CharSet::single(']')));
            last = Last::Character(']');
        }
        while !self.eat("]") {
            if self.eat("&&") {
                if matches!(last, Last::Nothing) || self.rest().starts_with(['-', ']', '&']) {
                    return Err(self.unsupported("this use of `&&` in brackets"));
                }
                before = Some(intersect(before, &items));
                items.clear();
                last = Last::Nothing;
                continue;
            }
            let (item, next) = self.oniguruma_item(&last)?;
            items.push(item);
            last = next;
        }
        self.leave();
        Ok((intersect(before, &items), negative))
    }

    /// One item of Oniguruma's brackets.
    fn oniguruma_item(&mut self, last: &Last) -> Result<(Arc<CharSet>, Last)> {
        let Some(character) = self.next() else {
            return Err(self.unsupported("a bracket that is not closed"));
        };
        match character {
            '[' if self.rest().starts_with(':') => {
                let set = self.posix_bracket()?;
                Ok((Arc::new(set), Last::Class))
            }
            '[' => {
                let (set, negative) = self.oniguruma_brackets()?;
                let set = if negative { set.complement() } else { set };
                Ok((Arc::new(set), Last::Whole))
            }
            '-' => {
                let (set, last) = self.hyphen(last)?;
                Ok((Arc::new(set), last))
            }
            '\\' => Ok(match self.escape_in_brackets()? {
                Escaped::Character(character) => (
                    Arc::new(CharSet::single(character)),
                    Last::Character(character),
                ),
                Escaped::Set(set) => (set, Last::Class),
            }),
            itself => Ok((Arc::new(CharSet::single(itself)), Last::Character(itself))),
        }
    }

    /// What a hyphen adds: itself, or the rest of a range whose start is already in the set.
    fn hyphen(&mut self, last: &Last) -> Result<(CharSet, Last)> {
        let rest = self.rest();
        if rest.starts_with('-') {
            return Err(self.unsupported("two hyphens in brackets"));
        }
        if matches!(last, Last::Nothing) || rest.starts_with(']') || rest.starts_with("&&") {
            return Ok((CharSet::single('-'), Last::Character('-')));
        }
        let Last::Character(first) = *last else {
            return Err(self.unsupported("a hyphen after a class or a range in brackets"));
        };
        let end = match self.next() {
            None => return Err(self.unsupported("a bracket that is not closed")),
            Some('[') => return Err(self.unsupported("a range that ends in a class")),
            Some('\\') => match self.escape_in_brackets()? {
                Escaped::Character(end) => end,
                Escaped::Set(_) => return Err(self.unsupported("a range that ends in a class")),
            },
            Some(end) => end,
        };
        if end < first {
            return Err(self.unsupported("a range that is the wrong way round"));
        }
        Ok((CharSet::range(first, end), Last::Whole))
    }

    /// `[:alpha:]` or `[:^alpha:]`, read after its opening bracket.
    fn posix_bracket(&mut self) -> Result<CharSet> {
        self.next();
        let negative = self.eat("^");
        let name = self.rest().split(":]").next().unwrap_or_default();
        let Some(set) = charset::oniguruma_posix(name) else {
            return Err(self.unsupported("this POSIX bracket"));
        };
        self.eat(name);
        if !self.eat(":]") {
            return Err(self.unsupported("a POSIX bracket that is not closed"));
        }
        Ok(if negative { set.complement() } else { set })
    }

    fn fancy_brackets(&mut self) -> Result<Arc<CharSet>> {
        let mut written = String::from(if self.flags.ignore_case { "(?i:[" } else { "[" });
        let mut depth = 1;
        self.fancy_bracket_start(&mut written);
        while depth > 0 {
            let Some(character) = self.next() else {
                return Err(self.unsupported("a bracket that is not closed"));
            };
            match character {
                '\\' => self.fancy_bracket_escape(&mut written)?,
                '[' => {
                    depth += 1;
                    written.push('[');
                    self.fancy_bracket_start(&mut written);
                }
                ']' => {
                    depth -= 1;
                    written.push(']');
                }
                other => written.push(other),
            }
        }
        if self.flags.ignore_case {
            written.push(')');
        }
        let key = format!("brackets {written}");
        self.cached_set(key, || CharSet::from_syntax(&written))
            .ok_or_else(|| self.unsupported("this bracket"))
    }

    /// A caret and a closing bracket right after an opening bracket are no end.
    fn fancy_bracket_start(&mut self, written: &mut String) {
        for start in ["^", "]"] {
            if self.eat(start) {
                written.push_str(start);
            }
        }
    }

    /// Writes an escape the way `regex-syntax` reads it.
    fn fancy_bracket_escape(&mut self, written: &mut String) -> Result<()> {
        let before = self.rest();
        let escaped = self.escape_in_brackets()?;
        let read = before.len() - self.rest().len();
        let escape = before.get(..read).unwrap_or_default();
        match (escaped, escape) {
            (Escaped::Character(character), _) => {
                written.push_str(&regex_syntax::escape(character.encode_utf8(&mut [0; 4])));
            }
            (Escaped::Set(_), "h") => written.push_str("[0-9A-Fa-f]"),
            (Escaped::Set(_), "H") => written.push_str("[^0-9A-Fa-f]"),
            (Escaped::Set(_), escape) => written.push_str(&fancy_class_escape(escape)),
        }
        Ok(())
    }
}

/// What is both in the items and in what stands before their `&&`, if anything does.
fn intersect(before: Option<CharSet>, items: &[Arc<CharSet>]) -> CharSet {
    let set = CharSet::union_all(items);
    match before {
        Some(before) => before.intersection(&set),
        None => set,
    }
}

/// A class escape without its backslash, made one of `regex-syntax`: the name in small letters, no caret in it.
fn fancy_class_escape(escape: &str) -> String {
    let Some(name) = escape.get(2..).and_then(|rest| rest.strip_suffix('}')) else {
        return format!(r"\{escape}");
    };
    let negative = escape.starts_with('P') != name.starts_with('^');
    let name = name.strip_prefix('^').unwrap_or(name).to_lowercase();
    match (name.as_str(), negative) {
        ("word", false) => r"\w".to_owned(),
        ("word", true) => r"\W".to_owned(),
        (name, false) => format!(r"\p{{{name}}}"),
        (name, true) => format!(r"\P{{{name}}}"),
    }
}

#[cfg(test)]
mod tests {
    use super::super::ast::Node;
    use super::super::parse::parse;
    use super::*;

    fn set(pattern: &str, dialect: Dialect) -> CharSet {
        match parse(pattern, dialect) {
            Ok(Node::Class(set)) => set.as_ref().clone(),
            other => panic!("{pattern:?} gave {other:?}"),
        }
    }

    #[test]
    fn brackets_mean_the_same_where_the_dialects_agree() {
        for pattern in [
            "[a-z]",
            "[^a-z]",
            "[]a]",
            "[^]a]",
            "[a-]",
            "[-a]",
            "[a-c-]",
            r"[\]\[\\]",
            r"[\x41-\x{5A}\u0100]",
            "[a-z&&[^aeiou]]",
            "[[a-f]&&[d-z]]",
            r"[\p{Lu}\p{M}&&[^\p{Han}]]",
            r"[^\s\p{^L}\P{N}]",
            r"[\h\H]",
            r"[\n\t\b\e]",
            "[一-龥ぁ-ゟ]",
            "(?i)[sdmt]",
            "(?i)[^a-k]",
        ] {
            let oniguruma = set(pattern, Dialect::Oniguruma);
            let fancy = set(pattern, Dialect::FancyRegex);
            let surrogates = CharSet::from_syntax(r"[^\x{0}-\x{10FFFF}]").unwrap_or_default();
            assert_eq!(surrogates, CharSet::default());
            let known = CharSet::from_syntax(r"(?s).").unwrap();
            assert_eq!(
                oniguruma.intersection(&known),
                fancy.intersection(&known),
                "{pattern}"
            );
        }
    }

    #[test]
    fn the_doubtful_is_refused() {
        for pattern in [
            r"[\w-z]",
            "[a-c-e]",
            "[--a]",
            "[a&&]",
            "[&&a]",
            r"[a-\d]",
            "[z-a]",
            "[[:nope:]]",
            "(?i)[é]",
            "(?i)[^é]",
            r"[\p{L]",
        ] {
            assert!(parse(pattern, Dialect::Oniguruma).is_err(), "{pattern}");
        }
        for pattern in [r"[\p{alnum}]", r"[\1]", "[z-a]", r"[\Z]"] {
            assert!(parse(pattern, Dialect::FancyRegex).is_err(), "{pattern}");
        }
    }
}
