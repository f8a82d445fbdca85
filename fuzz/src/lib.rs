//! What the fuzz targets share: the laws that hold for every tokenizer, and tokenizers to try.
//!
//! A law that is broken is a panic, which libFuzzer reports with the input that led to it.

mod laws;
mod tokenizers;

pub use laws::{check_both, check_text, check_tiles, only_some, read_again};
pub use tokenizers::{Fuzzed, tokenizer};
