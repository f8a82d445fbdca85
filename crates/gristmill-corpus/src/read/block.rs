//! Blocks of whole records, taken apart.
//!
//! A block is bytes and how records stand in them. Taking it apart says of each record where its text is,
//! or why it is bad; escapes are undone where they stand, so that no text is copied elsewhere. What is bad
//! stays as it was read, for the quarantine. White space alone on a line of JSON is no record.

use super::cut::Separator;
use super::json::{Field, Lines};
use super::{Bad, Reason, csv};
use crate::{Error, Read, Result};

/// So much of a bad record is kept.
pub(crate) const HEAD: usize = 200;

/// The most bytes of a document there can be: places in a block are numbers of 32 bits.
pub(crate) const LONGEST: u64 = u32::MAX as u64 - (1 << 24);

/// What a byte order mark is in UTF-8.
pub(crate) const MARK: &[u8] = b"\xef\xbb\xbf";

/// How records stand in a block.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Form {
    /// An object of JSON on each line.
    #[default]
    Json,
    /// Texts with separators between them.
    Text,
    /// Lines of fields, of which this one is the text.
    Csv {
        /// What stands between fields.
        comma: u8,
        /// The number of the field, from 0 on.
        column: usize,
    },
    /// Rows that were taken apart when they were read. What stands for the place of a record is the number
    /// of its row.
    Table,
}

/// Whole records of one unit.
#[derive(Debug, Default)]
pub(crate) struct Block {
    /// Which unit of the job they are of.
    pub(crate) unit: usize,
    pub(crate) form: Form,
    /// Where the first byte stands in what the unit is of, decompressed.
    pub(crate) offset: u64,
    pub(crate) bytes: Vec<u8>,
    /// What stands in it, once it was taken apart.
    pub(crate) records: Vec<Record>,
    pub(crate) is_apart: bool,
    /// So many bytes at its beginning are no record but the names of columns.
    pub(crate) header: usize,
    /// Bytes read from files for it.
    pub(crate) read: u64,
    /// The number in the unit of its first record, if that does not follow from the blocks before it.
    pub(crate) first_record: Option<u64>,
    /// The last record, if it is bad for a reason that was found while cutting.
    tail: Option<Tail>,
}

/// A record that was not read whole.
#[derive(Debug)]
struct Tail {
    at: usize,
    bad: Bad,
    /// What is wrong with the file.
    damage: Option<String>,
}

/// A record of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Record {
    /// Where it begins.
    pub(crate) at: u32,
    /// Where its text begins; of a bad record, the record.
    pub(crate) start: u32,
    pub(crate) length: u32,
    pub(crate) bad: Option<Reason>,
    /// The byte of a bad record that is the reason.
    pub(crate) bad_at: u32,
}

impl Record {
    /// A text in a record that begins at `at`.
    pub(crate) fn text(at: usize, start: usize, end: usize) -> Record {
        Record {
            at: at as u32,
            start: start as u32,
            length: (end - start) as u32,
            bad: None,
            bad_at: 0,
        }
    }

    pub(crate) fn bad(start: usize, end: usize, bad: Bad) -> Record {
        Record {
            at: start as u32,
            start: start as u32,
            length: (end - start) as u32,
            bad: Some(bad.reason),
            bad_at: bad.at as u32,
        }
    }

    /// The same as the row of this number of a table's block.
    pub(crate) fn numbered(self, number: usize) -> Record {
        Record {
            at: number as u32,
            ..self
        }
    }

    /// The bytes of its text.
    pub(crate) fn text_length(&self) -> u64 {
        match self.bad {
            None => u64::from(self.length),
            Some(_) => 0,
        }
    }

    /// Where it stands in the bytes of its block.
    pub(crate) fn range(&self) -> std::ops::Range<usize> {
        self.start as usize..self.start as usize + self.length as usize
    }
}

impl Block {
    /// Empty, with its memory kept.
    pub(crate) fn clear(&mut self) {
        *self = Block {
            bytes: std::mem::take(&mut self.bytes),
            records: std::mem::take(&mut self.records),
            ..Block::default()
        };
        self.bytes.clear();
        self.records.clear();
    }

    /// Leave out the records before `first`, of a block that was taken apart. `number` is that of its first
    /// record in the unit.
    pub(crate) fn forget(&mut self, first: usize, number: u64) {
        self.records.drain(..first);
        self.first_record = Some(number + first as u64);
    }

    /// From `at` on, the bytes are a record that is bad.
    pub(crate) fn set_tail(&mut self, at: usize, bad: Bad, damage: Option<String>) {
        self.bytes.truncate(at + HEAD);
        self.tail = Some(Tail { at, bad, damage });
    }

    /// So many bytes at its beginning are whole records.
    pub(crate) fn whole(&self) -> usize {
        self.tail.as_ref().map_or(self.bytes.len(), |tail| tail.at)
    }

    /// So many bytes are held until it was written.
    pub(crate) fn held(&self) -> usize {
        self.bytes.len() + size_of_val(self.records.as_slice())
    }

    /// What is wrong with the file, if it cannot be read to its end.
    pub(crate) fn damage(&self) -> Option<&str> {
        self.tail.as_ref()?.damage.as_deref()
    }
}

/// Takes blocks apart.
pub(crate) struct Parser {
    lines: Lines,
    separator: Separator,
    longest: u64,
}

impl Parser {
    /// For what is read so.
    pub(crate) fn new(read: &Read) -> Result<Parser> {
        if read.max_document > LONGEST {
            return Err(Error::Refused(format!(
                "a document may have at most {LONGEST} bytes, and {} are asked for",
                read.max_document
            )));
        }
        Ok(Parser {
            lines: Lines::new(Field::new(&read.field), read.surrogates),
            separator: Separator::new(read.separator.as_deref()),
            longest: read.max_document,
        })
    }

    /// Find the records of a block, unless it was done before. Their texts are UTF-8.
    pub(crate) fn take_apart(&mut self, block: &mut Block) {
        if block.is_apart {
            return;
        }
        block.is_apart = true;
        let whole = block.whole();
        let records = &mut block.records;
        records.clear();
        let at = block.header;
        let all_valid = simdutf8::basic::from_utf8(&block.bytes[at..whole]).is_ok();
        match block.form {
            Form::Json => self.json(&mut block.bytes[..whole], at, all_valid, records),
            Form::Text => self.texts(&block.bytes[..whole], at, all_valid, records),
            Form::Csv { comma, column } => {
                csv::records(&mut block.bytes[..whole], at, comma, |line, start, end| {
                    let text = fits(line, self.longest)
                        .and_then(|()| if all_valid { Ok(()) } else { valid(line) })
                        .and_then(|()| csv::text(line, comma, column));
                    records.push(match text {
                        Ok(text) => Record::text(start, start + text.start, start + text.end),
                        Err(bad) => Record::bad(start, end, bad),
                    });
                });
            }
            Form::Table => {}
        }
        if let Some(tail) = &block.tail {
            block
                .records
                .push(Record::bad(tail.at, block.bytes.len(), tail.bad));
        }
    }

    fn json(
        &mut self,
        bytes: &mut [u8],
        mut at: usize,
        all_valid: bool,
        records: &mut Vec<Record>,
    ) {
        while at < bytes.len() {
            let end = memchr::memchr(b'\n', &bytes[at..]).map_or(bytes.len(), |found| at + found);
            let line = &mut bytes[at..end];
            if !line.iter().all(|byte| b" \t\r".contains(byte)) {
                let text = fits(line, self.longest)
                    .and_then(|()| if all_valid { Ok(()) } else { valid(line) })
                    .and_then(|()| self.lines.text(line));
                records.push(match text {
                    Ok((start, length)) => Record::text(at, at + start, at + length),
                    Err(bad) => Record::bad(at, end, bad),
                });
            }
            at = end + 1;
        }
    }

    fn texts(&self, bytes: &[u8], mut at: usize, all_valid: bool, records: &mut Vec<Record>) {
        let strips = matches!(self.separator, Separator::Byte(b'\n'));
        let separator = self.separator.len();
        while at < bytes.len() || (separator == 0 && records.is_empty()) {
            let found = self.separator.find(bytes, at);
            let end = found.unwrap_or(bytes.len());
            let record = &bytes[at..end];
            let checked = fits(record, self.longest)
                .and_then(|()| if all_valid { Ok(()) } else { valid(record) });
            let stripped = usize::from(strips && record.last() == Some(&b'\r'));
            records.push(match checked {
                Ok(()) => Record::text(at, at, end - stripped),
                Err(bad) => Record::bad(at, end, bad),
            });
            at = end + separator;
            if separator == 0 {
                return;
            }
        }
    }
}

/// Fails if a record is too long.
pub(crate) fn fits(record: &[u8], longest: u64) -> std::result::Result<(), Bad> {
    if record.len() as u64 > longest {
        return Err(Bad::new(Reason::TooLong));
    }
    Ok(())
}

/// Fails unless a record is UTF-8.
pub(crate) fn valid(record: &[u8]) -> std::result::Result<(), Bad> {
    simdutf8::compat::from_utf8(record)
        .map(drop)
        .map_err(|error| Bad::at(Reason::InvalidUtf8, error.valid_up_to()))
}
