//! Vocabularies that come with the crate, so that nothing needs the network.
//!
//! Each holds, for every token of a rank file in the order of their ranks, the two tokens it is merged
//! from: its bytes are theirs, and its tree needs no search. `data/PROVENANCE.md` says where they are
//! from and how they are written; the tests write each back and compare it with the checksum its
//! publisher gives, and the trees with those that are found from the ranks alone.

use crate::error::{Error, Result};
use crate::model::bpe::{Bpe, Tree};
use crate::tokenizer::Tokenizer;
use crate::vocab::Vocab;

use super::known::{self, Known};
use super::ranks;

/// The names of the embedded tokenizers.
pub const EMBEDDED: [&str; 4] = ["gpt2", "cl100k_base", "o200k_base", "o200k_harmony"];

const R50K: &[u8] = include_bytes!("../../data/r50k_base.parts");
const CL100K: &[u8] = include_bytes!("../../data/cl100k_base.parts");
const O200K: &[u8] = include_bytes!("../../data/o200k_base.parts");

/// The embedded tokenizer of this name.
pub(crate) fn load(name: &str) -> Result<Tokenizer> {
    let (known, data) = match name {
        "gpt2" => (&known::GPT2, R50K),
        "cl100k_base" => (by_name(name)?, CL100K),
        "o200k_base" => (by_name(name)?, O200K),
        "o200k_harmony" => (&known::HARMONY, O200K),
        _ => return Err(unknown(name)),
    };
    let config = ranks::Config {
        name: Some(known.name),
        pattern: known.pattern.to_owned(),
    };
    let (vocab, trees) = unpack(data)?;
    let model = Bpe::of_trees(vocab, &trees);
    ranks::build(model, &known.special_tokens(), config)
}

fn by_name(name: &str) -> Result<&'static Known> {
    known::by_name(name).ok_or_else(|| unknown(name))
}

fn unknown(name: &str) -> Error {
    Error::NotFound {
        what: format!(
            "no embedded tokenizer is named {name:?}; there are {}",
            EMBEDDED.join(", ")
        ),
    }
}

/// The bits of a half of a record.
const HALF_BITS: u32 = 20;
const HALF: u64 = (1 << HALF_BITS) - 1;
/// The second half for a token of one byte, which is the first half.
const SINGLE: u64 = HALF;

/// The tokens and what each is made of.
fn unpack(data: &[u8]) -> Result<(Vocab, Vec<(u32, Tree)>)> {
    let broken = || Error::format("the embedded vocabulary is broken");
    let (records, rest) = data.as_chunks::<5>();
    if !rest.is_empty() {
        return Err(broken());
    }
    let mut vocab = Vocab::with_capacity(records.len());
    let mut trees = Vec::with_capacity(records.len());
    for (id, &[a, b, c, d, e]) in (0u32..).zip(records) {
        let record = u64::from_le_bytes([a, b, c, d, e, 0, 0, 0]);
        let tree = if record >> HALF_BITS == SINGLE {
            let byte = u8::try_from(record & HALF).map_err(|_| broken())?;
            vocab.insert_soon(&[byte], id)?;
            Tree {
                left: id,
                right: id,
                born: 0,
            }
        } else {
            let (left, right) = ((record & HALF) as u32, (record >> HALF_BITS) as u32);
            vocab.join_soon(left, right, id)?;
            Tree {
                left,
                right,
                born: id + 1,
            }
        };
        trees.push((id, tree));
    }
    vocab.settle()?;
    Ok((vocab, trees))
}

#[cfg(test)]
mod tests {
    use super::*;
    use sha2::{Digest, Sha256};

    #[test]
    fn written_back_they_are_what_was_published() {
        for name in EMBEDDED {
            let tokenizer = load(name).unwrap();
            let digest = Sha256::digest(tokenizer.to_bytes().unwrap());
            let checksum: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
            let known = match name {
                "gpt2" => &known::GPT2,
                "o200k_harmony" => &known::HARMONY,
                name => known::by_name(name).unwrap(),
            };
            assert_eq!(checksum, known.sha256, "{name}");
        }
    }

    #[test]
    fn their_trees_are_those_of_their_ranks() {
        for data in [R50K, CL100K, O200K] {
            let (vocab, trees) = unpack(data).unwrap();
            let searched = ranks::model(vocab).unwrap();
            let (vocab, _) = unpack(data).unwrap();
            assert!(Bpe::of_trees(vocab, &trees).has_trees_of(&searched));
        }
    }

    #[test]
    fn a_wrong_name_is_told_the_right_ones() {
        let error = load("gpt3").err().unwrap().to_string();
        assert!(
            error.contains("gpt2") && error.contains("o200k_base"),
            "{error}"
        );
    }
}
