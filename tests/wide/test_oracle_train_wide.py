"""Merges on real texts equal to those of the trainers that are followed.

Run by `make test-wide`; GRISTMILL_DATA names the folder that holds `corpora/`.
"""

import functools
import os
import random
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import regex
import trainers
from gristmill import WordCounts
from test_oracle_train import (
    EMOJI,
    RUNS,
    Trainer,
    compare_pieces,
    of_rustbpe,
    of_sentencepiece,
    of_tokenizers,
    parts_of,
    pieces_of,
    theirs_of,
    tokens_of,
)
from tokenizers import pre_tokenizers
from trainers import GPT2

pytestmark = pytest.mark.wide

DATA = Path(os.environ.get("GRISTMILL_DATA") or "missing")
BYTES = 2_000_000
FILES = ["en_web_or_wiki.txt", "code.txt", "multi/zh.txt", "multi/ja.txt", "chat.jsonl"]


@pytest.fixture(scope="module", params=FILES)
def texts(request: pytest.FixtureRequest) -> list[str]:
    """The beginning of a file, cut anywhere."""
    with open(DATA / "corpora" / request.param, "rb") as file:
        text = file.read(BYTES).decode("utf-8", "ignore")
    return [text[at : at + 3000] for at in range(0, len(text), 3000)]


@pytest.mark.parametrize("size", [300, 2000, 32_768])
def test_rustbpe(texts: list[str], size: int) -> None:
    assert tokens_of(Trainer(size).train(texts)) == of_rustbpe(texts, size)


@pytest.mark.parametrize("size", [300, 2000, 32_768])
def test_tokenizers(texts: list[str], size: int, tmp_path: Path) -> None:
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    theirs = of_tokenizers(texts, GPT2, True, vocab_size=size, initial_alphabet=alphabet)
    ours = Trainer(size, parity="hf").train(texts)
    assert parts_of(ours, tmp_path) == theirs_of(theirs)


@pytest.mark.parametrize("normalization", ["identity", "nmt_nfkc"])
@pytest.mark.parametrize("size", [6000, 32_768])
def test_sentencepiece(texts: list[str], size: int, normalization: str) -> None:
    lines = [line for text in texts for line in text.splitlines() if line]
    theirs = of_sentencepiece(lines, vocab_size=size, normalization_rule_name=normalization)
    ours = Trainer(size, parity="sentencepiece", normalization=normalization).train(lines)
    tokens = [ours.id_to_token(id) for id in range(ours.vocab_size)]
    compare_pieces(tokens, pieces_of(theirs), size)


# --- what has no package: the definition, by which no text is too long

KINDS = [*FILES, "runs and emoji"]
PARITIES = ["rustbpe", "minbpe", "cs336"]


def texts_of(kind: str) -> list[str]:
    """Texts of a kind."""
    if kind in FILES:
        # Where a sentence is a word the definition, which reads whole words anew, takes long.
        most = 100_000 if kind.startswith("multi") else 1_000_000
        with open(DATA / "corpora" / kind, "rb") as file:
            text = file.read(most).decode("utf-8", "ignore")
        return [text[at : at + 3000] for at in range(0, len(text), 3000)]
    chance = random.Random(5)
    letters = EMOJI + "ab \n\té中"
    runs = (chance.choice(letters) * chance.randrange(1, 60) for _ in range(4000))
    mixed = ("".join(chance.choices(letters, k=chance.randrange(1, 9))) for _ in range(12_000))
    return [RUNS, EMOJI * 5, *runs, *mixed]


@functools.cache
def by_definition(kind: str, parity: str) -> list[bytes]:
    words = Counter(
        word.encode() for text in texts_of(kind) for word in regex.findall(trainers.GPT2, text)
    )
    merges = trainers.incremental(trainers.rows(words), 32_512, trainers.RULES[parity]())
    return [left + right for left, right in merges]


@pytest.mark.parametrize("parity", PARITIES)
@pytest.mark.parametrize("kind", KINDS)
def test_the_definition(kind: str, parity: str) -> None:
    ours = Trainer(32_768, parity=parity, pattern="gpt2").train(texts_of(kind))
    expected = by_definition(kind, parity)
    # Far beyond what the naive definition and the originals are compared on.
    assert len(expected) > 5_000
    assert tokens_of(ours)[256:] == expected


@pytest.mark.parametrize("parity", PARITIES)
@pytest.mark.parametrize("kind", ["code.txt", "multi/ja.txt"])
def test_threads_chunks_limits_and_orders(kind: str, parity: str) -> None:
    texts = texts_of(kind)
    # So many times that all threads have their part; the merges are those of one time.
    many = texts * 6
    expected = by_definition(kind, parity)
    ways: list[dict[str, Any]] = [{"threads": threads} for threads in (1, 2, 3, 5, 16)]
    ways += [{"memory_limit": 200_000, "threads": threads} for threads in (1, 4)]
    for way in ways:
        trainer = Trainer(32_768, parity=parity, pattern="gpt2", **way)
        assert tokens_of(trainer.train(iter(many)))[256:] == expected, way
    trainer = Trainer(32_768, parity=parity, pattern="gpt2")
    parts = []
    for at in range(0, len(texts), 97):
        parts.append(WordCounts(trainer))
        parts[-1].add(texts[at : at + 97])
    if parity != "minbpe":
        # Its rule asks for the order of the texts.
        random.Random(3).shuffle(parts)
    total = WordCounts(trainer)
    for part in parts:
        total.merge(part)
    assert tokens_of(trainer.train(total))[256:] == expected


def test_more_symbols_than_two_bytes_number() -> None:
    texts = [text for kind in FILES for text in texts_of(kind)]
    size = 80_000
    ours = tokens_of(Trainer(size).train(texts))
    assert len(ours) > 1 << 16
    assert ours == of_rustbpe(texts, size)


@pytest.mark.skipif(sys.platform != "linux", reason="reads what Linux says of a process")
def test_memory() -> None:
    """The peak of a process that trains: the limit, and 90 bytes for each word while merging."""
    program = """
import resource, sys, gristmill
def peak(): return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
def texts():
    # Each number is a word of its own, of ten letters.
    for start in range(0, 3_000_000, 1000):
        yield " ".join(f"{n * 2654435761 % 26**10:x}".translate(table) for n in
                       range(start, start + 1000))
table = str.maketrans("0123456789", "ghijklmnop")
before = peak()
seen = {}
tok = gristmill.Trainer(2000, memory_limit="64MB", progress=seen.update).train(texts())
assert tok.vocab_size == 2000
print(seen["words"], peak() - before)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)
    words, memory = map(int, done.stdout.split())
    assert words > 2_500_000
    # Beside the promise there are buffers of texts and of files.
    assert memory < 90 * words + 64_000_000
