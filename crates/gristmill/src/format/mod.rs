//! Tokenizer files: each format recognised by its content, read into a [`Tokenizer`], and written
//! again.
//!
//! One file per format. Each refuses by name what it could not reproduce exactly. docs/formats.md is
//! the list of what each takes and which library it follows. Tested by golden files, by round trips
//! through `save`, and by a fuzzer.

pub(crate) mod embedded;
pub(crate) mod json;
mod known;
pub(crate) mod ranks;
pub(crate) mod sentencepiece;
pub(crate) mod tekken;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::error::{Error, Result};
use crate::parts::Parts;
use crate::tokenizer::Tokenizer;

/// What a rank file does not hold, where its checksum is not known.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Options {
    /// The regular expression that cuts text into pieces.
    pub pattern: Option<String>,
    /// The special tokens and their ids.
    pub special_tokens: Option<BTreeMap<String, u32>>,
}

impl Options {
    /// Set the pattern.
    #[must_use]
    pub fn pattern(mut self, pattern: impl Into<String>) -> Options {
        self.pattern = Some(pattern.into());
        self
    }

    /// Set the special tokens.
    #[must_use]
    pub fn special_tokens(mut self, tokens: BTreeMap<String, u32>) -> Options {
        self.special_tokens = Some(tokens);
        self
    }

    fn refuse_for(&self, format: &str) -> Result<()> {
        if self.pattern.is_some() || self.special_tokens.is_some() {
            return Err(Error::unsupported(format!(
                "pattern and special_tokens for {format}, which holds its own"
            )));
        }
        Ok(())
    }
}

/// The names a tokenizer goes by in a folder, the first that is there is taken.
const NAMES: [&str; 5] = [
    "tokenizer.json",
    "tekken.json",
    "tokenizer.model",
    "tiktoken.model",
    "spiece.model",
];

/// Read the tokenizer at `path`: a file, or a folder with one.
pub(crate) fn load(path: &Path, options: &Options) -> Result<Tokenizer> {
    let file = if path.is_dir() {
        in_folder(path)?
    } else {
        path.to_owned()
    };
    let data = std::fs::read(&file).map_err(|source| missing(&file, source))?;
    read(&data, options).map_err(|error| at_path(error, &file))
}

/// Why a file could not be read. What looks like a name may be a mistyped one.
fn missing(file: &Path, source: std::io::Error) -> Error {
    let is_name = file.components().count() == 1 && file.extension().is_none();
    if is_name && source.kind() == std::io::ErrorKind::NotFound {
        return Error::NotFound {
            what: format!(
                "{}: no such file or folder, and no embedded tokenizer of this name; there are {}",
                file.display(),
                embedded::EMBEDDED.join(", ")
            ),
        };
    }
    Error::Io {
        path: file.to_owned(),
        source,
    }
}

/// Read a tokenizer from the content of its file.
pub(crate) fn read(data: &[u8], options: &Options) -> Result<Tokenizer> {
    match data.iter().find(|byte| !byte.is_ascii_whitespace()) {
        None => Err(Error::format("the file is empty")),
        Some(b'{') => json_kind(data, options),
        Some(_) if ranks::looks_like(data) => ranks::read(data, options),
        Some(_) if sentencepiece::looks_like(data) => {
            options.refuse_for("a SentencePiece model")?;
            sentencepiece::read(data)
        }
        Some(_) => Err(Error::format(
            "this is no tokenizer file: neither tokenizer.json, nor tekken.json, nor a rank file, \
             nor a SentencePiece model",
        )),
    }
}

fn json_kind(data: &[u8], options: &Options) -> Result<Tokenizer> {
    if tekken::looks_like(data) {
        options.refuse_for("tekken.json")?;
        tekken::read(data)
    } else {
        options.refuse_for("tokenizer.json")?;
        json::read(data)
    }
}

fn in_folder(folder: &Path) -> Result<PathBuf> {
    if let Some(file) = NAMES
        .iter()
        .map(|name| folder.join(name))
        .find(|file| file.is_file())
    {
        return Ok(file);
    }
    let mut ranks = rank_files(folder)?;
    match (ranks.pop(), ranks.is_empty()) {
        (Some(file), true) => Ok(file),
        (Some(_), false) => Err(Error::NotFound {
            what: format!(
                "{}: the folder holds several .tiktoken files; name one of them",
                folder.display()
            ),
        }),
        (None, _) => Err(Error::NotFound {
            what: format!(
                "{}: no tokenizer in this folder; looked for {} and *.tiktoken",
                folder.display(),
                NAMES.join(", ")
            ),
        }),
    }
}

fn rank_files(folder: &Path) -> Result<Vec<PathBuf>> {
    let io = |source| Error::Io {
        path: folder.to_owned(),
        source,
    };
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(io)? {
        let file = entry.map_err(io)?.path();
        let is_rank_file = file
            .extension()
            .is_some_and(|extension| extension == "tiktoken");
        if is_rank_file && file.is_file() {
            files.push(file);
        }
    }
    Ok(files)
}

/// Put the path of the file before what is wrong with it.
fn at_path(error: Error, file: &Path) -> Error {
    let file = file.display();
    match error {
        Error::Format { reason } => Error::format(format!("{file}: {reason}")),
        Error::Unsupported { what } => Error::unsupported(format!("{what} (in {file})")),
        other => other,
    }
}

/// Where a tokenizer came from, with what is needed to write it again.
pub(crate) enum Source {
    Json(Box<json::Config>),
    Ranks(ranks::Config),
    Tekken(Box<tekken::Config>),
    SentencePiece(Box<[u8]>),
}

impl Source {
    /// The format's name, for people.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Source::Json(_) => "tokenizer.json",
            Source::Ranks(_) => "tiktoken ranks",
            Source::Tekken(_) => "tekken.json",
            Source::SentencePiece(_) => "SentencePiece model",
        }
    }
}

/// The content of a file of the tokenizer's own format.
pub(crate) fn write(parts: &Parts) -> Result<Vec<u8>> {
    match &parts.source {
        Source::Json(config) => json::write(config, parts),
        Source::Ranks(_) => Ok(ranks::write(parts)),
        Source::Tekken(config) => tekken::write(config, parts),
        Source::SentencePiece(file) => Ok(file.to_vec()),
    }
}

/// What has to be passed beside the content of [`write`] to read the same tokenizer again.
pub(crate) fn options(parts: &Parts) -> Options {
    match &parts.source {
        Source::Ranks(config) => Options {
            pattern: Some(config.pattern.clone()),
            special_tokens: Some(
                parts
                    .added
                    .iter()
                    .map(|token| (token.content.clone(), token.id))
                    .collect(),
            ),
        },
        _ => Options::default(),
    }
}

/// Write a file beside its place, then move it there: nobody ever sees half of it.
pub(crate) fn save(path: &Path, content: &[u8]) -> Result<()> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let aside = path.with_file_name(format!(".{name}.{}", std::process::id()));
    let written = std::fs::write(&aside, content).and_then(|()| std::fs::rename(&aside, path));
    written.map_err(|source| {
        // What is left of a failed attempt is in nobody's way, should this fail too.
        let _ = std::fs::remove_file(&aside);
        Error::Io {
            path: path.to_owned(),
            source,
        }
    })
}

/// What there is to say of a tokenizer: names and JSON values, in a fixed order.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Info(Vec<(String, Value)>);

impl Info {
    fn add(&mut self, name: &str, value: impl Into<Value>) {
        self.0.push((name.to_owned(), value.into()));
    }

    /// The entries as one JSON object, which keeps their order.
    pub fn to_json(&self) -> String {
        let entry = |(name, value): &(String, Value)| format!("{}:{value}", Value::from(&**name));
        let entries: Vec<String> = self.0.iter().map(entry).collect();
        format!("{{{}}}", entries.join(","))
    }
}

/// What there is to say of a tokenizer.
pub(crate) fn info(parts: &Parts) -> Info {
    let mut info = Info::default();
    info.add("format", parts.source.name());
    info.add("tokens", parts.model.vocab.len() + parts.literals.len());
    info.add("merges", parts.model.merges().len());
    let special = parts.added.iter().filter(|token| token.special).count();
    info.add("special_tokens", special);
    info.add("added_tokens", parts.added.iter().count() - special);
    info.add("id_end", parts.id_end());
    match &parts.source {
        Source::Json(config) => json::info(config, &mut info),
        Source::Ranks(config) => ranks::info(config, &mut info),
        Source::Tekken(config) => tekken::info(config, &mut info),
        Source::SentencePiece(_) => sentencepiece::info(parts, &mut info),
    }
    info
}
