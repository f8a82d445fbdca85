//! What holds whenever a tokenizer encodes a text, whatever file it came from.

use std::collections::BTreeSet;

use gristmill::{Offset, Special, Tokenizer, Unit};

/// The policy that takes every other special token.
pub fn only_some(tokenizer: &Tokenizer, odd: bool) -> Special {
    let names = tokenizer.special_tokens().into_keys().enumerate();
    let chosen = names.filter(|(at, _)| (at % 2 == 1) == odd);
    Special::Only(
        chosen
            .map(|(_, name)| name.to_owned())
            .collect::<BTreeSet<_>>(),
    )
}

/// Check all ways to encode a text against each other. The ids, without those of a template; `None`
/// if the text is refused.
pub fn check_text(tokenizer: &Tokenizer, text: &str, special: &Special) -> Option<Vec<u32>> {
    let Ok(ids) = tokenizer.encode(text, special) else {
        assert!(tokenizer.encode(text, special).is_err(), "refused once");
        assert!(tokenizer.count(text, special, false).is_err(), "counted");
        assert!(tokenizer.truncate(text, 1, special).is_err(), "truncated");
        let placed = tokenizer.encode_with_offsets(text, special, false, Unit::Bytes);
        assert!(placed.is_err(), "placed");
        return None;
    };
    let again = tokenizer.encode(text, special);
    assert_eq!(again.ok().as_ref(), Some(&ids), "the second time");
    for add_special_tokens in [false, true] {
        check_wrapped(tokenizer, text, special, add_special_tokens);
    }
    check_offsets(tokenizer, text, special, &ids);
    check_truncate(tokenizer, text, special);
    Some(ids)
}

fn check_wrapped(tokenizer: &Tokenizer, text: &str, special: &Special, add: bool) {
    let mut ids = vec![7];
    tokenizer
        .encode_into(text, special, add, &mut ids)
        .expect("what encodes can be appended");
    assert_eq!(ids.first(), Some(&7), "what was there stays");
    let count = tokenizer.count(text, special, add).expect("it encodes");
    assert_eq!(count + 1, ids.len(), "the count");
    let (placed, offsets) = tokenizer
        .encode_with_offsets(text, special, add, Unit::Chars)
        .expect("it encodes");
    assert_eq!(placed, ids[1..], "the ids with offsets");
    assert_eq!(offsets.len(), placed.len(), "one place for each token");
}

fn check_offsets(tokenizer: &Tokenizer, text: &str, special: &Special, ids: &[u32]) {
    let offsets = |unit| {
        tokenizer
            .encode_with_offsets(text, special, false, unit)
            .expect("it encodes")
    };
    let (placed, bytes) = offsets(Unit::Bytes);
    assert_eq!(placed, ids, "the ids with offsets");
    let (_, chars) = offsets(Unit::Chars);
    assert_eq!(bytes.len(), chars.len(), "both units");
    for (byte, char) in bytes.iter().zip(&chars) {
        assert!(byte.start <= byte.end, "{byte:?}");
        let counted = |at| text.get(..at).map(|before| before.chars().count());
        let expected = (counted(byte.start), counted(byte.end));
        assert_eq!((Some(char.start), Some(char.end)), expected, "{byte:?}");
    }
}

fn check_truncate(tokenizer: &Tokenizer, text: &str, special: &Special) {
    let cut = |most| tokenizer.truncate(text, most, special).expect("it encodes");
    assert_eq!(cut(usize::MAX), text.len(), "room for all");
    let mut before = 0;
    for most in [0, 1, 2, 3, 5, 8, 100] {
        let end = cut(most);
        assert!(text.is_char_boundary(end), "{end} is inside a character");
        assert!(before <= end, "{most} tokens end before fewer tokens do");
        before = end;
    }
}

/// The tokenizer as it is read again from what it writes, which must be the same.
pub fn read_again(tokenizer: &Tokenizer) -> Tokenizer {
    let written = tokenizer.to_bytes().expect("what was read can be written");
    let again = Tokenizer::from_bytes(&written, &tokenizer.options());
    let again = again.expect("what was written can be read");
    assert_eq!(tokenizer.info().to_json(), again.info().to_json());
    assert_eq!(tokenizer.vocab_size(), again.vocab_size());
    assert_eq!(tokenizer.special_tokens(), again.special_tokens());
    again
}

/// Check a text as [`check_text`] does, and that the tokenizer read again gives the same ids and the
/// same text for them.
pub fn check_both(tokenizer: &Tokenizer, again: &Tokenizer, text: &str, special: &Special) {
    let ids = check_text(tokenizer, text, special);
    assert_eq!(ids, again.encode(text, special).ok(), "read again");
    let Some(ids) = ids else { return };
    for skip in [false, true] {
        let text = tokenizer.decode_with(&ids, skip).ok();
        assert_eq!(text, again.decode_with(&ids, skip).ok());
        let bytes = tokenizer.decode_bytes(&ids, skip).ok();
        assert_eq!(bytes, again.decode_bytes(&ids, skip).ok());
    }
}

/// Each place starts where the one before ends or shares its character with it: nothing is skipped.
pub fn check_tiles(text: &str, offsets: &[Offset]) {
    let mut done = 0;
    for place in offsets {
        assert!(place.start <= done, "a gap before {place:?}");
        assert!(place.end >= done, "back to {place:?}");
        done = place.end;
    }
    assert_eq!(done, text.len(), "the text ends");
}
