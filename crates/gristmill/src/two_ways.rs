//! The fast ways of encoding against the plain one, which normalises, cuts and merges a text piece by
//! piece: the same ids for any text, whatever was encoded before.

use proptest::prelude::*;

use crate::{EMBEDDED, Options, Special, Tokenizer, Unit};

/// A model that sees spaces as `▁` and no pieces.
fn spaced(prepend: bool, bytes: bool) -> Tokenizer {
    let mut tokens: Vec<String> = ["<unk>", "▁", "a", "b", ",", "\n", "中", "文", "é"]
        .map(String::from)
        .into();
    if bytes {
        tokens.extend((0..=255u8).map(|byte| format!("<0x{byte:02X}>")));
    }
    let merges = [
        "▁ a", "a b", "▁a b", "▁ ▁", "中 文", "b ,", "\n \n", "▁▁ a", "é ▁",
    ];
    tokens.extend(merges.map(|merge| merge.replace(' ', "")));
    let vocab: serde_json::Map<String, serde_json::Value> = (0..)
        .zip(&tokens)
        .map(|(id, token): (u32, _)| (token.clone(), id.into()))
        .collect();
    let mut normalizers = vec![serde_json::json!({
        "type": "Replace", "pattern": {"String": " "}, "content": "▁"
    })];
    if prepend {
        normalizers.insert(0, serde_json::json!({"type": "Prepend", "prepend": "▁"}));
    }
    let file = serde_json::json!({
        "version": "1.0",
        "added_tokens": [{
            "id": 900, "content": "<x>", "single_word": false, "lstrip": false, "rstrip": false,
            "normalized": false, "special": false,
        }],
        "normalizer": {"type": "Sequence", "normalizers": normalizers},
        "pre_tokenizer": null, "post_processor": null, "decoder": null,
        "model": {
            "type": "BPE", "vocab": vocab, "merges": merges, "unk_token": "<unk>",
            "byte_fallback": bytes, "fuse_unk": true,
        },
    });
    Tokenizer::from_bytes(file.to_string().as_bytes(), &Options::default()).unwrap()
}

/// A model of bytes whose ids have gaps, with a merge that is listed twice, an added token, and tokens
/// that no merge makes: pieces are those as a whole, or never.
fn bytewise(whole: bool) -> Tokenizer {
    let merges = [
        "a b", "ab c", "Ġ a", "a b", "b c", "c c", "Ġa bc", "cc cc", "ä ¸", "ä¸ Ń", "x x", "xx xx",
    ];
    let unborn = [
        "abcc",
        "Ġabx",
        "bä¸Ń",
        "xxx",
        "xxxxxxxxxxxxxxxxx",
        "xxxxxxxxxxxxxxx",
        "ĠĠ",
    ];
    let alphabet = (0..=255).map(|byte| crate::alphabet::char_of(byte).to_string());
    let mut tokens: Vec<String> = alphabet.collect();
    for token in merges.iter().chain(&unborn) {
        let token = token.replace(' ', "");
        if !tokens.contains(&token) {
            tokens.push(token);
        }
    }
    let vocab: serde_json::Map<String, serde_json::Value> = (0..)
        .zip(&tokens)
        .map(|(id, token): (u32, _)| (token.clone(), (7 * id).into()))
        .collect();
    let file = serde_json::json!({
        "version": "1.0",
        "added_tokens": [{
            "id": 5000, "content": "<x>", "single_word": false, "lstrip": false, "rstrip": false,
            "normalized": false, "special": false,
        }],
        "normalizer": null,
        "pre_tokenizer": {
            "type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true,
        },
        "post_processor": null, "decoder": {
            "type": "ByteLevel", "add_prefix_space": true, "trim_offsets": true, "use_regex": true,
        },
        "model": {"type": "BPE", "vocab": vocab, "merges": merges, "ignore_merges": whole},
    });
    Tokenizer::from_bytes(file.to_string().as_bytes(), &Options::default()).unwrap()
}

fn check(tokenizer: &Tokenizer, text: &str) {
    let ids = tokenizer.encode_plainly(text, &Special::Text).unwrap();
    for _ in 0..2 {
        let encoded = tokenizer.encode(text, &Special::Text).unwrap();
        assert_eq!(encoded, ids, "{text:?}");
        let count = tokenizer.count(text, &Special::Text, false).unwrap();
        assert_eq!(count, ids.len(), "{text:?}");
        let found = tokenizer.encode_with_offsets(text, &Special::Text, false, Unit::Bytes);
        assert_eq!(found.unwrap().0, ids, "{text:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn texts_with_visible_spaces(
        texts in proptest::collection::vec("([ab,x\n▁é中文😀<>]| |a|b){0,150}", 1..4),
    ) {
        for (prepend, bytes) in [(false, false), (false, true), (true, false), (true, true)] {
            let tokenizer = spaced(prepend, bytes);
            for text in &texts {
                check(&tokenizer, text);
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn texts_of_tokens_that_no_merge_makes(
        texts in proptest::collection::vec(
            "([abcx 中,]|ab|abcc| ab|xx|xxx|x{13,20}|b中|  |<x>){0,150}", 1..4,
        ),
    ) {
        for whole in [false, true] {
            let tokenizer = bytewise(whole);
            for text in &texts {
                check(&tokenizer, text);
            }
        }
    }
}

#[test]
fn texts_with_pieces() {
    let kinds = [
        "the water",
        " Mill",
        "don't",
        "中文字",
        "  ",
        "\n\n",
        "été",
        "한국어",
        "ไทยไทย",
        "हिन्दी",
        "1234567",
        "==",
        "\u{301}",
        "😀",
        "x\u{3000}y",
        "ABCdef",
        "incomprehensibilities",
    ];
    let mut state = 1u64;
    let mut random = |below: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 33) as usize % below
    };
    for name in EMBEDDED {
        let tokenizer = Tokenizer::embedded(name).unwrap();
        for _ in 0..100 {
            let text: String = (0..random(80))
                .map(|_| kinds[random(kinds.len())])
                .collect();
            check(&tokenizer, &text);
        }
    }
}
