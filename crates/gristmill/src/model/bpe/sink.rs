//! Where ids go: a list, or only their number.
//!
//! Encoding is written once over [`Sink`]. Tested through `Tokenizer`.

/// Takes ids in order.
pub(crate) trait Sink {
    /// All of these.
    fn push(&mut self, ids: &[u32]);
}

impl Sink for Vec<u32> {
    #[inline]
    fn push(&mut self, ids: &[u32]) {
        self.extend_from_slice(ids);
    }
}

/// Counts ids.
#[derive(Default)]
pub(crate) struct Count(pub(crate) usize);

impl Sink for Count {
    #[inline]
    fn push(&mut self, ids: &[u32]) {
        self.0 += ids.len();
    }
}
