//! tokenizer.json, as `tokenizers` reads it, with a BPE model.
//!
//! Two kinds of file meet here. In a byte-level file the pre-tokenizer's last step writes each piece
//! in the byte-level alphabet; that step is left out, the vocabulary is read back into bytes, and
//! pieces are encoded as the bytes they are. In any other file, and in byte-level ones with something
//! unusual (a step after the alphabet, prefixes or suffixes, an unknown token where bytes are
//! missing), the vocabulary stays strings and pieces are encoded character by character, which is the
//! definition itself. Tested against `tokenizers` on real and on made-up files.

mod file;
mod merges;
pub(crate) mod parts;
mod scan;

use rustc_hash::{FxHashMap, FxHashSet};
use serde_json::{Map, Value, json};

use crate::alphabet;
use crate::decode::Decoder;
use crate::error::{Error, Result};
use crate::model::bpe::{Bpe, Bytes, Chars, Units};
use crate::normalize::Normalizer;
use crate::parts::{Decoding, Normalization, Parts, Spelling};
use crate::special::{AddedToken, AddedTokens};
use crate::split::{Change, PreTokenizer, Step};
use crate::text::Text;
use crate::tokenizer::Tokenizer;
use crate::vocab::{Literals, Vocab};

use super::{Info, Source};
use file::{Added, File, List, Model, Tokens};
use scan::Span;

/// The file without its vocabulary and merges: what is needed to write it again.
pub(crate) struct Config {
    fields: Map<String, Value>,
    model: Map<String, Value>,
}

impl Config {
    /// The file without its model.
    pub(crate) fn fields(&self) -> &Map<String, Value> {
        &self.fields
    }
}

/// Read a tokenizer.json.
pub(crate) fn read(data: &[u8]) -> Result<Tokenizer> {
    let text = simdutf8::compat::from_utf8(data)
        .map_err(|error| Error::format(format!("invalid UTF-8 at byte {}", error.valid_up_to())))?;
    let file = file::read(text)
        .map_err(|error| Error::format(format!("no valid tokenizer.json: {error}")))?;
    if let Some(version) = &file.version
        && version != "1.0"
    {
        return Err(Error::unsupported(format!(
            "tokenizer.json version {version:?}"
        )));
    }
    check_model(&file.model)?;
    let normalization = match &file.normalizer {
        Value::Null => Normalization::None,
        value => Normalization::Json(Normalizer::from_json(value)?),
    };
    let mut steps = parts::pre_tokenizer(&file.pre_tokenizer)?;
    let writes = steps.iter().filter(|step| is_written(step)).count();
    let written_last = writes == 1 && steps.last().is_some_and(is_written);
    let model = &file.model;
    let plain = [&model.continuing_subword_prefix, &model.end_of_word_suffix]
        .iter()
        .all(|affix| affix.as_deref().unwrap_or_default().is_empty());
    let normalizer_writes = match &normalization {
        Normalization::Json(normalizer) => normalizer.is_byte_level(),
        _ => false,
    };
    let mut loaded = None;
    if written_last && plain && !normalizer_writes {
        loaded = byte_level_model(text, model)?;
    }
    let spelling = if loaded.is_some() {
        steps.pop();
        Spelling::Alphabet
    } else {
        Spelling::Strings
    };
    let Loaded { model, literals } = match loaded {
        Some(loaded) => loaded,
        None => strings_model(text, &file.model)?,
    };
    let decoder = parts::decoder(&file.decoder)?;
    let mut parts = Parts {
        model,
        spelling,
        literals,
        added: AddedTokens::new(Vec::new(), true)?,
        post: parts::post_processor(&file.post_processor)?,
        pre_tokenizer: PreTokenizer::new(steps),
        decoding: match decoder {
            Some(Decoder::ByteLevel) if spelling == Spelling::Alphabet => {
                Decoding::Bytes { parted: false }
            }
            decoder => Decoding::Strings(decoder),
        },
        normalization,
        source: Source::Json(Box::new(config(&file)?)),
    };
    parts.added = added_tokens(&file.added_tokens, &parts)?;
    Ok(Tokenizer::new(parts))
}

fn is_written(step: &Step) -> bool {
    matches!(step, Step::Change(Change::Written))
}

fn check_model(model: &Model) -> Result<()> {
    match model.kind() {
        "BPE" => {}
        kind @ ("WordPiece" | "Unigram" | "WordLevel") => {
            return Err(Error::unsupported(format!("{kind} models; only BPE is")));
        }
        kind => return Err(Error::unsupported(format!("the model type {kind:?}"))),
    }
    if let Some(dropout) = model.dropout
        && dropout != 0.0
    {
        return Err(Error::unsupported(
            "BPE dropout, which makes ids random; set \"dropout\" to null",
        ));
    }
    Ok(())
}

/// A model, and the tokens of a byte-level one that no bytes can become.
struct Loaded {
    model: Bpe,
    literals: Literals,
}

fn tokens_of(model: &Model) -> Result<&List<(Span, u32)>> {
    match &model.vocab {
        Some(Tokens::Ids(tokens)) => Ok(tokens),
        _ => Err(Error::format("the model has no vocabulary")),
    }
}

fn merges_of(model: &Model) -> Result<&List<(Span, Span)>> {
    let missing = || Error::format("the model has no merges");
    model.merges.as_ref().ok_or_else(missing)
}

/// The model over bytes; `None` if what it would do for a byte that is no token is not to drop it.
fn byte_level_model(text: &str, file: &Model) -> Result<Option<Loaded>> {
    let tokens = tokens_of(file)?;
    let mut vocab = Vocab::with_capacity(tokens.entries.len());
    let mut literals = Literals::default();
    let mut bytes = Vec::new();
    for &(token, id) in &tokens.entries {
        let token = tokens.strings.get(text, token);
        bytes.clear();
        if alphabet::read_into(token, &mut bytes) {
            vocab.insert_soon(&bytes, id)?;
        } else {
            literals.insert(token, id)?;
        }
    }
    vocab.settle()?;
    if let Some(id) = literals.ids().find(|&id| vocab.get(id).is_some()) {
        return Err(Error::format(format!("two tokens have the id {id}")));
    }
    let spelled = merges::Spelled::Alphabet {
        literals: &literals,
    };
    let merges = merges::resolve(text, merges_of(file)?, &vocab, &spelled)?;
    let units = Units::Bytes(Box::new(Bytes::new(&vocab)));
    let whole_pieces = file.ignore_merges.unwrap_or(false);
    let model = Bpe::new(vocab, merges, units, whole_pieces);
    let asks_for_more = file.unk_token.is_some() || file.byte_fallback.unwrap_or(false);
    if asks_for_more && model.missing_byte().is_some() {
        return Ok(None);
    }
    Ok(Some(Loaded { model, literals }))
}

/// The model over characters, with the vocabulary as the file writes it.
fn strings_model(text: &str, file: &Model) -> Result<Loaded> {
    let tokens = tokens_of(file)?;
    let mut vocab = Vocab::with_capacity(tokens.entries.len());
    for &(token, id) in &tokens.entries {
        vocab.insert_soon(tokens.strings.get(text, token).as_bytes(), id)?;
    }
    vocab.settle()?;
    let prefix = file.continuing_subword_prefix.clone().unwrap_or_default();
    let spelled = merges::Spelled::Strings {
        dropped: prefix.len(),
    };
    let merges = merges::resolve(text, merges_of(file)?, &vocab, &spelled)?;
    let chars = Chars {
        prefix,
        suffix: file.end_of_word_suffix.clone().unwrap_or_default(),
        bytes: file
            .byte_fallback
            .unwrap_or(false)
            .then(|| Chars::byte_tokens(&vocab)),
        unknown: unknown(file, &vocab)?,
        fuse_unknown: file.fuse_unk.unwrap_or(false),
    };
    Ok(Loaded {
        model: Bpe::new(
            vocab,
            merges,
            Units::Chars(Box::new(chars)),
            file.ignore_merges.unwrap_or(false),
        ),
        literals: Literals::default(),
    })
}

/// The id of the unknown token. One that is not in the vocabulary is refused, for `tokenizers` would
/// fail at the first unknown character, unless the bytes of any character are tokens.
fn unknown(file: &Model, vocab: &Vocab) -> Result<Option<u32>> {
    let Some(token) = &file.unk_token else {
        return Ok(None);
    };
    let id = vocab.id(token.as_bytes());
    let bytes_cover = file.byte_fallback.unwrap_or(false)
        && (0..=255u8).all(|byte| vocab.id(format!("<0x{byte:02X}>").as_bytes()).is_some());
    if id.is_none() && !bytes_cover {
        return Err(Error::format(format!(
            "the unknown token {token:?} is not in the vocabulary"
        )));
    }
    Ok(id)
}

/// The added tokens with the ids `tokenizers` gives them: the vocabulary's where it has the token,
/// else one after the other behind it. The ids in the file play no part.
fn added_tokens(list: &[Added], parts: &Parts) -> Result<AddedTokens> {
    let own_size = parts.model.vocab.len() + parts.literals.len();
    let mut next = u32::try_from(own_size).map_err(|_| Error::format("too many tokens"))?;
    let mut tokens: Vec<AddedToken> = Vec::new();
    let mut places: FxHashMap<&str, usize> = FxHashMap::default();
    let mut special: FxHashSet<&str> = FxHashSet::default();
    let mut owners: FxHashMap<u32, &str> = FxHashMap::default();
    for added in list.iter().filter(|added| !added.content.is_empty()) {
        let known = places.get(&*added.content).copied();
        let id = match known {
            Some(at) => tokens[at].id,
            None => parts.own_id_of(&added.content).unwrap_or_else(|| {
                next += 1;
                next - 1
            }),
        };
        if id >= crate::vocab::MAX_ID {
            return Err(Error::format("too many added tokens"));
        }
        // Of a vocabulary with gaps, a token may have the id that another was just given.
        if let Some(other) = owners.insert(id, &added.content)
            && other != added.content
        {
            return Err(Error::format(format!(
                "the added tokens {other:?} and {:?} have the same id {id}",
                added.content
            )));
        }
        if added.special {
            special.insert(&added.content);
        }
        let token = AddedToken {
            id,
            content: added.content.clone(),
            pattern: pattern_of(added, &parts.normalization)?,
            single_word: added.single_word,
            lstrip: added.lstrip,
            rstrip: added.rstrip,
            normalized: added.normalized,
            // Once special, always special: the library never takes a token off that list.
            special: special.contains(&*added.content),
        };
        match known {
            Some(at) => tokens[at] = token,
            None => {
                places.insert(&added.content, tokens.len());
                tokens.push(token);
            }
        }
    }
    AddedTokens::new(tokens, true)
}

/// What is looked for in the text for an added token.
fn pattern_of(added: &Added, normalization: &Normalization) -> Result<String> {
    match normalization {
        Normalization::Json(normalizer) if added.normalized => {
            let text = normalizer.apply(Text::untracked(&added.content))?;
            Ok(text.as_str().to_owned())
        }
        _ => Ok(added.content.clone()),
    }
}

fn config(file: &File) -> Result<Config> {
    let added = serde_json::to_value(&file.added_tokens)
        .map_err(|error| Error::format(error.to_string()))?;
    let model = &file.model;
    let fields = json!({
        "version": "1.0",
        "truncation": file.truncation,
        "padding": file.padding,
        "added_tokens": added,
        "normalizer": file.normalizer,
        "pre_tokenizer": file.pre_tokenizer,
        "post_processor": file.post_processor,
        "decoder": file.decoder,
    });
    let model = json!({
        "type": "BPE",
        "dropout": null,
        "unk_token": model.unk_token,
        "continuing_subword_prefix": model.continuing_subword_prefix,
        "end_of_word_suffix": model.end_of_word_suffix,
        "fuse_unk": model.fuse_unk.unwrap_or(false),
        "byte_fallback": model.byte_fallback.unwrap_or(false),
        "ignore_merges": model.ignore_merges.unwrap_or(false),
    });
    match (fields, model) {
        (Value::Object(fields), Value::Object(model)) => Ok(Config { fields, model }),
        _ => Err(Error::format("the file is no object")),
    }
}

/// Write the file again: the same tokenizer, in the newest spelling of merges.
pub(crate) fn write(config: &Config, parts: &Parts) -> Result<Vec<u8>> {
    let spelled = |id: u32| parts.spelled(id).unwrap_or_default();
    let ids = 0..parts.model.vocab.id_end().max(parts.literals.id_end());
    let vocab: Map<String, Value> = ids
        .filter_map(|id| Some((parts.spelled(id)?.into_owned(), id.into())))
        .collect();
    let merges: Vec<Value> = parts
        .model
        .merges()
        .in_order()
        .into_iter()
        .map(|(left, right, _)| json!([spelled(left), spelled(right)]))
        .collect();
    let mut model = config.model.clone();
    model.insert("vocab".into(), vocab.into());
    model.insert("merges".into(), merges.into());
    let mut file = config.fields.clone();
    file.insert("model".into(), model.into());
    serde_json::to_vec(&file).map_err(|error| Error::format(error.to_string()))
}

/// What [`format::info`](super::info) says of the file.
pub(crate) fn info(config: &Config, info: &mut Info) {
    let part = |name: &str| config.fields.get(name).filter(|value| !value.is_null());
    for name in ["normalizer", "pre_tokenizer", "post_processor", "decoder"] {
        if let Some(value) = part(name) {
            info.add(name, described(value));
        }
    }
    for (name, value) in &config.model {
        if !matches!(value, Value::Null | Value::Bool(false)) && name != "type" {
            info.add(name, value.clone());
        }
    }
    let ignored: Vec<Value> = ["truncation", "padding"]
        .iter()
        .filter(|name| part(name).is_some())
        .map(|&name| name.into())
        .collect();
    if !ignored.is_empty() {
        info.add("ignored", ignored);
    }
}

/// A part without its bulky fields.
fn described(value: &Value) -> Value {
    match value {
        Value::Object(fields) => fields
            .iter()
            .filter(|(name, _)| *name != "precompiled_charsmap")
            .map(|(name, value)| (name.clone(), described(value)))
            .collect(),
        Value::Array(values) => values.iter().map(described).collect(),
        value => value.clone(),
    }
}
