//! Look-behind: a small program run backwards as a set of states.
//!
//! Only whether the body matches some text that ends here matters, so all ways are followed at once, one character back at
//! a time. The body is bounded, so a look-behind costs at most its length times its program. Invariant: no state is
//! visited twice at one position. Tested through the engine.

use super::program::{Behind, BehindStep};
use super::view::View;

/// Room for the states, kept between runs.
#[derive(Default)]
pub(crate) struct BehindStates {
    current: Vec<u32>,
    next: Vec<u32>,
    pending: Vec<u32>,
    seen: Vec<bool>,
}

impl BehindStates {
    /// Whether the body matches a text that ends at a position.
    pub(crate) fn matches(&mut self, behind: &Behind, view: View<'_, '_>, position: usize) -> bool {
        if let Some(class) = behind.single {
            return view.before(class, position).is_some();
        }
        self.next.clear();
        self.next.push(0);
        let mut position = position;
        for _ in 0..=behind.longest {
            std::mem::swap(&mut self.current, &mut self.next);
            self.next.clear();
            if self.expand(behind, view, position) {
                return true;
            }
            let Some(previous) = view.previous(position) else {
                return false;
            };
            for &address in &self.current {
                if let Some(BehindStep::Class(class)) = behind.code.get(address as usize)
                    && view.after(*class, previous).is_some()
                {
                    self.next.push(address + 1);
                }
            }
            if self.next.is_empty() {
                return false;
            }
            position = previous;
        }
        false
    }

    /// Replaces the current states by the classes reachable from them without reading; true when the end is among them.
    fn expand(&mut self, behind: &Behind, view: View<'_, '_>, position: usize) -> bool {
        self.seen.clear();
        self.seen.resize(behind.code.len(), false);
        self.pending.clear();
        self.pending.append(&mut self.current);
        while let Some(address) = self.pending.pop() {
            match self.seen.get_mut(address as usize) {
                Some(seen) if !*seen => *seen = true,
                _ => continue,
            }
            match behind.code.get(address as usize) {
                Some(BehindStep::Class(_)) => self.current.push(address),
                Some(BehindStep::Split(first, second)) => self.pending.extend([*first, *second]),
                Some(BehindStep::Jump(target)) => self.pending.push(*target),
                Some(BehindStep::Assertion(assertion)) if view.holds(*assertion, position) => {
                    self.pending.push(address + 1);
                }
                Some(BehindStep::Assertion(_)) | None => {}
                Some(BehindStep::Match) => return true,
            }
        }
        false
    }
}
