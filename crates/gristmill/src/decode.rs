//! From tokens back to text: the decoders of tokenizer.json.
//!
//! A decoder takes the list of tokens and gives a list of texts, which the next one takes, until what
//! is left is joined. All work on bytes, so that one chain serves both `decode`, where bytes that are
//! not UTF-8 become U+FFFD, and `decode_bytes`, which keeps them. Each rule is that of `tokenizers`,
//! quirks included; where that library would panic (it does on a cut longer than a token) the text is
//! cut as far as it goes. Tested against `tokenizers`.

use std::borrow::Cow;

use crate::alphabet;
use crate::error::{Error, Result};
use crate::normalize::Replace;
use crate::text::most_of;

/// One step from tokens to text.
pub(crate) enum Decoder {
    /// Tokens written in the byte-level alphabet, back to bytes.
    ByteLevel,
    /// `<0x41>` back to a byte.
    ByteFallback,
    /// Everything into one text.
    Fuse,
    /// Up to so many of a character off the start and the end of each text.
    Strip {
        content: char,
        start: usize,
        stop: usize,
    },
    /// A pattern replaced in each text.
    Replace(Replace),
    /// SentencePiece's visible space back to a space, dropped at the very start if it was put there.
    Metaspace { replacement: char, drop_first: bool },
    /// Continuation prefixes off, spaces between words.
    WordPiece { prefix: String, cleanup: bool },
    /// A suffix that ends words becomes a space, except at the end.
    Suffix(String),
    /// Repeated tokens collapsed, pads dropped.
    Ctc {
        pad: String,
        delimiter: String,
        cleanup: bool,
    },
    /// One after the other.
    Sequence(Vec<Decoder>),
}

/// A text between two decoders.
type Piece<'a> = Cow<'a, [u8]>;

/// Whether bytes that are not UTF-8 are kept or become U+FFFD.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Broken {
    Keep,
    Replace,
}

impl Decoder {
    /// Run the decoder over a list of tokens.
    pub(crate) fn run<'a>(&self, tokens: Vec<Piece<'a>>, broken: Broken) -> Result<Vec<Piece<'a>>> {
        Ok(match self {
            Decoder::ByteLevel => vec![byte_level(&tokens, broken).into()],
            Decoder::ByteFallback => byte_fallback(tokens, broken),
            Decoder::Fuse => vec![tokens.concat().into()],
            Decoder::Strip {
                content,
                start,
                stop,
            } => tokens
                .into_iter()
                .map(|token| strip(&token, *content, *start, *stop).to_vec().into())
                .collect(),
            Decoder::Replace(replace) => {
                let mut texts = Vec::with_capacity(tokens.len());
                for token in tokens {
                    texts.push(replaced(replace, token)?);
                }
                texts
            }
            Decoder::Metaspace {
                replacement,
                drop_first,
            } => metaspace(tokens, *replacement, *drop_first),
            Decoder::WordPiece { prefix, cleanup } => word_piece(tokens, prefix, *cleanup),
            Decoder::Suffix(suffix) => suffixes(tokens, suffix),
            Decoder::Ctc {
                pad,
                delimiter,
                cleanup,
            } => ctc(tokens, pad, delimiter, *cleanup),
            Decoder::Sequence(decoders) => {
                let most = most_of(length(&tokens));
                let mut texts = tokens;
                for decoder in decoders {
                    texts = decoder.run(texts, broken)?;
                    if length(&texts) > most {
                        return Err(Error::Limit {
                            what:
                                "the tokenizer's decoder makes far more text than its tokens hold"
                                    .into(),
                            at: most,
                        });
                    }
                }
                texts
            }
        })
    }
}

fn length(texts: &[Piece<'_>]) -> usize {
    texts.iter().map(|text| text.len()).sum()
}

fn each<'a>(tokens: Vec<Piece<'a>>, change: impl Fn(&str) -> String) -> Vec<Piece<'a>> {
    tokens
        .into_iter()
        .map(|token| changed(&token, &change).into())
        .collect()
}

/// What becomes of a token, of which only what is text changes.
fn changed(token: &[u8], change: impl Fn(&str) -> String) -> Vec<u8> {
    if let Ok(text) = std::str::from_utf8(token) {
        return change(text).into_bytes();
    }
    let mut bytes = Vec::with_capacity(token.len());
    for chunk in token.utf8_chunks() {
        bytes.extend_from_slice(change(chunk.valid()).as_bytes());
        bytes.extend_from_slice(chunk.invalid());
    }
    bytes
}

/// The bytes that the tokens write; a token with any other character stands for itself.
fn byte_level(tokens: &[Piece<'_>], broken: Broken) -> Vec<u8> {
    let mut bytes = Vec::new();
    for token in tokens {
        append_byte_level(token, &mut bytes);
    }
    match broken {
        Broken::Keep => bytes,
        Broken::Replace => match String::from_utf8_lossy(&bytes) {
            Cow::Borrowed(_) => bytes,
            Cow::Owned(text) => text.into_bytes(),
        },
    }
}

/// Append the bytes that one token of the byte-level alphabet stands for.
pub(crate) fn append_byte_level(token: &[u8], bytes: &mut Vec<u8>) {
    match std::str::from_utf8(token).ok().and_then(alphabet::read) {
        Some(read) => bytes.extend(read),
        None => bytes.extend_from_slice(token),
    }
}

/// The byte of a token such as `<0x0A>`, read as leniently as `u8::from_str_radix` does.
pub(crate) fn byte_token(token: &[u8]) -> Option<u8> {
    let digits = token.strip_prefix(b"<0x")?.strip_suffix(b">")?;
    if digits.len() != 2 {
        return None;
    }
    u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()
}

fn byte_fallback(tokens: Vec<Piece<'_>>, broken: Broken) -> Vec<Piece<'_>> {
    let mut texts = Vec::with_capacity(tokens.len());
    let mut run = Vec::new();
    for token in tokens {
        if let Some(byte) = byte_token(&token) {
            run.push(byte);
        } else {
            flush_bytes(&mut run, broken, &mut texts);
            texts.push(token);
        }
    }
    flush_bytes(&mut run, broken, &mut texts);
    texts
}

/// A run of bytes is text as a whole or not at all: one U+FFFD for each byte of a broken one.
fn flush_bytes(run: &mut Vec<u8>, broken: Broken, texts: &mut Vec<Piece<'_>>) {
    let run = std::mem::take(run);
    if run.is_empty() {
        return;
    }
    if broken == Broken::Keep || std::str::from_utf8(&run).is_ok() {
        texts.push(run.into());
    } else {
        texts.extend(run.iter().map(|_| Cow::Borrowed("\u{FFFD}".as_bytes())));
    }
}

fn strip(mut token: &[u8], content: char, start: usize, stop: usize) -> &[u8] {
    let mut buffer = [0; 4];
    let content: &[u8] = content.encode_utf8(&mut buffer).as_bytes();
    let width = content.len();
    let whole = token.len();
    let leading = token.chunks(width).take(start);
    let leading = leading.take_while(|&chunk| chunk == content).count() * width;
    let trailing = token.rchunks(width).take(stop);
    let trailing = trailing.take_while(|&chunk| chunk == content).count() * width;
    token = token.get(leading..whole - trailing).unwrap_or_default();
    token
}

fn replaced<'a>(replace: &Replace, token: Piece<'a>) -> Result<Piece<'a>> {
    // Bytes that are not text hold nothing a pattern could match.
    let Ok(text) = std::str::from_utf8(&token) else {
        return Ok(token);
    };
    Ok(match replace.in_text(text)? {
        Some(changed) => Cow::Owned(changed.into_bytes()),
        None => token,
    })
}

fn metaspace(tokens: Vec<Piece<'_>>, replacement: char, drop_first: bool) -> Vec<Piece<'_>> {
    let mut texts = Vec::with_capacity(tokens.len());
    for (at, token) in tokens.into_iter().enumerate() {
        let space = if at == 0 && drop_first { "" } else { " " };
        let visible = |text: &str| text.replace(replacement, space);
        texts.push(changed(&token, visible).into());
    }
    texts
}

fn word_piece<'a>(tokens: Vec<Piece<'a>>, prefix: &str, cleanup: bool) -> Vec<Piece<'a>> {
    let mut first = true;
    let mut texts = Vec::with_capacity(tokens.len());
    for token in tokens {
        let text = if std::mem::take(&mut first) {
            token.into_owned()
        } else if let Some(rest) = token.strip_prefix(prefix.as_bytes()) {
            rest.to_vec()
        } else {
            [b" ", &*token].concat()
        };
        let text = if cleanup {
            changed(&text, cleaned)
        } else {
            text
        };
        texts.push(text.into());
    }
    texts
}

/// Spaces before English punctuation and contractions taken out, in the library's order.
pub(crate) const CLEANED: [(&str, &str); 11] = [
    (" .", "."),
    (" ?", "?"),
    (" !", "!"),
    (" ,", ","),
    (" ' ", "'"),
    (" n't", "n't"),
    (" 'm", "'m"),
    (" do not", " don't"),
    (" 's", "'s"),
    (" 've", "'ve"),
    (" 're", "'re"),
];

fn cleaned(text: &str) -> String {
    CLEANED
        .iter()
        .fold(text.to_owned(), |text, (from, to)| text.replace(from, to))
}

fn suffixes<'a>(tokens: Vec<Piece<'a>>, suffix: &str) -> Vec<Piece<'a>> {
    let last = tokens.len().saturating_sub(1);
    let mut texts = Vec::with_capacity(tokens.len());
    for (at, token) in tokens.into_iter().enumerate() {
        let space = if at == last { "" } else { " " };
        let text = changed(&token, |text| text.replace(suffix, space));
        texts.push(text.into());
    }
    texts
}

fn ctc<'a>(tokens: Vec<Piece<'a>>, pad: &str, delimiter: &str, cleanup: bool) -> Vec<Piece<'a>> {
    let mut tokens = tokens;
    tokens.dedup();
    each(tokens, |token| {
        let text = token.replace(pad, "");
        if cleanup {
            cleaned(&text).replace(delimiter, " ")
        } else {
            text
        }
    })
    .into_iter()
    .filter(|text| !text.is_empty())
    .collect()
}
