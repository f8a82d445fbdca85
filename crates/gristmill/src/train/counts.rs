//! Word counts: built from texts on all cores, added up, saved, loaded, and kept within a limit.
//!
//! Each thread counts into a table of its own; in the end the tables become one. A table that would
//! outgrow its share of the limit is written to a sorted file ([`run`](super::run)) and begins anew;
//! whoever wants the words then gets them from a merge of the files. So the words and counts are
//! those of the texts, whatever the number of threads, the limit, or how the texts came. Little text
//! is counted without a thread. Tested against one table, here and from Python.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::Duration;

use crate::error::{Error, Result};
use crate::parallel;

use super::progress::{Progress, Stage};
use super::recipe::{PIECES_BETWEEN, Parity, Recipe, Splitter};
use super::run::{self, Header, Reader, Run, Writer};
use super::table::{Entry, Table};

/// Texts are handed to threads in batches of so many bytes.
pub const BATCH_BYTES: usize = 1 << 20;
/// More files than this are merged into one.
const MOST_RUNS: usize = 64;
/// How long to wait for a thread before the caller is asked whether to go on.
const PATIENCE: Duration = Duration::from_millis(50);

/// Where texts come from, and who wants to know how far they are.
pub trait Texts {
    /// A text.
    type Text: AsRef<str> + Send + Sync;

    /// Put texts of about [`BATCH_BYTES`] into `batch`, whose old ones nobody needs any more; false
    /// if there are no more after these.
    fn fill(&mut self, batch: &mut Vec<Self::Text>) -> Result<bool>;

    /// Called from time to time; an error ends the counting.
    fn look(&mut self, progress: &Progress) -> Result<()>;
}

/// Words and how often each was seen.
pub struct WordCounts {
    recipe: Recipe,
    counter: Counter,
    threads: usize,
    passed: Passed,
}

/// The texts that were taken.
#[derive(Clone, Copy, Default)]
struct Passed {
    texts: u64,
    bytes: u64,
    /// One more than the last byte of all texts, were they one with something between them.
    position: u64,
}

impl Passed {
    /// A text of so many bytes was taken.
    fn add(&mut self, length: usize) {
        self.texts += 1;
        self.bytes += length as u64;
        self.position += length as u64 + 1;
    }

    fn progress(&self, words: usize) -> Progress {
        Progress {
            stage: Stage::Counting,
            texts: self.texts,
            bytes: self.bytes,
            words: words as u64,
            ..Progress::default()
        }
    }
}

/// A table, and what it had no room for.
struct Counter {
    header: Header,
    table: Table,
    runs: Vec<Run>,
    budget: usize,
    folder: PathBuf,
    left_out: u64,
}

impl Counter {
    fn new(header: Header, budget: usize) -> Counter {
        Counter {
            table: Table::new(header.ordered),
            header,
            runs: Vec::new(),
            budget,
            folder: std::env::temp_dir(),
            left_out: 0,
        }
    }

    fn count(&mut self, splitter: &Splitter, text: &str, base: u64) -> Result<()> {
        let Counter {
            header,
            table,
            runs,
            budget,
            folder,
            ..
        } = self;
        let mut room =
            |table: &mut Table| make_room(table, runs, PIECES_BETWEEN, *budget, folder, header);
        if splitter.count(text, base, table, &mut room)? {
            self.left_out += 1;
        }
        Ok(())
    }

    fn make_room(&mut self, more: usize) -> Result<()> {
        let (table, runs) = (&mut self.table, &mut self.runs);
        make_room(table, runs, more, self.budget, &self.folder, &self.header)
    }

    /// Take in what another has counted.
    fn absorb(&mut self, mut other: Counter) -> Result<()> {
        self.left_out += other.left_out;
        self.runs.append(&mut other.runs);
        if self.table.len() < other.table.len() {
            std::mem::swap(&mut self.table, &mut other.table);
        }
        let rest = self.budget.saturating_sub(other.table.bytes());
        if self.table.would_outgrow(other.table.len(), rest) && other.table.len() > 0 {
            let run = Run::of_table(&self.folder, &self.header, &other.table)?;
            self.runs.push(run);
            return self.few_runs();
        }
        let table = &mut self.table;
        other.table.for_each(|entry| {
            table.add(entry.word, entry.count, entry.first);
            Ok(())
        })
    }

    fn few_runs(&mut self) -> Result<()> {
        few_runs(&mut self.runs, &self.folder, &self.header)
    }

    fn for_each(&self, found: &mut dyn FnMut(Entry<'_>) -> Result<()>) -> Result<()> {
        if self.runs.is_empty() {
            return self.table.for_each(found);
        }
        run::merged(&self.table, &self.runs, found)
    }
}

/// Write the table to a file if it might outgrow the budget.
fn make_room(
    table: &mut Table,
    runs: &mut Vec<Run>,
    more: usize,
    budget: usize,
    folder: &Path,
    header: &Header,
) -> Result<()> {
    if table.len() == 0 || !table.would_outgrow(more, budget) {
        return Ok(());
    }
    runs.push(Run::of_table(folder, header, table)?);
    table.clear();
    few_runs(runs, folder, header)
}

/// Merge the files if there are too many to have open at once.
fn few_runs(runs: &mut Vec<Run>, folder: &Path, header: &Header) -> Result<()> {
    if runs.len() < MOST_RUNS {
        return Ok(());
    }
    let nothing = Table::new(header.ordered);
    let one = Run::write(folder, header, |writer| {
        run::merged(&nothing, runs, &mut |entry| {
            writer.word(entry).map_err(|source| Error::Io {
                path: folder.to_owned(),
                source,
            })
        })
    })?;
    *runs = vec![one];
    Ok(())
}

impl WordCounts {
    pub(super) fn new(recipe: Recipe, threads: usize, limit: Option<usize>) -> WordCounts {
        let header = Header {
            ordered: recipe.is_ordered(),
            recipe: recipe.clone(),
        };
        WordCounts {
            counter: Counter::new(header, limit.unwrap_or(usize::MAX)),
            recipe,
            threads,
            passed: Passed::default(),
        }
    }

    /// The number of texts counted.
    pub fn texts(&self) -> u64 {
        self.passed.texts
    }

    /// The bytes of these texts.
    pub fn bytes(&self) -> u64 {
        self.passed.bytes
    }

    /// The texts that the rules of SentencePiece leave out: too long, or with U+2585.
    pub fn left_out(&self) -> u64 {
        self.counter.left_out
    }

    /// Count the words of texts.
    pub fn add<T: Texts>(&mut self, source: &mut T) -> Result<()> {
        let splitter = Splitter::new(&self.recipe)?;
        let mut batch = Vec::new();
        let more = source.fill(&mut batch)?;
        if !more && size(&batch) <= BATCH_BYTES {
            return self.add_here(&splitter, &batch);
        }
        match parallel::limit(self.threads) {
            1 => self.add_alone(&splitter, source, (batch, more)),
            threads => self.add_with(&splitter, source, (batch, more), threads),
        }
    }

    fn add_here<S: AsRef<str>>(&mut self, splitter: &Splitter, batch: &[S]) -> Result<()> {
        for text in batch {
            let text = text.as_ref();
            self.counter.count(splitter, text, self.passed.position)?;
            self.passed.add(text.len());
        }
        Ok(())
    }

    fn add_alone<T: Texts>(
        &mut self,
        splitter: &Splitter,
        source: &mut T,
        (mut batch, mut more): (Vec<T::Text>, bool),
    ) -> Result<()> {
        loop {
            self.add_here(splitter, &batch)?;
            source.look(&self.passed.progress(self.counter.table.len()))?;
            if !more {
                return Ok(());
            }
            more = source.fill(&mut batch)?;
        }
    }

    /// Count on several threads; this one fetches the texts.
    fn add_with<T: Texts>(
        &mut self,
        splitter: &Splitter,
        source: &mut T,
        first: (Vec<T::Text>, bool),
        threads: usize,
    ) -> Result<()> {
        let share = self.counter.budget / (threads + 1);
        let header = &self.counter.header;
        let (work, waiting) = channel();
        let (back, free) = channel();
        let shared = Shared {
            waiting: Mutex::new(waiting),
            failed: AtomicBool::new(false),
            most_words: AtomicUsize::new(0),
        };
        let passed = &mut self.passed;
        let counters = thread::scope(|scope| {
            let workers: Vec<_> = (0..threads)
                .filter_map(|_| {
                    let (back, shared) = (back.clone(), &shared);
                    let counter = Counter::new(header.clone(), share);
                    let run = || counter.work(splitter, shared, back);
                    thread::Builder::new().spawn_scoped(scope, run).ok()
                })
                .collect();
            drop(back);
            let most = workers.len() * 2;
            let fetched = fetch(source, first, &work, &free, most, passed, &shared);
            drop(work);
            let done: Result<Vec<Counter>> = workers
                .into_iter()
                .map(|worker| match worker.join() {
                    Ok(counter) => counter,
                    Err(panic) => std::panic::resume_unwind(panic),
                })
                .collect();
            // What a thread failed for is the reason why fetching ended.
            done.and_then(|done| fetched.map(|()| done))
        })?;
        counters
            .into_iter()
            .try_for_each(|counter| self.counter.absorb(counter))
    }

    /// Count a word so many times; for SentencePiece a text, normalised and cut as any other.
    pub fn add_word(&mut self, word: &[u8], times: u64) -> Result<()> {
        let splitter = Splitter::new(&self.recipe)?;
        self.add_counted(&splitter, word, times)
    }

    fn add_counted(&mut self, splitter: &Splitter, word: &[u8], times: u64) -> Result<()> {
        if word.len() >= 1 << 31 {
            return Err(Error::unsupported("a word of 2 GiB or more"));
        }
        self.counter.make_room(PIECES_BETWEEN)?;
        let place = self.passed.position;
        let table = &mut self.counter.table;
        if splitter.count_word(word, times, place, table) {
            self.counter.left_out += 1;
        }
        self.passed.position += word.len() as u64 + 1;
        Ok(())
    }

    /// Add the lines of a file: a word, a tab, and how often it was seen.
    pub fn add_tsv(&mut self, path: &Path) -> Result<()> {
        let io = |source| Error::Io {
            path: path.to_owned(),
            source,
        };
        let splitter = Splitter::new(&self.recipe)?;
        let mut file = BufReader::new(File::open(path).map_err(io)?);
        let mut line = Vec::new();
        for number in 1u64.. {
            line.clear();
            if file.read_until(b'\n', &mut line).map_err(io)? == 0 {
                break;
            }
            let content = line.strip_suffix(b"\n").unwrap_or(&line);
            let content = content.strip_suffix(b"\r").unwrap_or(content);
            if content.is_empty() {
                continue;
            }
            let (word, times) = word_and_count(content).ok_or_else(|| {
                Error::format(format!(
                    "{}: line {number} is not a word, a tab and its count",
                    path.display()
                ))
            })?;
            self.add_counted(&splitter, word, times)?;
        }
        Ok(())
    }

    /// Add what others have counted. Fails if they cut texts in another way.
    pub fn merge(&mut self, other: &WordCounts) -> Result<()> {
        self.check(&other.recipe, "the other word counts")?;
        let position = self.passed.position;
        let counter = &mut self.counter;
        other
            .counter
            .for_each(&mut |entry| counter.take_in(entry, position))?;
        self.counter.left_out += other.counter.left_out;
        self.passed.texts += other.passed.texts;
        self.passed.bytes += other.passed.bytes;
        self.passed.position += other.passed.position;
        Ok(())
    }

    /// Fails if the recipe is another.
    pub(super) fn check(&self, recipe: &Recipe, whose: &str) -> Result<()> {
        if *recipe == self.recipe {
            return Ok(());
        }
        let show = |recipe: &Recipe| serde_json::to_string(recipe).unwrap_or_default();
        Err(Error::unsupported(format!(
            "{whose}, which cut texts in another way: {} is not {}",
            show(recipe),
            show(&self.recipe)
        )))
    }

    /// Write the words to a file, in their order; it appears whole or not at all.
    pub fn save(&self, path: &Path) -> Result<()> {
        let io = |source| Error::Io {
            path: path.to_owned(),
            source,
        };
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let aside = path.with_file_name(format!(".{name}.{}", std::process::id()));
        let written = File::create(&aside)
            .map_err(io)
            .and_then(|file| self.write(file, io))
            .and_then(|()| std::fs::rename(&aside, path).map_err(io));
        if written.is_err() {
            // What is left of a failed attempt is in nobody's way, should this fail too.
            let _ = std::fs::remove_file(&aside);
        }
        written
    }

    fn write(&self, file: File, io: impl Fn(std::io::Error) -> Error) -> Result<()> {
        let mut writer = Writer::new(file, &self.counter.header).map_err(&io)?;
        run::merged(&self.counter.table, &self.counter.runs, &mut |entry| {
            writer.word(entry).map_err(&io)
        })?;
        writer.finish(self.passed.position).map_err(io)?;
        Ok(())
    }

    /// Read what [`save`](WordCounts::save) wrote.
    pub fn load(path: &Path, threads: usize, limit: Option<usize>) -> Result<WordCounts> {
        let mut reader = Reader::open(path)?;
        let header = reader.header.clone();
        if header.ordered != header.recipe.is_ordered() {
            return Err(Error::format(format!(
                "{}: the word counts are broken",
                path.display()
            )));
        }
        let mut counts = WordCounts::new(header.recipe, threads, limit);
        while reader.next()? {
            counts.counter.take_in(reader.entry(), 0)?;
        }
        counts.passed.position = reader.position;
        Ok(counts)
    }

    /// The number of different words. Words in files are merged to know it.
    pub fn len(&self) -> Result<usize> {
        if self.counter.runs.is_empty() {
            return Ok(self.counter.table.len());
        }
        let mut words = 0;
        self.for_each(&mut |_, _| {
            words += 1;
            Ok(())
        })?;
        Ok(words)
    }

    /// Whether there are no words.
    pub fn is_empty(&self) -> bool {
        self.counter.runs.is_empty() && self.counter.table.len() == 0
    }

    /// Give `found` each word and its count; in no order, or where words are in files, in theirs.
    pub fn for_each(&self, found: &mut dyn FnMut(&[u8], u64) -> Result<()>) -> Result<()> {
        self.entries(&mut |entry| found(entry.word, entry.count))
    }

    pub(super) fn entries(&self, found: &mut dyn FnMut(Entry<'_>) -> Result<()>) -> Result<()> {
        self.counter.for_each(found)
    }

    /// The number of files that words were written to for want of memory.
    pub fn files(&self) -> usize {
        self.counter.runs.len()
    }

    /// Whose way of cutting texts this is.
    pub fn parity(&self) -> Parity {
        self.recipe.parity
    }
}

/// What threads that count have in common.
struct Shared<T> {
    waiting: Mutex<Receiver<(u64, Vec<T>)>>,
    failed: AtomicBool,
    most_words: AtomicUsize,
}

impl Counter {
    /// Count batches until there are no more.
    fn work<T: AsRef<str>>(
        mut self,
        splitter: &Splitter,
        shared: &Shared<T>,
        back: Sender<Vec<T>>,
    ) -> Result<Counter> {
        loop {
            let received = match shared.waiting.lock() {
                Ok(waiting) => waiting.recv(),
                // Another thread panicked; it will say so.
                Err(_) => return Ok(self),
            };
            let Ok((mut base, batch)) = received else {
                return Ok(self);
            };
            for text in &batch {
                let text = text.as_ref();
                if let Err(error) = self.count(splitter, text, base) {
                    shared.failed.store(true, Ordering::Relaxed);
                    return Err(error);
                }
                base += text.len() as u64 + 1;
            }
            shared
                .most_words
                .fetch_max(self.table.len(), Ordering::Relaxed);
            // Whoever fetches texts may have stopped.
            let _ = back.send(batch);
        }
    }

    /// Add a word that was counted elsewhere, where its place was so much earlier.
    fn take_in(&mut self, entry: Entry<'_>, later: u64) -> Result<()> {
        self.make_room(1)?;
        let place = entry.first.saturating_add(later);
        self.table.add(entry.word, entry.count, place);
        Ok(())
    }
}

/// Hand out texts until there are no more; at most so many batches are on their way.
fn fetch<T: Texts>(
    source: &mut T,
    (mut batch, mut more): (Vec<T::Text>, bool),
    work: &Sender<(u64, Vec<T::Text>)>,
    free: &Receiver<Vec<T::Text>>,
    most: usize,
    passed: &mut Passed,
    shared: &Shared<T::Text>,
) -> Result<()> {
    let mut on_their_way = 0;
    loop {
        let base = passed.position;
        batch
            .iter()
            .for_each(|text| passed.add(text.as_ref().len()));
        if work.send((base, batch)).is_err() {
            return Ok(());
        }
        on_their_way += 1;
        if !more {
            break;
        }
        batch = Vec::new();
        while on_their_way >= most || batch.capacity() == 0 {
            source.look(&passed.progress(shared.most_words.load(Ordering::Relaxed)))?;
            if shared.failed.load(Ordering::Relaxed) {
                return Ok(());
            }
            if on_their_way < most {
                batch = free
                    .try_recv()
                    .inspect(|_| on_their_way -= 1)
                    .unwrap_or_default();
                break;
            }
            if let Ok(done) = free.recv_timeout(PATIENCE) {
                on_their_way -= 1;
                batch = done;
            }
        }
        more = source.fill(&mut batch)?;
    }
    while on_their_way > 0 && !shared.failed.load(Ordering::Relaxed) {
        source.look(&passed.progress(shared.most_words.load(Ordering::Relaxed)))?;
        match free.recv_timeout(PATIENCE) {
            Ok(_) => on_their_way -= 1,
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => break,
        }
    }
    Ok(())
}

/// A line of words and counts, taken apart.
fn word_and_count(line: &[u8]) -> Option<(&[u8], u64)> {
    let tab = memchr::memrchr(b'\t', line)?;
    let (word, count) = (&line[..tab], &line[tab + 1..]);
    if word.is_empty() || !count.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let count = std::str::from_utf8(count).ok()?.parse().ok()?;
    (count > 0).then_some((word, count))
}

fn size<S: AsRef<str>>(batch: &[S]) -> usize {
    batch.iter().map(|text| text.as_ref().len()).sum()
}
