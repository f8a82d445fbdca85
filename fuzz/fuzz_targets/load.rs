//! Any bytes as a tokenizer file: what loads must work.
//!
//! Whatever stands before the first NUL is tried as options too: the pattern, then special tokens,
//! divided by the byte 1.
#![no_main]

use std::collections::BTreeMap;

use gristmill::{Options, Special, Tokenizer};
use gristmill_fuzz::{check_both, only_some, read_again};
use libfuzzer_sys::fuzz_target;

const TEXTS: [&str; 13] = [
    "",
    " ",
    "Hello, the world's 12 2nd-hand THINGS!",
    "  a  b \t\r\n\n c ",
    "\0\u{1}\u{7f}\u{ad}\u{feff}\u{fffd}\u{200b}\u{2028}\u{3000}",
    "e\u{301}\u{302}\u{323} \u{1100}\u{1161}\u{11a8} A\u{30a} \u{1d15e} \u{fb01} \u{fdfa}",
    "İıſßẞǅΣς \u{212a} \u{212b}",
    "中文かなカナ한글 हिन्दी ไทย عربى ٣",
    "🏳️‍🌈👨‍👩‍👧 \u{10ffff}\u{e000}",
    "▁▁the▁▁▁ Ġhe Ċ <0x0A><0xFF>",
    "<s></s><unk><pad><|endoftext|> <mask> [CLS]",
    "\u{301}\u{301}",
    "q\u{fffd}\u{fffd}\u{fffd}",
];

fuzz_target!(|data: &[u8]| {
    check_file(data, &Options::default());
    let mut halves = data.splitn(2, |&byte| byte == 0);
    if let (Some(head), Some(file)) = (halves.next(), halves.next())
        && let Ok(head) = std::str::from_utf8(head)
    {
        check_file(file, &options(head));
    }
});

fn options(head: &str) -> Options {
    let mut parts = head.split('\u{1}');
    let pattern = parts.next().unwrap_or_default();
    let special: BTreeMap<String, u32> = parts.map(str::to_owned).zip(500..).collect();
    Options::default().pattern(pattern).special_tokens(special)
}

fn check_file(file: &[u8], options: &Options) {
    let Ok(tokenizer) = Tokenizer::from_bytes(file, options) else {
        return;
    };
    let again = read_again(&tokenizer);
    let mut texts: Vec<String> = TEXTS.iter().map(|&text| text.to_owned()).collect();
    texts.push("a".repeat(300) + &" ".repeat(200) + &"e\u{301}".repeat(100));
    // A file may have millions of them, which would make a text that takes longer than all else.
    let special: Vec<&str> = tokenizer.special_tokens().into_keys().take(5_000).collect();
    texts.push(special.join("x "));
    for text in &texts {
        check_both(&tokenizer, &again, text, &Special::Text);
    }
    let only = only_some(&tokenizer, false);
    for special in [Special::Parse, Special::Forbid, only] {
        for text in texts.iter().rev().take(4) {
            check_both(&tokenizer, &again, text, &special);
        }
    }
}
