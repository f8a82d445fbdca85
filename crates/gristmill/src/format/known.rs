//! Rank files known by their checksum, and what their publishers' code adds to them.
//!
//! Each entry's pattern and special tokens are facts of the package or repository named beside it.
//! A new file is a new row here and a golden file in the tests.

use std::collections::BTreeMap;

const R50K: &str =
    r"'(?:[sdmt]|ll|ve|re)| ?\p{L}++| ?\p{N}++| ?[^\s\p{L}\p{N}]++|\s++$|\s+(?!\S)|\s";

const CL100K: &str = concat!(
    r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+| ?[^\s\p{L}\p{N}]++[\r\n]*+",
    r"|\s++$|\s*[\r\n]|\s+(?!\S)|\s",
);

const O200K: &str = concat!(
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+",
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
    r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*",
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
    r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+",
);

const LLAMA3: &str = concat!(
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}",
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
);

const KIMI: &str = concat!(
    r"[\p{Han}]+",
    r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*",
    r"[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
    r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+",
    r"[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
    r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
);

/// What belongs to a rank file but is not in it.
pub(crate) struct Known {
    pub(crate) name: &'static str,
    /// SHA-256 of the file.
    pub(crate) sha256: &'static str,
    pub(crate) pattern: &'static str,
    special: &'static [Special],
}

/// Some special tokens.
enum Special {
    /// One, with its id.
    One(&'static str, u32),
    /// One after the other from an id on.
    From(u32, &'static [&'static str]),
    /// Numbered ones: the id of the first, what stands around the number, the first number, how many.
    Numbered(u32, (&'static str, &'static str), u32, u32),
}

use Special::{From, Numbered, One};

/// OpenAI's: tiktoken 0.14, tiktoken_ext/openai_public.py.
const END_OF_TEXT_50K: &[Special] = &[One("<|endoftext|>", 50256)];
const CL100K_SPECIAL: &[Special] = &[
    From(
        100_257,
        &[
            "<|endoftext|>",
            "<|fim_prefix|>",
            "<|fim_middle|>",
            "<|fim_suffix|>",
        ],
    ),
    One("<|endofprompt|>", 100_276),
];
const O200K_SPECIAL: &[Special] = &[
    One("<|endoftext|>", 199_999),
    One("<|endofprompt|>", 200_018),
];
const HARMONY_SPECIAL: &[Special] = &[
    From(199_998, &["<|startoftext|>", "<|endoftext|>"]),
    Numbered(200_000, ("<|reserved_", "|>"), 200_000, 2),
    From(200_002, &["<|return|>", "<|constrain|>"]),
    One("<|reserved_200004|>", 200_004),
    From(
        200_005,
        &["<|channel|>", "<|start|>", "<|end|>", "<|message|>"],
    ),
    Numbered(200_009, ("<|reserved_", "|>"), 200_009, 3),
    One("<|call|>", 200_012),
    Numbered(200_013, ("<|reserved_", "|>"), 200_013, 1075),
    // The name that o200k_base has for this id, valid beside the reserved one.
    One("<|endofprompt|>", 200_018),
];
/// Meta's: llama-models 0.3.0, llama3/tokenizer.py and llama4/tokenizer.py.
const LLAMA3_SPECIAL: &[Special] = &[
    From(
        128_000,
        &[
            "<|begin_of_text|>",
            "<|end_of_text|>",
            "<|reserved_special_token_0|>",
            "<|reserved_special_token_1|>",
            "<|finetune_right_pad_id|>",
            "<|step_id|>",
            "<|start_header_id|>",
            "<|end_header_id|>",
            "<|eom_id|>",
            "<|eot_id|>",
            "<|python_tag|>",
            "<|image|>",
        ],
    ),
    Numbered(128_012, ("<|reserved_special_token_", "|>"), 2, 244),
];
const LLAMA4_SPECIAL: &[Special] = &[
    From(
        200_000,
        &[
            "<|begin_of_text|>",
            "<|end_of_text|>",
            "<|fim_prefix|>",
            "<|fim_middle|>",
            "<|fim_suffix|>",
            "<|header_start|>",
            "<|header_end|>",
            "<|eom|>",
            "<|eot|>",
            "<|step|>",
            "<|text_post_train_reserved_special_token_0|>",
            "<|text_post_train_reserved_special_token_1|>",
            "<|text_post_train_reserved_special_token_2|>",
            "<|text_post_train_reserved_special_token_3|>",
            "<|text_post_train_reserved_special_token_4|>",
            "<|text_post_train_reserved_special_token_5|>",
            "<|python_start|>",
            "<|python_end|>",
            "<|finetune_right_pad|>",
        ],
    ),
    Numbered(
        200_019,
        ("<|text_post_train_reserved_special_token_", "|>"),
        8,
        61,
    ),
    From(
        200_080,
        &[
            "<|image_start|>",
            "<|image_end|>",
            "<|vision_reserved_special_token_0|>",
            "<|vision_reserved_special_token_1|>",
            "<|tile_x_separator|>",
            "<|tile_y_separator|>",
            "<|vision_reserved_special_token_2|>",
            "<|vision_reserved_special_token_3|>",
            "<|vision_reserved_special_token_4|>",
            "<|vision_reserved_special_token_5|>",
            "<|image|>",
            "<|vision_reserved_special_token_6|>",
            "<|patch|>",
        ],
    ),
    Numbered(200_093, ("<|vision_reserved_special_token_", "|>"), 7, 1041),
    Numbered(201_134, ("<|reasoning_reserved_special_token_", "|>"), 0, 8),
    From(
        201_142,
        &["<|reasoning_thinking_start|>", "<|reasoning_thinking_end|>"],
    ),
    Numbered(201_144, ("<|reserved_special_token_", "|>"), 0, 904),
];
/// Moonshot's: tokenizer_config.json and tokenization_kimi.py of Kimi-K2-Instruct.
const KIMI_SPECIAL: &[Special] = &[
    From(
        163_584,
        &[
            "[BOS]",
            "[EOS]",
            "<|im_end|>",
            "<|im_user|>",
            "<|im_assistant|>",
        ],
    ),
    One("<|reserved_token_163589|>", 163_589),
    From(163_590, &["<|start_header_id|>", "<|end_header_id|>"]),
    One("<|reserved_token_163592|>", 163_592),
    From(
        163_593,
        &[
            "[EOT]",
            "<|im_system|>",
            "<|tool_calls_section_begin|>",
            "<|tool_calls_section_end|>",
            "<|tool_call_begin|>",
            "<|tool_call_argument_begin|>",
            "<|tool_call_end|>",
        ],
    ),
    One("<|reserved_token_163600|>", 163_600),
    One("<|im_middle|>", 163_601),
    Numbered(163_602, ("<|reserved_token_", "|>"), 163_602, 236),
    From(163_838, &["[UNK]", "[PAD]"]),
    Numbered(163_840, ("<|reserved_token_", "|>"), 163_840, 2),
];

const KNOWN: [Known; 7] = [
    Known {
        name: "r50k_base",
        sha256: "306cd27f03c1a714eca7108e03d66b7dc042abe8c258b44c199a7ed9838dd930",
        pattern: R50K,
        special: END_OF_TEXT_50K,
    },
    Known {
        name: "p50k_base",
        sha256: "94b5ca7dff4d00767bc256fdd1b27e5b17361d7b8a5f968547f9f23eb70d2069",
        pattern: R50K,
        special: END_OF_TEXT_50K,
    },
    Known {
        name: "cl100k_base",
        sha256: "223921b76ee99bde995b7ff738513eef100fb51d18c93597a113bcffe865b2a7",
        pattern: CL100K,
        special: CL100K_SPECIAL,
    },
    Known {
        name: "o200k_base",
        sha256: "446a9538cb6c348e3516120d7c08b09f57c36495e2acfffe59a5bf8b0cfb1a2d",
        pattern: O200K,
        special: O200K_SPECIAL,
    },
    Known {
        name: "llama3",
        sha256: "82e9d31979e92ab929cd544440f129d9ecd797b69e327f80f17e1c50d5551b55",
        pattern: LLAMA3,
        special: LLAMA3_SPECIAL,
    },
    Known {
        name: "llama4",
        sha256: "d0bdbaf59b0762c8c807617e2d8ea51420eb1b1de266df2495be755c8e0ed6ed",
        pattern: O200K,
        special: LLAMA4_SPECIAL,
    },
    Known {
        name: "kimi_k2",
        sha256: "b6c497a7469b33ced9c38afb1ad6e47f03f5e5dc05f15930799210ec050c5103",
        pattern: KIMI,
        special: KIMI_SPECIAL,
    },
];

/// Ranks of another file under another name, with other special tokens.
pub(crate) const HARMONY: Known = Known {
    name: "o200k_harmony",
    sha256: "446a9538cb6c348e3516120d7c08b09f57c36495e2acfffe59a5bf8b0cfb1a2d",
    pattern: O200K,
    special: HARMONY_SPECIAL,
};

/// GPT-2's, which are those of r50k_base.
pub(crate) const GPT2: Known = Known {
    name: "gpt2",
    sha256: "306cd27f03c1a714eca7108e03d66b7dc042abe8c258b44c199a7ed9838dd930",
    pattern: R50K,
    special: END_OF_TEXT_50K,
};

/// The file with this checksum.
pub(crate) fn by_checksum(sha256: &str) -> Option<&'static Known> {
    KNOWN.iter().find(|known| known.sha256 == sha256)
}

/// The file of this name.
pub(crate) fn by_name(name: &str) -> Option<&'static Known> {
    KNOWN.iter().find(|known| known.name == name)
}

impl Known {
    /// The special tokens and their ids.
    pub(crate) fn special_tokens(&self) -> BTreeMap<String, u32> {
        let mut tokens = BTreeMap::new();
        for special in self.special {
            match special {
                One(name, id) => {
                    tokens.insert((*name).to_owned(), *id);
                }
                From(first, names) => {
                    tokens.extend(names.iter().map(|&name| name.to_owned()).zip(*first..));
                }
                Numbered(first, (before, after), number, count) => {
                    let token = |offset: u32| {
                        let name = format!("{before}{}{after}", number + offset);
                        (name, first + offset)
                    };
                    tokens.extend((0..*count).map(token));
                }
            }
        }
        tokens
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn special_tokens_are_where_their_publishers_put_them() {
        let tokens = |name: &str| by_name(name).map(Known::special_tokens).unwrap();
        assert_eq!(tokens("cl100k_base").len(), 5);
        let llama3 = tokens("llama3");
        assert_eq!(llama3.len(), 256);
        assert_eq!(llama3["<|eot_id|>"], 128_009);
        assert_eq!(llama3["<|reserved_special_token_245|>"], 128_255);
        let llama4 = tokens("llama4");
        assert_eq!(llama4.len(), 2048);
        assert_eq!(llama4["<|patch|>"], 200_092);
        assert_eq!(llama4["<|reserved_special_token_903|>"], 202_047);
        let kimi = tokens("kimi_k2");
        assert_eq!(kimi.len(), 258);
        assert_eq!(kimi["<|im_middle|>"], 163_601);
        assert_eq!(kimi["<|reserved_token_163600|>"], 163_600);
        let harmony = HARMONY.special_tokens();
        assert_eq!(harmony["<|call|>"], 200_012);
        assert_eq!(harmony["<|reserved_201087|>"], 201_087);
        assert_eq!(harmony["<|endofprompt|>"], harmony["<|reserved_200018|>"]);
        assert_eq!(harmony.len(), 1091);
    }
}
