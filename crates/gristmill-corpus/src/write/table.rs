//! Parquet files and Arrow IPC files: one row an item, its ids in a list column `input_ids`.
//!
//! Rows are written in batches of a bounded number of ids, so a list's offsets, which have 32 bits and a
//! sign, never overflow. Parquet is compressed with zstd; row groups are small enough to be read
//! in parts.
//!
//! Invariant: the bytes follow from the rows alone: no time, no version of this program.
//! Tested by pyarrow in `tests/test_shards.py`.

use std::io::{self, Write};
use std::sync::Arc;

use arrow_array::builder::{ListBuilder, PrimitiveBuilder};
use arrow_array::types::{ArrowPrimitiveType, UInt16Type, UInt32Type};
use arrow_array::{ArrayRef, RecordBatch};
use arrow_ipc::writer::FileWriter;
use arrow_schema::{ArrowError, DataType, Field, Schema, SchemaRef};
use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression, ZstdLevel};
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;

use super::aside::{Aside, Place};
use super::rows::{Beside, Items, Piece};
use super::{Format, Output, Width};
use crate::{Error, Result, Written};

/// Ids of a batch, and of a row group.
const BATCH: usize = 1 << 20;

/// The most ids of a row: a page of Parquet has less than 2 GiB.
const LONGEST: usize = 1 << 28;

/// The column with the ids.
pub(crate) const COLUMN: &str = "input_ids";

/// The files of one shard.
pub(super) struct Table {
    place: Place,
    format: Format,
    width: Width,
    length: Option<u64>,
    per_file: Option<u64>,
    current: Option<Part>,
    number: u64,
    batch: Vec<u32>,
    /// The end of each row in the batch.
    ends: Vec<usize>,
    written: Vec<Written>,
}

/// A file that is being written.
struct Part {
    writer: Writer,
    beside: Option<Beside>,
    rows: u64,
    tokens: u64,
}

enum Writer {
    Parquet(Box<ArrowWriter<Aside>>),
    Arrow(Box<FileWriter<Aside>>),
}

impl Table {
    pub(super) fn new(place: Place, output: &Output, width: Width) -> Table {
        let sequences = output.sequences.as_ref();
        Table {
            place,
            format: output.format,
            width,
            length: sequences.map(|sequences| sequences.length),
            per_file: sequences.and_then(|sequences| sequences.per_file),
            current: None,
            number: 0,
            batch: Vec::new(),
            ends: Vec::new(),
            written: Vec::new(),
        }
    }

    fn schema(&self) -> SchemaRef {
        let id = match self.width {
            Width::U8 | Width::U16 => DataType::UInt16,
            Width::U32 | Width::I32 => DataType::UInt32,
        };
        let list = DataType::List(Arc::new(Field::new("item", id, true)));
        Arc::new(Schema::new(vec![Field::new(COLUMN, list, false)]))
    }

    fn create(&mut self) -> Result<Part> {
        let stem = match self.per_file {
            Some(_) => format!("{}-{:06}", self.place.name, self.number),
            None => self.place.name.clone(),
        };
        self.number += 1;
        let file = self
            .place
            .create(&format!("{stem}.{}", self.format.name()))?;
        let path = file.path().to_owned();
        let writer = match self.format {
            Format::Arrow => FileWriter::try_new(file, &self.schema())
                .map(|writer| Writer::Arrow(Box::new(writer)))
                .map_err(|error| of_arrow(&path, error))?,
            _ => ArrowWriter::try_new(file, self.schema(), Some(properties()))
                .map(|writer| Writer::Parquet(Box::new(writer)))
                .map_err(|error| of_parquet(&path, error))?,
        };
        let beside = match self.length {
            Some(length) => Some(Beside::new(&self.place, &stem, length)?),
            None => None,
        };
        Ok(Part {
            writer,
            beside,
            rows: 0,
            tokens: 0,
        })
    }

    /// The rows that wait, to the file.
    fn flush(&mut self) -> Result<()> {
        if self.ends.is_empty() {
            return Ok(());
        }
        let column = match self.width {
            Width::U8 | Width::U16 => lists::<UInt16Type>(&self.batch, &self.ends, |id| id as u16),
            Width::U32 | Width::I32 => lists::<UInt32Type>(&self.batch, &self.ends, |id| id),
        };
        let batch = RecordBatch::try_new(self.schema(), vec![column])
            .map_err(|error| Error::Refused(error.to_string()))?;
        self.batch.clear();
        self.ends.clear();
        let Some(part) = &mut self.current else {
            return Ok(());
        };
        match &mut part.writer {
            Writer::Parquet(writer) => {
                let path = writer.inner().path().to_owned();
                let written = writer.write(&batch).and_then(|()| writer.flush());
                written.map_err(|error| of_parquet(&path, error))
            }
            Writer::Arrow(writer) => {
                let path = writer.get_ref().path().to_owned();
                writer.write(&batch).map_err(|error| of_arrow(&path, error))
            }
        }
    }

    fn close(&mut self) -> Result<()> {
        self.flush()?;
        let Some(part) = self.current.take() else {
            return Ok(());
        };
        let file = match part.writer {
            Writer::Parquet(writer) => {
                let path = writer.inner().path().to_owned();
                writer
                    .into_inner()
                    .map_err(|error| of_parquet(&path, error))?
            }
            Writer::Arrow(mut writer) => {
                let path = writer.get_ref().path().to_owned();
                let finished = writer.finish().and_then(|()| writer.into_inner());
                finished.map_err(|error| of_arrow(&path, error))?
            }
        };
        self.written.push(file.finish(part.rows, part.tokens)?);
        if let Some(beside) = part.beside {
            self.written.extend(beside.finish()?);
        }
        Ok(())
    }
}

impl Items for Table {
    fn item(&mut self, ids: &[u32], pieces: &[Piece]) -> Result<()> {
        if ids.len() > LONGEST {
            return Err(Error::Refused(format!(
                "a document of {} ids is too long for {}, which is written with at most {LONGEST}; \
                 --max-document leaves such documents out",
                ids.len(),
                self.format.name()
            )));
        }
        let mut part = match self.current.take() {
            Some(part) => part,
            None => self.create()?,
        };
        if let Some(beside) = &mut part.beside {
            beside.row(part.rows, pieces)?;
        }
        part.rows += 1;
        part.tokens += ids.len() as u64;
        let full = self.per_file.is_some_and(|most| part.rows >= most);
        self.current = Some(part);
        self.batch.extend_from_slice(ids);
        self.ends.push(self.batch.len());
        if full {
            self.close()
        } else if self.batch.len() >= BATCH || self.ends.len() >= BATCH {
            self.flush()
        } else {
            Ok(())
        }
    }

    fn finish(mut self: Box<Self>) -> Result<Vec<Written>> {
        if self.number == 0 {
            // A shard without documents is a table without rows.
            self.current = Some(self.create()?);
        }
        self.close()?;
        Ok(self.written)
    }
}

fn properties() -> WriterProperties {
    WriterProperties::builder()
        // Ids compress as well without a dictionary, and are written faster.
        .set_dictionary_enabled(false)
        .set_compression(Compression::ZSTD(ZstdLevel::default()))
        .set_created_by("gristmill".to_owned())
        .build()
}

fn lists<T: ArrowPrimitiveType>(
    ids: &[u32],
    ends: &[usize],
    narrow: impl Fn(u32) -> T::Native,
) -> ArrayRef {
    let mut lists =
        ListBuilder::with_capacity(PrimitiveBuilder::<T>::with_capacity(ids.len()), ends.len());
    let mut start = 0;
    for end in ends {
        for id in &ids[start..*end] {
            lists.values().append_value(narrow(*id));
        }
        lists.append(true);
        start = *end;
    }
    Arc::new(lists.finish())
}

fn of_arrow(path: &std::path::Path, error: ArrowError) -> Error {
    match error {
        ArrowError::IoError(_, source) => Error::io(path)(source),
        other => Error::io(path)(io::Error::other(other.to_string())),
    }
}

fn of_parquet(path: &std::path::Path, error: ParquetError) -> Error {
    let source = match error {
        ParquetError::External(source) => match source.downcast::<io::Error>() {
            Ok(source) => *source,
            Err(other) => io::Error::other(other.to_string()),
        },
        other => io::Error::other(other.to_string()),
    };
    Error::io(path)(source)
}

impl Write for Aside {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match Aside::write(self, bytes) {
            Ok(()) => Ok(bytes.len()),
            Err(Error::Io { source, .. }) => Err(source),
            Err(other) => Err(io::Error::other(other.to_string())),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
