//! The scanner against the regex engine: every pattern in use and random ones, on hostile random texts, on all short texts over
//! one character of each sort, and on real texts (`GRISTMILL_CORPORA` names their folder); and that no text takes long.
//!
//! `GRISTMILL_SPLIT_CASES` is the number of random texts for each pattern.

use super::{Batch, Dialect, Rules, TakePieces};
use crate::error::Result;
use crate::simd::{Isa, Tier};
use std::io::Read as _;
use std::ops::Range;
use std::time::{Duration, Instant};

const GPT2: &str = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+";
const LLAMA3: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";
const DEEPSEEK: &str = "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\r\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+| ?[\\p{P}\\p{S}]+[\r\n]*|\\s*[\r\n]+|\\s+(?!\\S)|\\s+";
const O200K: &str = r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+";

/// The patterns in use, by both dialects' meaning unless only tiktoken has them.
const PATTERNS: &[(&str, &str, bool)] = &[
    ("gpt2", GPT2, true),
    (
        "gpt2 of tiktoken",
        r"'(?:[sdmt]|ll|ve|re)| ?\p{L}++| ?\p{N}++| ?[^\s\p{L}\p{N}]++|\s++$|\s+(?!\S)|\s",
        false,
    ),
    (
        "gpt2 of tiktoken, older",
        r"'(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+",
        true,
    ),
    (
        "cl100k of tiktoken",
        r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+| ?[^\s\p{L}\p{N}]++[\r\n]*+|\s++$|\s*[\r\n]|\s+(?!\S)|\s",
        false,
    ),
    (
        "cl100k of tiktoken, older",
        r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+",
        true,
    ),
    ("llama3", LLAMA3, true),
    (
        "nanochat",
        r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}{1,2}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+",
        true,
    ),
    (
        "seed",
        r"(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1}| ?[^\s\p{L}\p{N}\r\n]+|\s*[\r\n]+|\s+(?!\S)|\s+",
        true,
    ),
    (
        "qwen2",
        r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
        true,
    ),
    (
        "qwen3.5",
        r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
        true,
    ),
    ("o200k", O200K, true),
    (
        "tekken",
        r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+",
        true,
    ),
    ("deepseek numbers", r"\p{N}{1,3}", true),
    ("deepseek chinese", "[一-龥぀-ゟ゠-ヿ]+", true),
    ("deepseek", DEEPSEEK, true),
    (
        "kimi k2",
        r"[\p{Han}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
        true,
    ),
    ("number", r"\p{N}", true),
    ("ascii digit", r"[0-9]", true),
    ("digit", r"\d", true),
    ("three digits", r"[0-9][0-9][0-9]", true),
    ("numbers", r"\p{N}+", true),
    ("words", r" ?\p{L}+", true),
    ("white space", r"\s+", true),
    ("line ends", r"[\r\n]", true),
    ("one line end after white space", r"\s*\n", true),
    ("space before space", r"\s+(?!\S)", true),
    ("line end or one space", r"\s*[\r\n]+|\s", true),
];

/// Characters, and a few longer things, that some pattern or some engine treats in a way of its own.
const ALPHABET: &[&str] = &[
    "a",
    "b",
    "A",
    "B",
    "z",
    "Z",
    "é",
    "É",
    "ß",
    "ẞ",
    "ǅ",
    "ʰ",
    "ª",
    "中",
    "文",
    "龥",
    "龦",
    "ฉ",
    "ا",
    "한",
    "か",
    "゙",
    "゛",
    "ゝ",
    "\u{3040}",
    "ア",
    "・",
    "゠",
    "ー",
    "々",
    "〇",
    "〡",
    "⺀",
    "\u{16FF0}",
    "\u{16FE2}",
    "\u{20000}",
    "\u{301}",
    "\u{E31}",
    "\u{903}",
    "\u{20DD}",
    "\u{FE0F}",
    "\u{E0100}",
    "1",
    "9",
    "0",
    "٢",
    "½",
    "Ⅷ",
    "１",
    " ",
    " ",
    " ",
    "  ",
    "\t",
    "\u{B}",
    "\u{C}",
    "\u{85}",
    "\u{A0}",
    "\u{1680}",
    "\u{2003}",
    "\u{2028}",
    "\u{2029}",
    "\u{202F}",
    "\u{205F}",
    "\u{3000}",
    "\u{1C}",
    "\u{1F}",
    "\u{180E}",
    "\u{200B}",
    "\u{200D}",
    "\u{2060}",
    "\u{FEFF}",
    "\r",
    "\n",
    "\n",
    "\r\n",
    "'",
    "'",
    "’",
    "'s",
    "'S",
    "'ſ",
    "ſ",
    "'t",
    "'M",
    "'d",
    "'ll",
    "'lL",
    "'VE",
    "'ve",
    "'re",
    "'Re",
    "'ﬆ",
    "s",
    "t",
    "d",
    "m",
    "l",
    "v",
    "r",
    "e",
    "K",
    "/",
    "//",
    "_",
    "<",
    ".",
    "!",
    "-",
    "$",
    "+",
    "~",
    "\u{1F600}",
    "€",
    "°",
    "§",
    "¿",
    "\0",
    "\u{7F}",
    "\u{AD}",
    "\u{378}",
    "\u{E000}",
    "\u{10FFFF}",
    "\u{FFFD}",
    "\u{FFFE}",
    "\u{16EA0}",
    "\u{10940}",
    "\u{323B0}",
    "\u{1C8A}",
    "\u{105C0}",
    "\u{13460}",
];

/// One character, or a few, of each sort that the patterns tell apart.
const SORTS: &[&str] = &[
    "A", "a", "ǅ", "ʰ", "中", "か", "\u{301}", "1", "'", "s", " ", "\u{2003}", "\n", "/", "€",
];

struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 33) as usize % bound
    }

    fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len())]
    }

    fn text(&mut self, longest: usize) -> String {
        // Few distinct characters make long runs and close calls likely.
        let distinct = 1 + self.below(8);
        let chosen: Vec<&str> = (0..distinct).map(|_| self.pick(ALPHABET)).collect();
        let any = self.below(4) == 0;
        let length = self.below(longest + 1);
        (0..length)
            .map(|_| {
                if any {
                    self.pick(ALPHABET)
                } else {
                    self.pick(&chosen)
                }
            })
            .collect()
    }
}

fn cases(usual: usize) -> usize {
    std::env::var("GRISTMILL_SPLIT_CASES").map_or(usual, |cases| cases.parse().unwrap())
}

fn dialects(both: bool) -> &'static [Dialect] {
    if both {
        &[Dialect::FancyRegex, Dialect::Oniguruma]
    } else {
        &[Dialect::FancyRegex]
    }
}

fn rules(pattern: &str, both: bool) -> Rules {
    let recognised: Vec<Rules> = dialects(both)
        .iter()
        .map(|dialect| Rules::recognise(pattern, *dialect).expect(pattern))
        .collect();
    recognised.into_iter().next().unwrap()
}

fn engine_matches(engine: &fancy_regex::Regex, text: &str) -> Vec<Range<usize>> {
    engine
        .find_iter(text)
        .map(|found| found.unwrap().range())
        .collect()
}

fn assert_same(engine: &fancy_regex::Regex, rules: &Rules, text: &str) {
    let expected = engine_matches(engine, text);
    let found: Vec<Range<usize>> = rules.matches(text).collect();
    assert!(
        found == expected,
        "{engine}\n{text:?}\nscanner {found:?}\nengine  {expected:?}"
    );
    assert_blocks_same(rules, text, &found);
}

/// The block scanner, on every tier, finds these pieces as well.
fn assert_blocks_same(rules: &Rules, text: &str, expected: &[Range<usize>]) {
    if rules.shape().is_none() {
        return;
    }
    for tier in Tier::all() {
        let found = in_blocks(rules, tier, text);
        assert!(
            found == expected,
            "{}\n{text:?}\nblocks  {found:?}\nscanner {expected:?}",
            tier.name()
        );
    }
}

fn in_blocks(rules: &Rules, tier: Tier, text: &str) -> Vec<Range<usize>> {
    let mut found = Found(Vec::new());
    rules
        .batches(tier, text, None, &mut found)
        .unwrap()
        .unwrap();
    found.0
}

struct Found(Vec<Range<usize>>);

impl TakePieces for Found {
    #[inline(always)]
    fn take<I: Isa>(&mut self, _: I, batch: &Batch<'_>) -> Result<()> {
        for both in batch.bounds.windows(2) {
            let piece = batch.base + both[0] as usize..batch.base + both[1] as usize;
            self.0.push(piece);
        }
        Ok(())
    }
}

/// The patterns of the families that the block scanner knows.
const SHAPED: &[&str] = &[
    "gpt2",
    "gpt2 of tiktoken",
    "gpt2 of tiktoken, older",
    "cl100k of tiktoken",
    "cl100k of tiktoken, older",
    "llama3",
    "nanochat",
    "seed",
    "qwen2",
    "qwen3.5",
    "o200k",
    "tekken",
];

#[test]
fn families_have_a_shape() {
    for (name, pattern, both) in PATTERNS {
        let shaped = rules(pattern, *both).shape().is_some();
        assert_eq!(shaped, SHAPED.contains(name), "{name}");
    }
}

/// Every short text at every place in and around a block.
#[test]
fn blocks_equal_the_scanner_at_every_place() {
    let mut random = Random(0x0BAD_5EED_1234_5677);
    let paddings = [
        "a ",
        "The mill. ",
        "中文，",
        "1",
        "  ",
        "\n",
        "!",
        "éa ",
        "aB",
    ];
    for (_, pattern, both) in PATTERNS.iter().filter(|(name, ..)| SHAPED.contains(name)) {
        let rules = rules(pattern, *both);
        for _ in 0..cases(60) {
            let padding = random.pick(&paddings);
            let middle = random.text(8);
            let end = random.text(70);
            for offset in 0..130 {
                let mut text = padding.repeat(offset / padding.len() + 1);
                while text.len() > offset {
                    text.pop();
                }
                text += &middle;
                text += &end;
                let expected: Vec<Range<usize>> = rules.matches(&text).collect();
                assert_blocks_same(&rules, &text, &expected);
            }
        }
    }
}

#[test]
fn blocks_equal_the_scanner_on_long_texts() {
    let mut random = Random(0x5EED_0BAD_7654_3211);
    for (_, pattern, both) in PATTERNS.iter().filter(|(name, ..)| SHAPED.contains(name)) {
        let rules = rules(pattern, *both);
        for _ in 0..cases(300) {
            let text: String = (0..random.below(40)).map(|_| random.text(60)).collect();
            let expected: Vec<Range<usize>> = rules.matches(&text).collect();
            assert_blocks_same(&rules, &text, &expected);
        }
    }
}

#[test]
fn patterns_in_use_on_random_texts() {
    let mut random = Random(0x9E37_79B9_7F4A_7C15);
    for (_, pattern, both) in PATTERNS {
        let engine = fancy_regex::Regex::new(pattern).unwrap();
        let rules = rules(pattern, *both);
        for _ in 0..cases(5_000) {
            assert_same(&engine, &rules, &random.text(40));
        }
    }
}

#[test]
fn patterns_in_use_on_all_short_texts() {
    let longest = if cases(0) > 100_000 { 5 } else { 3 };
    let mut texts = vec![String::new()];
    let mut shorter = 0..1;
    for _ in 0..longest {
        let longer: Vec<String> = texts[shorter.clone()]
            .iter()
            .flat_map(|text| SORTS.iter().map(move |sort| format!("{text}{sort}")))
            .collect();
        shorter = texts.len()..texts.len() + longer.len();
        texts.extend(longer);
    }
    for (_, pattern, both) in PATTERNS {
        let engine = fancy_regex::Regex::new(pattern).unwrap();
        let rules = rules(pattern, *both);
        for text in &texts {
            assert_same(&engine, &rules, text);
        }
    }
}

#[test]
fn random_patterns() {
    const SETS: &[&str] = &[
        r"\p{L}",
        r"\p{N}",
        r"\s",
        r"\S",
        r"\d",
        r"[\r\n]",
        r"\n",
        " ",
        "[ ]",
        "'",
        "/",
        "a",
        "[a-z]",
        "[A-Za-z]",
        r"\p{M}",
        r"[\p{L}\p{M}]",
        r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]",
        r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]",
        r"[^\r\n\p{L}\p{N}]",
        r"[^\s\p{L}\p{N}]",
        r"[\r\n/]",
        r"\p{P}",
        r"[\p{P}\p{S}]",
        r"\p{Han}",
        r"[\p{L}&&[^\p{Han}]]",
        r"[^\s]",
        "[一-龥]",
        "[-a]",
        "[!-/]",
        r"[\s\d]",
        r"[^\n]",
    ];
    const QUANTIFIERS: &[&str] = &[
        "", "", "?", "*", "+", "+", "?+", "*+", "++", "{1,3}", "{2}", "{2,}", "{1,2}+",
    ];
    const ENDINGS: &[&str] = &[
        "",
        "",
        "",
        "",
        r"(?!\S)",
        "$",
        "(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
        "(?:'s|'t|'re|'ve|'m|'ll|'d)?",
    ];
    let mut random = Random(0x1234_5678_9ABC_DEF1);
    let mut recognised = 0;
    for _ in 0..cases(10_000) {
        let mut alternatives = Vec::new();
        for _ in 0..=random.below(4) {
            let sets: Vec<&str> = (0..=random.below(3)).map(|_| random.pick(SETS)).collect();
            let ending = random.pick(ENDINGS);
            let spelled = |quantifiers: &[&str]| -> String {
                sets.iter()
                    .zip(quantifiers)
                    .map(|(set, quantifier)| format!("{set}{quantifier}"))
                    .collect::<String>()
                    + ending
            };
            match (random.below(5), sets.len()) {
                (0, 2) => alternatives.extend([spelled(&["*", "+"]), spelled(&["+", "*"])]),
                (0, 3) => {
                    alternatives.extend([spelled(&["?", "*", "+"]), spelled(&["?", "+", "*"])])
                }
                (1, _) => alternatives.push(r"\s*[\r\n]+".to_owned()),
                (2, _) => alternatives.push(r"\s+(?!\S)".to_owned()),
                _ => alternatives.push(spelled(&[
                    random.pick(QUANTIFIERS),
                    random.pick(QUANTIFIERS),
                    random.pick(QUANTIFIERS),
                ])),
            }
        }
        let pattern = alternatives.join("|");
        let Some(rules) = Rules::recognise(&pattern, Dialect::FancyRegex) else {
            continue;
        };
        recognised += 1;
        let engine = fancy_regex::Regex::new(&pattern).expect(&pattern);
        for _ in 0..30 {
            assert_same(&engine, &rules, &random.text(12));
        }
    }
    assert!(recognised > cases(10_000) / 20, "{recognised}");
}

#[test]
fn real_texts() {
    let Some(folder) = std::env::var_os("GRISTMILL_CORPORA") else {
        return;
    };
    let mut folders = vec![std::path::PathBuf::from(folder)];
    let mut texts = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let mut start = Vec::new();
            std::fs::File::open(path)
                .unwrap()
                .take(200_000)
                .read_to_end(&mut start)
                .unwrap();
            texts.push(String::from_utf8_lossy(&start).into_owned());
        }
    }
    for (_, pattern, both) in PATTERNS {
        let engine = fancy_regex::Regex::new(pattern).unwrap();
        let rules = rules(pattern, *both);
        for text in &texts {
            assert_same(&engine, &rules, text);
        }
    }
}

#[test]
fn no_text_takes_long() {
    let units = [
        " ", "a", "A", "\u{301}", "Aa", "aA", "中A", "中", "1", "\n", " \n", "\r\n", "/", "'",
        "'s", "!", " a", "  a", "\t ", "\u{3000}", "½", "\0", "!\n/", "ʰA", "\u{301}A", "A\u{301}",
        "か", "a ",
    ];
    let ends = ["", "\n", "x", "A", "!", "1", "\u{301}", " \nx"];
    let units = units
        .iter()
        .flat_map(|unit| ends.iter().map(move |end| (unit, end)));
    for (unit, end) in units {
        let text = unit.repeat(200_000 / unit.len()) + end;
        for (name, pattern, both) in PATTERNS {
            let rules = rules(pattern, *both);
            let before = Instant::now();
            let count = rules.matches(&text).count();
            assert!(
                before.elapsed() < Duration::from_secs(1),
                "{name}: {unit:?} and {end:?}, {count} matches"
            );
        }
    }
}

#[test]
fn matches_by_hand() {
    let pieces = |pattern: &str, text: &str| -> Vec<String> {
        let rules = Rules::recognise(pattern, Dialect::Oniguruma).unwrap();
        rules
            .matches(text)
            .map(|range| text[range].to_owned())
            .collect()
    };
    assert_eq!(pieces(GPT2, "a  b"), ["a", " ", " b"]);
    assert_eq!(
        pieces(GPT2, "I'M we'll  "),
        ["I", "'", "M", " we", "'ll", "  "]
    );
    assert_eq!(
        pieces(LLAMA3, "'ſa \n \n x1234"),
        ["'ſ", "a", " \n \n", " x", "123", "4"]
    );
    assert_eq!(
        pieces(LLAMA3, "__foo\u{3000}中"),
        ["__", "foo", "\u{3000}中"]
    );
    assert_eq!(
        pieces(O200K, "HTTPResponse can'Ts AxxB"),
        ["HTTPResponse", " can'T", "s", " Axx", "B"]
    );
    assert_eq!(
        pieces(O200K, "文A \u{301}A .\n//"),
        ["文", "A", " \u{301}", "A", " .\n//"]
    );
    assert_eq!(pieces(DEEPSEEK, "_foo1 x"), ["_foo", " x"]);
    assert!(pieces(LLAMA3, "").is_empty());
}

#[test]
fn what_needs_other_backtracking_is_refused() {
    let refused = [
        r"\p{L}*",
        r"a?b?",
        r"a*b+",
        r"a*b",
        r"\s*a",
        r"\s*+\n",
        r"\s+\n",
        r"\s++(?!\S)",
        r"a+(?!\S)",
        r"\s(?!\S)",
        r"\s*(?!\S)",
        r"a+$",
        r"a?+a",
        r"abc",
        r"\p{Lu}*\p{Ll}+|\p{Lu}+\p{L}*",
        r"\p{L}*+\p{Ll}+|\p{L}+\p{Ll}*",
        r"\p{L}+(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
        r"\s*\n+|\s*\r+",
        r"[0-9]{200}[0-9]{200}",
        r"a{2}b+",
        r"a{0,2}b+",
    ];
    for pattern in refused {
        assert!(
            Rules::recognise(pattern, Dialect::FancyRegex).is_none(),
            "{pattern}"
        );
    }
    let sets = ('a'..='z').chain('A'..='Z').map(String::from);
    let many: Vec<String> = sets.collect();
    assert!(Rules::recognise(&many[..32].join("|"), Dialect::FancyRegex).is_some());
    assert!(Rules::recognise(&many[..33].join("|"), Dialect::FancyRegex).is_none());
}
