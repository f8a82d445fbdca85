//! Byte-pair-encoding tokenizers: text to ids and back, exactly as the reference libraries do it.
//!
//! A [`Tokenizer`] is loaded from any tokenizer file that people use (tokenizer.json, rank files,
//! tekken.json, SentencePiece models holding BPE) or is one of those [`EMBEDDED`] here. What would
//! not be reproduced exactly is refused when the file is loaded, by name.
//!
//! ```
//! use gristmill::{Special, Tokenizer};
//!
//! let tokenizer = Tokenizer::embedded("cl100k_base")?;
//! let ids = tokenizer.encode("All is grist.", &Special::Text)?;
//! assert_eq!(tokenizer.decode(&ids)?, "All is grist.");
//! assert_eq!(tokenizer.count("All is grist.", &Special::Text, false)?, ids.len());
//! # Ok::<(), gristmill::Error>(())
//! ```
//!
//! Special tokens that are written in a text are text, unless the caller says otherwise:
//!
//! ```
//! use gristmill::{Special, Tokenizer};
//!
//! let tokenizer = Tokenizer::embedded("gpt2")?;
//! assert_eq!(tokenizer.encode("<|endoftext|>", &Special::Parse)?, [50256]);
//! assert_eq!(tokenizer.encode("<|endoftext|>", &Special::Text)?.len(), 7);
//! assert!(tokenizer.encode("<|endoftext|>", &Special::Forbid).is_err());
//! # Ok::<(), gristmill::Error>(())
//! ```
//!
//! A [`Tokenizer`] is immutable and may be shared by any number of threads. The crate starts threads
//! only inside [`Tokenizer::for_each_text`], [`WordCounts::add`] and other methods that take `threads`,
//! prints nothing, and needs no network.

mod alphabet;
mod batch;
mod decode;
mod error;
mod flat;
mod format;
mod memory;
mod model;
mod normalize;
mod offsets;
mod parallel;
mod parts;
mod place;
mod pool;
mod post;
mod simd;
mod special;
mod split;
mod starts;
pub mod stream;
mod text;
mod tokenizer;
mod train;
#[cfg(test)]
mod two_ways;
mod unicode;
mod visible;
mod vocab;

pub use error::{Error, Result};
pub use format::embedded::EMBEDDED;
pub use format::{Info, Options};
pub use special::Special;
pub use tokenizer::{Offset, Tokenizer, Unit};
pub use train::{
    BATCH_BYTES, Normalization, Parity, Progress, Stage, Texts, Trainer, Units, WordCounts,
};
