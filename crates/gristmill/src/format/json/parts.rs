//! The small parts of tokenizer.json: pre-tokenizer, post-processor, decoder.
//!
//! Every type that `tokenizers` knows is here or refused by name; every field that has a meaning is
//! read. Fields may be missing only where `tokenizers` lets them.

use serde_json::{Map, Value};

use crate::decode::Decoder;
use crate::error::{Error, Result};
use crate::normalize::Replace;
use crate::post::{Item, PostProcessor, Step as PostStep};
use crate::split::{Behavior, Change, Dialect, Finder, Prepend, Step};
use crate::unicode;

/// GPT-2's pattern, which the byte-level pre-tokenizer brings along.
const GPT2: &str = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+";

/// Sequences may hold sequences, but no file nests them this deep.
const DEEPEST: usize = 16;

/// A template may repeat the text, and each of several templates what the one before made of it.
const MOST_COPIES: usize = 16;

/// The fields of a part, with its name for messages.
struct Part<'a> {
    name: String,
    fields: &'a Map<String, Value>,
}

impl<'a> Part<'a> {
    fn new(role: &str, value: &'a Value) -> Result<Part<'a>> {
        let fields = value
            .as_object()
            .ok_or_else(|| Error::format(format!("the {role} is no object")))?;
        let kind = fields
            .get("type")
            .and_then(Value::as_str)
            .ok_or_else(|| Error::format(format!("the {role} has no type")))?;
        Ok(Part {
            name: format!("{role} {kind}"),
            fields,
        })
    }

    fn kind(&self) -> &str {
        self.fields
            .get("type")
            .and_then(Value::as_str)
            .unwrap_or_default()
    }

    fn wrong(&self, field: &str) -> Error {
        Error::format(format!("the {} has a wrong or no {field:?}", self.name))
    }

    fn unknown(&self) -> Error {
        Error::unsupported(format!("the {}", self.name))
    }

    fn get(&self, field: &str) -> Option<&'a Value> {
        self.fields.get(field).filter(|value| !value.is_null())
    }

    fn bool(&self, field: &str) -> Result<bool> {
        self.get(field)
            .and_then(Value::as_bool)
            .ok_or_else(|| self.wrong(field))
    }

    fn bool_or(&self, field: &str, default: bool) -> Result<bool> {
        match self.get(field) {
            None => Ok(default),
            Some(_) => self.bool(field),
        }
    }

    fn str(&self, field: &str) -> Result<&'a str> {
        self.get(field)
            .and_then(Value::as_str)
            .ok_or_else(|| self.wrong(field))
    }

    fn char(&self, field: &str) -> Result<char> {
        let mut chars = self.str(field)?.chars();
        match (chars.next(), chars.next()) {
            (Some(char), None) => Ok(char),
            _ => Err(self.wrong(field)),
        }
    }

    fn usize(&self, field: &str) -> Result<usize> {
        self.get(field)
            .and_then(Value::as_u64)
            .and_then(|number| usize::try_from(number).ok())
            .ok_or_else(|| self.wrong(field))
    }

    fn list(&self, field: &str) -> Result<&'a [Value]> {
        self.get(field)
            .and_then(Value::as_array)
            .map(Vec::as_slice)
            .ok_or_else(|| self.wrong(field))
    }

    fn behavior(&self) -> Result<Behavior> {
        Ok(match self.str("behavior")? {
            "Removed" => Behavior::Removed,
            "Isolated" => Behavior::Isolated,
            "MergedWithPrevious" => Behavior::MergedWithPrevious,
            "MergedWithNext" => Behavior::MergedWithNext,
            "Contiguous" => Behavior::Contiguous,
            _ => return Err(self.wrong("behavior")),
        })
    }

    /// The scheme of a Metaspace, in its new or its old spelling.
    fn prepend(&self) -> Result<Prepend> {
        let declared = match self.get("prepend_scheme") {
            None => Prepend::Always,
            Some(_) => match self.str("prepend_scheme")? {
                "always" => Prepend::Always,
                "first" => Prepend::First,
                "never" => Prepend::Never,
                _ => return Err(self.wrong("prepend_scheme")),
            },
        };
        if self.bool_or("add_prefix_space", true)? {
            return Ok(declared);
        }
        let said = self.get("prepend_scheme").is_some();
        if said && declared != Prepend::Never {
            return Err(self.wrong("add_prefix_space"));
        }
        Ok(Prepend::Never)
    }
}

/// The steps of a pre-tokenizer; the byte-level ones end in [`Change::Written`].
pub(crate) fn pre_tokenizer(value: &Value) -> Result<Vec<Step>> {
    let mut steps = Vec::new();
    if !value.is_null() {
        pre_tokenizer_steps(value, DEEPEST, &mut steps)?;
    }
    Ok(steps)
}

fn splitting(finder: Finder, behavior: Behavior) -> Step {
    Step::Split {
        finder,
        behavior,
        invert: false,
    }
}

fn pre_tokenizer_steps(value: &Value, depth: usize, steps: &mut Vec<Step>) -> Result<()> {
    let part = Part::new("pre-tokenizer", value)?;
    match part.kind() {
        "Sequence" => {
            let depth = depth.checked_sub(1).ok_or_else(|| part.unknown())?;
            for inner in part.list("pretokenizers")? {
                pre_tokenizer_steps(inner, depth, steps)?;
            }
        }
        "ByteLevel" => {
            part.bool("trim_offsets")?;
            if part.bool("add_prefix_space")? {
                steps.push(Step::Change(Change::PrefixSpace));
            }
            if part.bool_or("use_regex", true)? {
                let finder = Finder::pattern(GPT2, Dialect::Oniguruma)?;
                steps.push(splitting(finder, Behavior::Isolated));
            }
            steps.push(Step::Change(Change::Written));
        }
        "Split" => steps.push(Step::Split {
            finder: split_finder(&part)?,
            behavior: part.behavior()?,
            invert: part.bool("invert")?,
        }),
        "Metaspace" => {
            let space = part.char("replacement")?;
            let prepend = part.prepend()?;
            steps.push(Step::Change(Change::VisibleSpace { space, prepend }));
            if part.bool_or("split", true)? {
                let finder = Finder::literal(space.encode_utf8(&mut [0; 4]))?;
                steps.push(splitting(finder, Behavior::MergedWithNext));
            }
        }
        "Digits" => {
            let behavior = if part.bool("individual_digits")? {
                Behavior::Isolated
            } else {
                Behavior::Contiguous
            };
            steps.push(splitting(Finder::Char(char::is_numeric), behavior));
        }
        "Punctuation" => {
            let behavior = match part.get("behavior") {
                None => Behavior::Isolated,
                Some(_) => part.behavior()?,
            };
            steps.push(splitting(Finder::Char(unicode::is_punctuation), behavior));
        }
        "Whitespace" => {
            let finder = Finder::pattern(r"\w+|[^\w\s]+", Dialect::FancyRegex)?;
            steps.push(Step::Split {
                finder,
                behavior: Behavior::Removed,
                invert: true,
            });
        }
        "WhitespaceSplit" => {
            steps.push(splitting(
                Finder::Char(char::is_whitespace),
                Behavior::Removed,
            ));
        }
        "BertPreTokenizer" => {
            steps.push(splitting(
                Finder::Char(char::is_whitespace),
                Behavior::Removed,
            ));
            steps.push(splitting(
                Finder::Char(unicode::is_punctuation),
                Behavior::Isolated,
            ));
        }
        "CharDelimiterSplit" => {
            let finder = Finder::literal(part.char("delimiter")?.encode_utf8(&mut [0; 4]))?;
            steps.push(splitting(finder, Behavior::Removed));
        }
        // What stands before the first script is dropped.
        "UnicodeScripts" => steps.push(Step::Split {
            finder: Finder::Scripts,
            behavior: Behavior::Removed,
            invert: true,
        }),
        "FixedLength" => {
            let length = match part.get("length") {
                None => 5,
                Some(_) => part.usize("length")?,
            };
            if length == 0 {
                return Err(part.wrong("length"));
            }
            steps.push(splitting(Finder::Length(length), Behavior::Isolated));
        }
        _ => return Err(part.unknown()),
    }
    Ok(())
}

fn split_finder(part: &Part<'_>) -> Result<Finder> {
    let pattern = part
        .get("pattern")
        .and_then(Value::as_object)
        .filter(|pattern| pattern.len() == 1)
        .ok_or_else(|| part.wrong("pattern"))?;
    let of = |kind| pattern.get(kind).and_then(Value::as_str);
    match (of("Regex"), of("String")) {
        (Some(regex), _) => Finder::pattern(regex, Dialect::Oniguruma),
        (_, Some(literal)) => Finder::literal(literal),
        _ => Err(part.wrong("pattern")),
    }
}

/// The steps of a post-processor.
pub(super) fn post_processor(value: &Value) -> Result<PostProcessor> {
    let mut steps = Vec::new();
    if !value.is_null() {
        post_steps(value, DEEPEST, &mut steps)?;
    }
    let post = PostProcessor(steps);
    if post.copies() > MOST_COPIES {
        return Err(Error::unsupported(format!(
            "a post-processor that repeats the text more than {MOST_COPIES} times"
        )));
    }
    Ok(post)
}

fn post_steps(value: &Value, depth: usize, steps: &mut Vec<PostStep>) -> Result<()> {
    let part = Part::new("post-processor", value)?;
    match part.kind() {
        "Sequence" => {
            let depth = depth.checked_sub(1).ok_or_else(|| part.unknown())?;
            for inner in part.list("processors")? {
                post_steps(inner, depth, steps)?;
            }
        }
        "ByteLevel" => {
            let add_prefix_space = part.bool("add_prefix_space")?;
            if part.bool("trim_offsets")? {
                steps.push(PostStep::Trim { add_prefix_space });
            }
        }
        "RobertaProcessing" => {
            let add_prefix_space = part.bool("add_prefix_space")?;
            if part.bool("trim_offsets")? {
                steps.push(PostStep::Trim { add_prefix_space });
            }
            steps.push(between(&part)?);
        }
        "BertProcessing" => steps.push(between(&part)?),
        "TemplateProcessing" => steps.push(template(&part)?),
        _ => return Err(part.unknown()),
    }
    Ok(())
}

/// The text between a `cls` and a `sep` token.
fn between(part: &Part<'_>) -> Result<PostStep> {
    let token = |field: &str| -> Result<Item> {
        match part.list(field)? {
            [Value::String(_), id] => Ok(Item::Tokens(vec![
                id_of(id).ok_or_else(|| part.wrong(field))?,
            ])),
            _ => Err(part.wrong(field)),
        }
    };
    Ok(PostStep::Template {
        items: vec![token("cls")?, Item::Text, token("sep")?],
        joined: true,
    })
}

fn id_of(value: &Value) -> Option<u32> {
    value.as_u64().and_then(|id| u32::try_from(id).ok())
}

fn template(part: &Part<'_>) -> Result<PostStep> {
    let tokens = part
        .get("special_tokens")
        .and_then(Value::as_object)
        .ok_or_else(|| part.wrong("special_tokens"))?;
    part.list("pair")?;
    let mut items = Vec::new();
    for item in part.list("single")? {
        let of = |kind: &str| item.get(kind).and_then(|of| of.get("id")?.as_str());
        match (of("Sequence"), of("SpecialToken")) {
            (Some("A"), None) => items.push(Item::Text),
            (Some("B"), None) => {
                return Err(Error::unsupported(
                    "a template that puts a second text beside a single one",
                ));
            }
            (None, Some(name)) => {
                let ids = tokens
                    .get(name)
                    .and_then(|token| token.get("ids")?.as_array())
                    .and_then(|ids| ids.iter().map(id_of).collect::<Option<Vec<_>>>())
                    .ok_or_else(|| part.wrong("special_tokens"))?;
                items.push(Item::Tokens(ids));
            }
            _ => return Err(part.wrong("single")),
        }
    }
    Ok(PostStep::Template {
        items,
        joined: false,
    })
}

/// The decoder, if there is one.
pub(super) fn decoder(value: &Value) -> Result<Option<Decoder>> {
    if value.is_null() {
        return Ok(None);
    }
    decoder_at(value, DEEPEST).map(Some)
}

fn decoder_at(value: &Value, depth: usize) -> Result<Decoder> {
    let part = Part::new("decoder", value)?;
    Ok(match part.kind() {
        "Sequence" => {
            let depth = depth.checked_sub(1).ok_or_else(|| part.unknown())?;
            let inner = part.list("decoders")?.iter();
            Decoder::Sequence(
                inner
                    .map(|value| decoder_at(value, depth))
                    .collect::<Result<_>>()?,
            )
        }
        "ByteLevel" => Decoder::ByteLevel,
        "ByteFallback" => Decoder::ByteFallback,
        "Fuse" => Decoder::Fuse,
        "Strip" => Decoder::Strip {
            content: part.char("content")?,
            start: part.usize("start")?,
            stop: part.usize("stop")?,
        },
        "Replace" => Decoder::Replace(Replace::from_json(value)?),
        "Metaspace" => Decoder::Metaspace {
            replacement: part.char("replacement")?,
            drop_first: part.prepend()? != Prepend::Never,
        },
        "WordPiece" => Decoder::WordPiece {
            prefix: part.str("prefix")?.to_owned(),
            cleanup: part.bool("cleanup")?,
        },
        "BPEDecoder" => Decoder::Suffix(part.str("suffix")?.to_owned()),
        "CTC" => Decoder::Ctc {
            pad: part.str("pad_token")?.to_owned(),
            delimiter: part.str("word_delimiter_token")?.to_owned(),
            cleanup: part.bool("cleanup")?,
        },
        _ => return Err(part.unknown()),
    })
}
