//! From ids to text while the ids are still being made: what a server gives its users.
//!
//! A stream takes ids one after the other and gives text as soon as it is certain. The law of this
//! room: all that a stream gave, and then gives at its end, is what [`Tokenizer::decode_with`] makes
//! of the same ids at once, whatever the decoder and however the ids are cut into steps. Nothing is
//! taken back, no character is given in halves, and the cost of an id does not depend on how many
//! came before it. Two things change the text on purpose: an id that no token has gives none, and a
//! stop ends it.
//!
//! [`TokenTexts`] (`texts.rs`) is the text of every id, made once for a tokenizer; `utf8.rs`,
//! `sentencepiece.rs` and `chain.rs` put them together for the three kinds of decoding; `stop.rs`
//! looks for stop strings; `single.rs` is one stream, [`StreamBatch`] (`batch.rs`) thousands;
//! `hf.rs` does as the `DecodeStream` of `tokenizers` does, for those who need just that.
//!
//! Tested in `tests.rs` against whole decoding, for every decoder there is, by random ids in random
//! steps; against `tokenizers` itself in tests/test_oracle_stream.py.
//!
//! [`Tokenizer::decode_with`]: crate::Tokenizer::decode_with

mod batch;
mod chain;
mod hf;
mod literal;
mod sentencepiece;
mod single;
mod stop;
mod texts;
mod utf8;

#[cfg(test)]
mod tests;

pub use batch::{StreamBatch, StreamTexts};
pub use hf::HfDecodeStream;
pub use single::{DecodeStream, StreamOptions};
pub use stop::StopSet;
pub use texts::TokenTexts;

/// What happened to a stream, in the flags of [`StreamTexts`].
pub mod flags {
    /// Some id is no token's; it gave no text.
    pub const UNKNOWN: u8 = 1;
    /// A stop string or a stop id ended the stream.
    pub const STOPPED: u8 = 2;
    /// The stream was ended as asked.
    pub const FINISHED: u8 = 4;
    /// The stream had ended before, and what came for it was ignored.
    pub const IGNORED: u8 = 8;
    /// The tokenizer's decoder cannot decode these ids; that ended the stream.
    pub const FAILED: u8 = 16;
}
