//! SentencePiece's `nmt_nfkc` normalisation, as its models carry it.
//!
//! Data of the sentencepiece package, compressed; `data/PROVENANCE.md` says where it is from and
//! `scripts/make_nmt_nfkc.py` makes it. Tested against the package, which trains with the same.

use std::io::Read;

use flate2::read::ZlibDecoder;

use crate::error::{Error, Result};

const CHARSMAP: &[u8] = include_bytes!("../../data/nmt_nfkc.z");

/// The precompiled character map.
pub(super) fn charsmap() -> Result<Vec<u8>> {
    let mut charsmap = Vec::new();
    ZlibDecoder::new(CHARSMAP)
        .read_to_end(&mut charsmap)
        .map_err(|_| Error::format("the embedded character map is broken"))?;
    Ok(charsmap)
}
