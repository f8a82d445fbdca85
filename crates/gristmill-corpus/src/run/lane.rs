//! One job under way: what reads it, what writes it, and how far both are.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use super::encode::Room;
use super::shard::Shards;
use crate::read::{Block, Parser, Record, Source};
use crate::{Job, Result};

/// A job that was begun. Its two sides are used by one thread at a time each.
pub(super) struct Lane<'a> {
    /// Which of the run's jobs it is.
    pub(super) index: usize,
    pub(super) job: &'a Job,
    pub(super) reader: Mutex<Reader<'a>>,
    pub(super) shards: Mutex<Shards<'a>>,
}

impl<'a> Lane<'a> {
    pub(super) fn new(
        index: usize,
        job: &'a Job,
        block_bytes: usize,
        read_bytes: Arc<AtomicU64>,
    ) -> Lane<'a> {
        Lane {
            index,
            job,
            reader: Mutex::new(Reader {
                job,
                source: Source::new(&job.units, &job.read, block_bytes),
                skip: job.skip,
                text: 0,
                unit: 0,
                records: 0,
                read_bytes,
            }),
            shards: Mutex::new(Shards::new(index, job)),
        }
    }
}

/// Where a job stands.
pub(super) struct Standing<'a> {
    pub(super) lane: Arc<Lane<'a>>,
    pub(super) reading: bool,
    /// Nothing is left to be read.
    pub(super) exhausted: bool,
    /// How many blocks were read.
    pub(super) read: u64,
    pub(super) writing: bool,
    /// How many blocks were written.
    pub(super) written: u64,
    /// What was encoded and waits for its turn.
    pub(super) done: BTreeMap<u64, (Block, Room)>,
    /// Shards that are not under their names yet.
    pub(super) unclosed: usize,
    /// Everything was written.
    pub(super) ended: bool,
}

impl<'a> Standing<'a> {
    pub(super) fn new(lane: Arc<Lane<'a>>) -> Standing<'a> {
        Standing {
            lane,
            reading: false,
            exhausted: false,
            read: 0,
            writing: false,
            written: 0,
            done: BTreeMap::new(),
            unclosed: 0,
            ended: false,
        }
    }

    /// Blocks were read that are not written yet.
    pub(super) fn waits_for_blocks(&self) -> bool {
        self.read > self.written
    }

    /// All was read and written, and nobody has ended it yet.
    pub(super) fn is_over(&self) -> bool {
        self.exhausted && self.read == self.written && !self.ended
    }
}

/// Reads the blocks of a job, but for those of shards that exist already.
pub(super) struct Reader<'a> {
    job: &'a Job,
    source: Source<'a>,
    /// So many shards are still to be read over.
    skip: u64,
    /// Bytes of text in the shard that is read over.
    text: u64,
    /// The unit that is read over, and so many of its records.
    unit: usize,
    records: u64,
    /// Of all jobs.
    read_bytes: Arc<AtomicU64>,
}

impl Reader<'_> {
    /// Fill `block` with the next records that are to be encoded. False at the end.
    pub(super) fn next(&mut self, block: &mut Block) -> Result<bool> {
        let before = self.source.read_bytes();
        let found = self.next_not_skipped(block);
        block.read = self.source.read_bytes() - before;
        self.read_bytes.fetch_add(block.read, Ordering::Relaxed);
        found
    }

    fn next_not_skipped(&mut self, block: &mut Block) -> Result<bool> {
        if self.skip == 0 {
            return self.source.next(block);
        }
        let mut parser = Parser::new(&self.job.read)?;
        let limit = self.job.shard_bytes.unwrap_or(u64::MAX);
        while self.source.next(block)? {
            if block.unit != self.unit {
                (self.unit, self.records) = (block.unit, 0);
            }
            parser.take_apart(block);
            if let Some(first) = self.skip_records(&block.records, limit) {
                block.forget(first, self.records);
                return Ok(true);
            }
            self.records += block.records.len() as u64;
        }
        Ok(false)
    }

    /// Count records of shards that exist. The first one of another shard.
    fn skip_records(&mut self, records: &[Record], limit: u64) -> Option<usize> {
        for (number, record) in records.iter().enumerate() {
            if self.text >= limit {
                self.text = 0;
                self.skip -= 1;
                if self.skip == 0 {
                    return Some(number);
                }
            }
            self.text += record.text_length();
        }
        None
    }
}
