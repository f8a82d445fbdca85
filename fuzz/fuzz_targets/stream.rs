//! Any ids, in any steps, through streams of one of a number of tokenizers.
//!
//! The first byte chooses the tokenizer; the bits of the second say whether special tokens are skipped,
//! a stop string is part of the text, how wide an id is, and how many stop strings there are. Each of
//! these has two bytes, which cut it from the whole text. What follows are ids, and each of them in one
//! step with as many of the next ones as its lowest bits say.
#![no_main]

use gristmill::stream::{HfDecodeStream, StreamBatch, StreamOptions, StreamTexts, flags};
use gristmill_fuzz::{Fuzzed, tokenizer};
use libfuzzer_sys::fuzz_target;
use std::sync::Arc;

fuzz_target!(|data: &[u8]| {
    let [choice, options, rest @ ..] = data else {
        return;
    };
    let fuzzed = tokenizer(*choice);
    let (skip, include) = (options & 1 > 0, options & 2 > 0);
    let width = usize::from(options >> 2 & 3) + 1;
    let (cuts, rest) = rest.split_at(rest.len().min(usize::from(options >> 4 & 3) * 2));
    let number = |bytes: &[u8]| {
        let bytes = bytes.iter().rev();
        bytes.fold(0, |id: u32, &byte| id << 8 | u32::from(byte))
    };
    let ids: Vec<i32> = rest.chunks(width).map(|id| number(id) as i32).collect();
    let known = ids.iter().map(|&id| id as u32);
    let known: Vec<u32> = known
        .filter(|&id| fuzzed.tokenizer.token_bytes(id).is_ok())
        .collect();
    let Ok(whole) = fuzzed.tokenizer.decode_with(&known, skip) else {
        return;
    };
    let plain = StreamOptions {
        skip_special_tokens: skip,
        ..StreamOptions::default()
    };
    assert_eq!(streamed(fuzzed, &ids, &plain, &[]), whole, "without stops");

    let strings: Vec<String> = cuts
        .chunks_exact(2)
        .filter_map(|cut| part(&whole, cut[0], cut[1]))
        .collect();
    if !strings.is_empty() {
        let expected = stopped(&whole, &strings, include);
        let options = StreamOptions {
            include_stop: include,
            ..plain
        };
        let found = streamed(fuzzed, &ids, &options, &strings);
        assert_eq!(found, expected, "with the stops {strings:?}");
    }

    // Its errors are those of the original; it must not fail in any other way.
    let mut stream = HfDecodeStream::new(Arc::clone(&fuzzed.tokenizer), &[], skip);
    for id in known {
        if stream.step(&[id]).is_err() {
            break;
        }
    }
});

/// A few characters of a text.
fn part(text: &str, start: u8, len: u8) -> Option<String> {
    let characters = text.chars().count();
    let start = usize::from(start) % characters.max(1);
    let part: String = text
        .chars()
        .skip(start)
        .take(usize::from(len % 8) + 1)
        .collect();
    (!part.is_empty()).then_some(part)
}

/// A text up to the first end of a stop string.
fn stopped(text: &str, strings: &[String], include: bool) -> String {
    let ends = strings.iter().filter_map(|string| {
        let start = text.find(string.as_str())?;
        Some((start + string.len(), string.len()))
    });
    let mut found: Option<(usize, usize)> = None;
    for (end, len) in ends {
        if found.is_none_or(|(first, _)| end < first) {
            found = Some((end, len));
        }
    }
    match found {
        Some((end, _)) if include => text[..end].to_owned(),
        Some((end, len)) => text[..end - len].to_owned(),
        None => text.to_owned(),
    }
}

/// All that a stream gives, checked step by step. Another stream of the batch takes each step too.
fn streamed(fuzzed: &Fuzzed, ids: &[i32], options: &StreamOptions, strings: &[String]) -> String {
    let mut batch = StreamBatch::new(&fuzzed.texts);
    let stops = batch
        .stop_set(strings.to_vec(), Vec::new())
        .expect("some strings, none empty");
    let options = StreamOptions {
        stops,
        ..options.clone()
    };
    let slots = batch.open(2, &options).expect("two streams are not many");
    let mut text = String::new();
    let mut rest = ids;
    loop {
        let size = rest.first().map_or(0, |id| (*id as usize & 3) + 1);
        let (now, later) = rest.split_at(size.min(rest.len()));
        let finished = later.is_empty();
        let found = if now.len() == 1 && !finished {
            let both = [now[0], now[0]];
            batch.step(&slots, &both, None, None)
        } else {
            let ends = [0, now.len() as i32, 2 * now.len() as i32];
            let both = [now, now].concat();
            let marks = [u8::from(finished); 2];
            batch.step(&slots, &both, Some(&ends), Some(&marks))
        };
        let found = found.expect("the arrays fit");
        check(fuzzed, &found);
        text += found.iter().next().expect("the first stream");
        let ended = found.flags[0] & (flags::STOPPED | flags::FINISHED | flags::FAILED) > 0;
        assert!(ended || !finished, "a finished stream has ended");
        if ended {
            assert_eq!(batch.open_streams(), 0, "nothing is left");
            return text;
        }
        rest = later;
    }
}

/// What holds of each step.
fn check(fuzzed: &Fuzzed, found: &StreamTexts) {
    let texts: Vec<&str> = found.iter().collect();
    assert_eq!(texts.concat().as_bytes(), found.text, "parts are text");
    assert_eq!(texts[0], texts[1], "two streams of the same ids");
    assert_eq!(found.flags[0], found.flags[1]);
    assert_eq!(found.tokens[0], found.tokens[1]);
    if found.whole[0] != StreamTexts::MIXED {
        assert_eq!(fuzzed.texts.whole(found.whole[0]), Some(texts[0]));
    }
}
