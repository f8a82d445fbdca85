//! The engine against fancy-regex, and against the clock.

use std::time::{Duration, Instant};

use super::{Dialect, Regex, parse};
use crate::error::Error;

mod generate;
mod naive;
mod oniguruma;
mod patterns;

use generate::{HOSTILE, Random};

/// The matches our engine finds; panics on an error.
fn ours(regex: &Regex, text: &str) -> Vec<(usize, usize)> {
    regex
        .matches(text)
        .map(|found| found.unwrap())
        .map(|range| (range.start, range.end))
        .collect()
}

/// The matches fancy-regex finds, or nothing when it gives up.
fn theirs(regex: &fancy_regex::Regex, text: &str) -> Option<Vec<(usize, usize)>> {
    regex
        .find_iter(text)
        .map(|found| found.ok().map(|found| (found.start(), found.end())))
        .collect()
}

#[test]
fn known_patterns_over_hostile_texts() {
    for (name, pattern) in patterns::SHARED {
        let ours_compiled = Regex::new(pattern, Dialect::FancyRegex).unwrap();
        let theirs_compiled = fancy_regex::Regex::new(pattern).unwrap();
        Regex::new(pattern, Dialect::Oniguruma).unwrap();
        let mut random = Random::new(name.len() as u64);
        for _ in 0..rounds(600) {
            let text = generate::text(&mut random, HOSTILE, 60);
            let expected = theirs(&theirs_compiled, &text).unwrap();
            assert_eq!(ours(&ours_compiled, &text), expected, "{name} on {text:?}");
        }
    }
}

/// How many rounds of something to do: all of them, fewer where the build is slow.
fn rounds(all: usize) -> usize {
    if cfg!(debug_assertions) { all / 8 } else { all }
}

/// Characters for random patterns, which are about `a`, `b` and `c`.
const FEW: &[char] = &['a', 'b', 'c', 'a', '\n', 'é'];

#[test]
fn random_patterns_against_plain_backtracking() {
    for dialect in [Dialect::Oniguruma, Dialect::FancyRegex] {
        let mut random = Random::new(5);
        let mut compared = 0;
        for _ in 0..rounds(4_000) {
            let depth = 1 + random.below(3);
            let pattern = generate::pattern(&mut random, depth);
            let Ok(regex) = Regex::new(&pattern, dialect) else {
                continue;
            };
            let tree = parse::parse(&pattern, dialect).unwrap();
            for longest in [6, 10, 14, 20] {
                let text = generate::text(&mut random, FEW, longest);
                let Some(expected) = naive::Naive::matches(&tree, &text, dialect) else {
                    continue;
                };
                compared += 1;
                let found = ours(&regex, &text);
                assert_eq!(found, expected, "{dialect:?} {pattern:?} on {text:?}");
            }
        }
        assert!(compared > rounds(5_000), "{compared}");
    }
}

#[test]
fn random_patterns_against_fancy_regex() {
    let mut random = Random::new(7);
    let mut compared = 0;
    for _ in 0..rounds(6_000) {
        let pattern = generate::pattern(&mut random, 2);
        let Ok(theirs_compiled) = fancy_regex::Regex::new(&pattern) else {
            continue;
        };
        let Ok(ours_compiled) = Regex::new(&pattern, Dialect::FancyRegex) else {
            continue;
        };
        for _ in 0..8 {
            let text = generate::text(&mut random, FEW, 20);
            let Some(expected) = theirs(&theirs_compiled, &text) else {
                continue;
            };
            compared += 1;
            let found = ours(&ours_compiled, &text);
            assert_eq!(found, expected, "{pattern:?} on {text:?}");
        }
    }
    assert!(compared > rounds(20_000), "{compared}");
}

#[test]
fn what_oniguruma_matches() {
    for (pattern, text, expected) in oniguruma::CASES {
        let regex = Regex::new(pattern, Dialect::Oniguruma).unwrap();
        assert_eq!(ours(&regex, text), *expected, "{pattern:?} on {text:?}");
    }
}

#[test]
fn every_character_in_every_class() {
    let wanted =
        |number: &u32| !cfg!(debug_assertions) || *number < 0x1_0000 || number.is_multiple_of(31);
    let text: String = (0..=0x10_FFFF)
        .filter(wanted)
        .filter_map(char::from_u32)
        .collect();
    for pattern in [
        r"\w",
        r"\W",
        r"\d",
        r"\s",
        r"\S",
        r"\h",
        r"\H",
        ".",
        r"\p{L}",
        r"\pN",
        r"\p{^L}",
        r"\P{Han}",
        r"\p{Alphabetic}",
        r"\p{Script=Greek}",
        r"[\p{L}&&[^\p{Han}]]",
        r"[\w--[a-z]]",
        r"[\w~~\d]",
        r"[[:alpha:]\d]",
        r"[^\W_]",
        r"(?i)\p{Lu}",
        r"(?i)[^\p{Lu}]",
        r"(?i)[k-s]",
        r"(?i)[^k-s]",
        "(?i)s",
        "(?i)ß",
        r"(?i)\x{3A9}",
        r"(?i)\P{Lu}",
        r"(?i)[\P{Lu}x]",
        r"(?i)\w",
        "(?s).",
        r"\p{word}",
        r"[\p{^word}]",
        r"\P{Word}",
        r"[^\p{^L}]",
        r"\N",
        r"\O",
    ] {
        let ours_compiled = Regex::new(pattern, Dialect::FancyRegex).unwrap();
        let theirs_compiled = fancy_regex::Regex::new(pattern).unwrap();
        let expected = theirs(&theirs_compiled, &text).unwrap();
        assert!(ours(&ours_compiled, &text) == expected, "{pattern}");
    }
}

#[test]
fn anchors_flags_and_empty_matches() {
    for pattern in [
        "",
        "a*",
        "|a",
        "a|",
        "a??",
        "(?:)",
        "^",
        "$",
        "(?m)^",
        "(?m)$",
        "(?m)^a?",
        r"\A",
        r"\z",
        r"\Z",
        r"\b",
        r"\B",
        r"a\Z",
        r"\n\Z",
        r"a*\b",
        "(?<=a)",
        "(?<!a)b?",
        "(?=b)",
        "(?!b)",
        "(?<=a|bc)",
        "(?<=^|b)a",
        r"(?x) a b # c",
        "(?x)a *b",
        "(?i)a(?-i)b",
        "(a(?i)b)c",
        "(?:a(?i)b)c",
        "(?i:a|b)c|A",
        "a(?i)b|c",
        r"(?i)\Aab",
        "(?s)a.b",
        "a.b",
        "a{,2}",
        "a{2}",
        "a{1",
        "{",
        "a{}",
        r"\x41\u0042\U00000043",
        r"\x{41}\u{42}",
        "[]a]+",
        "[^]a]+",
        "(?<name>a)b",
        "(?P<name>a)b",
        r"\ba\b",
        "(?>a|ab)c",
        "(?>a*)a",
        "a*+a",
        "a?+a",
        "(?:ab)++a",
        "(?:a|ab){1,2}+b",
        "(?i)\\é",
        "\\é",
    ] {
        let ours_compiled = Regex::new(pattern, Dialect::FancyRegex).unwrap();
        let theirs_compiled = fancy_regex::Regex::new(pattern).unwrap();
        let mut random = Random::new(3);
        for _ in 0..rounds(400) {
            let alphabet = [
                'a', 'b', 'c', 'A', 'B', 'C', '\n', 'é', 'É', '{', '}', '1', ']', ' ',
            ];
            let text = generate::text(&mut random, &alphabet, 8);
            let expected = theirs(&theirs_compiled, &text).unwrap();
            let found = ours(&ours_compiled, &text);
            assert_eq!(found, expected, "{pattern:?} on {text:?}");
        }
    }
}

/// One megabyte, less where the build is slow.
const LONG: usize = if cfg!(debug_assertions) {
    1 << 15
} else {
    1 << 20
};

/// Long texts on which a backtracking engine takes time that grows with the square of their length, or worse.
fn long_texts() -> Vec<(&'static str, String)> {
    let length = LONG;
    let mut random = Random::new(11);
    let mut mixed = String::new();
    while mixed.len() < length {
        mixed.push(random.one_of(&['a', 'a', 'a', 'b', ' ', '\n', 'c', 'é']));
    }
    let mut ends = "a".repeat(length);
    ends.push('b');
    vec![
        ("a", "a".repeat(length)),
        ("spaces", " ".repeat(length)),
        ("newlines", "\n".repeat(length)),
        ("a then b", ends),
        ("ab", "ab".repeat(length / 2)),
        ("aab", "aab".repeat(length / 3)),
        ("wide", "é".repeat(length / 2)),
        ("mixed", mixed),
    ]
}

#[test]
fn time_is_linear() {
    let mut accepted = 0;
    let gpt2 = patterns::SHARED[0].1;
    let cl100k = patterns::SHARED[2].1;
    let o200k = patterns::SHARED[6].1;
    for pattern in [
        "a+b|a",
        "(a*)*b|a",
        "a*?b|a",
        "(?:a|b)+c|a",
        r"\s+(?!\S)|\s+",
        "(?=a*b)a|a",
        "(?=a*b)a",
        "(?!a*b)a",
        "(?>a*)b|a",
        "(?>a*)c|a",
        "a++b|a",
        "a*a*a*c|a",
        "(?:a*b?)?c|a",
        "(?:ab|a)*c|a",
        "(?>(?:ab|a)*)c|a",
        "(?>a*(?>b*)c?)d|a",
        "(?=(?>a*b)c)a|a",
        "(?=.*(?=b*a)c)a|a",
        "(?:(?>a+b?))*c|a",
        "(?>(?>a*)b|a)c|a",
        "(?>a*?b)c|a",
        "(?>(?:a|ab)*?c)|a",
        "(?=(?:a|b)*?c)a|[ab]",
        r"(?:.*\n)*x|a",
        "a{0,100}b|a",
        "a{0,50}a{0,50}b|a",
        "(?<=a{0,20}b)c|a",
        r"(?:a\Z|a)",
        r"\n\Z|\n",
        "(?<![ab]{3})a|a",
        "(?>a*|b)*c|a",
        "(?>a+|b)*c|a",
        r"(?:\w+\s?)+!|a",
        "(?=a*)a",
        "(?:(?!c).)*c|a",
        "(?:a(?=a*c)|a)*b|a",
        gpt2,
        cl100k,
        o200k,
    ] {
        for dialect in [Dialect::Oniguruma, Dialect::FancyRegex] {
            let Ok(regex) = Regex::new(pattern, dialect) else {
                continue;
            };
            accepted += 1;
            for (name, text) in long_texts() {
                let start = Instant::now();
                match regex.matches(&text).find_map(Result::err) {
                    None | Some(Error::Limit { .. }) => {}
                    Some(error) => panic!("{error}"),
                }
                let taken = start.elapsed();
                // Time that grew with the square of the length would be minutes and more.
                assert!(
                    taken < Duration::from_secs(20),
                    "{pattern} on {name}: {taken:?}"
                );
            }
        }
    }
    assert!(accepted > 60, "{accepted}");
}

#[test]
fn time_grows_with_the_text() {
    // The same pattern on texts of one and of four times the length, to tell linear from slow.
    for pattern in [
        "a*a*a*c|a",
        "(?=(?>a*b)c)a|a",
        "(?>(?>a*)b|a)c|a",
        "(?:(?:a(?=a*c)|a)(?:ab|b)?)*+d|a",
    ] {
        let regex = Regex::new(pattern, Dialect::Oniguruma).unwrap();
        let time = |length: usize| {
            let text = "a".repeat(length);
            let start = Instant::now();
            assert_eq!(regex.matches(&text).count(), length);
            start.elapsed()
        };
        // Other work on the machine may hit either; what is slow is slow each time.
        let pairs: Vec<_> = (0..8).map(|_| (time(LONG / 8), time(LONG / 2))).collect();
        let short = pairs.iter().map(|times| times.0).min().unwrap_or_default();
        let long = pairs.iter().map(|times| times.1).min().unwrap_or_default();
        assert!(long < short * 10, "{pattern}: {short:?}, then {long:?}");
    }
}

#[test]
fn hostile_memory_is_an_error() {
    // Seven choices for each character, all of them open until the end of the text.
    let pattern = format!("(?:{}a)*c|a", "(?:ab|)".repeat(7));
    let regex = Regex::new(&pattern, Dialect::Oniguruma).unwrap();
    let text = "a".repeat(1 << 18);
    let mut matches = regex.matches(&text);
    let first = matches.next();
    assert!(matches!(first, Some(Err(Error::Limit { .. }))), "{first:?}");
    assert!(matches.next().is_none());
}

#[test]
fn hostile_patterns_are_read_in_bounded_time() {
    let spread: String = (0..20_000u32)
        .filter_map(|number| char::from_u32(0x4E00 + 2 * number % 0x5000))
        .collect();
    for pattern in [
        format!("[{spread}]"),
        spread.chars().map(|c| format!("{c}|")).collect(),
        format!("{}a{}", "[".repeat(30_000), "]".repeat(30_000)),
        r"\p{L}|".repeat(10_000),
        "(?:".repeat(60) + "a" + &"{2})".repeat(60),
        "a?".repeat(9_000),
        "(?=".repeat(60) + "a*" + &")b".repeat(60),
        "(?i)".repeat(15_000),
        "a{1000}{1000}{1000}".to_owned(),
    ] {
        for dialect in [Dialect::Oniguruma, Dialect::FancyRegex] {
            let start = Instant::now();
            let shown: String = pattern.chars().take(20).collect();
            if let Ok(regex) = Regex::new(&pattern, dialect) {
                drop(regex.matches("aaaa bbbb").last());
            }
            let taken = start.elapsed();
            assert!(taken < Duration::from_secs(10), "{shown}: {taken:?}");
        }
    }
}
