"""A corpus against tokenizers: the ids in Megatron's files, and the table of `bench corpus`."""

import json
import subprocess
import sys
from pathlib import Path

import corpora
import pytest
import tiny
from gristmill.corpus import tokenize_corpus
from tokenizers import Tokenizer as Theirs

TEXTS = [
    *corpora.texts(500, seed=21),
    *("<|endoftext|>", "a<|endoftext|>b", " ", "\n\n", "\u0000", "e\u0301\u00e9 \U0001f999" * 50),
    "".join(corpora.WORDS) * 40,
]


@pytest.fixture
def tokenizer(tmp_path: Path) -> Path:
    path = tmp_path / "tokenizer.json"
    path.write_bytes(tiny.byte_level_json())
    return path


@pytest.mark.parametrize("name", ["a.jsonl", "a.jsonl.gz"])
def test_the_ids_are_those_of_tokenizers(tokenizer: Path, tmp_path: Path, name: str) -> None:
    source = corpora.folder_of(tmp_path / "in", {name: corpora.jsonl(TEXTS)})
    out = tmp_path / "out"
    report = tokenize_corpus(source, out, tokenizer=tokenizer, shard_size=5000)
    theirs = Theirs.from_file(str(tokenizer))
    theirs.encode_special_tokens = True
    end = theirs.token_to_id("<|endoftext|>")
    expected = [[*theirs.encode(text, add_special_tokens=False).ids, end] for text in TEXTS]
    assert corpora.megatron(out) == expected
    assert report.documents == len(TEXTS)


@pytest.mark.parametrize("format", ["table", "json"])
def test_bench_corpus_measures_tokenizers_beside_us(
    tokenizer: Path, tmp_path: Path, format: str
) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(corpora.jsonl(TEXTS))
    command = [sys.executable, "-W", "error", "-m", "gristmill", "bench", "corpus", str(path)]
    command += ["-t", str(tokenizer), "--num-docs", "200", "--format", format]
    ended = subprocess.run(command, capture_output=True, check=False, text=True)
    assert (ended.returncode, ended.stderr) == (0, "")
    rows = ["tokenizers, one by one", "gristmill tokenize, 1 thread"]
    rows += [f"tokenizers, batches of {size}" for size in (32, 64, 100, 256)]
    if format == "table":
        assert ended.stdout.startswith("200 documents, ")
        for row in rows:
            assert row in ended.stdout
        return
    found = json.loads(ended.stdout)
    assert found["documents"] == 200
    assert set(rows) <= set(found["methods"])
    assert found["left out"] is None
    for row in found["methods"].values():
        assert row["documents/s"] == pytest.approx(200 / row["seconds"])
