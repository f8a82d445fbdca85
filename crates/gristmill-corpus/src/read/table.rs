//! Columns of text: Parquet and Arrow's own files and streams.
//!
//! Only the column that holds the texts is read, row group by row group or batch by batch. Rows become
//! records that are taken apart already: a null is bad, and so are bytes that are not UTF-8. A file without
//! the column, or with something else than text in it, is refused.

use std::fs::File;
use std::io::{BufReader, Read, Seek};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arrow_array::cast::AsArray;
use arrow_array::types::{
    Int8Type, Int16Type, Int32Type, Int64Type, UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use arrow_array::{Array, ArrayRef, ArrowPrimitiveType, RecordBatch};
use arrow_ipc::reader::{FileReader, StreamReader};
use arrow_schema::{ArrowError, DataType, FieldRef, Schema};
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{ArrowReaderOptions, ParquetRecordBatchReaderBuilder};

use super::block::{Block, Form, HEAD, Record, fits, valid};
use super::json::Field;
use super::stream::{self, Seen};
use super::{Bad, Reason};
use crate::{Error, Result, Unit};

/// The most rows of Parquet that are decoded at a time.
const ROWS: u64 = 8192;

/// The batches of a file, with the texts as the only column or somewhere in it.
type Batches = Box<dyn Iterator<Item = std::result::Result<RecordBatch, ArrowError>> + Send>;

/// A unit of a table.
pub(crate) struct Table {
    unit: Unit,
    seen: Seen,
    batches: Batches,
    field: Field,
    size: usize,
    longest: u64,
    /// The texts at hand, the row of them that is next, and the number of that row: in a Parquet file, or
    /// in the unit of another.
    texts: Option<Texts>,
    row: usize,
    number: u64,
    /// Rows of the unit, and bytes of the file that stand for them.
    share: Share,
    count: Arc<AtomicU64>,
    done: bool,
}

/// How much of a file the rows of a unit are.
struct Share {
    rows: u64,
    bytes: u64,
    rows_read: u64,
    bytes_counted: u64,
}

/// What a whole file has: the sizes in bytes of its row groups or batches, and its rows.
pub(crate) struct Parts {
    pub(crate) sizes: Vec<u64>,
    pub(crate) rows: Option<u64>,
}

fn damaged(unit: &Unit, what: impl std::fmt::Display) -> Error {
    Error::Input {
        path: unit.path.clone(),
        reason: format!("it cannot be read: {what}"),
    }
}

/// The row groups of a Parquet file.
pub(crate) fn parquet_parts(unit: &Unit) -> Result<Parts> {
    let (file, _) = stream::opened(unit)?;
    let builder = parquet_builder(unit, file)?;
    let metadata = builder.metadata();
    Ok(Parts {
        sizes: metadata
            .row_groups()
            .iter()
            .map(|group| u64::try_from(group.compressed_size()).unwrap_or(0))
            .collect(),
        rows: u64::try_from(metadata.file_metadata().num_rows()).ok(),
    })
}

/// The batches of an Arrow file; none if it is a stream.
pub(crate) fn arrow_parts(unit: &Unit) -> Result<Option<Parts>> {
    let (mut file, _) = stream::opened(unit)?;
    if !is_arrow_file(unit, &mut file)? {
        return Ok(None);
    }
    let reader = FileReader::try_new(BufReader::new(file), None);
    let batches = reader.map_err(|error| damaged(unit, error))?.num_batches();
    let each = unit.size / (batches as u64).max(1);
    Ok(Some(Parts {
        sizes: vec![each; batches],
        rows: None,
    }))
}

fn is_arrow_file(unit: &Unit, file: &mut File) -> Result<bool> {
    let mut magic = [0; 6];
    let found = file.read(&mut magic).map_err(Error::io(&unit.path))?;
    file.rewind().map_err(Error::io(&unit.path))?;
    Ok(found == magic.len() && &magic == b"ARROW1")
}

fn parquet_builder(unit: &Unit, file: File) -> Result<ParquetRecordBatchReaderBuilder<File>> {
    // What Arrow's types once were makes no difference to the texts.
    let options = ArrowReaderOptions::new().with_skip_arrow_metadata(true);
    ParquetRecordBatchReaderBuilder::try_new_with_options(file, options)
        .map_err(|error| damaged(unit, error))
}

impl Table {
    /// The rows of a unit of a Parquet file.
    pub(crate) fn parquet(
        unit: &Unit,
        field: Field,
        size: usize,
        longest: u64,
        count: &Arc<AtomicU64>,
    ) -> Result<Table> {
        let (file, seen) = stream::opened(unit)?;
        let builder = parquet_builder(unit, file)?;
        let metadata = Arc::clone(builder.metadata());
        check(unit, builder.schema(), &field)?;
        let path: Vec<String> = field.names().collect();
        let columns = metadata.file_metadata().schema_descr();
        let column = columns
            .columns()
            .iter()
            .position(|column| column.path().parts() == path)
            .ok_or_else(|| damaged(unit, "the column has no values of its own"))?;
        let all = metadata.num_row_groups();
        let groups = range(unit, all);
        let rows = |groups: Range<usize>| -> u64 {
            let groups = metadata.row_groups().get(groups).unwrap_or_default();
            let rows = groups.iter().map(|group| group.num_rows());
            rows.map(|rows| u64::try_from(rows).unwrap_or(0)).sum()
        };
        let bytes: i64 = metadata.row_groups()[groups.clone()]
            .iter()
            .filter_map(|group| group.columns().get(column))
            .map(|column| column.uncompressed_size())
            .sum();
        let each = u64::try_from(bytes).unwrap_or(0) / rows(groups.clone()).max(1);
        // About a block's worth of rows at a time.
        let most = (size as u64 / each.max(1)).clamp(1, ROWS) as usize;
        let (first, total) = (rows(0..groups.start), rows(groups.clone()));
        let mask = ProjectionMask::leaves(columns, [column]);
        let batches = builder
            .with_projection(mask)
            .with_row_groups(groups.clone().collect())
            .with_batch_size(most)
            .build()
            .map_err(|error| damaged(unit, error))?;
        let share = Share::new(unit, (groups.len(), all), total);
        Ok(Table {
            unit: unit.clone(),
            seen,
            batches: Box::new(batches),
            field,
            size,
            longest,
            texts: None,
            row: 0,
            number: first,
            share,
            count: Arc::clone(count),
            done: false,
        })
    }

    /// The rows of a unit of an Arrow file or stream.
    pub(crate) fn arrow(
        unit: &Unit,
        field: Field,
        size: usize,
        longest: u64,
        count: &Arc<AtomicU64>,
    ) -> Result<Table> {
        let (mut file, seen) = stream::opened(unit)?;
        let mut share = Share::new(unit, (1, 1), 0);
        let is_file = is_arrow_file(unit, &mut file)?;
        let column = |schema: &Schema| {
            check(unit, schema, &field)?;
            let root = field.names().next().unwrap_or_default();
            schema.index_of(&root).map_err(|error| damaged(unit, error))
        };
        let open = |error| damaged(unit, error);
        let input = BufReader::new(file.try_clone().map_err(Error::io(&unit.path))?);
        let batches: Batches = if is_file {
            let reader = FileReader::try_new(input, None).map_err(open)?;
            let column = column(&reader.schema())?;
            file.rewind().map_err(Error::io(&unit.path))?;
            let input = BufReader::new(file);
            let mut reader = FileReader::try_new(input, Some(vec![column])).map_err(open)?;
            let all = reader.num_batches();
            let batches = range(unit, all);
            share = Share::new(unit, (batches.len(), all), 0);
            if batches.start > 0 {
                reader.set_index(batches.start).map_err(open)?;
            }
            Box::new(reader.take(batches.len()))
        } else {
            let reader = StreamReader::try_new(input, None).map_err(open)?;
            let column = column(&reader.schema())?;
            file.rewind().map_err(Error::io(&unit.path))?;
            let input = BufReader::new(file);
            Box::new(StreamReader::try_new(input, Some(vec![column])).map_err(open)?)
        };
        Ok(Table {
            unit: unit.clone(),
            seen,
            batches,
            field,
            size,
            longest,
            texts: None,
            row: 0,
            // The file does not say how many rows the batches before have.
            number: 0,
            share,
            count: Arc::clone(count),
            done: false,
        })
    }

    /// Fill `block`. False at the end.
    pub(crate) fn next(&mut self, block: &mut Block) -> Result<bool> {
        block.form = Form::Table;
        block.is_apart = true;
        block.offset = self.number;
        while block.bytes.len() < self.size && !self.done {
            let texts = match &self.texts {
                Some(texts) if self.row < texts.values.len() => texts,
                _ => {
                    self.next_batch(block)?;
                    continue;
                }
            };
            let start = block.bytes.len();
            let record = match texts.get(self.row) {
                None => Record::bad(start, start, Bad::new(Reason::Null)),
                Some(text) => {
                    let checked = fits(text, self.longest).and_then(|()| valid(text));
                    let kept = if checked.is_ok() {
                        text
                    } else {
                        &text[..text.len().min(HEAD)]
                    };
                    block.bytes.extend_from_slice(kept);
                    let end = start + kept.len();
                    match checked {
                        Ok(()) => Record::text(start, start, end),
                        Err(bad) => Record::bad(start, end, bad),
                    }
                }
            };
            block.records.push(record.numbered(block.records.len()));
            self.row += 1;
            self.number += 1;
        }
        Ok(!block.records.is_empty())
    }

    fn next_batch(&mut self, block: &mut Block) -> Result<()> {
        match self.batches.next() {
            Some(Ok(batch)) => {
                self.row = 0;
                self.count
                    .fetch_add(self.share.of(batch.num_rows() as u64), Ordering::Relaxed);
                let texts = Texts::of(&batch, &self.field);
                self.texts =
                    Some(texts.ok_or_else(|| {
                        damaged(&self.unit, "its column is not where it should be")
                    })?);
            }
            Some(Err(ArrowError::IoError(_, source))) if source.raw_os_error().is_some() => {
                return Err(Error::io(&self.unit.path)(source));
            }
            Some(Err(error)) => {
                self.done = true;
                self.seen.check_now()?;
                let end = block.bytes.len();
                block.set_tail(end, Bad::new(Reason::CutOff), Some(error.to_string()));
                let record = Record::bad(end, end, Bad::new(Reason::CutOff));
                block.records.push(record.numbered(block.records.len()));
            }
            None => {
                self.done = true;
                self.count.fetch_add(self.share.rest(), Ordering::Relaxed);
                self.seen.check_now()?;
            }
        }
        Ok(())
    }
}

impl Share {
    /// For `parts.0` of `parts.1` parts of a file that have so many rows.
    fn new(unit: &Unit, parts: (usize, usize), rows: u64) -> Share {
        let (own, all) = (parts.0 as u128, (parts.1 as u128).max(1));
        Share {
            rows,
            bytes: u64::try_from(u128::from(unit.size) * own / all).unwrap_or(u64::MAX),
            rows_read: 0,
            bytes_counted: 0,
        }
    }

    /// The bytes that stand for some more rows; none if it is not known how many rows there are.
    fn of(&mut self, rows: u64) -> u64 {
        self.rows_read += rows;
        if self.rows == 0 {
            return 0;
        }
        let read = u128::from(self.rows_read.min(self.rows));
        let bytes = u128::from(self.bytes) * read / u128::from(self.rows);
        let bytes = u64::try_from(bytes).unwrap_or(u64::MAX);
        bytes - std::mem::replace(&mut self.bytes_counted, bytes)
    }

    fn rest(&mut self) -> u64 {
        self.bytes - std::mem::replace(&mut self.bytes_counted, self.bytes)
    }
}

/// The parts of a file that a unit is.
fn range(unit: &Unit, parts: usize) -> Range<usize> {
    let place = |number: u64| usize::try_from(number).unwrap_or(usize::MAX).min(parts);
    let end = unit.end.map_or(parts, place);
    place(unit.start).min(end)..end
}

/// Fails unless the schema has a column of texts where the field says.
fn check(unit: &Unit, schema: &Schema, field: &Field) -> Result<()> {
    let mut fields: &[FieldRef] = schema.fields();
    let mut kind = &DataType::Null;
    for name in field.names() {
        let Some(next) = fields.iter().find(|field| *field.name() == name) else {
            let known: Vec<&str> = fields.iter().map(|field| field.name().as_str()).collect();
            return Err(Error::Input {
                path: unit.path.clone(),
                reason: format!("it has no column {name:?}, but {}", known.join(", ")),
            });
        };
        kind = next.data_type();
        fields = match kind {
            DataType::Struct(fields) => fields,
            _ => &[],
        };
    }
    if is_text(kind) {
        return Ok(());
    }
    Err(Error::Input {
        path: unit.path.clone(),
        reason: format!("its column holds no text but {kind}"),
    })
}

fn is_text(kind: &DataType) -> bool {
    match kind {
        DataType::Dictionary(_, values) => is_text(values),
        DataType::Null
        | DataType::Utf8
        | DataType::LargeUtf8
        | DataType::Utf8View
        | DataType::Binary
        | DataType::LargeBinary
        | DataType::BinaryView => true,
        _ => false,
    }
}

/// The texts of a batch, and what they lie in.
struct Texts {
    values: ArrayRef,
    /// A text is null if one of these is.
    around: Vec<ArrayRef>,
}

impl Texts {
    fn of(batch: &RecordBatch, field: &Field) -> Option<Texts> {
        let mut names = field.names();
        let mut values = Arc::clone(batch.column_by_name(&names.next()?)?);
        let mut around = Vec::new();
        for name in names {
            let inner = Arc::clone(values.as_struct_opt()?.column_by_name(&name)?);
            around.push(std::mem::replace(&mut values, inner));
        }
        Some(Texts { values, around })
    }

    /// The bytes of a text, unless it is null.
    fn get(&self, row: usize) -> Option<&[u8]> {
        if self.around.iter().any(|array| array.is_null(row)) {
            return None;
        }
        value(&self.values, row)
    }
}

/// The bytes of a value, unless it is null.
fn value(array: &dyn Array, row: usize) -> Option<&[u8]> {
    if array.is_null(row) {
        return None;
    }
    Some(match array.data_type() {
        DataType::Utf8 => array.as_string_opt::<i32>()?.value(row).as_bytes(),
        DataType::LargeUtf8 => array.as_string_opt::<i64>()?.value(row).as_bytes(),
        DataType::Utf8View => array.as_string_view_opt()?.value(row).as_bytes(),
        DataType::Binary => array.as_binary_opt::<i32>()?.value(row),
        DataType::LargeBinary => array.as_binary_opt::<i64>()?.value(row),
        DataType::BinaryView => array.as_binary_view_opt()?.value(row),
        DataType::Dictionary(_, _) => {
            let dictionary = array.as_any_dictionary_opt()?;
            return value(dictionary.values(), key(dictionary.keys(), row)?);
        }
        _ => return None,
    })
}

/// The number in a dictionary that a row has.
fn key(keys: &dyn Array, row: usize) -> Option<usize> {
    fn of<T: ArrowPrimitiveType>(keys: &dyn Array, row: usize) -> Option<usize>
    where
        T::Native: TryInto<usize>,
    {
        keys.as_primitive_opt::<T>()?.value(row).try_into().ok()
    }
    match keys.data_type() {
        DataType::Int8 => of::<Int8Type>(keys, row),
        DataType::Int16 => of::<Int16Type>(keys, row),
        DataType::Int32 => of::<Int32Type>(keys, row),
        DataType::Int64 => of::<Int64Type>(keys, row),
        DataType::UInt8 => of::<UInt8Type>(keys, row),
        DataType::UInt16 => of::<UInt16Type>(keys, row),
        DataType::UInt32 => of::<UInt32Type>(keys, row),
        DataType::UInt64 => of::<UInt64Type>(keys, row),
        _ => None,
    }
}
