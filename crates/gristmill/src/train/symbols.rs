//! The symbols of a training: their bytes, their sizes, and which may be joined.
//!
//! A symbol's id is its id in the vocabulary for all parities but SentencePiece, whose model numbers
//! pieces in another order. Tested through the merging.

use hashbrown::HashMap;
use rustc_hash::FxBuildHasher;

use crate::error::{Error, Result};
use crate::unicode::Script;
use crate::vocab::MAX_ID;

/// What must hold for two symbols to become one.
#[derive(Clone, Debug, Default)]
pub(super) struct Limits {
    /// The size of a joined symbol is at most this.
    pub(super) size: Option<u32>,
    /// Also of one joined from two symbols of size 1; `tokenizers` has it otherwise.
    pub(super) size_of_first: bool,
    /// Scripts must not mix.
    pub(super) scripts: bool,
    /// What would become a symbol of another length stays apart; else it is refused.
    pub(super) known_stay: bool,
    /// Two ways may lead to one string, beside that of a special token.
    pub(super) many_ways: bool,
}

/// All symbols so far.
#[derive(Default)]
pub(super) struct Symbols {
    bytes: Vec<u8>,
    /// Where the bytes of each end.
    ends: Vec<usize>,
    /// Characters or bytes of the text.
    sizes: Vec<u32>,
    /// Slots among the words.
    spans: Vec<u32>,
    scripts: Vec<Script>,
    limits: Limits,
    /// The ids of strings, where two ways may lead to one.
    known: Option<HashMap<Box<[u8]>, u32, FxBuildHasher>>,
    /// What a symbol that does not begin a word begins with.
    prefix: Vec<u8>,
}

impl Symbols {
    pub(super) fn new(limits: Limits) -> Symbols {
        Symbols {
            limits,
            ..Symbols::default()
        }
    }

    /// From now on what is joined to a known string is that symbol.
    pub(super) fn one_of_each(mut self, prefix: &str) -> Symbols {
        self.known = Some(HashMap::default());
        self.prefix = prefix.as_bytes().to_vec();
        self
    }

    /// Whether each string is made of one pair only. That is so where every text has its first symbols
    /// as they are: within a string the merges are then the same wherever it stands.
    pub(super) fn one_way(&self) -> bool {
        !self.limits.many_ways
    }

    /// From now on each symbol that was made so far takes one slot.
    pub(super) fn unify_spans(&mut self) {
        for span in &mut self.spans {
            *span = (*span).min(1);
        }
    }

    /// The number of symbols.
    pub(super) fn len(&self) -> usize {
        self.ends.len()
    }

    pub(super) fn bytes(&self, id: u32) -> &[u8] {
        let id = id as usize;
        let start = id.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.bytes[start..self.ends[id]]
    }

    pub(super) fn size(&self, id: u32) -> u32 {
        self.sizes[id as usize]
    }

    /// The slots that a symbol takes.
    pub(super) fn span(&self, id: u32) -> u32 {
        self.spans[id as usize]
    }

    /// The symbol of this string, if strings are known.
    pub(super) fn find(&self, bytes: &[u8]) -> Option<u32> {
        self.known.as_ref()?.get(bytes).copied()
    }

    /// Add a first symbol.
    pub(super) fn add(&mut self, bytes: &[u8], size: u32, script: Script) -> Result<u32> {
        self.add_spanning(bytes, 1, size, script)
    }

    /// Add a symbol that no text has, unless another turns out to have its string.
    pub(super) fn add_special(&mut self, bytes: &[u8]) -> Result<u32> {
        self.add_spanning(bytes, 0, 0, Script::ANY)
    }

    /// The first symbol of this string, which may be a special one.
    pub(super) fn first(&mut self, bytes: &[u8], size: u32) -> Result<u32> {
        match self.find(bytes) {
            Some(id) => {
                let at = id as usize;
                (self.spans[at], self.sizes[at]) = (1, size);
                Ok(id)
            }
            None => self.add(bytes, size, Script::ANY),
        }
    }

    fn add_spanning(&mut self, bytes: &[u8], span: u32, size: u32, script: Script) -> Result<u32> {
        let id = self.len() as u32;
        if id >= MAX_ID {
            return Err(Error::unsupported(format!(
                "a vocabulary of more than {MAX_ID} tokens"
            )));
        }
        self.bytes.extend_from_slice(bytes);
        self.ends.push(self.bytes.len());
        self.sizes.push(size);
        self.spans.push(span);
        self.scripts.push(script);
        if let Some(known) = &mut self.known {
            known.insert(bytes.into(), id);
        }
        Ok(id)
    }

    /// Whether two symbols may be joined.
    pub(super) fn may_join(&self, left: u32, right: u32) -> bool {
        let limits = &self.limits;
        let (one, other) = (self.size(left), self.size(right));
        if let Some(most) = limits.size
            && (limits.size_of_first || one.max(other) > 1)
            && one + other > most
        {
            return false;
        }
        if limits.scripts {
            let (one, other) = (self.scripts[left as usize], self.scripts[right as usize]);
            return one == other || one == Script::ANY || other == Script::ANY;
        }
        true
    }

    /// The symbol that two become.
    pub(super) fn join(&mut self, left: u32, right: u32) -> Result<Joined> {
        let span = self.span(left) + self.span(right);
        let size = self.size(left) + self.size(right);
        let tail = self.bytes(right);
        let tail = tail.strip_prefix(&self.prefix[..]).unwrap_or(tail);
        let joined = [self.bytes(left), tail].concat();
        let Some(id) = self.find(&joined) else {
            let script = match self.scripts[left as usize] {
                Script::ANY => self.scripts[right as usize],
                script => script,
            };
            return Ok(Joined::New(self.add_spanning(&joined, span, size, script)?));
        };
        let at = id as usize;
        if self.spans[at] == 0 {
            (self.spans[at], self.sizes[at]) = (span, size);
        }
        if self.spans[at] == span {
            Ok(Joined::Known(id))
        } else if self.limits.known_stay {
            Ok(Joined::Never)
        } else {
            Err(Error::unsupported(format!(
                "two ways to the token {:?}, of different lengths",
                String::from_utf8_lossy(&joined)
            )))
        }
    }
}

/// What two symbols become.
pub(super) enum Joined {
    /// A symbol that was not there.
    New(u32),
    /// A symbol that was there.
    Known(u32),
    /// Nothing: what they would become is a symbol of another length.
    Never,
}
