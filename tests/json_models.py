"""Made-up tokenizer.json files in the shapes that published models have.

Each file puts normalizer, pre-tokenizer, model, added tokens, post-processor and decoder
together as the family it is named after does; the vocabulary is small and trained here. Patterns
are spelled as those files spell them, since a spelling of its own is what a fast path may miss.
Where a family differs from another in nothing but its vocabulary, it is not here again.
"""

from collections.abc import Iterator
from functools import cache
from typing import Any

import json_cases as cases
import tiny
from json_cases import (
    CL100K_PATTERN,
    GPT2_PATTERN,
    Case,
    Json,
    byte_level,
    metaspace,
    place,
    replace,
    sequence,
    split,
    template,
)

# Qwen 2, StableLM 2 and others of cl100k with single digits.
QWEN = CL100K_PATTERN.replace("{1,3}", "")
# Qwen 3.5: marks belong to words.
QWEN_MARKS = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}"
    r"| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
O200K = (
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+"
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+"
    r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
MISTRAL = (
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+"
    r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*"
    r"|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
# Written with the contractions' letters in classes, by MiniMax, GLM 4 and DBRX.
CLASSES = CL100K_PATTERN.replace(
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)",
    "(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])",
)
DEEPSEEK_CODER = [
    r"[\r\n]",
    r"\s?\p{L}+",
    r"\s?\p{P}+",
    "[一-龥ࠀ-一가-퟿]+",
    r"\p{N}",
]
DEEPSEEK_LLM = [
    r"[\r\n]",
    r"\s?[A-Za-zµÀ-ÖØ-öø-ƺƼ-ƿǄ-ʓʕ-ʯͰ-ͳͶͷͻ-ͽͿΆΈ-ΊΌΎ-ΡΣ-ϵϷ-ҁҊ-ԯԱ-ՖႠ-ჅᎠ-Ᏽᏸ-ᏽᲐ-ᲺᲽ-Ჿᴀ-ᴫᵫ-ᵷᵹ-ᶚḀ-ἕ]+",
    r"\s?[!-/:-~！-／：-～‘-‟　-。]+",
    r"\s+$",
    "[一-龥ࠀ-一가-퟿]+",
    r"\p{N}+",
]
DEEPSEEK_3 = [
    r"\p{N}{1,3}",
    "[一-龥぀-ゟ゠-ヿ]+",
    r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+"
    r"| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
]
BLOOM = r" ?[^(\s|[.,!?…。，、।۔،])]+"
LLAMA_WORDS = r"\s?\p{L}+|\s?\p{N}+|[^\s\p{L}\p{N}]+|\s+"
HUNYUAN = r"(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]++[\r\n]*"

CHAT = ("<|im_start|>", "<|im_end|>", "<|endoftext|>")
FIM = ("<fim_prefix>", "<fim_middle>", "<fim_suffix>", "<file_sep>", "<reponame>")


def bytes_(*steps: Json, **changes: Any) -> Json:
    """A byte-level file whose last step is the alphabet."""
    steps = (*steps, byte_level(use_regex=False))
    return cases.by_bytes(pre_tokenizer=sequence("pretokenizers", *steps)) | changes


def patterns(*regexes: str, **changes: Any) -> Json:
    return bytes_(*(split({"Regex": regex}) for regex in regexes), **changes)


def bos(*before: int) -> Json:
    return template(
        [*(place(f"t{id}") for id in before), place()], **{f"t{id}": [id] for id in before}
    )


def llama(prepend: bool = True, strip: bool = True) -> dict[str, Json]:
    """Normalizer and decoder of a converted SentencePiece model."""
    visible = replace({"String": " "}, "▁")
    first = [{"type": "Prepend", "prepend": "▁"}] if prepend else []
    back = [replace({"String": "▁"}, " "), {"type": "ByteFallback"}, {"type": "Fuse"}]
    last = [{"type": "Strip", "content": " ", "start": 1, "stop": 0}] if strip else []
    return {
        "normalizer": sequence("normalizers", *first, visible),
        "decoder": sequence("decoders", *back, *last),
    }


def pieces(**changes: Any) -> Json:
    """A file over characters with all byte tokens, as SentencePiece models become."""
    content = cases.by_characters()
    vocab = dict(content["model"]["vocab"])
    for byte in range(256):
        vocab.setdefault(f"<0x{byte:02X}>", len(vocab))
    options = {"byte_fallback": True, "fuse_unk": True, "unk_token": "<unk>"}
    return cases.with_model(content, vocab=vocab, **options) | changes


def chat(content: Json, *tokens: str, **flags: bool) -> Json:
    return cases.with_tokens(content, *(tokens or CHAT), special=True, normalized=False, **flags)


def of_bytes() -> Iterator[tuple[str, Json]]:
    yield "gpt-j", chat(cases.by_bytes(pre_tokenizer=byte_level(), decoder=byte_level()))
    opt = cases.by_bytes(pre_tokenizer=byte_level(), post_processor=bos(2))
    yield "opt", opt
    phi = cases.by_bytes(normalizer=None, pre_tokenizer=byte_level())
    runs = [" " * number for number in range(31, 1, -1)] + [
        "\t" * number for number in range(9, 1, -1)
    ]
    yield "phi-2", cases.with_tokens(phi, *runs, normalized=True)
    yield (
        "gpt-neox",
        cases.with_tokens(
            cases.by_bytes(normalizer={"type": "NFC"}, pre_tokenizer=byte_level()),
            *runs[:23],
            normalized=True,
        ),
    )
    falcon = sequence(
        "pretokenizers",
        {"type": "Punctuation", "behavior": "Contiguous"},
        byte_level(),
        {"type": "Digits", "individual_digits": False},
        split({"Regex": "[0-9][0-9][0-9]"}),
    )
    yield "falcon", chat(cases.by_bytes(pre_tokenizer=falcon), ">>TITLE<<", ">>QUESTION<<")
    digits = {"type": "Digits", "individual_digits": True}
    starcoder = sequence("pretokenizers", digits, byte_level())
    yield "starcoder", chat(cases.by_bytes(pre_tokenizer=starcoder), *FIM)
    yield "smollm", chat(cases.by_bytes(pre_tokenizer=starcoder), *CHAT, *FIM)
    yield "granite", chat(cases.by_bytes(pre_tokenizer=starcoder), "<|start_of_role|>")
    cohere = cases.by_bytes(
        normalizer={"type": "NFC"},
        pre_tokenizer=starcoder,
        post_processor=sequence("processors", byte_level(True, False), bos(1)),
    )
    yield "command-r", chat(cohere, "<|START_OF_TURN_TOKEN|>", "<PAD>")
    yield "mpt", cases.with_tokens(phi | {"normalizer": {"type": "NFC"}}, *runs[:20])
    bloom = sequence("pretokenizers", split({"Regex": BLOOM}), byte_level(use_regex=False))
    yield "bloom", chat(cases.by_bytes(pre_tokenizer=bloom), "<s>", "</s>", "<pad>")
    nfc = {"normalizer": {"type": "NFC"}}
    yield "qwen 2", chat(patterns(QWEN, **nfc, post_processor=byte_level(trim=False)))
    yield "qwen 3.5", chat(patterns(QWEN_MARKS, **nfc))
    yield "stablelm 2", chat(patterns(QWEN, **nfc), *CHAT, *FIM)
    yield (
        "llama 3",
        cases.with_model(
            chat(
                patterns(
                    CL100K_PATTERN,
                    post_processor=sequence("processors", byte_level(trim=False), bos(1)),
                )
            ),
            ignore_merges=True,
        ),
    )
    yield "glm 4", chat(patterns(CL100K_PATTERN), "[gMASK]", "<sop>", "<|user|>")
    yield "minimax", chat(patterns(CLASSES), "]~b]", "[e~[", "]!d~[")
    yield "o200k", chat(patterns(O200K), "<|start|>", "<|message|>", "<|end|>")
    yield (
        "mistral nemo",
        cases.with_model(
            chat(patterns(MISTRAL, post_processor=bos(1)), "[INST]", "[/INST]"), ignore_merges=True
        ),
    )
    yield (
        "deepseek coder",
        chat(patterns(*DEEPSEEK_CODER), "<｜fim▁hole｜>", "<｜begin▁of▁sentence｜>"),
    )
    yield "deepseek llm", chat(patterns(*DEEPSEEK_LLM), "<｜begin▁of▁sentence｜>")
    yield (
        "deepseek 3",
        chat(
            patterns(*DEEPSEEK_3, post_processor=bos(1)), "<｜User｜>", "<｜Assistant｜>", "<think>"
        ),
    )
    yield "hunyuan", patterns(HUNYUAN)
    yield "words and digits", patterns(LLAMA_WORDS)
    whisper = cases.by_bytes(
        pre_tokenizer=byte_level(),
        decoder=byte_level(),
        post_processor=template([place("a"), place("b"), place(), place("c")], a=[1], b=[2], c=[3]),
    )
    times = [f"<|{number / 50:.2f}|>" for number in range(40)]
    whisper = chat(whisper, "<|startoftranscript|>", "<|en|>", "<|transcribe|>")
    yield "whisper", cases.with_tokens(whisper, *times, normalized=False)
    roberta = {
        "type": "RobertaProcessing",
        "sep": ["</s>", 2],
        "cls": ["<s>", 1],
        "trim_offsets": True,
        "add_prefix_space": False,
    }
    base = cases.by_bytes(pre_tokenizer=byte_level(), post_processor=roberta)
    yield "roberta", chat(base, "<mask>", lstrip=True)
    yield (
        "bart, prefix space",
        chat(
            base
            | {
                "pre_tokenizer": byte_level(True),
                "post_processor": roberta | {"add_prefix_space": True},
            },
            "<mask>",
            lstrip=True,
        ),
    )
    modern = cases.by_bytes(normalizer={"type": "NFC"}, pre_tokenizer=byte_level())
    modern["post_processor"] = template([place("c"), place(), place("s")], c=[1], s=[2])
    yield (
        "modernbert",
        cases.with_tokens(chat(modern, "[MASK]", lstrip=True), *runs[8:], "|||IP|||"),
    )
    as_normalizer = cases.by_bytes(
        normalizer=sequence("normalizers", {"type": "NFC"}, {"type": "ByteLevel"}),
        pre_tokenizer=None,
    )
    yield "byte level as a normalizer", chat(as_normalizer)
    inverted = sequence(
        "pretokenizers",
        split({"Regex": GPT2_PATTERN}, "Removed", True),
        byte_level(use_regex=False),
    )
    yield "an inverted pattern", cases.by_bytes(pre_tokenizer=inverted)


def of_characters() -> Iterator[tuple[str, Json]]:
    yield "llama 1", chat(pieces(**llama(), post_processor=bos(1)), "<s>", "</s>")
    yield "mixtral", chat(pieces(**llama(), post_processor=bos(1)), "[INST]", "[/INST]")
    yield "yi", chat(pieces(**llama(prepend=False, strip=False)))
    yield "codellama", chat(pieces(**llama()), "▁<PRE>", "▁<SUF>", "▁<MID>")
    new = {
        "normalizer": None,
        "pre_tokenizer": metaspace("first", cut=False),
        "decoder": llama()["decoder"],
    }
    yield "llama 2, not legacy", chat(pieces(**new), "<s>", "</s>")
    phi = chat(pieces(**llama(), post_processor=bos(1)), "<|end|>", rstrip=True)
    yield "phi 3", chat(phi, "<|user|>", "<|assistant|>", rstrip=True)
    gemma = llama(prepend=False, strip=False) | {"post_processor": bos(2)}
    runs = ["\n" * number for number in range(1, 6)] + ["▁" * number for number in range(2, 8)]
    one = cases.with_tokens(pieces(**gemma), *runs, "<table>", "</h1>", normalized=False)
    yield "gemma 1", chat(one, "<start_of_turn>", "<end_of_turn>", "<unused99>")
    by_spaces = split({"String": " "}, "MergedWithPrevious")
    yield "gemma 2", one | {"pre_tokenizer": by_spaces}
    replaced = replace({"String": " "}, "▁")
    yield "gemma 3", one | {"normalizer": replaced, "pre_tokenizer": by_spaces}
    yield "internlm 2", chat(pieces(**llama()), "[UNUSED_TOKEN_146]", "<|plugin|>")
    yield (
        "minicpm",
        chat(pieces(**llama(), pre_tokenizer={"type": "Digits", "individual_digits": True})),
    )
    nmt: Json = sequence(
        "normalizers",
        {"type": "Precompiled", "precompiled_charsmap": cases.charsmap()},
        replace({"Regex": " {2,}"}, " "),
    )
    mbart = pieces(normalizer=nmt, pre_tokenizer=metaspace("always"), decoder=metaspace("always"))
    yield "a model with a character map", chat(mbart, "<mask>", lstrip=True)
    yield "tinyllama", chat(pieces(**llama()), "<|system|>", "<|user|>")
    legacy = metaspace("always") | {"add_prefix_space": True}
    yield (
        "an old metaspace",
        pieces(
            pre_tokenizer={key: value for key, value in legacy.items() if key != "prepend_scheme"},
            decoder={key: value for key, value in legacy.items() if key != "prepend_scheme"},
        ),
    )
    yield (
        "camembert",
        chat(
            pieces(
                normalizer=nmt,
                pre_tokenizer=sequence(
                    "pretokenizers", {"type": "WhitespaceSplit"}, metaspace("always")
                ),
            ),
            "<mask>",
            lstrip=True,
        ),
    )


def clip() -> Json:
    """As CLIP's: lower case, words by an inverted Split, byte level, a suffix at the ends."""
    content = cases.empty()
    content["normalizer"] = sequence(
        "normalizers", {"type": "NFC"}, replace(cases.WORD_SPACE, " "), {"type": "Lowercase"}
    )
    words = (
        r"<\|startoftext\|>|<\|endoftext\|>|'s|'t|'re|'ve|'m|'ll|'d|"
        r"[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+"
    )
    content["pre_tokenizer"] = sequence(
        "pretokenizers", split({"Regex": words}, "Removed", True), byte_level()
    )
    content["model"] |= {"end_of_word_suffix": "</w>", "unk_token": "<|endoftext|>"}
    content = cases.train(
        content,
        cases.lines(),
        vocab_size=900,
        special_tokens=["<|startoftext|>", "<|endoftext|>"],
        end_of_word_suffix="</w>",
        initial_alphabet=list(tiny.ALPHABET.values()),
    )
    content["post_processor"] = {
        "type": "RobertaProcessing",
        "sep": ["<|endoftext|>", 1],
        "cls": ["<|startoftext|>", 0],
        "trim_offsets": False,
        "add_prefix_space": False,
    }
    return content | {"decoder": byte_level(True)}


def of_words() -> Iterator[tuple[str, Json]]:
    words: Json = sequence(
        "normalizers",
        {
            "type": "BertNormalizer",
            "clean_text": True,
            "handle_chinese_chars": True,
            "strip_accents": None,
            "lowercase": True,
        },
    )
    for name, pre, affixes in [
        ("gpt-1", "BertPreTokenizer", {"end_of_word_suffix": "</w>"}),
        ("xlm", "Whitespace", {"end_of_word_suffix": "</w>"}),
        ("bertweet", "WhitespaceSplit", {"continuing_subword_prefix": "@@"}),
    ]:
        content = cases.empty() | {"normalizer": words, "pre_tokenizer": {"type": pre}}
        content["model"] |= affixes | {"unk_token": "<unk>"}
        options = {"vocab_size": 700, "special_tokens": cases.SPECIALS, "limit_alphabet": 90}
        content = cases.train(content, cases.lines(), max_token_length=10, **options, **affixes)
        content["model"] |= affixes
        content["decoder"] = {"type": "BPEDecoder", "suffix": "</w>"}
        yield name, chat(content, "<pad>", "<special1>")
    text = clip()
    yield "clip", text | {"decoder": byte_level(True)}
    yield "clip, without an unknown token", cases.with_model(text, unk_token=None)
    lower = text | {"normalizer": {"type": "Lowercase"}}
    yield "openclip", lower


@cache
def models() -> dict[str, Case]:
    """Every shape by name."""
    found = [*of_bytes(), *of_characters(), *of_words()]
    named = {}
    for name, content in found:
        added = [token["content"] for token in content["added_tokens"]]
        named[name] = Case(content, tuple(added[:12] + added[-4:]), cases.AROUND[:3])
    assert len(named) == len(found), "two shapes have one name"
    return named
