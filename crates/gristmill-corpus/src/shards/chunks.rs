//! Items of MDS files and of litdata's chunks.
//! Tested by reading back what was written, and by cutting and changing it.

use std::path::Path;

use serde::Deserialize;

use super::items::Items;
use super::window::{Window, damaged, get};
use crate::write::{Format, Width};
use crate::{Error, Result};

/// One file.
pub(super) struct Chunk {
    /// The file twice, for its table and for its items, so that each is read on from where it was.
    file: Window,
    table: Window,
    width: Width,
    items: u64,
    /// MDS: what an item is.
    mds: Option<Shape>,
}

/// How the ids of a sample of MDS are wrapped.
#[derive(Clone, Copy)]
enum Shape {
    /// Not at all.
    Fixed,
    /// Behind a size and a shape.
    Sized,
}

/// What an MDS file says about its columns.
#[derive(Deserialize)]
struct Config {
    column_encodings: Vec<String>,
    column_names: Vec<String>,
    compression: Option<String>,
}

impl Chunk {
    pub(super) fn open(path: &Path, format: Format, width: Option<Width>) -> Result<Chunk> {
        let mut file = Window::open(path)?;
        let items = u64::from(file.u32(0)?);
        let table = 4 + 4 * (items + 1);
        let (first, last) = (u64::from(file.u32(4)?), u64::from(file.u32(4 + 4 * items)?));
        if last != file.size() || first < table {
            let have = file.size();
            return Err(file.damaged(format!(
                "has {have} bytes, and its {items} items lie from {first} to {last}"
            )));
        }
        let (width, mds) = match format {
            Format::Mds => {
                let config = file.bytes(table, (first - table) as usize)?.to_vec();
                let (width, shape) = columns(path, &config)?;
                (width, Some(shape))
            }
            _ => match width {
                Some(width) => (width, None),
                None => {
                    return Err(file.damaged("does not say what its ids are; open the folder"));
                }
            },
        };
        Ok(Chunk {
            table: Window::open(path)?,
            file,
            width,
            items,
            mds,
        })
    }
}

fn columns(path: &Path, config: &[u8]) -> Result<(Width, Shape)> {
    let config: Config = serde_json::from_slice(config)
        .map_err(|error| damaged(path, format!("is no MDS: its configuration: {error}")))?;
    if config.compression.is_some() {
        return Err(damaged(path, "is compressed MDS; decompress it first"));
    }
    let [encoding] = config.column_encodings.as_slice() else {
        let names = config.column_names.join(", ");
        return Err(damaged(
            path,
            format!("has the columns {names}, and one of ids is expected"),
        ));
    };
    let mut parts = encoding.split(':');
    let width = match (parts.next(), parts.next()) {
        (Some("ndarray"), Some("uint8")) => Width::U8,
        (Some("ndarray"), Some("uint16")) => Width::U16,
        (Some("ndarray"), Some("int32")) => Width::I32,
        (Some("ndarray"), Some("uint32")) => Width::U32,
        _ => return Err(damaged(path, format!("holds {encoding}, which are no ids"))),
    };
    let shape = if parts.next().is_some() {
        Shape::Fixed
    } else {
        Shape::Sized
    };
    Ok((width, shape))
}

impl Items for Chunk {
    fn len(&self) -> u64 {
        self.items
    }

    fn width(&self) -> Width {
        self.width
    }

    fn read(&mut self, number: u64, ids: &mut Vec<u32>) -> Result<()> {
        let start = u64::from(self.table.u32(4 + 4 * number)?);
        let end = u64::from(self.table.u32(8 + 4 * number)?);
        let bytes = match end.checked_sub(start) {
            Some(bytes) => bytes as usize,
            None => return Err(wrong(&self.file, number)),
        };
        let width = self.width;
        let sample = self.file.bytes(start, bytes)?;
        let body = match self.mds {
            None | Some(Shape::Fixed) => Some(sample),
            // A size of 32 bits, a byte for the number of dimensions (one) and the width of the shape.
            Some(Shape::Sized) => sample.get(4).and_then(|kind| match kind {
                0b100 => sample.get(6..),
                0b101 => sample.get(7..),
                0b110 => sample.get(9..),
                0b111 => sample.get(13..),
                _ => None,
            }),
        };
        match body {
            Some(body) if body.len() % width.bytes() == 0 => {
                get(body, width, ids);
                Ok(())
            }
            _ => Err(wrong(&self.file, number)),
        }
    }
}

fn wrong(file: &Window, number: u64) -> Error {
    file.damaged(format!("item {number} is no list of ids"))
}
