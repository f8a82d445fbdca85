//! Documents of files that are ids one behind the other, with where they end beside.
//!
//! A document may go on in the next file: the ids behind a file's last end are its beginning. A file
//! without a list of ends beside it, as others write them, is one document.
//! Tested by reading back what was written, and by cutting and changing it.

use std::path::Path;

use super::Documents;
use super::npy;
use super::window::Window;
use crate::Result;
use crate::write::{Format, LLMC_HEADER, Width, llmc_magic};

/// The files of a shard.
pub(super) struct Flat {
    parts: Vec<Part>,
    width: Width,
}

/// A file and its ends.
struct Part {
    data: Window,
    /// Bytes before the ids.
    head: u64,
    tokens: u64,
    ends: Ends,
    /// The documents that end in files before.
    first: u64,
}

/// Where the documents of a file end.
enum Ends {
    /// Numbers in a file, behind so many bytes.
    Listed {
        file: Window,
        head: u64,
        number: u64,
    },
    /// The file is one document.
    Whole,
}

impl Flat {
    /// Open files, each with its list of ends, in their order.
    pub(super) fn open<'a>(
        format: Format,
        files: impl IntoIterator<Item = (&'a Path, Option<&'a Path>)>,
        width: Option<Width>,
    ) -> Result<Flat> {
        let mut parts: Vec<Part> = Vec::new();
        let (mut first, mut found) = (0, width);
        for (path, ends) in files {
            let mut data = Window::open(path)?;
            let (head, width) = match format {
                Format::Llmc => llmc(&mut data)?,
                _ => (0, width.unwrap_or(Width::U16)),
            };
            if found.is_some_and(|found| found != width) {
                return Err(data.damaged(format!("has ids as {width:?}, unlike the others")));
            }
            found = Some(width);
            let bytes = data.size() - head;
            if bytes % width.bytes() as u64 != 0 {
                return Err(data.damaged(format!(
                    "has {bytes} bytes of ids, which is no number of ids of {} bytes",
                    width.bytes()
                )));
            }
            let tokens = bytes / width.bytes() as u64;
            let mut ends = match ends {
                Some(path) => listed(path, format)?,
                None => Ends::Whole,
            };
            let documents = ends.len();
            let end = ends.get(documents, tokens)?;
            if end < tokens && format != Format::Llmc {
                return Err(data.damaged(format!(
                    "has {tokens} ids, and its last document ends behind {end}"
                )));
            }
            parts.push(Part {
                data,
                head,
                tokens,
                ends,
                first,
            });
            first += documents;
        }
        if let Some(part) = parts.last_mut() {
            let end = part.ends.get(part.ends.len(), part.tokens)?;
            if end < part.tokens {
                return Err(part.data.damaged(format!(
                    "has {} ids, and the shard's last document ends behind {end}",
                    part.tokens
                )));
            }
        }
        Ok(Flat {
            parts,
            width: found.unwrap_or(Width::U16),
        })
    }
}

/// Look at the header of an llm.c file.
fn llmc(data: &mut Window) -> Result<(u64, Width)> {
    let magic = [data.u32(0)?, data.u32(4)?];
    let width = [Width::U16, Width::U32]
        .into_iter()
        .find(|width| llmc_magic(*width) == magic);
    let Some(width) = width else {
        return Err(data.damaged(format!("is no file of llm.c: it begins with {magic:?}")));
    };
    let tokens = data.u32(8)?;
    let size = LLMC_HEADER as u64 + u64::from(tokens) * width.bytes() as u64;
    if size != data.size() {
        let have = data.size();
        return Err(data.damaged(format!(
            "has {have} bytes, and {size} were right for the {tokens} ids it says it has"
        )));
    }
    Ok((LLMC_HEADER as u64, width))
}

fn listed(path: &Path, format: Format) -> Result<Ends> {
    let mut file = Window::open(path)?;
    if format != Format::Datatrove {
        let (head, number) = npy::numbers(&mut file)?;
        return Ok(Ends::Listed { file, head, number });
    }
    let bytes = file.size();
    if bytes % 8 != 0 {
        return Err(file.damaged(format!("has {bytes} bytes, which are no numbers of 8")));
    }
    Ok(Ends::Listed {
        file,
        head: 0,
        number: bytes / 8,
    })
}

impl Ends {
    fn len(&self) -> u64 {
        match self {
            Ends::Listed { number, .. } => *number,
            Ends::Whole => 1,
        }
    }

    /// The end of a document, where the one before the first ends at 0.
    fn get(&mut self, number: u64, tokens: u64) -> Result<u64> {
        match (self, number) {
            (_, 0) => Ok(0),
            (Ends::Whole, _) => Ok(tokens),
            (Ends::Listed { file, head, .. }, _) => {
                let end = file.u64(*head + 8 * (number - 1))?;
                if end > tokens {
                    return Err(file.damaged(format!(
                        "document {} ends at id {end}, and the file beside has {tokens}",
                        number - 1
                    )));
                }
                Ok(end)
            }
        }
    }
}

impl Documents for Flat {
    fn len(&self) -> u64 {
        self.parts
            .last()
            .map_or(0, |part| part.first + part.ends.len())
    }

    fn width(&self) -> Width {
        self.width
    }

    fn read(&mut self, number: u64, ids: &mut Vec<u32>) -> Result<()> {
        let found = self
            .parts
            .partition_point(|part| part.first + part.ends.len() <= number);
        // A document that is the first to end in its file may have begun in files before.
        let mut from = found;
        while self
            .parts
            .get(found)
            .is_some_and(|part| part.first == number)
            && from > 0
        {
            let part = &mut self.parts[from - 1];
            let last = part.ends.get(part.ends.len(), part.tokens)?;
            if last == part.tokens {
                break;
            }
            from -= 1;
            if part.ends.len() > 0 {
                break;
            }
        }
        for at in from..=found {
            let Some(part) = self.parts.get_mut(at) else {
                break;
            };
            let (start, end) = match at == found {
                true => {
                    let here = number - part.first;
                    (
                        part.ends.get(here, part.tokens)?,
                        part.ends.get(here + 1, part.tokens)?,
                    )
                }
                false => (part.ends.get(part.ends.len(), part.tokens)?, part.tokens),
            };
            if start > end {
                return Err(part.data.damaged(format!(
                    "document {number} begins at id {start} and ends at {end}"
                )));
            }
            let at = part.head + start * self.width.bytes() as u64;
            part.data.ids(at, end - start, self.width, ids)?;
        }
        Ok(())
    }
}
