//! Items behind a table of offsets, in files small enough to be made in memory: MosaicML's MDS and litdata's
//! chunks for its TokensLoader. Both count the bytes of a file in 32 bits.
//!
//! MDS is `n`, `n + 1` offsets, the configuration as JSON, the samples; litdata the same without a
//! configuration. The folder's `index.json`, which lists all files, is made at the end from the journal
//! ([`super::finish_output`]).
//!
//! Invariant: where a file ends follows the rules of the format's own writer, so the bytes are the same.
//! Tested against golden files those made, and in `tests/readers`.

use serde_json::{Value, json};

use super::aside::{Place, put};
use super::rows::{Beside, Items, Piece};
use super::{Format, Output, Width};
use crate::{Error, Result, Written};

/// The most bytes of an MDS file, its writer's default.
pub(super) const MDS_LIMIT: usize = 1 << 26;

/// The most bytes of the items of a litdata chunk, the default of its `optimize`.
pub(super) const LITDATA_LIMIT: usize = 64_000_000;

/// The files of one shard.
pub(super) struct Chunks {
    place: Place,
    format: Format,
    width: Width,
    /// The ids of every item, where they are the same number.
    length: Option<u64>,
    /// Items of a file.
    per_file: Option<u64>,
    limit: usize,
    config: Vec<u8>,
    body: Vec<u8>,
    /// The end of each item in the body.
    ends: Vec<usize>,
    pieces: Vec<Vec<Piece>>,
    tokens: u64,
    number: u64,
    written: Vec<Written>,
}

impl Chunks {
    pub(super) fn new(place: Place, output: &Output, width: Width) -> Chunks {
        let config = match output.format {
            Format::Mds => mds_config(output, width).to_string().into_bytes(),
            _ => Vec::new(),
        };
        let sequences = output.sequences.as_ref();
        Chunks {
            place,
            format: output.format,
            width,
            length: sequences.map(|sequences| sequences.length),
            per_file: sequences.and_then(|sequences| sequences.per_file),
            limit: match output.format {
                Format::Mds => MDS_LIMIT,
                _ => LITDATA_LIMIT,
            },
            config: spaced(&config),
            body: Vec::new(),
            ends: Vec::new(),
            pieces: Vec::new(),
            tokens: 0,
            number: 0,
            written: Vec::new(),
        }
    }

    /// Whether one more item of so many bytes goes to the next file.
    fn is_full(&self, bytes: usize) -> bool {
        if self.ends.is_empty() {
            return false;
        }
        let number = self.ends.len();
        let size = match self.format {
            Format::Mds => 8 + self.config.len() + 4 * (number + 1) + self.body.len() + bytes,
            _ => self.body.len() + bytes,
        };
        size > self.limit || self.per_file.is_some_and(|most| number as u64 >= most)
    }

    /// What stands before the ids of an item of MDS: nothing if all are of one length.
    fn mds_head(&self, number: usize) -> Vec<u8> {
        if self.length.is_some() {
            return Vec::new();
        }
        // One dimension, and how wide its size is.
        let shape: (u8, Vec<u8>) = match number {
            0..0x100 => (0, vec![number as u8]),
            0x100..0x1_0000 => (1, (number as u16).to_le_bytes().to_vec()),
            _ => (2, (number as u32).to_le_bytes().to_vec()),
        };
        let size = 1 + shape.1.len() + number * self.width.bytes();
        let mut head = (size as u32).to_le_bytes().to_vec();
        head.push(1 << 2 | shape.0);
        head.extend(shape.1);
        head
    }

    fn close(&mut self) -> Result<()> {
        let name = match self.format {
            Format::Mds => format!("{}.{:06}", self.place.name, self.number),
            _ => format!("chunk-{}-{:06}", self.place.name, self.number),
        };
        self.number += 1;
        let (file, extension) = match self.format {
            Format::Mds => (&name, "mds"),
            _ => (&name, "bin"),
        };
        let mut file = self.place.create(&format!("{file}.{extension}"))?;
        let items = self.ends.len();
        let start = 4 + 4 * (items + 1) + self.config.len();
        file.write(&(items as u32).to_le_bytes())?;
        for end in std::iter::once(0).chain(self.ends.iter().copied()) {
            file.write(&((start + end) as u32).to_le_bytes())?;
        }
        file.write(&self.config)?;
        file.write(&self.body)?;
        self.written.push(file.finish(items as u64, self.tokens)?);
        if let Some(length) = self.length {
            let mut beside = Beside::new(&self.place, &name, length)?;
            for (row, pieces) in self.pieces.iter().enumerate() {
                beside.row(row as u64, pieces)?;
            }
            self.written.extend(beside.finish()?);
        }
        self.body.clear();
        self.ends.clear();
        self.pieces.clear();
        self.tokens = 0;
        Ok(())
    }
}

impl Items for Chunks {
    fn item(&mut self, ids: &[u32], pieces: &[Piece]) -> Result<()> {
        if ids.is_empty() {
            return Err(Error::Refused(format!(
                "a document without ids cannot be written as {}: leave out --keep-empty, or let \
                 something stand at documents",
                self.format.name()
            )));
        }
        let head = match self.format {
            Format::Mds => self.mds_head(ids.len()),
            _ => Vec::new(),
        };
        let bytes = head.len() + ids.len() * self.width.bytes();
        if bytes > u32::MAX as usize - (1 << 16) {
            return Err(Error::Refused(format!(
                "a document of {} ids is too long for {}, whose files have less than 4 GiB; \
                 --max-document leaves such documents out",
                ids.len(),
                self.format.name()
            )));
        }
        if self.is_full(bytes) {
            self.close()?;
        }
        self.body.extend(head);
        put(ids, self.width, &mut self.body);
        self.ends.push(self.body.len());
        if self.length.is_some() {
            self.pieces.push(pieces.to_vec());
        }
        self.tokens += ids.len() as u64;
        Ok(())
    }

    fn finish(mut self: Box<Self>) -> Result<Vec<Written>> {
        if !self.ends.is_empty() {
            self.close()?;
        }
        Ok(self.written)
    }
}

/// What MDS says about its files, but not how large they are.
pub(super) fn mds_config(output: &Output, width: Width) -> Value {
    let dtype = match width {
        Width::U8 => "uint8",
        Width::U16 => "uint16",
        Width::U32 => "uint32",
        Width::I32 => "int32",
    };
    let (encoding, size) = match &output.sequences {
        Some(sequences) => (
            format!("ndarray:{dtype}:{}", sequences.length),
            json!(sequences.length * width.bytes() as u64),
        ),
        None => (format!("ndarray:{dtype}"), Value::Null),
    };
    json!({
        "column_encodings": [encoding],
        "column_names": ["tokens"],
        "column_sizes": [size],
        "compression": null,
        "format": "mds",
        "hashes": [],
        "size_limit": MDS_LIMIT,
        "version": 2,
    })
}

/// JSON with the spaces that Python puts behind colons and commas.
pub(super) fn spaced(json: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(json.len() + json.len() / 8);
    let (mut inside, mut escaped) = (false, false);
    for byte in json {
        out.push(*byte);
        match byte {
            _ if escaped => escaped = false,
            b'\\' if inside => escaped = true,
            b'"' => inside = !inside,
            b':' | b',' if !inside => out.push(b' '),
            _ => {}
        }
    }
    out
}
