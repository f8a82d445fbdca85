//! Any ids, through one of a number of tokenizers.
//!
//! The first byte chooses the tokenizer, the second how the ids are read from the rest.
#![no_main]

use gristmill::{Error, Tokenizer};
use gristmill_fuzz::tokenizer;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let [choice, width, rest @ ..] = data else {
        return;
    };
    let fuzzed = tokenizer(*choice);
    let tokenizer = &fuzzed.tokenizer;
    let width = usize::from(width % 4) + 1;
    let ids: Vec<u32> = rest
        .chunks(width)
        .map(|bytes| {
            bytes
                .iter()
                .rev()
                .fold(0, |id, &byte| id << 8 | u32::from(byte))
        })
        .collect();
    for skip in [false, true] {
        check(tokenizer, &ids, skip, fuzzed.lossless);
    }
    // Whatever was unknown is out of the way.
    let known: Vec<u32> = ids
        .iter()
        .copied()
        .filter(|&id| tokenizer.token_bytes(id).is_ok())
        .collect();
    for skip in [false, true] {
        check(tokenizer, &known, skip, fuzzed.lossless);
    }
    for &id in &known {
        let name = tokenizer.id_to_token(id).expect("a known id has a name");
        // Rank files have no strings, and a normalized added token is named as it is looked for.
        let named = match tokenizer.format_name() {
            "tiktoken ranks" => false,
            "tokenizer.json" => fuzzed.lossless,
            _ => true,
        };
        if named {
            assert_eq!(tokenizer.token_to_id(&name), Some(id), "{name:?}");
        }
    }
});

fn check(tokenizer: &Tokenizer, ids: &[u32], skip: bool, lossless: bool) {
    let text = tokenizer.decode_with(ids, skip);
    let bytes = tokenizer.decode_bytes(ids, skip);
    let batch = tokenizer.decode_batch(&[ids, &[], ids], skip, 1);
    let unknown = ids.iter().find(|&&id| tokenizer.token_bytes(id).is_err());
    if let Some(&unknown) = unknown {
        assert!(matches!(text, Err(Error::UnknownId(id)) if id == unknown));
        assert!(matches!(bytes, Err(Error::UnknownId(id)) if id == unknown));
        assert!(matches!(batch, Err(Error::UnknownId(id)) if id == unknown));
        return;
    }
    let text = text.expect("known ids decode");
    let bytes = bytes.expect("known ids decode");
    let batch = batch.expect("known ids decode");
    assert_eq!(batch, [&*text, "", &*text], "in a batch");
    if !text.contains('\u{fffd}') {
        assert_eq!(bytes, text.as_bytes(), "nothing was replaced");
    }
    if !lossless {
        check_kept(tokenizer, ids, &bytes);
        return;
    }
    assert_eq!(text, String::from_utf8_lossy(&bytes), "the bytes as text");
    let special = tokenizer.special_tokens();
    let mut expected = Vec::new();
    for &id in ids {
        if !skip || !special.values().any(|&other| other == id) {
            expected.extend(tokenizer.token_bytes(id).expect("a known id"));
        }
    }
    assert_eq!(bytes, expected, "token by token");
}

/// Bytes that are no text stay what they are.
fn check_kept(tokenizer: &Tokenizer, ids: &[u32], bytes: &[u8]) {
    let replaced = bytes.windows(3).any(|three| three == "\u{fffd}".as_bytes());
    let may_hold_one = |&id: &u32| {
        let name = tokenizer.id_to_token(id).expect("a known id has a name");
        // The first byte of U+FFFD, in each of its spellings.
        name.contains(['\u{fffd}', '\u{ef}']) || name == "<0xEF>"
    };
    assert!(
        !replaced || ids.iter().any(may_hold_one),
        "bytes were replaced"
    );
}
