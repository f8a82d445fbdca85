//! Stop strings, looked for in the text of a stream, and stop ids.
//!
//! An automaton of all strings goes over each byte once. Its state says how much of the end of the
//! text could be the beginning of a stop string; only that is held back, up to the end of a token, so
//! that text and ids stay in step. Of several matches the one that ends first wins, of those that end
//! together the first in the list. Held is never more than the longest stop string and one token.

use std::collections::VecDeque;
use std::sync::Arc;

use aho_corasick::Anchored;
use aho_corasick::automaton::{Automaton, StateID};
use aho_corasick::nfa::contiguous::NFA;
use rustc_hash::FxHashMap;

use crate::error::{Error, Result};

/// Stop strings may come from users of a server: all of them together.
const LONGEST: usize = 1 << 16;

/// What ends a stream: strings and ids.
pub struct StopSet {
    strings: Option<Strings>,
    /// The place of each id behind the strings.
    ids: FxHashMap<u32, usize>,
}

struct Strings {
    automaton: NFA,
    start: StateID,
    /// How much of a string each state has seen; the start has seen nothing and is not here.
    depths: FxHashMap<StateID, usize>,
}

impl StopSet {
    /// Fails if a string is empty, or all of them are longer than 64 KiB.
    pub fn new<T: AsRef<str>>(strings: &[T], ids: &[u32]) -> Result<StopSet> {
        let mut places = FxHashMap::default();
        for (place, &id) in (strings.len()..).zip(ids) {
            places.entry(id).or_insert(place);
        }
        Ok(StopSet {
            strings: (!strings.is_empty())
                .then(|| Strings::new(strings))
                .transpose()?,
            ids: places,
        })
    }

    /// The place of an id in the list of strings and ids.
    pub(super) fn place_of(&self, id: u32) -> Option<usize> {
        self.ids.get(&id).copied()
    }
}

impl Strings {
    fn new<T: AsRef<str>>(strings: &[T]) -> Result<Strings> {
        if strings.iter().any(|string| string.as_ref().is_empty()) {
            return Err(Error::format("a stop string is empty"));
        }
        let size: usize = strings.iter().map(|string| string.as_ref().len()).sum();
        if size > LONGEST {
            return Err(Error::format(format!(
                "the stop strings have {size} bytes together; {LONGEST} is the most"
            )));
        }
        let unusable = |error: &dyn std::fmt::Display| {
            Error::unsupported(format!("these stop strings: {error}"))
        };
        let automaton =
            NFA::new(strings.iter().map(AsRef::as_ref)).map_err(|error| unusable(&error))?;
        let start = automaton
            .start_state(Anchored::No)
            .map_err(|error| unusable(&error))?;
        let mut depths = FxHashMap::default();
        for string in strings {
            let mut state = start;
            for (depth, &byte) in string.as_ref().as_bytes().iter().enumerate() {
                state = automaton.next_state(Anchored::No, state, byte);
                depths.insert(state, depth + 1);
            }
        }
        Ok(Strings {
            automaton,
            start,
            depths,
        })
    }
}

/// The end of the text of a token that is held.
struct End {
    at: usize,
    /// How many tokens have given all their text once it is given up to here.
    tokens: u32,
}

/// Text that is held until it is certain that no stop string begins in it.
pub(super) struct Watch {
    pub(super) stops: Arc<StopSet>,
    state: StateID,
    /// The text that was not given, behind `given` bytes that were and are dropped now and then.
    held: Vec<u8>,
    given: usize,
    /// Where tokens end in it, counted from the start of the stream.
    ends: VecDeque<End>,
    /// The bytes dropped from the front of `held` since then.
    dropped: usize,
    /// Where the automaton has come to in `held`.
    looked: usize,
    pub(super) include_stop: bool,
}

impl Watch {
    pub(super) fn new(stops: Arc<StopSet>, include_stop: bool) -> Watch {
        Watch {
            state: stops
                .strings
                .as_ref()
                .map_or(StateID::ZERO, |strings| strings.start),
            stops,
            held: Vec::new(),
            given: 0,
            ends: VecDeque::new(),
            dropped: 0,
            looked: 0,
            include_stop,
        }
    }

    /// Where the text of the next token goes.
    pub(super) fn text(&mut self) -> &mut Vec<u8> {
        &mut self.held
    }

    /// Look at the text that was added. If a stop string ends in it and may, give what stands before
    /// its match and say which it is.
    pub(super) fn look(&mut self, may_stop: bool, out: &mut Vec<u8>) -> Option<usize> {
        let stops = Arc::clone(&self.stops);
        let Some(strings) = &stops.strings else {
            self.looked = self.held.len();
            return None;
        };
        for at in self.looked..self.held.len() {
            let byte = self.held[at];
            self.state = strings.automaton.next_state(Anchored::No, self.state, byte);
            if may_stop && strings.automaton.is_match(self.state) {
                let matches = strings.automaton.match_len(self.state);
                let found = (0..matches)
                    .map(|index| strings.automaton.match_pattern(self.state, index))
                    .min()?;
                let length = strings.automaton.pattern_len(found);
                let end = if self.include_stop {
                    at + 1
                } else {
                    at + 1 - length
                };
                out.extend_from_slice(self.held.get(self.given..end).unwrap_or_default());
                return Some(found.as_usize());
            }
        }
        self.looked = self.held.len();
        None
    }

    /// A token ends here. Give what no stop string can begin in, and say how many tokens have given
    /// all their text, if that changed.
    pub(super) fn end_token(&mut self, tokens: u32, out: &mut Vec<u8>) -> Option<u32> {
        let at = self.dropped + self.held.len();
        match self.ends.back_mut() {
            Some(last) if last.at == at => last.tokens = tokens,
            _ => self.ends.push_back(End { at, tokens }),
        }
        let waits = self.stops.strings.as_ref();
        let waits = waits.and_then(|strings| strings.depths.get(&self.state));
        let safe = at - waits.copied().unwrap_or(0).min(at);
        let mut reached = None;
        while self.ends.front().is_some_and(|end| end.at <= safe) {
            reached = self.ends.pop_front();
        }
        let reached = reached?;
        self.give(reached.at - self.dropped, out);
        Some(reached.tokens)
    }

    /// Give all there is.
    pub(super) fn give_all(&mut self, out: &mut Vec<u8>) {
        self.give(self.held.len(), out);
        self.ends.clear();
    }

    fn give(&mut self, end: usize, out: &mut Vec<u8>) {
        out.extend_from_slice(self.held.get(self.given..end).unwrap_or_default());
        self.given = end;
        // Moving the rest to the front is paid for by what was given.
        if self.given * 2 >= self.held.len() {
            self.held.drain(..self.given);
            self.dropped += self.given;
            self.looked -= self.given;
            self.given = 0;
        }
    }
}
