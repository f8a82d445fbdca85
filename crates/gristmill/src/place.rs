//! Positions in a text, in bytes and in characters.
//!
//! Both ways by walking from the last position asked for, so that questions in the order of the text
//! cost its length in total. For a question far away, the characters of the whole text are counted
//! once, in strides, and the walk begins at the next stride. Tested below against counting from the
//! start.

/// Bytes of a stride. A question so far away that walking there takes longer than this is a jump.
const STRIDE: usize = 1 << 12;

/// A place in a text, moved to wherever is asked for next.
pub(crate) struct Places<'a> {
    text: &'a [u8],
    /// All characters are bytes.
    ascii: bool,
    byte: usize,
    char: usize,
    /// The number of characters before each stride, once there was a jump.
    strides: Vec<usize>,
}

impl<'a> Places<'a> {
    /// Start at the beginning of `text`.
    pub(crate) fn new(text: &'a str) -> Places<'a> {
        Places {
            text: text.as_bytes(),
            ascii: text.is_ascii(),
            byte: 0,
            char: 0,
            strides: Vec::new(),
        }
    }

    /// The number of characters before byte `byte`.
    pub(crate) fn char_at(&mut self, byte: usize) -> usize {
        let byte = byte.min(self.text.len());
        if self.ascii {
            (self.byte, self.char) = (byte, byte);
            return byte;
        }
        // Going on is never a jump: it counts what was not counted yet.
        if byte + STRIDE < self.byte || (byte > self.byte + STRIDE && !self.strides.is_empty()) {
            self.jump(byte / STRIDE);
        }
        if byte >= self.byte {
            self.char += starts(&self.text[self.byte..byte]);
        } else {
            self.char -= starts(&self.text[byte..self.byte]);
        }
        self.byte = byte;
        self.char
    }

    /// The byte where character `char` starts.
    pub(crate) fn byte_at(&mut self, char: usize) -> usize {
        if self.ascii {
            return self.char_at(char);
        }
        if char + STRIDE < self.char || (char > self.char + STRIDE && !self.strides.is_empty()) {
            self.count();
            let after = self.strides.partition_point(|&before| before <= char);
            self.jump(after.saturating_sub(1));
        }
        self.byte = self.boundary(self.byte);
        while self.char < char && self.byte < self.text.len() {
            self.byte = self.boundary(self.byte + 1);
            self.char += 1;
        }
        while self.char > char {
            self.byte -= 1;
            if is_start(self.text[self.byte]) {
                self.char -= 1;
            }
        }
        self.byte
    }

    /// Go to where a stride begins.
    fn jump(&mut self, stride: usize) {
        self.count();
        self.byte = stride * STRIDE;
        self.char = self.strides.get(stride).copied().unwrap_or(0);
    }

    /// Count the characters before each stride.
    fn count(&mut self) {
        if self.strides.is_empty() {
            let mut before = 0;
            self.strides.push(0);
            for stride in self.text.chunks(STRIDE) {
                before += starts(stride);
                self.strides.push(before);
            }
        }
    }

    /// The first start of a character at or after `byte`.
    fn boundary(&self, byte: usize) -> usize {
        let rest = &self.text[byte.min(self.text.len())..];
        byte + rest.iter().take_while(|&&byte| !is_start(byte)).count()
    }
}

fn is_start(byte: u8) -> bool {
    byte & 0xC0 != 0x80
}

fn starts(text: &[u8]) -> usize {
    text.iter().filter(|&&byte| is_start(byte)).count()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn jumps() {
        let text = "a€é😀".repeat(5000);
        let bounds: Vec<usize> = text
            .char_indices()
            .map(|(at, _)| at)
            .chain([text.len()])
            .collect();
        let mut places = Places::new(&text);
        for turn in 0..2000 {
            let char = turn * 7919 % bounds.len();
            assert_eq!(places.char_at(bounds[char]), char);
            let char = turn * 104_729 % bounds.len();
            assert_eq!(places.byte_at(char), bounds[char]);
            assert_eq!(places.char_at(text.len()), bounds.len() - 1);
            assert_eq!(places.char_at(0), 0);
        }
    }

    proptest! {
        #[test]
        fn equals_counting(text in "[a€é😀]{0,20}", asked in proptest::collection::vec(0usize..25, 0..20)) {
            let bounds: Vec<usize> = text.char_indices().map(|(at, _)| at).chain([text.len()]).collect();
            let mut places = Places::new(&text);
            for (turn, char) in asked.into_iter().enumerate() {
                let char = char.min(bounds.len() - 1);
                if turn % 2 == 0 {
                    prop_assert_eq!(places.char_at(bounds[char]), char);
                } else {
                    prop_assert_eq!(places.byte_at(char), bounds[char]);
                }
            }
        }
    }
}
