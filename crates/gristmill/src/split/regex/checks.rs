//! What a tree must not hold because the engine of the dialect treats it in a way of its own.
//!
//! Invariant: a tree that passes means the same to the engine of its dialect and to plain leftmost-first backtracking in
//! which no loop repeats the empty text. Tested by the differential tests of the whole engine, whose random patterns pass
//! through here, and by the refusals below.

use super::Dialect;
use super::ast::{Assertion, Node};
use super::charset::CharSet;

/// The longest text a look-behind may look at, in characters.
const LONGEST_LOOK_BEHIND: u64 = 255;

/// The first thing in the simplified tree that is not supported, in words.
pub(crate) fn refusal(node: &Node, dialect: Dialect) -> Option<&'static str> {
    if dialect == Dialect::Oniguruma && leading_dots(node, false) == Leading::DotsAfterCondition {
        return Some("a condition right before a loop over any character");
    }
    part_refusal(node, dialect)
}

fn part_refusal(node: &Node, dialect: Dialect) -> Option<&'static str> {
    let here = match (node, dialect) {
        (Node::Repeat { .. }, Dialect::Oniguruma) => oniguruma_repeat(node),
        (Node::Repeat { .. }, Dialect::FancyRegex) => fancy_repeat(node),
        (Node::Concat(nodes), Dialect::FancyRegex) => fancy_window(nodes),
        (Node::Alternation(nodes), Dialect::FancyRegex) => fancy_prefix(nodes),
        (Node::LookBehind { body, .. }, _) => look_behind(body, dialect),
        _ => None,
    };
    here.or_else(|| {
        let mut children = node.children().iter();
        children.find_map(|child| part_refusal(child, dialect))
    })
}

/// Engines leave a loop that matched the empty text in different ways, and Oniguruma leaves counted ones too.
fn oniguruma_repeat(node: &Node) -> Option<&'static str> {
    let Node::Repeat {
        body, max, greedy, ..
    } = node
    else {
        return None;
    };
    if body.is_nullable() && *max != Some(1) {
        return Some("a repeat of something that can match the empty text");
    }
    match **body {
        // Oniguruma turns two quantifiers into one, and not always an equal one when either is lazy.
        Node::Repeat {
            greedy: inner_greedy,
            ..
        } if !(*greedy && inner_greedy) => Some("a lazy quantifier together with another"),
        _ => None,
    }
}

/// What a part of a pattern begins with, as far as Oniguruma's search for `.*` cares.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Leading {
    /// A loop over any character with a condition before it.
    DotsAfterCondition,
    /// Nothing that matches text; whether there was a condition.
    NoText { condition: bool },
    /// Something else.
    Other,
}

/// When a pattern begins with `.*` Oniguruma tries it only at the starts of lines, as it would fail elsewhere in the line
/// just the same. With a condition before the dots, other than a start itself, that is not so, but it does it nevertheless.
fn leading_dots(node: &Node, condition: bool) -> Leading {
    match node {
        Node::Empty
        | Node::Assertion(
            Assertion::TextStart | Assertion::LineStart | Assertion::LineStartNotAtEnd,
        ) => Leading::NoText { condition },
        Node::Assertion(_) | Node::LookAhead { .. } | Node::LookBehind { .. } => {
            Leading::NoText { condition: true }
        }
        Node::Literal { .. } | Node::Class(_) => Leading::Other,
        Node::Repeat {
            body, max, greedy, ..
        } => match body.as_class() {
            Some(set) if max.is_none() && *greedy && condition && is_dot(&set) => {
                Leading::DotsAfterCondition
            }
            Some(_) => Leading::Other,
            None => leading_dots(body, condition),
        },
        Node::Atomic(body) => leading_dots(body, condition),
        Node::Concat(nodes) => {
            let mut leading = Leading::NoText { condition };
            for node in nodes {
                if let Leading::NoText { condition } = leading {
                    leading = leading_dots(node, condition);
                }
            }
            leading
        }
        Node::Alternation(nodes) => {
            let mut merged = Leading::NoText { condition };
            for node in nodes {
                merged = match (merged, leading_dots(node, condition)) {
                    (Leading::DotsAfterCondition, _) | (_, Leading::DotsAfterCondition) => {
                        Leading::DotsAfterCondition
                    }
                    (Leading::Other, _) | (_, Leading::Other) => Leading::Other,
                    (Leading::NoText { condition: a }, Leading::NoText { condition: b }) => {
                        Leading::NoText { condition: a || b }
                    }
                };
            }
            merged
        }
    }
}

/// Whether a set is that of `.`, with or without newlines.
fn is_dot(set: &CharSet) -> bool {
    *set == CharSet::all() || *set == CharSet::single('\n').complement()
}

fn fancy_repeat(node: &Node) -> Option<&'static str> {
    let Node::Repeat {
        body,
        min,
        max,
        greedy,
    } = node
    else {
        return None;
    };
    if body.is_nullable() && max.is_none() {
        return Some("an unbounded repeat of something that can match the empty text");
    }
    if (*min, *max) == (0, None)
        && let Node::Repeat {
            max: None,
            greedy: inner_greedy,
            ..
        } = **body
        && !(*greedy && inner_greedy)
    {
        // fancy-regex takes `(x+?)*` for `(x+?)?`.
        return Some("a lazy quantifier together with another");
    }
    if let (Some(_), Node::Concat(parts)) = (unbounded_greedy(node), &**body)
        && let [first, .., optional] = parts.as_slice()
        && let Node::Repeat {
            body: tail,
            min: 0,
            max: Some(1),
            ..
        } = optional
        && let Node::Concat(tail) = &**tail
        && let Some(last) = tail.last()
        && same_unbounded(first, last)
    {
        return Some("a loop around two equal loops");
    }
    None
}

/// fancy-regex rewrites `x+y?x+` into `x+(?:yx+)?`, which is not the same.
fn fancy_window(nodes: &[Node]) -> Option<&'static str> {
    nodes.windows(3).find_map(|window| match window {
        [left, Node::Repeat { min: 0, .. }, right] if same_unbounded(left, right) => {
            Some("two equal loops with something optional between")
        }
        _ => None,
    })
}

/// `regex-syntax`, to which fancy-regex hands what is regular, rewrites `xy|xz` into `x(?:y|z)`. When `x` can match in several
/// ways that is not the same: after `x` has matched in its first way, `z` comes before the second.
fn fancy_prefix(nodes: &[Node]) -> Option<&'static str> {
    let parts: Option<Vec<&[Node]>> = nodes
        .iter()
        .map(|node| match node {
            Node::Concat(parts) => Some(parts.as_slice()),
            _ => None,
        })
        .collect();
    let parts = parts?;
    let (first, others) = parts.split_first()?;
    let shared = first.iter().enumerate().take_while(|(index, part)| {
        let mut others = others.iter();
        others.all(|other| other.get(*index) == Some(part))
    });
    let ambiguous = shared.into_iter().any(|(_, part)| !has_one_way(part));
    ambiguous.then_some("alternatives that begin with the same ambiguous part")
}

/// Whether a node can match in one way at most from any position.
fn has_one_way(node: &Node) -> bool {
    match node {
        Node::Alternation(_) => false,
        Node::Repeat { body, min, max, .. } => *max == Some(*min) && has_one_way(body),
        Node::Concat(nodes) => nodes.iter().all(has_one_way),
        _ => true,
    }
}

fn unbounded_greedy(node: &Node) -> Option<&Node> {
    match node {
        Node::Repeat {
            body,
            min: 0 | 1,
            max: None,
            greedy: true,
        } => Some(body),
        _ => None,
    }
}

fn same_unbounded(left: &Node, right: &Node) -> bool {
    match (unbounded_greedy(left), unbounded_greedy(right)) {
        (Some(left), Some(right)) => left == right,
        _ => false,
    }
}

fn look_behind(body: &Node, dialect: Dialect) -> Option<&'static str> {
    match body.longest() {
        None => return Some("a look-behind without bound"),
        Some(longest) if longest > LONGEST_LOOK_BEHIND => return Some("a look-behind so long"),
        Some(_) => {}
    }
    if dialect == Dialect::Oniguruma && body.is_nullable() {
        return Some("a look-behind that can match the empty text");
    }
    fn plain(node: &Node) -> bool {
        let allowed = !matches!(
            node,
            Node::Atomic(_) | Node::LookAhead { .. } | Node::LookBehind { .. }
        );
        allowed && node.children().iter().all(plain)
    }
    (!plain(body)).then_some("a look-behind over groups that are more than plain")
}

/// Whether Oniguruma could match the literals of the unsimplified tree against one character that folds to several, such as
/// `ss` against `ß`.
///
/// Only letters of ASCII get here as folded literals, so only pairs of them matter; any two that can meet in a match count
/// as neighbours.
pub(crate) fn folds_to_one_character(node: &Node) -> bool {
    edges(node).is_none()
}

/// Pairs of letters that begin or make up what one character folds to.
const FOLDED_PAIRS: [(char, char); 5] =
    [('s', 's'), ('s', 't'), ('f', 'f'), ('f', 'i'), ('f', 'l')];

/// The folded letters, as bits, that a match of a node can begin and end with.
#[derive(Clone, Copy, Default)]
struct Edges {
    first: u32,
    last: u32,
    nullable: bool,
}

impl Edges {
    const NOTHING: Edges = Edges {
        first: 0,
        last: 0,
        nullable: true,
    };

    fn then(self, next: Edges) -> Option<Edges> {
        let meet = FOLDED_PAIRS
            .iter()
            .any(|&(left, right)| self.last & bit(left) != 0 && next.first & bit(right) != 0);
        (!meet).then_some(Edges {
            first: self.first | if self.nullable { next.first } else { 0 },
            last: next.last | if next.nullable { self.last } else { 0 },
            nullable: self.nullable && next.nullable,
        })
    }
}

fn bit(letter: char) -> u32 {
    let lower = letter.to_ascii_lowercase();
    if lower.is_ascii_lowercase() {
        1 << (u32::from(lower) - u32::from('a'))
    } else {
        0
    }
}

/// `None` when a pair meets.
fn edges(node: &Node) -> Option<Edges> {
    match node {
        Node::Empty | Node::Assertion(_) => Some(Edges::NOTHING),
        Node::Class(_) => Some(Edges::default()),
        Node::Literal { character, folded } => {
            let letter = if *folded { bit(*character) } else { 0 };
            Some(Edges {
                first: letter,
                last: letter,
                nullable: false,
            })
        }
        Node::Concat(nodes) => nodes
            .iter()
            .try_fold(Edges::NOTHING, |sum, node| sum.then(edges(node)?)),
        Node::Alternation(nodes) => nodes.iter().try_fold(Edges::default(), |sum, node| {
            let edges = edges(node)?;
            Some(Edges {
                first: sum.first | edges.first,
                last: sum.last | edges.last,
                nullable: sum.nullable || edges.nullable,
            })
        }),
        Node::Repeat { body, min, max, .. } => {
            let mut body = edges(body)?;
            if *max != Some(1) {
                body.then(body)?;
            }
            body.nullable |= *min == 0;
            Some(body)
        }
        Node::Atomic(body) => edges(body),
        Node::LookAhead { body, .. } | Node::LookBehind { body, .. } => {
            edges(body)?;
            Some(Edges::NOTHING)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::ast::simplify;
    use super::super::parse::parse;
    use super::*;

    fn refused(pattern: &str, dialect: Dialect) -> bool {
        refusal(&simplify(parse(pattern, dialect).unwrap()), dialect).is_some()
    }

    #[test]
    fn loops_over_the_empty_text() {
        for dialect in [Dialect::Oniguruma, Dialect::FancyRegex] {
            for pattern in ["(?:a|)*", "(?:a*b?)+", "(?:(?=a)|b)*", "(?:a*?)*"] {
                assert!(refused(pattern, dialect), "{pattern}");
            }
            for pattern in ["(?:a*)*", "(?:a?)+", "((a+)?)*", "(?:ab*)*", "(?:a|)?"] {
                assert!(!refused(pattern, dialect), "{pattern}");
            }
        }
        assert!(refused("(?:a|){2}", Dialect::Oniguruma));
        assert!(!refused("(?:a|){2}", Dialect::FancyRegex));
    }

    #[test]
    fn what_the_engines_rewrite() {
        assert!(refused("(?:a+?)+", Dialect::Oniguruma));
        assert!(!refused("(?:a+?)+", Dialect::FancyRegex));
        assert!(refused("(a+?)*", Dialect::FancyRegex));
        assert!(refused("a+b?a+", Dialect::FancyRegex));
        assert!(refused("x(?:a+b?)a*", Dialect::FancyRegex));
        assert!(refused("(?:a+(?:ba+)?)+", Dialect::FancyRegex));
        assert!(refused("a?b|a?c", Dialect::FancyRegex));
        assert!(refused("xa{1,2}b|(?:xa{1,2})c", Dialect::FancyRegex));
        assert!(!refused("a?b|a?c|d", Dialect::FancyRegex));
        assert!(!refused("a{2}b|aac", Dialect::FancyRegex));
        assert!(!refused("a?b|a?c", Dialect::Oniguruma));
        assert!(!refused("a+b?a+", Dialect::Oniguruma));
        assert!(!refused("a+b?c+", Dialect::FancyRegex));
    }

    #[test]
    fn dots_after_a_condition() {
        for pattern in [
            r"\b.*a",
            "(?=x).+",
            "(?:(?!a)|b*(?=x)|(?<=y).*)z",
            r"(?:(?=a)\N{2,})+",
            r"(?<!a)(?>\O*)",
        ] {
            assert!(refused(pattern, Dialect::Oniguruma), "{pattern}");
            assert!(!refused(pattern, Dialect::FancyRegex), "{pattern}");
        }
        for pattern in [
            "^.*a",
            r"\A.+",
            "(?=a)a.*",
            r"\b.*?a",
            ".*",
            r"\b.{1,9}",
            "(?=.*a)b",
        ] {
            assert!(!refused(pattern, Dialect::Oniguruma), "{pattern}");
        }
    }

    #[test]
    fn look_behind_is_short_and_plain() {
        for dialect in [Dialect::Oniguruma, Dialect::FancyRegex] {
            for pattern in ["(?<=a+)", "(?<!a{256})", "(?<=(?>ab?))b", "(?<=(?!b)a)"] {
                assert!(refused(pattern, dialect), "{pattern}");
            }
            for pattern in ["(?<=a|bc)", "(?<!ab?c{1,3})d"] {
                assert!(!refused(pattern, dialect), "{pattern}");
            }
        }
    }

    #[test]
    fn letters_that_one_character_folds_to() {
        let folds =
            |pattern: &str| folds_to_one_character(&parse(pattern, Dialect::Oniguruma).unwrap());
        for pattern in [
            "(?i)ss",
            "(?i)xSTy",
            "(?i:s)(?i:t)",
            "(?i)f[x]?i",
            "(?i)s+",
            "(?i)(?:st)?",
            "a(?i)(?=ff)",
            "(?i)(?:s|x)(?:y|t)",
        ] {
            assert!(folds(pattern), "{pattern}");
        }
        for pattern in [
            "ss",
            "(?i:'s|'t|'re|'ve|'m|'ll|'d)",
            "(?i:[sdmt]|ll|ve|re)",
            "(?i)s",
            "(?i:s)t",
            "(?i)s t",
        ] {
            assert!(!folds(pattern), "{pattern}");
        }
    }
}
