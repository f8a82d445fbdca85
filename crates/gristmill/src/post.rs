//! What happens to the ids of a text at the end: tokens put around them, offsets trimmed.
//!
//! A post-processor of tokenizer.json is a list of steps. A template says what stands before and
//! after the text; a trim takes the spaces that a byte-level token begins or ends with out of its
//! offsets. Only the single-text form of templates is used. Tested against `tokenizers`.

use std::ops::Range;

/// A step of a post-processor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// What the text becomes. If `joined`, all of it is one sequence afterwards, else each item stays
    /// a sequence of its own.
    Template { items: Vec<Item>, joined: bool },
    /// Spaces at the ends of tokens are not part of their offsets. If a space was put before the
    /// text, the first token's single leading space is that one, and has no place to be taken from.
    Trim { add_prefix_space: bool },
}

/// A part of a template.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Item {
    /// The text.
    Text,
    /// Tokens that are put there if the caller asks for special tokens.
    Tokens(Vec<u32>),
}

/// The steps, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct PostProcessor(pub(crate) Vec<Step>);

/// A token with its place in the text, in characters or bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Placed {
    pub(crate) id: u32,
    pub(crate) start: usize,
    pub(crate) end: usize,
    /// White space characters the token begins with.
    pub(crate) leading: usize,
    /// White space characters the token ends with.
    pub(crate) trailing: usize,
    /// Whether it is the first of its sequence.
    pub(crate) first: bool,
}

impl PostProcessor {
    fn templates(&self) -> impl Iterator<Item = &[Item]> {
        self.0.iter().filter_map(|step| match step {
            Step::Template { items, .. } => Some(&**items),
            Step::Trim { .. } => None,
        })
    }

    /// How many times the text stands in the result.
    pub(crate) fn copies(&self) -> usize {
        self.templates().fold(1, |copies, items| {
            let texts = items.iter().filter(|&item| *item == Item::Text).count();
            copies.saturating_mul(texts)
        })
    }

    /// Whether offsets are trimmed.
    pub(crate) fn trims(&self) -> bool {
        self.0.iter().any(|step| matches!(step, Step::Trim { .. }))
    }

    /// Put tokens around the ids that `ids` holds from `from` on.
    pub(crate) fn wrap(&self, ids: &mut Vec<u32>, from: usize, add_special_tokens: bool) {
        for template in self.templates() {
            if matches!(template, [Item::Text]) {
                continue;
            }
            let text = ids.split_off(from);
            for item in template {
                match item {
                    Item::Text => ids.extend_from_slice(&text),
                    Item::Tokens(tokens) if add_special_tokens => ids.extend_from_slice(tokens),
                    Item::Tokens(_) => {}
                }
            }
        }
    }

    /// The number of ids that `wrap` makes of `count`.
    pub(crate) fn wrapped_count(&self, count: usize, add_special_tokens: bool) -> usize {
        self.templates().fold(count, |count, template| {
            template
                .iter()
                .map(|item| match item {
                    Item::Text => count,
                    Item::Tokens(tokens) if add_special_tokens => tokens.len(),
                    Item::Tokens(_) => 0,
                })
                .sum()
        })
    }

    /// The ids that `wrap` puts before and behind those of a text; `None` if it does anything else.
    pub(crate) fn around(&self, add_special_tokens: bool) -> Option<(Vec<u32>, Vec<u32>)> {
        const TEXT: u32 = u32::MAX;
        let mut wrapped = vec![TEXT];
        self.wrap(&mut wrapped, 0, add_special_tokens);
        let mut sides = wrapped.split(|&id| id == TEXT);
        match (sides.next(), sides.next(), sides.next()) {
            (Some(before), Some(behind), None) => Some((before.to_vec(), behind.to_vec())),
            _ => None,
        }
    }

    /// All steps, for tokens with their places.
    pub(crate) fn place(&self, mut tokens: Vec<Placed>, add_special_tokens: bool) -> Vec<Placed> {
        for step in &self.0 {
            match step {
                // Nothing is put around the text, so nothing is joined.
                Step::Template { joined: true, .. } if !add_special_tokens => {}
                Step::Template { items, joined } => {
                    tokens = around(items, &tokens, add_special_tokens);
                    if *joined {
                        for (at, token) in tokens.iter_mut().enumerate() {
                            token.first = at == 0;
                        }
                    }
                }
                Step::Trim { add_prefix_space } => {
                    for token in &mut tokens {
                        trim(token, *add_prefix_space);
                    }
                }
            }
        }
        tokens
    }
}

fn around(items: &[Item], text: &[Placed], add_special_tokens: bool) -> Vec<Placed> {
    let mut tokens = Vec::with_capacity(text.len() + 2);
    for item in items {
        match item {
            Item::Text => tokens.extend_from_slice(text),
            Item::Tokens(ids) if add_special_tokens => {
                tokens.extend(ids.iter().enumerate().map(|(at, &id)| Placed {
                    id,
                    start: 0,
                    end: 0,
                    leading: 0,
                    trailing: 0,
                    first: at == 0,
                }));
            }
            Item::Tokens(_) => {}
        }
    }
    tokens
}

fn trim(token: &mut Placed, add_prefix_space: bool) {
    let Range { mut start, mut end } = token.start..token.end;
    if token.leading > 0 {
        let put_there = (token.first || start == 0) && add_prefix_space && token.leading == 1;
        let spaces = if put_there { 0 } else { token.leading };
        start = (start + spaces).min(end);
    }
    if token.trailing > 0 && end >= token.trailing {
        end = (end - token.trailing).max(start);
    }
    (token.start, token.end) = (start, end);
}
