//! A stream cut into blocks that end where a record ends.
//!
//! Records end with a separator, which belongs to none of them; without a separator the stream is one
//! record. A block holds about as many bytes as asked for, or one longer record. A record that has more
//! bytes than a document may have is read over, a block's worth at a time, and only its beginning is kept.
//! Which records there are does not depend on the size of blocks.

use std::path::Path;

use memchr::memmem;

use super::block::{Block, HEAD, MARK};
use super::stream::{Broken, Stream};
use super::{Bad, Reason, csv};
use crate::Result;

/// So much is read at a time behind the end of a range, where only the end of its last record is wanted.
const BEYOND: usize = 1 << 16;

/// What ends records.
#[derive(Clone, Debug)]
pub(crate) enum Separator {
    /// Nothing: all of it is one record.
    None,
    /// This one byte.
    Byte(u8),
    /// These bytes, found from the left, never overlapping.
    Bytes(Box<memmem::Finder<'static>>),
    /// The end of a line of fields, which need not be the end of a line.
    Csv {
        /// What stands between fields.
        comma: u8,
        /// How far the line at hand is.
        state: csv::State,
    },
}

impl Separator {
    pub(crate) fn new(separator: Option<&str>) -> Separator {
        match separator.map(str::as_bytes) {
            None | Some([]) => Separator::None,
            Some(&[byte]) => Separator::Byte(byte),
            Some(bytes) => Separator::Bytes(Box::new(memmem::Finder::new(bytes).into_owned())),
        }
    }

    pub(crate) fn len(&self) -> usize {
        match self {
            Separator::None => 0,
            Separator::Byte(_) | Separator::Csv { .. } => 1,
            Separator::Bytes(finder) => finder.needle().len(),
        }
    }

    /// A record begins.
    fn begin(&mut self) {
        if let Separator::Csv { state, .. } = self {
            *state = csv::State::default();
        }
    }

    /// Where the first one begins, from `from` on, where it was looked for the last time.
    pub(crate) fn find_next(&mut self, bytes: &[u8], from: usize) -> Option<usize> {
        match self {
            Separator::Csv { comma, state } => csv::line_end(bytes, from, *comma, state),
            other => other.find(bytes, from),
        }
    }

    /// Where the first one begins, from `from` on, where a record begins.
    pub(crate) fn find(&self, bytes: &[u8], from: usize) -> Option<usize> {
        let rest = bytes.get(from..)?;
        let found = match self {
            Separator::None => None,
            Separator::Csv { comma, .. } => {
                csv::line_end(rest, 0, *comma, &mut csv::State::default())
            }
            Separator::Byte(byte) => memchr::memchr(*byte, rest),
            Separator::Bytes(finder) => finder.find(rest),
        };
        found.map(|at| from + at)
    }

    /// Behind the last one. `from` is the place up to which there is none, or behind one.
    fn last_end(&mut self, bytes: &[u8], from: usize) -> Option<usize> {
        match self {
            Separator::None => None,
            Separator::Csv { comma, state } => {
                let mut last = None;
                while let Some(end) = csv::line_end(bytes, last.unwrap_or(from), *comma, state) {
                    last = Some(end + 1);
                }
                last
            }
            Separator::Byte(byte) => {
                let found = memchr::memrchr(*byte, bytes.get(from..)?)?;
                Some(from + found + 1)
            }
            Separator::Bytes(finder) => {
                // From the left, so that those that overlap are taken as they are in the whole.
                let length = finder.needle().len();
                let last = finder.find_iter(bytes.get(from..)?).last()?;
                Some(from + last + length)
            }
        }
    }

    /// Whether records can be found from the middle: no two separators can overlap.
    pub(crate) fn is_certain(&self) -> bool {
        match self {
            Separator::None | Separator::Csv { .. } => false,
            Separator::Byte(_) => true,
            Separator::Bytes(finder) => {
                let bytes = finder.needle();
                (1..bytes.len()).all(|length| bytes[..length] != bytes[bytes.len() - length..])
            }
        }
    }
}

/// Cuts one stream.
pub(crate) struct Cutter {
    stream: Box<dyn Stream>,
    separator: Separator,
    /// About so many bytes go into a block.
    size: usize,
    /// The most bytes of a record.
    longest: u64,
    /// Where the next byte of the stream stands.
    at: u64,
    /// Records that begin here or later belong to somebody else.
    end: u64,
    /// The beginning of a record, read already.
    rest: Vec<u8>,
    /// No separator was looked for in it.
    unseen: bool,
    state: State,
    /// The stream may begin with a byte order mark, which belongs to no record.
    mark: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    /// The first record begins behind the first separator.
    Looking,
    Reading,
    /// No record begins from here on; the one at hand ends with the first separator.
    Ending,
    Done,
}

impl Cutter {
    /// The records of `stream` that begin before `end`. `at` is where the stream stands in what it is of;
    /// with `looking`, the first record begins behind the first separator.
    pub(crate) fn new(
        stream: Box<dyn Stream>,
        separator: Separator,
        (at, end): (u64, u64),
        looking: bool,
        size: usize,
        longest: u64,
    ) -> Cutter {
        Cutter {
            stream,
            separator,
            size,
            longest,
            at,
            end,
            rest: Vec::new(),
            unseen: false,
            mark: at == 0 && !looking,
            state: if looking {
                State::Looking
            } else {
                State::Reading
            },
        }
    }

    /// The file.
    pub(crate) fn path(&self) -> &Path {
        self.stream.path()
    }

    /// Fill `block`. False at the end.
    pub(crate) fn next(&mut self, block: &mut Block) -> Result<bool> {
        if self.state == State::Looking {
            self.find_first()?;
        }
        if self.state == State::Done {
            return Ok(false);
        }
        block.offset = self.at - self.rest.len() as u64;
        block.bytes.clear();
        block.bytes.append(&mut self.rest);
        self.separator.begin();
        // What was read while looking for the end of something else may hold whole records.
        if std::mem::take(&mut self.unseen)
            && let Some(end) = self.separator.last_end(&block.bytes, 0)
        {
            self.rest.extend_from_slice(&block.bytes[end..]);
            block.bytes.truncate(end);
            return Ok(true);
        }
        self.separator.begin();
        // Up to here there is no separator, or only the beginning of one.
        let mut looked = 0;
        // The first record begins before the mark, for whoever counts bytes.
        let mut begun = false;
        loop {
            let more = self.more(&mut block.bytes)?;
            if self.mark && !matches!(more, More::NoneBegins) {
                let begins = block.bytes.len() < MARK.len() && MARK.starts_with(&block.bytes);
                if begins && matches!(more, More::Some) {
                    continue;
                }
                self.mark = false;
                if block.bytes.starts_with(MARK) {
                    block.bytes.drain(..MARK.len());
                    begun = true;
                    block.offset = MARK.len() as u64;
                }
            }
            let from = looked;
            looked = (block.bytes.len() + 1).saturating_sub(self.separator.len().max(1));
            match more {
                More::Some => {
                    let found = if self.state == State::Ending {
                        let at = self.separator.find_next(&block.bytes, from);
                        at.map(|at| at + self.separator.len())
                    } else {
                        self.separator.last_end(&block.bytes, from)
                    };
                    if let Some(end) = found {
                        if self.state == State::Ending {
                            self.done()?;
                        } else {
                            self.rest.extend_from_slice(&block.bytes[end..]);
                        }
                        block.bytes.truncate(end);
                        return Ok(true);
                    }
                    if block.bytes.len() as u64 > self.longest + self.separator.len() as u64 {
                        self.read_over(block)?;
                        return Ok(true);
                    }
                }
                More::NoneBegins => {
                    if block.bytes.is_empty() && !begun {
                        self.done()?;
                        return Ok(false);
                    }
                    self.state = State::Ending;
                    looked = from;
                }
                More::Nothing => {
                    self.done()?;
                    // A file that is one record is one even without a byte.
                    let whole = self.separator.len() == 0;
                    return Ok(whole || !block.bytes.is_empty());
                }
                More::Damaged(what) => {
                    self.done()?;
                    let end = self.separator.last_end(&block.bytes, from).unwrap_or(0);
                    block.set_tail(end, Bad::new(Reason::CutOff), Some(what));
                    return Ok(true);
                }
            }
        }
    }

    /// Append more bytes, never beyond the end as long as records may begin.
    fn more(&mut self, bytes: &mut Vec<u8>) -> Result<More> {
        let mut most = self.size.max(1);
        if self.state == State::Ending {
            most = most.min(BEYOND);
        } else {
            let left = self.end.saturating_sub(self.at);
            if left == 0 {
                return Ok(More::NoneBegins);
            }
            most = most.min(usize::try_from(left).unwrap_or(usize::MAX));
        }
        let before = bytes.len();
        let read = self.stream.read(bytes, most);
        self.at += (bytes.len() - before) as u64;
        match read {
            Ok(0) => Ok(More::Nothing),
            Ok(_) => Ok(More::Some),
            Err(Broken::Error(error)) => Err(error),
            Err(Broken::Damaged(what)) => Ok(More::Damaged(what)),
        }
    }

    /// Read over everything up to the end of the first separator.
    fn find_first(&mut self) -> Result<()> {
        let mut bytes = Vec::new();
        loop {
            let read = self.more(&mut bytes)?;
            if let Some(at) = self.separator.find(&bytes, 0) {
                let begin = at + self.separator.len();
                self.rest.extend_from_slice(&bytes[begin..]);
                self.unseen = true;
                self.state = State::Reading;
                return Ok(());
            }
            if !matches!(read, More::Some) {
                return self.done();
            }
            let keep = self.separator.len().saturating_sub(1).min(bytes.len());
            bytes.drain(..bytes.len() - keep);
        }
    }

    /// The record in `block`, which is all of it, has too many bytes: read over the rest of it.
    fn read_over(&mut self, block: &mut Block) -> Result<()> {
        let mut bytes = std::mem::take(&mut block.bytes);
        block
            .bytes
            .extend_from_slice(&bytes[..HEAD.min(bytes.len())]);
        block.set_tail(0, Bad::new(Reason::TooLong), None);
        loop {
            let keep = self.separator.len().saturating_sub(1).min(bytes.len());
            bytes.drain(..bytes.len() - keep);
            let kept = bytes.len();
            let read = self.more(&mut bytes)?;
            let found = self.separator.find_next(&bytes, 0);
            // Its beginning is as long as it can be, however little is read at a time.
            let known = bytes.get(kept..found.unwrap_or(bytes.len()));
            let missing = HEAD.saturating_sub(block.bytes.len());
            let known = known.unwrap_or_default();
            block
                .bytes
                .extend_from_slice(&known[..missing.min(known.len())]);
            if let Some(at) = found {
                let end = at + self.separator.len();
                if self.state == State::Ending {
                    return self.done();
                }
                self.rest.extend_from_slice(&bytes[end..]);
                self.unseen = true;
                return Ok(());
            }
            match read {
                More::Some => {}
                More::NoneBegins => self.state = State::Ending,
                More::Nothing => return self.done(),
                More::Damaged(what) => {
                    self.done()?;
                    block.set_tail(0, Bad::new(Reason::CutOff), Some(what));
                    return Ok(());
                }
            }
        }
    }

    fn done(&mut self) -> Result<()> {
        self.state = State::Done;
        self.stream.finish()
    }
}

/// What came of asking for more bytes.
enum More {
    Some,
    /// All that comes belongs to records that begin elsewhere.
    NoneBegins,
    Nothing,
    Damaged(String),
}
