//! What a file is: its format, how it is compressed, and where it may be cut into units.
//!
//! What a file begins with decides before what it is called. What is known to be no text is refused by
//! name, whatever the file is called.

use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use serde::Serialize;

use super::compressed::Compression;
use super::csv::State;
use super::cut::Separator;
use super::stream::{self, Broken};
use super::table;
use crate::{Error, Result, Unit};

/// So much of a file is looked at.
const LOOK: usize = 1 << 13;

/// The formats of texts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    Jsonl,
    Txt,
    Csv,
    Tsv,
    Parquet,
    Arrow,
}

/// Their names, and the endings of file names that say so.
const NAMES: [(Format, &str, &[&str]); 6] = [
    (Format::Jsonl, "jsonl", &["jsonl", "ndjson", "json"]),
    (Format::Txt, "txt", &["txt", "text", "md"]),
    (Format::Csv, "csv", &["csv"]),
    (Format::Tsv, "tsv", &["tsv", "tab"]),
    (Format::Parquet, "parquet", &["parquet", "pq"]),
    (Format::Arrow, "arrow", &["arrow", "ipc", "feather"]),
];

impl Format {
    /// The one of this name.
    pub(crate) fn named(name: &str) -> Result<Format> {
        let found = NAMES.iter().find(|(_, known, _)| *known == name);
        found.map(|&(found, ..)| found).ok_or_else(|| {
            let known: Vec<&str> = NAMES.iter().map(|&(_, name, _)| name).collect();
            Error::Refused(format!(
                "{name:?} is no format of texts: {} are",
                known.join(", ")
            ))
        })
    }

    pub(crate) fn name(self) -> &'static str {
        let found = NAMES.iter().find(|&&(one, ..)| one == self);
        found.map_or("", |&(_, name, _)| name)
    }

    /// What ends the records of a file of text. `separator` is that of plain text.
    pub(crate) fn separator(self, separator: Option<&str>) -> Separator {
        match self {
            Format::Jsonl => Separator::Byte(b'\n'),
            Format::Txt => Separator::new(separator),
            Format::Csv | Format::Tsv => Separator::Csv {
                comma: self.comma(),
                state: State::default(),
            },
            Format::Parquet | Format::Arrow => Separator::None,
        }
    }

    /// What stands between fields.
    pub(crate) fn comma(self) -> u8 {
        if self == Format::Tsv { b'\t' } else { b',' }
    }

    fn of_ending(ending: &str) -> Option<Format> {
        let found = NAMES.iter().find(|(.., endings)| endings.contains(&ending));
        found.map(|&(found, ..)| found)
    }
}

/// What is not read, by what it begins with.
const REFUSED: [(&[u8], &str); 21] = [
    (b"FEA1", "a file of Feather's first version"),
    (b"%PDF-", "a PDF document"),
    (b"PK\x03\x04", "a zip archive"),
    (b"PK\x05\x06", "a zip archive"),
    (b"7z\xbc\xaf\x27\x1c", "a 7z archive"),
    (b"Rar!", "a RAR archive"),
    (b"\x04\x22\x4d\x18", "compressed with LZ4"),
    (b"\x1f\x9d", "compressed with compress"),
    (b"\xff\x06\x00\x00sNaPpY", "compressed with Snappy"),
    (b"Obj\x01", "an Avro file"),
    (b"ORC", "an ORC file"),
    (b"SQLite format 3", "an SQLite database"),
    (b"\x89HDF", "an HDF5 file"),
    (b"\x93NUMPY", "a NumPy array"),
    (b"\x80\x04\x95", "a Python pickle"),
    (b"\x7fELF", "a program"),
    (b"\x89PNG", "a picture"),
    (b"\xff\xd8\xff", "a picture"),
    (b"GIF8", "a picture"),
    (b"\xff\xfe", "UTF-16 text"),
    (b"\xfe\xff", "UTF-16 text"),
];

/// A part of a file that can be read by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Range {
    /// See [`Unit::start`].
    pub start: u64,
    /// See [`Unit::end`].
    pub end: Option<u64>,
}

/// What a file is, for the plan.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Input {
    /// The file.
    pub path: PathBuf,
    /// Its format.
    pub format: String,
    /// How it is compressed.
    pub compression: String,
    /// Its size in bytes.
    pub size: u64,
    /// When it was changed last, in nanoseconds of Unix time.
    pub modified: u64,
    /// Units that hold all of it.
    pub units: Vec<Range>,
    /// Whether it can be read from the middle.
    pub splittable: bool,
    /// The number of its records, where the file says it.
    pub rows: Option<u64>,
}

/// Find out what a file is. `format` is what the caller says it is; `separator` is what stands between
/// documents of plain text; units are about `unit_bytes` long.
pub fn inspect(
    path: &Path,
    format: Option<&str>,
    separator: Option<&str>,
    unit_bytes: u64,
) -> Result<Input> {
    let said = format.map(Format::named).transpose()?;
    let mut file = File::open(path).map_err(Error::io(path))?;
    let metadata = file.metadata().map_err(Error::io(path))?;
    let mut begin = Vec::new();
    let look = file.by_ref().take(LOOK as u64).read_to_end(&mut begin);
    look.map_err(Error::io(path))?;
    let endings = endings(path);
    let ending = |place: usize| endings.get(place).map_or("", String::as_str);
    let called = Compression::of_ending(ending(0));
    let compression = match Compression::of_beginning(&begin) {
        Some(found) => found,
        None if begin.is_empty() => called.unwrap_or(Compression::None),
        None if called.is_some() => {
            return Err(refused(path, &format!("it is not {}", ending(0))));
        }
        None => Compression::None,
    };
    let mut input = Input {
        path: path.to_owned(),
        format: String::new(),
        compression: compression.name().to_owned(),
        size: metadata.len(),
        modified: stream::modified(&metadata).map_err(Error::io(path))?,
        units: Vec::new(),
        splittable: false,
        rows: None,
    };
    if compression != Compression::None {
        begin = unpacked(&input)?;
    }
    let ending = ending(usize::from(called.is_some()));
    let format = match said {
        Some(said) => said,
        None => guess(path, &begin, ending)?,
    };
    format.name().clone_into(&mut input.format);
    if matches!(format, Format::Parquet | Format::Arrow) {
        parts(&mut input, format, unit_bytes)?;
        return Ok(input);
    }
    let separator = format.separator(separator);
    input.splittable = compression == Compression::None && separator.is_certain();
    input.units = ranges(&input, unit_bytes.max(1));
    Ok(input)
}

/// The parts of a file's name behind dots, in small letters, the last one first.
fn endings(path: &Path) -> Vec<String> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let mut parts: Vec<String> = name.split('.').skip(1).map(str::to_lowercase).collect();
    parts.reverse();
    parts
}

fn refused(path: &Path, what: &str) -> Error {
    Error::Input {
        path: path.to_owned(),
        reason: format!("{what}; leave the file out, or name its format if it is text after all"),
    }
}

/// All of a file.
fn whole(input: &Input) -> Unit {
    Unit {
        path: input.path.clone(),
        format: input.format.clone(),
        compression: input.compression.clone(),
        start: 0,
        end: None,
        size: input.size,
        modified: input.modified,
    }
}

/// What is compressed at the beginning of a file. A file that breaks there is found out later.
fn unpacked(input: &Input) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let mut stream = stream::open(&whole(input), 0, &Arc::new(AtomicU64::new(0)))?;
    match stream.read(&mut bytes, LOOK) {
        Ok(_) | Err(Broken::Damaged(_)) => Ok(bytes),
        Err(Broken::Error(error)) => Err(error),
    }
}

/// The format of what begins so and is called so.
fn guess(path: &Path, begin: &[u8], ending: &str) -> Result<Format> {
    if begin.starts_with(b"PAR1") {
        return Ok(Format::Parquet);
    }
    // A stream begins with a mark, the length of its schema and, in there, the places of tables.
    if begin.starts_with(b"ARROW1") || begin.starts_with(&[0xff; 4]) {
        return Ok(Format::Arrow);
    }
    if let Some((_, what)) = REFUSED.iter().find(|(magic, _)| begin.starts_with(magic)) {
        return Err(refused(path, &format!("it is {what}")));
    }
    if begin.get(257..262) == Some(b"ustar") {
        return Err(refused(path, "it is a tar archive"));
    }
    let text = begin.strip_prefix(b"\xef\xbb\xbf").unwrap_or(begin);
    let text = text.trim_ascii_start();
    let named = Format::of_ending(ending);
    if matches!(named, None | Some(Format::Jsonl)) {
        let line = text.split(|&byte| byte == b'\n').next().unwrap_or_default();
        if named.is_some() && matches!(line.trim_ascii(), b"{" | [b'[', ..]) {
            return Err(refused(
                path,
                "it is one JSON document, not one on each line",
            ));
        }
        if line.starts_with(b"{") {
            return Ok(Format::Jsonl);
        }
    }
    match named {
        Some(Format::Parquet | Format::Arrow) => {
            return Err(refused(path, &format!("it is not {ending}")));
        }
        Some(named) => return Ok(named),
        None => {}
    }
    let controls = |byte: &&u8| **byte < 0x20 && !b"\t\n\r\x0c\x1b".contains(byte);
    if begin.iter().filter(controls).count() * 50 > begin.len() {
        return Err(refused(path, "it is not text"));
    }
    Ok(Format::Txt)
}

/// Units of row groups or batches.
fn parts(input: &mut Input, format: Format, unit_bytes: u64) -> Result<()> {
    let unit = whole(input);
    let parts = match format {
        Format::Parquet => Some(table::parquet_parts(&unit)?),
        _ => table::arrow_parts(&unit)?,
    };
    input.rows = parts.as_ref().and_then(|parts| parts.rows);
    input.splittable = parts.is_some();
    let (mut start, mut bytes) = (0, 0);
    for (number, size) in parts.iter().flat_map(|parts| &parts.sizes).enumerate() {
        let number = number as u64;
        if bytes > 0 && bytes + size > unit_bytes {
            input.units.push(Range {
                start,
                end: Some(number),
            });
            (start, bytes) = (number, 0);
        }
        bytes += size;
    }
    input.units.push(Range { start, end: None });
    Ok(())
}

/// Units of about `unit_bytes` bytes that hold all of a file.
fn ranges(input: &Input, unit_bytes: u64) -> Vec<Range> {
    let count = if input.splittable {
        input.size.div_ceil(unit_bytes).max(1)
    } else {
        1
    };
    if count == 1 {
        return vec![Range {
            start: 0,
            end: None,
        }];
    }
    let starts = (0..count).map(|number| number * unit_bytes);
    let ends = (1..=count).map(|number| (number < count).then_some(number * unit_bytes));
    starts
        .zip(ends)
        .map(|(start, end)| Range { start, end })
        .collect()
}
