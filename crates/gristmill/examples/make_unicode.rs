//! Writes the generated tables of `src/unicode`: `cargo run --example make_unicode`, then `cargo fmt`.
//!
//! The sources are the crates the reference implementation itself uses, so the tables carry their Unicode versions:
//! unicode-normalization-alignments 0.1.12 (Unicode 9.0) and unicode_categories 0.1.1 (Unicode 8.0).
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout
)]

use std::{collections::BTreeSet, fmt::Write, fs, path::Path};
use unicode_categories::UnicodeCategories;
use unicode_normalization_alignments::{
    UnicodeNormalization,
    char::{canonical_combining_class, decompose_canonical},
};

fn main() -> std::io::Result<()> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/unicode");
    fs::write(folder.join("normal_forms_table.rs"), normal_forms())?;
    fs::write(folder.join("categories_table.rs"), categories())
}

/// Characters that can be the second half of a composition.
fn combining_seconds() -> BTreeSet<char> {
    let mut seconds: BTreeSet<char> = ('\u{1161}'..='\u{1175}')
        .chain('\u{11A8}'..='\u{11C2}')
        .collect();
    for character in '\0'..=char::MAX {
        let mut parts = Vec::new();
        decompose_canonical(character, |part| parts.push(part));
        if parts.len() > 1 {
            seconds.extend(parts.last());
        }
    }
    seconds
}

fn roles(character: char, seconds: &BTreeSet<char>) -> u8 {
    let text = character.to_string();
    let forms: [Vec<(char, isize)>; 4] = [
        text.nfc().collect(),
        text.nfd().collect(),
        text.nfkc().collect(),
        text.nfkd().collect(),
    ];
    let mut bits = 0;
    for (number, form) in forms.iter().enumerate() {
        let first = forms[number | 1][0].0;
        let composes = number % 2 == 0
            && (seconds.contains(&first)
                || (first != character && canonical_combining_class(first) != 0));
        let role = if *form != [(character, 0)] || composes {
            2
        } else {
            u8::from(canonical_combining_class(character) != 0)
        };
        bits |= role << (2 * number);
    }
    bits
}

fn normal_forms() -> String {
    let seconds = combining_seconds();
    let mut flat = vec![0; 0x11_0000];
    for character in '\0'..=char::MAX {
        flat[character as usize] = roles(character, &seconds);
    }
    let end = flat
        .iter()
        .rposition(|bits| *bits != 0)
        .map_or(0, |last| last + 1);
    let values: Vec<u8> = flat
        .iter()
        .copied()
        .collect::<BTreeSet<_>>()
        .into_iter()
        .collect();
    assert!(values.len() <= 8);
    let mut runs = Vec::new();
    for code in 0..end {
        if code == 0 || flat[code] != flat[code - 1] {
            let value = values
                .iter()
                .position(|value| *value == flat[code])
                .unwrap();
            runs.push(code << 3 | value);
        }
    }
    let mut out = header("unicode-normalization-alignments 0.1.12", "9.0");
    writeln!(
        out,
        "/// Roles are 0 beyond this code.\npub(crate) const END: usize = {end:#X};"
    )
    .unwrap();
    writeln!(
        out,
        "/// Distinct roles: two bits each for NFC, NFD, NFKC, NFKD, lowest first."
    )
    .unwrap();
    writeln!(
        out,
        "pub(crate) static VALUES: [u8; {}] = {values:?};",
        values.len()
    )
    .unwrap();
    writeln!(out, "/// First code of each run of equal roles, shifted left by three, and the number of its value.").unwrap();
    writeln!(
        out,
        "#[rustfmt::skip]\npub(crate) static RUNS: [u32; {}] = [",
        runs.len()
    )
    .unwrap();
    numbers(&mut out, &runs);
    out
}

/// A table's name, what it holds, and whether a character is in it.
type Category = (&'static str, &'static str, fn(char) -> bool);

fn categories() -> String {
    let mut out = header("unicode_categories 0.1.1", "8.0");
    let sets: [Category; 3] = [
        ("NONSPACING_MARKS", "General category Mn", |character| {
            character.is_mark_nonspacing()
        }),
        (
            "PUNCTUATION",
            "General categories Pc, Pd, Ps, Pe, Pi, Pf and Po",
            |character| character.is_punctuation(),
        ),
        ("OTHERS", "General categories Cc, Cf and Co", |character| {
            character.is_other()
        }),
    ];
    for (name, what, holds) in sets {
        let mut bounds = Vec::new();
        for code in 0..=0x11_0000_usize {
            let holds_at = |code: usize| {
                u32::try_from(code)
                    .ok()
                    .and_then(char::from_u32)
                    .is_some_and(holds)
            };
            if holds_at(code) != (code > 0 && holds_at(code - 1)) {
                bounds.push(code);
            }
        }
        writeln!(
            out,
            "/// {what}: codes where membership starts and stops, in turn."
        )
        .unwrap();
        writeln!(
            out,
            "#[rustfmt::skip]\npub(crate) static {name}: [u32; {}] = [",
            bounds.len()
        )
        .unwrap();
        numbers(&mut out, &bounds);
    }
    out
}

fn header(source: &str, version: &str) -> String {
    format!(
        "//! Generated by examples/make_unicode.rs from {source}: Unicode {version}. Do not edit.\n//!\n\
         //! Invariant: sorted. Tested by the module that reads it.\n\n"
    )
}

fn numbers(out: &mut String, values: &[usize]) {
    for line in values.chunks(14) {
        let line: Vec<String> = line.iter().map(ToString::to_string).collect();
        writeln!(out, "    {},", line.join(", ")).unwrap();
    }
    out.push_str("];\n");
}
