//! Jobs into shards, on all cores and within bounded memory.
//!
//! Every thread does whatever is to be done next: read a block, take it apart and encode it, or write what
//! is ready, in order. Reading and writing of one job are done by one thread at a time (`lane.rs`), encoding
//! by all; when one job does not keep them busy, as when much time goes into decompression, the next job is
//! begun. With one thread nothing is handed over and nothing waits. What was read and is not written yet is
//! bounded in bytes: when it is too much nothing more is read until the oldest block is written. Another
//! thread syncs and renames complete shards; the caller's own waits for them and shows progress.
//!
//! Invariant: a shard's bytes depend on its job alone, never on the number of threads or the size of
//! blocks. Tested in `tests.rs` with blocks of a few bytes and any number of threads.

mod encode;
mod lane;
mod progress;
mod shard;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use gristmill::Tokenizer;

use crate::read::Block;
use crate::write::{Output, ShardWriter};
use crate::{Error, Job, Result, ShardReport};

use encode::{Encoder, Room};
use lane::{Lane, Standing};
pub use progress::Progress;
use progress::{Counts, Stage};
use shard::Closing;

/// Between two looks at how far it is.
const BETWEEN_LOOKS: Duration = Duration::from_millis(100);
/// A block of the usual size.
const BLOCK: usize = 1 << 20;
/// The smallest usual block, where there is little memory.
const SMALLEST_BLOCK: usize = 1 << 16;
/// What is read ahead at most, for each thread.
const AHEAD: usize = 16 << 20;

/// How jobs are run.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// The number of threads that work.
    pub threads: usize,
    /// About so many bytes of memory may be used, beyond what one document needs.
    pub max_memory: usize,
    /// About so many bytes go into a block; 0 leaves it to the amount of memory.
    pub block_bytes: usize,
}

/// Who is told what happens. An error of theirs ends the run.
pub trait Watch {
    /// A shard is complete, synced and under its name.
    fn shard(&mut self, report: &ShardReport) -> Result<()>;

    /// Called a few times a second.
    fn progress(&mut self, progress: &Progress) -> Result<()>;
}

/// Opens the writer of one output of the shard of this name.
pub(crate) type Open<'a> = dyn Fn(&Output, &Path, &str) -> Result<Box<dyn ShardWriter>> + Sync + 'a;

/// Make the shards of these jobs.
pub fn run(
    tokenizer: &Tokenizer,
    jobs: &[Job],
    options: &Options,
    watch: &mut dyn Watch,
) -> Result<()> {
    run_with(tokenizer, jobs, options, &crate::write::open, watch)
}

/// [`run`] with writers of any kind.
pub(crate) fn run_with(
    tokenizer: &Tokenizer,
    jobs: &[Job],
    options: &Options,
    open: &Open<'_>,
    watch: &mut dyn Watch,
) -> Result<()> {
    let threads = options.threads.max(1);
    let (events, heard) = mpsc::channel();
    let (close, closings) = mpsc::channel();
    let run = Run::new(tokenizer, jobs, options, open)?;
    thread::scope(|scope| {
        let run = &run;
        for _ in 0..threads {
            let close = close.clone();
            scope.spawn(move || {
                let _alarm = Alarm(run);
                run.fail_on(run.work(&close));
            });
        }
        drop(close);
        scope.spawn(move || {
            let _alarm = Alarm(run);
            run.close(&closings, &events);
        });
        run.listen(&heard, watch);
    });
    match lock(&run.state).failed.take() {
        Some(error) => Err(error),
        None => Ok(()),
    }
}

/// One call.
struct Run<'a> {
    tokenizer: &'a Tokenizer,
    jobs: &'a [Job],
    open: &'a Open<'a>,
    threads: usize,
    block_bytes: usize,
    /// What may be held of what was read and not written.
    window: usize,
    state: Mutex<State<'a>>,
    /// Something else can be done now.
    changed: Condvar,
    stopped: AtomicBool,
    counts: Counts,
    read_bytes: Arc<AtomicU64>,
}

/// What is to be done. Changed under one lock, a few times for each block.
struct State<'a> {
    /// The job to be begun next.
    next_job: usize,
    /// Jobs that were begun and are not complete.
    lanes: Vec<Standing<'a>>,
    /// Blocks to be encoded.
    ready: VecDeque<Task<'a>>,
    /// Bytes of what was read and is not written.
    held: usize,
    /// Memory to be used again.
    rooms: Vec<Room>,
    buffers: Vec<Vec<u8>>,
    failed: Option<Error>,
}

/// A block on its way.
struct Task<'a> {
    lane: Arc<Lane<'a>>,
    /// Which block of the job it is.
    number: u64,
    block: Block,
    /// So many bytes of memory are held by it.
    held: usize,
}

/// What a thread does next.
enum Next<'a> {
    Read(Arc<Lane<'a>>, Block),
    Encode(Task<'a>, Room),
    End,
}

/// What the caller is told.
enum Event {
    Shard(Box<ShardReport>),
}

impl<'a> Run<'a> {
    fn new(
        tokenizer: &'a Tokenizer,
        jobs: &'a [Job],
        options: &Options,
        open: &'a Open<'a>,
    ) -> Result<Run<'a>> {
        let threads = options.threads.max(1);
        let window = (options.max_memory / 4).min(AHEAD * (threads + 1));
        let block_bytes = match options.block_bytes {
            0 => (window / (4 * threads)).clamp(SMALLEST_BLOCK, BLOCK),
            bytes => bytes,
        };
        for job in jobs {
            Encoder::new(tokenizer, job)?;
        }
        Ok(Run {
            tokenizer,
            jobs,
            open,
            threads,
            block_bytes,
            window: window.max(2 * threads * block_bytes),
            state: Mutex::new(State {
                next_job: 0,
                lanes: Vec::new(),
                ready: VecDeque::new(),
                held: 0,
                rooms: Vec::new(),
                buffers: Vec::new(),
                failed: None,
            }),
            changed: Condvar::new(),
            stopped: AtomicBool::new(false),
            counts: Counts::default(),
            read_bytes: Arc::new(AtomicU64::new(0)),
        })
    }

    /// What each thread does until there is nothing more to do.
    fn work(&self, close: &Sender<Closing<'a>>) -> Result<()> {
        let mut encoder: Option<(usize, Encoder<'a>)> = None;
        loop {
            match self.next() {
                Next::End => return Ok(()),
                Next::Read(lane, block) => self.read(&lane, block, close)?,
                Next::Encode(mut task, mut room) => {
                    let own = match &mut encoder {
                        Some((index, encoder)) if *index == task.lane.index => encoder,
                        other => {
                            let made = Encoder::new(self.tokenizer, task.lane.job)?;
                            &mut other.insert((task.lane.index, made)).1
                        }
                    };
                    let wanted = own.encode(&mut task.block, &mut room, &self.counts)?;
                    self.encoded(task, room, wanted, close)?;
                }
            }
        }
    }

    /// Wait for something to do.
    fn next(&self) -> Next<'a> {
        let mut state = lock(&self.state);
        loop {
            if self.stopped.load(Ordering::Relaxed) {
                return Next::End;
            }
            // As many blocks as there are threads are kept ready, so that whoever reads keeps all busy.
            if state.ready.len() < self.threads
                && let Some(lane) = self.to_read(&mut state)
            {
                let mut block = Block::default();
                block.bytes = state.buffers.pop().unwrap_or_default();
                return Next::Read(lane, block);
            }
            if let Some(task) = state.ready.pop_front() {
                let room = state.rooms.pop().unwrap_or_default();
                return Next::Encode(task, room);
            }
            if state.lanes.is_empty() && state.next_job == self.jobs.len() {
                return Next::End;
            }
            state = wait(&self.changed, state);
        }
    }

    /// A job of which a block can be read now.
    fn to_read(&self, state: &mut State<'a>) -> Option<Arc<Lane<'a>>> {
        let full = state.held >= self.window;
        for standing in &mut state.lanes {
            // The oldest block of a job can always be read, so that no job waits for another.
            let may_read = !full || !standing.waits_for_blocks();
            if may_read && !standing.reading && !standing.exhausted {
                standing.reading = true;
                return Some(Arc::clone(&standing.lane));
            }
        }
        if full || state.lanes.len() >= self.threads {
            return None;
        }
        let index = state.next_job;
        let job = self.jobs.get(index)?;
        state.next_job += 1;
        let lane = Arc::new(Lane::new(
            index,
            job,
            self.block_bytes,
            Arc::clone(&self.read_bytes),
        ));
        let mut standing = Standing::new(Arc::clone(&lane));
        standing.reading = true;
        state.lanes.push(standing);
        Some(lane)
    }

    fn read(
        &self,
        lane: &Arc<Lane<'a>>,
        mut block: Block,
        close: &Sender<Closing<'a>>,
    ) -> Result<()> {
        let found = self
            .counts
            .timed(Stage::Read, || lock(&lane.reader).next(&mut block))?;
        let mut state = lock(&self.state);
        let held = block.held();
        let Some(standing) = standing_of(&mut state.lanes, lane.index) else {
            return Ok(());
        };
        standing.reading = false;
        if found {
            let number = standing.read;
            standing.read += 1;
            state.held += held;
            state.ready.push_back(Task {
                lane: Arc::clone(lane),
                number,
                block,
                held,
            });
        } else {
            standing.exhausted = true;
        }
        self.write(state, lane, close)
    }

    fn encoded(
        &self,
        mut task: Task<'a>,
        room: Room,
        wanted: bool,
        close: &Sender<Closing<'a>>,
    ) -> Result<()> {
        let mut state = lock(&self.state);
        if !wanted {
            self.keep(&mut state, std::mem::take(&mut task.block.bytes));
        }
        let held = task.block.held() + room.held();
        state.held = state.held.saturating_sub(task.held) + held;
        if let Some(standing) = standing_of(&mut state.lanes, task.lane.index) {
            standing.done.insert(task.number, (task.block, room));
        }
        self.write(state, &task.lane, close)
    }

    /// Write whatever of a job is next in order, unless another thread does it already.
    fn write<'r>(
        &'r self,
        mut state: MutexGuard<'r, State<'a>>,
        lane: &Arc<Lane<'a>>,
        close: &Sender<Closing<'a>>,
    ) -> Result<()> {
        while let Some(standing) = standing_of(&mut state.lanes, lane.index) {
            if standing.writing {
                break;
            }
            let next = standing.done.remove(&standing.written);
            if next.is_none() && !standing.is_over() {
                break;
            }
            standing.writing = true;
            let over = next.is_none();
            drop(state);
            self.changed.notify_all();
            let mut shards = lock(&lane.shards);
            let closings = self.counts.timed(Stage::Write, || match &next {
                Some((block, room)) => shards.write(block, room, self.open),
                None => shards.end(self.open).map(Vec::from_iter),
            })?;
            drop(shards);
            state = lock(&self.state);
            if let Some((block, room)) = next {
                state.held = state.held.saturating_sub(block.held() + room.held());
                self.keep(&mut state, block.bytes);
                if state.rooms.len() < self.spare() && room.capacity() <= 8 * BLOCK {
                    state.rooms.push(room);
                }
            }
            let Some(standing) = standing_of(&mut state.lanes, lane.index) else {
                break;
            };
            standing.unclosed += closings.len();
            for closing in closings {
                // The other side is gone only when the run has failed.
                let _ = close.send(closing);
            }
            if over {
                standing.ended = true;
                forget_complete(&mut state);
                break;
            }
            standing.writing = false;
            standing.written += 1;
        }
        drop(state);
        self.changed.notify_all();
        Ok(())
    }

    /// Keep memory of the usual size for other blocks.
    fn keep(&self, state: &mut State<'a>, bytes: Vec<u8>) {
        let usual = (1..=4 * BLOCK).contains(&bytes.capacity());
        if usual && state.buffers.len() < self.spare() {
            state.buffers.push(bytes);
        }
    }

    /// The most things of a kind that are kept.
    fn spare(&self) -> usize {
        2 * self.threads + 2
    }

    /// Sync and rename complete shards, in the order in which they come.
    fn close(&self, closings: &Receiver<Closing<'a>>, events: &Sender<Event>) {
        for closing in closings {
            if self.stopped.load(Ordering::Relaxed) {
                continue;
            }
            let lane = closing.lane;
            match self.counts.timed(Stage::Sync, || closing.close()) {
                Ok(report) => {
                    let _ = events.send(Event::Shard(Box::new(report)));
                }
                Err(error) => self.fail_on(Err(error)),
            }
            let mut state = lock(&self.state);
            if let Some(standing) = standing_of(&mut state.lanes, lane) {
                standing.unclosed -= 1;
            }
            forget_complete(&mut state);
            drop(state);
            self.changed.notify_all();
        }
    }

    /// Tell the caller what happens, until all is done.
    fn listen(&self, heard: &Receiver<Event>, watch: &mut dyn Watch) {
        loop {
            let told = match heard.recv_timeout(BETWEEN_LOOKS) {
                Ok(Event::Shard(report)) => watch.shard(&report),
                Err(RecvTimeoutError::Timeout) => {
                    watch.progress(&self.counts.progress(&self.read_bytes))
                }
                Err(RecvTimeoutError::Disconnected) => break,
            };
            if told.is_err() {
                self.fail_on(told);
                // Shards that were renamed before the run stopped are known to the caller all the same.
                for Event::Shard(report) in heard {
                    self.fail_on(watch.shard(&report));
                }
                return;
            }
        }
        self.fail_on(watch.progress(&self.counts.progress(&self.read_bytes)));
    }

    /// End the run if this is an error. The first one counts.
    fn fail_on(&self, result: Result<()>) {
        if let Err(error) = result {
            let mut state = lock(&self.state);
            state.failed.get_or_insert(error);
            // Under the lock, so that nobody begins to wait who has not seen it.
            self.stopped.store(true, Ordering::Relaxed);
            drop(state);
            self.changed.notify_all();
        }
    }
}

/// Ends the run when its thread panics, for the others would wait for what never comes.
struct Alarm<'r, 'a>(&'r Run<'a>);

impl Drop for Alarm<'_, '_> {
    fn drop(&mut self) {
        if thread::panicking() {
            self.0.fail_on(Err(Error::Interrupted));
        }
    }
}

fn standing_of<'s, 'a>(
    lanes: &'s mut [Standing<'a>],
    index: usize,
) -> Option<&'s mut Standing<'a>> {
    lanes
        .iter_mut()
        .find(|standing| standing.lane.index == index)
}

/// Forget the jobs of which everything is in place.
fn forget_complete(state: &mut State<'_>) {
    state
        .lanes
        .retain(|standing| !(standing.ended && standing.unclosed == 0));
}

/// A thread that panicked takes the whole run along; what it held is not used any more.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn wait<'g, T>(condition: &Condvar, guard: MutexGuard<'g, T>) -> MutexGuard<'g, T> {
    condition
        .wait(guard)
        .unwrap_or_else(PoisonError::into_inner)
}
