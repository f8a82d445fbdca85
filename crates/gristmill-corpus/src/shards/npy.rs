//! Numpy's arrays: the header, as strictly as it is written by numpy and by us, and rows of ids.
//! Tested by reading back, and with arrays that are something else.

use std::path::Path;

use super::items::Items;
use super::window::Window;
use crate::Result;
use crate::write::Width;

/// Where the numbers begin, their type and the shape.
fn header(file: &mut Window) -> Result<(u64, String, Vec<u64>)> {
    let start = file.bytes(0, 10)?;
    if &start[..6] != b"\x93NUMPY" || start[6] != 1 {
        return Err(file.damaged("is no array of numpy, version 1"));
    }
    let length = usize::from(u16::from_le_bytes([start[8], start[9]]));
    let text = String::from_utf8_lossy(file.bytes(10, length)?).into_owned();
    let value = |key: &str| {
        let behind = text.split_once(&format!("'{key}':"))?.1.trim_start();
        Some(behind.to_owned())
    };
    let parsed = (|| {
        let descr = value("descr")?;
        let descr = descr.strip_prefix('\'')?.split_once('\'')?.0.to_owned();
        value("fortran_order")?.starts_with("False").then_some(())?;
        let shape = value("shape")?;
        let shape = shape.strip_prefix('(')?.split_once(')')?.0;
        let shape: Option<Vec<u64>> = shape
            .split(',')
            .map(str::trim)
            .filter(|size| !size.is_empty())
            .map(|size| size.parse().ok())
            .collect();
        Some((descr, shape?))
    })();
    match parsed {
        Some((descr, shape)) => Ok((10 + length as u64, descr, shape)),
        None => Err(file.damaged(format!("has a header that is not understood: {text:?}"))),
    }
}

/// Where the numbers of 64 bits begin, and how many there are.
pub(super) fn numbers(file: &mut Window) -> Result<(u64, u64)> {
    let (start, descr, shape) = header(file)?;
    match (descr.as_str(), shape.as_slice()) {
        ("<u8" | "<i8", [number]) if number.checked_mul(8) == Some(file.size() - start) => {
            Ok((start, *number))
        }
        _ => {
            let have = file.size() - start;
            Err(file.damaged(format!(
                "{have} bytes are no list of {shape:?} numbers as {descr}"
            )))
        }
    }
}

/// An array of sequences.
pub(super) struct Npy {
    file: Window,
    start: u64,
    width: Width,
    rows: u64,
    length: u64,
}

impl Npy {
    pub(super) fn open(path: &Path) -> Result<Npy> {
        let mut file = Window::open(path)?;
        let (start, descr, shape) = header(&mut file)?;
        let width = match descr.as_str() {
            "|u1" => Width::U8,
            "<u2" => Width::U16,
            "<u4" => Width::U32,
            "<i4" => Width::I32,
            _ => return Err(file.damaged(format!("holds {descr}, which are no ids"))),
        };
        let [rows, length] = match shape.as_slice() {
            [rows, length] => [*rows, *length],
            // One long line of ids is one sequence.
            [length] => [1, *length],
            _ => return Err(file.damaged(format!("has the shape {shape:?}, not [n, length]"))),
        };
        let bytes = rows
            .checked_mul(length)
            .and_then(|ids| ids.checked_mul(width.bytes() as u64));
        if bytes != Some(file.size() - start) {
            let have = file.size() - start;
            return Err(file.damaged(format!("{have} bytes are not {shape:?} ids as {descr}")));
        }
        Ok(Npy {
            file,
            start,
            width,
            rows,
            length,
        })
    }
}

impl Items for Npy {
    fn len(&self) -> u64 {
        self.rows
    }

    fn width(&self) -> Width {
        self.width
    }

    fn read(&mut self, number: u64, ids: &mut Vec<u32>) -> Result<()> {
        let start = self.start + number * self.length * self.width.bytes() as u64;
        self.file.ids(start, self.length, self.width, ids)
    }
}
