//! The one error type of the crate.
//!
//! Loading checks everything, so that encoding can fail only for what a caller asked to have
//! forbidden, for invalid UTF-8, and for a pattern that outgrows its memory limit. Each variant says
//! what is wrong, where, and what can be done; the bindings map variants, never texts.

use std::io;
use std::path::PathBuf;

/// What can go wrong.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A file could not be read or written.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// Nothing at the path is a tokenizer: neither a known name, nor a file, nor a folder with one.
    #[error("{what}")]
    NotFound {
        /// What was looked for, and what would have been found.
        what: String,
    },
    /// The file is not what it should be: truncated, inconsistent, or of another format.
    #[error("{reason}")]
    Format {
        /// What is wrong with it.
        reason: String,
    },
    /// The file asks for something that would not be reproduced exactly.
    #[error("not supported: {what}")]
    Unsupported {
        /// The part that is not supported.
        what: String,
    },
    /// The text holds a special token, and special tokens were forbidden.
    #[error(
        "the special token {token:?} stands in the text at byte {at}; pass special=\"text\" to \
         encode it as text, special=\"parse\" to encode it as the special token"
    )]
    SpecialToken {
        /// The token.
        token: String,
        /// The byte where it starts.
        at: usize,
    },
    /// A name that is not one of the tokenizer's special tokens was to be parsed.
    #[error("{name:?} is not a special token of this tokenizer")]
    UnknownSpecial {
        /// The name.
        name: String,
    },
    /// No token has this id.
    #[error("no token has the id {0}")]
    UnknownId(u32),
    /// The text is not UTF-8.
    #[error("invalid UTF-8 at byte {at}")]
    InvalidUtf8 {
        /// The first byte that is not part of a character.
        at: usize,
        /// How many bytes are broken; 0 when the text ends inside a character.
        len: usize,
    },
    /// The work given to [`for_each_text`](crate::Tokenizer::for_each_text) asked to stop.
    #[error("interrupted")]
    Interrupted,
    /// A limit that keeps memory bounded was reached.
    #[error("{what} at byte {at}")]
    Limit {
        /// The limit.
        what: String,
        /// The byte of the text where it was reached.
        at: usize,
    },
}

impl Error {
    /// A [`Error::Format`] with this reason.
    pub(crate) fn format(reason: impl Into<String>) -> Error {
        Error::Format {
            reason: reason.into(),
        }
    }

    /// A [`Error::Unsupported`] naming this part.
    pub(crate) fn unsupported(what: impl Into<String>) -> Error {
        Error::Unsupported { what: what.into() }
    }
}

/// A result with the crate's error.
pub type Result<T> = std::result::Result<T, Error>;
