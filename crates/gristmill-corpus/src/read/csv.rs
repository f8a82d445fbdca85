//! Lines of fields: where they end and what is in them.
//!
//! The rules are those of RFC 4180 and, where a file does not keep to them, of Python's `csv` module: a field
//! is quoted if its first byte is a quote, a quote in it is doubled, what stands behind the closing quote
//! belongs to the field; a quote in any other place is a character like any other. A line ends with CR, LF
//! or both, and an empty one is no record. Quotes that never end are a bad record. Tested against that
//! module.

use std::ops::Range;

use super::{Bad, Reason};

/// Where in a line something stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum State {
    /// A field begins.
    #[default]
    Begin,
    /// In a field without quotes, or behind the closing one.
    Plain,
    Quoted,
    /// Behind a quote in a quoted field: its end, or the first of two.
    Quote,
}

impl State {
    /// What it is behind this byte. `None` if the line ends with it.
    fn next(self, byte: u8, comma: u8) -> Option<State> {
        Some(match (self, byte) {
            (State::Quoted, b'"') => State::Quote,
            (State::Begin, b'"') | (State::Quoted, _) | (State::Quote, b'"') => State::Quoted,
            (_, b'\n' | b'\r') => return None,
            (_, byte) if byte == comma => State::Begin,
            _ => State::Plain,
        })
    }
}

/// Where the line ends that is in this state at `from`: the byte that ends it.
pub(crate) fn line_end(bytes: &[u8], from: usize, comma: u8, state: &mut State) -> Option<usize> {
    let mut at = from;
    loop {
        let rest = bytes.get(at..)?;
        // Most bytes change nothing.
        at += match state {
            State::Quoted => memchr::memchr(b'"', rest).unwrap_or(rest.len()),
            State::Plain => rest
                .iter()
                .position(|&byte| byte == comma || byte == b'\n' || byte == b'\r')
                .unwrap_or(rest.len()),
            State::Begin | State::Quote => 0,
        };
        match state.next(*bytes.get(at)?, comma) {
            Some(next) => *state = next,
            None => {
                *state = State::Begin;
                return Some(at);
            }
        }
        at += 1;
    }
}

/// Every line that is not empty, and where it stands.
pub(crate) fn records(
    bytes: &mut [u8],
    mut at: usize,
    comma: u8,
    mut each: impl FnMut(&mut [u8], usize, usize),
) {
    while at < bytes.len() {
        let end = line_end(bytes, at, comma, &mut State::default()).unwrap_or(bytes.len());
        if end > at {
            each(&mut bytes[at..end], at, end);
        }
        at = end + 1;
    }
}

/// Where the field of this number is in a line, its quotes undone in place. A bad line stays as it is.
pub(crate) fn text(line: &mut [u8], comma: u8, column: usize) -> Result<Range<usize>, Bad> {
    let mut state = State::Begin;
    let mut number = 0;
    let mut start = 0;
    let mut field = None;
    for (at, &byte) in line.iter().enumerate() {
        if let Some(next) = state.next(byte, comma) {
            if next == State::Begin {
                if number == column {
                    field = Some(start..at);
                }
                number += 1;
                start = at + 1;
            }
            state = next;
        }
    }
    if state == State::Quoted {
        return Err(Bad::at(Reason::UnclosedQuote, start));
    }
    if number == column {
        field = Some(start..line.len());
    }
    let field = field.ok_or(Bad::new(Reason::NoSuchField))?;
    let length = unquoted(line.get_mut(field.clone()).unwrap_or_default(), comma);
    Ok(field.start..field.start + length)
}

/// The names in a line of names.
pub(crate) fn names(line: &[u8], comma: u8) -> Vec<String> {
    let name = |column| {
        let mut line = line.to_vec();
        let range = text(&mut line, comma, column).ok()?;
        Some(String::from_utf8_lossy(line.get(range)?).into_owned())
    };
    (0..).map_while(name).collect()
}

/// Undo the quotes of a field in place; its new length.
fn unquoted(field: &mut [u8], comma: u8) -> usize {
    if field.first() != Some(&b'"') {
        return field.len();
    }
    let mut state = State::Begin;
    let mut length = 0;
    for at in 0..field.len() {
        let byte = field[at];
        let next = state.next(byte, comma).unwrap_or(State::Plain);
        // A quote is a character if it is the second of two, or behind the closing one.
        let opens = state == State::Begin;
        let closes = next == State::Quote;
        if !opens && !closes {
            field[length] = byte;
            length += 1;
        }
        state = next;
    }
    length
}
