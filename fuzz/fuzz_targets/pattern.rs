//! Any pattern on any text: the pieces are fancy-regex's, and no pattern hangs.
//!
//! The pattern stands before the first NUL, the text after it. For a short text the vocabulary holds
//! every part of it, so that each piece is one token and its offsets are the piece's.
#![no_main]

use std::collections::BTreeSet;
use std::fmt::Write;
use std::ops::Range;

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use fancy_regex::RegexBuilder;
use gristmill::{Options, Special, Tokenizer, Unit};
use gristmill_fuzz::check_text;
use libfuzzer_sys::fuzz_target;

/// Texts this long, in characters, are cut by both engines.
const SHORT: usize = 20;

fuzz_target!(|data: &[u8]| {
    let mut halves = data.splitn(2, |&byte| byte == 0);
    let (Some(pattern), Some(text)) = (halves.next(), halves.next()) else {
        return;
    };
    let Ok(pattern) = std::str::from_utf8(pattern) else {
        return;
    };
    let text = String::from_utf8_lossy(text);
    let short: String = text.chars().take(SHORT).collect();
    check_ranks(pattern, &short, &text);
    check_json(pattern, &short);
});

fn check_ranks(pattern: &str, text: &str, long: &str) {
    let mut file = String::new();
    for (rank, token) in tokens(text).iter().enumerate() {
        writeln!(file, "{} {rank}", BASE64.encode(token)).expect("a string takes all");
    }
    let options = Options::default().pattern(pattern);
    let Ok(tokenizer) = Tokenizer::from_bytes(file.as_bytes(), &options) else {
        return;
    };
    let Some(pieces) = pieces(&tokenizer, text) else {
        return;
    };
    check_long(&tokenizer, long);
    if let Some(expected) = expected(pattern, text) {
        assert_eq!(pieces, expected, "{pattern:?} on {text:?}");
    }
}

/// The single bytes, then all parts of the text that are longer.
fn tokens(text: &str) -> Vec<Vec<u8>> {
    let mut tokens: Vec<Vec<u8>> = (0..=255).map(|byte| vec![byte]).collect();
    let cuts: Vec<usize> = (0..=text.len())
        .filter(|&at| text.is_char_boundary(at))
        .collect();
    let mut parts: Vec<&[u8]> = Vec::new();
    for (at, &start) in cuts.iter().enumerate() {
        parts.extend(
            cuts[at + 1..]
                .iter()
                .map(|&end| &text.as_bytes()[start..end]),
        );
    }
    parts.sort_unstable();
    parts.dedup();
    parts.retain(|part| part.len() > 1);
    tokens.extend(parts.into_iter().map(<[u8]>::to_vec));
    tokens
}

/// The pieces of a text of whose parts each is a token; `None` if a limit was reached.
fn pieces(tokenizer: &Tokenizer, text: &str) -> Option<Vec<Range<usize>>> {
    check_text(tokenizer, text, &Special::Text)?;
    let (ids, places) = tokenizer
        .encode_with_offsets(text, &Special::Text, false, Unit::Bytes)
        .expect("it encodes");
    let mut pieces: Vec<Range<usize>> = Vec::new();
    for (id, place) in ids.into_iter().zip(places) {
        let piece = place.start..place.end;
        let token = tokenizer.token_bytes(id).expect("an id of a text");
        assert_eq!(token, &text.as_bytes()[piece.clone()], "one token a piece");
        assert!(pieces.last().is_none_or(|last| last.end <= piece.start));
        pieces.push(piece);
    }
    Some(pieces)
}

/// The pieces as fancy-regex has them, if it takes the pattern and comes to an end.
fn expected(pattern: &str, text: &str) -> Option<Vec<Range<usize>>> {
    let regex = RegexBuilder::new(pattern)
        .backtrack_limit(100_000)
        .delegate_size_limit(1 << 20)
        .build()
        .ok()?;
    let mut pieces = Vec::new();
    for found in regex.find_iter(text) {
        let found = found.ok()?;
        if !found.range().is_empty() {
            pieces.push(found.range());
        }
    }
    Some(pieces)
}

/// The same pattern in a tokenizer.json, where another engine's rules hold and nothing is dropped.
fn check_json(pattern: &str, text: &str) {
    let chars: BTreeSet<char> = text.chars().collect();
    let vocab: Vec<String> = (0..)
        .zip(chars)
        .map(|(id, char): (u32, char)| format!("\"{}\":{id}", escaped(char.to_string())))
        .collect();
    let vocab = vocab.join(",");
    let pattern = escaped(pattern);
    let file = format!(
        r#"{{"normalizer":null,"pre_tokenizer":{{"type":"Split","pattern":{{"Regex":"{pattern}"}},
        "behavior":"Isolated","invert":false}},"model":{{"type":"BPE","vocab":{{{vocab}}},
        "merges":[]}}}}"#
    );
    let Ok(tokenizer) = Tokenizer::from_bytes(file.as_bytes(), &Options::default()) else {
        return;
    };
    if let Some(ids) = check_text(&tokenizer, text, &Special::Text) {
        assert_eq!(ids.len(), text.chars().count(), "one token a character");
    }
}

/// As it may stand in a string of a JSON file.
fn escaped(text: impl AsRef<str>) -> String {
    let units = text.as_ref().encode_utf16();
    units.map(|unit| format!("\\u{unit:04x}")).collect()
}

/// A longer text, which must not take more than its share of time.
fn check_long(tokenizer: &Tokenizer, text: &str) {
    let text = text.repeat(2000 / text.len().max(1) + 1);
    let Ok(ids) = tokenizer.encode(&text, &Special::Text) else {
        return;
    };
    let decoded = tokenizer.decode(&ids).expect("whole characters");
    let mut rest = text.chars();
    for char in decoded.chars() {
        assert!(rest.any(|other| other == char), "{char:?} is not in order");
    }
}
