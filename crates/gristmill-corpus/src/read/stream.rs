//! Bytes of one file, from its beginning or from the middle: the file itself or what is compressed in it.
//!
//! A file must be what the plan saw: its size and its time of change are looked at when it is opened and
//! once more when all of it was read.

use std::fs::{self, File, Metadata};
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::UNIX_EPOCH;

use super::compressed::{self, Compression};
use crate::{Error, Result, Unit};

/// Bytes that are read in order.
pub(crate) trait Stream: Send {
    /// Append up to `most` bytes to `bytes`; how many, 0 at the end.
    fn read(&mut self, bytes: &mut Vec<u8>, most: usize) -> std::result::Result<usize, Broken>;

    /// All was read that will be: look whether the file is still the same.
    fn finish(&self) -> Result<()>;

    /// The file.
    fn path(&self) -> &Path;
}

/// Why there are no more bytes.
#[derive(Debug)]
pub(crate) enum Broken {
    /// The run cannot go on.
    Error(Error),
    /// What is compressed ends too soon or is damaged: it is as if the file ended here, but for one bad
    /// record.
    Damaged(String),
}

/// A file as the plan saw it.
#[derive(Debug)]
pub(crate) struct Seen {
    path: PathBuf,
    size: u64,
    modified: u64,
}

impl Seen {
    /// Fails unless the file is the same now.
    pub(crate) fn check_now(&self) -> Result<()> {
        self.check(fs::metadata(&self.path))
    }

    fn check(&self, metadata: io::Result<Metadata>) -> Result<()> {
        let metadata = metadata.map_err(Error::io(&self.path))?;
        let modified = modified(&metadata).map_err(Error::io(&self.path))?;
        if (metadata.len(), modified) == (self.size, self.modified) {
            return Ok(());
        }
        Err(Error::Input {
            path: self.path.clone(),
            reason: format!(
                "it has changed since the plan was made: it had {} bytes and has {}, it was changed last at \
                 {} and now at {modified} nanoseconds of Unix time",
                self.size,
                metadata.len(),
                self.modified,
            ),
        })
    }
}

/// When a file was changed last, in nanoseconds of Unix time.
pub(crate) fn modified(metadata: &Metadata) -> io::Result<u64> {
    let since = metadata.modified()?.duration_since(UNIX_EPOCH);
    Ok(since.map_or(0, |since| {
        u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
    }))
}

/// A unit's file, opened as the plan saw it.
pub(crate) fn opened(unit: &Unit) -> Result<(File, Seen)> {
    let seen = Seen {
        path: unit.path.clone(),
        size: unit.size,
        modified: unit.modified,
    };
    let file = File::open(&unit.path).map_err(Error::io(&unit.path))?;
    seen.check(file.metadata())?;
    Ok((file, seen))
}

/// The bytes of a unit's file from `from` on, decompressed. `count` is added to as the file is read.
pub(crate) fn open(unit: &Unit, from: u64, count: &Arc<AtomicU64>) -> Result<Box<dyn Stream>> {
    let (mut file, seen) = opened(unit)?;
    let compression = Compression::named(&unit.compression)?;
    if from > 0 {
        file.seek(SeekFrom::Start(from))
            .map_err(Error::io(&unit.path))?;
    }
    ahead(&file);
    let counted = Counted {
        file,
        count: Arc::clone(count),
    };
    Ok(match compression {
        Compression::None => Box::new(Plain {
            file: counted,
            seen,
        }),
        compression => Box::new(Unpacked {
            stream: BufReader::with_capacity(
                PORTION,
                compressed::open(compression, counted).map_err(Error::io(&unit.path))?,
            ),
            seen,
        }),
    })
}

/// Tell the system that a file is read in order.
fn ahead(file: &File) {
    // Advice only: what does not take it is read all the same.
    #[cfg(target_os = "linux")]
    let _ = rustix::fs::fadvise(file, 0, None, rustix::fs::Advice::Sequential);
    #[cfg(not(target_os = "linux"))]
    let _ = file;
}

/// A file that counts what is read of it.
pub(crate) struct Counted {
    file: File,
    count: Arc<AtomicU64>,
}

impl Read for Counted {
    fn read(&mut self, room: &mut [u8]) -> io::Result<usize> {
        let read = self.file.read(room)?;
        self.count.fetch_add(read as u64, Ordering::Relaxed);
        Ok(read)
    }
}

struct Plain {
    file: Counted,
    seen: Seen,
}

impl Stream for Plain {
    fn read(&mut self, bytes: &mut Vec<u8>, most: usize) -> std::result::Result<usize, Broken> {
        append(&mut self.file, bytes, most)
            .map_err(|error| Broken::Error(Error::io(&self.seen.path)(error)))
    }

    fn finish(&self) -> Result<()> {
        self.seen.check_now()
    }

    fn path(&self) -> &Path {
        &self.seen.path
    }
}

/// One read of up to `most` bytes, appended.
fn append(from: &mut impl Read, bytes: &mut Vec<u8>, most: usize) -> io::Result<usize> {
    let before = bytes.len();
    from.by_ref().take(most as u64).read_to_end(bytes)?;
    Ok(bytes.len() - before)
}

/// What is compressed in a file. It is always asked for in the same portions, because what is lost when a
/// portion breaks must not depend on the size of blocks.
struct Unpacked {
    stream: BufReader<Box<dyn Read + Send>>,
    seen: Seen,
}

/// How much is decompressed at a time.
const PORTION: usize = 1 << 16;

impl Stream for Unpacked {
    fn read(&mut self, bytes: &mut Vec<u8>, most: usize) -> std::result::Result<usize, Broken> {
        let before = bytes.len();
        while bytes.len() - before < most {
            let portion = self.stream.fill_buf().map_err(|error| {
                if error.raw_os_error().is_some() {
                    Broken::Error(Error::io(&self.seen.path)(error))
                } else {
                    Broken::Damaged(error.to_string())
                }
            })?;
            let wanted = portion.len().min(most - (bytes.len() - before));
            if wanted == 0 {
                break;
            }
            bytes.extend_from_slice(&portion[..wanted]);
            self.stream.consume(wanted);
        }
        Ok(bytes.len() - before)
    }

    fn finish(&self) -> Result<()> {
        self.seen.check_now()
    }

    fn path(&self) -> &Path {
        &self.seen.path
    }
}
