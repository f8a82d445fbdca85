//! A pattern as data: an ordered list of a few kinds of rules, and for every character the sets it is in and the rules it can start.
//!
//! Invariant: `Rules::recognise` answers only for patterns whose matches the rules in `scan.rs` find exactly; where a shape
//! could need backtracking that no rule does, it is refused. The tables are complete before a text is seen and never change.
//! Tested in `tests.rs`, rule by rule in the patterns in use and in random ones.

use super::classes::Set;
use super::pattern::{
    Alternative, Dialect, Element, Ending, Fold, LARGEST_COUNT, UNBOUNDED, parse,
};
use super::shape::Shape;

/// A set of characters as one bit of [`Class::sets`]; 0 stands for no set.
pub(super) type SetBit = u32;

/// One alternative of a pattern, or two that belong together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rule {
    /// `'s`, `'t`, `'re`, `'ve`, `'m`, `'ll` or `'d`.
    Contraction(Fold),
    /// One set repeated, with something before and after it.
    Run(Run),
    /// Upper case then lower case, where both hold characters without case.
    Cased(Cased),
    /// `\s*[\r\n]+`: white space up to its last line end. `\s*[\r\n]` is the same, since what may repeat was taken by `\s*`.
    NewlineRun,
    /// `\s+(?!\S)`: white space but for its last character, unless the text ends there.
    SpaceBeforeSpace,
    /// `\s+$`: white space that ends the text.
    SpaceToEnd,
}

/// `prefix? body{min,max} tail*`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Run {
    pub(super) prefix: SetBit,
    /// Whether there is no match without the prefix.
    pub(super) prefix_required: bool,
    pub(super) body: SetBit,
    pub(super) min: u32,
    pub(super) max: u32,
    pub(super) tail: SetBit,
}

/// `prefix? upper* lower+ contraction?`, else `prefix? upper+ lower* contraction?`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Cased {
    pub(super) prefix: SetBit,
    pub(super) upper: SetBit,
    pub(super) lower: SetBit,
    pub(super) contraction: Option<Fold>,
}

/// What is known of a character.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Class {
    /// The sets that hold it.
    pub(super) sets: u32,
    /// The rules, by number, that a match beginning with it may come from.
    pub(super) starts: u32,
}

/// A pattern, understood.
#[derive(Clone, Debug)]
pub(crate) struct Rules {
    rules: Box<[Rule]>,
    ascii: [Class; 128],
    kinds: [Class; 32],
    /// `\s`, where a rule needs it.
    pub(super) white: SetBit,
    /// What ends a line, for [`Rule::NewlineRun`].
    pub(super) newline: SetBit,
    /// What the block scanner makes of them, if it can.
    shape: Option<Box<Shape>>,
}

impl Rules {
    /// The rules that match as `pattern` does, or `None` where that is not certain and a regex engine has to do it.
    pub(crate) fn recognise(pattern: &str, dialect: Dialect) -> Option<Self> {
        let alternatives = parse(pattern, dialect)?;
        if dialect == Dialect::FancyRegex && is_factored(&alternatives) {
            return None;
        }
        let mut builder = Builder::default();
        let mut rest = alternatives.as_slice();
        while let [first, after @ ..] = rest {
            rest = after;
            if let [second, after @ ..] = after
                && let Some(rule) = builder.cased(first, second)
            {
                builder.push(rule)?;
                rest = after;
            } else {
                let rule = builder.rule(first)?;
                builder.push(rule)?;
            }
        }
        Some(builder.finish())
    }

    /// What the block scanner needs, if the pattern is of a family that it knows.
    pub(super) fn shape(&self) -> Option<&Shape> {
        self.shape.as_deref()
    }

    /// The rule with this number.
    #[inline(always)]
    pub(super) fn rule(&self, number: u32) -> Option<&Rule> {
        self.rules.get(number as usize)
    }

    /// The class of an ASCII character.
    #[inline(always)]
    pub(super) fn ascii(&self, byte: u8) -> Class {
        self.ascii
            .get(usize::from(byte & 0x7F))
            .copied()
            .unwrap_or_default()
    }

    /// The class of the other characters of one kind.
    #[inline(always)]
    pub(super) fn kind(&self, kind: u8) -> Class {
        self.kinds
            .get(usize::from(kind & 0x1F))
            .copied()
            .unwrap_or_default()
    }
}

#[derive(Default)]
struct Builder {
    rules: Vec<(Rule, Set)>,
    sets: Vec<Set>,
    white: SetBit,
    newline: SetBit,
}

impl Builder {
    /// The bit of a set, a new one if need be.
    fn bit(&mut self, set: Set) -> Option<SetBit> {
        let known = self.sets.iter().position(|other| *other == set);
        let index = known.unwrap_or(self.sets.len());
        if known.is_none() {
            self.sets.push(set);
        }
        1_u32.checked_shl(u32::try_from(index).ok()?)
    }

    fn push(&mut self, (rule, first): (Rule, Set)) -> Option<()> {
        self.rules.push((rule, first));
        (self.rules.len() <= 32).then_some(())
    }

    /// The rule of one alternative, with the characters that its matches begin with.
    fn rule(&mut self, alternative: &Alternative) -> Option<(Rule, Set)> {
        match alternative {
            Alternative::Contraction(fold) => {
                Some((Rule::Contraction(*fold), Set::range('\'', '\'')?))
            }
            Alternative::Sequence {
                elements,
                contraction: None,
                ending,
            } => match ending {
                Ending::Anything => self.newline_run(elements).or_else(|| self.run(elements)),
                _ => self.space(elements, *ending),
            },
            Alternative::Sequence { .. } => None,
        }
    }

    fn space(&mut self, elements: &[Element], ending: Ending) -> Option<(Rule, Set)> {
        let white = Set::property("s")?;
        let [
            Element {
                set,
                min: 1,
                max: UNBOUNDED,
                possessive,
            },
        ] = elements
        else {
            return None;
        };
        let rule = match ending {
            // Possessive, it would have nothing to give back and match at the end of the text alone.
            Ending::NotBeforeNonSpace if !possessive => Rule::SpaceBeforeSpace,
            Ending::TextEnd => Rule::SpaceToEnd,
            _ => return None,
        };
        self.white = self.bit(white)?;
        (*set == white).then_some((rule, white))
    }

    fn newline_run(&mut self, elements: &[Element]) -> Option<(Rule, Set)> {
        let white = Set::property("s")?;
        let [
            spaces,
            Element {
                set: newline,
                min: 1,
                max: 1 | UNBOUNDED,
                ..
            },
        ] = elements
        else {
            return None;
        };
        let any_space = Element {
            set: white,
            min: 0,
            max: UNBOUNDED,
            possessive: false,
        };
        if *spaces != any_space || !newline.is_subset(white) {
            return None;
        }
        let newline = self.bit(*newline)?;
        // One run of white space is measured once for all rules.
        if self.newline != 0 && self.newline != newline {
            return None;
        }
        self.newline = newline;
        self.white = self.bit(white)?;
        Some((Rule::NewlineRun, white))
    }

    fn run(&mut self, elements: &[Element]) -> Option<(Rule, Set)> {
        let elements = merge_fixed(elements);
        let (prefix, body, tail) = match elements.as_slice() {
            [body] => (None, body, None),
            [body, tail] if is_tail(tail) => (None, body, Some(tail)),
            [prefix, body] => (Some(prefix), body, None),
            [prefix, body, tail] if is_tail(tail) => (Some(prefix), body, Some(tail)),
            _ => return None,
        };
        // A long body that is missed by little would be read again from the next character.
        let affordable = 1..=LARGEST_COUNT;
        if !affordable.contains(&body.min) || prefix.is_some_and(|prefix| prefix.max != 1) {
            return None;
        }
        let prefix_required = prefix.is_some_and(|prefix| prefix.min == 1);
        let prefix_set = prefix.map_or(Set::EMPTY, |prefix| prefix.set);
        if prefix.is_some_and(|prefix| !gives_back(prefix, body.set)) {
            return None;
        }
        let run = Run {
            prefix: if prefix.is_some() {
                self.bit(prefix_set)?
            } else {
                0
            },
            prefix_required,
            body: self.bit(body.set)?,
            min: body.min,
            max: body.max,
            tail: tail.map_or(Some(0), |tail| self.bit(tail.set))?,
        };
        let first = if prefix_required {
            prefix_set
        } else {
            prefix_set.union(body.set)
        };
        Some((Rule::Run(run), first))
    }

    /// The rule of two alternatives that differ in which of two sets must be there.
    fn cased(&mut self, first: &Alternative, second: &Alternative) -> Option<(Rule, Set)> {
        let (prefix, [upper, lower], contraction) = cased_parts(first)?;
        let (second_prefix, [second_upper, second_lower], second_contraction) =
            cased_parts(second)?;
        let counts = [upper.min, lower.min, second_upper.min, second_lower.min];
        let unlike = prefix != second_prefix
            || upper.set != second_upper.set
            || lower.set != second_lower.set
            || contraction != second_contraction
            || counts != [0, 1, 1, 0];
        if unlike || upper.possessive {
            return None;
        }
        let either = upper.set.union(lower.set);
        if prefix.is_some_and(|prefix| !gives_back(&prefix, either)) {
            return None;
        }
        let prefix_set = prefix.map_or(Set::EMPTY, |prefix| prefix.set);
        let cased = Cased {
            prefix: if prefix.is_some() {
                self.bit(prefix_set)?
            } else {
                0
            },
            upper: self.bit(upper.set)?,
            lower: self.bit(lower.set)?,
            contraction,
        };
        Some((Rule::Cased(cased), prefix_set.union(either)))
    }

    fn finish(self) -> Rules {
        let class = |holds: &dyn Fn(Set) -> bool| Class {
            sets: mask(self.sets.iter().map(|set| holds(*set))),
            starts: mask(self.rules.iter().map(|(_, first)| holds(*first))),
        };
        let mut byte = 0..=127;
        let mut kind = 0..=31;
        let mut rules = Rules {
            ascii: [(); 128].map(|()| {
                byte.next().map_or(Class::default(), |byte| {
                    class(&|set| set.contains_ascii(byte))
                })
            }),
            kinds: [(); 32].map(|()| {
                kind.next().map_or(Class::default(), |kind| {
                    class(&|set| set.contains_kind(kind))
                })
            }),
            rules: self.rules.iter().map(|(rule, _)| *rule).collect(),
            white: self.white,
            newline: self.newline,
            shape: None,
        };
        rules.shape = Shape::of(&rules).map(Box::new);
        rules
    }
}

/// The prefix, the two sets and the contraction of an alternative that may be half of [`Rule::Cased`].
fn cased_parts(alternative: &Alternative) -> Option<(Option<Element>, [Element; 2], Option<Fold>)> {
    let Alternative::Sequence {
        elements,
        contraction,
        ending: Ending::Anything,
    } = alternative
    else {
        return None;
    };
    let (prefix, sets) = match elements.as_slice() {
        [upper, lower] => (None, [*upper, *lower]),
        [prefix, upper, lower] if (prefix.min, prefix.max) == (0, 1) => {
            (Some(*prefix), [*upper, *lower])
        }
        _ => return None,
    };
    let unbounded = sets.iter().all(|element| element.max == UNBOUNDED);
    unbounded.then_some((prefix, sets, *contraction))
}

/// Whether the element may be treated as giving back what it took when what follows fails: as it does, or as that changes nothing.
fn gives_back(prefix: &Element, follows: Set) -> bool {
    !prefix.possessive || prefix.min == prefix.max || prefix.set.intersection(follows) == Set::EMPTY
}

fn is_tail(element: &Element) -> bool {
    (element.min, element.max) == (0, UNBOUNDED)
}

/// Whether all alternatives begin alike in a way that the engine makes use of.
///
/// `fancy-regex` hands a pattern without look-around and possessive quantifiers to the `regex` crate, which turns `x?a|x?b` into
/// `x?(a|b)`. Then `xb` goes before `a`.
fn is_factored(alternatives: &[Alternative]) -> bool {
    let elements = |alternative: &Alternative| match alternative {
        Alternative::Sequence {
            elements,
            ending: Ending::Anything,
            ..
        } => elements.clone(),
        _ => Vec::new(),
    };
    let all: Vec<Vec<Element>> = alternatives.iter().map(elements).collect();
    let first = all.first().and_then(|elements| elements.first());
    all.len() > 1
        && first.is_some_and(|first| first.min != first.max)
        && all.iter().all(|elements| elements.first() == first)
        && !all.iter().flatten().any(|element| element.possessive)
}

/// `[0-9][0-9][0-9]` as `[0-9]{3}`.
fn merge_fixed(elements: &[Element]) -> Vec<Element> {
    let fixed = |element: &Element| element.min == element.max;
    let mut merged: Vec<Element> = Vec::new();
    for element in elements {
        match merged.last_mut() {
            Some(last) if fixed(last) && fixed(element) && last.set == element.set => {
                last.min = last.min.saturating_add(element.min).min(UNBOUNDED - 1);
                last.max = last.min;
            }
            _ => merged.push(*element),
        }
    }
    merged
}

/// Bit by bit; more than 32 bits are cut off.
fn mask(bits: impl Iterator<Item = bool>) -> u32 {
    bits.take(32)
        .enumerate()
        .fold(0, |mask, (index, bit)| mask | u32::from(bit) << index)
}
