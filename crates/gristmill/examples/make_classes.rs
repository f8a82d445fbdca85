//! Writes the file named by its argument, `src/split/classes_table.rs`, from the Unicode tables of `regex-syntax`.
//!
//! Every property the splitter knows becomes a mask; code points outside ASCII that agree in all of them share a kind, and
//! a two-stage table leads from a code point to its kind. The test in `classes.rs` compares each property over all code points.
#![allow(
    clippy::expect_used,
    clippy::panic,
    reason = "a generator stops at what it does not expect"
)]

use regex_syntax::hir::{Class, HirKind};
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// Names as they stand in patterns; `s` and `d` stand for `\s` and `\d`.
const PROPERTIES: &[&str] = &[
    "L", "Lu", "Ll", "Lt", "Lm", "Lo", "M", "N", "Nd", "P", "S", "Han", "s", "d",
];

/// Ranges outside ASCII that patterns spell out: DeepSeek's Chinese, hiragana and katakana.
const RANGES: &[(char, char)] = &[
    ('\u{4E00}', '\u{9FA5}'),
    ('\u{3040}', '\u{309F}'),
    ('\u{30A0}', '\u{30FF}'),
];

const BLOCK: usize = 64;
const CODE_POINTS: usize = 0x11_0000;

fn main() {
    let columns: Vec<Vec<bool>> = PROPERTIES
        .iter()
        .map(|name| members(&spelling(name)))
        .chain(
            RANGES
                .iter()
                .map(|(low, high)| members(&format!("[{low}-{high}]"))),
        )
        .collect();
    let mut kinds: BTreeMap<Vec<bool>, u8> = BTreeMap::new();
    let nothing = vec![false; columns.len()];
    kinds.insert(nothing, 0);
    let kind_of: Vec<u8> = (0..CODE_POINTS)
        .map(|code| {
            if code < 128 {
                return 0;
            }
            let row: Vec<bool> = columns.iter().map(|column| column[code]).collect();
            let next = kinds.len() as u8;
            *kinds.entry(row).or_insert(next)
        })
        .collect();
    assert!(kinds.len() <= 32, "{} kinds do not fit a u32", kinds.len());
    let path = std::env::args()
        .nth(1)
        .expect("the path of the file to write");
    std::fs::write(&path, table(&columns, &kinds, &kind_of)).expect("a file that can be written");
}

fn spelling(name: &str) -> String {
    match name {
        "s" | "d" => format!("\\{name}"),
        _ => format!("\\p{{{name}}}"),
    }
}

fn members(pattern: &str) -> Vec<bool> {
    let mut found = vec![false; CODE_POINTS];
    let parsed = regex_syntax::parse(pattern).expect("a class");
    let HirKind::Class(Class::Unicode(class)) = parsed.kind() else {
        panic!("{pattern} is not a class");
    };
    for range in class.iter() {
        found[range.start() as usize..=range.end() as usize].fill(true);
    }
    found
}

/// The newest version whose `\p{Age=..}` the crate knows.
fn unicode_version() -> String {
    let known = |version: &String| regex_syntax::parse(&format!("\\p{{Age={version}}}")).is_ok();
    (15..40)
        .flat_map(|major| [format!("{major}.0"), format!("{major}.1")])
        .rfind(known)
        .expect("a version")
}

fn table(columns: &[Vec<bool>], kinds: &BTreeMap<Vec<bool>, u8>, kind_of: &[u8]) -> String {
    // The table ends after the last letter; above it lie unassigned code points and one or two ranges, listed by themselves.
    let last_letter = (0..CODE_POINTS)
        .rev()
        .find(|&code| columns[0][code])
        .expect("letters");
    let end = (last_letter / BLOCK + 1) * BLOCK;
    let above = runs(kind_of, end);
    assert!(above.len() <= 4, "{above:?}");
    let mut blocks: Vec<&[u8]> = Vec::new();
    let mut pages = Vec::new();
    for block in kind_of[..end].chunks(BLOCK) {
        let known = blocks.iter().position(|other| *other == block);
        pages.push(known.unwrap_or(blocks.len()));
        if known.is_none() {
            blocks.push(block);
        }
    }

    let version = unicode_version();
    let mut out = String::new();
    let _ = writeln!(
        out,
        "//! Classes of code points of Unicode {version}, generated from `regex-syntax`, not edited.\n\
         //!\n\
         //! The data behind `classes.rs`, which says what it means and tests it over all code points. To make it again:\n\
         //! `cargo run --example make_classes src/split/classes_table.rs`.\n\
         \n\
         use super::classes::Set;\n"
    );
    let _ = writeln!(
        out,
        "/// The version of Unicode, as major and minor number.\n#[cfg(test)]"
    );
    let _ = writeln!(
        out,
        "pub(super) const UNICODE_VERSION: (u8, u8) = ({});\n",
        version.replace('.', ", ")
    );
    let _ = writeln!(
        out,
        "/// What `\\p{{name}}` holds; `s` and `d` are `\\s` and `\\d`."
    );
    let _ = writeln!(
        out,
        "#[rustfmt::skip]\npub(super) const PROPERTIES: [(&str, Set); {}] = [",
        PROPERTIES.len()
    );
    for (index, name) in PROPERTIES.iter().enumerate() {
        let (ascii, mask) = set(index, columns, kinds);
        let _ = writeln!(
            out,
            "    ({name:?}, Set {{ ascii: {ascii:#034x}, kinds: {mask:#010x} }}),"
        );
    }
    let _ = writeln!(
        out,
        "];\n\n/// Ranges outside ASCII, each with what it holds."
    );
    let _ = writeln!(
        out,
        "#[rustfmt::skip]\npub(super) const RANGES: [(char, char, Set); {}] = [",
        RANGES.len()
    );
    for (index, (low, high)) in RANGES.iter().enumerate() {
        let (ascii, mask) = set(PROPERTIES.len() + index, columns, kinds);
        let (low, high) = (low.escape_unicode(), high.escape_unicode());
        let _ = writeln!(
            out,
            "    ('{low}', '{high}', Set {{ ascii: {ascii}, kinds: {mask:#010x} }}),"
        );
    }
    let _ = writeln!(
        out,
        "];\n\n/// How many kinds there are.\npub(super) const KINDS: u8 = {};\n",
        kinds.len()
    );
    let _ = writeln!(
        out,
        "/// Code points past the end of `PAGES` with a kind other than 0: first, last, kind."
    );
    let _ = writeln!(
        out,
        "#[rustfmt::skip]\npub(super) const ABOVE: [(u32, u32, u8); {}] = [",
        above.len()
    );
    for (low, high, kind) in above {
        let _ = writeln!(out, "    (0x{low:X}, 0x{high:X}, {kind}),");
    }
    let _ = writeln!(out, "];\n");
    array(
        &mut out,
        "Which block of 64 code points stands at `code point / 64`.",
        "PAGES: &[u16",
        &pages,
    );
    out.push('\n');
    let kinds: Vec<usize> = blocks.concat().into_iter().map(usize::from).collect();
    array(
        &mut out,
        "The kinds of the distinct blocks, one block after the other.",
        "BLOCKS: &[u8",
        &kinds,
    );
    out
}

/// The runs of one kind other than 0 from `start` on.
fn runs(kind_of: &[u8], start: usize) -> Vec<(usize, usize, u8)> {
    let mut found: Vec<(usize, usize, u8)> = Vec::new();
    for (code, &kind) in kind_of
        .iter()
        .enumerate()
        .skip(start)
        .filter(|(_, kind)| **kind != 0)
    {
        match found.last_mut() {
            Some((_, high, same)) if *high + 1 == code && *same == kind => *high = code,
            _ => found.push((code, code, kind)),
        }
    }
    found
}

fn set(index: usize, columns: &[Vec<bool>], kinds: &BTreeMap<Vec<bool>, u8>) -> (u128, u32) {
    let ascii = (0..128)
        .filter(|&code| columns[index][code])
        .fold(0, |mask, code| mask | 1_u128 << code);
    let mask = kinds
        .iter()
        .filter(|(row, _)| row[index])
        .fold(0, |mask, (_, kind)| mask | 1_u32 << kind);
    (ascii, mask)
}

fn array(out: &mut String, meaning: &str, head: &str, values: &[usize]) {
    let _ = writeln!(
        out,
        "/// {meaning}\n#[rustfmt::skip]\npub(super) const {head}; {}] = &[",
        values.len()
    );
    for line in values.chunks(48) {
        let line: Vec<String> = line.iter().map(usize::to_string).collect();
        let _ = writeln!(out, "    {},", line.join(","));
    }
    let _ = writeln!(out, "];");
}
