//! Whatever the size of blocks and units, the same records: hostile bytes, cut in every way.

use std::path::Path;

use proptest::prelude::*;

use super::*;
use crate::{OnError, Read, Surrogates, Unit};

fn read(separator: Option<&str>, max_document: u64) -> Read {
    Read {
        field: "a".to_owned(),
        separator: separator.map(str::to_owned),
        max_document,
        on_error: OnError::Skip,
        surrogates: Surrogates::Error,
        keep_empty: true,
    }
}

/// Each record: where it begins, and its text or why it is bad.
type Found = Vec<(u64, Result<String, Reason>)>;

/// The records of a file, in units of about `unit` bytes and blocks of about `block` bytes.
fn records(path: &Path, format: &str, read: &Read, unit: u64, block: usize) -> Found {
    let input = inspect(path, Some(format), read.separator.as_deref(), unit).unwrap();
    let units: Vec<Unit> = input
        .units
        .iter()
        .map(|range| Unit {
            path: path.to_owned(),
            format: format.to_owned(),
            compression: "none".to_owned(),
            start: range.start,
            end: range.end,
            size: input.size,
            modified: input.modified,
        })
        .collect();
    let mut source = Source::new(&units, read, block);
    let mut parser = Parser::new(read).unwrap();
    let mut found = Vec::new();
    let mut room = Block::default();
    while source.next(&mut room).unwrap() {
        parser.take_apart(&mut room);
        for record in &room.records {
            let text = || String::from_utf8(room.bytes[record.range()].to_vec()).unwrap();
            let what = record.bad.map_or_else(|| Ok(text()), Err);
            found.push((room.offset + u64::from(record.at), what));
        }
    }
    found
}

/// Bytes of which anything may be a separator, or a quote, or the beginning of one.
fn hostile() -> impl Strategy<Value = Vec<u8>> {
    let parts: Vec<&[u8]> = vec![
        b"\n",
        b"\r",
        b"\r\n",
        b"a",
        b"b",
        b"aab",
        b",",
        b"\"",
        b"\"\"",
        b"\xff",
        b" ",
        b"\n\n",
        b"{\"a\": \"x\\n\"}\n",
        b"a,b\n",
        "é".as_bytes(),
        b"\xef\xbb\xbf",
        b"longer than that",
    ];
    prop::collection::vec(prop::sample::select(parts), 0..40).prop_map(|parts| parts.concat())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]
    #[test]
    fn blocks_and_units_change_nothing(
        bytes in hostile(), block in 1usize..40, unit in 1u64..60, longest in 1u64..40
    ) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        std::fs::write(&path, &bytes).unwrap();
        for separator in [None, Some("\n"), Some("\r\n"), Some("\n\n"), Some("aab"), Some("é")] {
            let read = read(separator, longest);
            let whole = records(&path, "txt", &read, u64::MAX, 1 << 20);
            prop_assert_eq!(&records(&path, "txt", &read, unit, block), &whole, "{:?}", separator);
        }
        let read = read(None, longest);
        let whole = records(&path, "jsonl", &read, u64::MAX, 1 << 20);
        prop_assert_eq!(&records(&path, "jsonl", &read, unit, block), &whole);
        // The line of names is as long.
        let read = Read { max_document: longest.max(3), ..read };
        let table = [b"x,a\n".as_slice(), bytes.as_slice()].concat();
        std::fs::write(&path, &table).unwrap();
        let whole = records(&path, "csv", &read, u64::MAX, 1 << 20);
        prop_assert_eq!(&records(&path, "csv", &read, unit, block), &whole);
    }
}

#[test]
fn the_first_record_of_a_unit_is_the_first_that_begins_in_it() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("file");
    std::fs::write(&path, "one\ntwo\nthree\nfour").unwrap();
    let read = read(Some("\n"), 100);
    let found = records(&path, "txt", &read, 4, 100);
    let texts: Vec<_> = found
        .into_iter()
        .map(|(at, text)| (at, text.unwrap()))
        .collect();
    let wanted = [(0, "one"), (4, "two"), (8, "three"), (14, "four")];
    assert_eq!(texts, wanted.map(|(at, text)| (at, text.to_owned())));
}

#[test]
fn a_mark_at_the_beginning_belongs_to_no_record_and_to_the_first_unit() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("file");
    let read = read(Some("\n"), 1);
    for text in [
        "\u{feff}a",
        "\u{feff}a\nb\n",
        "\u{feff}\na",
        "\u{feff}ab\nc",
        "\u{feff}",
    ] {
        std::fs::write(&path, text).unwrap();
        let whole = records(&path, "txt", &read, u64::MAX, 1 << 20);
        assert_eq!(whole.len(), text[3..].lines().count());
        for unit in 1..9 {
            for block in 1..9 {
                let found = records(&path, "txt", &read, unit, block);
                assert_eq!(found, whole, "{text:?} {unit} {block}");
            }
        }
    }
}
