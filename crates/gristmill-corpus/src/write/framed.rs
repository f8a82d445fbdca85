//! What stands around a document, and the last look at its ids.
//!
//! Invariant: the writer behind it sees only ids that the output allows. Tested with every format.

use super::{Format, Output, ShardWriter};
use crate::{Error, Result, Written};

/// Puts the ids that stand around documents to them.
pub(super) struct Framed {
    before: Vec<u32>,
    after: Vec<u32>,
    id_end: u64,
    /// A document without ids gets nothing around it.
    bare_empty: bool,
    whole: Vec<u32>,
    writer: Box<dyn ShardWriter>,
}

impl Framed {
    pub(super) fn new(output: &Output, writer: Box<dyn ShardWriter>) -> Framed {
        Framed {
            before: output.before.clone(),
            after: output.after.clone(),
            id_end: output.id_end,
            // As Megatron's own tool does.
            bare_empty: output.format == Format::Megatron,
            whole: Vec::new(),
            writer,
        }
    }
}

impl ShardWriter for Framed {
    fn document(&mut self, ids: &[u32]) -> Result<()> {
        let largest = ids.iter().copied().max();
        if let Some(id) = largest
            && u64::from(id) >= self.id_end
        {
            return Err(Error::Refused(format!(
                "the tokenizer gave the id {id}, and its largest was to be {}",
                self.id_end.saturating_sub(1)
            )));
        }
        let bare = ids.is_empty() && self.bare_empty;
        if bare || (self.before.is_empty() && self.after.is_empty()) {
            return self.writer.document(ids);
        }
        self.whole.clear();
        self.whole.extend_from_slice(&self.before);
        self.whole.extend_from_slice(ids);
        self.whole.extend_from_slice(&self.after);
        self.writer.document(&self.whole)
    }

    fn finish(self: Box<Self>) -> Result<Vec<Written>> {
        self.writer.finish()
    }
}
