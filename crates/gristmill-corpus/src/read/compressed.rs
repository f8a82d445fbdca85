//! What is compressed in a file, as one stream of bytes: all members of a gzip file, all frames of
//! Zstandard, all streams of bzip2 and xz.
//!
//! A file that ends too soon or is damaged is an error, never an end. Memory is what the format asks for:
//! 32 KiB for gzip, up to 2 GiB for Zstandard with the longest window there is.

use std::io::{self, BufRead, BufReader, Read};

use flate2::bufread::GzDecoder;

use super::stream::Counted;
use crate::{Error, Result};

/// So much of a file is read at a time.
const INPUT: usize = 1 << 18;
/// The longest window of Zstandard, as a power of two.
const LONGEST_WINDOW: u32 = 31;
/// The most memory that xz may ask for.
const XZ_MEMORY: u64 = 2 << 30;

/// How a file is compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Compression {
    None,
    Gzip,
    Zstd,
    Bz2,
    Xz,
}

/// Their names, and the endings of file names that say so.
const NAMES: [(Compression, &str, &[&str]); 5] = [
    (Compression::None, "none", &[]),
    (Compression::Gzip, "gzip", &["gz", "gzip", "bgz"]),
    (Compression::Zstd, "zstd", &["zst", "zstd"]),
    (Compression::Bz2, "bz2", &["bz2"]),
    (Compression::Xz, "xz", &["xz"]),
];

impl Compression {
    /// The one of this name.
    pub(crate) fn named(name: &str) -> Result<Compression> {
        let found = NAMES.iter().find(|(_, known, _)| *known == name);
        found.map(|&(found, ..)| found).ok_or_else(|| {
            Error::Refused(format!(
                "{name:?} is no compression: none, gzip, zstd, bz2 and xz are"
            ))
        })
    }

    pub(crate) fn name(self) -> &'static str {
        let found = NAMES.iter().find(|&&(one, ..)| one == self);
        found.map_or("none", |&(_, name, _)| name)
    }

    /// The one that the ending of a file name, in small letters, stands for.
    pub(crate) fn of_ending(ending: &str) -> Option<Compression> {
        let found = NAMES.iter().find(|(.., endings)| endings.contains(&ending));
        found.map(|&(found, ..)| found)
    }

    /// The one whose files begin so.
    pub(crate) fn of_beginning(bytes: &[u8]) -> Option<Compression> {
        let skippable = |bytes: &[u8]| {
            bytes.len() >= 4 && bytes[0] & 0xf0 == 0x50 && bytes[1..4] == [0x2a, 0x4d, 0x18]
        };
        if bytes.starts_with(&[0x1f, 0x8b]) {
            Some(Compression::Gzip)
        } else if bytes.starts_with(&[0x28, 0xb5, 0x2f, 0xfd]) || skippable(bytes) {
            Some(Compression::Zstd)
        } else if bytes.starts_with(b"BZh") && bytes.get(3).is_some_and(u8::is_ascii_digit) {
            Some(Compression::Bz2)
        } else if bytes.starts_with(b"\xfd7zXZ\0") {
            Some(Compression::Xz)
        } else {
            None
        }
    }
}

/// What is compressed in a file.
pub(crate) fn open(compression: Compression, file: Counted) -> io::Result<Box<dyn Read + Send>> {
    let input = BufReader::with_capacity(INPUT, file);
    Ok(match compression {
        Compression::None => Box::new(input),
        Compression::Gzip => Box::new(Members(Some(GzDecoder::new(input)))),
        Compression::Zstd => {
            let mut decoder = zstd::stream::read::Decoder::with_buffer(input)?;
            decoder.window_log_max(LONGEST_WINDOW)?;
            Box::new(decoder)
        }
        Compression::Bz2 => Box::new(bzip2::bufread::MultiBzDecoder::new(input)),
        Compression::Xz => {
            let stream = liblzma::stream::Stream::new_stream_decoder(
                XZ_MEMORY,
                liblzma::stream::CONCATENATED,
            )?;
            Box::new(liblzma::bufread::XzDecoder::new_stream(input, stream))
        }
    })
}

/// All members of a gzip file, and the zeros that may stand between and behind them.
struct Members<R>(Option<GzDecoder<R>>);

impl<R: BufRead> Read for Members<R> {
    fn read(&mut self, room: &mut [u8]) -> io::Result<usize> {
        while let Some(member) = &mut self.0 {
            let read = member.read(room)?;
            if read > 0 || room.is_empty() {
                return Ok(read);
            }
            let Some(mut rest) = self.0.take().map(GzDecoder::into_inner) else {
                break;
            };
            if !skip_zeros(&mut rest)? {
                self.0 = Some(GzDecoder::new(rest));
            }
        }
        Ok(0)
    }
}

/// Read over zeros. Whether that was all.
fn skip_zeros(input: &mut impl BufRead) -> io::Result<bool> {
    loop {
        let bytes = input.fill_buf()?;
        if bytes.is_empty() {
            return Ok(true);
        }
        match bytes.iter().position(|&byte| byte != 0) {
            Some(zeros) => {
                input.consume(zeros);
                return Ok(false);
            }
            None => {
                let zeros = bytes.len();
                input.consume(zeros);
            }
        }
    }
}
