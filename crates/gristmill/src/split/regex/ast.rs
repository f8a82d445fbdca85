//! What a pattern means, as a tree, and the rewriting of that tree before it is compiled.
//!
//! Invariant: the depth of a tree is bounded by the parser, so recursion over it is safe; [`simplify`] keeps which match
//! is found first, not only which texts match. Tested through the differential tests of the whole engine and by the
//! cases below.

use std::sync::Arc;

use super::charset::CharSet;

/// One node of a pattern.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Node {
    /// Matches the empty text.
    Empty,
    /// One given character; `folded` when case is ignored.
    Literal { character: char, folded: bool },
    /// One character of a set.
    Class(Arc<CharSet>),
    /// All of them, one after another.
    Concat(Vec<Node>),
    /// The first of them that lets the rest of the pattern match.
    Alternation(Vec<Node>),
    /// The body `min` to `max` times; no `max` is without bound.
    Repeat {
        body: Box<Node>,
        min: u32,
        max: Option<u32>,
        greedy: bool,
    },
    /// The first match of the body and no other.
    Atomic(Box<Node>),
    /// Whether the body matches from here.
    LookAhead { negative: bool, body: Box<Node> },
    /// Whether the body matches up to here.
    LookBehind { negative: bool, body: Box<Node> },
    /// A condition on the position.
    Assertion(Assertion),
}

/// Conditions on a position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Assertion {
    /// At the start of the text.
    TextStart,
    /// At the end of the text.
    TextEnd,
    /// At the end of the text or before a newline that ends it.
    TextEndOrLastNewline,
    /// Nothing but newlines follows.
    TextEndOrNewlines,
    /// At the start of the text or after a newline.
    LineStart,
    /// At the start of the text or after a newline that does not end the text.
    LineStartNotAtEnd,
    /// At the end of the text or before a newline.
    LineEnd,
    /// Between a word character and something else.
    WordBoundary,
    /// Not at a word boundary.
    NotWordBoundary,
}

impl Node {
    /// A concatenation, flattened.
    pub(crate) fn concat(nodes: Vec<Node>) -> Node {
        let mut flat = Vec::with_capacity(nodes.len());
        for node in nodes {
            match node {
                Node::Empty => {}
                Node::Concat(inner) => flat.extend(inner),
                other => flat.push(other),
            }
        }
        match flat.pop() {
            None => Node::Empty,
            Some(only) if flat.is_empty() => only,
            Some(last) => {
                flat.push(last);
                Node::Concat(flat)
            }
        }
    }

    /// The set of characters of a node that always matches exactly one character.
    pub(crate) fn as_class(&self) -> Option<Arc<CharSet>> {
        match self {
            Node::Class(set) => Some(Arc::clone(set)),
            Node::Literal { character, folded } => {
                let set = CharSet::single(*character);
                Some(Arc::new(if *folded { set.case_folded() } else { set }))
            }
            _ => None,
        }
    }

    /// Whether the node can match the empty text.
    pub(crate) fn is_nullable(&self) -> bool {
        match self {
            Node::Empty | Node::LookAhead { .. } | Node::LookBehind { .. } | Node::Assertion(_) => {
                true
            }
            Node::Literal { .. } | Node::Class(_) => false,
            Node::Concat(nodes) => nodes.iter().all(Node::is_nullable),
            Node::Alternation(nodes) => nodes.iter().any(Node::is_nullable),
            Node::Repeat { body, min, .. } => *min == 0 || body.is_nullable(),
            Node::Atomic(body) => body.is_nullable(),
        }
    }

    /// Whether the node matches nothing but the empty text.
    pub(crate) fn is_zero_width(&self) -> bool {
        match self {
            Node::Empty | Node::LookAhead { .. } | Node::LookBehind { .. } | Node::Assertion(_) => {
                true
            }
            Node::Literal { .. } | Node::Class(_) => false,
            Node::Concat(nodes) | Node::Alternation(nodes) => nodes.iter().all(Node::is_zero_width),
            Node::Repeat { body, max, .. } => *max == Some(0) || body.is_zero_width(),
            Node::Atomic(body) => body.is_zero_width(),
        }
    }

    /// The most characters the node can match; `None` when there is no bound.
    pub(crate) fn longest(&self) -> Option<u64> {
        match self {
            Node::Empty | Node::LookAhead { .. } | Node::LookBehind { .. } | Node::Assertion(_) => {
                Some(0)
            }
            Node::Literal { .. } | Node::Class(_) => Some(1),
            Node::Concat(nodes) => nodes
                .iter()
                .try_fold(0u64, |sum, node| Some(sum.saturating_add(node.longest()?))),
            Node::Alternation(nodes) => nodes
                .iter()
                .try_fold(0u64, |longest, node| Some(longest.max(node.longest()?))),
            Node::Repeat { body, max, .. } => {
                Some(body.longest()?.saturating_mul(u64::from((*max)?)))
            }
            Node::Atomic(body) => body.longest(),
        }
    }

    /// The nodes directly below this one.
    pub(crate) fn children(&self) -> &[Node] {
        match self {
            Node::Empty | Node::Literal { .. } | Node::Class(_) | Node::Assertion(_) => &[],
            Node::Concat(nodes) | Node::Alternation(nodes) => nodes,
            Node::Repeat { body, .. }
            | Node::Atomic(body)
            | Node::LookAhead { body, .. }
            | Node::LookBehind { body, .. } => std::slice::from_ref(body),
        }
    }
}

/// Rewrites a tree into one that finds the same match first and is cheaper to run:
/// alternatives of one character each become one class, and a greedy repeat of an optional greedy repeat becomes one
/// repeat.
pub(crate) fn simplify(node: Node) -> Node {
    match node {
        Node::Literal { .. } => node.as_class().map_or(Node::Empty, Node::Class),
        Node::Concat(nodes) => Node::concat(nodes.into_iter().map(simplify).collect()),
        Node::Alternation(nodes) => merge_classes(nodes.into_iter().map(simplify).collect()),
        Node::Repeat {
            body,
            min,
            max,
            greedy,
        } => simplify_repeat(simplify(*body), min, max, greedy),
        Node::Atomic(body) => match simplify(*body) {
            single @ Node::Class(_) => single,
            body => Node::Atomic(Box::new(body)),
        },
        Node::LookAhead { negative, body } => Node::LookAhead {
            negative,
            body: Box::new(simplify(*body)),
        },
        Node::LookBehind { negative, body } => Node::LookBehind {
            negative,
            body: Box::new(simplify(*body)),
        },
        Node::Empty | Node::Class(_) | Node::Assertion(_) => node,
    }
}

/// Joins neighbouring alternatives that match one character each: which of them matched cannot be told afterwards.
fn merge_classes(nodes: Vec<Node>) -> Node {
    let mut merged: Vec<Node> = Vec::with_capacity(nodes.len());
    let mut sets: Vec<Arc<CharSet>> = Vec::new();
    for node in nodes {
        if let Node::Class(set) = node {
            sets.push(set);
        } else {
            flush(&mut sets, &mut merged);
            merged.push(node);
        }
    }
    flush(&mut sets, &mut merged);
    match merged.pop() {
        None => Node::Empty,
        Some(only) if merged.is_empty() => only,
        Some(last) => {
            merged.push(last);
            Node::Alternation(merged)
        }
    }
}

/// Makes the sets collected one class.
fn flush(sets: &mut Vec<Arc<CharSet>>, merged: &mut Vec<Node>) {
    if !sets.is_empty() {
        let union = CharSet::union_all(sets);
        merged.push(Node::Class(Arc::new(union)));
        sets.clear();
    }
}

/// `(x{0,k}){n,m}` with both greedy is `x{0,k*m}`, when `x` cannot match the empty text: both try the same sequences of
/// `x`, in the same order, the left side some of them more than once.
fn simplify_repeat(body: Node, min: u32, max: Option<u32>, greedy: bool) -> Node {
    if (min, max) == (1, Some(1)) {
        return body;
    }
    if max == Some(0) {
        return Node::Empty;
    }
    let (inner, inner_min, inner_max) = match body {
        Node::Repeat {
            body: inner,
            min: inner_min,
            max: inner_max,
            greedy: true,
        } if greedy && !inner.is_nullable() => (inner, inner_min, inner_max),
        body => {
            return Node::Repeat {
                body: Box::new(body),
                min,
                max,
                greedy,
            };
        }
    };
    let both_max = match (inner_max, max) {
        (None, _) | (_, None) => Some(None),
        (Some(inner), Some(outer)) => inner.checked_mul(outer).map(Some),
    };
    match (inner_min, min, both_max) {
        (0, _, Some(max)) => Node::Repeat {
            body: inner,
            min: 0,
            max,
            greedy,
        },
        // `(x+)?`, `(x+)*` and `(x+)+`
        (1, 0 | 1, Some(None)) if inner_max.is_none() => Node::Repeat {
            body: inner,
            min,
            max: None,
            greedy,
        },
        _ => Node::Repeat {
            body: Box::new(Node::Repeat {
                body: inner,
                min: inner_min,
                max: inner_max,
                greedy: true,
            }),
            min,
            max,
            greedy,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn letter(character: char) -> Node {
        Node::Class(Arc::new(CharSet::single(character)))
    }

    fn repeat(body: Node, min: u32, max: Option<u32>) -> Node {
        Node::Repeat {
            body: Box::new(body),
            min,
            max,
            greedy: true,
        }
    }

    #[test]
    fn a_star_of_a_star_is_one_star() {
        let star = repeat(letter('a'), 0, None);
        assert_eq!(simplify(repeat(star.clone(), 0, None)), star);
        assert_eq!(simplify(repeat(star.clone(), 2, Some(5))), star);
        assert_eq!(
            simplify(repeat(repeat(letter('a'), 1, None), 0, Some(1))),
            star
        );
        assert_eq!(
            simplify(repeat(repeat(letter('a'), 0, Some(2)), 3, Some(4))),
            repeat(letter('a'), 0, Some(8))
        );
        let counted = repeat(repeat(letter('a'), 2, Some(3)), 0, None);
        assert_eq!(simplify(counted.clone()), counted);
    }

    #[test]
    fn only_neighbouring_single_characters_join() {
        let pair = Node::Concat(vec![letter('b'), letter('c')]);
        let node = Node::Alternation(vec![
            letter('a'),
            letter('b'),
            pair.clone(),
            letter('c'),
            letter('d'),
        ]);
        let expected = Node::Alternation(vec![
            Node::Class(Arc::new(CharSet::range('a', 'b'))),
            pair,
            Node::Class(Arc::new(CharSet::range('c', 'd'))),
        ]);
        assert_eq!(simplify(node), expected);
    }
}
