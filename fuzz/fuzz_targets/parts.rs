//! A tokenizer.json put together from parts, any with any, and a text.
//!
//! The bytes of the input choose the parts and what stands in them: files that a fuzzer of bytes would
//! not come upon. Steps that lengthen a text are few, since each multiplies its length. With FUZZ_SHOW
//! set, the file and the text are printed, to see what a kept input is.
#![no_main]

use std::collections::BTreeSet;

use gristmill::{Options, Special, Tokenizer};
use gristmill_fuzz::{check_both, only_some, read_again};
use libfuzzer_sys::arbitrary::{Result, Unstructured};
use libfuzzer_sys::fuzz_target;
use serde_json::{Map, Value, json};

fuzz_target!(|data: &[u8]| {
    let mut choices = Unstructured::new(data);
    let Ok(file) = file(&mut choices) else { return };
    let file = file.to_string();
    let text = String::from_utf8_lossy(choices.take_rest()).into_owned();
    if std::env::var_os("FUZZ_SHOW").is_some() {
        eprintln!("{file}\n{}", json!(text));
    }
    let Ok(tokenizer) = Tokenizer::from_bytes(file.as_bytes(), &Options::default()) else {
        return;
    };
    let again = read_again(&tokenizer);
    let only = only_some(&tokenizer, false);
    for special in [Special::Text, Special::Parse, Special::Forbid, only] {
        check_both(&tokenizer, &again, &text, &special);
    }
});

/// What stands wherever a string is asked for.
const STRINGS: [&str; 20] = [
    "", " ", "▁", "a", "e", "the", "##", "</w>", "<unk>", "<s>", "</s>", "é", "e\u{301}",
    "\u{301}", "中", "ß", "İ", "fi", "Ġ", "<0x41>",
];

const PATTERNS: [&str; 16] = [
    r"\s+",
    r"\p{L}+|\p{N}{1,3}",
    r"'s| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+",
    r"(?i:'s|'t)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
    "",
    "x*",
    ".",
    r"(?<=[a-z])(?=[A-Z])",
    r"(?<!\w)\p{L}",
    r"\b",
    r"^\s*\S|\S\s*$",
    r"(?>a|ab)c|\p{M}",
    "[[:punct:]]+",
    r"[\p{L}&&[^a-z]]+",
    "(?:a|e)+?",
    r"\X",
];

fn string(choices: &mut Unstructured<'_>) -> Result<&'static str> {
    choices.choose(&STRINGS).copied()
}

fn flag(choices: &mut Unstructured<'_>) -> Result<bool> {
    choices.arbitrary()
}

fn pattern(choices: &mut Unstructured<'_>) -> Result<Value> {
    Ok(if flag(choices)? {
        json!({"Regex": choices.choose(&PATTERNS)?})
    } else {
        json!({"String": string(choices)?})
    })
}

/// Up to three of something, as a sequence of that kind; nothing, or one, may stand alone.
fn sequence(
    choices: &mut Unstructured<'_>,
    field: &str,
    one: fn(&mut Unstructured<'_>) -> Result<Value>,
) -> Result<Value> {
    let count = choices.int_in_range(0..=4)?;
    let parts = (0..count)
        .map(|_| one(choices))
        .collect::<Result<Vec<_>>>()?;
    Ok(match <[Value; 1]>::try_from(parts) {
        Ok([only]) => only,
        Err(parts) if parts.is_empty() => Value::Null,
        Err(parts) => json!({"type": "Sequence", field: parts}),
    })
}

fn normalizer(choices: &mut Unstructured<'_>) -> Result<Value> {
    Ok(match choices.int_in_range(0..=12)? {
        0 => json!({"type": "NFC"}),
        1 => json!({"type": "NFD"}),
        2 => json!({"type": "NFKC"}),
        3 => json!({"type": "NFKD"}),
        4 => json!({"type": "Lowercase"}),
        5 => json!({"type": "StripAccents"}),
        6 => json!({"type": "Nmt"}),
        7 => json!({"type": "ByteLevel"}),
        8 => json!({"type": "Strip", "strip_left": flag(choices)?, "strip_right": flag(choices)?}),
        9 => json!({"type": "Prepend", "prepend": string(choices)?}),
        10 | 11 => json!({"type": "Replace", "pattern": pattern(choices)?,
            "content": string(choices)?}),
        _ => json!({"type": "BertNormalizer", "clean_text": flag(choices)?,
            "handle_chinese_chars": flag(choices)?, "strip_accents": flag(choices)?,
            "lowercase": flag(choices)?}),
    })
}

fn behavior(choices: &mut Unstructured<'_>) -> Result<&'static str> {
    choices
        .choose(&[
            "Removed",
            "Isolated",
            "MergedWithPrevious",
            "MergedWithNext",
            "Contiguous",
        ])
        .copied()
}

fn metaspace(choices: &mut Unstructured<'_>) -> Result<Value> {
    Ok(
        json!({"type": "Metaspace", "replacement": choices.choose(&["▁", "_", "e", " "])?,
        "prepend_scheme": choices.choose(&["always", "first", "never"])?,
        "split": flag(choices)?}),
    )
}

fn byte_level(choices: &mut Unstructured<'_>) -> Result<Value> {
    Ok(
        json!({"type": "ByteLevel", "add_prefix_space": flag(choices)?,
        "trim_offsets": flag(choices)?, "use_regex": flag(choices)?}),
    )
}

fn pre_tokenizer(choices: &mut Unstructured<'_>) -> Result<Value> {
    Ok(match choices.int_in_range(0..=11)? {
        0 | 1 => byte_level(choices)?,
        2 | 3 => json!({"type": "Split", "pattern": pattern(choices)?,
            "behavior": behavior(choices)?, "invert": flag(choices)?}),
        4 => metaspace(choices)?,
        5 => json!({"type": "Digits", "individual_digits": flag(choices)?}),
        6 => json!({"type": "Punctuation", "behavior": behavior(choices)?}),
        7 => json!({"type": "Whitespace"}),
        8 => json!({"type": "WhitespaceSplit"}),
        9 => json!({"type": "BertPreTokenizer"}),
        10 => json!({"type": "CharDelimiterSplit", "delimiter": choices.choose(&["e", "é", " "])?}),
        _ => json!({"type": "FixedLength", "length": choices.int_in_range(1..=5)?}),
    })
}

fn decoder(choices: &mut Unstructured<'_>) -> Result<Value> {
    Ok(match choices.int_in_range(0..=8)? {
        0 => byte_level(choices)?,
        1 => json!({"type": "ByteFallback"}),
        2 => json!({"type": "Fuse"}),
        3 => json!({"type": "Strip", "content": choices.choose(&["e", " ", "▁"])?,
            "start": choices.int_in_range(0..=2)?, "stop": choices.int_in_range(0..=2)?}),
        4 => json!({"type": "Replace", "pattern": pattern(choices)?, "content": string(choices)?}),
        5 => metaspace(choices)?,
        6 => json!({"type": "WordPiece", "prefix": string(choices)?, "cleanup": flag(choices)?}),
        7 => json!({"type": "BPEDecoder", "suffix": string(choices)?}),
        _ => json!({"type": "CTC", "pad_token": string(choices)?,
            "word_delimiter_token": string(choices)?, "cleanup": flag(choices)?}),
    })
}

fn post_processor(choices: &mut Unstructured<'_>) -> Result<Value> {
    Ok(match choices.int_in_range(0..=3)? {
        0 => byte_level(choices)?,
        1 => json!({"type": "RobertaProcessing", "sep": ["</s>", 2], "cls": ["<s>", 1],
            "trim_offsets": flag(choices)?, "add_prefix_space": flag(choices)?}),
        2 => json!({"type": "BertProcessing", "sep": ["</s>", 2], "cls": ["<s>", 100_000]}),
        _ => {
            let text = json!({"Sequence": {"id": "A", "type_id": 0}});
            let token = json!({"SpecialToken": {"id": "<s>", "type_id": 0}});
            let single = [text.clone(), token, text];
            let from = choices.int_in_range(0..=2)?;
            let to = choices.int_in_range(from..=3)?;
            json!({"type": "TemplateProcessing", "single": single[from..to], "pair": [],
                "special_tokens": {"<s>": {"id": "<s>", "ids": [1, 2], "tokens": ["<s>", "</s>"]}}})
        }
    })
}

fn added_tokens(choices: &mut Unstructured<'_>) -> Result<Value> {
    let count = choices.int_in_range(0..=4)?;
    let token = |choices: &mut Unstructured<'_>| {
        Ok(
            json!({"id": 0, "content": string(choices)?, "single_word": flag(choices)?,
            "lstrip": flag(choices)?, "rstrip": flag(choices)?, "normalized": flag(choices)?,
            "special": flag(choices)?}),
        )
    };
    (0..count).map(|_| token(choices)).collect()
}

fn model(choices: &mut Unstructured<'_>) -> Result<Value> {
    let mut tokens: Vec<String> = ["<unk>", "<s>", "</s>"].map(str::to_owned).into();
    let merges: &[(&str, &str)] = match choices.int_in_range(0..=2)? {
        0 => {
            tokens.extend(
                "▁ abcdefghilmnorstuwyT.'0123456789éſ中e\u{301}#_Ġ"
                    .chars()
                    .map(String::from),
            );
            &[
                ("▁", "t"),
                ("h", "e"),
                ("t", "he"),
                ("a", "a"),
                ("aa", "aa"),
                ("1", "2"),
                (" ", " "),
            ]
        }
        1 => {
            tokens.extend((0..=255u8).map(|byte| format!("<0x{byte:02X}>")));
            tokens.extend("▁ thea".chars().map(String::from));
            &[("t", "h"), ("th", "e"), ("<0xC3>", "<0xA9>"), ("▁", "▁")]
        }
        _ => {
            // The alphabet of byte-level files, as the file of one writes it.
            let plain = (0x21..0x7f)
                .chain(0xa1..0xad)
                .chain(0xae..0x100)
                .chain(0x100..0x144);
            let missing = choices.int_in_range(0..=3)?;
            let chars = plain.filter_map(char::from_u32).skip(missing);
            tokens.extend(chars.map(String::from));
            &[
                ("h", "e"),
                ("Ġ", "t"),
                ("Ġt", "he"),
                ("Ã", "©"),
                ("Ġ", "Ġ"),
                ("a", "a"),
            ]
        }
    };
    for (left, right) in merges {
        tokens.push(format!("{left}{right}"));
    }
    let mut seen = BTreeSet::new();
    tokens.retain(|token| seen.insert(token.clone()));
    let vocab: Map<String, Value> = tokens.into_iter().zip((0..).map(Value::from)).collect();
    let affix = |choices: &mut Unstructured<'_>| {
        Ok(match choices.int_in_range(0..=5)? {
            0 => json!(string(choices)?),
            _ => Value::Null,
        })
    };
    let unknown = choices.choose(&[Some("<unk>"), None])?;
    Ok(
        json!({"type": "BPE", "unk_token": unknown, "fuse_unk": flag(choices)?,
        "byte_fallback": flag(choices)?, "ignore_merges": flag(choices)?,
        "continuing_subword_prefix": affix(choices)?, "end_of_word_suffix": affix(choices)?,
        "vocab": vocab, "merges": merges}),
    )
}

fn file(choices: &mut Unstructured<'_>) -> Result<Value> {
    Ok(json!({
        "version": "1.0",
        "added_tokens": added_tokens(choices)?,
        "normalizer": sequence(choices, "normalizers", normalizer)?,
        "pre_tokenizer": sequence(choices, "pretokenizers", pre_tokenizer)?,
        "post_processor": sequence(choices, "processors", post_processor)?,
        "decoder": sequence(choices, "decoders", decoder)?,
        "model": model(choices)?,
    }))
}
