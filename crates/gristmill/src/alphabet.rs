//! The byte-level alphabet: 256 printable characters that write bytes inside tokenizer files.
//!
//! Printable bytes of Latin-1 write themselves, the other 68 are the characters from U+0100 on, in
//! order: a space is `Ġ`, a newline `Ċ`. Part of the GPT-2 format and of every byte-level
//! tokenizer.json. The mapping is one to one, which the tests check.

/// Whether a byte writes itself.
const fn is_printable(byte: u8) -> bool {
    matches!(byte, b'!'..=b'~' | 0xA1..=0xAC | 0xAE..=0xFF)
}

const CHARS: [char; 256] = {
    let mut chars = ['\0'; 256];
    let mut byte = 0;
    let mut next = 0u8;
    while byte < 256 {
        chars[byte] = if is_printable(byte as u8) {
            byte as u8 as char
        } else {
            next += 1;
            // U+0100 to U+0143: two bytes of UTF-8 that any u8 offset reaches.
            match char::from_u32(0xFF + next as u32) {
                Some(char) => char,
                None => '\0',
            }
        };
        byte += 1;
    }
    chars
};

/// The byte that each character from U+0100 on writes.
const SHIFTED: [u8; 68] = {
    let mut bytes = [0; 68];
    let mut byte = 0;
    let mut next = 0;
    while byte < 256 {
        if !is_printable(byte as u8) {
            bytes[next] = byte as u8;
            next += 1;
        }
        byte += 1;
    }
    bytes
};

/// The character that writes a byte.
pub(crate) fn char_of(byte: u8) -> char {
    CHARS[byte as usize]
}

/// What is no byte in [`OF_CODE`].
const NO_BYTE: u16 = u16::MAX;

/// The byte that each character up to the last of the alphabet writes.
const OF_CODE: [u16; 0x144] = {
    let mut bytes = [NO_BYTE; 0x144];
    let mut byte = 0;
    while byte < 256 {
        bytes[CHARS[byte] as usize] = byte as u16;
        byte += 1;
    }
    bytes
};

/// Append the bytes that a text in the alphabet writes; false, and only some of them, if some character
/// is not of the alphabet.
pub(crate) fn read_into(text: &str, bytes: &mut Vec<u8>) -> bool {
    bytes.reserve(text.len());
    let mut rest = text.as_bytes().iter();
    while let Some(&first) = rest.next() {
        let code = match first {
            0..0x80 => first.into(),
            // The first byte of two.
            0xC2..0xE0 => {
                let next = rest.next().copied().unwrap_or_default();
                usize::from(first & 0x1F) << 6 | usize::from(next & 0x3F)
            }
            _ => return false,
        };
        match OF_CODE.get(code) {
            Some(&byte) if byte != NO_BYTE => bytes.push(byte as u8),
            _ => return false,
        }
    }
    true
}

/// The byte that a character writes.
pub(crate) fn byte_of(char: char) -> Option<u8> {
    match u32::from(char) {
        code @ 0..=0xFF if is_printable(code as u8) => Some(code as u8),
        code @ 0x100..=0x143 => Some(SHIFTED[(code - 0x100) as usize]),
        _ => None,
    }
}

/// Whether the character that writes a byte takes two bytes of UTF-8.
pub(crate) fn is_wide(byte: u8) -> bool {
    !char_of(byte).is_ascii()
}

/// Write bytes in the alphabet.
pub(crate) fn write(bytes: &[u8]) -> String {
    bytes.iter().map(|&byte| char_of(byte)).collect()
}

/// The bytes that a text in the alphabet writes; `None` if some character is not of the alphabet.
pub(crate) fn read(text: &str) -> Option<Vec<u8>> {
    text.chars().map(byte_of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_to_one() {
        for byte in 0..=255 {
            assert_eq!(byte_of(char_of(byte)), Some(byte));
        }
        let writers = ('\0'..=char::MAX).filter(|&char| byte_of(char).is_some());
        assert_eq!(writers.count(), 256);
    }

    #[test]
    fn known_letters() {
        assert_eq!(write("Hi, é\n".as_bytes()), "Hi,ĠÃ©Ċ");
        assert_eq!(read("Hi,ĠÃ©Ċ").as_deref(), Some("Hi, é\n".as_bytes()));
        assert_eq!(char_of(0), 'Ā');
        assert_eq!(char_of(0xAD), 'Ń');
        assert_eq!(read("a b"), None);
    }

    #[test]
    fn both_readers_agree() {
        let mut bytes = Vec::new();
        for char in '\0'..=char::MAX {
            let text = format!("a{char}Ġ");
            bytes.clear();
            let found = read_into(&text, &mut bytes).then(|| bytes.clone());
            assert_eq!(found, read(&text), "{char:?}");
        }
    }
}
