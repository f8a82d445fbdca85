//! The plainest backtracking there is, over the tree as it was parsed: no memory, no rewriting, no filters.

use super::super::Dialect;
use super::super::ast::{Assertion, Node};
use super::super::charset;

/// A text being matched, and the steps still allowed.
pub(crate) struct Naive {
    text: Vec<char>,
    dialect: Dialect,
    steps: usize,
}

impl Naive {
    /// The matches in a text, as the iterators of both engines yield them, in bytes; `None` after too many steps.
    pub(crate) fn matches(
        node: &Node,
        text: &str,
        dialect: Dialect,
    ) -> Option<Vec<(usize, usize)>> {
        let mut naive = Naive {
            text: text.chars().collect(),
            dialect,
            steps: 5_000,
        };
        let mut found = Vec::new();
        let (mut start, mut last_end) = (0, None);
        while start <= naive.text.len() {
            let mut end = None;
            naive.go(node, start, &mut |_, at| {
                end = Some(at);
                true
            });
            if naive.steps == 0 {
                return None;
            }
            let Some(end) = end else {
                start += 1;
                continue;
            };
            if start != end || last_end != Some(end) {
                found.push((naive.byte(start), naive.byte(end)));
            }
            last_end = Some(end);
            start = if start == end { end + 1 } else { end };
        }
        Some(found)
    }

    fn byte(&self, index: usize) -> usize {
        self.text[..index].iter().map(|c| c.len_utf8()).sum()
    }

    /// Matches a node from a position on, then the rest of the pattern; true as soon as the rest is.
    fn go(
        &mut self,
        node: &Node,
        at: usize,
        rest: &mut dyn FnMut(&mut Naive, usize) -> bool,
    ) -> bool {
        self.steps = self.steps.saturating_sub(1);
        if self.steps == 0 {
            return true;
        }
        match node {
            Node::Empty => rest(self, at),
            Node::Literal { .. } | Node::Class(_) => {
                let set = node.as_class().unwrap();
                let next = self.text.get(at).copied();
                next.is_some_and(|next| set.contains(u32::from(next))) && rest(self, at + 1)
            }
            Node::Concat(nodes) => match nodes.split_first() {
                None => rest(self, at),
                Some((first, others)) => {
                    let others = Node::Concat(others.to_vec());
                    self.go(first, at, &mut |naive, at| naive.go(&others, at, rest))
                }
            },
            Node::Alternation(nodes) => nodes.iter().any(|node| self.go(node, at, rest)),
            Node::Repeat {
                body,
                min,
                max,
                greedy,
            } => self.repeat(body, *min, *max, *greedy, at, rest),
            Node::Atomic(body) => {
                let mut end = None;
                self.go(body, at, &mut |_, at| {
                    end = Some(at);
                    true
                });
                end.is_some_and(|end| rest(self, end))
            }
            Node::LookAhead { negative, body } => {
                self.go(body, at, &mut |_, _| true) != *negative && rest(self, at)
            }
            Node::LookBehind { negative, body } => {
                let found = (0..=at).any(|start| self.go(body, start, &mut |_, end| end == at));
                found != *negative && rest(self, at)
            }
            Node::Assertion(assertion) => self.holds(*assertion, at) && rest(self, at),
        }
    }

    fn repeat(
        &mut self,
        body: &Node,
        min: u32,
        max: Option<u32>,
        greedy: bool,
        at: usize,
        rest: &mut dyn FnMut(&mut Naive, usize) -> bool,
    ) -> bool {
        if max == Some(0) {
            return rest(self, at);
        }
        let more = |naive: &mut Naive, rest: &mut dyn FnMut(&mut Naive, usize) -> bool| {
            naive.go(body, at, &mut |naive, next| {
                // A loop without bound goes round more often than it must only if it has moved.
                let stuck = next == at && max.is_none() && min == 0;
                !stuck
                    && naive.repeat(
                        body,
                        min.saturating_sub(1),
                        max.map(|max| max - 1),
                        greedy,
                        next,
                        rest,
                    )
            })
        };
        match (min, greedy) {
            (1.., _) => more(self, rest),
            (0, true) => more(self, rest) || rest(self, at),
            (0, false) => rest(self, at) || more(self, rest),
        }
    }

    fn holds(&self, assertion: Assertion, at: usize) -> bool {
        let end = self.text.len();
        let word = |index: Option<usize>| {
            let character = index.and_then(|index| self.text.get(index));
            character.is_some_and(|c| charset::word(self.dialect).contains(u32::from(*c)))
        };
        let boundary = word(at.checked_sub(1)) != word(Some(at));
        let after_newline = at > 0 && self.text[at - 1] == '\n';
        match assertion {
            Assertion::TextStart => at == 0,
            Assertion::TextEnd => at == end,
            Assertion::TextEndOrLastNewline => at == end || self.text[at..] == ['\n'],
            Assertion::TextEndOrNewlines => self.text[at..].iter().all(|c| *c == '\n'),
            Assertion::LineStart => at == 0 || after_newline,
            Assertion::LineStartNotAtEnd => at == 0 || after_newline && at < end,
            Assertion::LineEnd => at == end || self.text[at] == '\n',
            Assertion::WordBoundary => boundary,
            Assertion::NotWordBoundary => !boundary,
        }
    }
}
