//! The units of a job as one row of blocks.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::block::{Block, Form};
use super::cut::{Cutter, Separator};
use super::inspect::Format;
use super::stream;
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
    open: Option<(Form, Cutter)>,
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
            if let Some((form, cutter)) = &mut self.open {
                block.clear();
                block.unit = self.next - 1;
                block.form = *form;
                if cutter.next(block)? {
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

    fn open(&self, unit: &Unit) -> Result<(Form, Cutter)> {
        let (form, separator) = match Format::named(&unit.format)? {
            Format::Jsonl => (Form::Json, Separator::Byte(b'\n')),
            Format::Txt => (Form::Text, Separator::new(self.read.separator.as_deref())),
        };
        let whole = unit.start == 0 && unit.end.is_none();
        if !whole && (unit.compression != "none" || !separator.is_certain()) {
            return Err(Error::Input {
                path: unit.path.clone(),
                reason: "it can only be read from its beginning to its end".to_owned(),
            });
        }
        // A record begins at `start` if a separator ends there.
        let from = unit.start.saturating_sub(separator.len() as u64);
        let looking = unit.start > 0;
        let from = if looking { from } else { 0 };
        let stream = stream::open(unit, from, &self.count)?;
        let range = (from, unit.end.unwrap_or(u64::MAX));
        let longest = self.read.max_document;
        let cutter = Cutter::new(stream, separator, range, looking, self.size, longest);
        Ok((form, cutter))
    }
}
