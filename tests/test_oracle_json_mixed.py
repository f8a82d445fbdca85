"""Files put together at random from every part that json_cases.py has, against `tokenizers`.

One part at a time is test_oracle_json.py; here several normalizers, pre-tokenizers, processors
and decoders meet in one file, with added tokens of any flags, and what one leaves behind is what
the next one gets. Left out is what `tokenizers` panics on.
"""

import json
import pickle
import random
import re
from pathlib import Path
from typing import Any

import json_cases as cases
import pytest
from gristmill import Tokenizer, TokenizerError
from hypothesis import given, seed, settings
from hypothesis import strategies as st
from json_cases import Json
from oracles import HuggingFace
from test_oracle_json import PANICS, UNSUPPORTED, check_text
from texts import texts

# Files in a run, times the settings of Hypothesis.
FILES = 4
TOKENS = [
    *("<tok>", "<TOK>", "<|a|>", "<|a|>b", "<0x0A>", "</w>", "<s>", "<unk>"),
    *("a", "the", " the", "th", "ab", " x", "x ", "'s", "1", "12", "e"),
    *("▁", "▁▁", "Ġ", "é", "e\u0301", "\u0301", "ﬁ", "İ", "½", "中", "中文", "☃"),
]
SPACES = [" ", "  ", "\n", "\n\n", "\u3000"]
FLAGS = {"single_word": 0.2, "lstrip": 0.3, "rstrip": 0.3, "normalized": 0.5, "special": 0.5}


def usable(role: str, parts: dict[str, Json | None]) -> list[Json]:
    known = PANICS | UNSUPPORTED.keys()
    return [
        part for name, part in parts.items()
        if part is not None and not {f"{role} {name}", f"{role} {name}, bytes"} & known
    ]  # fmt: skip


NORMALIZERS = usable("normalizer", cases.normalizers())
PRE_TOKENIZERS = usable("pre-tokenizer", cases.pre_tokenizers()) + [
    cases.byte_level(prefix, use_regex=regex) for prefix in (True, False) for regex in (True, False)
]
DECODERS = usable("decoder", cases.decoders())
# Cutting twice is what `tokenizers` panics on.
STRIPS = [part for part in DECODERS if '"Strip"' in json.dumps(part)]
POST_PROCESSORS = usable("post-processor", cases.post_processors())


def some(source: random.Random, kind: str, pool: list[Json]) -> Json | None:
    """Nothing, one part, or a sequence of some."""
    number = source.choice([0, 1, 1, 2, 3])
    parts = [source.choice(pool) for _ in range(number)]
    return cases.sequence(kind, *parts) if number > 1 else next(iter(parts), None)


def base(source: random.Random) -> Json:
    pre = some(source, "pretokenizers", PRE_TOKENIZERS)
    if source.random() < 0.5:
        return cases.by_bytes(pre_tokenizer=source.choice([cases.after_bytes(pre), pre]))
    content = cases.by_characters(pre_tokenizer=pre)
    if source.random() < 0.3:
        vocab = dict(content["model"]["vocab"])
        for byte in source.sample(range(256), source.choice([200, 256])):
            vocab.setdefault(f"<0x{byte:02X}>", len(vocab))
        return cases.with_model(content, vocab=vocab, byte_fallback=True)
    affixes = {"end_of_word_suffix": "e", "continuing_subword_prefix": ""}
    return cases.with_model(content, **affixes) if source.random() < 0.15 else content


def mixed(number: int) -> tuple[Json, list[str]]:
    """A file, and its added tokens."""
    source = random.Random(number)
    model: Json = {
        "ignore_merges": source.random() < 0.3,
        "fuse_unk": source.random() < 0.4,
        "unk_token": source.choice([None, "<unk>", "<unk>", "a"]),
    }
    content = cases.with_model(base(source), **model)
    content["normalizer"] = some(source, "normalizers", NORMALIZERS)
    one_strip = source.choice([DECODERS, [part for part in DECODERS if part not in STRIPS]])
    content["decoder"] = (
        source.choice(DECODERS) if one_strip is DECODERS else some(source, "decoders", one_strip)
    )
    content["post_processor"] = some(source, "processors", POST_PROCESSORS)
    # Nor can it put a template around a template.
    if json.dumps(content["post_processor"]).count("Processing") > 1:
        content["post_processor"] = None
    names = source.sample(TOKENS, source.choice([0, 1, 2, 4]))
    for name in names:
        flags = {flag: source.random() < chance for flag, chance in FLAGS.items()}
        content = cases.with_tokens(content, name, **flags)
    spaces = source.sample(SPACES, source.choice([0, 0, 2]))
    for name in spaces:
        flags = {flag: source.random() < 0.5 for flag in FLAGS if flag != "lstrip"}
        content = cases.with_tokens(content, name, **flags)
    return content, [*names, *spaces, "<s>"]


def pair(number: int) -> tuple[Tokenizer, HuggingFace, list[str]] | None:
    """The file in both libraries, or nothing if Gristmill refuses it."""
    content, names = mixed(number)
    data = json.dumps(content)
    try:
        ours = Tokenizer.from_bytes(data.encode())
    except TokenizerError:
        return None
    return ours, HuggingFace(data), names


@pytest.mark.parametrize("part", range(8))
def test_mixed_files(part: int) -> None:
    number = settings().max_examples * FILES // 8
    loaded = 0
    for at in range(part * number, (part + 1) * number):
        found = pair(at)
        if found is not None:
            loaded += 1
            check(at, *found)
    # Some ask for what is refused by name, such as a token that becomes nothing.
    assert loaded > number * 0.8


def check(number: int, ours: Tokenizer, theirs: HuggingFace, names: list[str]) -> None:
    again = pickle.loads(pickle.dumps(ours))

    @seed(number)
    @settings(max_examples=12, database=None)
    @given(texts(8, *names))
    def run(text: str) -> None:
        check_text(ours, theirs, text)
        options: Any = {"special": "parse", "add_special_tokens": True}
        assert again.encode_with_offsets(text, **options) == ours.encode_with_offsets(
            text, **options
        )

    run()


def test_every_part_of_the_documentation_is_drawn() -> None:
    text = (Path(__file__).parent.parent / "docs/formats.md").read_text(encoding="utf-8")
    pools = {
        "normalizers": NORMALIZERS,
        "pre-tokenizers": PRE_TOKENIZERS,
        "post-processors": POST_PROCESSORS,
        "decoders": DECODERS,
    }
    for role, pool in pools.items():
        (row,) = re.findall(rf"^\| {role} \| (.*) \|$", text, re.MULTILINE)
        assert {part["type"] for part in pool} == set(re.findall(r"`([A-Z]\w+)`", row))


@given(st.integers(0, 2**32))
def test_any_mixture_loads_or_says_why(number: int) -> None:
    content, _ = mixed(number)
    try:
        ours = Tokenizer.from_bytes(json.dumps(content).encode())
    except TokenizerError:
        return
    assert ours.encode_with_offsets("a b\n")[0] == ours.encode("a b\n")
