//! Normalizers: what a tokenizer does to a text before it is split.
//!
//! Those of tokenizer.json are one enum, [`Normalizer`]; the one of SentencePiece models stands beside it in
//! [`sentencepiece`]. Invariant: text, origins and refusals equal those of the reference implementation, and a text that
//! a normalizer leaves alone is passed on without a copy. Tested by unit tests with values from the reference.

mod bert;
mod byte_level;
mod charsmap;
mod forms;
mod load;
mod precompiled;
mod prefix;
mod replace;
pub(crate) mod sentencepiece;
mod simple;

pub(crate) use forms::Form;
pub(crate) use precompiled::Precompiled;
pub(crate) use prefix::PrefixMatcher;
pub(crate) use replace::Replace;
pub(crate) use sentencepiece::{SentencePieceFlags, SentencePieceNormalizer};

use crate::{error::Result, text::Text};

/// One normalizer of a tokenizer.json file.
#[derive(Debug)]
#[non_exhaustive]
pub(crate) enum Normalizer {
    /// NFC, NFD, NFKC or NFKD of Unicode 9.0.
    Form(Form),
    /// Lower case, character by character.
    Lowercase,
    /// White space at the ends goes.
    Strip {
        /// At the start.
        left: bool,
        /// At the end.
        right: bool,
    },
    /// Combining marks go.
    StripAccents,
    /// A prefix for every text that is not empty.
    Prepend(String),
    /// Matches of a pattern are replaced.
    Replace(Replace),
    /// What BERT does.
    Bert(Bert),
    /// The cleaning rules of SentencePiece's "nmt".
    Nmt,
    /// The compiled rules of a SentencePiece model, as tokenizer.json applies them.
    Precompiled(Precompiled),
    /// Each byte becomes the character that stands for it.
    ByteLevel,
    /// One after the other. Sequences in sequences are flattened when loaded.
    Sequence(Vec<Normalizer>),
}

/// The switches of the BERT normalizer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Bert {
    /// Control characters go, white space becomes a space.
    pub(crate) clean_text: bool,
    /// Spaces around Chinese characters.
    pub(crate) handle_chinese_chars: bool,
    /// NFD without nonspacing marks.
    pub(crate) strip_accents: bool,
    /// Lower case.
    pub(crate) lowercase: bool,
}

impl Normalizer {
    /// Whether the text is written in the byte-level alphabet.
    pub(crate) fn is_byte_level(&self) -> bool {
        match self {
            Self::ByteLevel => true,
            Self::Sequence(steps) => steps.iter().any(Self::is_byte_level),
            _ => false,
        }
    }

    /// The character that stands for a space, and whether one more stands before every text, if nothing
    /// else is done to a text.
    pub(crate) fn visible_spaces(&self) -> Option<(char, bool)> {
        match self {
            Self::Replace(replace) => Some((replace.space()?, false)),
            Self::Sequence(steps) => match steps.as_slice() {
                [Self::Replace(replace)] => Some((replace.space()?, false)),
                [Self::Prepend(prefix), Self::Replace(replace)] => {
                    let space = replace.space()?;
                    let same = prefix.chars().eq([space]) || prefix == " ";
                    same.then_some((space, true))
                }
                _ => None,
            },
            _ => None,
        }
    }

    /// Whether ASCII characters stay as they are and keep what stands before them apart from what stands
    /// behind: composition joins nothing across the one in front of them.
    pub(crate) fn leaves_ascii(&self) -> bool {
        match self {
            Self::Form(_) => true,
            Self::Sequence(steps) => steps.iter().all(Self::leaves_ascii),
            _ => false,
        }
    }

    /// Normalizes a text. A text that stays as it is comes back without a copy.
    pub(crate) fn apply<'a>(&self, text: Text<'a>) -> Result<Text<'a>> {
        match self {
            Self::Form(form) => form.apply(text),
            Self::Lowercase => simple::lowercase(text),
            Self::Strip { left, right } => simple::strip(text, *left, *right),
            Self::StripAccents => simple::strip_accents(text),
            Self::Prepend(prefix) => Ok(text.prepend(prefix)),
            Self::Replace(replace) => replace.apply(text),
            Self::Bert(bert) => bert.apply(text),
            Self::Nmt => simple::nmt(text),
            Self::Precompiled(rules) => rules.apply(text),
            Self::ByteLevel => byte_level::apply(text),
            Self::Sequence(steps) => steps.iter().try_fold(text, |text, step| step.apply(text)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn load(value: &Value) -> Result<Normalizer> {
        Normalizer::from_json(value)
    }

    fn check(value: &Value, cases: &[(&str, &str)]) {
        let normalizer = load(value).unwrap();
        for (old, new) in cases {
            assert_eq!(
                normalizer.apply(Text::untracked(old)).unwrap().as_str(),
                *new,
                "{value}"
            );
            assert_eq!(
                normalizer.apply(Text::tracked(old, 0)).unwrap().as_str(),
                *new,
                "{value}"
            );
        }
    }

    #[test]
    fn values_from_the_reference() {
        check(
            &json!({"type": "NFC"}),
            &[
                ("e\u{301}", "é"),
                ("\u{1611e}\u{1611f}", "\u{1611e}\u{1611f}"),
            ],
        );
        check(
            &json!({"type": "NFKC"}),
            &[
                ("\u{1fbd}", " \u{313}"),
                ("ﬁ①", "fi1"),
                ("\u{eb9}\u{eba}", "\u{eb9}\u{eba}"),
            ],
        );
        check(
            &json!({"type": "NFKD"}),
            &[("각\u{fb01}", "\u{1100}\u{1161}\u{11a8}fi")],
        );
        check(
            &json!({"type": "Lowercase"}),
            &[("ΑΣ İẞ", "ασ i\u{307}ß"), ("plain", "plain")],
        );
        check(
            &json!({"type": "StripAccents"}),
            &[("e\u{301}\u{903}é", "eé")],
        );
        check(
            &json!({"type": "Nmt"}),
            &[("a\x01\t\u{200b}\u{2581}\u{85}b", "a   \u{85}b")],
        );
        check(
            &json!({"type": "ByteLevel"}),
            &[("a é\n", "aĠÃ©Ċ"), ("", "")],
        );
        check(
            &json!({"type": "Strip", "strip_left": true, "strip_right": false}),
            &[("\u{3000} a ", "a ")],
        );
        check(
            &json!({"type": "Strip", "strip_left": true, "strip_right": true}),
            &[(" \u{85}", ""), (" a b\n", "a b")],
        );
    }

    #[test]
    fn bert() {
        let bert = |lowercase: bool| {
            json!({"type": "BertNormalizer", "clean_text": true, "handle_chinese_chars": true, "strip_accents": null,
                "lowercase": lowercase})
        };
        check(
            &bert(true),
            &[
                ("Éa\u{0}\t中B\u{ad}", "ea  中 b"),
                ("\u{2b91f}", "\u{2b91f}"),
            ],
        );
        check(&bert(false), &[("Éa中", "Éa 中 ")]);
    }

    #[test]
    fn prefixes_and_replacements() {
        let space = json!({"type": "Replace", "pattern": {"String": " "}, "content": "▁"});
        check(&space, &[(" a  b", "▁a▁▁b"), ("ab", "ab"), ("", "")]);
        let prefix = json!({"type": "Prepend", "prepend": "▁"});
        let llama = json!({"type": "Sequence", "normalizers": [prefix, {"type": "Sequence", "normalizers": [space]}]});
        check(&llama, &[(" x", "▁▁x"), ("▁", "▁▁"), ("", "")]);
        let empty = json!({"type": "Replace", "pattern": {"String": ""}, "content": "-"});
        check(&empty, &[("aé", "-a-é-"), ("", "")]);
        check(
            &json!({"type": "Replace", "pattern": {"String": "aa"}, "content": "b"}),
            &[("aaaaa", "bba")],
        );
    }

    #[test]
    fn refuses_by_name() {
        let mut deep = json!({"type": "NFC"});
        for _ in 0..70 {
            deep = json!({"type": "Sequence", "normalizers": [deep]});
        }
        let refused = [
            (json!({"type": "Fancy"}), "\"Fancy\""),
            (deep, "nested"),
            (
                json!({"type": "Replace", "pattern": {"Regex": "(a)\\1"}, "content": ""}),
                "reference",
            ),
            (
                json!({"type": "Replace", "pattern": {"Glob": "a"}, "content": ""}),
                "Glob",
            ),
            (json!({"type": "Strip", "strip_left": true}), "strip_right"),
            (
                json!({"type": "Precompiled", "precompiled_charsmap": "AA=="}),
                "header",
            ),
            (
                json!({"type": "Precompiled", "precompiled_charsmap": "*"}),
                "precompiled_charsmap",
            ),
            (json!([]), "object"),
            (json!({}), "no type"),
        ];
        for (value, name) in refused {
            let message = load(&value).unwrap_err().to_string();
            assert!(message.contains(name), "{message}");
        }
        for untyped in [
            json!({"strip_left": true, "strip_right": true}),
            json!({"prepend": "a"}),
        ] {
            assert!(load(&untyped).is_ok());
        }
    }

    /// The reference takes lower case and white space from the standard library it was built with, and so do we. Should
    /// a later one differ, this fails, and the difference belongs into a table.
    #[test]
    fn the_standard_library_has_the_unicode_version_of_the_reference() {
        let mut hash = 0xcbf2_9ce4_8422_2325_u64;
        for character in '\0'..=char::MAX {
            let white = character.is_whitespace().then_some('w');
            for part in character.to_lowercase().chain(white) {
                hash = (hash ^ u64::from(u32::from(part))).wrapping_mul(0x0100_0000_01b3);
            }
        }
        assert_eq!(hash, 3_997_948_680_138_730_524);
    }
}
