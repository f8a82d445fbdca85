//! tekken.json, Mistral's own format: ranks, a pattern, and special tokens that come before them.
//!
//! Followed is mistral-common: the vocabulary is cut to the size the file declares, ids are ranks
//! behind the special tokens, and a file of version 7 or older that lists no special tokens has those
//! of its time. Within the ranks everything is as in a rank file.

use std::collections::BTreeMap;

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::error::{Error, Result};
use crate::parts::{Decoding, Normalization, Parts, Spelling};
use crate::post::PostProcessor;
use crate::special::{AddedToken, AddedTokens};
use crate::split::{Behavior, Dialect, Finder, PreTokenizer, Step};
use crate::tokenizer::Tokenizer;
use crate::vocab::{Literals, MAX_ID, Vocab};

use super::{Info, Source, ranks};

/// The file without its vocabulary: what is needed to write it again.
pub(crate) struct Config {
    pattern: String,
    version: String,
    /// The number of special tokens, behind which ranks begin.
    first: u32,
    rest: Map<String, Value>,
}

/// Special tokens of files that list none: mistral-common 1.13.1, tekken.py.
const OLD_SPECIAL: [&str; 20] = [
    "<unk>",
    "<s>",
    "</s>",
    "[INST]",
    "[/INST]",
    "[AVAILABLE_TOOLS]",
    "[/AVAILABLE_TOOLS]",
    "[TOOL_RESULTS]",
    "[/TOOL_RESULTS]",
    "[TOOL_CALLS]",
    "[IMG]",
    "<pad>",
    "[IMG_BREAK]",
    "[IMG_END]",
    "[PREFIX]",
    "[MIDDLE]",
    "[SUFFIX]",
    "[SYSTEM_PROMPT]",
    "[/SYSTEM_PROMPT]",
    "[TOOL_CONTENT]",
];

/// Versions whose files may list no special tokens.
const OLD_VERSIONS: [&str; 4] = ["v1", "v2", "v3", "v7"];

#[derive(Deserialize)]
struct File {
    config: FileConfig,
    vocab: Vec<Token>,
    #[serde(default)]
    special_tokens: Option<Vec<SpecialToken>>,
    /// Settings for images and audio, which do not concern text.
    #[serde(flatten)]
    rest: Map<String, Value>,
}

#[derive(Deserialize)]
struct FileConfig {
    pattern: String,
    default_vocab_size: u32,
    default_num_special_tokens: u32,
    version: String,
}

#[derive(Deserialize, Serialize)]
struct Token {
    rank: u32,
    token_bytes: String,
    token_str: Option<String>,
}

#[derive(Deserialize)]
struct SpecialToken {
    rank: u32,
    token_str: String,
}

/// Whether a JSON file is a tekken.json: its vocabulary holds `token_bytes`, near the beginning.
pub(crate) fn looks_like(data: &[u8]) -> bool {
    #[derive(Deserialize)]
    struct Outline {
        config: Option<FileConfig>,
    }
    let named = memchr::memmem::find(data, b"\"token_bytes\"").is_some();
    let has_config = |outline: Outline| outline.config.is_some();
    named && serde_json::from_slice(data).is_ok_and(has_config)
}

/// Read a tekken.json.
pub(crate) fn read(data: &[u8]) -> Result<Tokenizer> {
    let file: File = serde_json::from_slice(data)
        .map_err(|error| Error::format(format!("no valid tekken.json: {error}")))?;
    let first = file.config.default_num_special_tokens;
    let size = file.config.default_vocab_size.checked_sub(first);
    let size = size
        .map(|size| size as usize)
        .filter(|&size| size <= file.vocab.len() && file.config.default_vocab_size <= MAX_ID);
    let Some(size) = size else {
        return Err(Error::format(
            "default_vocab_size does not fit the tokens in the file",
        ));
    };
    let mut vocab = Vocab::with_capacity(size);
    for (rank, token) in file.vocab.iter().take(size).enumerate() {
        if token.rank as usize != rank {
            return Err(Error::format(format!(
                "token {rank} has the rank {}",
                token.rank
            )));
        }
        let bytes = BASE64
            .decode(&token.token_bytes)
            .map_err(|error| Error::format(format!("token {rank} is not base64: {error}")))?;
        vocab.insert(&bytes, first + token.rank)?;
    }
    let special = special_tokens(&file, first)?;
    let finder = Finder::pattern(&file.config.pattern, Dialect::FancyRegex)?;
    let tokens = special
        .into_iter()
        .map(|(id, content)| AddedToken::special(content, id));
    Ok(Tokenizer::new(Parts {
        model: ranks::model(vocab)?,
        spelling: Spelling::Bytes,
        literals: Literals::default(),
        added: AddedTokens::new(tokens.collect(), false)?,
        normalization: Normalization::None,
        pre_tokenizer: PreTokenizer::new(vec![Step::Split {
            finder,
            behavior: Behavior::Removed,
            invert: true,
        }]),
        post: PostProcessor::default(),
        decoding: Decoding::Bytes { parted: true },
        source: Source::Tekken(Box::new(Config {
            pattern: file.config.pattern,
            version: file.config.version,
            first,
            rest: file.rest,
        })),
    }))
}

/// The special tokens by id, the ids that have none filled up.
fn special_tokens(file: &File, count: u32) -> Result<BTreeMap<u32, String>> {
    let listed: Vec<(u32, String)> = match &file.special_tokens {
        Some(tokens) => tokens
            .iter()
            .map(|token| (token.rank, token.token_str.clone()))
            .collect(),
        None if OLD_VERSIONS.contains(&&*file.config.version) => (0..)
            .zip(OLD_SPECIAL.iter().map(|&name| name.to_owned()))
            .collect(),
        None => {
            return Err(Error::format(format!(
                "a file of version {} must list its special tokens",
                file.config.version
            )));
        }
    };
    let listed_count = listed.len();
    let mut tokens: BTreeMap<u32, String> = BTreeMap::new();
    for (id, name) in listed {
        if id >= count {
            return Err(Error::format(format!(
                "the special token {name:?} has the id {id}, which is no special token's"
            )));
        }
        if let Some(other) = tokens.insert(id, name) {
            return Err(Error::format(format!(
                "the special token {other:?} shares its id {id}"
            )));
        }
    }
    for id in (listed_count as u32).min(count)..count {
        tokens
            .entry(id)
            .or_insert_with(|| format!("<SPECIAL_{id}>"));
    }
    Ok(tokens)
}

/// Write the file again.
pub(crate) fn write(config: &Config, parts: &Parts) -> Result<Vec<u8>> {
    let vocab: Vec<Token> = parts
        .model
        .vocab
        .iter()
        .map(|(id, token)| Token {
            rank: id - config.first,
            token_bytes: BASE64.encode(token),
            token_str: std::str::from_utf8(token).ok().map(str::to_owned),
        })
        .collect();
    let special: Vec<Value> = parts
        .added
        .iter()
        .map(|token| json!({"rank": token.id, "token_str": token.content, "is_control": true}))
        .collect();
    let mut file = config.rest.clone();
    file.insert(
        "config".into(),
        json!({
            "pattern": config.pattern,
            "num_vocab_tokens": vocab.len(),
            "default_vocab_size": vocab.len() + config.first as usize,
            "default_num_special_tokens": config.first,
            "version": config.version,
        }),
    );
    let vocab = serde_json::to_value(vocab).map_err(|error| Error::format(error.to_string()))?;
    file.insert("vocab".into(), vocab);
    file.insert("special_tokens".into(), special.into());
    serde_json::to_vec(&file).map_err(|error| Error::format(error.to_string()))
}

/// What [`format::info`](super::info) says of the file.
pub(crate) fn info(config: &Config, info: &mut Info) {
    info.add("version", &*config.version);
    info.add("pattern", &*config.pattern);
}
