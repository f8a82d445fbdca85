//! The crate's errors as Python exceptions: the only place where one becomes the other.

use std::io::ErrorKind;

use pyo3::PyErr;
use pyo3::exceptions::{
    PyFileNotFoundError, PyIsADirectoryError, PyKeyError, PyOSError, PyPermissionError,
    PyUnicodeDecodeError, PyValueError,
};
use pyo3::prelude::*;

pyo3::create_exception!(
    gristmill,
    TokenizerError,
    PyValueError,
    "A tokenizer file that cannot be used exactly, or a text that cannot be encoded as asked."
);

pyo3::create_exception!(
    gristmill,
    CorpusError,
    PyValueError,
    "An input that cannot be read as asked, or an output that cannot hold what was asked for."
);

/// An error on its way to Python. The orphan rule asks for a type of our own.
pub(crate) enum PyError {
    Tokenizer(gristmill::Error),
    Corpus(gristmill_corpus::Error),
}

impl From<gristmill::Error> for PyError {
    fn from(error: gristmill::Error) -> Self {
        PyError::Tokenizer(error)
    }
}

impl From<gristmill_corpus::Error> for PyError {
    fn from(error: gristmill_corpus::Error) -> Self {
        match error {
            gristmill_corpus::Error::Tokenizer(error) => PyError::Tokenizer(error),
            other => PyError::Corpus(other),
        }
    }
}

impl From<PyError> for PyErr {
    fn from(error: PyError) -> PyErr {
        use gristmill::Error;
        let error = match error {
            PyError::Tokenizer(error) => error,
            PyError::Corpus(gristmill_corpus::Error::Io { path, source }) => {
                return io_error(path.into_os_string(), &source);
            }
            PyError::Corpus(error) => return CorpusError::new_err(error.to_string()),
        };
        match &error {
            Error::Io { path, source } => io_error(path.as_os_str().to_owned(), source),
            Error::NotFound { .. } => PyFileNotFoundError::new_err(error.to_string()),
            Error::UnknownId(id) => PyKeyError::new_err(*id),
            _ => TokenizerError::new_err(error.to_string()),
        }
    }
}

/// As Python's own `open` would raise it: with errno, message and file name.
fn io_error(path: std::ffi::OsString, source: &std::io::Error) -> PyErr {
    let Some(number) = source.raw_os_error() else {
        return PyOSError::new_err(format!("{}: {source}", path.to_string_lossy()));
    };
    let text = source.to_string();
    let text = text.split(" (os error").next().unwrap_or_default();
    let arguments = (number, text.to_owned(), path);
    match source.kind() {
        ErrorKind::NotFound => PyFileNotFoundError::new_err(arguments),
        ErrorKind::PermissionDenied => PyPermissionError::new_err(arguments),
        ErrorKind::IsADirectory => PyIsADirectoryError::new_err(arguments),
        _ => PyOSError::new_err(arguments),
    }
}

/// The error Python's own decoder raises for the same bytes.
pub(crate) fn invalid_utf8(py: Python<'_>, bytes: &[u8], error: std::str::Utf8Error) -> PyErr {
    let start = error.valid_up_to();
    let (end, reason) = match error.error_len() {
        Some(length) => (start + length, c"invalid UTF-8"),
        None => (bytes.len(), c"unexpected end of data"),
    };
    match PyUnicodeDecodeError::new(py, c"utf-8", bytes, start..end, reason) {
        Ok(error) => PyErr::from_value(error.into_any()),
        Err(error) => error,
    }
}
