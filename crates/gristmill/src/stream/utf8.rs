//! Bytes to text, when they come in parts.
//!
//! At most three bytes wait: the beginning of a character that the next bytes may complete. What can
//! no longer become a character is U+FFFD, one for as many bytes as `String::from_utf8_lossy` gives
//! one for, and because that looks at no more than it consumes, parts give what the whole gives.

use std::str;

/// U+FFFD as it stands in text.
pub(super) const REPLACEMENT: &[u8] = "\u{FFFD}".as_bytes();

/// The beginning of a character.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Utf8 {
    bytes: [u8; 3],
    len: u8,
}

impl Utf8 {
    /// Whether nothing waits.
    #[inline]
    pub(super) fn is_empty(self) -> bool {
        self.len == 0
    }

    fn waiting(&self) -> &[u8] {
        self.bytes.get(..usize::from(self.len)).unwrap_or_default()
    }

    /// Append the text that is certain after these bytes.
    pub(super) fn push(&mut self, bytes: &[u8], out: &mut Vec<u8>) {
        let from = out.len();
        out.extend_from_slice(self.waiting());
        out.extend_from_slice(bytes);
        self.len = 0;
        let Err(error) = str::from_utf8(&out[from..]) else {
            return;
        };
        if error.error_len().is_some() {
            let broken = out.split_off(from);
            self.repair(&broken, out);
        } else {
            let tail = from + error.valid_up_to();
            self.wait_for(&out[tail..]);
            out.truncate(tail);
        }
    }

    /// Append what is broken inside of `bytes` as U+FFFD, and wait for what is only cut off.
    fn repair(&mut self, bytes: &[u8], out: &mut Vec<u8>) {
        let mut left = bytes.len();
        for chunk in bytes.utf8_chunks() {
            out.extend_from_slice(chunk.valid().as_bytes());
            let broken = chunk.invalid();
            left -= chunk.valid().len() + broken.len();
            let cut_off =
                left == 0 && str::from_utf8(broken).is_err_and(|error| error.error_len().is_none());
            if cut_off {
                self.wait_for(broken);
            } else if !broken.is_empty() {
                out.extend_from_slice(REPLACEMENT);
            }
        }
    }

    fn wait_for(&mut self, tail: &[u8]) {
        // The unfinished beginning of a character has three bytes at most.
        for (place, &byte) in self.bytes.iter_mut().zip(tail) {
            *place = byte;
        }
        self.len = tail.len().min(3) as u8;
    }

    /// Nothing more comes: what waits is one U+FFFD.
    pub(super) fn end(&mut self, out: &mut Vec<u8>) {
        if std::mem::take(&mut self.len) > 0 {
            out.extend_from_slice(REPLACEMENT);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All texts of four bytes over an alphabet of awkward ones, cut everywhere.
    #[test]
    fn parts_give_what_the_whole_gives() {
        let alphabet = [
            b'a', 0x80, 0xBF, 0xC2, 0xE0, 0xA0, 0xE2, 0xED, 0xF0, 0x90, 0xF4, 0xFF,
        ];
        let mut texts = vec![Vec::new()];
        for _ in 0..4 {
            let longer = texts.iter().flat_map(|text: &Vec<u8>| {
                alphabet.map(|byte| [text.as_slice(), &[byte]].concat())
            });
            texts = longer.collect();
        }
        for text in &texts {
            let whole = String::from_utf8_lossy(text);
            for cuts in 0..8 {
                let mut utf8 = Utf8::default();
                let mut out = Vec::new();
                let mut from = 0;
                for at in 1..=4 {
                    if at == 4 || cuts >> (at - 1) & 1 == 1 {
                        utf8.push(&text[from..at], &mut out);
                        assert!(str::from_utf8(&out).is_ok());
                        from = at;
                    }
                }
                utf8.end(&mut out);
                assert_eq!(out, whole.as_bytes(), "{text:x?} cut {cuts:b}");
            }
        }
    }

    #[test]
    fn what_is_certain_is_given_at_once() {
        let mut utf8 = Utf8::default();
        let mut out = Vec::new();
        utf8.push(b"a\xE4", &mut out);
        assert_eq!(out, b"a");
        utf8.push(b"\xBD", &mut out);
        assert_eq!(out, b"a");
        utf8.push(b"\xA0\xFF\xF0", &mut out);
        assert_eq!(out, "a你\u{FFFD}".as_bytes());
        assert!(!utf8.is_empty());
    }
}
