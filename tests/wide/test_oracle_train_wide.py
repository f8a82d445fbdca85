"""Merges on real texts equal to those of the trainers that are followed.

Run by `make test-wide`; GRISTMILL_DATA names the folder that holds `corpora/`.
"""

import os
from pathlib import Path

import pytest
from test_oracle_train import (
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
