//! The vocabulary and the merges of a tokenizer.json, read at the speed of the hardware.
//!
//! These two lists are nearly all of such a file. They are found and read here, by one walk over its
//! bytes, and the file without them is left to the reader of any JSON. Whatever is not plain (another
//! shape, a strange escape, a number that is no id, an error of any kind) makes the walk give up, and
//! then the whole file is that reader's: so what is taken here is valid JSON, and says the same to
//! both. Tested by comparing the two, on files that are changed at random.

use crate::memory::prefer_large_pages;

use super::file::{List, halves, is_comment};

/// A string of the file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Span {
    /// Where it is in the file, or, with [`KEPT`], in the strings that are kept.
    start: u32,
    length: u32,
}

/// Set in the start of a string that is kept, since it is not in the file as it is meant.
const KEPT: u32 = 1 << 31;

/// Strings that are not in the file as they are meant.
#[derive(Default)]
pub(super) struct Strings(String);

impl Strings {
    /// A string that is kept; None if they are too many.
    pub(super) fn keep(&mut self, text: &str) -> Option<Span> {
        let start = self.0.len();
        self.0.push_str(text);
        self.kept_since(start)
    }

    fn kept_since(&self, start: usize) -> Option<Span> {
        let end = u32::try_from(self.0.len()).ok().filter(|end| end < &KEPT)?;
        Some(Span {
            start: start as u32 | KEPT,
            length: end - start as u32,
        })
    }

    /// The string that `span` is in `file`.
    #[inline]
    pub(super) fn get<'a>(&'a self, file: &'a str, span: Span) -> &'a str {
        let text = if span.start & KEPT == 0 {
            file
        } else {
            &self.0
        };
        let start = (span.start & !KEPT) as usize;
        text.get(start..start + span.length as usize)
            .unwrap_or_default()
    }
}

/// Few entries of a list are shorter, in bytes.
const SHORTEST: usize = 12;

/// The lists of a file, and the file with empty ones instead.
pub(super) struct Found {
    pub(super) tokens: Option<List<(Span, u32)>>,
    pub(super) merges: Option<List<(Span, Span)>>,
    pub(super) rest: String,
}

/// Find and read the lists; None if the file is not plain.
pub(super) fn lists(text: &str) -> Option<Found> {
    if text.len() >= KEPT as usize {
        return None;
    }
    let mut scan = Scan {
        file: text,
        text: text.as_bytes(),
        at: 0,
    };
    let mut found = Found {
        tokens: None,
        merges: None,
        rest: String::new(),
    };
    scan.open(b'{')?;
    while scan.key()? != "model" {
        scan.skip()?;
        scan.expect(b',')?;
    }
    scan.open(b'{')?;
    let mut done = 0;
    loop {
        let key = scan.key()?;
        let start = scan.at;
        match (key, scan.text.get(start)?) {
            ("vocab", b'{') if found.tokens.is_none() => {
                found.tokens = Some(scan.tokens()?);
                found.rest += &text[done..start];
                found.rest += "{}";
                done = scan.at;
            }
            ("merges", b'[') if found.merges.is_none() => {
                found.merges = Some(scan.merges()?);
                found.rest += &text[done..start];
                found.rest += "[]";
                done = scan.at;
            }
            _ => scan.skip()?,
        }
        let both = found.tokens.is_some() && found.merges.is_some();
        scan.space();
        if both || scan.byte()? == b'}' {
            found.rest += &text[done..];
            return Some(found);
        }
        scan.expect(b',')?;
    }
}

/// A walk over the bytes of a file. Every step gives None if what it expects is not there.
struct Scan<'a> {
    file: &'a str,
    text: &'a [u8],
    at: usize,
}

impl<'a> Scan<'a> {
    fn byte(&self) -> Option<u8> {
        self.text.get(self.at).copied()
    }

    /// Go on to what is no white space.
    #[inline(always)]
    fn space(&mut self) {
        while let Some(b' ' | b'\n' | b'\r' | b'\t') = self.byte() {
            self.at += 1;
            while self.text[self.at..].first_chunk() == Some(b"    ") {
                self.at += 4;
            }
        }
    }

    /// This byte, after white space.
    #[inline(always)]
    fn expect(&mut self, byte: u8) -> Option<()> {
        self.space();
        self.open(byte)
    }

    /// This byte, and white space on both sides of it.
    #[inline(always)]
    fn open(&mut self, byte: u8) -> Option<()> {
        self.space();
        if self.byte()? != byte {
            return None;
        }
        self.at += 1;
        self.space();
        Some(())
    }

    /// The name of a field, and what stands between it and its value.
    fn key(&mut self) -> Option<&'a str> {
        self.space();
        let (start, end) = self.plain()?;
        if self.byte()? != b'"' {
            return None;
        }
        self.at += 1;
        self.open(b':')?;
        self.file.get(start..end)
    }

    /// From a quote to the next quote or backslash: where what lies between starts and ends.
    #[inline(always)]
    fn plain(&mut self) -> Option<(usize, usize)> {
        if self.byte()? != b'"' {
            return None;
        }
        self.at += 1;
        let start = self.at;
        self.find_special()?;
        Some((start, self.at))
    }

    /// Go on to the next quote or backslash. There must be no control character before it.
    #[inline(always)]
    fn find_special(&mut self) -> Option<()> {
        const ONES: u64 = u64::from_ne_bytes([1; 8]);
        const HIGH: u64 = ONES << 7;
        while let Some(&bytes) = self.text[self.at..].first_chunk() {
            let word = u64::from_le_bytes(bytes);
            // The lowest bit that is set is right; those above it may not be.
            let below = |limit: u64, word: u64| word.wrapping_sub(ONES * limit) & !word & HIGH;
            let quote = below(1, word ^ (ONES * u64::from(b'"')));
            let backslash = below(1, word ^ (ONES * u64::from(b'\\')));
            let special = quote | backslash | below(0x20, word);
            if special != 0 {
                self.at += special.trailing_zeros() as usize / 8;
                return (self.byte()? >= 0x20).then_some(());
            }
            self.at += 8;
        }
        loop {
            match self.byte()? {
                b'"' | b'\\' => return Some(()),
                0..0x20 => return None,
                _ => self.at += 1,
            }
        }
    }

    /// A string.
    #[inline(always)]
    fn string(&mut self, strings: &mut Strings) -> Option<Span> {
        let (start, end) = self.plain()?;
        if self.byte()? == b'"' {
            self.at += 1;
            // The file is shorter than KEPT.
            return Some(Span {
                start: start as u32,
                length: (end - start) as u32,
            });
        }
        self.escaped(start, strings)
    }

    /// A string that starts at `start` and has an escape here.
    fn escaped(&mut self, mut start: usize, strings: &mut Strings) -> Option<Span> {
        let kept = strings.0.len();
        loop {
            strings.0 += self.file.get(start..self.at)?;
            self.at += 1;
            if self.text.get(self.at - 1)? == &b'"' {
                return strings.kept_since(kept);
            }
            strings.0.push(self.escape()?);
            start = self.at;
            self.find_special()?;
        }
    }

    /// What stands behind a backslash.
    fn escape(&mut self) -> Option<char> {
        let kind = self.byte()?;
        self.at += 1;
        Some(match kind {
            b'"' | b'\\' | b'/' => kind.into(),
            b'b' => '\u{8}',
            b'f' => '\u{c}',
            b'n' => '\n',
            b'r' => '\r',
            b't' => '\t',
            b'u' => {
                let unit = self.unit()?;
                if !(0xD800..0xDC00).contains(&unit) {
                    return char::from_u32(unit);
                }
                if self.text.get(self.at..self.at + 2)? != b"\\u" {
                    return None;
                }
                self.at += 2;
                let low = self
                    .unit()?
                    .checked_sub(0xDC00)
                    .filter(|low| *low < 0x400)?;
                char::from_u32(0x1_0000 + ((unit - 0xD800) << 10 | low))?
            }
            _ => return None,
        })
    }

    /// Four hexadecimal digits.
    fn unit(&mut self) -> Option<u32> {
        let digits = self.text.get(self.at..self.at + 4)?;
        self.at += 4;
        digits.iter().try_fold(0, |unit, &digit| {
            Some(unit << 4 | char::from(digit).to_digit(16)?)
        })
    }

    /// A number that may be an id.
    #[inline(always)]
    fn number(&mut self) -> Option<u32> {
        let start = self.at;
        let mut number = 0u64;
        while let Some(digit @ b'0'..=b'9') = self.byte() {
            number = number * 10 + u64::from(digit - b'0');
            self.at += 1;
            if self.at - start > 10 {
                return None;
            }
        }
        let zeros = self.text.get(start)? == &b'0' && self.at > start + 1;
        if self.at == start || zeros {
            return None;
        }
        u32::try_from(number).ok()
    }

    /// Whether a list goes on; it ends with `end`.
    #[inline(always)]
    fn more(&mut self, end: u8) -> Option<bool> {
        self.space();
        let byte = self.byte()?;
        self.at += 1;
        if byte == b',' {
            self.space();
            return Some(true);
        }
        (byte == end).then_some(false)
    }

    /// A list with room for what may be there: what is not used costs nothing.
    fn list<T>(&self) -> List<T> {
        let mut entries = Vec::with_capacity((self.text.len() - self.at) / SHORTEST);
        prefer_large_pages(entries.spare_capacity_mut());
        List {
            entries,
            strings: Strings::default(),
        }
    }

    /// The vocabulary.
    fn tokens(&mut self) -> Option<List<(Span, u32)>> {
        let mut tokens = self.list();
        self.open(b'{')?;
        if self.byte()? == b'}' {
            self.at += 1;
            return Some(tokens);
        }
        loop {
            let token = self.string(&mut tokens.strings)?;
            self.open(b':')?;
            tokens.entries.push((token, self.number()?));
            if !self.more(b'}')? {
                return Some(tokens);
            }
        }
    }

    /// The merges.
    fn merges(&mut self) -> Option<List<(Span, Span)>> {
        let mut merges = self.list();
        self.open(b'[')?;
        if self.byte()? == b']' {
            self.at += 1;
            return Some(merges);
        }
        loop {
            let pair = if self.byte()? == b'[' {
                self.open(b'[')?;
                let left = self.string(&mut merges.strings)?;
                self.open(b',')?;
                let right = self.string(&mut merges.strings)?;
                self.expect(b']')?;
                Some((left, right))
            } else {
                self.joined(&mut merges.strings)?
            };
            merges.entries.extend(pair);
            if !self.more(b']')? {
                return Some(merges);
            }
        }
    }

    /// A merge in one string, or a comment.
    #[inline(always)]
    fn joined(&mut self, strings: &mut Strings) -> Option<Option<(Span, Span)>> {
        let line = self.string(strings)?;
        let text = strings.get(self.file, line);
        if is_comment(text) {
            return Some(None);
        }
        let (left, right) = halves(text)?;
        let left = Span {
            start: line.start,
            length: left.len() as u32,
        };
        let right = Span {
            start: line.start + left.length + 1,
            length: right.len() as u32,
        };
        Some(Some((left, right)))
    }

    /// Go on behind a value of any kind, which the reader of any JSON will check.
    fn skip(&mut self) -> Option<()> {
        let mut depth = 0;
        loop {
            match self.byte()? {
                b'"' => self.skip_string()?,
                b'{' | b'[' => {
                    depth += 1;
                    self.at += 1;
                }
                b'}' | b']' if depth == 0 => return Some(()),
                b'}' | b']' => {
                    depth -= 1;
                    self.at += 1;
                }
                b',' if depth == 0 => return Some(()),
                _ => self.at += 1,
            }
        }
    }

    fn skip_string(&mut self) -> Option<()> {
        self.at += 1;
        loop {
            self.find_special()?;
            self.at += 1;
            if self.text[self.at - 1] == b'"' {
                return Some(());
            }
            // Whatever is escaped.
            self.at += 1;
            self.text.get(self.at)?;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::file::{File, Tokens, read_scanned};
    use proptest::prelude::*;

    const FILE: &str = r##"{ "version": "1.0", "added_tokens": [], "normalizer": {"type": "N\"{[", "a": [1, {}]},
      "model" : {"type": "BPE", "unk_token": "<\u003c}", "fuse_unk": true,
        "vocab": {"a":0, "b" : 1,"\u0120\u00e9\"": 12, "\\\/\b\f\n\r\t": 4294967295, "\ud83c\udfed": 3,
           "eight or more characters, é中🏭 among them": 1234567 , "":5},
        "merges": ["#version: 0.2", "a b", "\u0120 b\\", "🏭🏭🏭 中中中" , ["a","b"], [ "c d" , "\n" ],
           ["",""]], "ignore_merges": false}, "decoder": null}"##;

    type Entries = (Option<Vec<(String, u32)>>, Option<Vec<(String, String)>>);

    /// What a file says, but for what no one reads here.
    fn said(text: &str, file: &File) -> (Entries, String) {
        let tokens = match &file.model.vocab {
            Some(Tokens::Ids(list)) => {
                let name = |span| list.strings.get(text, span).to_owned();
                let entries = list.entries.iter();
                Some(entries.map(|&(span, id)| (name(span), id)).collect())
            }
            _ => None,
        };
        let merges = file.model.merges.as_ref().map(|list| {
            let name = |span| list.strings.get(text, span).to_owned();
            let entries = list.entries.iter();
            entries
                .map(|&(left, right)| (name(left), name(right)))
                .collect()
        });
        let model = &file.model;
        let rest = format!(
            "{:?} {:?} {} {} {:?} {:?} {:?}",
            file.version,
            file.added_tokens,
            file.normalizer,
            model.kind(),
            model.unk_token,
            model.fuse_unk,
            model.ignore_merges
        );
        ((tokens, merges), rest)
    }

    /// Whether the walk takes the file; if it does, both readers have to say the same.
    fn is_scanned(text: &str) -> bool {
        let Some(scanned) = read_scanned(text) else {
            return false;
        };
        let file: File = serde_json::from_str(text).unwrap();
        assert_eq!(said(text, &scanned), said(text, &file), "{text}");
        true
    }

    #[test]
    fn plain_files_are_scanned() {
        assert!(is_scanned(FILE));
        assert!(is_scanned(r#"{"model":{"vocab":{},"merges":[]}}"#));
        assert!(is_scanned(
            r#"{"model":{"merges":[],"vocab":{}}, "version": "2"}"#
        ));
        assert!(is_scanned(r#"{"model":{"merges":["a b"]}}"#));
    }

    #[test]
    fn what_is_strange_is_left_to_the_other() {
        for (from, to) in [
            ("\"a\":0", "\"a\":-0"),
            ("\"a\":0", "\"a\":00"),
            ("\"a\":0", "\"a\":1.0"),
            ("\"a\":0", "\"a\":1e0"),
            ("\"a\":0", "\"a\":4294967296"),
            ("\"a\":0", "\"a\":99999999999999999999999"),
            ("\"a\":0", "\"a\":0,"),
            ("\"a\":0", "\"a\n\":0"),
            ("\\ud83c\\udfed", "\\ud83c"),
            ("\\ud83c\\udfed", "\\udfed"),
            ("\\ud83c\\udfed", "\\ud83c\\ud83c"),
            ("\\ud83c\\udfed", "\\ud83c\\n"),
            ("\\ud83c\\udfed", "\\x"),
            ("a b", "a b c"),
            ("a b", "ab"),
            ("[\"a\",\"b\"]", "[\"a\",\"b\",\"c\"]"),
            ("[\"a\",\"b\"]", "[\"a\"]"),
            ("\"decoder\": null}", "\"decoder\": null"),
            ("\"decoder\": null}", "\"decoder\": null}}"),
            ("\"decoder\": null}", "\"model\": {}}"),
            ("\"ignore_merges\": false", "\"merges\": []"),
            ("\"ignore_merges\": false", "\"voc\\u0061b\": {}"),
            ("{\"type\": \"N", "{]\"type\": \"N"),
        ] {
            let text = FILE.replacen(from, to, 1);
            assert_ne!(text, FILE);
            assert!(!is_scanned(&text), "{to}");
            assert!(serde_json::from_str::<File>(&text).is_err(), "{to}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(3000))]

        #[test]
        fn both_readers_agree(
            changes in proptest::collection::vec(
                (0usize..2000, 0usize..4, "[\"\\\\{}\\[\\],:0-9 \n\u{1}eu.Ġ-]{0,3}"),
                0..4,
            ),
        ) {
            let mut chars: Vec<char> = FILE.chars().collect();
            for (at, length, new) in changes {
                let at = at % chars.len();
                let end = (at + length).min(chars.len());
                chars.splice(at..end, new.chars());
            }
            is_scanned(&chars.into_iter().collect::<String>());
        }
    }
}
