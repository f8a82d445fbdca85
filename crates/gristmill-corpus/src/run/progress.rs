//! How far a run is: counts that all threads add to.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use serde::Serialize;

/// How far a run is, in sums over all its jobs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Progress {
    /// Bytes read from files.
    pub read_bytes: u64,
    /// Bytes of text encoded.
    pub text_bytes: u64,
    /// Records written, left out or found to be bad.
    pub records: u64,
    /// Documents written.
    pub documents: u64,
    /// Ids written.
    pub tokens: u64,
    /// Bad records.
    pub bad: u64,
    /// Nanoseconds of all threads spent reading, decompression and cutting included.
    pub read_time: u64,
    /// Nanoseconds of all threads spent taking blocks apart.
    pub parse_time: u64,
    /// Nanoseconds of all threads spent encoding.
    pub encode_time: u64,
    /// Nanoseconds of all threads spent writing.
    pub write_time: u64,
    /// Nanoseconds spent on syncing and renaming.
    pub sync_time: u64,
}

/// What time is spent on.
#[derive(Clone, Copy)]
pub(super) enum Stage {
    Read,
    Parse,
    Encode,
    Write,
    Sync,
}

/// The counts behind [`Progress`].
#[derive(Default)]
pub(super) struct Counts {
    pub(super) text_bytes: AtomicU64,
    pub(super) records: AtomicU64,
    pub(super) documents: AtomicU64,
    pub(super) tokens: AtomicU64,
    pub(super) bad: AtomicU64,
    times: [AtomicU64; 5],
}

impl Counts {
    /// Do some work of a stage.
    pub(super) fn timed<R>(&self, stage: Stage, work: impl FnOnce() -> R) -> R {
        let began = Instant::now();
        let done = work();
        let time = u64::try_from(began.elapsed().as_nanos()).unwrap_or(u64::MAX);
        if let Some(sum) = self.times.get(stage as usize) {
            add(sum, time);
        }
        done
    }

    /// The counts at this moment.
    pub(super) fn progress(&self, read_bytes: &AtomicU64) -> Progress {
        let [read_time, parse_time, encode_time, write_time, sync_time] =
            self.times.each_ref().map(get);
        Progress {
            read_bytes: get(read_bytes),
            text_bytes: get(&self.text_bytes),
            records: get(&self.records),
            documents: get(&self.documents),
            tokens: get(&self.tokens),
            bad: get(&self.bad),
            read_time,
            parse_time,
            encode_time,
            write_time,
            sync_time,
        }
    }
}

pub(super) fn add(sum: &AtomicU64, more: u64) {
    sum.fetch_add(more, Ordering::Relaxed);
}

fn get(sum: &AtomicU64) -> u64 {
    sum.load(Ordering::Relaxed)
}
