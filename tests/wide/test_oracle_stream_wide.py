"""Streams of real tokenizers against `tokenizers`: real texts, random ids, in random steps.

Run by `make test-wide`. Without GRISTMILL_DATA these tests fail.
"""

import functools
import itertools
import os
import random
from pathlib import Path

import oracles
import pytest
import tiny
from gristmill import StreamBatch, Tokenizer
from test_oracle_stream import ours, steps
from test_stream import known, streamed
from texts import HOSTILE

pytestmark = pytest.mark.wide

DATA = Path(os.environ.get("GRISTMILL_DATA") or "missing") / "tokenizers"
# Not BPE, or no models of SentencePiece.
OTHERS = {"bert_base_uncased", "t5_small"}
RANKS = {"kimi_k2", "llama3"}
RANK_MODELS = ("kimi_k2/tiktoken.model", "llama3/tokenizer.model")


def found(pattern: str, others: set[str]) -> list[str]:
    paths = (path for path in DATA.glob(pattern) if path.parent.name not in others)
    return sorted(str(path.relative_to(DATA)) for path in paths) or ["missing"]


JSON = found("*/tokenizer.json", OTHERS)
MODELS = found("*/*.model", RANKS)
# Rank files and tekken.json, whose whole decode other tests compare with their libraries.
BYTES = [
    name
    for name in (*found("*/*.tiktoken", set()), *found("*/tekken*.json", set()), *RANK_MODELS)
    if name != "missing"
] or ["missing"]
CORPORA = sorted(str(path) for path in (DATA.parent / "corpora").rglob("*.txt")) or ["missing"]


def path_of(name: str) -> Path:
    path = DATA / name
    assert path.is_file(), "GRISTMILL_DATA must name the folder that holds tokenizers/"
    return path


@functools.cache
def pair(name: str) -> tuple[Tokenizer, oracles.HuggingFace]:
    path = path_of(name)
    return Tokenizer(path), oracles.HuggingFace(path.read_bytes())


def lists(tok: Tokenizer, name: str) -> list[list[int]]:
    """Ids of texts and ids of nothing in particular."""
    source = random.Random(name)
    size = tok.vocab_size
    special = [*tok.special_tokens.values(), 0]
    found = [tok.encode(text, special="parse") for text in [*HOSTILE, tiny.PARAGRAPH]]
    for length in (1, 2, 5, 20, 100):
        for _ in range(20):
            ids = [source.randrange(size + 3) for _ in range(length)]
            found.append([source.choice(special) if source.random() < 0.1 else id for id in ids])
    # Of most vocabularies the first are bytes.
    found += [[source.randrange(min(300, size)) for _ in range(40)] for _ in range(100)]
    return found


@pytest.mark.parametrize("name", JSON)
def test_whole(name: str) -> None:
    tok, library = pair(name)
    source = random.Random(name)
    for ids in lists(tok, name):
        cuts = [source.randrange(len(ids) + 1) for _ in range(source.randrange(8))]
        for skip in (False, True):
            whole = library.decode(ids, skip)
            assert streamed(tok.decode_stream(skip_special_tokens=skip), ids, cuts) == whole
            stream = tok.decode_stream(skip_special_tokens=skip)
            assert streamed(stream, ids, range(len(ids))) == whole


@pytest.mark.parametrize("name", JSON)
def test_step_by_step(name: str) -> None:
    tok, library = pair(name)
    for ids in lists(tok, name):
        for skip in (False, True):
            assert ours(tok, ids, skip) == steps(library.library, ids, skip)


@pytest.mark.parametrize("name", JSON)
def test_every_token_alone(name: str) -> None:
    tok, library = pair(name)
    ids = range(tok.vocab_size + 3)
    assert tok.token_texts(ids).strs() == library.library.decode_batch(
        [[id] for id in ids], skip_special_tokens=False
    )


@pytest.mark.parametrize("name", JSON)
def test_many_streams(name: str) -> None:
    tok, library = pair(name)
    rows = lists(tok, name)
    batch = StreamBatch(tok)
    slots = batch.open(len(rows))
    texts = [""] * len(rows)
    for step in range(max(map(len, rows))):
        chosen = [at for at, row in enumerate(rows) if step < len(row)]
        found = batch.step(slots[chosen], [rows[at][step] for at in chosen]).strs()
        for at, text in zip(chosen, found, strict=True):
            texts[at] += text
    texts = [text + rest for text, rest in zip(texts, batch.finish(slots).strs(), strict=True)]
    assert texts == [library.decode(row) for row in rows]


@pytest.mark.parametrize("name", MODELS)
def test_sentencepiece(name: str) -> None:
    path: Path = path_of(name)
    tok, library = Tokenizer(path), oracles.SentencePiece(path.read_bytes())
    for ids in lists(tok, name):
        ids = known(tok, ids)
        assert streamed(tok.decode_stream(), ids, range(len(ids))) == library.decode(ids)


@pytest.mark.parametrize("name", BYTES)
def test_rank_files(name: str) -> None:
    tok = Tokenizer(path_of(name))
    for ids in lists(tok, name):
        ids = known(tok, ids)
        for skip in (False, True):
            stream = tok.decode_stream(skip_special_tokens=skip)
            whole = tok.decode(ids, skip_special_tokens=skip)
            assert streamed(stream, ids, range(len(ids))) == whole


@pytest.mark.parametrize("corpus", CORPORA)
def test_real_texts(corpus: str) -> None:
    """Every tokenizer, 256 streams, each through a part of the corpus, some tokens a step."""
    path = Path(corpus)
    assert path.is_file(), "GRISTMILL_DATA must name the folder that holds corpora/"
    with path.open("rb") as file:
        text = file.read(256_000).decode(errors="ignore")
    size = len(text) // 256
    parts = [text[at * size : (at + 1) * size] for at in range(256)]
    source = random.Random(corpus)
    for name in JSON:
        tok, library = pair(name)
        rows = tok.encode_batch(parts)
        batch = StreamBatch(tok)
        slots = batch.open(256)
        texts, at = [""] * 256, 0
        while at < max(map(len, rows)):
            width = source.randrange(1, 9)
            now = [row[at : at + width] for row in rows]
            ends = [0, *itertools.accumulate(map(len, now))]
            tokens = list(itertools.chain.from_iterable(now))
            for number, new in enumerate(batch.step(slots, tokens, ends).strs()):
                texts[number] += new
            at += width
        for number, new in enumerate(batch.finish(slots).strs()):
            texts[number] += new
        assert texts == library.library.decode_batch(rows, skip_special_tokens=False)
