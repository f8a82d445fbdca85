//! Documents of files of items: each item is one, or, with sequences, what lies beside says which pieces
//! of which sequences are one.
//!
//! No piece is empty; a document without ids has none. The pieces of a shard are held in memory, 24 bytes
//! each. Tested by reading back what was written, in
//! every way of packing.

use std::path::Path;

use super::Documents;
use super::npy;
use super::window::Window;
use crate::Result;
use crate::write::Width;

/// The items of one file.
pub(super) trait Items: Send {
    fn len(&self) -> u64;
    fn width(&self) -> Width;
    /// The ids of an item, behind those that are there.
    fn read(&mut self, number: u64, ids: &mut Vec<u32>) -> Result<()>;
}

/// Items that are documents.
pub(super) struct Whole {
    files: Vec<(u64, Box<dyn Items>)>,
    documents: u64,
}

impl Whole {
    pub(super) fn new(items: Vec<Box<dyn Items>>) -> Whole {
        let mut documents = 0;
        let files = items.into_iter().map(|file| {
            let first = documents;
            documents += file.len();
            (first, file)
        });
        let files = files.collect();
        Whole { files, documents }
    }
}

impl Documents for Whole {
    fn len(&self) -> u64 {
        self.documents
    }

    fn width(&self) -> Width {
        self.files
            .first()
            .map_or(Width::U16, |(_, file)| file.width())
    }

    fn read(&mut self, number: u64, ids: &mut Vec<u32>) -> Result<()> {
        let at = self.files.partition_point(|(first, _)| *first <= number);
        match at.checked_sub(1).and_then(|at| self.files.get_mut(at)) {
            Some((first, file)) => file.read(number - *first, ids),
            None => Ok(()),
        }
    }
}

/// Documents cut or packed into sequences.
pub(super) struct Pieces {
    files: Vec<Box<dyn Items>>,
    length: u64,
    /// All pieces, by document.
    pieces: Vec<Piece>,
    documents: u64,
    /// The sequence that is held: of which file, which, its ids.
    held: Option<(usize, u64, Vec<u32>)>,
}

#[derive(Clone, Copy)]
struct Piece {
    document: u64,
    /// As if the file's sequences stood one behind the other.
    start: u64,
    length: u32,
    file: u32,
}

impl Pieces {
    /// Open files with their `.ends.npy` and `.documents.npy`.
    pub(super) fn open(
        files: Vec<(Box<dyn Items>, &Path, &Path)>,
        length: u64,
        documents: u64,
    ) -> Result<Pieces> {
        let mut pieces = Vec::new();
        let mut items = Vec::new();
        for (number, (file, ends, of)) in files.into_iter().enumerate() {
            let (mut ends, mut of) = (Window::open(ends)?, Window::open(of)?);
            let (ends_head, many) = npy::numbers(&mut ends)?;
            let (of_head, as_many) = npy::numbers(&mut of)?;
            if many != as_many {
                return Err(of.damaged(format!("has {as_many} numbers, and the ends are {many}")));
            }
            let mut before = 0;
            for piece in 0..many {
                let end = ends.u64(ends_head + 8 * piece)?;
                let document = of.u64(of_head + 8 * piece)?;
                let start = before.max(end.saturating_sub(1) / length * length);
                if end <= before || end > file.len() * length || document >= documents {
                    return Err(ends.damaged(format!(
                        "piece {piece} of document {document} ends at {end}, behind one at {before}"
                    )));
                }
                before = end;
                pieces.push(Piece {
                    document,
                    start,
                    length: (end - start) as u32,
                    file: number as u32,
                });
            }
            items.push(file);
        }
        pieces.sort_by_key(|piece| piece.document);
        Ok(Pieces {
            files: items,
            length,
            pieces,
            documents,
            held: None,
        })
    }
}

impl Documents for Pieces {
    fn len(&self) -> u64 {
        self.documents
    }

    fn width(&self) -> Width {
        self.files.first().map_or(Width::U16, |file| file.width())
    }

    fn read(&mut self, number: u64, ids: &mut Vec<u32>) -> Result<()> {
        let from = self.pieces.partition_point(|piece| piece.document < number);
        for at in from..self.pieces.len() {
            let piece = self.pieces[at];
            if piece.document != number {
                break;
            }
            let (file, row) = (piece.file as usize, piece.start / self.length);
            if !matches!(&self.held, Some(held) if (held.0, held.1) == (file, row)) {
                let mut ids = Vec::new();
                self.files[file].read(row, &mut ids)?;
                self.held = Some((file, row, ids));
            }
            let start = (piece.start % self.length) as usize;
            if let Some((_, _, row)) = &self.held
                && let Some(part) = row.get(start..start + piece.length as usize)
            {
                ids.extend_from_slice(part);
            }
        }
        Ok(())
    }
}
