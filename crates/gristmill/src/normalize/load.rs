//! The `normalizer` field of tokenizer.json.
//!
//! As lenient as the reference and no more: fields it does not read are of no consequence, `strip_accents` may be missing,
//! an object without a type is known by its fields. Invariant: what loads behaves as the reference does; any other type is
//! refused by name. Tested against what the reference loads and refuses.

use super::{Bert, Form, Normalizer, Precompiled, Replace};
use crate::error::{Error, Result};
use crate::split::{Dialect, Regex};
use base64::{
    Engine, alphabet,
    engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig},
};
use serde_json::{Map, Value};

/// Deeper than a file can nest sequences that the reference reads.
const MAX_DEPTH: usize = 64;

/// More bytes than anything in use puts into a text at one place.
const MAX_CONTENT: usize = 1024;

type Object = Map<String, Value>;

impl Normalizer {
    /// The normalizer that `value` describes. A missing normalizer (null) is the caller's affair.
    pub(crate) fn from_json(value: &Value) -> Result<Self> {
        let mut steps = Vec::new();
        load(value, 0, &mut steps)?;
        match <[Self; 1]>::try_from(steps) {
            Ok([only]) => Ok(only),
            Err(steps) => Ok(Self::Sequence(steps)),
        }
    }
}

impl Replace {
    /// The replacement that `value`, a normalizer or a decoder, describes.
    pub(crate) fn from_json(value: &Value) -> Result<Self> {
        replace(
            value
                .as_object()
                .ok_or_else(|| malformed("not an object".to_owned()))?,
        )
    }
}

fn malformed(reason: String) -> Error {
    Error::Format {
        reason: format!("normalizer: {reason}"),
    }
}

fn unsupported(what: String) -> Error {
    Error::Unsupported {
        what: format!("normalizer {what}"),
    }
}

/// Appends to `steps` what `value` describes, sequences step by step.
fn load(value: &Value, depth: usize, steps: &mut Vec<Normalizer>) -> Result<()> {
    if depth > MAX_DEPTH {
        return Err(unsupported(format!(
            "sequences nested more than {MAX_DEPTH} deep"
        )));
    }
    let object = value
        .as_object()
        .ok_or_else(|| malformed("not an object".to_owned()))?;
    let step = match type_of(object)? {
        "NFC" => Normalizer::Form(Form::Nfc),
        "NFD" => Normalizer::Form(Form::Nfd),
        "NFKC" => Normalizer::Form(Form::Nfkc),
        "NFKD" => Normalizer::Form(Form::Nfkd),
        "Lowercase" => Normalizer::Lowercase,
        "StripAccents" => Normalizer::StripAccents,
        "Nmt" => Normalizer::Nmt,
        "ByteLevel" => Normalizer::ByteLevel,
        "Strip" => Normalizer::Strip {
            left: flag(object, "strip_left")?,
            right: flag(object, "strip_right")?,
        },
        "Prepend" => Normalizer::Prepend(content(object, "prepend")?),
        "Replace" => Normalizer::Replace(replace(object)?),
        "Precompiled" => Normalizer::Precompiled(precompiled(object)?),
        "Bert" => Normalizer::Bert(bert(object)?),
        _ => {
            let nested = field(object, "normalizers")?;
            let nested = nested
                .as_array()
                .ok_or_else(|| malformed("normalizers is not an array".to_owned()))?;
            return nested
                .iter()
                .try_for_each(|value| load(value, depth + 1, steps));
        }
    };
    steps.push(step);
    Ok(())
}

/// The type of a normalizer; by its fields where it has none, in the order in which the reference tries.
fn type_of(object: &Object) -> Result<&'static str> {
    const TYPES: [&str; 14] = [
        "Bert",
        "Strip",
        "StripAccents",
        "NFC",
        "NFD",
        "NFKC",
        "NFKD",
        "Sequence",
        "Lowercase",
        "Nmt",
        "Precompiled",
        "Replace",
        "Prepend",
        "ByteLevel",
    ];
    match object.get("type") {
        Some(Value::String(name)) if name == "BertNormalizer" => Ok("Bert"),
        Some(Value::String(name)) => TYPES
            .into_iter()
            .find(|known| known == name)
            .ok_or_else(|| unsupported(format!("of type {name:?}"))),
        Some(_) => Err(malformed("type is not a string".to_owned())),
        None => {
            let has = |name: &str| object.contains_key(name);
            let signs = [
                ("clean_text", "Bert"),
                ("strip_left", "Strip"),
                ("normalizers", "Sequence"),
                ("pattern", "Replace"),
                ("prepend", "Prepend"),
            ];
            let mut fitting = signs.into_iter().filter(|(sign, _)| has(sign));
            match (fitting.next(), fitting.next()) {
                (Some((_, name)), None) => Ok(name),
                (Some(_), Some(_)) => Err(unsupported(
                    "without a type and with the fields of several".to_owned(),
                )),
                (None, _) => Err(malformed("no type".to_owned())),
            }
        }
    }
}

fn bert(object: &Object) -> Result<Bert> {
    let lowercase = flag(object, "lowercase")?;
    let strip_accents = match object.get("strip_accents") {
        None | Some(Value::Null) => lowercase,
        Some(_) => flag(object, "strip_accents")?,
    };
    Ok(Bert {
        clean_text: flag(object, "clean_text")?,
        handle_chinese_chars: flag(object, "handle_chinese_chars")?,
        strip_accents,
        lowercase,
    })
}

fn replace(object: &Object) -> Result<Replace> {
    let content = content(object, "content")?;
    let pattern = field(object, "pattern")?
        .as_object()
        .filter(|pattern| pattern.len() == 1);
    match pattern
        .and_then(|pattern| pattern.iter().next())
        .map(|(kind, source)| (kind.as_str(), source.as_str()))
    {
        Some(("String", Some(source))) => Ok(Replace::literal(source, content)),
        Some(("Regex", Some(source))) => Ok(Replace::regex(
            Regex::new(source, Dialect::Oniguruma)?,
            content,
        )),
        Some((kind, _)) if kind != "String" && kind != "Regex" => Err(unsupported(format!(
            "Replace with a pattern of kind {kind:?}"
        ))),
        _ => Err(malformed(
            "the pattern of Replace is neither a String nor a Regex".to_owned(),
        )),
    }
}

fn precompiled(object: &Object) -> Result<Precompiled> {
    let config =
        GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent);
    let blob = GeneralPurpose::new(&alphabet::STANDARD, config)
        .decode(string(object, "precompiled_charsmap")?)
        .map_err(|error| malformed(format!("precompiled_charsmap: {error}")))?;
    Precompiled::new(&blob)
}

fn field<'v>(object: &'v Object, name: &str) -> Result<&'v Value> {
    object
        .get(name)
        .ok_or_else(|| malformed(format!("no field {name:?}")))
}

fn flag(object: &Object, name: &str) -> Result<bool> {
    field(object, name)?
        .as_bool()
        .ok_or_else(|| malformed(format!("{name:?} is not true or false")))
}

fn string<'v>(object: &'v Object, name: &str) -> Result<&'v str> {
    field(object, name)?
        .as_str()
        .ok_or_else(|| malformed(format!("{name:?} is not a string")))
}

/// What is put into a text, of bounded length: nobody reads a text in which each character is a book.
fn content(object: &Object, name: &str) -> Result<String> {
    let content = string(object, name)?;
    if content.len() > MAX_CONTENT {
        return Err(unsupported(format!(
            "with a {name:?} of more than {MAX_CONTENT} bytes"
        )));
    }
    Ok(content.to_owned())
}
