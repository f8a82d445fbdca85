//! The merges of a tokenizer.json as ids.
//!
//! Every merge names two tokens, and together they are a third. Looking up a million strings is most
//! of what loading such a file costs, and nearly all of that is waiting for memory: so it is done for
//! some merges at a time, and what each step needs is called for before any is taken. Tested with the
//! format.

use crate::alphabet;
use crate::error::{Error, Result};
use crate::memory::prefer_large_pages;
use crate::model::bpe::{Merge, MergeList, Pair};
use crate::vocab::{Literals, Vocab, hash};

use super::file::List;
use super::scan::Span;

/// How the file writes tokens.
pub(super) enum Spelled<'a> {
    /// In the byte-level alphabet, but for these.
    Alphabet { literals: &'a Literals },
    /// As they are; of the second part of a merge, this many bytes are left out, whatever they are.
    Strings { dropped: usize },
}

/// Merges that are looked up at a time.
const GROUP: usize = 32;

/// Two tokens to be looked up: their bytes, side by side, and their hashes.
struct Both {
    start: usize,
    middle: usize,
    end: usize,
    hashes: [u64; 2],
}

/// The merges. Fails if one needs a token that is not in the vocabulary.
pub(super) fn resolve(
    text: &str,
    merges: &List<(Span, Span)>,
    vocab: &Vocab,
    spelled: &Spelled<'_>,
) -> Result<MergeList> {
    let mut pairs: Vec<Pair> = Vec::with_capacity(merges.entries.len());
    prefer_large_pages(pairs.spare_capacity_mut());
    let mut bytes = Vec::new();
    let mut group: Vec<Option<Both>> = Vec::with_capacity(GROUP);
    let mut last = 0;
    for entries in merges.entries.chunks(GROUP) {
        bytes.clear();
        group.clear();
        let strings = |&(left, right): &(Span, Span)| {
            let string = |span| merges.strings.get(text, span);
            (string(left), string(right))
        };
        for entry in entries {
            let (left, right) = strings(entry);
            group.push(spelled.read(left, right, vocab, &mut bytes));
        }
        let hashes = || group.iter().flatten().flat_map(|both| both.hashes);
        hashes().for_each(|hash| vocab.expect_span(hash));
        hashes().for_each(|hash| vocab.expect_bytes(hash));
        for (entry, both) in entries.iter().zip(&group) {
            let (left, right) = strings(entry);
            let found = match both {
                Some(both) => spelled.find(both, right, vocab, &bytes, last),
                None => spelled.find_literals(left, right, vocab),
            };
            let (left, right, id) = found.ok_or_else(|| missing(left, right))?;
            let rank = u32::try_from(pairs.len()).map_err(|_| Error::format("too many merges"))?;
            pairs.push((left, right, Merge { rank, id }));
            last = id;
        }
    }
    MergeList::new(pairs)
}

fn missing(left: &str, right: &str) -> Error {
    Error::format(format!(
        "the merge of {left:?} and {right:?} needs a token that is not in the vocabulary"
    ))
}

impl Spelled<'_> {
    /// The bytes of two tokens, which are called for; None if one of them is not written as bytes.
    fn read(&self, left: &str, right: &str, vocab: &Vocab, bytes: &mut Vec<u8>) -> Option<Both> {
        let mut read = |token: &str| match self {
            Spelled::Alphabet { .. } => alphabet::read_into(token, bytes).then_some(bytes.len()),
            Spelled::Strings { .. } => {
                bytes.extend_from_slice(token.as_bytes());
                Some(bytes.len())
            }
        };
        let start = read("")?;
        let (middle, end) = (read(left)?, read(right)?);
        let hashes = [&bytes[start..middle], &bytes[middle..end]].map(hash);
        for hash in hashes {
            vocab.expect(hash);
        }
        Some(Both {
            start,
            middle,
            end,
            hashes,
        })
    }

    /// The ids of two tokens and of what they become. `last` is the id of the merge before: most lists
    /// count up, or name all the ways to make one token.
    fn find(
        &self,
        both: &Both,
        right: &str,
        vocab: &Vocab,
        bytes: &[u8],
        last: u32,
    ) -> Option<(u32, u32, u32)> {
        let dropped = match self {
            Spelled::Strings { dropped } if right.is_char_boundary(*dropped) => *dropped,
            Spelled::Strings { .. } => return None,
            Spelled::Alphabet { .. } => 0,
        };
        let (first, second) = (
            &bytes[both.start..both.middle],
            &bytes[both.middle..both.end],
        );
        let rest = &second[dropped..];
        let is_joined = |id: &u32| {
            let token = vocab.get(*id);
            token.and_then(|token| token.split_at_checked(first.len())) == Some((first, rest))
        };
        let id = match [last, last + 1].into_iter().find(is_joined) {
            Some(id) => id,
            None if dropped == 0 => vocab.id(&bytes[both.start..both.end])?,
            None => vocab.id(&[first, rest].concat())?,
        };
        let left = vocab.id_of_hash(first, both.hashes[0])?;
        let right = vocab.id_of_hash(second, both.hashes[1])?;
        Some((left, right, id))
    }

    /// The same where not both tokens are written in the alphabet, and what they become is not either.
    fn find_literals(&self, left: &str, right: &str, vocab: &Vocab) -> Option<(u32, u32, u32)> {
        let Spelled::Alphabet { literals } = self else {
            return None;
        };
        let id = |token: &str| match alphabet::read(token) {
            Some(bytes) => vocab.id(&bytes),
            None => literals.id(token),
        };
        Some((id(left)?, id(right)?, id(&format!("{left}{right}"))?))
    }
}
