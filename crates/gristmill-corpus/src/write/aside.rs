//! One file, written aside: under its name with [`ASIDE`] behind it, hashed on the way and synced at the
//! end. It disappears with its writer unless it was finished.
//!
//! Invariant: whatever fails is an error with the path; the hash is that of the bytes in the file.
//! Tested with full and read-only devices and by hashing again.

use std::fs::{self, File};
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use xxhash_rust::xxh3::Xxh3Default;

use super::Width;
use crate::{Error, Result, Written};

/// What the names of unfinished files end in.
pub const ASIDE: &str = ".aside";

/// Bytes that are collected before they are written.
const BLOCK: usize = 1 << 18;

/// Where the files of a shard go.
#[derive(Clone)]
pub(crate) struct Place {
    /// The folder of the format.
    folder: PathBuf,
    /// The folder's name and a slash.
    prefix: String,
    /// The shard's name.
    pub(super) name: String,
}

impl Place {
    /// The folder is made if it is not there.
    pub(crate) fn new(folder: &Path, format: &str, name: &str) -> Result<Place> {
        let folder = folder.join(format);
        fs::create_dir_all(&folder).map_err(Error::io(&folder))?;
        Ok(Place {
            folder,
            prefix: format!("{format}/"),
            name: name.to_owned(),
        })
    }

    /// A file of the shard, by its own name.
    pub(crate) fn create(&self, name: &str) -> Result<Aside> {
        Aside::create(self, name)
    }
}

/// A file on its way.
pub(crate) struct Aside {
    name: String,
    path: PathBuf,
    file: File,
    block: Vec<u8>,
    hash: Xxh3Default,
    /// Bytes, those in the block included.
    bytes: u64,
    finished: bool,
}

impl Aside {
    fn create(place: &Place, name: &str) -> Result<Aside> {
        let path = place.folder.join(format!("{name}{ASIDE}"));
        let file = File::options()
            .read(true)
            .write(true)
            .create(true)
            .truncate(true)
            .open(&path)
            .map_err(Error::io(&path))?;
        Ok(Aside {
            name: format!("{}{name}", place.prefix),
            path,
            file,
            block: Vec::with_capacity(BLOCK + (BLOCK >> 2)),
            hash: Xxh3Default::new(),
            bytes: 0,
            finished: false,
        })
    }

    /// Where it is written.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// An error of writing it.
    pub(super) fn error(&self, source: std::io::Error) -> Error {
        Error::io(&self.path)(source)
    }

    /// Bytes behind what there is.
    pub(crate) fn write(&mut self, bytes: &[u8]) -> Result<()> {
        self.bytes += bytes.len() as u64;
        if bytes.len() >= BLOCK {
            self.flush()?;
            self.hash.update(bytes);
            return self.file.write_all(bytes).map_err(Error::io(&self.path));
        }
        self.block.extend_from_slice(bytes);
        if self.block.len() >= BLOCK {
            self.flush()?;
        }
        Ok(())
    }

    /// Ids behind what there is, each as wide as told. They fit: the output's `id_end` does.
    pub(super) fn ids(&mut self, ids: &[u32], width: Width) -> Result<()> {
        self.bytes += (ids.len() * width.bytes()) as u64;
        for part in ids.chunks(BLOCK >> 2) {
            put(part, width, &mut self.block);
            if self.block.len() >= BLOCK {
                self.flush()?;
            }
        }
        Ok(())
    }

    fn flush(&mut self) -> Result<()> {
        self.hash.update(&self.block);
        self.file
            .write_all(&self.block)
            .map_err(Error::io(&self.path))?;
        self.block.clear();
        Ok(())
    }

    /// Write over what the file begins with, once that is known, and hash the file again.
    pub(super) fn rewrite_start(&mut self, bytes: &[u8]) -> Result<()> {
        self.flush()?;
        let at = Error::io(&self.path);
        self.hash = (|| {
            self.file.seek(SeekFrom::Start(0))?;
            self.file.write_all(bytes)?;
            self.file.seek(SeekFrom::Start(0))?;
            hash(&mut self.file)
        })()
        .map_err(at)?;
        Ok(())
    }

    /// Sync the file and say what it is: so many items with so many tokens.
    pub(crate) fn finish(mut self, items: u64, tokens: u64) -> Result<Written> {
        self.flush()?;
        self.file.sync_all().map_err(Error::io(&self.path))?;
        self.finished = true;
        Ok(Written {
            name: std::mem::take(&mut self.name),
            bytes: self.bytes,
            xxh3: format!("{:032x}", self.hash.digest128()),
            items,
            tokens,
        })
    }
}

impl Drop for Aside {
    fn drop(&mut self) {
        if !self.finished {
            // What cannot be removed is removed by the next run, which knows it by its name.
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// The hash of what a file has from where it stands on.
fn hash(file: &mut File) -> std::io::Result<Xxh3Default> {
    let mut hash = Xxh3Default::new();
    let mut block = vec![0; BLOCK];
    loop {
        match file.read(&mut block) {
            Ok(0) => return Ok(hash),
            Ok(read) => hash.update(&block[..read]),
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

/// Ids as little-endian bytes.
pub(super) fn put(ids: &[u32], width: Width, bytes: &mut Vec<u8>) {
    let start = bytes.len();
    bytes.resize(start + ids.len() * width.bytes(), 0);
    let place = &mut bytes[start..];
    match width {
        Width::U8 => {
            for (byte, id) in place.iter_mut().zip(ids) {
                *byte = *id as u8;
            }
        }
        Width::U16 => {
            for (two, id) in place.chunks_exact_mut(2).zip(ids) {
                two.copy_from_slice(&(*id as u16).to_le_bytes());
            }
        }
        Width::U32 | Width::I32 => {
            for (four, id) in place.chunks_exact_mut(4).zip(ids) {
                four.copy_from_slice(&id.to_le_bytes());
            }
        }
    }
}
