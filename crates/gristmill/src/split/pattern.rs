//! Reads the small language that pre-tokenizer patterns are written in: sets of characters, each with a quantifier, in
//! alternatives.
//!
//! Invariant: what is read means, in both dialects, exactly what the engine of that dialect makes of it; everything else
//! (groups, lazy quantifiers, other assertions, unknown properties, bracket expressions that an engine might read otherwise)
//! is refused. Recursion-free and linear in the pattern.
//! Tested here for what is refused, and in `tests.rs` against the engine for what is read.

use super::classes::Set;

/// Whose meaning of a pattern counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Dialect {
    /// Oniguruma with Ruby's syntax, which reads the patterns in a `tokenizer.json`.
    Oniguruma,
    /// The `fancy-regex` crate, which reads the patterns of tiktoken.
    FancyRegex,
}

/// How the letters of a contraction such as `'ll` may be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fold {
    /// In lower case only.
    Exact,
    /// In either case.
    Ascii,
    /// In either case, or with U+017F, the long s.
    Unicode,
}

/// A set of characters, repeated: as often as possible up to `max`, at least `min` times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Element {
    pub(super) set: Set,
    pub(super) min: u32,
    pub(super) max: u32,
    /// Whether nothing that was taken is given back when the rest of the alternative fails.
    pub(super) possessive: bool,
}

/// What must hold after the last element.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ending {
    /// Nothing.
    Anything,
    /// `(?!\S)`: white space or the end of the text follows.
    NotBeforeNonSpace,
    /// `$`: the text ends.
    TextEnd,
}

/// One of the alternatives of a pattern.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Alternative {
    /// `'s`, `'t`, `'re`, `'ve`, `'m`, `'ll` or `'d`.
    Contraction(Fold),
    /// Elements one after the other, then a contraction if one stands there and is asked for.
    Sequence {
        elements: Vec<Element>,
        contraction: Option<Fold>,
        ending: Ending,
    },
}

/// How contractions are spelled in patterns in use: the spelling, its meaning, and whether a `?` after it makes all of it optional.
const CONTRACTIONS: &[(&str, Fold, bool)] = &[
    ("(?i:'s|'t|'re|'ve|'m|'ll|'d)", Fold::Unicode, true),
    ("'(?i:[sdmt]|ll|ve|re)", Fold::Unicode, false),
    ("'s|'t|'re|'ve|'m|'ll|'d", Fold::Exact, false),
    ("'(?:[sdmt]|ll|ve|re)", Fold::Exact, false),
    ("(?:'s|'t|'re|'ve|'m|'ll|'d)", Fold::Exact, true),
    (
        "(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])",
        Fold::Ascii,
        true,
    ),
];

/// No upper bound.
pub(super) const UNBOUNDED: u32 = u32::MAX;

/// The largest count that is read in `{n,m}`; the engines have limits of their own far above it.
pub(super) const LARGEST_COUNT: u32 = 255;

/// Reads a whole pattern; `None` if any part of it is not understood.
pub(super) fn parse(pattern: &str, dialect: Dialect) -> Option<Vec<Alternative>> {
    let mut reader = Reader {
        rest: pattern,
        dialect,
    };
    let mut alternatives = vec![reader.alternative()?];
    while !reader.rest.is_empty() {
        reader.expect("|")?;
        alternatives.push(reader.alternative()?);
    }
    Some(alternatives)
}

struct Reader<'a> {
    rest: &'a str,
    dialect: Dialect,
}

impl Reader<'_> {
    /// Steps over `expected` if it is next.
    fn skip(&mut self, expected: &str) -> bool {
        let after = self.rest.strip_prefix(expected);
        self.rest = after.unwrap_or(self.rest);
        after.is_some()
    }

    fn expect(&mut self, expected: &str) -> Option<()> {
        self.skip(expected).then_some(())
    }

    fn next(&mut self) -> Option<char> {
        let mut chars = self.rest.chars();
        let next = chars.next();
        self.rest = chars.as_str();
        next
    }

    fn at_end_of_alternative(&self) -> bool {
        self.rest.is_empty() || self.rest.starts_with('|')
    }

    fn alternative(&mut self) -> Option<Alternative> {
        for (spelling, fold, _) in CONTRACTIONS {
            if self.skip(spelling) {
                return self
                    .at_end_of_alternative()
                    .then_some(Alternative::Contraction(*fold));
            }
        }
        let mut elements = Vec::new();
        let mut contraction = None;
        let mut ending = Ending::Anything;
        while !self.at_end_of_alternative() {
            if contraction.is_some() || ending != Ending::Anything {
                return None;
            } else if self.skip("(?!\\S)") {
                ending = Ending::NotBeforeNonSpace;
            } else if self.dialect == Dialect::FancyRegex && self.skip("$") {
                ending = Ending::TextEnd;
            } else if self.rest.starts_with('(') {
                contraction = Some(self.optional_contraction()?);
            } else {
                elements.push(self.element()?);
            }
        }
        (!elements.is_empty()).then_some(Alternative::Sequence {
            elements,
            contraction,
            ending,
        })
    }

    fn optional_contraction(&mut self) -> Option<Fold> {
        let (_, fold, _) = CONTRACTIONS
            .iter()
            .find(|(spelling, _, group)| *group && self.skip(spelling))?;
        self.expect("?")?;
        Some(*fold)
    }

    fn element(&mut self) -> Option<Element> {
        let set = match self.next()? {
            '[' => self.brackets()?,
            '\\' => self.escape()?,
            c if c.is_ascii_alphanumeric() || " !\"#%&',/:;<=>@_`~-".contains(c) => {
                Set::range(c, c)?
            }
            _ => return None,
        };
        let (min, max, possessive) = self.quantifier()?;
        Some(Element {
            set,
            min,
            max,
            possessive,
        })
    }

    fn quantifier(&mut self) -> Option<(u32, u32, bool)> {
        let mut counted = false;
        let (min, max) = if self.skip("?") {
            (0, 1)
        } else if self.skip("*") {
            (0, UNBOUNDED)
        } else if self.skip("+") {
            (1, UNBOUNDED)
        } else if self.skip("{") {
            counted = true;
            self.counts()?
        } else {
            return Some((1, 1, false));
        };
        let possessive = self.skip("+");
        // In Ruby's syntax a plus after `{n,m}` repeats it.
        let repeated = possessive && counted && self.dialect == Dialect::Oniguruma;
        if repeated || self.rest.starts_with(['?', '*', '+', '{']) {
            return None;
        }
        Some((min, max, possessive))
    }

    /// The rest of `{n}`, `{n,}` or `{n,m}`.
    fn counts(&mut self) -> Option<(u32, u32)> {
        let (inside, after) = self.rest.split_once('}')?;
        self.rest = after;
        let (min, max) = match inside.split_once(',') {
            None => (count(inside)?, count(inside)?),
            Some((min, "")) => (count(min)?, UNBOUNDED),
            Some((min, max)) => (count(min)?, count(max)?),
        };
        (min <= max && max > 0).then_some((min, max))
    }

    /// The set that an escape stands for, its backslash already read.
    fn escape(&mut self) -> Option<Set> {
        match self.next()? {
            'p' => {
                self.expect("{")?;
                let (name, after) = self.rest.split_once('}')?;
                self.rest = after;
                Set::property(name).filter(|_| name != "s" && name != "d")
            }
            's' => Set::property("s"),
            'S' => Set::property("s").map(Set::complement),
            'd' => Set::property("d"),
            c => {
                let c = escaped_character(c)?;
                Set::range(c, c)
            }
        }
    }

    /// The rest of a bracket expression.
    fn brackets(&mut self) -> Option<Set> {
        let negated = self.skip("^");
        let mut set = self.members()?;
        if self.skip("&&") {
            // With a negation around an intersection the engines need not agree on what is negated.
            if negated {
                return None;
            }
            self.expect("[^")?;
            set = set.intersection(self.members()?.complement());
            self.expect("]")?;
        }
        self.expect("]")?;
        Some(if negated { set.complement() } else { set })
    }

    /// The members of a bracket expression, up to its `]` or `&&`: at least one.
    fn members(&mut self) -> Option<Set> {
        let mut set = self.member(true)?;
        while !self.rest.starts_with(']') && !self.rest.starts_with("&&") {
            set = set.union(self.member(false)?);
        }
        Some(set)
    }

    fn member(&mut self, first: bool) -> Option<Set> {
        // Doubled, these are set operations for one engine or the other, or may become so.
        if ["&&", "--", "~~"]
            .iter()
            .any(|operator| self.rest.starts_with(operator))
        {
            return None;
        }
        let low = match self.next()? {
            '[' | ']' => return None,
            '^' if first => return None,
            '-' if !first && !self.rest.starts_with(']') => return None,
            '\\' => match self.rest.chars().next().and_then(escaped_character) {
                Some(c) => {
                    self.next();
                    c
                }
                None => {
                    let set = self.escape()?;
                    // `\s-x` is an error for one engine and three members for the other.
                    let range = self.rest.starts_with('-') && !self.rest.starts_with("-]");
                    return (!range).then_some(set);
                }
            },
            c => c,
        };
        let range = self.rest.starts_with('-') && !self.rest.starts_with("-]");
        if !range || low == '-' {
            return Set::range(low, low).filter(|_| !range);
        }
        self.expect("-")?;
        let high = match self.next()? {
            '\\' => self.next().and_then(escaped_character)?,
            '[' | ']' | '-' => return None,
            c => c,
        };
        Set::range(low, high)
    }
}

/// The character that a backslash before `c` stands for, where both dialects read it alike.
fn escaped_character(c: char) -> Option<char> {
    match c {
        'r' => Some('\r'),
        'n' => Some('\n'),
        't' => Some('\t'),
        _ => "-[]\\^.|(){}*+?$/".contains(c).then_some(c),
    }
}

fn count(digits: &str) -> Option<u32> {
    let plain = digits.bytes().all(|byte| byte.is_ascii_digit());
    digits
        .parse()
        .ok()
        .filter(|count| plain && *count <= LARGEST_COUNT)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_understood_is_refused() {
        let refused = [
            "",
            "|",
            "a|",
            "|a",
            "(",
            "(a)",
            "(?:a)",
            "(?i)a",
            "(?!\\S)",
            "$",
            "a(?!\\S)b",
            "^a",
            "a.b",
            ".",
            "\\",
            "\\w",
            "\\b",
            "\\h",
            "\\R",
            "\\X",
            "\\P{L}",
            "\\pL",
            "\\p{L",
            "\\p{^L}",
            "\\p{Greek}",
            "\\p{s}",
            "\\p{d}",
            "[",
            "[]",
            "[^]",
            "[]a]",
            "[^]a]",
            "[a",
            "[[a]]",
            "[[:alpha:]]",
            "[a&&b]",
            "[a&&[b]]",
            "[a&&[^b]c]",
            "[a&&[^b]&&[^c]]",
            "[^a&&[^b]]",
            "[&&[^a]]",
            "[a--b]",
            "[a~~b]",
            "[\\s-a]",
            "[\\p{L}-a]",
            "[a-\\s]",
            "[b-a]",
            "[a-é]",
            "[é]",
            "é",
            "[一-龦]",
            "a??",
            "a*?",
            "a+?",
            "a{2}?",
            "a{1,2}?",
            "a++*",
            "a+*",
            "a{",
            "a{}",
            "a{,2}",
            "a{2,1}",
            "a{0}",
            "a{ 1}",
            "a{+1}",
            "a{256}",
            "a{1}{2}",
            "*",
            "+a",
            "?",
            "a]",
            "a}",
            "'s|'t|'re|'ve|'m|'ll|'d+",
            "a(?i:'s|'t|'re|'ve|'m|'ll|'d)",
            "a(?i:'s|'t|'re|'ve|'m|'ll|'d)?b",
            "a(?i:'s|'t|'re|'ve|'m|'ll|'d)?+",
            "a'(?i:[sdmt]|ll|ve|re)?",
            "a$?",
            "a(?!\\S)?",
            "a(?!\\s)",
            "a(?=b)",
            "\\u0041",
            "[\\x41]",
        ];
        for pattern in refused {
            assert_eq!(parse(pattern, Dialect::FancyRegex), None, "{pattern}");
        }
        // A hyphen that ends the brackets, and a space before a plus, are plain characters.
        for pattern in ["[a-]b", "a++ +"] {
            assert!(parse(pattern, Dialect::FancyRegex).is_some(), "{pattern}");
        }
    }

    #[test]
    fn the_dialects_differ_where_the_engines_do() {
        for pattern in ["\\s++$", "\\p{N}{1,3}+"] {
            assert!(parse(pattern, Dialect::FancyRegex).is_some());
            assert_eq!(parse(pattern, Dialect::Oniguruma), None);
        }
    }

    #[test]
    fn long_patterns_take_no_recursion() {
        for part in ["[", "(", "(?:", "a|", "[a&&[^", "\\", "a{"] {
            let _ = parse(&part.repeat(100_000), Dialect::Oniguruma);
        }
    }
}
