//! The machine's way back: the next untried way, and what is learnt when there is none.
//!
//! Invariant: what is recorded is true of the text whatever search asks, as `search.rs` argues. Tested with it.

use super::memo::{Memo, Outcome};
use super::program::{Address, Instruction, Run};
use super::search::{Frame, Kind, NO_MARK, Next, Searcher};
use crate::error::Result;

impl Searcher<'_, '_> {
    /// The way to take after a failure, or nothing when there is none left.
    pub(super) fn backtrack(&mut self) -> Result<Option<(Address, usize)>> {
        while let Some(&frame) = self.stack.last() {
            let resumed = match frame.kind {
                Kind::First => self.second_way(frame),
                Kind::Tail => {
                    self.stack.pop();
                    self.fails(frame, frame.a, frame.a);
                    None
                }
                Kind::Greedy => self.give_back(frame),
                Kind::Lazy => match self.take_more(frame)? {
                    Next::Go(address, position) => Some((address, position)),
                    _ => None,
                },
                Kind::Possessive => {
                    self.stack.pop();
                    self.fails(frame, frame.a, frame.b);
                    None
                }
                Kind::LookAhead => {
                    self.stack.pop();
                    self.mark = frame.b;
                    self.after_failed_look_ahead(frame)
                }
                Kind::Atomic => {
                    self.stack.pop();
                    self.mark = frame.b;
                    None
                }
                Kind::AtomicEnded => {
                    self.stack.pop();
                    self.give_up_group(frame.a);
                    None
                }
            };
            self.check_memory()?;
            if resumed.is_some() {
                return Ok(resumed);
            }
        }
        Ok(None)
    }

    fn second_way(&mut self, frame: Frame) -> Option<(Address, usize)> {
        if let Some(last) = self.stack.last_mut() {
            last.kind = Kind::Tail;
        }
        match self.view.program.code.get(usize::from(frame.address)) {
            Some(Instruction::Split(split)) => Some((split.second, self.absolute(frame.a))),
            _ => None,
        }
    }

    /// A greedy run gives one character back.
    fn give_back(&mut self, frame: Frame) -> Option<(Address, usize)> {
        let run = self.run_at(frame.address)?;
        if run.is_unbounded() {
            self.fails(frame, frame.b, frame.b);
        }
        if frame.b <= frame.a {
            self.stack.pop();
            self.fails(frame, frame.a, frame.a);
            return None;
        }
        let position = self.view.previous(self.absolute(frame.b))?;
        // The position lies between the ends of the run, so it is not before the start of the search.
        let at = u32::try_from(position - self.base).ok()?;
        if let Some(last) = self.stack.last_mut() {
            last.b = at;
        }
        Some((frame.address + 1, position))
    }

    /// A lazy run takes one character more.
    fn take_more(&mut self, frame: Frame) -> Result<Next> {
        let Some(run) = self.run_at(frame.address) else {
            return Ok(Next::Back);
        };
        let position = self.absolute(frame.b);
        let next = self.view.after(run.class, position);
        let outcome = next.and_then(|next| self.known(run.slot, next));
        let fails = outcome == Some(Outcome::Fails(self.depth(run.slot)));
        let Some(next) = next.filter(|_| !fails) else {
            self.stack.pop();
            self.fails(frame, frame.a, frame.b);
            return Ok(Next::Back);
        };
        let at = self.relative(next)?;
        if let Some(last) = self.stack.last_mut() {
            last.b = at;
        }
        match outcome {
            Some(outcome) => self.resolve(outcome, run.slot, next),
            None => Ok(Next::Go(frame.address + 1, next)),
        }
    }

    fn after_failed_look_ahead(&self, frame: Frame) -> Option<(Address, usize)> {
        match self.view.program.code.get(usize::from(frame.address)) {
            Some(Instruction::LookAhead {
                negative: true,
                after,
            }) => Some((*after, self.absolute(frame.a))),
            _ => None,
        }
    }

    /// The body of the innermost look-ahead has matched, however it got there.
    pub(super) fn look_ahead_matched(&mut self, position: usize) -> Result<Next> {
        let mut mark = self.mark;
        while let Some(frame) = self.frame(mark) {
            if frame.kind == Kind::LookAhead {
                self.settle(mark, Outcome::Succeeds);
                self.mark = frame.b;
                self.check_memory()?;
                return Ok(
                    match self.view.program.code.get(usize::from(frame.address)) {
                        Some(Instruction::LookAhead {
                            negative: false,
                            after,
                        }) => Next::Go(*after, self.absolute(frame.a)),
                        _ => Next::Back,
                    },
                );
            }
            mark = frame.b;
        }
        // The end of a body is only reached through its start.
        Err(self.limit("the state of a look-ahead", position))
    }

    /// Acts on a known outcome of a slot, met on the current path.
    pub(super) fn resolve(&mut self, outcome: Outcome, slot: u32, position: usize) -> Result<Next> {
        let depth = match outcome {
            Outcome::Succeeds => return self.look_ahead_matched(position),
            Outcome::Fails(depth) => depth,
        };
        for level in (depth..self.depth(slot)).rev() {
            let mark = self.mark;
            self.mark = self.frame(mark).map_or(NO_MARK, |frame| frame.b);
            if level == depth {
                self.settle(mark, outcome);
            }
        }
        Ok(Next::Back)
    }

    /// The rest after an ended atomic group has failed.
    fn give_up_group(&mut self, mark: u32) {
        let address = self.frame(mark).map(|frame| usize::from(frame.address));
        let instruction = address.and_then(|address| self.view.program.code.get(address));
        if let Some(Instruction::Atomic { depth }) = instruction {
            self.settle(mark, Outcome::Fails(*depth));
        }
    }

    /// Removes all frames down to a mark and the mark, recording the outcome for each choice point among them.
    fn settle(&mut self, mark: u32, outcome: Outcome) {
        while self.stack.len() > mark as usize {
            let Some(frame) = self.stack.pop() else {
                return;
            };
            let last = match frame.kind {
                Kind::First | Kind::Tail => frame.a,
                Kind::Greedy | Kind::Lazy | Kind::Possessive => frame.b,
                Kind::LookAhead | Kind::Atomic | Kind::AtomicEnded => continue,
            };
            self.record(frame, frame.a, last, outcome);
        }
    }

    fn fails(&mut self, frame: Frame, first: u32, last: u32) {
        if let Some(slot) = self.slot_at(frame.address) {
            let outcome = Outcome::Fails(self.depth(slot));
            self.record(frame, first, last, outcome);
        }
    }

    /// Records the outcome of a frame's choice points from `first` to `last`; a bounded run has only its first.
    fn record(&mut self, frame: Frame, first: u32, last: u32, outcome: Outcome) {
        let Some(slot) = self.slot_at(frame.address) else {
            return;
        };
        let bounded = self
            .run_at(frame.address)
            .is_some_and(|run| !run.is_unbounded());
        let last = if bounded { first } else { last };
        let (first, last) = (self.absolute(first), self.absolute(last));
        let (program, base) = (self.view.program, self.base);
        let memo = self.memo.get_or_insert_with(|| {
            let mut memo = Memo::new(&program.slots);
            memo.forget_before(base);
            memo
        });
        memo.record(slot, first, last, outcome);
    }

    fn run_at(&self, address: Address) -> Option<Run> {
        match self.view.program.code.get(usize::from(address))? {
            Instruction::Run(run) => Some(*run),
            _ => None,
        }
    }

    fn slot_at(&self, address: Address) -> Option<u32> {
        match self.view.program.code.get(usize::from(address))? {
            Instruction::Run(run) => Some(run.slot),
            Instruction::Split(split) => Some(split.slot),
            _ => None,
        }
    }
}
