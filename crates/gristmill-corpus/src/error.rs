//! The one error type of the crate: what is wrong, where, and what can be done.

use std::io;
use std::path::{Path, PathBuf};

/// What can go wrong with a job. A bad record is no error: it is counted and set aside.
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
    /// An input is not what it should be, or has changed since the plan was made.
    #[error("{}: {reason}", path.display())]
    Input {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// What was asked for cannot be done, such as a format whose numbers are too small for the ids.
    #[error("{0}")]
    Refused(String),
    /// The tokenizer refused a text.
    #[error(transparent)]
    Tokenizer(#[from] gristmill::Error),
    /// The caller asked to stop.
    #[error("interrupted")]
    Interrupted,
}

impl Error {
    /// An [`Error::Io`] at this path.
    pub fn io(path: &Path) -> impl FnOnce(io::Error) -> Error {
        move |source| Error::Io {
            path: path.to_owned(),
            source,
        }
    }
}

/// A result with the crate's error.
pub type Result<T> = std::result::Result<T, Error>;
