//! Sorted words and counts in a file: what [`WordCounts`](super::WordCounts) are saved as, and where
//! they go when memory is full.
//!
//! A line that says what the file is, a line of JSON (the recipe and whether words know where they
//! were first seen), then for each word its length, its bytes, its count and, if known, its place,
//! numbers as LEB128; a length of 0 ends the words, and the number of words, their sum, how far the
//! texts went (eight bytes each, little-endian) and a CRC-32 of all before it follow. Words ascend, so that files of any
//! size are merged in one pass. A reader checks all of it. Tested by round trips and by cutting and
//! changing files.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fs::{File, OpenOptions};
use std::hash::{BuildHasher, RandomState};
use std::io::{BufReader, BufWriter, ErrorKind, Read, Seek, Write};
use std::path::{Path, PathBuf};

use flate2::Crc;
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};

use super::recipe::Recipe;
use super::table::{Entry, Table};

const MAGIC: &[u8] = b"gristmill word counts 1\n";
const BUFFER: usize = 1 << 16;
/// No line of JSON is longer, or the file is something else.
const LONGEST_HEADER: usize = 1 << 24;

/// The first part of a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Header {
    pub(super) recipe: Recipe,
    pub(super) ordered: bool,
}

/// Writes words, which must ascend.
pub(super) struct Writer<W: Write> {
    out: BufWriter<W>,
    crc: Crc,
    ordered: bool,
    words: u64,
    sum: u64,
}

impl<W: Write> Writer<W> {
    pub(super) fn new(out: W, header: &Header) -> std::io::Result<Writer<W>> {
        let mut writer = Writer {
            out: BufWriter::with_capacity(BUFFER, out),
            crc: Crc::new(),
            ordered: header.ordered,
            words: 0,
            sum: 0,
        };
        writer.put(MAGIC)?;
        let mut line = serde_json::to_vec(header)?;
        line.push(b'\n');
        writer.put(&line)?;
        Ok(writer)
    }

    fn put(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        self.crc.update(bytes);
        self.out.write_all(bytes)
    }

    fn put_number(&mut self, mut number: u64) -> std::io::Result<()> {
        let mut bytes = [0; 10];
        let mut length = 0;
        while number >= 0x80 {
            bytes[length] = number as u8 | 0x80;
            number >>= 7;
            length += 1;
        }
        bytes[length] = number as u8;
        self.put(&bytes[..=length])
    }

    pub(super) fn word(&mut self, entry: Entry<'_>) -> std::io::Result<()> {
        self.put_number(entry.word.len() as u64)?;
        self.put(entry.word)?;
        self.put_number(entry.count)?;
        if self.ordered {
            self.put_number(entry.first)?;
        }
        self.words += 1;
        self.sum = self.sum.saturating_add(entry.count);
        Ok(())
    }

    /// Write what stands at the end: how far the texts went is for the caller to say.
    pub(super) fn finish(mut self, position: u64) -> std::io::Result<u64> {
        self.put_number(0)?;
        for number in [self.words, self.sum, position] {
            self.put(&number.to_le_bytes())?;
        }
        let crc = self.crc.sum();
        self.out.write_all(&crc.to_le_bytes())?;
        self.out.flush()?;
        Ok(self.words)
    }
}

/// Reads words one after the other.
pub(super) struct Reader {
    path: PathBuf,
    file: BufReader<File>,
    crc: Crc,
    pub(super) header: Header,
    word: Vec<u8>,
    count: u64,
    first: u64,
    words: u64,
    sum: u64,
    /// How far the texts went, once the end was read.
    pub(super) position: u64,
}

impl Reader {
    pub(super) fn open(path: &Path) -> Result<Reader> {
        let file = File::open(path).map_err(|source| Error::Io {
            path: path.to_owned(),
            source,
        })?;
        Reader::new(file, path)
    }

    fn new(file: File, path: &Path) -> Result<Reader> {
        let mut reader = Reader {
            path: path.to_owned(),
            file: BufReader::with_capacity(BUFFER, file),
            crc: Crc::new(),
            header: Header {
                recipe: Recipe::none(),
                ordered: false,
            },
            word: Vec::new(),
            count: 0,
            first: 0,
            words: 0,
            sum: 0,
            position: 0,
        };
        let mut magic = [0; MAGIC.len()];
        if reader.take(&mut magic).is_err() || magic != MAGIC {
            return Err(Error::format(format!(
                "{}: this is no file of word counts",
                path.display()
            )));
        }
        let mut line = Vec::new();
        loop {
            let mut byte = [0];
            reader.take(&mut byte)?;
            if byte == *b"\n" {
                break;
            }
            line.extend_from_slice(&byte);
            if line.len() > LONGEST_HEADER {
                return Err(reader.broken("its header is too long"));
            }
        }
        reader.header = serde_json::from_slice(&line)
            .map_err(|error| reader.broken(&format!("its header: {error}")))?;
        Ok(reader)
    }

    fn broken(&self, what: &str) -> Error {
        let path = self.path.display();
        Error::format(format!("{path}: the word counts are broken: {what}"))
    }

    fn take(&mut self, bytes: &mut [u8]) -> Result<()> {
        match self.file.read_exact(bytes) {
            Ok(()) => {
                self.crc.update(bytes);
                Ok(())
            }
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => {
                Err(self.broken("the file is cut off"))
            }
            Err(source) => Err(Error::Io {
                path: self.path.clone(),
                source,
            }),
        }
    }

    fn number(&mut self) -> Result<u64> {
        let mut number = 0;
        for shift in (0..64).step_by(7) {
            let mut byte = [0];
            self.take(&mut byte)?;
            number |= u64::from(byte[0] & 0x7F) << shift;
            if byte[0] < 0x80 {
                return Ok(number);
            }
        }
        Err(self.broken("a number is too large"))
    }

    /// Read the next word; false after the last.
    pub(super) fn next(&mut self) -> Result<bool> {
        let length = self.number()?;
        if length == 0 {
            self.end()?;
            return Ok(false);
        }
        let length = usize::try_from(length)
            .ok()
            .filter(|&length| length < 1 << 32)
            .ok_or_else(|| self.broken("a word is too long"))?;
        let before = std::mem::take(&mut self.word);
        let mut word = Vec::new();
        // As much is asked for as there is, whatever the file says.
        while word.len() < length {
            let start = word.len();
            word.resize(length.min(start + BUFFER), 0);
            self.take(&mut word[start..])?;
        }
        if self.words > 0 && before >= word {
            return Err(self.broken("the words do not ascend"));
        }
        self.word = word;
        self.count = self.number()?;
        if self.count == 0 {
            return Err(self.broken("a word has no count"));
        }
        if self.header.ordered {
            self.first = self.number()?;
        }
        self.words += 1;
        self.sum = self.sum.saturating_add(self.count);
        Ok(true)
    }

    fn end(&mut self) -> Result<()> {
        let mut numbers = [[0; 8]; 3];
        for number in &mut numbers {
            self.take(number)?;
        }
        let crc = self.crc.sum().to_le_bytes();
        let mut said = [0; 4];
        self.take(&mut said)?;
        let [words, sum, position] = numbers.map(u64::from_le_bytes);
        if said != crc || (words, sum) != (self.words, self.sum) {
            return Err(self.broken("its checksum differs"));
        }
        self.position = position;
        Ok(())
    }

    /// The word last read.
    pub(super) fn entry(&self) -> Entry<'_> {
        Entry {
            word: &self.word,
            count: self.count,
            first: self.first,
        }
    }
}

/// A file of sorted words without a name: it goes when this goes, or the process, however it ends.
pub(super) struct Run {
    file: File,
    /// Where it was made.
    path: PathBuf,
}

impl Run {
    /// Write a run in `folder`.
    pub(super) fn write(
        folder: &Path,
        header: &Header,
        fill: impl FnOnce(&mut Writer<&File>) -> Result<()>,
    ) -> Result<Run> {
        let (file, path) = create(folder)?;
        let run = Run { file, path };
        let io = |source| Error::Io {
            path: run.path.clone(),
            source,
        };
        std::fs::remove_file(&run.path).map_err(io)?;
        let mut writer = Writer::new(&run.file, header).map_err(io)?;
        fill(&mut writer)?;
        writer.finish(0).map_err(io)?;
        Ok(run)
    }

    /// Write the words of a table in `folder`.
    pub(super) fn of_table(folder: &Path, header: &Header, table: &Table) -> Result<Run> {
        let io = |source| Error::Io {
            path: folder.to_owned(),
            source,
        };
        Run::write(folder, header, |writer| {
            for at in table.sorted() {
                table
                    .give(at as usize, |entry| writer.word(entry))
                    .map_err(io)?;
            }
            Ok(())
        })
    }

    /// Read it from the beginning. It is read once at a time.
    fn read(&self) -> Result<Reader> {
        let io = |source| Error::Io {
            path: self.path.clone(),
            source,
        };
        let mut file = self.file.try_clone().map_err(io)?;
        file.rewind().map_err(io)?;
        Reader::new(file, &self.path)
    }
}

/// A new file of a name that was not there.
fn create(folder: &Path) -> Result<(File, PathBuf)> {
    loop {
        let number = RandomState::new().hash_one(std::process::id());
        let path = folder.join(format!("gristmill-{number:016x}.counts"));
        let new = OpenOptions::new()
            .read(true)
            .write(true)
            .create_new(true)
            .open(&path);
        match new {
            Ok(file) => return Ok((file, path)),
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            Err(source) => return Err(Error::Io { path, source }),
        }
    }
}

/// Give `found` every word of a table and of some runs, each once, in order.
pub(super) fn merged(
    table: &Table,
    runs: &[Run],
    found: &mut dyn FnMut(Entry<'_>) -> Result<()>,
) -> Result<()> {
    let mut readers = runs.iter().map(Run::read).collect::<Result<Vec<_>>>()?;
    let sorted = table.sorted();
    let mut of_table = sorted.iter();
    // The next word of each source; the table is the one after the readers.
    let mut heap: BinaryHeap<Reverse<(Vec<u8>, usize)>> = BinaryHeap::new();
    let mut waiting = vec![(0u64, 0u64); readers.len() + 1];
    for source in 0..=readers.len() {
        advance(
            source,
            &mut readers,
            table,
            &mut of_table,
            &mut waiting,
            &mut heap,
        )?;
    }
    while let Some(Reverse((word, source))) = heap.pop() {
        let (mut count, mut first) = waiting[source];
        advance(
            source,
            &mut readers,
            table,
            &mut of_table,
            &mut waiting,
            &mut heap,
        )?;
        while let Some(Reverse((same, other))) = heap.peek()
            && *same == word
        {
            let other = *other;
            count = waiting[other].0.saturating_add(count);
            first = first.min(waiting[other].1);
            heap.pop();
            advance(
                other,
                &mut readers,
                table,
                &mut of_table,
                &mut waiting,
                &mut heap,
            )?;
        }
        found(Entry {
            word: &word,
            count,
            first,
        })?;
    }
    Ok(())
}

/// Put the next word of a source on the heap.
fn advance(
    source: usize,
    readers: &mut [Reader],
    table: &Table,
    of_table: &mut std::slice::Iter<'_, u32>,
    waiting: &mut [(u64, u64)],
    heap: &mut BinaryHeap<Reverse<(Vec<u8>, usize)>>,
) -> Result<()> {
    let mut put = |entry: Entry<'_>| {
        waiting[source] = (entry.count, entry.first);
        heap.push(Reverse((entry.word.to_vec(), source)));
        Ok(())
    };
    match readers.get_mut(source) {
        Some(reader) => {
            if reader.next()? {
                put(reader.entry())?;
            }
        }
        None => {
            if let Some(&at) = of_table.next() {
                table.give(at as usize, put)?;
            }
        }
    }
    Ok(())
}
