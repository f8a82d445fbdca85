//! Files of text in, files of token ids out.
//!
//! A *plan*, made elsewhere, cuts inputs into *units* (ranges of files) and groups these into *jobs*. One
//! call makes the shards of one [`Job`], on whatever machine and with however many threads, and always the
//! same bytes: [`read`] turns units into documents, the tokenizer turns these into ids, [`mod@write`] turns
//! those into the files of a shard, which are written aside, synced and renamed. Every document that goes
//! in comes out, or is counted with the reason why not.

mod error;
mod job;
pub mod read;
pub mod run;
pub mod shards;
pub mod write;

pub use error::{Error, Result};
pub use job::{Encode, Job, OnError, Read, ShardReport, Surrogates, Unit, Written};
