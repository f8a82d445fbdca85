//! Pattern text to a tree: groups, alternation, quantifiers and flags of the two dialects.
//!
//! Invariant: what is accepted means here what it means to the engine of the dialect; everything else is refused by name.
//! The depth of groups, the number of stacked quantifiers and the number of nodes are bounded, so a hostile pattern costs
//! neither stack nor much memory. Tested by the differential tests of the whole engine and by the refusals below.

use std::collections::HashMap;
use std::sync::Arc;

use super::Dialect;
use super::ast::{Assertion, Node};
use super::charset::CharSet;
use crate::error::{Error, Result};

/// The longest pattern accepted, in bytes.
const MAX_PATTERN: usize = 64 * 1024;
/// The deepest nesting of groups or brackets accepted.
const MAX_DEPTH: usize = 64;
/// The most quantifiers accepted on one atom.
const MAX_STACKED: usize = 4;
/// The most nodes accepted.
const MAX_NODES: usize = 20_000;
/// The largest count in `{n,m}`; a larger one could not be compiled anyway.
const MAX_COUNT: u32 = 100_000;

/// The inline flags in force.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Flags {
    /// Case is ignored.
    pub(super) ignore_case: bool,
    /// `.` matches a newline: `(?m)` to Oniguruma, `(?s)` to fancy-regex.
    dot_all: bool,
    /// `^` and `$` are about lines; always so in Oniguruma.
    multi_line: bool,
    /// White space and `#` comments between atoms are skipped.
    extended: bool,
}

/// Parses a pattern.
pub(crate) fn parse(pattern: &str, dialect: Dialect) -> Result<Node> {
    let mut parser = Parser {
        pattern,
        at: 0,
        dialect,
        flags: Flags::default(),
        depth: 0,
        nodes: 0,
        sets: HashMap::new(),
    };
    if pattern.len() > MAX_PATTERN {
        return Err(parser.unsupported("a pattern so long"));
    }
    let node = parser.alternation()?;
    if parser.at < pattern.len() {
        return Err(parser.unsupported("an unmatched closing parenthesis"));
    }
    Ok(node)
}

/// The text being parsed and the state that goes with it.
pub(super) struct Parser<'p> {
    pattern: &'p str,
    /// The byte of the pattern that is next.
    at: usize,
    pub(super) dialect: Dialect,
    pub(super) flags: Flags,
    depth: usize,
    nodes: usize,
    /// Sets already looked up, by how they are written.
    sets: HashMap<String, Arc<CharSet>>,
}

impl<'p> Parser<'p> {
    /// An error that names what is not supported and where it stands.
    pub(super) fn unsupported(&self, what: &str) -> Error {
        let shown: String = self.pattern.chars().take(200).collect();
        Error::Unsupported {
            what: format!(
                "{what} (before byte {} of the regular expression {shown:?})",
                self.at
            ),
        }
    }

    /// What has not been read yet.
    pub(super) fn rest(&self) -> &'p str {
        self.pattern.get(self.at..).unwrap_or_default()
    }

    /// The next character.
    pub(super) fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    /// Reads the next character.
    pub(super) fn next(&mut self) -> Option<char> {
        let character = self.peek()?;
        self.at += character.len_utf8();
        Some(character)
    }

    /// Reads `text` if it comes next.
    pub(super) fn eat(&mut self, text: &str) -> bool {
        let found = self.rest().starts_with(text);
        if found {
            self.at += text.len();
        }
        found
    }

    /// Goes one level deeper; every call is paired with [`Parser::leave`].
    pub(super) fn enter(&mut self) -> Result<()> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(self.unsupported("groups or brackets nested so deep"));
        }
        Ok(())
    }

    /// Comes back from one level.
    pub(super) fn leave(&mut self) {
        self.depth -= 1;
    }

    /// Looks up a set by the way it is written, building it only the first time.
    pub(super) fn cached_set(
        &mut self,
        key: String,
        build: impl FnOnce() -> Option<CharSet>,
    ) -> Option<Arc<CharSet>> {
        if let Some(set) = self.sets.get(&key) {
            return Some(Arc::clone(set));
        }
        let set = Arc::new(build()?);
        self.sets.insert(key, Arc::clone(&set));
        Some(set)
    }

    fn alternation(&mut self) -> Result<Node> {
        let mut branches = vec![self.branch()?];
        while self.eat("|") {
            branches.push(self.branch()?);
        }
        match branches.pop() {
            Some(only) if branches.is_empty() => Ok(only),
            last => {
                branches.extend(last);
                Ok(Node::Alternation(branches))
            }
        }
    }

    fn branch(&mut self) -> Result<Node> {
        let mut nodes = Vec::new();
        loop {
            self.skip_ignored();
            match self.peek() {
                None | Some('|' | ')') => return Ok(Node::concat(nodes)),
                Some(_) => nodes.push(self.piece()?),
            }
        }
    }

    /// One atom with its quantifiers.
    fn piece(&mut self) -> Result<Node> {
        self.nodes += 1;
        if self.nodes > MAX_NODES {
            return Err(self.unsupported("a pattern of so many parts"));
        }
        let mut node = self.atom()?;
        for stacked in 0.. {
            self.skip_ignored();
            let Some(quantifier) = self.quantifier()? else {
                break;
            };
            if stacked > 0 && self.dialect == Dialect::FancyRegex || stacked >= MAX_STACKED {
                return Err(self.unsupported("a quantifier of a quantifier"));
            }
            if node.is_zero_width() {
                return Err(self.unsupported("a quantifier after something that matches no text"));
            }
            node = quantifier.apply(node);
        }
        Ok(node)
    }

    /// Reads a quantifier with what makes it lazy or possessive.
    fn quantifier(&mut self) -> Result<Option<Quantifier>> {
        let (min, max, interval) = match self.peek() {
            Some('?') => (0, Some(1), false),
            Some('*') => (0, None, false),
            Some('+') => (1, None, false),
            Some('{') => match self.interval()? {
                Some((min, max)) => (min, max, true),
                None => return Ok(None),
            },
            _ => return Ok(None),
        };
        if !interval {
            self.next();
        }
        // In Oniguruma `{n}?` is an optional `{n}` and `{n,m}+` a repeated `{n,m}`: the second sign is a quantifier of its
        // own.
        let oniguruma = self.dialect == Dialect::Oniguruma;
        let may_be_lazy = !(oniguruma && interval && max == Some(min));
        let may_be_possessive = !(oniguruma && interval);
        let lazy = may_be_lazy && self.eat("?");
        if lazy && self.rest().starts_with('+') && !oniguruma {
            return Err(self.unsupported("a quantifier both lazy and possessive"));
        }
        let possessive = !lazy && may_be_possessive && self.eat("+");
        Ok(Some(Quantifier {
            min,
            max,
            lazy,
            possessive,
        }))
    }

    /// Reads `{n}`, `{n,}`, `{n,m}` or `{,m}`; a brace that begins none of these is a character and stays unread.
    fn interval(&mut self) -> Result<Option<(u32, Option<u32>)>> {
        let rest = self.rest();
        let Some((inside, _)) = rest.get(1..).and_then(|rest| rest.split_once('}')) else {
            return Ok(None);
        };
        if self.flags.extended && inside.contains([' ', '\t', '\r', '\n', '#']) {
            return Err(self.unsupported("white space inside braces"));
        }
        let (low, high) = match inside.split_once(',') {
            Some((low, high)) => (low, Some(high)),
            None => (inside, None),
        };
        let is_number = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
        if inside.is_empty() || !is_number(low) || !high.is_none_or(is_number) {
            return Ok(None);
        }
        if low.is_empty() && high == Some("") {
            return Err(self.unsupported("the braces `{,}`"));
        }
        let count = |text: &str| match text.parse::<u32>() {
            Ok(count) if count <= MAX_COUNT => Ok(count),
            _ => Err(self.unsupported("a repeat count so large")),
        };
        let min = if low.is_empty() { 0 } else { count(low)? };
        let max = match high {
            None => Some(min),
            Some("") => None,
            Some(high) => Some(count(high)?),
        };
        if max.is_some_and(|max| max < min) {
            return Err(self.unsupported("a repeat whose bounds are the wrong way round"));
        }
        self.at += inside.len() + 2;
        Ok(Some((min, max)))
    }

    fn atom(&mut self) -> Result<Node> {
        if matches!(self.peek(), Some('{')) && self.interval()?.is_some() {
            return Err(self.unsupported("a quantifier after nothing"));
        }
        let Some(character) = self.next() else {
            return Ok(Node::Empty);
        };
        match character {
            '(' => self.group(),
            '[' => {
                let set = self.brackets()?;
                Ok(Node::Class(set))
            }
            '\\' => self.escape(),
            '.' => Ok(self.dot()),
            '^' => Ok(Node::Assertion(
                match (self.dialect, self.flags.multi_line) {
                    (Dialect::Oniguruma, _) => Assertion::LineStartNotAtEnd,
                    (Dialect::FancyRegex, true) => Assertion::LineStart,
                    (Dialect::FancyRegex, false) => Assertion::TextStart,
                },
            )),
            '$' => Ok(Node::Assertion(
                match (self.dialect, self.flags.multi_line) {
                    (Dialect::Oniguruma, _) | (Dialect::FancyRegex, true) => Assertion::LineEnd,
                    (Dialect::FancyRegex, false) => Assertion::TextEnd,
                },
            )),
            '*' | '+' | '?' => Err(self.unsupported("a quantifier after nothing")),
            other => self.literal(other),
        }
    }

    /// A character that stands for itself.
    pub(super) fn literal(&self, character: char) -> Result<Node> {
        let folded = self.flags.ignore_case;
        if folded && self.dialect == Dialect::Oniguruma && !character.is_ascii() {
            return Err(self.unsupported("a character beyond ASCII where case is ignored"));
        }
        Ok(Node::Literal { character, folded })
    }

    fn dot(&mut self) -> Node {
        let set = if self.flags.dot_all {
            CharSet::all()
        } else {
            CharSet::single('\n').complement()
        };
        Node::Class(Arc::new(set))
    }

    /// Everything after an opening parenthesis.
    fn group(&mut self) -> Result<Node> {
        self.enter()?;
        if self.flags.extended
            && self
                .rest()
                .starts_with([' ', '\t', '\r', '\n', '\u{C}', '#'])
        {
            return Err(self.unsupported("white space after an opening parenthesis"));
        }
        let node = if self.eat("?=") {
            self.look(false, false)
        } else if self.eat("?!") {
            self.look(false, true)
        } else if self.eat("?<=") {
            self.look(true, false)
        } else if self.eat("?<!") {
            self.look(true, true)
        } else if self.eat("?>") {
            Ok(Node::Atomic(Box::new(self.group_body()?)))
        } else if self.eat("?P<") {
            if self.dialect == Dialect::Oniguruma {
                return Err(self.unsupported("the group `(?P<`"));
            }
            self.named_group('>')
        } else if self.eat("?<") {
            self.named_group('>')
        } else if self.eat("?'") {
            self.named_group('\'')
        } else if self.eat("?") {
            self.flags_group()
        } else if self.rest().starts_with('*') {
            Err(self.unsupported("a callout or control verb"))
        } else {
            self.group_body()
        }?;
        self.leave();
        Ok(node)
    }

    /// The inside of a group and its closing parenthesis. Flags set inside a group end with it in Oniguruma; fancy-regex
    /// ends them only with a group that could have set flags itself.
    fn group_body(&mut self) -> Result<Node> {
        let flags = self.flags;
        let node = self.alternation()?;
        if self.dialect == Dialect::Oniguruma {
            self.flags = flags;
        }
        self.close()?;
        Ok(node)
    }

    fn close(&mut self) -> Result<()> {
        if self.eat(")") {
            Ok(())
        } else {
            Err(self.unsupported("a group that is not closed"))
        }
    }

    fn look(&mut self, behind: bool, negative: bool) -> Result<Node> {
        let body = Box::new(self.group_body()?);
        Ok(if behind {
            Node::LookBehind { negative, body }
        } else {
            Node::LookAhead { negative, body }
        })
    }

    fn named_group(&mut self, end: char) -> Result<Node> {
        let rest = self.rest();
        let name = rest.split(end).next().unwrap_or_default();
        let is_word = |character: char| character.is_ascii_alphanumeric() || character == '_';
        let plain = name.chars().all(is_word) && !name.starts_with(|c: char| c.is_ascii_digit());
        if name.is_empty() || name.len() == rest.len() || !plain {
            return Err(self.unsupported("the name of a group"));
        }
        self.at += name.len() + 1;
        self.group_body()
    }

    /// After `(?`: flags, then a body or a closing parenthesis.
    fn flags_group(&mut self) -> Result<Node> {
        let outer = self.flags;
        let mut on = true;
        let mut changes = 0;
        loop {
            match self.next() {
                Some(')') if changes > 0 => break,
                Some(':') if changes > 0 || on => {
                    let node = self.alternation()?;
                    self.flags = outer;
                    self.close()?;
                    return Ok(node);
                }
                Some('-') if on => on = false,
                Some(flag) if flag.is_ascii_alphabetic() => {
                    self.set_flag(flag, on)?;
                    changes += 1;
                }
                Some('#') => return Err(self.unsupported("a comment group")),
                Some('~') => return Err(self.unsupported("an absent operator")),
                Some('(') => return Err(self.unsupported("a conditional group")),
                Some('{') => return Err(self.unsupported("a callout")),
                Some('&' | '0'..='9' | '+') => return Err(self.unsupported("a subexpression call")),
                _ => return Err(self.unsupported("this kind of group")),
            }
        }
        match self.dialect {
            // The flags hold from here on, whatever the group.
            Dialect::FancyRegex => Ok(Node::Empty),
            // The rest of the group, its other alternatives included, is one part with these flags.
            Dialect::Oniguruma => {
                let node = self.alternation()?;
                self.flags = outer;
                Ok(node)
            }
        }
    }

    fn set_flag(&mut self, flag: char, on: bool) -> Result<()> {
        match (flag, self.dialect) {
            ('i', _) => self.flags.ignore_case = on,
            ('x', _) => self.flags.extended = on,
            ('m', Dialect::Oniguruma) | ('s', Dialect::FancyRegex) => self.flags.dot_all = on,
            ('m', Dialect::FancyRegex) => self.flags.multi_line = on,
            (flag, _) => return Err(self.unsupported(&format!("the flag {flag:?}"))),
        }
        Ok(())
    }

    /// Skips white space and comments where flag `x` is in force.
    fn skip_ignored(&mut self) {
        while self.flags.extended {
            match self.peek() {
                Some(' ' | '\t' | '\r' | '\n') => {
                    self.next();
                }
                Some('\u{C}') if self.dialect == Dialect::Oniguruma => {
                    self.next();
                }
                Some('#') => {
                    let rest = self.rest();
                    self.at += rest.find('\n').map_or(rest.len(), |newline| newline + 1);
                }
                _ => return,
            }
        }
    }
}

/// How often a node repeats.
struct Quantifier {
    min: u32,
    max: Option<u32>,
    lazy: bool,
    possessive: bool,
}

impl Quantifier {
    fn apply(self, node: Node) -> Node {
        let repeat = match (self.min, self.max) {
            (1, Some(1)) => node,
            (min, max) => Node::Repeat {
                body: Box::new(node),
                min,
                max,
                greedy: !self.lazy,
            },
        };
        if self.possessive {
            Node::Atomic(Box::new(repeat))
        } else {
            repeat
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(pattern: &str, dialect: Dialect) -> String {
        match parse(pattern, dialect) {
            Err(Error::Unsupported { what }) => what,
            other => panic!("{pattern:?} gave {other:?}"),
        }
    }

    #[test]
    fn what_is_refused_is_named() {
        for (pattern, name) in [
            (r"(a)\1", "back-reference"),
            (r"\Ga", r"`\G`"),
            (r"a\Kb", r"`\K`"),
            (r"\R", r"`\R`"),
            (r"\X", r"`\X`"),
            ("(?(1)a|b)", "conditional"),
            ("(?~ab)", "absent"),
            ("(?#x)", "comment"),
            ("(*FAIL)", "control verb"),
            ("a**+?*{2}{3}", "quantifier"),
            ("(?=a)*", "quantifier"),
            ("^*", "quantifier"),
            ("*a", "quantifier"),
            ("a{3,1}", "wrong way round"),
            ("a)", "unmatched"),
            ("(a", "not closed"),
            ("[a", "bracket"),
            (r"\p{NoSuchThing}", "NoSuchThing"),
            ("(?U)a", "flag 'U'"),
        ] {
            for dialect in [Dialect::Oniguruma, Dialect::FancyRegex] {
                let what = refused(pattern, dialect);
                assert!(what.contains(name), "{pattern:?}: {what}");
            }
        }
    }

    #[test]
    fn depth_is_bounded() {
        let deep = format!("{}a{}", "(".repeat(100_000), ")".repeat(100_000));
        assert!(refused(&deep, Dialect::Oniguruma).contains("long"));
        let deep = format!("{}a{}", "(?:".repeat(65), ")".repeat(65));
        assert!(refused(&deep, Dialect::FancyRegex).contains("deep"));
        let deep = "[".repeat(20_000);
        assert!(refused(&deep, Dialect::Oniguruma).contains("deep"));
    }

    #[test]
    fn a_brace_may_be_a_character() {
        for pattern in ["a{", "a{b", "{", "a{1", "a{b}", "x{1,2,3}", "a{}"] {
            assert!(parse(pattern, Dialect::Oniguruma).is_ok(), "{pattern}");
            assert!(parse(pattern, Dialect::FancyRegex).is_ok(), "{pattern}");
        }
    }

    #[test]
    fn flags_of_oniguruma_end_with_their_group() {
        let inner = parse("(?:(?i)a)b", Dialect::Oniguruma).unwrap();
        let same = parse("(?i:a)b", Dialect::Oniguruma).unwrap();
        assert_eq!(inner, same);
        let rest = parse("a(?i)b|c", Dialect::Oniguruma).unwrap();
        let same = parse("a(?i:b|c)", Dialect::Oniguruma).unwrap();
        assert_eq!(rest, same);
        let leaks = parse("(a(?i)b)c", Dialect::FancyRegex).unwrap();
        let same = parse("a(?i)bc", Dialect::FancyRegex).unwrap();
        assert_eq!(leaks, same);
    }
}
