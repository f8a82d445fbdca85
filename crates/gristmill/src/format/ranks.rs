//! Rank files: tiktoken's `.tiktoken`, Llama's tokenizer.model, Kimi's tiktoken.model.
//!
//! A line holds a token's bytes in base64 and its rank, which is its id. The pattern and the special
//! tokens stand elsewhere, in the code of whoever published the file; for files that are known by
//! their checksum they stand here. Followed is tiktoken: a piece that is a token is that token, else
//! adjacent tokens merge whose bytes together are a token, lowest rank first.

use std::collections::BTreeMap;

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use sha2::{Digest, Sha256};

use crate::error::{Error, Result};
use crate::model::bpe::{Bpe, Bytes, MergeList, Units};
use crate::parts::{Decoding, Normalization, Parts, Spelling};
use crate::post::PostProcessor;
use crate::special::{AddedToken, AddedTokens};
use crate::split::{Behavior, Dialect, Finder, PreTokenizer, Step};
use crate::tokenizer::Tokenizer;
use crate::vocab::{Literals, Vocab};

use super::known::{self, Known};
use super::{Info, Options, Source};

/// What a rank tokenizer is besides its ranks.
pub(crate) struct Config {
    /// The name its publisher gave it, where that is known.
    pub(crate) name: Option<&'static str>,
    pub(crate) pattern: String,
}

/// Whether this could be a rank file: its first line is base64 and a number.
pub(crate) fn looks_like(data: &[u8]) -> bool {
    let start = data.iter().take_while(|byte| byte.is_ascii_whitespace());
    let data = &data[start.count()..];
    let end = memchr::memchr(b'\n', data).unwrap_or(data.len());
    parse_line(&data[..end]).is_some()
}

fn parse_line(line: &[u8]) -> Option<(Vec<u8>, u32)> {
    let line = line.trim_ascii();
    let space = memchr::memchr(b' ', line)?;
    let bytes = BASE64.decode(&line[..space]).ok()?;
    let rank = std::str::from_utf8(&line[space + 1..]).ok()?;
    // `parse` would take a sign.
    if !rank.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    Some((bytes, rank.parse().ok()?))
}

/// Read a rank file.
pub(crate) fn read(data: &[u8], options: &Options) -> Result<Tokenizer> {
    let known = known::by_checksum(&checksum(data));
    let pattern = match (&options.pattern, known) {
        (Some(pattern), _) => pattern.clone(),
        (None, Some(known)) => known.pattern.to_owned(),
        (None, None) => {
            return Err(Error::unsupported(
                "this rank file is not known by its checksum, and rank files do not hold the \
                 pattern that cuts text into pieces: pass pattern=..., and special_tokens={...} if \
                 it has some",
            ));
        }
    };
    let mut vocab = Vocab::with_capacity(data.len() / 16);
    for (number, line) in data.split(|&byte| byte == b'\n').enumerate() {
        if line.trim_ascii().is_empty() {
            continue;
        }
        let (bytes, rank) = parse_line(line).ok_or_else(|| {
            Error::format(format!(
                "line {} is not a token in base64 and its rank",
                number + 1
            ))
        })?;
        vocab
            .insert(&bytes, rank)
            .map_err(|error| Error::format(format!("line {}: {error}", number + 1)))?;
    }
    let special = match (&options.special_tokens, known) {
        (Some(tokens), _) => tokens.clone(),
        (None, Some(known)) => known.special_tokens(),
        (None, None) => BTreeMap::new(),
    };
    let config = Config {
        name: known.map(|known: &Known| known.name),
        pattern,
    };
    build(model(vocab)?, &special, config)
}

fn checksum(data: &[u8]) -> String {
    let digest = Sha256::digest(data);
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A tokenizer of ranks.
pub(crate) fn build(
    model: Bpe,
    special: &BTreeMap<String, u32>,
    config: Config,
) -> Result<Tokenizer> {
    let finder = Finder::pattern(&config.pattern, Dialect::FancyRegex)?;
    let tokens = special
        .iter()
        .map(|(content, &id)| AddedToken::special(content.clone(), id));
    check_special(&model.vocab, special)?;
    Ok(Tokenizer::new(Parts {
        model,
        spelling: Spelling::Bytes,
        literals: Literals::default(),
        added: AddedTokens::new(tokens.collect(), false)?,
        normalization: Normalization::None,
        // tiktoken keeps what the pattern matches and drops what lies between.
        pre_tokenizer: PreTokenizer::new(vec![Step::Split {
            finder,
            behavior: Behavior::Removed,
            invert: true,
        }]),
        post: PostProcessor::default(),
        decoding: Decoding::Bytes { parted: false },
        source: Source::Ranks(config),
    }))
}

fn check_special(vocab: &Vocab, special: &BTreeMap<String, u32>) -> Result<()> {
    for (name, &id) in special {
        if id >= crate::vocab::MAX_ID {
            return Err(Error::format(format!(
                "the id {id} of {name:?} is too large"
            )));
        }
        if vocab.get(id).is_some() {
            return Err(Error::format(format!(
                "the special token {name:?} has the id {id}, which is a token's"
            )));
        }
    }
    Ok(())
}

/// The model: two tokens merge if their bytes together are a token, whose id is the merge's rank.
pub(crate) fn model(vocab: Vocab) -> Result<Bpe> {
    vocab.check_lengths()?;
    if let Some((id, _)) = vocab.iter().find(|(_, token)| token.is_empty()) {
        return Err(Error::format(format!("the token of rank {id} is empty")));
    }
    let units = Units::Bytes(Box::new(Bytes::new(&vocab)));
    let model = Bpe::new(vocab, MergeList::of_ranks(), units, true);
    match model.missing_byte() {
        Some(byte) => Err(Error::format(format!(
            "the byte 0x{byte:02X} is no token, so not every text could be encoded"
        ))),
        None => Ok(model),
    }
}

/// Write the ranks again.
pub(crate) fn write(parts: &Parts) -> Vec<u8> {
    let mut file = String::new();
    for (rank, token) in parts.model.vocab.iter() {
        BASE64.encode_string(token, &mut file);
        file.push_str(&format!(" {rank}\n"));
    }
    file.into_bytes()
}

/// What [`format::info`](super::info) says of the file.
pub(crate) fn info(config: &Config, info: &mut Info) {
    if let Some(name) = config.name {
        info.add("name", name);
    }
    info.add("pattern", &*config.pattern);
}
