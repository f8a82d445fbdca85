//! Units into documents.
//!
//! A unit is read as a stream of bytes (`stream.rs`, `compressed.rs`), cut into blocks that end where a
//! record ends (`cut.rs`), and each block is taken apart into records (`block.rs`): texts, and what is
//! bad with its reason. Cutting is cheap and done in order; taking apart is most of the work and may be
//! done by any thread. Whatever the size of blocks, however a file is cut into units, the records are the
//! same; `tests.rs` and the tests in Python hold the readers to
//! that.

mod block;
mod compressed;
mod csv;
mod cut;
mod inspect;
mod json;
mod source;
mod stream;
mod table;
#[cfg(test)]
mod tests;

pub(crate) use block::{Block, HEAD, Parser, Record};
pub use inspect::{Input, Range, inspect};
pub(crate) use source::Source;

/// Why a record is bad.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Reason {
    /// The line is not JSON.
    InvalidJson,
    /// Its bytes are not UTF-8.
    InvalidUtf8,
    /// The line is JSON, but not an object.
    NotAnObject,
    /// It has no field of the name.
    NoSuchField,
    /// The field is null.
    Null,
    /// The field is a list.
    List,
    /// The field is something else that is no string.
    NotAString,
    /// The text has half of a surrogate pair, which no UTF-8 can hold.
    LoneSurrogate,
    /// It has more bytes than a document may have.
    TooLong,
    /// Its quotes do not end.
    UnclosedQuote,
    /// The file ends or breaks within it.
    CutOff,
    /// A special token stands in the text.
    SpecialToken,
    /// The tokenizer gave up on it.
    Refused,
}

impl Reason {
    /// The reason in words, the same in every report.
    pub fn as_str(self) -> &'static str {
        match self {
            Reason::InvalidJson => "invalid JSON",
            Reason::InvalidUtf8 => "invalid UTF-8",
            Reason::NotAnObject => "not an object",
            Reason::NoSuchField => "no such field",
            Reason::Null => "null",
            Reason::List => "list",
            Reason::NotAString => "not a string",
            Reason::LoneSurrogate => "lone surrogate",
            Reason::TooLong => "too long",
            Reason::UnclosedQuote => "unclosed quote",
            Reason::CutOff => "cut off",
            Reason::SpecialToken => "special token",
            Reason::Refused => "refused by the tokenizer",
        }
    }
}

/// A record that is bad, and where in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Bad {
    pub(crate) reason: Reason,
    /// The byte of the record where it is known.
    pub(crate) at: usize,
}

impl Bad {
    pub(crate) fn new(reason: Reason) -> Bad {
        Bad { reason, at: 0 }
    }

    pub(crate) fn at(reason: Reason, at: usize) -> Bad {
        Bad { reason, at }
    }
}
