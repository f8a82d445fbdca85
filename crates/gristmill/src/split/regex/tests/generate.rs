//! Random patterns and texts, the same every run: a seeded generator over small alphabets, where most accidents happen.

/// A small random number generator (xorshift64*).
pub(crate) struct Random(u64);

impl Random {
    /// A generator that always yields the same numbers for the same seed.
    pub(crate) fn new(seed: u64) -> Random {
        Random(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    /// A number below `bound`.
    pub(crate) fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 33) as usize % bound
    }

    /// One of the choices.
    pub(crate) fn one_of<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len())]
    }
}

/// A pattern over `a`, `b` and `c` with every construct, nested `depth` deep.
pub(crate) fn pattern(random: &mut Random, depth: usize) -> String {
    let branches = 1 + [0, 0, 0, 1, 1, 2][random.below(6)];
    let branches: Vec<String> = (0..branches)
        .map(|_| {
            let pieces = 1 + random.below(3);
            (0..pieces).map(|_| piece(random, depth)).collect()
        })
        .collect();
    branches.join("|")
}

fn piece(random: &mut Random, depth: usize) -> String {
    let mut piece = atom(random, depth);
    if piece.starts_with("(?=") || piece.starts_with("(?!") || piece.starts_with("(?<") {
        return piece;
    }
    if piece.starts_with(['^', '$']) || piece.starts_with(r"\b") || piece.starts_with(r"\B") {
        return piece;
    }
    if random.below(2) == 0 {
        piece.push_str(random.one_of(&[
            "?", "*", "+", "??", "*?", "+?", "?+", "*+", "++", "{2}", "{1,2}", "{0,2}", "{2,}",
            "{1,3}?", "{,2}", "{2}?", "{1,2}+", "*", "+",
        ]));
    }
    piece
}

fn atom(random: &mut Random, depth: usize) -> String {
    let plain = ["a", "b", "c", "[ab]", "[^a]", "."];
    if depth == 0 || random.below(5) < 2 {
        return match random.below(14) {
            0 => random.one_of(&["^", "$", r"\b", r"\B"]).to_owned(),
            1 => random
                .one_of(&["[bc]", "[^bc]", r"\w", r"\S", "[a-c&&[^b]]"])
                .to_owned(),
            _ => random.one_of(&plain).to_owned(),
        };
    }
    let inner = pattern(random, depth - 1);
    match random.below(12) {
        0 | 1 => format!("(?>{inner})"),
        2 => format!("(?={inner})"),
        3 => format!("(?!{inner})"),
        4 => format!("(?<={})", behind(random)),
        5 => format!("(?<!{})", behind(random)),
        6 => format!("({inner})"),
        _ => format!("(?:{inner})"),
    }
}

fn behind(random: &mut Random) -> String {
    random
        .one_of(&[
            "a",
            "ab",
            "a|b",
            "a|bc",
            "[ab]c",
            "a?b",
            "a{1,2}b",
            "(?:ab|c)b?a",
            "^a",
            r"\ba",
            "b{2}",
            "(?:a|bc){2}",
        ])
        .to_owned()
}

/// A text over the given characters.
pub(crate) fn text(random: &mut Random, alphabet: &[char], longest: usize) -> String {
    let length = random.below(longest + 1);
    // Runs of one character matter more than an even mixture.
    let mut text = String::new();
    let mut count = 0;
    while count < length {
        let character = random.one_of(alphabet);
        let run = if random.below(3) == 0 {
            1 + random.below(5)
        } else {
            1
        };
        for _ in 0..run {
            text.push(character);
            count += 1;
        }
    }
    text
}

/// Characters on which the patterns of tokenizers disagree: every kind of space, letters with and without case, digits,
/// marks, punctuation, symbols and the characters that fold to ASCII.
pub(crate) const HOSTILE: &[char] = &[
    'a',
    'b',
    'Z',
    's',
    'S',
    't',
    'T',
    'r',
    'e',
    'v',
    'm',
    'l',
    'L',
    'd',
    'D',
    '\'',
    '\'',
    ' ',
    ' ',
    ' ',
    '\t',
    '\n',
    '\n',
    '\r',
    '\u{B}',
    '\u{85}',
    '\u{A0}',
    '\u{2028}',
    '\u{3000}',
    '\u{180E}',
    '\u{200B}',
    '\u{200D}',
    '\u{FEFF}',
    '0',
    '1',
    '9',
    '²',
    '½',
    '٣',
    'Ⅷ',
    '.',
    ',',
    '!',
    '?',
    '-',
    '_',
    '/',
    '|',
    '(',
    '<',
    '>',
    '$',
    '+',
    '=',
    '…',
    '。',
    '，',
    '\u{17F}',
    '\u{212A}',
    'ß',
    'é',
    'É',
    'e',
    '\u{301}',
    '\u{345}',
    'İ',
    'ı',
    'ǅ',
    'ʰ',
    'Ω',
    'я',
    'ا',
    'ש',
    'ก',
    '\u{E31}',
    'あ',
    'ア',
    'ー',
    '漢',
    '字',
    '一',
    '龥',
    '한',
    '글',
    '\u{1F600}',
    '\u{1F468}',
    '\u{1F3FD}',
    '𝔄',
    '𐐷',
    '\0',
    '\u{7F}',
    '\u{AD}',
];
