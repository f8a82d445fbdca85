//! A file read at any place, through a buffer that makes reading on cheap.
//!
//! Positioned reads and no memory maps: a file that is cut off under way is an error here, and not the end
//! of the process. Invariant: what is asked for comes whole, or is an error with the path and the place.
//! Tested with cut files of every format.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use crate::write::Width;
use crate::{Error, Result};

/// Bytes read ahead.
const AHEAD: usize = 1 << 18;

/// A file.
pub(super) struct Window {
    path: PathBuf,
    file: File,
    size: u64,
    buffer: Vec<u8>,
    /// Where the buffer begins.
    start: u64,
    /// Where the file stands.
    at: u64,
}

impl Window {
    pub(super) fn open(path: &Path) -> Result<Window> {
        let file = File::open(path).map_err(Error::io(path))?;
        let size = file.metadata().map_err(Error::io(path))?.len();
        Ok(Window {
            path: path.to_owned(),
            file,
            size,
            buffer: Vec::new(),
            start: 0,
            at: 0,
        })
    }

    pub(super) fn size(&self) -> u64 {
        self.size
    }

    /// An error about what is in the file.
    pub(super) fn damaged(&self, reason: impl Into<String>) -> Error {
        damaged(&self.path, reason)
    }

    /// So many bytes from here on.
    pub(super) fn bytes(&mut self, start: u64, number: usize) -> Result<&[u8]> {
        let end = start.checked_add(number as u64);
        if end.is_none_or(|end| end > self.size) {
            let size = self.size;
            return Err(self.damaged(format!(
                "cut off: {number} bytes at {start} are needed, and it has {size}"
            )));
        }
        let held = self.start + self.buffer.len() as u64;
        if start < self.start || start + number as u64 > held {
            self.fill(start, number).map_err(Error::io(&self.path))?;
        }
        let from = (start - self.start) as usize;
        match self.buffer.get(from..from + number) {
            Some(bytes) => Ok(bytes),
            None => Err(damaged(&self.path, "became shorter while it was read")),
        }
    }

    fn fill(&mut self, start: u64, number: usize) -> io::Result<()> {
        // Reading on gets a whole block; a jump only what it needs.
        let reads_on = start >= self.start && start <= self.start + self.buffer.len() as u64;
        let wanted = if reads_on {
            number.max(AHEAD)
        } else {
            number.max(4096)
        };
        let wanted = wanted.min(usize::try_from(self.size - start).unwrap_or(wanted));
        self.buffer.resize(wanted, 0);
        if self.at != start {
            self.file.seek(SeekFrom::Start(start))?;
        }
        let mut read = 0;
        while read < wanted {
            match self.file.read(&mut self.buffer[read..]) {
                Ok(0) => break,
                Ok(more) => read += more,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        self.buffer.truncate(read);
        self.start = start;
        self.at = start + read as u64;
        Ok(())
    }

    pub(super) fn u64(&mut self, start: u64) -> Result<u64> {
        let mut number = [0; 8];
        number.copy_from_slice(self.bytes(start, 8)?);
        Ok(u64::from_le_bytes(number))
    }

    pub(super) fn u32(&mut self, start: u64) -> Result<u32> {
        let mut number = [0; 4];
        number.copy_from_slice(self.bytes(start, 4)?);
        Ok(u32::from_le_bytes(number))
    }

    /// So many ids from here on, behind those that are there.
    pub(super) fn ids(
        &mut self,
        start: u64,
        number: u64,
        width: Width,
        ids: &mut Vec<u32>,
    ) -> Result<()> {
        let block = AHEAD / width.bytes();
        let (mut at, mut left) = (start, number);
        while left > 0 {
            let now = left.min(block as u64) as usize;
            get(self.bytes(at, now * width.bytes())?, width, ids);
            at += (now * width.bytes()) as u64;
            left -= now as u64;
        }
        Ok(())
    }
}

/// An error about what is in a file.
pub(super) fn damaged(path: &Path, reason: impl Into<String>) -> Error {
    Error::Input {
        path: path.to_owned(),
        reason: reason.into(),
    }
}

/// Ids from little-endian bytes.
pub(super) fn get(bytes: &[u8], width: Width, ids: &mut Vec<u32>) {
    match width {
        Width::U8 => ids.extend(bytes.iter().map(|byte| u32::from(*byte))),
        Width::U16 => ids.extend(
            bytes
                .as_chunks::<2>()
                .0
                .iter()
                .map(|two| u32::from(u16::from_le_bytes(*two))),
        ),
        Width::U32 | Width::I32 => ids.extend(
            bytes
                .as_chunks::<4>()
                .0
                .iter()
                .map(|four| u32::from_le_bytes(*four)),
        ),
    }
}
