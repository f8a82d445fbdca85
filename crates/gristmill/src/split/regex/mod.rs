//! Regular expressions for split patterns: the slow, exact truth for any pattern that has no scanner of its own.
//!
//! Patterns of `tokenizer.json` are Oniguruma's, patterns of rank files are fancy-regex's ([`Dialect`]). Both are
//! backtracking engines: the leftmost match, and of those that start there the one found first. This engine finds the same
//! matches, and finds all of a text's in time and memory proportional to the text:
//!
//! * `parse.rs`, `escape.rs`, `brackets.rs`: text to tree (`ast.rs`), in the dialect's meaning; `charset.rs` knows the classes;
//! * `checks.rs`: refuses what the dialect's engine treats in a way of its own;
//! * `compile.rs`: tree to instructions, which `program.rs` lists;
//! * `search.rs`: runs them, and explains why it is linear; `backtrack.rs`, `memo.rs`, `behind.rs` and `view.rs` are its
//!   parts.
//!
//! Invariant: a pattern is either matched as its engine matches it or refused by name. Tested against fancy-regex on the
//! patterns of known tokenizers and on random patterns, over random texts, and on long texts that make other engines slow.

use std::ops::Range;

use crate::error::{Error, Result};

pub(crate) use super::pattern::Dialect;

mod ast;
mod backtrack;
mod behind;
mod brackets;
mod charset;
mod checks;
mod compile;
mod escape;
mod memo;
mod parse;
mod program;
mod search;
#[cfg(test)]
mod tests;
mod view;

/// A compiled pattern: immutable, shared between threads by reference.
#[derive(Debug)]
pub(crate) struct Regex {
    program: program::Program,
}

impl Regex {
    /// Compiles a pattern, or says which part of it is not supported.
    pub(crate) fn new(pattern: &str, dialect: Dialect) -> Result<Regex> {
        let refuse = |what: &str| Error::Unsupported {
            what: format!("{what} (in the regular expression {pattern:?})"),
        };
        let tree = parse::parse(pattern, dialect)?;
        if dialect == Dialect::Oniguruma && checks::folds_to_one_character(&tree) {
            return Err(refuse(
                "letters that one character folds to, where case is ignored",
            ));
        }
        let tree = ast::simplify(tree);
        if let Some(what) = checks::refusal(&tree, dialect) {
            return Err(refuse(what));
        }
        let program = compile::compile(&tree, dialect)?;
        Ok(Regex { program })
    }

    /// All matches in the text, from left to right, none overlapping another.
    pub(crate) fn matches<'r, 't>(&'r self, text: &'t str) -> Matches<'r, 't> {
        Matches {
            searcher: search::Searcher::new(&self.program, text),
            text,
            next_start: 0,
            last_end: None,
        }
    }
}

/// The matches in one text. After an error there are no more.
pub(crate) struct Matches<'r, 't> {
    searcher: search::Searcher<'r, 't>,
    text: &'t str,
    /// Where the next search starts; beyond the text when there is none.
    next_start: usize,
    /// Where the last match ended.
    last_end: Option<usize>,
}

impl Iterator for Matches<'_, '_> {
    type Item = Result<Range<usize>>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if self.next_start > self.text.len() {
                return None;
            }
            let found = match self.searcher.find(self.next_start) {
                Ok(Some(found)) => found,
                Ok(None) => {
                    self.next_start = usize::MAX;
                    return None;
                }
                Err(error) => {
                    self.next_start = usize::MAX;
                    return Some(Err(error));
                }
            };
            // Both engines look for the next match one character on after an empty match, and pass over an empty match right
            // where the last match ended.
            let empty_again = found.is_empty() && self.last_end == Some(found.end);
            self.last_end = Some(found.end);
            self.next_start = found.end;
            if found.is_empty() {
                let byte = self.text.as_bytes().get(found.end).copied();
                self.next_start += byte.map_or(1, view::width);
            }
            if !empty_again {
                return Some(Ok(found));
            }
        }
    }
}
