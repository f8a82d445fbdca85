//! How far a training is, for whoever shows it to people.

/// What is being done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Stage {
    /// Words are counted.
    #[default]
    Counting,
    /// Pairs of symbols are counted.
    Pairs,
    /// Pairs are merged.
    Merging,
}

/// How far a training is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Progress {
    /// What is being done.
    pub stage: Stage,
    /// Texts taken so far.
    pub texts: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Different words; while they are counted, those of the thread that has seen most.
    pub words: u64,
    /// Different pairs of symbols.
    pub pairs: u64,
    /// Merges done.
    pub merges: u64,
    /// Merges wanted.
    pub wanted: u64,
}
