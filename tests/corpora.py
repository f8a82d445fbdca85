"""Small corpora for tests, and what their shards should hold, found out by other means."""

import gzip
import json
import random
import struct
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import tiny
from gristmill import Tokenizer

WORDS = tiny.PARAGRAPH.split()
END = 50256


def texts(count: int, seed: int = 0) -> list[str]:
    """Texts of many lengths."""
    random_ = random.Random(seed)
    return [
        " ".join(random_.choices(WORDS, k=int(random_.lognormvariate(3, 1)) + 1))
        for _ in range(count)
    ]


def jsonl(records: list[str]) -> bytes:
    """JSON Lines of texts."""
    return b"".join(
        json.dumps({"id": n, "text": one}).encode() + b"\n" for n, one in enumerate(records)
    )


def folder_of(path: Path, files: Mapping[str, bytes]) -> Path:
    """A folder with these files; those that end in .gz are compressed."""
    for name, content in files.items():
        target = path / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(gzip.compress(content, mtime=0) if name.endswith(".gz") else content)
    return path


def megatron(out: Path) -> list[list[int]]:
    """The documents in Megatron's files of a run, read by what is known of their format."""
    documents = []
    for index in sorted((out / "megatron").glob("*.idx")):
        content = index.read_bytes()
        magic, version, code, sequences, ends = struct.unpack_from("<9sQBQQ", content)
        assert (magic, version, code) == (b"MMIDIDX\0\0", 1, 8)
        lengths = struct.unpack_from(f"<{sequences}i", content, 34)
        assert len(content) == 34 + 12 * sequences + 8 * ends
        ids = index.with_suffix(".bin").read_bytes()
        at = 0
        for length in lengths:
            documents.append(list(struct.unpack_from(f"<{length}H", ids, at)))
            at += 2 * length
        assert at == len(ids)
    return documents


def expected(tok: Tokenizer, records: list[str]) -> list[list[int]]:
    """What Megatron's files should hold."""
    return [[*tok.encode(text), END] for text in records if text]


def content(out: Path) -> dict[str, bytes]:
    """All that a run is judged by: every file but the plan, journals, locks and reports."""
    apart = ("plan.json", "journal", "report.", ".lock")
    return {
        str(path.relative_to(out)): path.read_bytes()
        for path in sorted(out.rglob("*"))
        if path.is_file() and not path.name.startswith(apart)
    }


def journalled(out: Path) -> Iterator[dict[str, Any]]:
    """The shards that the journals name."""
    for path in sorted(out.glob("journal*.jsonl")):
        for line in path.read_text().splitlines():
            entry = json.loads(line)
            if "shard" in entry:
                yield entry["shard"]
