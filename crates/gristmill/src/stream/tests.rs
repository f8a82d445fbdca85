//! Streams against whole decoding, which is their definition: every kind of tokenizer, random chains
//! of decoders, random ids in random steps; then the cases that are known to be hard, by name.

use std::sync::Arc;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::{Options, Tokenizer};

/// Tokens that decoders do something to, alone or together.
const TOKENS: [&str; 40] = [
    "a",
    "b",
    "th",
    "▁",
    "▁a",
    "▁th▁",
    "a▁",
    " ",
    "  ",
    " a ",
    "e</w>",
    "</w>",
    "th</w>e",
    "##s",
    "##",
    "<0x41>",
    "<0xE4>",
    "<0xBD>",
    "<0xA0>",
    "<0xFF>",
    "<0x20>",
    "<0x+A>",
    "<",
    "0x41>",
    "你",
    "\u{FFFD}",
    "a\u{FFFD}",
    "Ġa",
    "ä½",
    "ł",
    "Ġä",
    "|",
    "<pad>",
    "n't",
    " n't",
    ".",
    " do",
    " not",
    "'",
    "aa",
];
const SPECIALS: [&str; 3] = ["<s>", "▁</s>", "<0x42>"];

/// The id of each token: with a gap, in which the special tokens find their place.
fn id_at(place: usize) -> u32 {
    place as u32 + if place < 20 { 0 } else { 30 }
}

/// `tokenizers` counts them up from the number of tokens.
const FIRST_SPECIAL: u32 = 40;

fn json_with(decoder: &Value) -> Tokenizer {
    let vocab: serde_json::Map<String, Value> = TOKENS
        .iter()
        .enumerate()
        .map(|(id, token)| ((*token).to_owned(), json!(id_at(id))))
        .collect();
    let added: Vec<Value> = SPECIALS
        .iter()
        .enumerate()
        .map(|(at, token)| {
            json!({
                "id": FIRST_SPECIAL as usize + at, "content": token, "single_word": false,
                "lstrip": false, "rstrip": false, "normalized": false, "special": at < 2,
            })
        })
        .collect();
    let content = json!({
        "version": "1.0", "truncation": null, "padding": null, "added_tokens": added,
        "normalizer": null, "pre_tokenizer": null, "post_processor": null, "decoder": decoder,
        "model": {
            "type": "BPE", "dropout": null, "unk_token": null, "continuing_subword_prefix": null,
            "end_of_word_suffix": null, "fuse_unk": false, "byte_fallback": false,
            "vocab": vocab, "merges": [],
        },
    });
    Tokenizer::from_bytes(content.to_string().as_bytes(), &Options::default()).unwrap()
}

fn leaf() -> impl Strategy<Value = Value> {
    let replace = |pattern: Value, content: &str| json!({"type": "Replace", "pattern": pattern, "content": content});
    let metaspace = |scheme: &str| json!({"type": "Metaspace", "replacement": "▁", "prepend_scheme": scheme, "split": true});
    let strip = |content: &str, start: u32, stop: u32| json!({"type": "Strip", "content": content, "start": start, "stop": stop});
    let ctc = |cleanup: bool, pad: &str, delimiter: &str| {
        json!({"type": "CTC", "pad_token": pad, "word_delimiter_token": delimiter,
               "cleanup": cleanup})
    };
    let byte_level = json!({"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true});
    let all = vec![
        byte_level,
        json!({"type": "ByteFallback"}),
        json!({"type": "ByteFallback"}),
        json!({"type": "Fuse"}),
        json!({"type": "Fuse"}),
        strip(" ", 1, 0),
        strip(" ", 2, 1),
        strip("a", 0, 2),
        strip("你", 1, 1),
        replace(json!({"String": "▁"}), " "),
        replace(json!({"String": "th"}), ""),
        replace(json!({"String": "aa"}), "a▁"),
        replace(json!({"String": ""}), "-"),
        replace(json!({"Regex": "[ae]+"}), "_"),
        replace(json!({"Regex": "^t|a$"}), ""),
        metaspace("always"),
        metaspace("never"),
        json!({"type": "WordPiece", "prefix": "##", "cleanup": true}),
        json!({"type": "WordPiece", "prefix": "th", "cleanup": false}),
        json!({"type": "BPEDecoder", "suffix": "</w>"}),
        json!({"type": "BPEDecoder", "suffix": "a"}),
        json!({"type": "BPEDecoder", "suffix": ""}),
        ctc(true, "<pad>", "|"),
        ctc(false, "a", "|"),
        ctc(true, "", ""),
    ];
    prop::sample::select(all)
}

fn decoder() -> impl Strategy<Value = Value> {
    prop_oneof![
        1 => Just(Value::Null),
        9 => prop::collection::vec(leaf(), 0..6).prop_map(|decoders| {
            json!({"type": "Sequence", "decoders": decoders})
        }),
    ]
}

/// Ids of tokens, of special tokens, and of none.
fn ids() -> impl Strategy<Value = Vec<u32>> {
    let bytes = ["<0x41>", "<0xE4>", "<0xBD>", "<0xA0>", "<0xFF>", "<0x20>"].map(id);
    prop::collection::vec(
        prop_oneof![
            6 => (0..TOKENS.len()).prop_map(id_at),
            2 => prop::sample::select(bytes.to_vec()),
            1 => FIRST_SPECIAL..FIRST_SPECIAL + 3,
            1 => prop::sample::select(vec![25, 45, 70, 9999]),
        ],
        0..24,
    )
}

/// The ids that some token has.
fn known(tokenizer: &Tokenizer, ids: &[u32]) -> Vec<u32> {
    let known = ids.iter().copied();
    known.filter(|&id| tokenizer.parts.has(id)).collect()
}

/// What a stream gives of ids in steps of these sizes, for ever repeated.
fn streamed(texts: &Arc<TokenTexts>, ids: &[u32], steps: &[usize], skip: bool) -> String {
    let options = StreamOptions {
        skip_special_tokens: skip,
        ..StreamOptions::default()
    };
    let mut stream = DecodeStream::new(texts, &options).unwrap();
    let mut text = String::new();
    let mut rest = ids;
    for &step in steps.iter().cycle() {
        let (now, later) = rest.split_at(step.min(rest.len()));
        text += &stream.push(now);
        rest = later;
        if rest.is_empty() {
            break;
        }
    }
    let has_failed = stream.flags() & flags::FAILED > 0;
    assert!(!has_failed);
    text + &stream.finish()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4000))]

    #[test]
    fn any_chain_gives_what_decoding_at_once_gives(
        decoder in decoder(),
        ids in ids(),
        steps in prop::collection::vec(1usize..5, 1..4),
        skip in any::<bool>(),
    ) {
        let tokenizer = Arc::new(json_with(&decoder));
        let texts = TokenTexts::new(Arc::clone(&tokenizer)).unwrap();
        let whole = tokenizer.decode_with(&known(&tokenizer, &ids), skip).unwrap();
        prop_assert_eq!(streamed(&texts, &ids, &steps, skip), whole);
    }

    #[test]
    fn an_id_alone_gives_what_decoding_it_alone_gives(decoder in decoder(), skip in any::<bool>()) {
        let tokenizer = Arc::new(json_with(&decoder));
        let texts = TokenTexts::new(Arc::clone(&tokenizer)).unwrap();
        let ids: Vec<u32> = (0..90).collect();
        let each = texts.each(&ids, skip).unwrap();
        for ((&id, text), &flag) in ids.iter().zip(each.iter()).zip(&each.flags) {
            let whole = tokenizer.decode_with(&[id], skip);
            prop_assert_eq!(flag == flags::UNKNOWN, whole.is_err());
            prop_assert_eq!(text, whole.unwrap_or_default());
        }
    }

    #[test]
    fn a_prompt_matters_as_far_as_its_context(
        decoder in decoder(),
        prompt in ids(),
        ids in ids(),
        skip in any::<bool>(),
    ) {
        let texts = TokenTexts::new(Arc::new(json_with(&decoder))).unwrap();
        let open = |prompt: Vec<u32>| {
            let options = StreamOptions { skip_special_tokens: skip, prompt, ..Default::default() };
            DecodeStream::new(&texts, &options)
        };
        let context = texts.context(prompt.iter().copied(), skip);
        let (Ok(mut all), Ok(mut some)) = (open(prompt), open(context)) else {
            return Ok(());
        };
        prop_assert_eq!(all.push(&ids) + &all.finish(), some.push(&ids) + &some.finish());
    }

    #[test]
    fn stops_end_where_a_search_of_the_whole_text_finds_them(
        decoder in decoder(),
        ids in ids(),
        strings in prop::collection::vec("[abth ▁.你\u{FFFD}]{1,4}", 1..4),
        steps in prop::collection::vec(1usize..5, 1..4),
        include_stop in any::<bool>(),
    ) {
        let tokenizer = Arc::new(json_with(&decoder));
        let texts = TokenTexts::new(Arc::clone(&tokenizer)).unwrap();
        let whole = tokenizer.decode_with(&known(&tokenizer, &ids), false).unwrap();
        let (stop, expected) = stopped(&whole, &strings, include_stop);
        let mut batch = StreamBatch::new(&texts);
        let stops = batch.stop_set(strings, Vec::new()).unwrap();
        let options = StreamOptions { stops, include_stop, ..StreamOptions::default() };
        let number = batch.open(1, &options).unwrap();
        let (mut text, mut found, mut seen) = (String::new(), -1, 0);
        let mut rest: Vec<i32> = ids.iter().map(|&id| id as i32).collect();
        for &step in steps.iter().cycle() {
            let later = rest.split_off(step.min(rest.len()));
            let ends = [0, rest.len() as i32];
            let given = batch.step(&number, &rest, Some(&ends), Some(&[u8::from(later.is_empty())]));
            let given = given.unwrap();
            text += str::from_utf8(&given.text).unwrap();
            found = found.max(given.stops[0]);
            seen |= given.flags[0];
            rest = later;
            if rest.is_empty() {
                break;
            }
        }
        prop_assert_eq!(text, expected);
        prop_assert_eq!(usize::try_from(found).ok(), stop);
        prop_assert_eq!(seen & flags::STOPPED > 0, stop.is_some());
        prop_assert_eq!(batch.open_streams(), 0);
    }
}

proptest! {
    #[test]
    fn streams_together_are_streams_alone(
        decoder in decoder(),
        steps in prop::collection::vec(prop::collection::vec((0usize..4, 0u32..40), 1..12), 1..12),
        skip in any::<bool>(),
        bytes in any::<bool>(),
    ) {
        let tokenizer = if bytes {
            Tokenizer::embedded("gpt2").unwrap()
        } else {
            json_with(&decoder)
        };
        let texts = TokenTexts::new(Arc::new(tokenizer)).unwrap();
        let options = StreamOptions { skip_special_tokens: skip, ..StreamOptions::default() };
        let mut batch = StreamBatch::new(&texts);
        let numbers = batch.open(4, &options).unwrap();
        let mut alone: Vec<DecodeStream> = (0..4)
            .map(|_| DecodeStream::new(&texts, &options).unwrap())
            .collect();
        // Bytes above 127, among others, and long tokens.
        let spread = |id: u32| if bytes { [id, id + 120, id * 1250, 50_257][id as usize % 4] } else { id };
        for step in &steps {
            let slots: Vec<i32> = step.iter().map(|&(stream, _)| numbers[stream]).collect();
            let ids: Vec<i32> = step.iter().map(|&(_, id)| spread(id) as i32).collect();
            let found = batch.step(&slots, &ids, None, None).unwrap();
            for (at, text) in found.iter().enumerate() {
                let stream = &mut alone[step[at].0];
                let expected = stream.push(&[ids[at] as u32]);
                if found.flags[at] & (flags::FAILED | flags::IGNORED) > 0 {
                    continue;
                }
                prop_assert_eq!(text, expected);
                prop_assert_eq!(found.tokens[at] as u32, stream.tokens());
                if found.whole[at] != StreamTexts::MIXED {
                    prop_assert_eq!(found.whole[at], ids[at] as u32);
                    prop_assert_eq!(texts.whole(found.whole[at]), Some(text));
                }
            }
        }
    }
}

/// The first end of a stop string in a text, found by trying every end, and what is left of the text.
fn stopped(text: &str, strings: &[String], include_stop: bool) -> (Option<usize>, String) {
    for end in 1..=text.len() {
        for (at, string) in strings.iter().enumerate() {
            if text.as_bytes()[..end].ends_with(string.as_bytes()) {
                let cut = if include_stop {
                    end
                } else {
                    end - string.len()
                };
                return (Some(at), text[..cut].to_owned());
            }
        }
    }
    (None, text.to_owned())
}

/// As Llama's files have it.
fn llama() -> Tokenizer {
    json_with(&json!({"type": "Sequence", "decoders": [
        {"type": "Replace", "pattern": {"String": "▁"}, "content": " "},
        {"type": "ByteFallback"},
        {"type": "Fuse"},
        {"type": "Strip", "content": " ", "start": 1, "stop": 0},
    ]}))
}

/// The id of a token of `TOKENS`.
fn id(token: &str) -> u32 {
    id_at(TOKENS.iter().position(|known| *known == token).unwrap())
}

fn pushed(texts: &Arc<TokenTexts>, options: &StreamOptions, tokens: &[&str]) -> Vec<String> {
    let mut stream = DecodeStream::new(texts, options).unwrap();
    let ids = tokens.iter().map(|token| id(token));
    let mut given: Vec<String> = ids.map(|id| stream.push(&[id])).collect();
    given.push(stream.finish());
    given
}

#[test]
fn a_run_of_bytes_is_text_as_a_whole_or_not_at_all() {
    let texts = TokenTexts::new(Arc::new(llama())).unwrap();
    let options = StreamOptions::default();
    let (e4, bd, a0) = ("<0xE4>", "<0xBD>", "<0xA0>");
    assert_eq!(
        pushed(&texts, &options, &["a", e4, bd, a0, "b"]),
        ["a", "", "", "", "你b", ""]
    );
    let given = pushed(&texts, &options, &["a", "<0x20>", e4, bd, "a"]);
    assert_eq!(given, ["a", "", "", "", "\u{FFFD}\u{FFFD}\u{FFFD}a", ""]);
    // Once a run is broken, nothing of it has to wait.
    let given = pushed(&texts, &options, &[e4, "<0x41>", "<0x41>"]);
    assert_eq!(given, ["", "\u{FFFD}\u{FFFD}", "\u{FFFD}", ""]);
}

#[test]
fn a_prompt_decides_about_the_first_space() {
    let texts = TokenTexts::new(Arc::new(llama())).unwrap();
    let mut options = StreamOptions::default();
    assert_eq!(pushed(&texts, &options, &["▁a"])[0], "a");
    options.prompt = vec![id("th")];
    assert_eq!(pushed(&texts, &options, &["▁a"])[0], " a");
    // A character that the prompt began is finished; one that it finished is not given again.
    options.prompt = vec![id("th"), id("<0xE4>"), id("<0xBD>")];
    assert_eq!(pushed(&texts, &options, &["<0xA0>", "a"])[1], "你a");
    options.prompt.push(id("<0xA0>"));
    assert_eq!(pushed(&texts, &options, &["a"])[0], "a");
}

#[test]
fn the_context_of_a_prompt_is_its_last_word() {
    let texts = TokenTexts::new(Arc::new(llama())).unwrap();
    let prompt = [id("a"), id("th"), id("<0xE4>"), id("<0xBD>")];
    assert_eq!(texts.context(prompt.into_iter(), false), prompt[1..]);
    let gpt2 = TokenTexts::new(Arc::new(Tokenizer::embedded("gpt2").unwrap())).unwrap();
    assert_eq!(gpt2.context(0..30_000, false), [29_999]);
}

#[test]
fn text_and_tokens_stay_in_step() {
    let texts = TokenTexts::new(Arc::new(llama())).unwrap();
    let mut batch = StreamBatch::new(&texts);
    let stops = batch
        .stop_set(vec!["th.a".into(), "aaa".into()], vec![id("b")])
        .unwrap();
    let options = StreamOptions {
        stops,
        ..StreamOptions::default()
    };
    let slots = batch.open(1, &options).unwrap();
    let mut step = |token: &str| {
        let found = batch.step(&slots, &[id(token) as i32], None, None).unwrap();
        let text = String::from_utf8(found.text).unwrap();
        (text, found.tokens[0], found.flags[0], found.stops[0])
    };
    assert_eq!(step("."), (".".into(), 1, 0, -1));
    // The end of a token could begin a stop string, so the whole token waits.
    assert_eq!(step("a▁"), ("a ".into(), 2, 0, -1));
    assert_eq!(step(" a "), (" a ".into(), 3, 0, -1));
    assert_eq!(step("th"), (String::new(), 3, 0, -1));
    assert_eq!(step("."), (String::new(), 3, 0, -1));
    assert_eq!(step("th"), ("th.".into(), 5, 0, -1));
    assert_eq!(step("b"), ("th".into(), 7, flags::STOPPED, 2));
    assert_eq!(step("a"), (String::new(), 0, flags::IGNORED, -1));
}

#[test]
fn the_first_tokens_may_be_exempt() {
    let texts = TokenTexts::new(Arc::new(llama())).unwrap();
    let stops = Some(Arc::new(StopSet::new(&["a"], &[id("b")]).unwrap()));
    let options = StreamOptions {
        stops,
        min_tokens: 3,
        ..StreamOptions::default()
    };
    assert_eq!(
        pushed(&texts, &options, &["a", "b", "a", "th", "b"]).concat(),
        "abath"
    );
    assert_eq!(
        pushed(&texts, &options, &["a", "b", "a", "th", "a", "b"]).concat(),
        "abath"
    );
}

/// A decoder may make a text of nothing.
#[test]
fn a_text_of_no_tokens_is_searched_too() {
    let decoder = json!({"type": "Sequence", "decoders": [
        {"type": "Fuse"},
        {"type": "CTC", "pad_token": "<pad>", "word_delimiter_token": "", "cleanup": true},
    ]});
    let texts = TokenTexts::new(Arc::new(json_with(&decoder))).unwrap();
    assert_eq!(pushed(&texts, &StreamOptions::default(), &[]), [" "]);
    let stops = Some(Arc::new(StopSet::new(&[" "], &[]).unwrap()));
    let options = StreamOptions {
        stops,
        ..StreamOptions::default()
    };
    assert_eq!(pushed(&texts, &options, &[]), [""]);
}

#[test]
fn a_stop_set_is_checked() {
    assert!(StopSet::new(&[""], &[]).is_err());
    assert!(StopSet::new(&["a".repeat(40_000), "b".repeat(40_000)], &[]).is_err());
    assert!(StopSet::new(&["a".repeat(40_000)], &[]).is_ok());
}

#[test]
fn what_has_ended_is_gone_and_its_number_is_not_another_s() {
    let texts = TokenTexts::new(Arc::new(llama())).unwrap();
    let mut batch = StreamBatch::new(&texts);
    let first = batch.open(2, &StreamOptions::default()).unwrap();
    batch.close(&first[..1]);
    batch.close(&first[..1]);
    let second = batch.open(1, &StreamOptions::default()).unwrap();
    assert!(!first.contains(&second[0]));
    let found = batch
        .step(&[first[0], second[0], -1, 77], &[0, 0, 0, 0], None, None)
        .unwrap();
    assert_eq!(found.iter().collect::<Vec<_>>(), ["", "a", "", ""]);
    assert_eq!(
        found.flags,
        [flags::IGNORED, 0, flags::IGNORED, flags::IGNORED]
    );
    let found = batch.finish(&[first[1], second[0]]);
    assert_eq!(found.flags, [flags::FINISHED; 2]);
    assert_eq!(batch.open_streams(), 0);
}

#[test]
fn one_stream_may_take_several_tokens_and_stand_twice_in_a_step() {
    let texts = TokenTexts::new(Arc::new(llama())).unwrap();
    let mut batch = StreamBatch::new(&texts);
    let slots = batch.open(2, &StreamOptions::default()).unwrap();
    let tokens = ["a", "b", "th", "a"].map(|token| id(token) as i32);
    let order = [slots[0], slots[1], slots[0]];
    let found = batch
        .step(&order, &tokens, Some(&[0, 2, 2, 4]), Some(&[0, 1, 1]))
        .unwrap();
    assert_eq!(found.iter().collect::<Vec<_>>(), ["ab", "", "tha"]);
    assert_eq!(found.flags, [0, flags::FINISHED, flags::FINISHED]);
    assert_eq!(found.tokens, [2, 0, 4]);
    for (tokens, ends) in [
        (3, [0, 2, 2]),
        (4, [0, 3, 2]),
        (3, [1, 2, 3]),
        (3, [0, -1, 3]),
    ] {
        let tokens = vec![0; tokens];
        assert!(batch.step(&slots, &tokens, Some(&ends), None).is_err());
    }
    assert!(batch.step(&slots, &[0], None, None).is_err());
    assert!(batch.step(&slots, &[0, 0], None, Some(&[0])).is_err());
}

/// What a stream holds does not grow with what almost matches, is broken, or is left out.
#[test]
fn what_is_held_is_bounded() {
    let texts = TokenTexts::new(Arc::new(llama())).unwrap();
    let stops = Some(Arc::new(StopSet::new(&["aaab", "a.a.a.b"], &[]).unwrap()));
    let special = FIRST_SPECIAL;
    for tokens in [
        vec![id("a")],
        vec![id("<0xE4>")],
        vec![special],
        vec![id("a"), id(".")],
    ] {
        let options = StreamOptions {
            stops: stops.clone(),
            skip_special_tokens: true,
            ..StreamOptions::default()
        };
        let mut stream = DecodeStream::new(&texts, &options).unwrap();
        let mut given = 0;
        for &id in tokens.iter().cycle().take(100_000) {
            given += stream.push(&[id]).len();
        }
        let rest = stream.finish().len();
        assert!(rest < 16, "{rest}");
        assert!(given > 90_000 || tokens == [special]);
    }
}
