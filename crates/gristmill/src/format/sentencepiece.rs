//! SentencePiece `.model` files that hold BPE.
//!
//! The file is a protocol buffer: pieces with scores and types, the trainer's settings, the
//! normalizer's. Followed is `sentencepiece` as `encode` and `decode` do it without extra options. Its
//! control symbols (`<s>`, `</s>`) never come of text there; here they are special tokens. Refused by
//! name: other models than BPE, pieces marked unused (what becomes of them depends on the order in
//! which that library happens to look at a text), denormalizers.

use crate::decode::Broken;
use crate::error::{Error, Result};
use crate::model::bpe::{Bpe, Kind, Piece, Pieces, Units};
use crate::normalize::{PrefixMatcher, SentencePieceFlags, SentencePieceNormalizer};
use crate::parts::{self, Normalization, Parts, Spelling};
use crate::post::PostProcessor;
use crate::special::{AddedToken, AddedTokens};
use crate::split::PreTokenizer;
use crate::tokenizer::Tokenizer;
use crate::vocab::{Literals, Vocab};

use super::{Info, Source};

/// SentencePiece's visible space.
pub(crate) const SPACE: &str = "\u{2581}";

/// How SentencePiece turns ids into text.
pub(crate) struct Decoding {
    /// What each id is, by id.
    pub(crate) kinds: Vec<Type>,
    pub(crate) unknown_surface: String,
    /// The space that was put before the text is taken off again.
    pub(crate) drop_first_space: bool,
    /// So are all spaces before the first other character.
    pub(crate) drop_all_spaces: bool,
}

/// The type of a piece.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Type {
    Normal,
    Unknown,
    Control,
    UserDefined,
    Unused,
    Byte(u8),
}

/// A file, read.
struct File {
    pieces: Vec<(String, f32, u64)>,
    is_bpe: bool,
    kind: u64,
    byte_fallback: bool,
    suffix_spaces: bool,
    unknown_surface: String,
    charsmap: Vec<u8>,
    add_dummy_prefix: bool,
    remove_extra_whitespaces: bool,
    escape_whitespaces: bool,
    denormalizes: bool,
}

/// Whether this could be a SentencePiece model: a protocol buffer whose first field is a piece.
pub(crate) fn looks_like(data: &[u8]) -> bool {
    match Fields(data).next() {
        Some(Ok((1, Value::Bytes(piece)))) => {
            parse_piece(piece).is_ok_and(|(text, ..)| !text.is_empty())
        }
        _ => false,
    }
}

/// Read a SentencePiece model.
pub(crate) fn read(data: &[u8]) -> Result<Tokenizer> {
    let file = parse(data)?;
    if !file.is_bpe {
        let kind = match file.kind {
            1 => "Unigram",
            3 => "word",
            4 => "character",
            _ => "unknown",
        };
        return Err(Error::unsupported(format!(
            "SentencePiece models of the {kind} kind; only BPE is"
        )));
    }
    if file.denormalizes {
        return Err(Error::unsupported(
            "a SentencePiece model with a denormalizer",
        ));
    }
    let kinds = kinds(&file)?;
    let mut vocab = Vocab::with_capacity(file.pieces.len());
    for (id, (text, _, _)) in (0..).zip(&file.pieces) {
        if text.is_empty() {
            return Err(Error::format(format!("piece {id} is empty")));
        }
        vocab.insert(text.as_bytes(), id)?;
    }
    let model = model(&file, &kinds, vocab)?;
    let special = (0..).zip(&file.pieces).zip(&kinds);
    let special = special.filter(|(_, kind)| matches!(kind, Type::Control | Type::Unknown));
    let added = special.map(|((id, (text, ..)), _)| AddedToken::special(text.clone(), id));
    let normalizer = SentencePieceNormalizer::new(
        &file.charsmap,
        SentencePieceFlags {
            add_dummy_prefix: file.add_dummy_prefix,
            remove_extra_whitespaces: file.remove_extra_whitespaces,
            escape_whitespaces: file.escape_whitespaces,
            treat_whitespace_as_suffix: file.suffix_spaces,
        },
    )?;
    Ok(Tokenizer::new(Parts {
        model,
        spelling: Spelling::Strings,
        literals: Literals::default(),
        added: AddedTokens::new(added.collect(), true)?,
        normalization: Normalization::SentencePiece(normalizer),
        pre_tokenizer: PreTokenizer::default(),
        post: PostProcessor::default(),
        decoding: parts::Decoding::SentencePiece(Decoding {
            kinds,
            unknown_surface: file.unknown_surface,
            drop_first_space: file.add_dummy_prefix || file.remove_extra_whitespaces,
            drop_all_spaces: file.remove_extra_whitespaces,
        }),
        source: Source::SentencePiece(data.into()),
    }))
}

/// The types of the pieces, checked as the library checks them.
fn kinds(file: &File) -> Result<Vec<Type>> {
    let mut kinds = Vec::with_capacity(file.pieces.len());
    for (id, (text, score, kind)) in file.pieces.iter().enumerate() {
        let kind =
            match kind {
                1 => Type::Normal,
                2 => Type::Unknown,
                3 => Type::Control,
                4 => Type::UserDefined,
                5 => Type::Unused,
                6 => Type::Byte(byte_of(text).ok_or_else(|| {
                    Error::format(format!("the byte piece {text:?} names no byte"))
                })?),
                _ => return Err(Error::format(format!("piece {id} has an unknown type"))),
            };
        if kind == Type::Unused {
            return Err(Error::unsupported(format!(
                "SentencePiece models with pieces marked unused ({text:?})"
            )));
        }
        if kind == Type::Control && text.chars().count() == 1 {
            return Err(Error::unsupported(format!(
                "the control symbol {text:?}, which is a single character"
            )));
        }
        if score.is_nan() {
            return Err(Error::format(format!("piece {id} has no score")));
        }
        if matches!(kind, Type::Byte(_)) && !file.byte_fallback {
            return Err(Error::format(
                "byte pieces in a model without byte fallback",
            ));
        }
        kinds.push(kind);
    }
    Ok(kinds)
}

fn byte_of(text: &str) -> Option<u8> {
    (0..=255).find(|byte| format!("<0x{byte:02X}>") == text)
}

fn model(file: &File, kinds: &[Type], vocab: Vocab) -> Result<Bpe> {
    let of_kind = |wanted: Type| {
        (0..)
            .zip(kinds)
            .filter_map(move |(id, &kind)| (kind == wanted).then_some(id))
    };
    let mut unknown = of_kind(Type::Unknown);
    let (Some(unknown), None) = (unknown.next(), unknown.next()) else {
        return Err(Error::format("the model must have one unknown piece"));
    };
    let bytes = if file.byte_fallback {
        let mut bytes = Box::new([0; 256]);
        for (byte, slot) in (0..=255).zip(bytes.iter_mut()) {
            *slot = of_kind(Type::Byte(byte))
                .next()
                .ok_or_else(|| Error::format("the model lacks some of the 256 byte pieces"))?;
        }
        Some(bytes)
    } else {
        None
    };
    let pieces: Vec<Piece<'_>> = (0..)
        .zip(&file.pieces)
        .zip(kinds)
        .filter_map(|((id, (text, score, _)), kind)| {
            let kind = match kind {
                Type::Normal => Kind::Normal,
                Type::UserDefined => Kind::UserDefined,
                _ => return None,
            };
            Some(Piece {
                text,
                id,
                score: *score,
                kind,
            })
        })
        .collect();
    let fixed = pieces
        .iter()
        .filter(|piece| piece.kind == Kind::UserDefined);
    let fixed = PrefixMatcher::new(fixed.map(|piece| piece.text))?;
    vocab.check_lengths()?;
    let (pieces, merges) = Pieces::new(&pieces, &vocab, fixed, unknown, bytes)?;
    Ok(Bpe::new(
        vocab,
        merges.into(),
        Units::Pieces(Box::new(pieces)),
        false,
    ))
}

impl Decoding {
    /// The text of some ids. A broken run of bytes gives one U+FFFD for each byte that is not part of
    /// a character, or stays as it is.
    pub(crate) fn decode(
        &self,
        vocab: &Vocab,
        ids: impl Iterator<Item = u32>,
        broken: Broken,
    ) -> Vec<u8> {
        let mut text = Vec::new();
        let mut run = Vec::new();
        let mut at_start = true;
        let mut first_space_dropped = false;
        for id in ids {
            let kind = self.kinds.get(id as usize).copied();
            if let Some(Type::Byte(byte)) = kind {
                run.push(byte);
                continue;
            }
            append_bytes(&mut run, broken, &mut text);
            // Once past the start, always: also where nothing was written since.
            at_start &= !first_space_dropped && text.is_empty();
            let piece = vocab.get(id).unwrap_or_default();
            let piece = String::from_utf8_lossy(piece);
            first_space_dropped = false;
            match kind {
                Some(Type::Control) | None => {}
                Some(Type::Unknown) => text.extend_from_slice(self.unknown_surface.as_bytes()),
                Some(_) => {
                    let mut rest = &*piece;
                    if at_start
                        && self.drop_first_space
                        && let Some(stripped) = rest.strip_prefix(SPACE)
                    {
                        rest = stripped;
                        first_space_dropped = !self.drop_all_spaces;
                    }
                    text.extend_from_slice(rest.replace(SPACE, " ").as_bytes());
                }
            }
        }
        append_bytes(&mut run, broken, &mut text);
        text
    }
}

fn append_bytes(run: &mut Vec<u8>, broken: Broken, text: &mut Vec<u8>) {
    match broken {
        Broken::Keep => text.append(run),
        Broken::Replace => {
            for chunk in run.utf8_chunks() {
                text.extend_from_slice(chunk.valid().as_bytes());
                for _ in chunk.invalid() {
                    text.extend_from_slice("\u{FFFD}".as_bytes());
                }
            }
            run.clear();
        }
    }
}

/// What [`format::info`](super::info) says of the file.
pub(crate) fn info(parts: &Parts, info: &mut Info) {
    if let parts::Decoding::SentencePiece(decoding) = &parts.decoding {
        let bytes = decoding.kinds.iter();
        let bytes = bytes.filter(|kind| matches!(kind, Type::Byte(_))).count();
        info.add("byte_fallback", bytes > 0);
        info.add("add_dummy_prefix", decoding.drop_first_space);
        info.add("remove_extra_whitespaces", decoding.drop_all_spaces);
    }
}

fn parse(data: &[u8]) -> Result<File> {
    let mut file = File {
        pieces: Vec::new(),
        is_bpe: false,
        kind: 1,
        byte_fallback: false,
        suffix_spaces: false,
        unknown_surface: " \u{2047} ".into(),
        charsmap: Vec::new(),
        add_dummy_prefix: true,
        remove_extra_whitespaces: true,
        escape_whitespaces: true,
        denormalizes: false,
    };
    for field in Fields(data) {
        match field? {
            (1, Value::Bytes(piece)) => file.pieces.push(parse_piece(piece)?),
            (2, Value::Bytes(trainer)) => parse_trainer(trainer, &mut file)?,
            (3, Value::Bytes(normalizer)) => parse_normalizer(normalizer, &mut file)?,
            (5, Value::Bytes(denormalizer)) => {
                for field in Fields(denormalizer) {
                    if let (2, Value::Bytes([_, ..])) = field? {
                        file.denormalizes = true;
                    }
                }
            }
            _ => {}
        }
    }
    if file.pieces.is_empty() {
        return Err(Error::format("the SentencePiece model has no pieces"));
    }
    Ok(file)
}

fn parse_piece(data: &[u8]) -> Result<(String, f32, u64)> {
    let (mut text, mut score, mut kind) = (String::new(), 0.0, 1);
    for field in Fields(data) {
        match field? {
            (1, Value::Bytes(bytes)) => text = string(bytes)?,
            (2, Value::Fixed32(bits)) => score = f32::from_bits(bits),
            (3, Value::Number(number)) => kind = number,
            _ => {}
        }
    }
    Ok((text, score, kind))
}

fn parse_trainer(data: &[u8], file: &mut File) -> Result<()> {
    for field in Fields(data) {
        match field? {
            (3, Value::Number(kind)) => (file.kind, file.is_bpe) = (kind, kind == 2),
            (24, Value::Number(set)) => file.suffix_spaces = set != 0,
            (35, Value::Number(set)) => file.byte_fallback = set != 0,
            (44, Value::Bytes(surface)) => file.unknown_surface = string(surface)?,
            _ => {}
        }
    }
    Ok(())
}

fn parse_normalizer(data: &[u8], file: &mut File) -> Result<()> {
    for field in Fields(data) {
        match field? {
            (2, Value::Bytes(charsmap)) => file.charsmap = charsmap.to_vec(),
            (3, Value::Number(set)) => file.add_dummy_prefix = set != 0,
            (4, Value::Number(set)) => file.remove_extra_whitespaces = set != 0,
            (5, Value::Number(set)) => file.escape_whitespaces = set != 0,
            _ => {}
        }
    }
    Ok(())
}

fn string(bytes: &[u8]) -> Result<String> {
    match std::str::from_utf8(bytes) {
        Ok(text) => Ok(text.to_owned()),
        Err(_) => Err(Error::format(
            "a piece of the SentencePiece model is not UTF-8",
        )),
    }
}

/// The fields of a protocol buffer message, one after the other; ends after the first broken one.
struct Fields<'a>(&'a [u8]);

/// The value of a field.
enum Value<'a> {
    Number(u64),
    Fixed32(u32),
    Fixed64,
    Bytes(&'a [u8]),
}

impl<'a> Iterator for Fields<'a> {
    type Item = Result<(u64, Value<'a>)>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.0.is_empty() {
            return None;
        }
        let field = self.field();
        if field.is_none() {
            self.0 = &[];
        }
        Some(field.ok_or_else(|| Error::format("the SentencePiece model is broken or cut off")))
    }
}

impl<'a> Fields<'a> {
    fn field(&mut self) -> Option<(u64, Value<'a>)> {
        let tag = self.number()?;
        let value = match tag & 7 {
            0 => Value::Number(self.number()?),
            1 => self.take(8).map(|_| Value::Fixed64)?,
            2 => {
                let length = usize::try_from(self.number()?).ok()?;
                Value::Bytes(self.take(length)?)
            }
            5 => Value::Fixed32(u32::from_le_bytes(self.take(4)?.try_into().ok()?)),
            _ => return None,
        };
        Some((tag >> 3, value))
    }

    fn number(&mut self) -> Option<u64> {
        let mut number = 0;
        for shift in (0..64).step_by(7) {
            let (&byte, rest) = self.0.split_first()?;
            self.0 = rest;
            number |= u64::from(byte & 0x7F) << shift;
            if byte < 0x80 {
                return Some(number);
            }
        }
        None
    }

    fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(taken)
    }
}
