//! One stream.

use std::sync::Arc;

use crate::error::Result;

use super::flags;
use super::stop::{StopSet, Watch};
use super::texts::{State, TokenTexts};

/// How a stream is opened.
#[derive(Clone, Default)]
pub struct StreamOptions {
    /// Special tokens give no text.
    pub skip_special_tokens: bool,
    /// What ends the stream.
    pub stops: Option<Arc<StopSet>>,
    /// What ended the stream is part of its text.
    pub include_stop: bool,
    /// So many tokens cannot end the stream.
    pub min_tokens: u32,
    /// The ids before the stream: their text is not given again, but decides, for example, whether
    /// the first word begins with a space. [`TokenTexts::context`] says which of them matter.
    pub prompt: Vec<u32>,
}

/// What a stream is between two calls.
pub(super) struct Stream {
    state: State,
    watch: Option<Box<Watch>>,
    min_tokens: u32,
    /// Tokens that came.
    came: u32,
    /// Tokens that came when nothing waited for the next.
    clean: u32,
    /// Tokens whose text was given.
    given: u32,
    skip_special: bool,
}

/// What became of a stream by some ids.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Step {
    pub(super) flags: u8,
    pub(super) stop: Option<usize>,
    pub(super) tokens: u32,
}

impl Step {
    /// Whether the stream is over.
    pub(super) fn ends(self) -> bool {
        self.flags & (flags::STOPPED | flags::FINISHED | flags::FAILED | flags::IGNORED) > 0
    }
}

impl Stream {
    pub(super) fn new(texts: &TokenTexts, options: &StreamOptions) -> Result<Stream> {
        let watch = options
            .stops
            .as_ref()
            .map(|stops| Box::new(Watch::new(Arc::clone(stops), options.include_stop)));
        Ok(Stream {
            state: texts.open(&options.prompt, options.skip_special_tokens)?,
            watch,
            min_tokens: options.min_tokens,
            came: 0,
            clean: 0,
            given: 0,
            skip_special: options.skip_special_tokens,
        })
    }

    /// Append the text that is certain after these ids, and at the end all of it.
    pub(super) fn step(
        &mut self,
        texts: &TokenTexts,
        ids: impl Iterator<Item = u32>,
        finish: bool,
        out: &mut Vec<u8>,
    ) -> Step {
        let mut step = Step::default();
        for id in ids {
            let pushed = if self.watch.is_some() {
                self.push_watched(texts, id, &mut step, out)
            } else {
                self.push(texts, id, &mut step, out)
            };
            if pushed.is_err() {
                step.flags |= flags::FAILED;
            }
            if step.ends() {
                break;
            }
        }
        if finish && !step.ends() {
            step.flags |= flags::FINISHED;
            if self.end(texts, &mut step, out).is_err() {
                step.flags |= flags::FAILED;
            }
        }
        step.tokens = self.given;
        step
    }

    /// If nothing waits, nothing is looked for and the token is whole characters, which is nearly
    /// always, append its text: the number of tokens given. Else nothing has happened.
    #[inline]
    pub(super) fn step_whole(
        &mut self,
        texts: &TokenTexts,
        id: u32,
        out: &mut Vec<u8>,
    ) -> Option<u32> {
        let ready = self.watch.is_none() && self.state.is_ready();
        if !(ready && texts.append_whole(id, self.skip_special, out)) {
            return None;
        }
        self.came = self.came.saturating_add(1);
        self.given = self.came;
        Some(self.given)
    }

    #[inline]
    fn push(
        &mut self,
        texts: &TokenTexts,
        id: u32,
        step: &mut Step,
        out: &mut Vec<u8>,
    ) -> Result<()> {
        self.came = self.came.saturating_add(1);
        if !texts.push(&mut self.state, id, self.skip_special, out)? {
            step.flags |= flags::UNKNOWN;
        }
        if texts.is_clean(&self.state) {
            self.given = self.came;
        }
        Ok(())
    }

    fn push_watched(
        &mut self,
        texts: &TokenTexts,
        id: u32,
        step: &mut Step,
        out: &mut Vec<u8>,
    ) -> Result<()> {
        let Some(watch) = &mut self.watch else {
            return Ok(());
        };
        self.came = self.came.saturating_add(1);
        let may_stop = self.came > self.min_tokens;
        let stop = watch.stops.place_of(id).filter(|_| may_stop);
        if stop.is_none() || watch.include_stop {
            let known = texts.push(&mut self.state, id, self.skip_special, watch.text())?;
            if !known {
                step.flags |= flags::UNKNOWN;
            }
        }
        if let Some(stop) = stop {
            step.flags |= flags::STOPPED;
            step.stop = Some(stop);
            return self.end(texts, step, out);
        }
        if let Some(found) = watch.look(may_stop, out) {
            step.flags |= flags::STOPPED;
            step.stop = Some(found);
            return Ok(());
        }
        if texts.is_clean(&self.state) {
            self.clean = self.came;
        }
        if let Some(given) = watch.end_token(self.clean, out) {
            self.given = given;
        }
        Ok(())
    }

    /// Give what is left, in which a stop string may still end.
    fn end(&mut self, texts: &TokenTexts, step: &mut Step, out: &mut Vec<u8>) -> Result<()> {
        let Some(watch) = &mut self.watch else {
            self.given = self.came;
            return texts.end(&mut self.state, self.skip_special, out);
        };
        texts.end(&mut self.state, self.skip_special, watch.text())?;
        // There can be text without any token.
        let enough = self.min_tokens == 0 || self.came > self.min_tokens;
        let may_stop = enough && step.stop.is_none();
        if let Some(found) = watch.look(may_stop, out) {
            step.flags |= flags::STOPPED;
            step.stop = Some(found);
            return Ok(());
        }
        watch.give_all(out);
        self.given = self.came;
        Ok(())
    }
}

/// One stream of ids that becomes text.
///
/// ```
/// use std::sync::Arc;
/// use gristmill::Tokenizer;
/// use gristmill::stream::{DecodeStream, StreamOptions, TokenTexts};
///
/// let texts = TokenTexts::new(Arc::new(Tokenizer::embedded("gpt2")?))?;
/// let mut stream = DecodeStream::new(&texts, &StreamOptions::default())?;
/// assert_eq!(stream.push(&[31373]), "hello");
/// assert_eq!(stream.push(&[12520, 99]), " ");
/// assert_eq!(stream.push(&[247]), "🦙");
/// assert_eq!(stream.finish(), "");
/// # Ok::<(), gristmill::Error>(())
/// ```
pub struct DecodeStream {
    texts: Arc<TokenTexts>,
    /// `None` once it has ended.
    stream: Option<Stream>,
    last: Step,
    seen: u8,
}

impl DecodeStream {
    /// A stream of the tokenizer that `texts` was made of.
    pub fn new(texts: &Arc<TokenTexts>, options: &StreamOptions) -> Result<DecodeStream> {
        Ok(DecodeStream {
            stream: Some(Stream::new(texts, options)?),
            texts: Arc::clone(texts),
            last: Step::default(),
            seen: 0,
        })
    }

    /// The text that is certain after these ids and was not before; none once the stream has ended.
    pub fn push(&mut self, ids: &[u32]) -> String {
        self.step(ids, false)
    }

    /// The rest of the text; the stream ends.
    pub fn finish(&mut self) -> String {
        self.step(&[], true)
    }

    fn step(&mut self, ids: &[u32], finish: bool) -> String {
        let mut text = Vec::new();
        if let Some(stream) = &mut self.stream {
            self.last = stream.step(&self.texts, ids.iter().copied(), finish, &mut text);
            self.seen |= self.last.flags;
            if self.last.ends() {
                self.stream = None;
            }
        }
        into_text(text)
    }

    /// All [`flags`] so far.
    pub fn flags(&self) -> u8 {
        self.seen
    }

    /// What ended the stream: a place in the list of stop strings and, behind them, stop ids.
    pub fn stop(&self) -> Option<usize> {
        self.last.stop
    }

    /// The number of ids whose text was given whole.
    pub fn tokens(&self) -> u32 {
        self.last.tokens
    }
}

/// What streams append is text.
pub(super) fn into_text(text: Vec<u8>) -> String {
    match String::from_utf8(text) {
        Ok(text) => text,
        Err(error) => String::from_utf8_lossy(error.as_bytes()).into_owned(),
    }
}
