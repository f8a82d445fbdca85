//! Rows of Parquet and Arrow IPC files, a list of ids each, a row group or batch at a time.
//! Tested by reading back what was written, by us and by pyarrow.

use std::fs::File;
use std::path::{Path, PathBuf};

use arrow_array::cast::AsArray;
use arrow_array::types::{Int32Type, Int64Type, UInt16Type, UInt32Type};
use arrow_array::{Array, ArrayRef, RecordBatch};
use arrow_ipc::reader::FileReader;
use arrow_schema::DataType;
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{ArrowReaderMetadata, ParquetRecordBatchReaderBuilder};

use super::items::Items;
use super::window::damaged;
use crate::write::{COLUMN, Width};
use crate::{Error, Result};

/// A file of rows.
pub(super) struct Table {
    path: PathBuf,
    source: Source,
    /// How many rows end with each group.
    ends: Vec<u64>,
    /// The group that is held, and its lists.
    held: Option<(usize, Vec<ArrayRef>)>,
    width: Width,
}

enum Source {
    Parquet(File, ArrowReaderMetadata),
    Arrow(Box<FileReader<File>>),
}

impl Table {
    pub(super) fn parquet(path: &Path) -> Result<Table> {
        let file = File::open(path).map_err(Error::io(path))?;
        let metadata = ArrowReaderMetadata::load(&file, Default::default())
            .map_err(|error| damaged(path, error.to_string()))?;
        let mut rows = 0;
        let ends = metadata.metadata().row_groups().iter().map(|group| {
            rows += group.num_rows().unsigned_abs();
            rows
        });
        let ends = ends.collect();
        let width = width_of(path, metadata.schema())?;
        let source = Source::Parquet(file, metadata);
        Ok(Table {
            path: path.to_owned(),
            source,
            ends,
            held: None,
            width,
        })
    }

    pub(super) fn arrow(path: &Path) -> Result<Table> {
        let file = File::open(path).map_err(Error::io(path))?;
        let wrong = |error: arrow_schema::ArrowError| damaged(path, error.to_string());
        let mut reader =
            FileReader::try_new_buffered(file.try_clone().map_err(Error::io(path))?, None)
                .map_err(wrong)?;
        let width = width_of(path, &reader.schema())?;
        let (mut rows, mut ends) = (0, Vec::new());
        for batch in reader.by_ref() {
            rows += batch.map_err(wrong)?.num_rows() as u64;
            ends.push(rows);
        }
        drop(reader);
        let reader = FileReader::try_new(file, None).map_err(wrong)?;
        let source = Source::Arrow(Box::new(reader));
        Ok(Table {
            path: path.to_owned(),
            source,
            ends,
            held: None,
            width,
        })
    }

    /// The lists of a group.
    fn group(&mut self, number: usize) -> Result<&[ArrayRef]> {
        if self.held.as_ref().is_none_or(|held| held.0 != number) {
            let path = &self.path;
            let wrong = |error: String| damaged(path, error);
            let batches: Vec<RecordBatch> = match &mut self.source {
                Source::Parquet(file, metadata) => {
                    let file = file.try_clone().map_err(Error::io(path))?;
                    let builder =
                        ParquetRecordBatchReaderBuilder::new_with_metadata(file, metadata.clone());
                    let column = ProjectionMask::columns(builder.parquet_schema(), [COLUMN]);
                    let reader = builder
                        .with_row_groups(vec![number])
                        .with_projection(column);
                    let batches = reader.build().map_err(|error| wrong(error.to_string()))?;
                    let batches: std::result::Result<Vec<RecordBatch>, _> = batches.collect();
                    batches.map_err(|error| wrong(error.to_string()))?
                }
                Source::Arrow(reader) => {
                    reader
                        .set_index(number)
                        .map_err(|error| wrong(error.to_string()))?;
                    let batch = reader.next().transpose();
                    batch
                        .map_err(|error| wrong(error.to_string()))?
                        .into_iter()
                        .collect()
                }
            };
            let lists = batches
                .iter()
                .filter_map(|batch| batch.column_by_name(COLUMN).cloned());
            self.held = Some((number, lists.collect()));
        }
        Ok(self.held.as_ref().map_or(&[], |held| &held.1))
    }
}

fn width_of(path: &Path, schema: &arrow_schema::Schema) -> Result<Width> {
    let field = schema
        .field_with_name(COLUMN)
        .map_err(|_| damaged(path, format!("has no column {COLUMN}")))?;
    let item = match field.data_type() {
        DataType::List(item) | DataType::LargeList(item) => item.data_type(),
        other => other,
    };
    match item {
        DataType::UInt16 => Ok(Width::U16),
        DataType::UInt32 => Ok(Width::U32),
        DataType::Int32 | DataType::Int64 => Ok(Width::I32),
        other => Err(damaged(
            path,
            format!("the column {COLUMN} holds {other}, no lists of ids"),
        )),
    }
}

impl Items for Table {
    fn len(&self) -> u64 {
        self.ends.last().copied().unwrap_or(0)
    }

    fn width(&self) -> Width {
        self.width
    }

    fn read(&mut self, number: u64, ids: &mut Vec<u32>) -> Result<()> {
        let group = self.ends.partition_point(|end| *end <= number);
        let first = group.checked_sub(1).map_or(0, |before| self.ends[before]);
        let mut row = (number - first) as usize;
        for lists in self.group(group)? {
            if row < lists.len() {
                let list = match lists.data_type() {
                    DataType::LargeList(_) => lists.as_list::<i64>().value(row),
                    _ => lists.as_list::<i32>().value(row),
                };
                if values(&list, ids) {
                    return Ok(());
                }
                break;
            }
            row -= lists.len();
        }
        Err(damaged(
            &self.path,
            format!("row {number} is no list of ids"),
        ))
    }
}

/// The numbers of a list, if all are ids.
fn values(list: &ArrayRef, ids: &mut Vec<u32>) -> bool {
    if list.null_count() > 0 {
        return false;
    }
    match list.data_type() {
        DataType::UInt16 => {
            ids.extend(
                list.as_primitive::<UInt16Type>()
                    .values()
                    .iter()
                    .map(|id| u32::from(*id)),
            );
            true
        }
        DataType::UInt32 => {
            ids.extend_from_slice(list.as_primitive::<UInt32Type>().values());
            true
        }
        DataType::Int32 => list
            .as_primitive::<Int32Type>()
            .values()
            .iter()
            .all(|id| u32::try_from(*id).map(|id| ids.push(id)).is_ok()),
        DataType::Int64 => list
            .as_primitive::<Int64Type>()
            .values()
            .iter()
            .all(|id| u32::try_from(*id).map(|id| ids.push(id)).is_ok()),
        _ => false,
    }
}
