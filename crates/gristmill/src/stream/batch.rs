//! Thousands of streams, each call one step of any of them.
//!
//! A stream lives in a slot. The number a caller holds is the slot's place and how often it was given
//! out, so what comes late for a stream that has ended is known to be late, and is ignored, even when
//! the slot serves another stream by then. A stream that ends, by itself or by being closed, leaves
//! nothing in its slot.
//!
//! Most tokens are whole characters and come when nothing waits; then a step copies bytes of fixed
//! number and counts. All else goes the long way, of `single.rs`. That both give the same is tested by
//! stepping through streams together and one at a time.

use std::collections::VecDeque;
use std::str;
use std::sync::{Arc, Weak};

use rustc_hash::FxHashMap;

use crate::error::{Error, Result};

use super::flags;
use super::single::{Step, Stream, StreamOptions};
use super::stop::StopSet;
use super::texts::{SHORT, TokenTexts};

/// The bits of a number that are the place.
const PLACE_BITS: u32 = 20;
/// How often a slot is given out before its numbers repeat.
const TURNS: u32 = 1 << 11;

/// What a call gave: for each of its streams, in the order of the call.
#[derive(Clone, Debug, Default)]
pub struct StreamTexts {
    /// The new text of all streams, one after the other: UTF-8, and so is each stream's part.
    pub text: Vec<u8>,
    /// Where each stream's text begins and ends in it: one more than there are streams.
    pub offsets: Vec<i64>,
    /// What happened to each: [`flags`].
    pub flags: Vec<u8>,
    /// What stopped each: a place in the list of stop strings and, behind them, stop ids; or -1.
    pub stops: Vec<i32>,
    /// How many ids of each stream have given all their text.
    pub tokens: Vec<i32>,
    /// The id whose text each stream's part is, if it is just that of one whole token, so that
    /// whoever makes strings may make each once; or [`StreamTexts::MIXED`].
    pub whole: Vec<u32>,
}

/// What one stream of a call is given.
struct Row<'a> {
    end: &'a mut i64,
    flags: &'a mut u8,
    stop: &'a mut i32,
    tokens: &'a mut i32,
    whole: &'a mut u32,
}

#[derive(Default)]
struct Slot {
    turn: u32,
    stream: Option<Stream>,
}

/// What a stop set is made of.
type Stops = (Vec<String>, Vec<u32>);

/// Many streams of one tokenizer.
pub struct StreamBatch {
    texts: Arc<TokenTexts>,
    slots: Vec<Slot>,
    /// Places of slots without a stream; those that ended last are given out last.
    free: VecDeque<u32>,
    /// The stop sets in use, so that streams with the same one share it.
    stops: FxHashMap<Stops, Weak<StopSet>>,
    /// How many stop sets there may be before those not in use are dropped.
    most_stops: usize,
}

impl StreamTexts {
    /// No id: the text is of no token, or not of one alone.
    pub const MIXED: u32 = u32::MAX;

    /// For so many streams, and room for their text.
    fn of(streams: usize) -> (StreamTexts, Vec<u8>) {
        let found = StreamTexts {
            text: Vec::new(),
            offsets: vec![0; streams + 1],
            flags: vec![0; streams],
            stops: vec![-1; streams],
            tokens: vec![0; streams],
            whole: vec![StreamTexts::MIXED; streams],
        };
        (found, Vec::with_capacity((streams + 1) * SHORT))
    }

    fn rows(&mut self) -> impl Iterator<Item = Row<'_>> {
        let ends = self.offsets.iter_mut().skip(1);
        let marks = self.flags.iter_mut().zip(&mut self.stops);
        let counts = self.tokens.iter_mut().zip(&mut self.whole);
        let rows = ends.zip(marks).zip(counts);
        rows.map(|((end, (flags, stop)), (tokens, whole))| Row {
            end,
            flags,
            stop,
            tokens,
            whole,
        })
    }

    /// The text of each stream.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &str> {
        self.offsets.windows(2).map(|ends| {
            let (start, end) = (ends[0] as usize, ends[1] as usize);
            let text = self.text.get(start..end).unwrap_or_default();
            str::from_utf8(text).unwrap_or_default()
        })
    }
}

impl Row<'_> {
    fn set(self, step: Step, text: &[u8]) {
        *self.end = text.len() as i64;
        *self.flags = step.flags;
        let stop = step.stop.and_then(|stop| i32::try_from(stop).ok());
        *self.stop = stop.unwrap_or(-1);
        *self.tokens = count(step.tokens);
    }

    /// All of one token, and nothing else happened.
    #[inline]
    fn set_whole(self, id: u32, tokens: u32, text: &[u8]) {
        *self.end = text.len() as i64;
        *self.tokens = count(tokens);
        *self.whole = id;
    }
}

fn count(tokens: u32) -> i32 {
    i32::try_from(tokens).unwrap_or(i32::MAX)
}

impl TokenTexts {
    /// The text of each id alone, as decoding it alone gives it; none for an id that no token has.
    pub fn each(&self, ids: &[u32], skip_special_tokens: bool) -> Result<StreamTexts> {
        let (mut found, mut text) = StreamTexts::of(ids.len());
        for (&id, row) in ids.iter().zip(found.rows()) {
            if self.append_whole(id, skip_special_tokens, &mut text) {
                row.set_whole(id, 1, &text);
                continue;
            }
            let known = self.append_alone(id, skip_special_tokens, &mut text)?;
            let step = Step {
                flags: if known { 0 } else { flags::UNKNOWN },
                stop: None,
                tokens: 1,
            };
            row.set(step, &text);
        }
        found.text = text;
        Ok(found)
    }
}

impl StreamBatch {
    /// No streams yet.
    pub fn new(texts: &Arc<TokenTexts>) -> StreamBatch {
        StreamBatch {
            texts: Arc::clone(texts),
            slots: Vec::new(),
            free: VecDeque::new(),
            stops: FxHashMap::default(),
            most_stops: 16,
        }
    }

    /// What the ids give.
    pub fn texts(&self) -> &Arc<TokenTexts> {
        &self.texts
    }

    /// The number of open streams.
    pub fn open_streams(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// A stop set, shared with every stream that has the same; `None` if it is empty.
    pub fn stop_set(
        &mut self,
        strings: Vec<String>,
        ids: Vec<u32>,
    ) -> Result<Option<Arc<StopSet>>> {
        if strings.is_empty() && ids.is_empty() {
            return Ok(None);
        }
        let key = (strings, ids);
        if let Some(found) = self.stops.get(&key).and_then(Weak::upgrade) {
            return Ok(Some(found));
        }
        let set = Arc::new(StopSet::new(&key.0, &key.1)?);
        if self.stops.len() >= self.most_stops {
            self.stops.retain(|_, set| set.strong_count() > 0);
            self.most_stops = 2 * self.stops.len().max(8);
        }
        self.stops.insert(key, Arc::downgrade(&set));
        Ok(Some(set))
    }

    /// Open so many streams; their numbers.
    pub fn open(&mut self, streams: usize, options: &StreamOptions) -> Result<Vec<i32>> {
        if self.open_streams().saturating_add(streams) > 1 << PLACE_BITS {
            return Err(Error::unsupported(format!(
                "more than {} open streams in one batch",
                1 << PLACE_BITS
            )));
        }
        let opened: Result<Vec<Stream>> = (0..streams)
            .map(|_| Stream::new(&self.texts, options))
            .collect();
        Ok(opened?
            .into_iter()
            .map(|stream| self.place(stream))
            .collect())
    }

    fn place(&mut self, stream: Stream) -> i32 {
        let place = self.free.pop_front().unwrap_or_else(|| {
            self.slots.push(Slot::default());
            self.slots.len() as u32 - 1
        });
        let Some(slot) = self.slots.get_mut(place as usize) else {
            return -1;
        };
        slot.stream = Some(stream);
        // Below 1 << 31.
        (slot.turn << PLACE_BITS | place) as i32
    }

    /// The place of an open stream.
    #[inline]
    fn place_of(&self, number: i32) -> Option<usize> {
        let number = u32::try_from(number).ok()?;
        let place = (number & ((1 << PLACE_BITS) - 1)) as usize;
        let slot = self.slots.get(place)?;
        (slot.turn == number >> PLACE_BITS && slot.stream.is_some()).then_some(place)
    }

    fn free(&mut self, place: usize) {
        if let Some(slot) = self.slots.get_mut(place) {
            slot.stream = None;
            slot.turn = (slot.turn + 1) % TURNS;
            self.free.push_back(place as u32);
        }
    }

    /// Give each stream its ids, and at the end of it what is left: `tokens` are the ids of all, and
    /// stream `i` has those from `offsets[i]` to `offsets[i + 1]`; without offsets, one each. A
    /// stream may be named more than once.
    pub fn step(
        &mut self,
        numbers: &[i32],
        tokens: &[i32],
        offsets: Option<&[i32]>,
        finished: Option<&[u8]>,
    ) -> Result<StreamTexts> {
        check(numbers.len(), tokens.len(), offsets, finished)?;
        let (mut found, mut text) = StreamTexts::of(numbers.len());
        match (offsets, finished) {
            (None, None) => {
                for ((&number, id), row) in numbers.iter().zip(tokens).zip(found.rows()) {
                    self.step_row(number, id, false, &mut text, row);
                }
            }
            _ => {
                for ((at, &number), row) in numbers.iter().enumerate().zip(found.rows()) {
                    let ids = match offsets {
                        None => tokens.get(at..at + 1),
                        Some(ends) => tokens.get(ends[at] as usize..ends[at + 1] as usize),
                    };
                    let finish = finished.is_some_and(|finished| finished[at] != 0);
                    match ids.unwrap_or_default() {
                        [id] => self.step_row(number, id, finish, &mut text, row),
                        ids => row.set(self.step_one(number, ids, finish, &mut text), &text),
                    }
                }
            }
        }
        found.text = text;
        Ok(found)
    }

    /// Give a stream one id.
    #[inline]
    fn step_row(&mut self, number: i32, id: &i32, finish: bool, text: &mut Vec<u8>, row: Row<'_>) {
        if !finish
            && let Some(place) = self.place_of(number)
            && let Some(stream) = self
                .slots
                .get_mut(place)
                .and_then(|slot| slot.stream.as_mut())
            && let Some(tokens) = stream.step_whole(&self.texts, *id as u32, text)
        {
            return row.set_whole(*id as u32, tokens, text);
        }
        let step = self.step_one(number, std::slice::from_ref(id), finish, text);
        row.set(step, text);
    }

    fn step_one(&mut self, number: i32, ids: &[i32], finish: bool, text: &mut Vec<u8>) -> Step {
        let place = self.place_of(number);
        let stream = place.and_then(|place| self.slots.get_mut(place)?.stream.as_mut());
        let (Some(place), Some(stream)) = (place, stream) else {
            return Step {
                flags: flags::IGNORED,
                ..Step::default()
            };
        };
        // A negative id is above every token's.
        let ids = ids.iter().map(|&id| id as u32);
        let step = stream.step(&self.texts, ids, finish, text);
        if step.ends() {
            self.free(place);
        }
        step
    }

    /// Give what is left of these streams, which end.
    pub fn finish(&mut self, numbers: &[i32]) -> StreamTexts {
        let (mut found, mut text) = StreamTexts::of(numbers.len());
        for (&number, row) in numbers.iter().zip(found.rows()) {
            let step = self.step_one(number, &[], true, &mut text);
            row.set(step, &text);
        }
        found.text = text;
        found
    }

    /// End these streams and drop what they hold. Streams that have ended are ignored.
    pub fn close(&mut self, numbers: &[i32]) {
        for &number in numbers {
            if let Some(place) = self.place_of(number) {
                self.free(place);
            }
        }
    }
}

/// Whether the arrays of a step fit together.
fn check(
    streams: usize,
    tokens: usize,
    offsets: Option<&[i32]>,
    finished: Option<&[u8]>,
) -> Result<()> {
    match offsets {
        None if tokens != streams => {
            return Err(Error::format(format!(
                "{streams} streams and {tokens} tokens, and no offsets that say whose they are"
            )));
        }
        Some(ends) => {
            let fits = ends.len() == streams + 1
                && ends.first() == Some(&0)
                && ends
                    .last()
                    .is_some_and(|&last| usize::try_from(last) == Ok(tokens))
                && ends.is_sorted();
            if !fits {
                return Err(Error::format(format!(
                    "offsets must go up from 0 to the number of tokens, {tokens}, in {} steps",
                    streams
                )));
            }
        }
        None => {}
    }
    match finished {
        Some(finished) if finished.len() != streams => Err(Error::format(format!(
            "{streams} streams, and {} that say whether they are finished",
            finished.len()
        ))),
        _ => Ok(()),
    }
}
