//! Character properties that std does not have, each pinned to the Unicode version of the implementation it reproduces.
//!
//! Invariant: the tables are generated (`examples/make_unicode.rs`, `scripts/make_scripts.py`), never edited; the lookups here are the only readers.
//! Tested by the comparison of every scalar value with the crates the tables come from.

mod categories;
mod normal_forms;
mod scripts;

pub(crate) use categories::{is_bert_control, is_nonspacing_mark, is_punctuation};
pub(crate) use normal_forms::{Role, Roles};
pub(crate) use scripts::{Script, script_pieces, sentencepiece_script};
