//! Kinds of model: what turns one piece of text into ids.

pub(crate) mod bpe;
