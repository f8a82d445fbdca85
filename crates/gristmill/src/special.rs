//! Added and special tokens: literals that are cut out of a text before anything else happens to it.
//!
//! The rules are `tokenizers`': tokens that are not normalised are looked for in the raw text, then
//! the rest is normalised and searched for the others; of several tokens at one place the longest
//! wins; a token may insist on standing alone as a word, or take the white space beside it along; and
//! a token that is found but not wanted (a special token while special tokens are text, a word that
//! does not stand alone) still uses up the text it covers. Rank files follow tiktoken in this last
//! point: what is not wanted uses up nothing. Tested against both libraries.

use std::collections::BTreeSet;
use std::ops::Range;

use aho_corasick::{AhoCorasick, AhoCorasickKind, Anchored, Input, Match, MatchKind, StartKind};
use rustc_hash::FxHashMap;

use crate::error::{Error, Result};
use crate::simd::Tier;
use crate::starts::Starts;

/// What becomes of special tokens that are written in a text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Special {
    /// They are text like any other.
    #[default]
    Text,
    /// Each becomes its id.
    Parse,
    /// They are an error.
    Forbid,
    /// These become their ids, the others are text.
    Only(BTreeSet<String>),
}

/// A token that is not made by merging.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct AddedToken {
    pub(crate) id: u32,
    /// The token as the file writes it.
    pub(crate) content: String,
    /// What is looked for: the content, normalised if the token is.
    pub(crate) pattern: String,
    pub(crate) single_word: bool,
    pub(crate) lstrip: bool,
    pub(crate) rstrip: bool,
    pub(crate) normalized: bool,
    pub(crate) special: bool,
}

impl AddedToken {
    /// A special token that is found as it is written.
    pub(crate) fn special(content: String, id: u32) -> AddedToken {
        AddedToken {
            id,
            pattern: content.clone(),
            content,
            single_word: false,
            lstrip: false,
            rstrip: false,
            normalized: false,
            special: true,
        }
    }
}

/// All added tokens of a tokenizer.
pub(crate) struct AddedTokens {
    tokens: Vec<AddedToken>,
    by_id: FxHashMap<u32, usize>,
    by_content: FxHashMap<String, usize>,
    raw: Option<Finder>,
    normalized: Option<Finder>,
    /// A token that is found but not wanted uses up its text.
    unwanted_covers: bool,
}

/// Patterns of so many bytes together are found by a table.
const LARGEST_DFA: usize = 1 << 12;

/// Tokens that are looked for in the same text.
struct Finder {
    automaton: AhoCorasick,
    /// The index of the token of each pattern.
    tokens: Vec<usize>,
    /// Whether some of them are not special: then they are looked for under every policy.
    has_plain: bool,
    /// Where they may begin, if that is worth asking first.
    starts: Option<Starts>,
}

/// Where a longer token may begin, what follows could be looked at too often.
const LONGEST_FROM_STARTS: usize = 128;

/// What to do with a token that was found.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Verdict {
    Take,
    Leave,
    Refuse,
}

/// Which of the two texts is searched.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stage {
    /// The text as it was given.
    Raw,
    /// The text after normalisation.
    Normalized,
}

/// A part of a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Part<'a> {
    Token(&'a AddedToken, Range<usize>),
    Text(Range<usize>),
}

impl AddedTokens {
    /// Fails if two tokens would be found by the same text, or one by the empty text.
    pub(crate) fn new(tokens: Vec<AddedToken>, unwanted_covers: bool) -> Result<AddedTokens> {
        // Of several names for one id, the first is the one it is decoded as.
        let mut by_id = FxHashMap::default();
        for (at, token) in tokens.iter().enumerate() {
            by_id.entry(token.id).or_insert(at);
        }
        let by_content = (0..tokens.len())
            .map(|at| (tokens[at].content.clone(), at))
            .collect();
        Ok(AddedTokens {
            raw: Finder::new(&tokens, Stage::Raw)?,
            normalized: Finder::new(&tokens, Stage::Normalized)?,
            tokens,
            by_id,
            by_content,
            unwanted_covers,
        })
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &AddedToken> {
        self.tokens.iter()
    }

    pub(crate) fn by_id(&self, id: u32) -> Option<&AddedToken> {
        self.by_id.get(&id).map(|&at| &self.tokens[at])
    }

    pub(crate) fn by_content(&self, content: &str) -> Option<&AddedToken> {
        self.by_content.get(content).map(|&at| &self.tokens[at])
    }

    /// Fails if `special` names a token that is no special token.
    pub(crate) fn check(&self, special: &Special) -> Result<()> {
        if let Special::Only(names) = special {
            for name in names {
                if !self.by_content(name).is_some_and(|token| token.special) {
                    return Err(Error::UnknownSpecial { name: name.clone() });
                }
            }
        }
        Ok(())
    }

    /// Whether a text of this stage has to be searched at all.
    pub(crate) fn matter(&self, stage: Stage, special: &Special) -> bool {
        self.finder(stage)
            .is_some_and(|finder| finder.has_plain || *special != Special::Text)
    }

    /// The characters of all tokens that are looked for under this policy. `None` if some token asks what
    /// stands beside it or takes it along.
    pub(crate) fn held(&self, special: &Special) -> Option<BTreeSet<char>> {
        let mut held = BTreeSet::new();
        for stage in [Stage::Raw, Stage::Normalized] {
            let finder = self.finder(stage).filter(|_| self.matter(stage, special));
            for &at in finder.map_or(&[][..], |finder| &finder.tokens) {
                let token = &self.tokens[at];
                if token.single_word || token.lstrip || token.rstrip {
                    return None;
                }
                held.extend(token.pattern.chars());
            }
        }
        Some(held)
    }

    fn finder(&self, stage: Stage) -> Option<&Finder> {
        match stage {
            Stage::Raw => self.raw.as_ref(),
            Stage::Normalized => self.normalized.as_ref(),
        }
    }

    fn verdict(&self, token: &AddedToken, special: &Special) -> Verdict {
        match special {
            _ if !token.special => Verdict::Take,
            Special::Text => Verdict::Leave,
            Special::Parse => Verdict::Take,
            Special::Forbid => Verdict::Refuse,
            Special::Only(names) if names.contains(&token.content) => Verdict::Take,
            Special::Only(_) => Verdict::Leave,
        }
    }

    /// Cut `text` into tokens and what lies between them. No part of text is empty.
    ///
    /// A forbidden token is an error at its place in `text`.
    pub(crate) fn cut<'a>(
        &'a self,
        stage: Stage,
        text: &str,
        special: &Special,
        mut part: impl FnMut(Part<'a>) -> Result<()>,
    ) -> Result<()> {
        let Some(finder) = self.finder(stage).filter(|_| self.matter(stage, special)) else {
            return match text.len() {
                0 => Ok(()),
                len => part(Part::Text(0..len)),
            };
        };
        let mut done = 0;
        let mut search = 0;
        let mut space = Space::default();
        let wanted = self.wanted(finder, text, special)?;
        let finder = wanted.as_ref().unwrap_or(finder);
        while let Some((token, found)) = self.find(finder, text, search) {
            search = found.end;
            let verdict = self.verdict(token, special);
            if verdict == Verdict::Leave || (token.single_word && !stands_alone(text, &found)) {
                continue;
            }
            if verdict == Verdict::Refuse {
                return Err(Error::SpecialToken {
                    token: token.content.clone(),
                    at: found.start,
                });
            }
            let start = match token.lstrip {
                true => space.before(text, done, found.start),
                false => found.start,
            };
            let end = match token.rstrip {
                true => space.after(text, found.end),
                false => found.end,
            };
            if done < start {
                part(Part::Text(done..start))?;
            }
            // A token before this one may have taken all of it along, being white space.
            if start < end {
                part(Part::Token(token, start..end))?;
                done = end;
            }
        }
        if done < text.len() {
            part(Part::Text(done..text.len()))?;
        }
        Ok(())
    }

    /// Where what is not wanted covers nothing, only the wanted tokens are looked for: a finder of
    /// them, if any token is in the text at all and not all are wanted.
    fn wanted(&self, finder: &Finder, text: &str, special: &Special) -> Result<Option<Finder>> {
        let Special::Only(names) = special else {
            return Ok(None);
        };
        let all = self.unwanted_covers || names.len() == finder.tokens.len();
        if all || self.find(finder, text, 0).is_none() {
            return Ok(None);
        }
        let chosen = names.iter().filter_map(|name| self.by_content.get(name));
        Finder::of(&self.tokens, chosen.copied().collect()).map(Some)
    }

    fn find(
        &self,
        finder: &Finder,
        text: &str,
        from: usize,
    ) -> Option<(&AddedToken, Range<usize>)> {
        let found = finder.find(text, from)?;
        let token = &self.tokens[finder.tokens[found.pattern().as_usize()]];
        Some((token, found.range()))
    }
}

impl Finder {
    fn new(tokens: &[AddedToken], stage: Stage) -> Result<Option<Finder>> {
        let chosen: Vec<usize> = (0..tokens.len())
            .filter(|&at| tokens[at].normalized == (stage == Stage::Normalized))
            .collect();
        if chosen.is_empty() {
            return Ok(None);
        }
        let mut seen = FxHashMap::default();
        for &at in &chosen {
            let pattern = &*tokens[at].pattern;
            if pattern.is_empty() {
                return Err(Error::unsupported(format!(
                    "the added token {:?}, which would be found everywhere",
                    tokens[at].content
                )));
            }
            if let Some(other) = seen.insert(pattern, at) {
                return Err(Error::format(format!(
                    "the added tokens {:?} and {:?} are the same after normalisation",
                    tokens[other].content, tokens[at].content
                )));
            }
        }
        Finder::of(tokens, chosen).map(Some)
    }

    /// A finder of these tokens.
    fn of(tokens: &[AddedToken], chosen: Vec<usize>) -> Result<Finder> {
        let size: usize = chosen.iter().map(|&at| tokens[at].pattern.len()).sum();
        // A table for every byte of every pattern is fast, but large.
        let kind = if size <= LARGEST_DFA {
            AhoCorasickKind::DFA
        } else {
            AhoCorasickKind::ContiguousNFA
        };
        let automaton = AhoCorasick::builder()
            .match_kind(MatchKind::LeftmostLongest)
            .kind(Some(kind))
            .start_kind(StartKind::Both)
            .build(chosen.iter().map(|&at| &tokens[at].pattern))
            .map_err(|error| Error::unsupported(format!("these added tokens: {error}")))?;
        let patterns = || chosen.iter().map(|&at| tokens[at].pattern.as_bytes());
        let short = patterns().all(|pattern| pattern.len() <= LONGEST_FROM_STARTS);
        Ok(Finder {
            automaton,
            starts: short.then(|| Starts::of(patterns())).flatten(),
            has_plain: chosen.iter().any(|&at| !tokens[at].special),
            tokens: chosen,
        })
    }
}

impl Finder {
    /// The first pattern from `from` on, the longest of those that begin there.
    fn find(&self, text: &str, from: usize) -> Option<Match> {
        let input = |from| Input::new(text).range(from..);
        let Some(starts) = &self.starts else {
            return self.automaton.find(input(from).anchored(Anchored::No));
        };
        let tier = Tier::get();
        let mut at = from;
        loop {
            at = starts.next(tier, text.as_bytes(), at)?;
            let found = self.automaton.find(input(at).anchored(Anchored::Yes));
            if found.is_some() {
                return found;
            }
            at += 1;
        }
    }
}

/// Whether what is beside `found` is no part of a word.
fn stands_alone(text: &str, found: &Range<usize>) -> bool {
    let before = text[..found.start].chars().next_back();
    let after = text[found.end..].chars().next();
    !before.is_some_and(regex_syntax::is_word_character)
        && !after.is_some_and(regex_syntax::is_word_character)
}

/// White space beside tokens. A token may itself be white space, so that many of them look at the
/// same run; its end is remembered, and no run is looked at behind what is done.
#[derive(Default)]
struct Space {
    after: Range<usize>,
}

impl Space {
    /// Where the white space that ends at `at` begins; what is done is not taken again.
    fn before(&self, text: &str, done: usize, at: usize) -> usize {
        match text.get(done..at) {
            Some(text) => done + text.trim_end_matches(char::is_whitespace).len(),
            None => done,
        }
    }

    /// Where the white space that begins at `at` ends.
    fn after(&mut self, text: &str, at: usize) -> usize {
        if !self.after.contains(&at) {
            let rest = text[at..].trim_start_matches(char::is_whitespace);
            self.after = at..text.len() - rest.len();
        }
        self.after.end.max(at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn token(content: &str, id: u32) -> AddedToken {
        AddedToken::special(content.into(), id)
    }

    fn parts(tokens: Vec<AddedToken>, covers: bool, text: &str, special: &Special) -> Vec<String> {
        let tokens = AddedTokens::new(tokens, covers).unwrap();
        let mut found = Vec::new();
        tokens
            .cut(Stage::Raw, text, special, |part| {
                found.push(match part {
                    Part::Token(token, range) => format!("{}={:?}", token.id, &text[range]),
                    Part::Text(range) => format!("{:?}", &text[range]),
                });
                Ok(())
            })
            .unwrap();
        found
    }

    proptest! {
        #[test]
        fn asking_where_they_may_begin_passes_nothing_over(
            contents in proptest::collection::btree_set("[ab<é▁]{1,4}", 1..8),
            text in "[ab<é▁ ]{0,200}",
        ) {
            let tokens: Vec<AddedToken> =
                contents.iter().zip(0..).map(|(content, id)| token(content, id)).collect();
            let finder = Finder::new(&tokens, Stage::Raw).unwrap().unwrap();
            prop_assert!(finder.starts.is_some());
            for (from, _) in text.char_indices() {
                let expected = finder.automaton.find(Input::new(&text).range(from..));
                prop_assert_eq!(finder.find(&text, from), expected);
            }
        }
    }

    #[test]
    fn the_longest_wins() {
        let tokens = || vec![token("<a>", 1), token("<a>b", 2)];
        assert_eq!(
            parts(tokens(), true, "x<a>b<a>", &Special::Parse),
            ["\"x\"", "2=\"<a>b\"", "1=\"<a>\""]
        );
    }

    #[test]
    fn what_is_left_covers_its_text_or_not() {
        let tokens = || vec![token("<<", 1), token("<x", 2)];
        let only = Special::Only(["<x".to_string()].into());
        assert_eq!(parts(tokens(), true, "<<x", &only), ["\"<<x\""]);
        assert_eq!(parts(tokens(), false, "<<x", &only), ["\"<\"", "2=\"<x\""]);
    }

    #[test]
    fn a_wanted_token_is_not_hidden_by_a_longer_one() {
        let tokens = || vec![token("<a>", 1), token("<b>", 2), token("<a><b>", 3)];
        let only = Special::Only(["<a>".to_string(), "<b>".to_string()].into());
        assert_eq!(
            parts(tokens(), false, "<a><b>", &only),
            ["1=\"<a>\"", "2=\"<b>\""]
        );
    }

    #[test]
    fn strips_and_single_words() {
        let mut left = token("<m>", 1);
        left.lstrip = true;
        left.rstrip = true;
        assert_eq!(
            parts(vec![left], true, "a \u{3000}<m>\u{a0} b", &Special::Parse),
            ["\"a\"", "1=\" \\u{3000}<m>\\u{a0} \"", "\"b\""]
        );
        let mut word = token("tok", 1);
        word.single_word = true;
        assert_eq!(
            parts(vec![word], true, "tok atok tok_ (tok)", &Special::Parse),
            ["1=\"tok\"", "\" atok tok_ (\"", "1=\"tok\"", "\")\""]
        );
    }

    #[test]
    fn what_another_token_took_along_is_no_token() {
        let mut taker = token("a", 1);
        taker.rstrip = true;
        let mut space = token(" ", 2);
        space.lstrip = true;
        for spaces in 1..4 {
            let text = format!("a{}b", " ".repeat(spaces));
            let found = parts(
                vec![taker.clone(), space.clone()],
                true,
                &text,
                &Special::Parse,
            );
            assert_eq!(
                found,
                [
                    format!("1={:?}", text.trim_end_matches('b')),
                    "\"b\"".into()
                ]
            );
        }
    }

    #[test]
    fn forbidden_says_where() {
        let tokens = AddedTokens::new(vec![token("<s>", 1)], true).unwrap();
        let error = tokens
            .cut(Stage::Raw, "é <s>", &Special::Forbid, |_| Ok(()))
            .unwrap_err();
        assert!(matches!(error, Error::SpecialToken { at: 3, .. }));
    }

    #[test]
    fn hostile_tokens_are_refused() {
        assert!(AddedTokens::new(vec![token("", 1)], true).is_err());
        assert!(AddedTokens::new(vec![token("a", 1), token("a", 2)], true).is_err());
    }
}
