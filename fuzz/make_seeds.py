"""Writes the seeds: small inputs of every shape, for the fuzz targets to start from.

Run with a Python that has `sentencepiece`: `python fuzz/make_seeds.py`. The seeds are kept in the
repository, so that fuzzing itself needs no Python. `seeds/encode`, `seeds/decode` and
`seeds/stream` begin with the bytes that choose a tokenizer and a policy; `src/tokenizers.rs` lists
the tokenizers.
"""

import base64
import io
import json
import sys
from pathlib import Path
from typing import Any

import sentencepiece

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "tests"))

import tiny  # noqa: E402

Json = dict[str, Any]

GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
CL100K = (
    r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+"
    r"| ?[^\s\p{L}\p{N}]++[\r\n]*+|\s++$|\s*[\r\n]|\s+(?!\S)|\s"
)
O200K = "|".join(
    [
        r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+"
        r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
        r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*"
        r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
        r"\p{N}{1,3}",
        r" ?[^\s\p{L}\p{N}]+[\r\n/]*",
        r"\s*[\r\n]+",
        r"\s+(?!\S)",
        r"\s+",
    ]
)
PATTERNS = [
    GPT2,
    CL100K,
    O200K,
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
    r"[!-/:-@\[-`{-~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*",
    r"[\p{Han}]+|[^\s\p{L}&&[^\p{Han}]]+|\d{1,3}(?=(\d{3})*\b)",
    r"(?<=[a-z])(?=[A-Z])|(?<!\w)\p{L}+",
    r"(?>a|ab)c|\p{L}+?",
    r"(\p{L})\1|(?<x>.)\k<x>",
    r"^\s*\S|\S\s*$|\A.|.\z",
    r"\b\w|\w\b|\B",
    r"[[:punct:]]+|[[:alpha:]]+",
    r"(?s:.{2})|(?x: a b # c" + "\n)",
    r"x*|(?:)|(a|b|)*",
    r"(?:a+)+b|(?:a|a)*c",
]
TEXTS = [
    "I'm you'LL  don't\n\n  x1234567 ",
    "HTTPResponse camelCase ǅa e\u0301 中文 🏳️‍🌈",
    "\t \r\n!!\u3000\u00a0 \u0085'ſ",
    "aaaaaabbaac",
]


def words(*parts: str) -> tuple[dict[str, int], list[list[str]]]:
    """A vocabulary of characters and of the merges that make these words, left to right."""
    letters = "▁ abcdefghilmnorstuwy.'0123456789é中e\u0301#_"
    tokens = ["<unk>", "<s>", "</s>", *letters]
    merges = []
    for word in parts:
        for end in range(2, len(word) + 1):
            merges.append([word[: end - 1], word[end - 1]])
            tokens.append(word[:end])
    unique = list(dict.fromkeys(tokens))
    merges = [list(pair) for pair in dict.fromkeys(map(tuple, merges))]
    return {token: id for id, token in enumerate(unique)}, merges


def by_characters(all_bytes: bool = False, **changes: Any) -> Json:
    """A small tokenizer.json over characters."""
    vocab, merges = words("▁the", "the", "▁a", "in", "her", "12", "##e")
    if all_bytes:
        vocab |= {f"<0x{byte:02X}>": len(vocab) + byte for byte in range(256)}
    added = [tiny.added_token(id, token) for id, token in enumerate(["<unk>", "<s>", "</s>"])]
    model = {
        "type": "BPE",
        "unk_token": "<unk>",
        "fuse_unk": False,
        "byte_fallback": all_bytes,
        "vocab": vocab,
        "merges": merges,
    }
    parts: Json = {
        "version": "1.0",
        "added_tokens": added,
        "normalizer": None,
        "pre_tokenizer": None,
        "post_processor": None,
        "decoder": None,
        "model": model,
    }
    model |= changes.pop("model", {})
    return parts | changes


def by_bytes(**changes: Any) -> Json:
    """A small tokenizer.json over bytes."""
    vocab = {char: byte for byte, char in tiny.ALPHABET.items()}
    merges = [["h", "e"], ["Ġ", "t"], ["Ġt", "he"], ["i", "n"], ["Ã", "©"], ["Ġ", "Ġ"]]
    vocab |= {left + right: 256 + rank for rank, (left, right) in enumerate(merges)}
    level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True}
    content = by_characters(pre_tokenizer=level, post_processor=level, decoder=level)
    content["added_tokens"] = [tiny.added_token(len(vocab), "<|endoftext|>")]
    content["model"] = {"type": "BPE", "vocab": vocab, "merges": merges}
    content["model"] |= changes.pop("model", {})
    return content | changes


def charsmap(model: bytes) -> str:
    """The character map of a SentencePiece model, in base64."""
    normalizer = dict(fields(dict(fields(model))[3]))
    return base64.b64encode(normalizer[2]).decode()


def fields(message: bytes) -> list[tuple[int, Any]]:
    """The fields of a protocol buffer: numbers and byte strings."""
    found: list[tuple[int, Any]] = []
    at = 0

    def number() -> int:
        nonlocal at
        value = shift = 0
        while True:
            byte = message[at]
            at += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    while at < len(message):
        tag = number()
        if tag & 7 == 0:
            found.append((tag >> 3, number()))
            continue
        length = {1: 8, 5: 4}.get(tag & 7) or number()
        found.append((tag >> 3, message[at : at + length]))
        at += length
    return found


def sentencepieces() -> dict[str, bytes]:
    """Models trained on the tests' paragraph."""
    rules = HERE / "rules.tsv"
    rules.write_text("FB01\t66 69\nFF21\t41\n2026\t2E 2E 2E\n65 301\tE9\nA0\t20\n")
    variants: dict[str, Json] = {
        "plain": {"normalization_rule_name": "identity", "vocab_size": 220},
        "rules": {"normalization_rule_tsv": str(rules), "vocab_size": 220},
        "bytes": {
            "normalization_rule_name": "identity",
            "byte_fallback": True,
            "vocab_size": 420,
            "user_defined_symbols": ["<|x|>", "the miller"],
            "remove_extra_whitespaces": False,
        },
        "suffix": {
            "normalization_rule_tsv": str(rules),
            "treat_whitespace_as_suffix": True,
            "add_dummy_prefix": False,
            "vocab_size": 200,
            "control_symbols": ["<ctl>"],
        },
    }
    models = {}
    for name, options in variants.items():
        out = io.BytesIO()
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(tiny.PARAGRAPH.splitlines()),
            model_writer=out,
            model_type="bpe",
            character_coverage=1.0,
            minloglevel=2,
            **options,
        )
        # The path of the rules is no part of the model; its length is.
        path = str(rules).encode()
        models[name] = out.getvalue().replace(path, b"." * len(path))
    rules.unlink()
    return models


def replace(pattern: Json, content: str) -> Json:
    return {"type": "Replace", "pattern": pattern, "content": content}


def split(pattern: Json, behavior: str, invert: bool = False) -> Json:
    return {"type": "Split", "pattern": pattern, "behavior": behavior, "invert": invert}


def jsons(precompiled: str) -> dict[str, Json]:
    """tokenizer.json files: each type of each part stands in at least one."""
    space = replace({"String": "▁"}, " ")
    llama = [
        space,
        {"type": "ByteFallback"},
        {"type": "Fuse"},
        {"type": "Strip", "content": " ", "start": 1, "stop": 0},
    ]
    level = {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True}
    plain_level = level | {"add_prefix_space": False, "use_regex": False}
    bert = {
        "type": "BertNormalizer",
        "clean_text": True,
        "handle_chinese_chars": True,
        "strip_accents": None,
        "lowercase": True,
    }
    template = {
        "type": "TemplateProcessing",
        "single": [
            {"SpecialToken": {"id": "<s>", "type_id": 0}},
            {"Sequence": {"id": "A", "type_id": 0}},
            {"SpecialToken": {"id": "</s>", "type_id": 0}},
        ],
        "pair": [],
        "special_tokens": {
            "<s>": {"id": "<s>", "ids": [1], "tokens": ["<s>"]},
            "</s>": {"id": "</s>", "ids": [2], "tokens": ["</s>"]},
        },
    }
    roberta = {"type": "RobertaProcessing", "sep": ["</s>", 2], "cls": ["<s>", 1]}
    flags = {"single_word": True, "lstrip": True, "rstrip": True}
    heavy = {
        "type": "Sequence",
        "normalizers": [
            {"type": "Precompiled", "precompiled_charsmap": precompiled},
            {"type": "NFKD"},
            {"type": "StripAccents"},
            {"type": "Lowercase"},
            replace({"Regex": r"\p{N}+(?=[a-z])|!{2,}"}, "0 "),
            {"type": "Strip", "strip_left": True, "strip_right": False},
            {"type": "Prepend", "prepend": "▁"},
            replace({"String": " "}, "▁"),
        ],
    }
    return {
        "byte_level": by_bytes(),
        "byte_level_split": by_bytes(
            pre_tokenizer={
                "type": "Sequence",
                "pretokenizers": [split({"Regex": CL100K}, "Isolated"), plain_level],
            },
            normalizer={"type": "NFC"},
            post_processor={"type": "Sequence", "processors": [plain_level, template]},
            model={"ignore_merges": True},
        ),
        "byte_level_prefix": by_bytes(
            pre_tokenizer={
                "type": "Sequence",
                "pretokenizers": [{"type": "Digits", "individual_digits": True}, level],
            },
            post_processor=roberta | {"trim_offsets": True, "add_prefix_space": True},
        ),
        "byte_level_normalizer": by_characters(
            normalizer={"type": "ByteLevel"}, decoder=plain_level
        ),
        "byte_fallback": by_characters(
            True,
            normalizer={
                "type": "Sequence",
                "normalizers": [
                    {"type": "Prepend", "prepend": "▁"},
                    replace({"String": " "}, "▁"),
                ],
            },
            decoder={"type": "Sequence", "decoders": llama},
            post_processor=template,
            model={"fuse_unk": True},
        ),
        "metaspace": by_characters(
            pre_tokenizer={
                "type": "Metaspace",
                "replacement": "▁",
                "prepend_scheme": "first",
                "split": True,
            },
            decoder={
                "type": "Metaspace",
                "replacement": "▁",
                "prepend_scheme": "first",
                "split": True,
            },
            added_tokens=[
                tiny.added_token(0, "<unk>"),
                tiny.added_token(90, "<mask>", **flags),
                tiny.added_token(91, "Thé", special=False),
            ],
            normalizer={"type": "NFKC"},
        ),
        "normalizers": by_characters(
            normalizer=heavy,
            pre_tokenizer={"type": "Whitespace"},
            added_tokens=[
                tiny.added_token(90, "The End", special=False),
                tiny.added_token(91, "<sep>", normalized=True),
            ],
            decoder={"type": "Sequence", "decoders": [{"type": "Fuse"}, space]},
        ),
        "bert": by_characters(
            normalizer=bert,
            pre_tokenizer={"type": "BertPreTokenizer"},
            post_processor={"type": "BertProcessing", "sep": ["</s>", 2], "cls": ["<s>", 1]},
            decoder={"type": "WordPiece", "prefix": "##", "cleanup": True},
            model={"continuing_subword_prefix": "##", "merges": []},
        ),
        "suffix": by_characters(
            normalizer={"type": "Nmt"},
            pre_tokenizer={
                "type": "Sequence",
                "pretokenizers": [
                    {"type": "WhitespaceSplit"},
                    {"type": "Punctuation", "behavior": "Contiguous"},
                ],
            },
            decoder={"type": "BPEDecoder", "suffix": "</w>"},
            model={"end_of_word_suffix": "</w>"},
        ),
        "splits": by_characters(
            normalizer={"type": "NFD"},
            pre_tokenizer={
                "type": "Sequence",
                "pretokenizers": [
                    {"type": "CharDelimiterSplit", "delimiter": "é"},
                    split({"Regex": r"(?<=\d)(?=(\d{3})+\b)|\s+"}, "MergedWithPrevious"),
                    split({"String": "in"}, "MergedWithNext", True),
                    {"type": "FixedLength", "length": 5},
                ],
            },
            decoder={
                "type": "CTC",
                "pad_token": "a",
                "word_delimiter_token": "▁",
                "cleanup": True,
            },
        ),
        "strip": by_characters(
            normalizer={"type": "Strip", "strip_left": True, "strip_right": True},
            decoder={"type": "Strip", "content": "e", "start": 1, "stop": 1},
            model={"unk_token": None},
        ),
    }


def write(target: str, name: str, content: bytes) -> None:
    assert len(content) < 20_000, (target, name, len(content))
    path = HERE / "seeds" / target / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)


def rank_file(number: int) -> bytes:
    return tiny.rank_file(dict(list(tiny.ranks().items())[: 256 + number]))


def tekken() -> bytes:
    """The tests' tekken.json with fewer merges and its special tokens listed."""
    content = json.loads(tiny.tekken(["<unk>", "<s>", "</s>"], 4))
    content["vocab"] = content["vocab"][: 256 + 8]
    content["config"]["default_vocab_size"] = len(content["vocab"]) + 4
    content["config"]["num_vocab_tokens"] = len(content["vocab"])
    return json.dumps(content, separators=(",", ":")).encode()


def main() -> None:
    models = sentencepieces()
    for name, model in models.items():
        write("load", f"{name}.model", model)
    for name, content in jsons(charsmap(models["rules"])).items():
        data = json.dumps(content, ensure_ascii=False, separators=(",", ":")).encode()
        write("load", f"{name}.json", data)
    write("load", "tekken.json", tekken())
    write("load", "no_options.tiktoken", rank_file(8))
    write("load", "options.tiktoken", f"{GPT2}\1<s>\1</s>\0".encode() + rank_file(40))
    for number, pattern in enumerate(PATTERNS):
        text = TEXTS[number % len(TEXTS)]
        write("pattern", f"{number:02}", f"{pattern}\0{text}".encode())
    special = "a<|endoftext|><s> <mask> </s>The End<sep><|x|>"
    for number, text in enumerate([*TEXTS, special, tiny.PARAGRAPH[:400]]):
        for policy in range(2):
            head = bytes([number * 2 + policy, number + policy])
            write("encode", f"{number}{policy}", head + text.encode())
    tokens = b"\1".join(list(tiny.ranks())[256:300])
    for number, text in enumerate([*TEXTS, tiny.PARAGRAPH]):
        write("encode", f"merges{number}", b"\xff" + tokens + b"\0" + text.encode())
    for number in range(24):
        choices = bytes((number * 37 + at * at * 11) % 256 for at in range(60))
        text = [*TEXTS, special][number % 5]
        write("parts", f"{number:02}", choices + text.encode())
    for number in range(12):
        ids = [0, 1, 2, 3, 100, 255, 256, 261, 300, 1000, 50256, 100257, 1 << 24]
        packed = b"".join(id.to_bytes(4, "little") for id in ids)
        write("decode", f"{number:02}", bytes([number, number % 4]) + packed)
    for number in range(18):
        ids = bytes((number * 41 + at * at * 7) % 256 for at in range(64))
        write("stream", f"{number:02}", bytes([number, number * 29 % 256, 3, 2, 9, 4]) + ids)


if __name__ == "__main__":
    main()
