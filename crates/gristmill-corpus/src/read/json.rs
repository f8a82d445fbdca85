//! The text in a line of JSON.
//!
//! A line is read whole, once, and is good or bad as Python's `json.loads` finds it: NaN and Infinity are
//! numbers, the last of several equal keys counts, control characters in strings are errors. Nothing is
//! built but the text itself, whose escapes are undone where they stand, because they only get shorter.
//! No nesting is too deep: what is open is a stack of bits. Tested against `serde_json` here and against
//! `json.loads` in Python.

use super::{Bad, Reason};
use crate::Surrogates;

/// Where the text of a record stands: the names that lead to it.
#[derive(Clone, Debug)]
pub(crate) struct Field {
    path: Vec<Vec<u8>>,
}

impl Field {
    /// The field that is written so: names with dots between them. A dot behind a backslash belongs to a
    /// name.
    pub(crate) fn new(written: &str) -> Field {
        let mut path = vec![Vec::new()];
        let mut bytes = written.bytes().peekable();
        while let Some(byte) = bytes.next() {
            match byte {
                b'.' => path.push(Vec::new()),
                b'\\' if bytes.peek().is_some_and(|next| b".\\".contains(next)) => {
                    if let (Some(next), Some(name)) = (bytes.next(), path.last_mut()) {
                        name.push(next);
                    }
                }
                byte => {
                    if let Some(name) = path.last_mut() {
                        name.push(byte);
                    }
                }
            }
        }
        Field { path }
    }

    /// Its names, from the outermost on.
    pub(crate) fn names(&self) -> impl Iterator<Item = String> {
        let text = |name: &Vec<u8>| String::from_utf8_lossy(name).into_owned();
        self.path.iter().map(text)
    }
}

/// Where the text of a line is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Found {
    start: usize,
    end: usize,
    escapes: Escapes,
}

/// What stands in a string behind backslashes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Escapes {
    None,
    Some,
    /// Among them, half of a surrogate pair at least.
    Surrogates,
}

/// Finds the text in lines.
#[derive(Debug)]
pub(crate) struct Lines {
    field: Field,
    surrogates: Surrogates,
    open: Open,
    key: Vec<u8>,
}

/// The objects and lists that are open: a bit each, set for an object.
#[derive(Debug, Default)]
struct Open {
    bits: Vec<u64>,
    depth: usize,
}

impl Open {
    fn push(&mut self, object: bool) {
        let (word, bit) = (self.depth / 64, self.depth % 64);
        if word == self.bits.len() {
            self.bits.push(0);
        }
        if let Some(word) = self.bits.get_mut(word) {
            *word = *word & !(1 << bit) | u64::from(object) << bit;
        }
        self.depth += 1;
    }

    /// Whether the innermost is an object; `None` if nothing is open.
    fn innermost(&self) -> Option<bool> {
        let at = self.depth.checked_sub(1)?;
        Some(self.bits.get(at / 64)? >> (at % 64) & 1 == 1)
    }
}

impl Lines {
    pub(crate) fn new(field: Field, surrogates: Surrogates) -> Lines {
        Lines {
            field,
            surrogates,
            open: Open::default(),
            key: Vec::new(),
        }
    }

    /// Where in `line`, which is UTF-8, its text is from now on: escapes are undone in place. A bad line
    /// is left as it is.
    pub(crate) fn text(&mut self, line: &mut [u8]) -> Result<(usize, usize), Bad> {
        let found = self.find(line)?;
        match found.escapes {
            Escapes::None => return Ok((found.start, found.end)),
            Escapes::Some => {}
            Escapes::Surrogates => {
                let string = line.get(found.start..found.end).unwrap_or_default();
                if self.surrogates == Surrogates::Error && has_lone_surrogate(string) {
                    return Err(Bad::new(Reason::LoneSurrogate));
                }
            }
        }
        let string = line.get_mut(found.start..found.end).unwrap_or_default();
        let length = undo_escapes(string);
        Ok((found.start, found.start + length))
    }

    /// Read the whole line and keep where its text is.
    fn find(&mut self, line: &[u8]) -> Result<Found, Bad> {
        let open = &mut self.open;
        open.depth = 0;
        // So many objects lie open on the way to the text. What is open besides does not lead there.
        let mut way: usize = 0;
        let mut role = Role::Root;
        let mut result = Err(Reason::NotAnObject);
        let mut next = Next::Value;
        let mut at = 0;
        loop {
            at = skip_space(line, at);
            let byte = line.get(at).copied();
            match next {
                Next::Value | Next::ValueOrEnd => match byte {
                    Some(b'{') => {
                        if matches!(role, Role::Root | Role::Way) {
                            way += 1;
                            result = Err(Reason::NoSuchField);
                        } else if role == Role::Text {
                            result = Err(Reason::NotAString);
                        }
                        open.push(true);
                        at += 1;
                        next = Next::KeyOrEnd;
                        continue;
                    }
                    Some(b'[') => {
                        role.settle(&mut result, Err(Reason::List));
                        open.push(false);
                        at += 1;
                        role = Role::Other;
                        next = Next::ValueOrEnd;
                        continue;
                    }
                    Some(b'"') => {
                        let (end, escapes) = string_end(line, at + 1)?;
                        let found = Found {
                            start: at + 1,
                            end,
                            escapes,
                        };
                        role.settle(&mut result, Ok(found));
                        at = end + 1;
                        next = Next::Behind;
                    }
                    Some(b']') if next == Next::ValueOrEnd => {
                        open.depth -= 1;
                        at += 1;
                        next = Next::Behind;
                    }
                    _ => {
                        let (end, null) = plain_end(line, at)?;
                        let reason = if null {
                            Reason::Null
                        } else {
                            Reason::NotAString
                        };
                        role.settle(&mut result, Err(reason));
                        at = end;
                        next = Next::Behind;
                    }
                },
                Next::Key | Next::KeyOrEnd => match byte {
                    Some(b'"') => {
                        let (end, escapes) = string_end(line, at + 1)?;
                        let key = line.get(at + 1..end).unwrap_or_default();
                        let wanted = match self.field.path.get(way.wrapping_sub(1)) {
                            Some(name) if open.depth == way => {
                                is_name(key, escapes, name, &mut self.key)
                            }
                            _ => false,
                        };
                        role = match wanted {
                            false => Role::Other,
                            true if way == self.field.path.len() => Role::Text,
                            true => Role::Way,
                        };
                        at = skip_space(line, end + 1);
                        if line.get(at) != Some(&b':') {
                            return Err(invalid(at));
                        }
                        at += 1;
                        next = Next::Value;
                    }
                    Some(b'}') if next == Next::KeyOrEnd => {
                        open.depth -= 1;
                        at += 1;
                        next = Next::Behind;
                    }
                    _ => return Err(invalid(at)),
                },
                Next::Behind => {
                    next = match (open.innermost(), byte) {
                        (None, None) => return result.map_err(Bad::new),
                        (Some(true), Some(b',')) => Next::Key,
                        (Some(false), Some(b',')) => Next::Value,
                        (Some(true), Some(b'}')) | (Some(false), Some(b']')) => {
                            open.depth -= 1;
                            Next::Behind
                        }
                        _ => return Err(invalid(at)),
                    };
                    role = Role::Other;
                    at += 1;
                }
            }
            way = way.min(open.depth);
        }
    }
}

/// What has to come next.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Next {
    Value,
    ValueOrEnd,
    Key,
    KeyOrEnd,
    /// What comes behind a value.
    Behind,
}

/// What a value is for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Role {
    /// It is the record.
    Root,
    /// It must be an object for the text to be in it.
    Way,
    /// It is the text.
    Text,
    Other,
}

impl Role {
    /// A value that is no object was read: it is the result if it is the text.
    fn settle(self, result: &mut Result<Found, Reason>, value: Result<Found, Reason>) {
        match self {
            Role::Root => *result = Err(Reason::NotAnObject),
            Role::Way => *result = Err(Reason::NoSuchField),
            Role::Text => *result = value,
            Role::Other => {}
        }
    }
}

fn invalid(at: usize) -> Bad {
    Bad::at(Reason::InvalidJson, at)
}

fn skip_space(line: &[u8], mut at: usize) -> usize {
    while let Some(b' ' | b'\t' | b'\r' | b'\n') = line.get(at) {
        at += 1;
    }
    at
}

/// Where the string ends whose content begins at `at`: its closing quote.
fn string_end(line: &[u8], mut at: usize) -> Result<(usize, Escapes), Bad> {
    let mut escapes = Escapes::None;
    loop {
        at = plain_run(line, at);
        match line.get(at) {
            Some(b'"') => return Ok((at, escapes)),
            Some(b'\\') => {
                escapes = escapes.max(Escapes::Some);
                match line.get(at + 1) {
                    Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => at += 2,
                    Some(b'u') => {
                        let unit = hex(line, at + 2).ok_or_else(|| invalid(at))?;
                        if unit & 0xf800 == 0xd800 {
                            escapes = Escapes::Surrogates;
                        }
                        at += 6;
                    }
                    _ => return Err(invalid(at)),
                }
            }
            _ => return Err(invalid(at)),
        }
    }
}

/// The first byte from `at` on that is a quote, a backslash or a control character, or the end.
fn plain_run(line: &[u8], mut at: usize) -> usize {
    const ONES: u64 = u64::from_le_bytes([1; 8]);
    const HIGH: u64 = ONES << 7;
    // The high bit of each byte that is zero; above the first such byte, maybe of others.
    let zeros = |word: u64| word.wrapping_sub(ONES) & !word & HIGH;
    while let Some(bytes) = line.get(at..).and_then(|rest| rest.first_chunk()) {
        let word = u64::from_le_bytes(*bytes);
        let quotes = zeros(word ^ (ONES * u64::from(b'"')));
        let backslashes = zeros(word ^ (ONES * u64::from(b'\\')));
        let controls = word.wrapping_sub(ONES * 0x20) & !word & HIGH;
        let found = quotes | backslashes | controls;
        if found != 0 {
            return at + found.trailing_zeros() as usize / 8;
        }
        at += 8;
    }
    while line
        .get(at)
        .is_some_and(|&byte| byte >= 0x20 && byte != b'"' && byte != b'\\')
    {
        at += 1;
    }
    at
}

/// The number that four hexadecimal digits write.
fn hex(line: &[u8], at: usize) -> Option<u32> {
    line.get(at..at + 4)?.iter().try_fold(0, |number, &digit| {
        Some(number << 4 | char::from(digit).to_digit(16)?)
    })
}

/// Where a value ends that is no string, object or list, and whether it is null.
fn plain_end(line: &[u8], at: usize) -> Result<(usize, bool), Bad> {
    const WORDS: [&[u8]; 6] = [
        b"null",
        b"true",
        b"false",
        b"NaN",
        b"Infinity",
        b"-Infinity",
    ];
    let rest = line.get(at..).unwrap_or_default();
    if let Some(word) = WORDS.iter().find(|word| rest.starts_with(word)) {
        return Ok((at + word.len(), word[0] == b'n'));
    }
    let digits = |from: usize| {
        let rest = line.get(from..).unwrap_or_default();
        from + rest.iter().take_while(|byte| byte.is_ascii_digit()).count()
    };
    let whole = at + usize::from(rest.first() == Some(&b'-'));
    let mut end = match line.get(whole) {
        Some(b'0') => whole + 1,
        Some(b'1'..=b'9') => digits(whole + 1),
        _ => return Err(invalid(at)),
    };
    if line.get(end) == Some(&b'.') {
        let fraction = digits(end + 1);
        if fraction == end + 1 {
            return Err(invalid(end));
        }
        end = fraction;
    }
    if let Some(b'e' | b'E') = line.get(end) {
        let signed = end + 1 + usize::from(matches!(line.get(end + 1), Some(b'+' | b'-')));
        let exponent = digits(signed);
        if exponent == signed {
            return Err(invalid(end));
        }
        end = exponent;
    }
    Ok((end, false))
}

/// Whether what stands in a key is this name.
fn is_name(key: &[u8], escapes: Escapes, name: &[u8], room: &mut Vec<u8>) -> bool {
    match escapes {
        Escapes::None => key == name,
        // A name of Unicode text holds no half of a surrogate pair.
        Escapes::Surrogates if has_lone_surrogate(key) => false,
        _ => {
            room.clear();
            room.extend_from_slice(key);
            let length = undo_escapes(room);
            room.get(..length) == Some(name)
        }
    }
}

/// Whether half of a surrogate pair stands alone in the content of a valid string.
fn has_lone_surrogate(string: &[u8]) -> bool {
    let mut at = 0;
    while let Some(found) = memchr::memchr(b'\\', string.get(at..).unwrap_or_default()) {
        at += found;
        match hex_escape(string, at) {
            Some(unit @ 0xd800..=0xdbff) => {
                if pair(unit, hex_escape(string, at + 6)).is_none() {
                    return true;
                }
                at += 12;
            }
            Some(0xdc00..=0xdfff) => return true,
            Some(_) => at += 6,
            None => at += 2,
        }
    }
    false
}

/// The number in `\uXXXX` at this place.
fn hex_escape(string: &[u8], at: usize) -> Option<u32> {
    if string.get(at..at + 2) != Some(b"\\u") {
        return None;
    }
    hex(string, at + 2)
}

/// The character of a surrogate pair.
fn pair(high: u32, low: Option<u32>) -> Option<char> {
    let low = low.filter(|low| (0xdc00..0xe000).contains(low))?;
    char::from_u32(0x1_0000 + ((high - 0xd800) << 10) + (low - 0xdc00))
}

/// Undo the escapes of a valid string in place; the new length. Half a surrogate pair becomes U+FFFD.
fn undo_escapes(string: &mut [u8]) -> usize {
    let (mut from, mut to) = (0, 0);
    loop {
        let rest = string.get(from..).unwrap_or_default();
        let run = memchr::memchr(b'\\', rest).unwrap_or(rest.len());
        if from != to {
            string.copy_within(from..from + run, to);
        }
        from += run;
        to += run;
        let Some(&escape) = string.get(from + 1) else {
            return to;
        };
        let byte = match escape {
            b'b' => 8,
            b'f' => 12,
            b'n' => b'\n',
            b'r' => b'\r',
            b't' => b'\t',
            b'u' => {
                let unit = hex_escape(string, from).unwrap_or(0xfffd);
                from += 6;
                let char = if unit & 0xfc00 == 0xd800 {
                    let char = pair(unit, hex_escape(string, from));
                    from += if char.is_some() { 6 } else { 0 };
                    char
                } else {
                    char::from_u32(unit)
                };
                let mut room = [0; 4];
                let utf8 = char
                    .unwrap_or(char::REPLACEMENT_CHARACTER)
                    .encode_utf8(&mut room);
                if let Some(place) = string.get_mut(to..to + utf8.len()) {
                    place.copy_from_slice(utf8.as_bytes());
                }
                to += utf8.len();
                continue;
            }
            other => other,
        };
        if let Some(place) = string.get_mut(to) {
            *place = byte;
        }
        from += 2;
        to += 1;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde::de::IgnoredAny;
    use serde_json::Value;

    use super::*;

    fn text(line: &str, field: &str, surrogates: Surrogates) -> Result<String, Reason> {
        let mut bytes = line.as_bytes().to_vec();
        let found = Lines::new(Field::new(field), surrogates).text(&mut bytes);
        match found {
            Ok((start, end)) => Ok(String::from_utf8(bytes[start..end].to_vec()).unwrap()),
            Err(bad) => {
                assert_eq!(bytes, line.as_bytes(), "a bad line stays as it is");
                Err(bad.reason)
            }
        }
    }

    /// What `serde_json` makes of it; `None` where its rules are others than those of Python.
    fn by_serde(line: &str, path: &[&str]) -> Option<Result<String, Reason>> {
        if line.contains("NaN") || line.contains("Infinity") {
            return None;
        }
        if serde_json::from_str::<IgnoredAny>(line).is_err() {
            return Some(Err(Reason::InvalidJson));
        }
        // Numbers out of range and halves of surrogate pairs.
        let value: Value = serde_json::from_str(line).ok()?;
        if !value.is_object() {
            return Some(Err(Reason::NotAnObject));
        }
        let found = path.iter().try_fold(&value, |value, name| value.get(name));
        Some(match found {
            None => Err(Reason::NoSuchField),
            Some(Value::String(text)) => Ok(text.clone()),
            Some(Value::Null) => Err(Reason::Null),
            Some(Value::Array(_)) => Err(Reason::List),
            Some(_) => Err(Reason::NotAString),
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(20_000))]
        #[test]
        fn lines_of_json_are_read_as_others_read_them(
            parts in prop::collection::vec(prop::sample::select(vec![
                "{", "}", "[", "]", ",", ":", "\"", "\"a\"", "\"b\"", "\"a\":", "\"b\":", "{\"a\":",
                "{\"a\":{\"b\":", "\"text\"", "\"\\n\\u00e9\\\"\"", "\\", "\\u", "\\ud83d\\ude00", "é🙂",
                "null", "true", "false", "0", "-1.5e3", "1.", "01", " ", "\t", "\u{1}", "\"\\u0061\":",
                "},", "]}", "}}",
            ]), 0..12)
        ) {
            let line = parts.concat();
            for (field, path) in [("a", &["a"][..]), ("a.b", &["a", "b"])] {
                if let Some(wanted) = by_serde(&line, path) {
                    prop_assert_eq!(text(&line, field, Surrogates::Error), wanted, "{}", &line);
                }
            }
        }

        #[test]
        fn every_text_comes_back(value in any::<String>(), pad in 0usize..20) {
            let string = serde_json::to_string(&value).unwrap();
            let line = format!("{}{{\"text\": {string}}}", " ".repeat(pad));
            prop_assert_eq!(text(&line, "text", Surrogates::Error), Ok(value));
        }
    }

    #[test]
    fn names_may_hold_dots() {
        let line = r#"{"a.b": "dot", "a": {"b": "way"}, "c\\d": "backslash"}"#;
        for (field, wanted) in [("a.b", "way"), (r"a\.b", "dot"), (r"c\\d", "backslash")] {
            assert_eq!(text(line, field, Surrogates::Error).as_deref(), Ok(wanted));
        }
    }

    #[test]
    fn nothing_is_too_deep() {
        let deep = 1 << 20;
        let line = format!(
            "{{\"d\": {}{}, \"text\": \"x\"}}",
            "[".repeat(deep),
            "]".repeat(deep)
        );
        assert_eq!(text(&line, "text", Surrogates::Error).as_deref(), Ok("x"));
        let open = "{\"text\":".repeat(deep);
        assert_eq!(
            text(&open, "text", Surrogates::Error),
            Err(Reason::InvalidJson)
        );
    }

    #[test]
    fn halves_of_pairs_are_replaced_one_by_one() {
        let line = r#"{"text": "a\ud800b\udc00\ud83d\ude00\ud83d\ud83d\ude00\udc00\ud800"}"#;
        let wanted = "a\u{fffd}b\u{fffd}🙂\u{fffd}🙂\u{fffd}\u{fffd}".replace('🙂', "\u{1f600}");
        assert_eq!(text(line, "text", Surrogates::Replace), Ok(wanted));
        assert_eq!(
            text(line, "text", Surrogates::Error),
            Err(Reason::LoneSurrogate)
        );
    }
}
