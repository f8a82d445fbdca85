//! The machine: backtracking with an explicit stack and a memory of what is known to fail.
//!
//! # Why a memory is allowed
//!
//! A program has no back-references and no counters, and all its loops consume a character each time round. So what the
//! machine does from an instruction at a position on depends on nothing but the two: not on where the match began, not on
//! how it got there. If the rest of the pattern cannot match from there once, it never can, in this search or in any later
//! one over the same text. The machine writes down each such pair when it has tried everything, and turns back at once when
//! it meets the pair again. Only choice points are written down: between two of them the machine has no choice, and as
//! every loop is a choice point that stretch is never longer than the program.
//!
//! So over all searches of one text each way of each choice is followed at most once from each position, but for the path
//! of a successful match, and that path lies within the match, which the next search starts behind. The whole takes time
//! proportional to program and text.
//!
//! # Atomic groups and look-ahead
//!
//! "The rest of the pattern" has a boundary here. In an atomic group a choice point may lead to the end of the group, after
//! which the rest fails: then the other choices inside the group must not be tried, the group as a whole has failed. Since
//! the group's end and the rest are again the same every time, this is one more outcome a choice point can have, and
//! [`Outcome::Fails`] says down to which depth of atomic groups everything is given up. Inside a look-ahead a choice point
//! may lead to the body's end, and then the look-ahead has matched, whoever asks: [`Outcome::Succeeds`].
//!
//! To know which choice points a path came through, the stack keeps a frame for every one of them, also when its last way
//! is being tried ([`Kind::Tail`]), and keeps the frames of an atomic group when the group ends ([`Kind::AtomicEnded`]).
//! When a path's fate is known, all frames since the mark of the group or look-ahead are written down with it:
//!
//! * a frame runs out of ways: it fails, at its own depth;
//! * an ended atomic group is backtracked into: its frames fail at the depth outside the group;
//! * a look-ahead's body ends: its frames succeed;
//! * a choice point with a known outcome is met: the frames since the mark in question have the same outcome.
//!
//! # Runs
//!
//! A loop over one class is one instruction and one frame, which holds where the loop began and how far it still reaches.
//! Its choice points, one for each position it passes, share a slot. When the loop is bounded a position passed does not
//! tell how many characters may follow, so only the position where it begins is written down.
//!
//! # Look-behind
//!
//! Its body reads backwards and is bounded, so it is run as a set of states, without a memory; see `behind.rs`.
//!
//! Tested against fancy-regex and Oniguruma and, for the time it takes, on long hostile texts.

use std::ops::Range;

use super::behind::BehindStates;
use super::charset::Class;
use super::memo::{Memo, Outcome};
use super::program::{Address, Instruction, Mode, Program, Run, Split};
use super::view::{View, width};
use crate::error::{Error, Result};

/// Memory for stack and memo that is always allowed, in bytes.
const MEMORY_BASE: usize = 1 << 20;
/// Memory allowed for each byte of text.
const MEMORY_PER_BYTE: usize = 64;
/// No mark encloses.
pub(super) const NO_MARK: u32 = u32::MAX;

/// What a frame of the stack is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// A split whose first way is being tried: at `a`.
    First,
    /// A split whose last way is being tried: at `a`.
    Tail,
    /// A greedy run from `a` whose exit is being tried at `b`.
    Greedy,
    /// A lazy run from `a` whose exit is being tried at `b`.
    Lazy,
    /// A possessive run from `a` to `b` whose exit is being tried.
    Possessive,
    /// The start of a look-ahead at `a`; `b` is the mark around it.
    LookAhead,
    /// The start of an atomic group; `b` is the mark around it.
    Atomic,
    /// The end of the atomic group whose mark is frame `a`.
    AtomicEnded,
}

/// One frame of the stack. Positions are relative to the start of the search.
#[derive(Clone, Copy, Debug)]
pub(super) struct Frame {
    pub(super) kind: Kind,
    pub(super) address: Address,
    pub(super) a: u32,
    pub(super) b: u32,
}

/// Where the machine goes next.
pub(super) enum Next {
    /// At an instruction and a position.
    Go(Address, usize),
    /// Back to the last choice.
    Back,
    /// Nowhere: the pattern has matched up to here.
    Matched(usize),
}

/// Searches one text from left to right, keeping what it learns.
pub(crate) struct Searcher<'r, 't> {
    pub(super) view: View<'r, 't>,
    pub(super) stack: Vec<Frame>,
    /// The innermost open look-ahead or atomic group, as a frame.
    pub(super) mark: u32,
    /// Where the current search starts.
    pub(super) base: usize,
    pub(super) memo: Option<Memo>,
    behind: BehindStates,
    /// The most bytes that stack and memo may take together.
    memory: usize,
}

impl<'r, 't> Searcher<'r, 't> {
    /// A searcher that knows nothing of the text yet.
    pub(crate) fn new(program: &'r Program, text: &'t str) -> Searcher<'r, 't> {
        Searcher {
            view: View::new(program, text),
            stack: Vec::new(),
            mark: NO_MARK,
            base: 0,
            memo: None,
            behind: BehindStates::default(),
            memory: MEMORY_BASE.saturating_add(text.len().saturating_mul(MEMORY_PER_BYTE)),
        }
    }

    /// The first match that starts at or after a position, which must not lie before that of an earlier call.
    pub(crate) fn find(&mut self, from: usize) -> Result<Option<Range<usize>>> {
        let mut start = from;
        while start <= self.view.text.len() {
            let byte = self.view.text.get(start).copied();
            let mut roots = match byte {
                Some(byte) if byte < 0x80 => self
                    .view
                    .program
                    .root_ascii
                    .get(usize::from(byte))
                    .copied()
                    .unwrap_or(0),
                Some(_) => self.view.program.root_wide,
                None => self.view.program.root_end,
            };
            while roots != 0 {
                let root = roots.trailing_zeros() as usize;
                roots &= roots - 1;
                let Some(&address) = self.view.program.roots.get(root) else {
                    break;
                };
                if let Some(end) = self.attempt(address, start)? {
                    return Ok(Some(start..end));
                }
            }
            start += byte.map_or(1, width);
        }
        Ok(None)
    }

    /// The end of the match of one alternative that starts exactly here.
    fn attempt(&mut self, address: Address, start: usize) -> Result<Option<usize>> {
        self.stack.clear();
        self.mark = NO_MARK;
        self.base = start;
        if let Some(memo) = &mut self.memo {
            memo.forget_before(start);
        }
        let (mut address, mut position) = (address, start);
        loop {
            match self.step(address, position)? {
                Next::Go(next, at) => (address, position) = (next, at),
                Next::Matched(end) => return Ok(Some(end)),
                Next::Back => match self.backtrack()? {
                    Some(resumed) => (address, position) = resumed,
                    None => return Ok(None),
                },
            }
        }
    }

    /// Carries out one instruction.
    #[inline]
    fn step(&mut self, address: Address, position: usize) -> Result<Next> {
        let program = self.view.program;
        let Some(instruction) = program.code.get(usize::from(address)) else {
            return Ok(Next::Back);
        };
        Ok(match instruction {
            Instruction::Class(class) => match self.view.after(*class, position) {
                Some(next) => Next::Go(address + 1, next),
                None => Next::Back,
            },
            Instruction::Run(run) => return self.run(*run, address, position),
            Instruction::Split(split) => return self.split(split, address, position),
            Instruction::Jump(target) => Next::Go(*target, position),
            Instruction::Match => Next::Matched(position),
            Instruction::Assertion(assertion) => {
                go_if(self.view.holds(*assertion, position), address, position)
            }
            Instruction::LookAheadClass { class, negative } => {
                let found = self.view.after(*class, position).is_some();
                go_if(found != *negative, address, position)
            }
            Instruction::LookBehind { behind, negative } => {
                let found = self.looks_behind(*behind, position);
                go_if(found != *negative, address, position)
            }
            Instruction::LookAhead { .. } => {
                self.open(Kind::LookAhead, address, position)?;
                Next::Go(address + 1, position)
            }
            Instruction::Atomic { .. } => {
                self.open(Kind::Atomic, address, position)?;
                Next::Go(address + 1, position)
            }
            Instruction::AtomicEnd => {
                let mark = self.mark;
                self.mark = self.frame(mark).map_or(NO_MARK, |frame| frame.b);
                self.push(Kind::AtomicEnded, address, mark, 0, position)?;
                Next::Go(address + 1, position)
            }
            Instruction::LookAheadEnd => self.look_ahead_matched(position)?,
        })
    }

    /// A choice between two ways. Ways that cannot start with the next character are passed over; a loop keeps its frame
    /// nevertheless, for else a path could be long and leave no trace.
    fn split(&mut self, split: &Split, address: Address, position: usize) -> Result<Next> {
        if let Some(outcome) = self.known(split.slot, position) {
            return self.resolve(outcome, split.slot, position);
        }
        let next = self.view.text.get(position).copied();
        let first = split.first_filter.accepts(next);
        let second = split.second_filter.accepts(next);
        let (kind, way) = match (first, second) {
            (true, true) => (Kind::First, split.first),
            (true, false) => (Kind::Tail, split.first),
            (false, true) => (Kind::Tail, split.second),
            (false, false) => return Ok(Next::Back),
        };
        if kind == Kind::First || split.in_loop {
            let at = self.relative(position)?;
            self.push(kind, address, at, 0, position)?;
        }
        Ok(Next::Go(way, position))
    }

    /// A loop over one class.
    fn run(&mut self, run: Run, address: Address, position: usize) -> Result<Next> {
        if let Some(outcome) = self.known(run.slot, position) {
            return self.resolve(outcome, run.slot, position);
        }
        let start = self.relative(position)?;
        if run.mode == Mode::Lazy {
            self.push(Kind::Lazy, address, start, start, position)?;
            return Ok(Next::Go(address + 1, position));
        }
        let kind = match run.mode {
            Mode::Possessive => Kind::Possessive,
            _ => Kind::Greedy,
        };
        let (end, outcome) = self.reach(run, position);
        if let Some(outcome) = outcome {
            // The loop would come to a position whose outcome is known. If that is failure and characters can be given
            // back, those before it are still to be tried.
            let fails = outcome == Outcome::Fails(self.depth(run.slot));
            if !(fails && kind == Kind::Greedy) {
                let at = self.relative(end)?;
                self.push(kind, address, start, at, position)?;
                return self.resolve(outcome, run.slot, position);
            }
        }
        if end > position {
            let at = self.relative(end)?;
            self.push(kind, address, start, at, position)?;
        }
        Ok(Next::Go(address + 1, end))
    }

    /// How far a loop reaches from a position. If it meets a position with a known outcome it stops there, or right before
    /// it when characters can be given back and the outcome is failure.
    fn reach(&self, run: Run, position: usize) -> (usize, Option<Outcome>) {
        let Some(class) = self.view.program.classes.get(run.class as usize) else {
            return (position, None);
        };
        if run.is_unbounded() && !self.memo_is_empty(run.slot) {
            return self.reach_known(run, class, position);
        }
        let mut end = position;
        let mut left = run.max;
        while left > 0 {
            let Some(next) = self.view.after_class(class, end) else {
                break;
            };
            end = next;
            left = if run.is_unbounded() { left } else { left - 1 };
        }
        (end, None)
    }

    fn reach_known(&self, run: Run, class: &Class, position: usize) -> (usize, Option<Outcome>) {
        let mut end = position;
        while let Some(next) = self.view.after_class(class, end) {
            if let Some(outcome) = self.known(run.slot, next) {
                let fails = outcome == Outcome::Fails(self.depth(run.slot));
                let give_back = fails && run.mode == Mode::Greedy;
                return (if give_back { end } else { next }, Some(outcome));
            }
            end = next;
        }
        (end, None)
    }
}

/// Small questions about program and stack.
impl Searcher<'_, '_> {
    fn looks_behind(&mut self, behind: u32, position: usize) -> bool {
        match self.view.program.behinds.get(behind as usize) {
            Some(behind) => self.behind.matches(behind, self.view, position),
            None => false,
        }
    }

    /// How many atomic groups are around the slot.
    pub(super) fn depth(&self, slot: u32) -> u8 {
        let slot = self.view.program.slots.get(slot as usize);
        slot.map_or(0, |slot| slot.depth)
    }

    #[inline]
    pub(super) fn known(&self, slot: u32, position: usize) -> Option<Outcome> {
        self.memo.as_ref()?.get(slot, position)
    }

    fn memo_is_empty(&self, slot: u32) -> bool {
        self.memo.as_ref().is_none_or(|memo| memo.is_empty(slot))
    }

    pub(super) fn frame(&self, index: u32) -> Option<Frame> {
        self.stack.get(index as usize).copied()
    }

    fn open(&mut self, kind: Kind, address: Address, position: usize) -> Result<()> {
        let index = u32::try_from(self.stack.len()).unwrap_or(NO_MARK);
        let at = self.relative(position)?;
        self.push(kind, address, at, self.mark, position)?;
        self.mark = index;
        Ok(())
    }

    #[inline]
    fn push(&mut self, kind: Kind, address: Address, a: u32, b: u32, at: usize) -> Result<()> {
        if self.stack.len() == self.stack.capacity() {
            self.grow(at)?;
        }
        self.stack.push(Frame {
            kind,
            address,
            a,
            b,
        });
        Ok(())
    }

    #[cold]
    fn grow(&mut self, at: usize) -> Result<()> {
        let more = self.stack.capacity() / 2 + 64;
        let bytes = (self.stack.capacity() + more).saturating_mul(size_of::<Frame>());
        let memo = self.memo.as_ref().map_or(0, Memo::bytes);
        if bytes.saturating_add(memo) > self.memory {
            return Err(self.limit("the memory of a regular expression", at));
        }
        self.stack.reserve_exact(more);
        Ok(())
    }

    pub(super) fn check_memory(&self) -> Result<()> {
        let memo = self.memo.as_ref().map_or(0, Memo::bytes);
        let stack = self.stack.capacity().saturating_mul(size_of::<Frame>());
        if memo.saturating_add(stack) > self.memory {
            return Err(self.limit("the memory of a regular expression", self.base));
        }
        Ok(())
    }

    pub(super) fn limit(&self, what: &str, at: usize) -> Error {
        Error::Limit {
            what: format!("{what} ran out"),
            at,
        }
    }

    #[inline]
    pub(super) fn relative(&self, position: usize) -> Result<u32> {
        u32::try_from(position - self.base)
            .map_err(|_| self.limit("the length of a match of a regular expression", position))
    }

    #[inline]
    pub(super) fn absolute(&self, position: u32) -> usize {
        self.base + position as usize
    }
}

fn go_if(holds: bool, address: Address, position: usize) -> Next {
    if holds {
        Next::Go(address + 1, position)
    } else {
        Next::Back
    }
}
