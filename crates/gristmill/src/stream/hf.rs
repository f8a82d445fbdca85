//! What the `DecodeStream` of `tokenizers` gives, step by step.
//!
//! It decodes a window of the last ids again and again: nothing is given while the text ends in
//! U+FFFD, nothing is left for an end, and a text that turns out other than it was is an error. So it
//! can lose text that a [`DecodeStream`](super::DecodeStream) gives, and while it gives nothing each
//! step decodes all that waits. It is here for those who compare. Tested against the library.

use std::sync::Arc;

use crate::error::{Error, Result};
use crate::tokenizer::Tokenizer;

/// A stream as `tokenizers` has it.
pub struct HfDecodeStream {
    tokenizer: Arc<Tokenizer>,
    skip_special: bool,
    /// The ids decoded again at each step.
    window: Vec<u32>,
    /// How many of them were given.
    given: usize,
    /// Their text.
    prefix: String,
}

impl HfDecodeStream {
    /// A stream after the ids of a prompt.
    pub fn new(
        tokenizer: Arc<Tokenizer>,
        prompt: &[u32],
        skip_special_tokens: bool,
    ) -> HfDecodeStream {
        let mut stream = HfDecodeStream {
            tokenizer,
            skip_special: skip_special_tokens,
            window: Vec::new(),
            given: 0,
            prefix: String::new(),
        };
        stream.add(prompt);
        stream
    }

    fn add(&mut self, ids: &[u32]) {
        let known = ids.iter().filter(|&&id| self.tokenizer.parts.has(id));
        self.window.extend(known);
    }

    fn decode(&self) -> Result<String> {
        self.tokenizer.decode_with(&self.window, self.skip_special)
    }

    /// The text after these ids, if there is any that does not end in U+FFFD. Ids that no token has
    /// are left out, as the library leaves them out.
    pub fn step(&mut self, ids: &[u32]) -> Result<Option<String>> {
        if self.prefix.is_empty() && !self.window.is_empty() {
            let prefix = self.decode()?;
            if !prefix.ends_with('\u{FFFD}') {
                self.prefix = prefix;
                self.given = self.window.len();
            }
        }
        self.add(ids);
        let text = self.decode()?;
        if text.len() <= self.prefix.len() || text.ends_with('\u{FFFD}') {
            return Ok(None);
        }
        let Some(new) = text.strip_prefix(&*self.prefix) else {
            return Err(Error::format(
                "the text that was given turned out another by these ids (in tokenizers: invalid \
                 prefix)",
            ));
        };
        let new = new.to_owned();
        self.window.drain(..self.given);
        self.given = self.window.len();
        self.prefix = self.decode()?;
        Ok(Some(new))
    }
}
