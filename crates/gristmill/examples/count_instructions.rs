//! Encodes fixed, made-up texts, for `bench/instructions.py` to count the instructions of each call under callgrind.
//!
//! Every text comes from a generator with a fixed seed and whole numbers only, so it is the same on every machine. The
//! calls that are counted go through [`counted`] alone, one after the other in the order that this program prints: the
//! first time a text is seen, and again. The counts kept in `bench/instructions.json` are the test.
#![allow(
    clippy::print_stdout,
    reason = "its output names the calls for the program that reads the counts"
)]

use gristmill::{Error, Special, Tokenizer};

/// Bytes of each text, about.
const SIZE: usize = 400_000;

fn main() -> Result<(), Error> {
    for name in ["o200k_base", "gpt2"] {
        let tokenizer = Tokenizer::embedded(name)?;
        for (kind, text) in texts() {
            for call in ["first", "again"] {
                let ids = counted(&tokenizer, &text)?;
                println!("{name} {kind} {call}\t{}\t{ids}", text.len());
            }
        }
    }
    Ok(())
}

/// The call whose instructions are counted; its name is known to `bench/instructions.py`.
#[inline(never)]
fn counted(tokenizer: &Tokenizer, text: &str) -> Result<usize, Error> {
    Ok(tokenizer.encode(text, &Special::Text)?.len())
}

fn texts() -> Vec<(&'static str, String)> {
    vec![
        ("english", english()),
        ("code", code()),
        ("chinese", chinese()),
        ("hostile", hostile()),
    ]
}

/// Whole numbers that look random: an xorshift generator.
struct Chance(u64);

impl Chance {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, end: usize) -> usize {
        (self.next() % end as u64) as usize
    }

    /// A rank below 2 to the power of `bits`: one is drawn as often as its whole octave, which is Zipf's law.
    fn rank(&mut self, bits: usize) -> usize {
        let octave = 1 << self.below(bits);
        octave - 1 + self.below(octave)
    }

    fn pick<'a>(&mut self, from: &[&'a str]) -> &'a str {
        from.get(self.below(from.len())).copied().unwrap_or("")
    }
}

/// Words by rank: the frequent ones are short and real, the others are made of syllables.
fn words(chance: &mut Chance) -> Vec<String> {
    const FREQUENT: &[&str] = &[
        "the", "of", "and", "to", "in", "a", "is", "that", "for", "it", "was", "on", "are", "as",
        "with", "his", "they", "at", "be", "this", "from", "have", "or", "by", "one", "had", "not",
    ];
    const SYLLABLES: &[&str] = &[
        "con", "ter", "ment", "ing", "re", "in", "de", "tion", "al", "er", "ly", "pro", "ver",
        "com", "per", "est", "ar", "ti", "ous", "ble", "sta", "mo", "ni", "lo", "gra", "pho",
    ];
    let mut words: Vec<String> = FREQUENT.iter().map(|word| (*word).to_owned()).collect();
    while words.len() < 1 << 14 {
        let syllables = 2 + chance.below(3);
        words.push((0..syllables).map(|_| chance.pick(SYLLABLES)).collect());
    }
    words
}

fn english() -> String {
    let mut chance = Chance(0x9E37_79B9_7F4A_7C15);
    let words = words(&mut chance);
    let mut text = String::new();
    while text.len() < SIZE {
        text += words.get(chance.rank(14)).map_or("", String::as_str);
        match chance.below(40) {
            0 => text += ".\n\n",
            1..=3 => text += ". The ",
            4..=6 => text += ", ",
            7 => text += "'s ",
            8 => text += &format!(" {} ", 1800 + chance.below(300)),
            9 => text += " (",
            _ => text.push(' '),
        }
    }
    text
}

fn code() -> String {
    let mut chance = Chance(0xD1B5_4A32_D192_ED03);
    let words = words(&mut chance);
    let mut text = String::new();
    while text.len() < SIZE {
        text += &"    ".repeat(chance.below(4));
        text += chance.pick(&[
            "let ",
            "if (",
            "return ",
            "self.",
            "for i in ",
            "// ",
            "def ",
        ]);
        text += words.get(chance.rank(14)).map_or("", String::as_str);
        text += chance.pick(&["_", "Id", "::", ".", "->", "[i]."]);
        text += words.get(chance.rank(14)).map_or("", String::as_str);
        text += chance.pick(&["(x, ", " = ", " += ", " == \"", "() {", " < "]);
        text += &chance.below(70_000).to_string();
        text += chance.pick(&[");\n", ";\n", "\n", "},\n\n", "\");\n", " });\n"]);
    }
    text
}

fn chinese() -> String {
    let mut chance = Chance(0x2545_F491_4F6C_DD1D);
    let mut text = String::new();
    while text.len() < SIZE {
        for _ in 0..4 + chance.below(20) {
            let code = 0x4E00 + chance.rank(12) as u32 * 5;
            text.extend(char::from_u32(code));
        }
        text += chance.pick(&["，", "。", "、", "。\n", "：", "2026年"]);
    }
    text
}

fn hostile() -> String {
    const UNITS: &[&str] = &[
        "a", " ", "\n", "中", "\u{301}", "1", "'", "aB", "🙂", "<|", "\r\n", " \t", "é", "ก", "^",
        "\0", "ſ's", "x1", "\u{3000}", "한",
    ];
    let mut chance = Chance(0x1405_7B7E_F767_814F);
    let mut text = String::new();
    while text.len() < SIZE {
        let length = chance.rank(12) + 1;
        text += &chance.pick(UNITS).repeat(length);
    }
    text
}
