//! Documents into sequences of one length, and formats that hold items: sequences or documents.
//!
//! What goes where is kept beside each file: `.ends.npy` says where each *piece*, a document or a part of
//! one, ends, counted in ids from the beginning of the file as if the sequences stood one behind the
//! other, and `.documents.npy` which document of the shard it is of. A piece begins where the one before
//! it in its sequence ends. What lies behind a sequence's last piece only fills it.
//!
//! Invariant: every id of every document is in one piece, and the pieces of a document are in its order.
//! Tested by putting the documents together again, on random documents, in every way of packing.

use super::aside::Place;
use super::npy::Numbers;
use super::pack::Packer;
use super::{Pack, Sequences, ShardWriter};
use crate::{Result, Written};

/// A document, or a part of one, in a sequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Piece {
    /// Its ids.
    pub(super) length: u32,
    /// Which document of the shard it is of.
    pub(super) document: u64,
}

/// Writes items: sequences with their pieces, or documents without any.
pub(super) trait Items: Send {
    /// One item.
    fn item(&mut self, ids: &[u32], pieces: &[Piece]) -> Result<()>;

    /// Complete and sync the files.
    fn finish(self: Box<Self>) -> Result<Vec<Written>>;
}

/// Documents as items.
pub(super) struct Whole(pub(super) Box<dyn Items>);

impl ShardWriter for Whole {
    fn document(&mut self, ids: &[u32]) -> Result<()> {
        self.0.item(ids, &[])
    }

    fn finish(self: Box<Self>) -> Result<Vec<Written>> {
        self.0.finish()
    }
}

/// Where the pieces of one file lie.
pub(super) struct Beside {
    ends: Numbers,
    documents: Numbers,
    length: u64,
}

impl Beside {
    pub(super) fn new(place: &Place, stem: &str, length: u64) -> Result<Beside> {
        Ok(Beside {
            ends: Numbers::new(place, &format!("{stem}.ends.npy"), true)?,
            documents: Numbers::new(place, &format!("{stem}.documents.npy"), true)?,
            length,
        })
    }

    /// The pieces of this row of the file.
    pub(super) fn row(&mut self, row: u64, pieces: &[Piece]) -> Result<()> {
        let mut end = row * self.length;
        for piece in pieces {
            end += u64::from(piece.length);
            self.ends.push(end)?;
            self.documents.push(piece.document)?;
        }
        Ok(())
    }

    pub(super) fn finish(self) -> Result<[Written; 2]> {
        Ok([self.documents.finish()?, self.ends.finish()?])
    }
}

/// Cuts or packs documents into sequences.
pub(super) struct Rows {
    length: usize,
    pad: u32,
    pack: Pack,
    /// The sequence that is being filled.
    row: Vec<u32>,
    pieces: Vec<Piece>,
    packer: Packer,
    document: u64,
    items: Box<dyn Items>,
}

impl Rows {
    /// The length has been checked to be reasonable.
    pub(super) fn new(sequences: &Sequences, items: Box<dyn Items>) -> Rows {
        let length = sequences.length as usize;
        Rows {
            length,
            pad: sequences.pad,
            pack: sequences.pack,
            row: Vec::with_capacity(length),
            pieces: Vec::new(),
            packer: Packer::new(length),
            document: 0,
            items,
        }
    }

    /// Write the sequence that is being filled, if there is anything in it.
    fn close(&mut self) -> Result<()> {
        if self.pieces.is_empty() {
            return Ok(());
        }
        self.row.resize(self.length, self.pad);
        self.items.item(&self.row, &self.pieces)?;
        self.row.clear();
        self.pieces.clear();
        Ok(())
    }

    /// One piece behind those in the sequence; there is room for it.
    fn put(&mut self, ids: &[u32], document: u64) {
        self.row.extend_from_slice(ids);
        self.pieces.push(Piece {
            length: ids.len() as u32,
            document,
        });
    }

    /// A document from here on, over as many sequences as it takes.
    fn put_all(&mut self, mut ids: &[u32], document: u64) -> Result<()> {
        loop {
            let room = (self.length - self.row.len()).min(ids.len());
            let (now, later) = ids.split_at(room);
            self.put(now, document);
            if self.row.len() == self.length {
                self.close()?;
            }
            ids = later;
            if ids.is_empty() {
                return Ok(());
            }
        }
    }

    /// Write what waits for being packed.
    fn pack_waiting(&mut self) -> Result<()> {
        let packed = self.packer.pack();
        for bin in packed.bins() {
            for waiting in bin {
                self.put(packed.ids(waiting), waiting.document);
            }
            self.close()?;
        }
        Ok(())
    }
}

impl ShardWriter for Rows {
    fn document(&mut self, ids: &[u32]) -> Result<()> {
        let document = self.document;
        self.document += 1;
        if ids.is_empty() {
            // It has no piece, and is there by its number alone.
            return Ok(());
        }
        match self.pack {
            Pack::Concat => self.put_all(ids, document),
            Pack::None => {
                self.put_all(ids, document)?;
                self.close()
            }
            Pack::Bestfit => {
                let whole = ids.len() / self.length * self.length;
                let (full, rest) = ids.split_at(whole);
                if !full.is_empty() {
                    self.put_all(full, document)?;
                }
                if !rest.is_empty() {
                    self.packer.add(rest, document);
                }
                if self.packer.is_full() {
                    self.pack_waiting()?;
                }
                Ok(())
            }
        }
    }

    fn finish(mut self: Box<Self>) -> Result<Vec<Written>> {
        self.pack_waiting()?;
        self.close()?;
        self.items.finish()
    }
}
