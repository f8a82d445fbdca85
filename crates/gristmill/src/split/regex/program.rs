//! The instructions over characters that a pattern becomes.
//!
//! Invariant: every loop consumes a character each time round, so no instruction can be reached twice at one position on
//! one path. Made by `compile.rs`, run by `search.rs`, and tested with both.

use super::ast::Assertion;
use super::charset::Class;

/// The number of an instruction.
pub(crate) type Address = u16;

/// One step of the machine.
#[derive(Clone, Debug)]
pub(crate) enum Instruction {
    /// One character of a class.
    Class(u32),
    /// Go on elsewhere.
    Jump(Address),
    /// Try `first`, then `second`.
    Split(Box<Split>),
    /// A loop over one class, with what follows as its exit.
    Run(Run),
    /// Start of a look-ahead whose body follows; `after` is what comes behind the body.
    LookAhead { negative: bool, after: Address },
    /// The body of the innermost look-ahead has matched.
    LookAheadEnd,
    /// A look-ahead at one character.
    LookAheadClass { class: u32, negative: bool },
    /// A look-behind, by its number.
    LookBehind { behind: u32, negative: bool },
    /// Start of an atomic group; `depth` counts the groups around it, from its look-ahead if it is in one.
    Atomic { depth: u8 },
    /// End of the innermost atomic group.
    AtomicEnd,
    /// A condition on the position.
    Assertion(Assertion),
    /// The pattern has matched.
    Match,
}

/// A choice between two ways.
#[derive(Clone, Debug)]
pub(crate) struct Split {
    /// Tried first.
    pub(crate) first: Address,
    /// Tried when the first way fails.
    pub(crate) second: Address,
    /// What text the first way can start with.
    pub(crate) first_filter: Filter,
    /// What text the second way can start with.
    pub(crate) second_filter: Filter,
    /// Whether the choice is that of a loop.
    pub(crate) in_loop: bool,
    /// Where its outcomes are remembered.
    pub(crate) slot: u32,
}

/// How a loop over one class gives its characters back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    /// Takes all and gives back from the end.
    Greedy,
    /// Takes none and then one more at a time; only without a maximum.
    Lazy,
    /// Takes all and gives nothing back.
    Possessive,
}

/// A loop over one class, from zero characters up.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Run {
    /// The class of every character.
    pub(crate) class: u32,
    /// The most characters; `u32::MAX` is without bound.
    pub(crate) max: u32,
    /// How it gives characters back.
    pub(crate) mode: Mode,
    /// Where its outcomes are remembered.
    pub(crate) slot: u32,
}

impl Run {
    /// Whether the loop has no maximum.
    pub(crate) fn is_unbounded(self) -> bool {
        self.max == u32::MAX
    }
}

/// What a memory slot belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Slot {
    /// How many atomic groups enclose it, counted from its look-ahead if it is in one.
    pub(crate) depth: u8,
    /// Whether it is in a look-ahead.
    pub(crate) in_look_ahead: bool,
}

/// What texts a part of the program can start with: a superset, so it may only be used to reject.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Filter {
    /// The characters below U+0080, as bits.
    pub(crate) ascii: u128,
    /// Whether a character from U+0080 on will do.
    pub(crate) wide: bool,
    /// Whether any text will do, even none.
    pub(crate) empty: bool,
}

impl Filter {
    /// Rejects nothing.
    pub(crate) const ANYTHING: Filter = Filter {
        ascii: u128::MAX,
        wide: true,
        empty: true,
    };

    /// Whether the part could match a text that starts with this byte, `None` being its end.
    #[inline]
    pub(crate) fn accepts(&self, next: Option<u8>) -> bool {
        self.empty
            || match next {
                Some(byte) if byte < 0x80 => self.ascii >> byte & 1 == 1,
                Some(_) => self.wide,
                None => false,
            }
    }
}

/// A compiled pattern.
#[derive(Clone, Debug)]
pub(crate) struct Program {
    /// The instructions.
    pub(crate) code: Vec<Instruction>,
    /// The classes that instructions name by number.
    pub(crate) classes: Vec<Class>,
    /// The slots of choices and loops.
    pub(crate) slots: Vec<Slot>,
    /// The bodies of look-behinds, each compiled backwards.
    pub(crate) behinds: Vec<Behind>,
    /// The alternatives of the whole pattern, in order.
    pub(crate) roots: Vec<Address>,
    /// For each first byte below 0x80, which alternatives can match, one bit each.
    pub(crate) root_ascii: Box<[u64; 128]>,
    /// The same for a first character at or above U+0080.
    pub(crate) root_wide: u64,
    /// The same for the end of the text.
    pub(crate) root_end: u64,
    /// The class of word characters, when an assertion needs it.
    pub(crate) word: Option<Class>,
    /// Whether an assertion asks for the newlines at the end of the text.
    pub(crate) needs_final_newlines: bool,
}

/// The body of a look-behind as a small program that reads backwards and only asks whether there is a match.
#[derive(Clone, Debug)]
pub(crate) struct Behind {
    /// Its steps; the first is where it starts.
    pub(crate) code: Vec<BehindStep>,
    /// The most characters it reads.
    pub(crate) longest: usize,
    /// The class, when it is nothing but one character.
    pub(crate) single: Option<u32>,
}

/// One step of a look-behind.
#[derive(Clone, Copy, Debug)]
pub(crate) enum BehindStep {
    /// The character before is of a class.
    Class(u32),
    /// Both ways.
    Split(u32, u32),
    /// Go on elsewhere.
    Jump(u32),
    /// A condition on the position.
    Assertion(Assertion),
    /// The body matches.
    Match,
}
