//! Any text, through one of a number of tokenizers.
//!
//! The first byte chooses the tokenizer, the second what becomes of special tokens, the rest is the
//! text. Or the first byte is 255: then tokens stand before the first NUL, divided by the byte 1, and the
//! text behind it is compared with the plainest way to merge.
#![no_main]

use std::collections::HashMap;
use std::fmt::Write;

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use gristmill::{Options, Special, Tokenizer, Unit};
use gristmill_fuzz::{check_text, check_tiles, only_some, tokenizer};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let [choice, policy, text @ ..] = data else {
        return;
    };
    if *choice == 255 {
        return check_merges(&data[1..]);
    }
    let fuzzed = tokenizer(*choice);
    let tokenizer = &fuzzed.tokenizer;
    let special = match policy % 5 {
        0 => Special::Text,
        1 => Special::Parse,
        2 => Special::Forbid,
        number => only_some(tokenizer, number == 3),
    };
    let text = String::from_utf8_lossy(text);
    let Some(ids) = check_text(tokenizer, &text, &special) else {
        assert_eq!(special, Special::Forbid, "only this policy refuses a text");
        return;
    };
    let decoded = tokenizer.decode(&ids).expect("ids of a text decode");
    if fuzzed.lossless {
        assert_eq!(decoded, text, "decoded");
        check_lossless(tokenizer, &text, &special, &ids);
    }
});

fn check_lossless(tokenizer: &Tokenizer, text: &str, special: &Special, ids: &[u32]) {
    let bytes = tokenizer.decode_bytes(ids, false);
    assert_eq!(bytes.expect("ids of a text decode"), text.as_bytes());
    // Where each token ends.
    let mut ends = vec![0];
    for &id in ids {
        let token = tokenizer.token_bytes(id).expect("an id of a text");
        ends.push(ends[ends.len() - 1] + token.len());
    }
    for most in [0, 1, 2, 3, ids.len() / 2, ids.len().saturating_sub(1)] {
        let most = most.min(ids.len());
        let boundary = |end: &&usize| text.is_char_boundary(**end);
        let longest = ends[..=most].iter().rev().find(boundary).copied();
        let cut = tokenizer.truncate(text, most, special).expect("it encodes");
        assert_eq!(Some(cut), longest, "truncated to {most} tokens");
    }
    // The JSON files trim the spaces off their offsets.
    if tokenizer.format_name() == "tiktoken ranks" {
        let (_, places) = tokenizer
            .encode_with_offsets(text, special, false, Unit::Bytes)
            .expect("it encodes");
        check_tiles(text, &places);
        for (place, ends) in places.iter().zip(ends.windows(2)) {
            assert!(place.start <= ends[0] && ends[1] <= place.end, "{place:?}");
            let whole = text.is_char_boundary(ends[0]) && text.is_char_boundary(ends[1]);
            assert!(!whole || (place.start, place.end) == (ends[0], ends[1]));
        }
    }
}

fn check_merges(data: &[u8]) {
    let mut halves = data.splitn(2, |&byte| byte == 0);
    let (Some(tokens), Some(text)) = (halves.next(), halves.next()) else {
        return;
    };
    let mut ranks: HashMap<Vec<u8>, u32> =
        (0..=255).map(|byte| (vec![byte], byte.into())).collect();
    for token in tokens.split(|&byte| byte == 1) {
        let next = ranks.len() as u32;
        if !token.is_empty() {
            ranks.entry(token.to_vec()).or_insert(next);
        }
    }
    let mut file = String::new();
    for (token, rank) in &ranks {
        writeln!(file, "{} {rank}", BASE64.encode(token)).expect("a string takes all");
    }
    let options = Options::default().pattern("(?s).+");
    let tokenizer = Tokenizer::from_bytes(file.as_bytes(), &options).expect("a rank file");
    // The plain way takes the cube of the length.
    let text: String = String::from_utf8_lossy(text).chars().take(100).collect();
    let ids = check_text(&tokenizer, &text, &Special::Text).expect("it encodes");
    assert_eq!(ids, merged(&ranks, text.as_bytes()), "merged");
}

/// The ids of a piece: of all neighbours whose bytes together are a token the first of the lowest rank
/// become one, until there are none.
fn merged(ranks: &HashMap<Vec<u8>, u32>, piece: &[u8]) -> Vec<u32> {
    if let Some(&whole) = ranks.get(piece) {
        return vec![whole];
    }
    let mut tokens: Vec<Vec<u8>> = piece.iter().map(|&byte| vec![byte]).collect();
    let rank = |pair: &[Vec<u8>]| ranks.get(&pair.concat()).copied();
    while let Some((_, at)) = tokens
        .windows(2)
        .enumerate()
        .filter_map(|(at, pair)| Some((rank(pair)?, at)))
        .min()
    {
        let right = tokens.remove(at + 1);
        tokens[at].extend(right);
    }
    tokens.iter().map(|token| ranks[token]).collect()
}
