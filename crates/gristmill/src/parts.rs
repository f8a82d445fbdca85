//! What a tokenizer is made of, and what each of its ids stands for.
//!
//! A format fills in [`Parts`]; nothing changes them afterwards. An id may be a token of the model's
//! vocabulary, an added token, or both: then it is the added token. Tested through `Tokenizer`.

use std::borrow::Cow;

use crate::alphabet;
use crate::decode::{self, Broken, Decoder};
use crate::error::{Error, Result};
use crate::format;
use crate::model::bpe::Bpe;
use crate::normalize::{Normalizer, SentencePieceNormalizer};
use crate::post::PostProcessor;
use crate::special::AddedTokens;
use crate::split::PreTokenizer;
use crate::vocab::Literals;

/// How a format writes its tokens as strings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Spelling {
    /// The vocabulary holds bytes; files write them in the byte-level alphabet.
    Alphabet,
    /// The vocabulary holds bytes; there are no strings, only what the bytes say.
    Bytes,
    /// The vocabulary holds strings.
    Strings,
}

/// How ids become text.
pub(crate) enum Decoding {
    /// The bytes of the tokens, one after the other.
    Bytes {
        /// A character never stands partly before and partly after a special token, even one that
        /// is left out.
        parted: bool,
    },
    /// A decoder over the strings of the tokens; without one, spaces between them.
    Strings(Option<Decoder>),
    /// SentencePiece's own rules.
    SentencePiece(format::sentencepiece::Decoding),
}

/// What is done to a text before it is cut into pieces.
pub(crate) enum Normalization {
    None,
    /// A normalizer of tokenizer.json.
    Json(Normalizer),
    /// SentencePiece's own.
    SentencePiece(SentencePieceNormalizer),
}

/// What a tokenizer is made of; a format fills it in.
pub(crate) struct Parts {
    pub(crate) model: Bpe,
    pub(crate) spelling: Spelling,
    /// Tokens of an [`Spelling::Alphabet`] vocabulary that are not written in the alphabet: no text
    /// becomes one.
    pub(crate) literals: Literals,
    pub(crate) added: AddedTokens,
    pub(crate) normalization: Normalization,
    pub(crate) pre_tokenizer: PreTokenizer,
    pub(crate) post: PostProcessor,
    pub(crate) decoding: Decoding,
    pub(crate) source: format::Source,
}

impl Parts {
    /// The bytes that some ids stand for.
    pub(crate) fn decode(
        &self,
        ids: &[u32],
        skip_special: bool,
        broken: Broken,
    ) -> Result<Vec<u8>> {
        if let Some(&unknown) = ids.iter().find(|&&id| !self.has(id)) {
            return Err(Error::UnknownId(unknown));
        }
        if let Decoding::Bytes { parted } = self.decoding {
            return Ok(self.joined(ids, skip_special, parted && broken == Broken::Replace));
        }
        let kept = ids
            .iter()
            .copied()
            .filter(|&id| !(skip_special && self.is_skipped(id)));
        Ok(match &self.decoding {
            Decoding::Bytes { .. } => Vec::new(),
            Decoding::Strings(decoder) => {
                let tokens: Vec<Cow<'_, [u8]>> =
                    kept.filter_map(|id| self.decoded_as(id)).collect();
                match decoder {
                    Some(decoder) => decoder.run(tokens, broken)?.concat(),
                    None => tokens.join(&b" "[..]),
                }
            }
            Decoding::SentencePiece(decoding) => decoding.decode(&self.model.vocab, kept, broken),
        })
    }

    /// The bytes of the tokens. If `parted`, what stands on two sides of a special token is made
    /// valid UTF-8 apart.
    fn joined(&self, ids: &[u32], skip_special: bool, parted: bool) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(ids.len() * 4);
        let mut valid = 0;
        for &id in ids {
            let special = self.is_skipped(id);
            if special && parted {
                let rest = bytes.split_off(valid);
                bytes.extend_from_slice(String::from_utf8_lossy(&rest).as_bytes());
                valid = bytes.len();
            }
            if !(special && skip_special) {
                self.append_bytes(id, &mut bytes);
            }
        }
        bytes
    }

    /// Whether some token has this id.
    pub(crate) fn has(&self, id: u32) -> bool {
        self.model.vocab.get(id).is_some()
            || self.added.by_id(id).is_some()
            || self.literals.get(id).is_some()
    }

    /// Whether a token is left out when special tokens are skipped. `tokenizers` asks this of the
    /// string it decodes the token as, not of the token.
    pub(crate) fn is_skipped(&self, id: u32) -> bool {
        self.added.by_id(id).is_some_and(|token| {
            self.added
                .by_content(&token.pattern)
                .is_some_and(|same| same.special)
        })
    }

    /// One more than the highest id.
    pub(crate) fn id_end(&self) -> u32 {
        let added = self.added.iter().map(|token| token.id + 1).max();
        self.model.vocab.id_end().max(added.unwrap_or(0))
    }

    /// A token of the vocabulary as its format writes it.
    pub(crate) fn spelled(&self, id: u32) -> Option<Cow<'_, str>> {
        if let Some(literal) = self.literals.get(id) {
            return Some(literal.into());
        }
        let bytes = self.model.vocab.get(id)?;
        Some(match self.spelling {
            Spelling::Alphabet => alphabet::write(bytes).into(),
            Spelling::Bytes | Spelling::Strings => String::from_utf8_lossy(bytes),
        })
    }

    /// What the decoder of a tokenizer.json is given for a token.
    pub(crate) fn decoded_as(&self, id: u32) -> Option<Cow<'_, [u8]>> {
        if let Some(token) = self.added.by_id(id) {
            return Some(token.pattern.as_bytes().into());
        }
        Some(match self.spelled(id)? {
            Cow::Borrowed(text) => text.as_bytes().into(),
            Cow::Owned(text) => text.into_bytes().into(),
        })
    }

    /// Append the bytes a token stands for.
    pub(crate) fn append_bytes(&self, id: u32, bytes: &mut Vec<u8>) {
        if let Some(token) = self.added.by_id(id) {
            match self.spelling {
                Spelling::Alphabet => decode::append_byte_level(token.pattern.as_bytes(), bytes),
                Spelling::Bytes | Spelling::Strings => {
                    bytes.extend_from_slice(token.content.as_bytes());
                }
            }
        } else if let Some(literal) = self.literals.get(id) {
            bytes.extend_from_slice(literal.as_bytes());
        } else if let Some(token) = self.model.vocab.get(id) {
            bytes.extend_from_slice(token);
        }
    }

    /// The id of a token, added or not.
    pub(crate) fn id_of(&self, token: &str) -> Option<u32> {
        match self.added.by_content(token) {
            Some(token) => Some(token.id),
            None => self.own_id_of(token),
        }
    }

    /// The id of a token of the vocabulary.
    pub(crate) fn own_id_of(&self, token: &str) -> Option<u32> {
        let vocab = &self.model.vocab;
        match self.spelling {
            Spelling::Alphabet => match alphabet::read(token) {
                Some(bytes) => vocab.id(&bytes),
                None => self.literals.id(token),
            },
            Spelling::Bytes | Spelling::Strings => vocab.id(token.as_bytes()),
        }
    }
}
