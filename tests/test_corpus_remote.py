"""Inputs that are reached by URL, on the file system that fsspec keeps in memory."""

import gzip
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import corpora
import fsspec
import pytest
from gristmill import Tokenizer
from gristmill.corpus import CorpusError, tokenize_corpus
from gristmill.corpus.estimate import estimate
from gristmill.corpus.options import Options, Running

TEXTS = corpora.texts(900, seed=17)
SMALL: dict[str, Any] = {"tokenizer": "gpt2", "shard_size": 20_000}
FILES = {
    "in/a.jsonl": corpora.jsonl(TEXTS[:400]),
    "in/b/c.jsonl.gz": gzip.compress(corpora.jsonl(TEXTS[400:800]), mtime=0),
    "in/d.jsonl": corpora.jsonl(TEXTS[800:]),
}


@pytest.fixture
def memory() -> Iterator[Any]:
    """A file system with texts, and what no run reads."""
    system = fsspec.filesystem("memory")
    for name, content in {**FILES, "in/README.md": b"no", "in/_SUCCESS": b""}.items():
        system.pipe_file(f"/{name}", content)
    yield system
    system.rm("/in", recursive=True)


def test_the_same_as_from_files(memory: Any, tmp_path: Path) -> None:
    for name, content in FILES.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    tokenize_corpus(tmp_path / "in", tmp_path / "here", **SMALL)
    report = tokenize_corpus("memory://in", tmp_path / "there", **SMALL)
    assert (report.documents, report.files) == (900, 3)
    assert report.left_out == ["memory:///in/README.md"]
    assert corpora.megatron(tmp_path / "there") == corpora.megatron(tmp_path / "here")
    # Nothing of the inputs stays.
    assert list((tmp_path / "there" / ".inputs").iterdir()) == []
    left = tmp_path / "there" / ".inputs" / "of-a-killed-run" / "a.jsonl"
    left.parent.mkdir()
    left.touch()
    again = tokenize_corpus("memory://in", tmp_path / "there", **SMALL)
    assert not left.exists()
    assert len(list(corpora.journalled(tmp_path / "there"))) == again.shards


def test_an_estimate(memory: Any, tmp_path: Path) -> None:
    tok = Tokenizer("gpt2")
    guess = estimate(["memory://in"], str(tmp_path), tok, Options(), Running(threads=1))
    assert guess.documents.value == 900
    assert list(tmp_path.iterdir()) == []


def test_patterns_and_files(memory: Any, tmp_path: Path) -> None:
    report = tokenize_corpus("memory://in/*.jsonl", tmp_path / "1", **SMALL)
    assert report.documents == 500
    report = tokenize_corpus(["memory://in/d.jsonl"], tmp_path / "2", **SMALL)
    assert report.documents == 100
    for name in ("memory://in/none.jsonl", "memory://in/*.csv"):
        with pytest.raises(FileNotFoundError):
            tokenize_corpus(name, tmp_path / "3", **SMALL)


def test_what_changed_elsewhere_is_refused(memory: Any, tmp_path: Path) -> None:
    tokenize_corpus("memory://in", tmp_path, **SMALL)
    content = bytearray(FILES["in/a.jsonl"])
    content[-3] ^= 1
    memory.pipe_file("/in/a.jsonl", bytes(content))
    with pytest.raises(CorpusError, match=r"a\.jsonl: has another content"):
        tokenize_corpus("memory://in", tmp_path, **SMALL)


def test_what_is_no_text_is_named_by_its_url(memory: Any, tmp_path: Path) -> None:
    memory.pipe_file("/in/e.txt", b"%PDF-1.7")
    with pytest.raises(CorpusError, match=r"^memory:///in/e\.txt: it is a PDF"):
        tokenize_corpus("memory://in", tmp_path, **SMALL)
