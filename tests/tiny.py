"""Tiny tokenizer files of every format, made without any other tokenizer library.

Each function returns the content of a file. The vocabularies are trained on `PARAGRAPH`, so
that merges overlap and compete as in a real tokenizer, and are the same on every run.
"""

import base64
import itertools
import json
import re
import struct
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import Any

import reference

PARAGRAPH = """The miller's daughter carried the flour to the bakers; they'd been baking since 4:00.
"Isn't it lower than the lowest?" he asked, showing her newer and newest scales. Slowly, slowly,
the wheel was turning, turning the stones, grinding 1200 sacks in 12 days and 3450 in 34.
for (int i = 0; i < 10; i++) {    total += weights[i];    }    return total;
Die Mühle mahlt das Mehl; der Müller wohnt über der Mühle. Le meunier dort, ton moulin va trop vite.
Мельница мелет муку, мельник спит. 水車は小麦を挽く。水车磨面粉,磨坊主在睡觉。水車水車。
"""
PATTERN = r" ?[A-Za-z]+| ?[0-9]{1,3}| ?[^ \nA-Za-z0-9]+|\s+"
SPECIALS = {"<|endoftext|>": 0, "<|fim|>": 1}

Pair = tuple[str, str]


def byte_alphabet() -> dict[int, str]:
    """The characters that stand for the 256 bytes in byte-level files."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in printable]
    return {byte: chr(byte) for byte in printable} | {
        byte: chr(0x100 + number) for number, byte in enumerate(others)
    }


ALPHABET = byte_alphabet()


def to_alphabet(text: str | bytes) -> str:
    """Text as a byte-level file writes it."""
    data = text.encode() if isinstance(text, str) else text
    return "".join(ALPHABET[byte] for byte in data)


def train(words: Iterable[str], number: int) -> list[Pair]:
    """The `number` most frequent merges; of equally frequent ones the first in the alphabet."""
    counts = Counter(tuple(word) for word in words)
    merges: list[Pair] = []
    for _ in range(number):
        pairs: Counter[Pair] = Counter()
        for word, count in counts.items():
            for pair in itertools.pairwise(word):
                pairs[pair] += count
        best = min(pairs, key=lambda pair: (-pairs[pair], pair))
        merges.append(best)
        merged: Counter[tuple[str, ...]] = Counter()
        for word, count in counts.items():
            merged[tuple(reference.merge(word, {best: 0}))] += count
        counts = merged
    return merges


@cache
def byte_merges() -> tuple[Pair, ...]:
    """Merges over the byte alphabet."""
    return tuple(train(map(to_alphabet, reference.split(PATTERN, PARAGRAPH)), 150))


def byte_vocab() -> dict[str, int]:
    """The 256 bytes in the order of the bytes, then what each merge makes."""
    tokens = [ALPHABET[byte] for byte in range(256)] + [a + b for a, b in byte_merges()]
    return {token: number for number, token in enumerate(dict.fromkeys(tokens))}


def ranks() -> dict[bytes, int]:
    """The same as a rank file has it."""
    back = {char: byte for byte, char in ALPHABET.items()}
    return {bytes(back[char] for char in token): rank for token, rank in byte_vocab().items()}


def rank_file(of: Mapping[bytes, int] | None = None) -> bytes:
    """A .tiktoken file."""
    lines = (
        f"{base64.b64encode(token).decode()} {rank}\n" for token, rank in (of or ranks()).items()
    )
    return "".join(lines).encode()


def special_tokens() -> dict[str, int]:
    """Special tokens for the rank file, with ids after its own."""
    return {token: len(ranks()) + number for token, number in SPECIALS.items()}


def added_token(id: int, content: str, special: bool = True, **flags: bool) -> dict[str, Any]:
    """An entry of `added_tokens`."""
    entry = {"id": id, "content": content, "single_word": False, "lstrip": False, "rstrip": False}
    return entry | {"normalized": not special, "special": special} | flags


def byte_level_json(**changes: Any) -> bytes:
    """A tokenizer.json as GPT-2's, with `PATTERN`; `changes` replace parts of it."""
    vocab = byte_vocab()
    added = [added_token(len(vocab) + number, token) for token, number in SPECIALS.items()]
    split = {
        "type": "Split",
        "pattern": {"Regex": PATTERN},
        "behavior": "Isolated",
        "invert": False,
    }
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True}
    content = {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": added,
        "normalizer": None,
        "pre_tokenizer": {
            "type": "Sequence",
            "pretokenizers": [split, byte_level | {"use_regex": False}],
        },
        "post_processor": None,
        "decoder": byte_level | {"use_regex": True},
        "model": {
            "type": "BPE",
            "dropout": None,
            "unk_token": None,
            "continuing_subword_prefix": None,
            "end_of_word_suffix": None,
            "fuse_unk": False,
            "byte_fallback": False,
            "ignore_merges": False,
            "vocab": vocab,
            "merges": [list(pair) for pair in byte_merges()],
        },
    }
    return json.dumps(content | changes, ensure_ascii=False).encode()


@cache
def spaced_merges() -> tuple[Pair, ...]:
    """Merges over characters, with U+2581 for the space."""
    words = re.findall("▁[^▁]*", "▁" + " ".join(PARAGRAPH.split()).replace(" ", "▁"))
    return tuple(train(words, 150))


def pieces() -> list[tuple[str, float, int]]:
    """The pieces of a SentencePiece model as (piece, score, type)."""
    characters = sorted(set("".join(PARAGRAPH.split())) | {"▁"})
    first = [("<unk>", 0.0, 2), ("<s>", 0.0, 3), ("</s>", 0.0, 3)]
    first += [(f"<0x{byte:02X}>", 0.0, 6) for byte in range(256)]
    merged = list(dict.fromkeys(a + b for a, b in spaced_merges()))
    scored = [(piece, -float(number), 1) for number, piece in enumerate([*merged, *characters])]
    return first + scored


def fallback_json(**changes: Any) -> bytes:
    """A tokenizer.json as Llama 2's: Prepend and Replace, byte fallback."""
    vocab = {piece: number for number, (piece, _, _) in enumerate(pieces())}
    content = json.loads(byte_level_json())
    content["added_tokens"] = [
        added_token(vocab[token], token) for token in ("<unk>", "<s>", "</s>")
    ]
    space = {"type": "Replace", "pattern": {"String": " "}, "content": "▁"}
    content["normalizer"] = {
        "type": "Sequence",
        "normalizers": [{"type": "Prepend", "prepend": "▁"}, space],
    }
    content["pre_tokenizer"] = None
    content["decoder"] = {
        "type": "Sequence",
        "decoders": [
            {"type": "Replace", "pattern": {"String": "▁"}, "content": " "},
            {"type": "ByteFallback"},
            {"type": "Fuse"},
            {"type": "Strip", "content": " ", "start": 1, "stop": 0},
        ],
    }
    content["model"] |= {
        "unk_token": "<unk>",
        "fuse_unk": True,
        "byte_fallback": True,
        "vocab": vocab,
        "merges": [list(pair) for pair in spaced_merges()],
    }
    return json.dumps(content | changes, ensure_ascii=False).encode()


def tekken(
    special: Sequence[str] | None = None, number_of_specials: int = 24, **config: Any
) -> bytes:
    """A tekken.json; `special` are the special tokens that are listed, if any are."""
    tokens = list(ranks())
    vocab = [
        {
            "rank": rank,
            "token_bytes": base64.b64encode(token).decode(),
            "token_str": token.decode()
            if token.decode(errors="ignore").encode() == token
            else None,
        }
        for rank, token in enumerate(tokens)
    ]
    content: dict[str, Any] = {
        "config": {
            "pattern": PATTERN,
            "num_vocab_tokens": len(vocab),
            "default_vocab_size": len(vocab) + number_of_specials,
            "default_num_special_tokens": number_of_specials,
            "version": "v3",
        }
        | config,
        "vocab": vocab,
    }
    if special is not None:
        content["special_tokens"] = [
            {"rank": rank, "token_str": token, "is_control": True}
            for rank, token in enumerate(special)
        ]
    return json.dumps(content).encode()


def _varint(number: int) -> bytes:
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*out, number])


def field(number: int, value: bytes | int | str) -> bytes:
    """One field of a protocol buffer."""
    if isinstance(value, int):
        return _varint(number << 3) + _varint(value)
    data = value.encode() if isinstance(value, str) else value
    return _varint(number << 3 | 2) + _varint(len(data)) + data


def _fixed32(number: int, value: float) -> bytes:
    return _varint(number << 3 | 5) + struct.pack("<f", value)


def sentencepiece(model_type: int = 2, prefix: bool = True, collapse: bool = True) -> bytes:
    """A SentencePiece .model: BPE (2) with byte fallback and no character map."""
    entries = (
        field(1, field(1, piece) + _fixed32(2, score) + field(3, kind))
        for piece, score, kind in pieces()
    )
    trainer = field(3, model_type) + field(35, 1)
    normalizer = (
        field(1, "identity") + field(3, int(prefix)) + field(4, int(collapse)) + field(5, 1)
    )
    return b"".join(entries) + field(2, trainer) + field(3, normalizer)
