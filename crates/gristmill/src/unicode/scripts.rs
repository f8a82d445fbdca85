//! Scripts of characters as the pre-tokenizer `UnicodeScripts` of `tokenizers` sees them: Unicode 9.0, with changes.
//!
//! Invariant: the pieces of a text follow each other without a gap and end where it ends; what stands before the first
//! has no script and is in no piece. Tested by a checksum over every scalar value and by hand-picked texts; the table is
//! tested against `tokenizers` when it is made.

#[path = "scripts_table.rs"]
mod table;

use std::ops::Range;

/// The script of a character. Kana counts as Han.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Script(u8);

impl Script {
    /// No script of its own: the space and what was unassigned in Unicode 9.0. It goes on with any other.
    pub(crate) const ANY: Self = Self(0);
    const COMMON: Self = Self(1);
    const LATIN: Self = Self(2);
    const INHERITED: Self = Self(4);
}

/// The script of `character` as SentencePiece's trainer sees it: the same table, but what has no script
/// is common, and what takes on the script before it goes on with any other.
pub(crate) fn sentencepiece_script(character: char) -> Script {
    match script_of(character) {
        Script::ANY => Script::COMMON,
        Script::INHERITED => Script::ANY,
        script => script,
    }
}

/// The script of `character`.
#[inline]
pub(crate) fn script_of(character: char) -> Script {
    match character {
        ' ' => Script::ANY,
        'a'..='z' | 'A'..='Z' => Script::LATIN,
        '\0'..='\x7f' => Script::COMMON,
        _ => Script(look_up(character as u32)),
    }
}

fn look_up(code: u32) -> u8 {
    let after = table::RUNS.partition_point(|run| run >> 8 <= code);
    // The script is the low byte of a run.
    let run = after.checked_sub(1).and_then(|at| table::RUNS.get(at));
    run.map_or(Script::ANY.0, |run| run.to_le_bytes()[0])
}

/// The pieces of `text`, cut before each character whose script differs from the last one seen; as the reference does,
/// without what stands before the first script.
pub(crate) fn script_pieces(text: &str) -> impl Iterator<Item = Range<usize>> {
    let mut starts = script_starts(text);
    let mut next = starts.next();
    std::iter::from_fn(move || {
        let start = next?;
        next = starts.next();
        Some(start..next.unwrap_or(text.len()))
    })
}

/// Where pieces start. Spaces and unassigned characters at the end of a piece belong to it.
fn script_starts(text: &str) -> impl Iterator<Item = usize> {
    let mut last = Script::ANY;
    text.char_indices().filter_map(move |(at, character)| {
        let script = script_of(character);
        let starts = script != Script::ANY && script != last;
        if starts {
            last = script;
        }
        starts.then_some(at)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pieces(text: &str) -> Vec<&str> {
        script_pieces(text).map(|range| &text[range]).collect()
    }

    #[test]
    fn marks_take_on_the_script_before_them() {
        assert_eq!(sentencepiece_script('\u{301}'), Script::ANY);
        assert_eq!(sentencepiece_script('\u{378}'), Script::COMMON);
        assert_eq!(sentencepiece_script('ー'), sentencepiece_script('漢'));
    }

    #[test]
    fn pieces_as_the_reference_cuts_them() {
        assert_eq!(pieces("どこで生れ。Yes"), ["どこで生れ", "。", "Yes"]);
        assert_eq!(
            pieces("Apples are りんご 林檎"),
            ["Apples are ", "りんご 林檎"]
        );
        assert_eq!(pieces("コーヒー, 2 cups "), ["コーヒー", ", 2 ", "cups "]);
        // A combining mark has the script Inherited, which is not that of its base.
        assert_eq!(pieces("e\u{301}e"), ["e", "\u{301}", "e"]);
        // Other white space than U+0020 is Common, a code that was unassigned is like a space.
        assert_eq!(pieces("a\tb\u{a0}c"), ["a", "\t", "b", "\u{a0}", "c"]);
        assert_eq!(
            pieces("a\u{378} \u{10ffff}b1"),
            ["a\u{378} \u{10ffff}b", "1"]
        );
    }

    #[test]
    fn nothing_before_the_first_script() {
        assert_eq!(pieces("  \u{378}a "), ["a "]);
        assert!(pieces("").is_empty());
        assert!(pieces(" \u{e000} ").is_empty());
    }

    #[test]
    fn kana_is_han() {
        let han = script_of('京');
        for character in "太いグー・ｶﾞﾞ゛".chars() {
            let expected = !"・ﾞ゛".contains(character);
            assert_eq!(script_of(character) == han, expected, "{character:?}");
        }
    }

    #[test]
    fn every_scalar_has_the_script_of_the_reference() {
        assert!(table::RUNS.is_sorted());
        assert_eq!(table::RUNS[0] >> 8, 0);
        // FNV-1a over the scripts of all scalar values, each script numbered when it first appears.
        let mut hash = 0xcbf2_9ce4_8422_2325_u64;
        let mut scripts = 0;
        for character in '\0'..=char::MAX {
            let script = script_of(character);
            assert_eq!(script.0, look_up(character as u32), "{character:?}");
            assert!(script.0 <= scripts + 1, "{character:?}");
            scripts = scripts.max(script.0);
            hash = (hash ^ u64::from(script.0)).wrapping_mul(0x0100_0000_01b3);
        }
        assert_eq!((scripts, hash), (table::SCRIPTS, 0x4884_e023_dc17_1066));
    }
}
