"""Broken and hostile tokenizer files: a TokenizerError or a tokenizer that works, nothing else.

A panic would come out as an exception that is no `Exception`, and fails these tests like any
other. What loads is also used: a file may be harmless to read and harmful to encode with.
"""

import json
import pickle
import random
import sys
from collections.abc import Iterator
from typing import Any

import pytest
import tiny
from gristmill import Tokenizer, TokenizerError
from hypothesis import given, settings
from hypothesis import strategies as st
from texts import HOSTILE

Json = dict[str, Any]

FILES: dict[str, bytes] = {
    "ranks": tiny.rank_file(),
    "byte_level_json": tiny.byte_level_json(),
    "fallback_json": tiny.fallback_json(),
    "tekken": tiny.tekken(["<s>", "</s>"], 5),
    "sentencepiece": tiny.sentencepiece(),
}
TEXT = "".join(HOSTILE) + tiny.PARAGRAPH
SHORT = "Hello, world!\n\n  <s>12 caf\u00e9 水車☃\u0301 the mill\t▁"


def try_to_use(content: bytes, text: str = TEXT, **options: Any) -> bool:
    """Whether it loads. If it does, it must work."""
    try:
        tokenizer = Tokenizer.from_bytes(content, **options)
    except TokenizerError:
        return False
    try:
        ids = tokenizer.encode(text, special="parse", add_special_tokens=True)
        tokenizer.encode_with_offsets("a b\n中☃")
    except TokenizerError:
        # A pattern that needs too many steps.
        return True
    for id in ids[:50]:
        tokenizer.token_bytes(id)
    tokenizer.decode(ids)
    return True


def load(name: str, content: bytes, text: str = TEXT) -> bool:
    options: Any = {"pattern": tiny.PATTERN} if name == "ranks" else {}
    return try_to_use(content, text, **options)


@pytest.mark.parametrize("name", FILES)
def test_whole_files_load(name: str) -> None:
    assert load(name, FILES[name])


@pytest.mark.parametrize("name", FILES)
def test_truncated_files(name: str) -> None:
    content = FILES[name]
    for end in sorted(
        {*range(40), *range(0, len(content), 97), *range(len(content) - 40, len(content))}
    ):
        loads = load(name, content[:end])
        if name.endswith("json") or name == "tekken":
            assert not loads, end


@pytest.mark.parametrize("name", FILES)
def test_changed_bytes(name: str) -> None:
    source = random.Random(name)
    for _ in range(400):
        content = bytearray(FILES[name])
        for _ in range(source.choice([1, 1, 2, 8])):
            at = source.randrange(len(content))
            what = source.randrange(4)
            if what == 0:
                content[at] = source.randrange(256)
            elif what == 1:
                del content[at : at + source.randrange(1, 30)]
            elif what == 2:
                other = source.randrange(len(content))
                content[at:at] = content[other : other + source.randrange(1, 30)]
            else:
                content[at] ^= 1 << source.randrange(8)
            if not content:
                break
        load(name, bytes(content))


@settings(max_examples=settings().max_examples * 3)
@given(
    st.binary(max_size=200), st.sampled_from([b"", b"{", b'{"model":', b"\x0a\x04", b"YQ== 0\n"])
)
def test_garbage(content: bytes, start: bytes) -> None:
    try_to_use(start + content)
    try_to_use(start + content, pattern=tiny.PATTERN)


BAD_VALUES: list[Any] = [
    *[None, True, -1, 0, 1, 2**31, 2**32 - 1, 2**32, 2**63, 2**64, 1e308, -0.5],
    *["", "a", "☃", "\u0000", "Ġ", "BPE", "Sequence", "(" * 50, "x" * 300],
    *[[], {}, [[]], [None], {"type": None}, {"type": "Sequence"}, [["a", "b"], "c d"]],
]


def places(content: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Every place in a JSON value, but only some of the vocabulary and the merges."""
    if path:
        yield path
    if isinstance(content, dict | list):
        keys = list(content) if isinstance(content, dict) else list(range(len(content)))
        for key in keys if len(keys) < 40 else keys[:: len(keys) // 5]:
            yield from places(content[key], (*path, key))


@pytest.mark.parametrize("name", ["byte_level_json", "fallback_json", "tekken"])
def test_any_value_anywhere(name: str) -> None:
    whole = json.loads(FILES[name])
    for path in places(whole):
        for value in BAD_VALUES:
            content = json.loads(FILES[name])
            parent = content
            for key in path[:-1]:
                parent = parent[key]
            parent[path[-1]] = value
            load(name, json.dumps(content).encode(), SHORT)
        content = json.loads(FILES[name])
        parent = content
        for key in path[:-1]:
            parent = parent[key]
        del parent[path[-1]]
        load(name, json.dumps(content).encode(), SHORT)


PARTS: list[Json] = [
    {"normalizer": {"type": "Replace", "pattern": {"String": ""}, "content": "ab"}},
    {"normalizer": {"type": "Replace", "pattern": {"Regex": ""}, "content": "ab"}},
    {"normalizer": {"type": "Replace", "pattern": {"Regex": "(a*)*$"}, "content": ""}},
    {"normalizer": {"type": "Prepend", "prepend": "x" * 10000}},
    {"normalizer": {"type": "Precompiled", "precompiled_charsmap": ""}},
    {"normalizer": {"type": "Precompiled", "precompiled_charsmap": "AAAA"}},
    {"normalizer": {"type": "Precompiled", "precompiled_charsmap": "/////wAAAAAAAAAA"}},
    {"normalizer": {"type": "Precompiled", "precompiled_charsmap": "BAAAAP////8A"}},
    {"normalizer": {"type": "Precompiled", "precompiled_charsmap": "not base64!"}},
    {"pre_tokenizer": {"type": "FixedLength", "length": 0}},
    {"pre_tokenizer": {"type": "FixedLength", "length": 2**63}},
    {"pre_tokenizer": {"type": "CharDelimiterSplit", "delimiter": ""}},
    {"pre_tokenizer": {"type": "CharDelimiterSplit", "delimiter": "ab"}},
    {"pre_tokenizer": {"type": "Metaspace", "replacement": "", "prepend_scheme": "always"}},
    {"pre_tokenizer": {"type": "Metaspace", "replacement": "ab", "prepend_scheme": "always"}},
    {"pre_tokenizer": {"type": "Metaspace", "replacement": "_", "prepend_scheme": "often"}},
    {"decoder": {"type": "Strip", "content": "a", "start": 2**63, "stop": 2**63}},
    {"decoder": {"type": "Strip", "content": "", "start": 1, "stop": 1}},
    {"decoder": {"type": "CTC", "pad_token": "", "word_delimiter_token": "", "cleanup": True}},
    {"decoder": {"type": "Replace", "pattern": {"String": ""}, "content": "ab"}},
    {"post_processor": {"type": "TemplateProcessing", "single": [], "pair": []}},
    {"added_tokens": [tiny.added_token(2**32 - 1, "<x>")]},
    {"added_tokens": [tiny.added_token(0, "")]},
    {"added_tokens": [tiny.added_token(5, "<x>"), tiny.added_token(5, "<y>")]},
    {"added_tokens": [tiny.added_token(406, "<x>"), tiny.added_token(407, "<x>", False)]},
    {"added_tokens": [tiny.added_token(406 + n, "a" * n) for n in range(1, 2000, 9)]},
]


@pytest.mark.parametrize("number", range(len(PARTS)))
def test_hostile_parts(number: int) -> None:
    try_to_use(tiny.byte_level_json(**PARTS[number]))


def nested(depth: int, key: str, kind: str, parts: str) -> bytes:
    """A Sequence in a Sequence in a Sequence."""
    content = tiny.byte_level_json(**{key: "HERE"})
    inside = f'{{"type":"Sequence","{parts}":[' * depth + "]}" * depth
    return content.replace(b'"HERE"', inside.encode())


@pytest.mark.parametrize(
    ("key", "parts"),
    [
        ("normalizer", "normalizers"),
        ("pre_tokenizer", "pretokenizers"),
        ("decoder", "decoders"),
        ("post_processor", "processors"),
    ],
)
def test_deep_sequences(key: str, parts: str) -> None:
    for depth in (3, 50, 100, 1000, 200_000):
        try_to_use(nested(depth, key, "Sequence", parts))


@pytest.mark.parametrize("opening", [b"[", b'{"a":', b'[{"model":', b'{"model":{"vocab":'])
def test_deep_json(opening: bytes) -> None:
    for depth in (100, 10_000, 500_000):
        assert not try_to_use(opening * depth)


PATTERNS = {
    "nested groups": "(" * 5_000 + "a" + ")" * 5_000,
    "very nested groups": "(?:" * 200_000 + "a" + ")" * 200_000,
    "nested repeats": "(?:" * 60 + "a" + ")*" * 60,
    "many counts": "(?:(?:(?:a{1000}){1000}){1000}){1000}",
    "one large count": "a{1000000000}",
    "counted class": r"\w{60000}",
    "long alternation": "|".join(f"word{number}" for number in range(20_000)),
    "exponential": r"(a+)+$|(a|aa)+b|(.*)*x",
    "look-arounds": r"(?=(?=(?=.*a).*b).*c)|(?<!a(?<!b))c",
    "long": "a" * 500_000,
    "open": "(",
    "zero": "\0",
    "empty": "",
    "empty alternatives": "|" * 10_000,
    "class of everything": r"[\s\S]{0,5000}",
    "ranges": "[" + "".join(chr(code) for code in range(0x4E00, 0x9000, 3)) + "]+",
}


@pytest.mark.parametrize("name", PATTERNS)
def test_hostile_patterns(name: str) -> None:
    try_to_use(tiny.rank_file(), pattern=PATTERNS[name])
    split = {"type": "Split", "behavior": "Isolated", "invert": False}
    split_by = split | {"pattern": {"Regex": PATTERNS[name]}}
    try_to_use(tiny.byte_level_json(pre_tokenizer=split_by))
    replace = {"type": "Replace", "pattern": {"Regex": PATTERNS[name]}, "content": "x"}
    try_to_use(tiny.byte_level_json(normalizer=replace))


RANKS = tiny.ranks()
RANK_FILES: dict[str, bytes] = {
    "empty": b"",
    "blank lines": b"\n\n\n",
    "no rank": b"YQ==\n",
    "negative rank": b"YQ== -1\n",
    "rank of text": b"YQ== one\n",
    "rank too large": b"YQ== 4294967296\n",
    "largest rank": tiny.rank_file({**RANKS, b"zz": 2**32 - 1}),
    "huge rank": tiny.rank_file({**RANKS, b"zz": 3_000_000_000}),
    "three columns": b"YQ== 0 0\n",
    "not base64": b"Y!== 0\n",
    "half of base64": b"Y 0\n",
    "empty token": tiny.rank_file({**RANKS, b"": 5000}),
    "same token twice": tiny.rank_file() + b"YQ== 900\n",
    "same rank twice": tiny.rank_file({**RANKS, b"zz": 5}),
    "missing bytes": tiny.rank_file({token: id for token, id in RANKS.items() if id != 97}),
    "no bytes": tiny.rank_file({token: id for token, id in RANKS.items() if len(token) > 1}),
    "windows": tiny.rank_file().replace(b"\n", b"\r\n"),
    "no last newline": tiny.rank_file().rstrip(),
    "byte order mark": b"\xef\xbb\xbf" + tiny.rank_file(),
    "not utf-8": b"\xff\xfe" + tiny.rank_file(),
    "token of 100 kB": tiny.rank_file({**RANKS, b"a" * 100_000: 5000}),
}


@pytest.mark.parametrize("name", RANK_FILES)
def test_hostile_rank_files(name: str) -> None:
    try_to_use(RANK_FILES[name], pattern=tiny.PATTERN)


@pytest.mark.parametrize("name", ["windows", "no last newline"])
def test_rank_files_that_are_fine(name: str) -> None:
    assert try_to_use(RANK_FILES[name], pattern=tiny.PATTERN)


def message(*fields: bytes) -> bytes:
    return b"".join(fields)


PIECE = tiny.field(1, tiny.field(1, "a"))
MODELS: dict[str, bytes] = {
    "a length beyond the end": b"\x0a\xff\xff\xff\xff\x0f",
    "the largest length": b"\x0a" + b"\xff" * 9 + b"\x01",
    "an endless number": b"\x08" + b"\xff" * 40,
    "groups": b"\x0b" * 100_000,
    "field 0": b"\x00\x00",
    "a piece that is not utf-8": tiny.field(1, tiny.field(1, b"\xff\xfe")) + tiny.sentencepiece(),
    "an empty piece": tiny.field(1, b"") + tiny.sentencepiece(),
    "the same piece twice": PIECE + PIECE + tiny.sentencepiece(),
    "no unknown piece": PIECE + tiny.field(2, tiny.field(3, 2)),
    "two unknown pieces": tiny.sentencepiece()
    + tiny.field(1, tiny.field(1, "u") + tiny.field(3, 2)),
    "a kind of 99": tiny.field(1, tiny.field(1, "u") + tiny.field(3, 99)) + tiny.sentencepiece(),
    "model of type 99": tiny.sentencepiece(99),
    "a score that is no number": tiny.sentencepiece().replace(
        b"\x00\x00\x80\xbf", b"\x00\x00\xc0\x7f"
    ),
    "broken charsmap": tiny.sentencepiece() + tiny.field(3, tiny.field(2, b"\xff" * 20)),
    "charsmap of nothing": tiny.sentencepiece() + tiny.field(3, tiny.field(2, b"\x00" * 4)),
    "no pieces": tiny.field(2, tiny.field(3, 2)),
    "some byte pieces": tiny.sentencepiece().replace(b"<0x41>", b"<0xZZ>"),
}


@pytest.mark.parametrize("name", MODELS)
def test_hostile_models(name: str) -> None:
    try_to_use(MODELS[name])


@pytest.mark.parametrize("kind", [1, 3, 4])
def test_other_kinds_of_sentencepiece_are_refused(kind: int) -> None:
    assert not try_to_use(tiny.sentencepiece(kind))


@pytest.mark.skipif(sys.platform == "win32", reason="memory is measured as POSIX does")
def test_ids_far_apart_cost_no_memory() -> None:
    """An id is a number, not a number of bytes to set aside."""
    import resource

    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    vocab = {**tiny.byte_vocab(), "far": 2**32 - 2, "farther": 2**31}
    model = json.loads(tiny.byte_level_json())["model"] | {"vocab": vocab}
    try_to_use(tiny.byte_level_json(model=model))
    try_to_use(RANK_FILES["largest rank"], pattern=tiny.PATTERN)
    try_to_use(tiny.rank_file(), pattern=".", special_tokens={"<far>": 2**32 - 2})
    try_to_use(tiny.tekken(["<s>"], 2**31))
    try_to_use(tiny.tekken(["<s>"], 5, default_vocab_size=2**32))
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    # Kilobytes, but bytes on macOS.
    assert grown < (500_000_000 if sys.platform == "darwin" else 500_000)


@pytest.mark.parametrize("id", [2**32 - 1, 2**21, 2**21 - 1])
def test_large_ids_of_what_is_no_bytes(id: int) -> None:
    content = json.loads(tiny.byte_level_json())
    content["model"]["vocab"]["あ"] = id
    data = json.dumps(content).encode()
    assert try_to_use(data) == (id < 2**21)
    if id < 2**21:
        ours = Tokenizer.from_bytes(data)
        assert ours.token_to_id("あ") == id
        assert pickle.loads(pickle.dumps(ours)).id_to_token(id) == "あ"


def test_files_of_something_else() -> None:
    for content in (
        b"",
        b"\0" * 1000,
        b"#version: 0.2\nh e\n",
        b'{"architectures": ["LlamaForCausalLM"]}',
        b'{"hello": 0, "world": 1}',
        b"\x80\x04K\x01.",
        b"PK\x03\x04" + b"\0" * 100,
        b"\x1f\x8b\x08" + b"\0" * 100,
        b"<!DOCTYPE html>",
        b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n",
        "{}".encode("utf-16"),
        b"null",
        b"[]",
        b"3",
    ):
        assert not try_to_use(content), content[:20]
