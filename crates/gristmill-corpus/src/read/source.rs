//! The units of a job as one row of blocks.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::block::{Block, Form};
use super::cut::Cutter;
use super::inspect::Format;
use super::json::Field;
use super::table::Table;
use super::{csv, stream};
use crate::{Error, Read, Result, Unit};

/// The blocks of several units, one after the other. None holds records of two units.
pub(crate) struct Source<'j> {
    units: &'j [Unit],
    read: &'j Read,
    /// About so many bytes go into a block.
    size: usize,
    /// Bytes read from files.
    count: Arc<AtomicU64>,
    /// The number of the unit to be opened next.
    next: usize,
    open: Option<Opened>,
}

impl<'j> Source<'j> {
    pub(crate) fn new(units: &'j [Unit], read: &'j Read, size: usize) -> Source<'j> {
        Source {
            units,
            read,
            size,
            count: Arc::default(),
            next: 0,
            open: None,
        }
    }

    /// Bytes read from files so far.
    pub(crate) fn read_bytes(&self) -> u64 {
        self.count.load(Ordering::Relaxed)
    }

    /// Fill `block` with the next records. False at the end.
    pub(crate) fn next(&mut self, block: &mut Block) -> Result<bool> {
        loop {
            if let Some(open) = &mut self.open {
                block.clear();
                block.unit = self.next - 1;
                if open.next(block, self.read)? {
                    return Ok(true);
                }
                self.open = None;
            }
            let Some(unit) = self.units.get(self.next) else {
                return Ok(false);
            };
            self.next += 1;
            self.open = Some(self.open(unit)?);
        }
    }

    fn open(&self, unit: &Unit) -> Result<Opened> {
        let format = Format::named(&unit.format)?;
        let longest = self.read.max_document;
        let field = || Field::new(&self.read.field);
        let (form, separator) = match format {
            Format::Parquet | Format::Arrow if unit.compression != "none" => {
                return Err(Error::Input {
                    path: unit.path.clone(),
                    reason: format!("a file of columns is not read out of {}", unit.compression),
                });
            }
            Format::Parquet => {
                let table = Table::parquet(unit, field(), self.size, longest, &self.count)?;
                return Ok(Opened::Table(Box::new(table)));
            }
            Format::Arrow => {
                let table = Table::arrow(unit, field(), self.size, longest, &self.count)?;
                return Ok(Opened::Table(Box::new(table)));
            }
            Format::Jsonl => (Form::Json, format.separator(None)),
            Format::Txt => (Form::Text, format.separator(self.read.separator.as_deref())),
            Format::Csv | Format::Tsv => {
                let comma = format.comma();
                // Which column it is stands in the file.
                (
                    Form::Csv {
                        comma,
                        column: usize::MAX,
                    },
                    format.separator(None),
                )
            }
        };
        let whole = unit.start == 0 && unit.end.is_none();
        if !whole && (unit.compression != "none" || !separator.is_certain()) {
            return Err(Error::Input {
                path: unit.path.clone(),
                reason: "it can only be read from its beginning to its end".to_owned(),
            });
        }
        // A record begins at `start` if a separator ends there.
        let looking = unit.start > 0;
        let from = if looking {
            unit.start.saturating_sub(separator.len() as u64)
        } else {
            0
        };
        let stream = stream::open(unit, from, &self.count)?;
        let range = (from, unit.end.unwrap_or(u64::MAX));
        let cutter = Cutter::new(stream, separator, range, looking, self.size, longest);
        Ok(Opened::Stream(form, Box::new(cutter)))
    }
}

/// A unit that is being read.
enum Opened {
    Stream(Form, Box<Cutter>),
    Table(Box<Table>),
}

impl Opened {
    fn next(&mut self, block: &mut Block, read: &Read) -> Result<bool> {
        match self {
            Opened::Table(table) => table.next(block),
            Opened::Stream(form, cutter) => {
                if !cutter.next(block)? {
                    return Ok(false);
                }
                if let Form::Csv { comma, column } = form
                    && *column == usize::MAX
                {
                    find_column(block, *comma, column, read, cutter)?;
                }
                block.form = *form;
                Ok(true)
            }
        }
    }
}

/// Find the column of the texts in the first line of a file, if that is in the block.
fn find_column(
    block: &mut Block,
    comma: u8,
    column: &mut usize,
    read: &Read,
    cutter: &Cutter,
) -> Result<()> {
    let whole = block.whole();
    let mut names = None;
    csv::records(&mut block.bytes[..whole], 0, comma, |line, start, end| {
        names.get_or_insert_with(|| (csv::names(line, comma), end, start));
    });
    // The names obey the limit of records, or they would depend on how much is read at a time.
    let length = names.as_ref().map_or(0, |(_, end, start)| end - start);
    let too_long = names.is_none() && block.damage().is_none() && whole < block.bytes.len();
    if too_long || length as u64 > read.max_document {
        return Err(Error::Input {
            path: cutter.path().to_owned(),
            reason: "the names of its columns are longer than a document may be".to_owned(),
        });
    }
    let Some((names, end, _)) = names else {
        // Only empty lines, so far.
        block.header = whole;
        return Ok(());
    };
    block.header = end;
    match names.iter().rposition(|name| *name == read.field) {
        Some(found) => *column = found,
        None => {
            return Err(Error::Input {
                path: cutter.path().to_owned(),
                reason: format!(
                    "it has no column {:?}, but {}",
                    read.field,
                    names.join(", ")
                ),
            });
        }
    }
    Ok(())
}
