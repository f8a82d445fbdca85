"""Embedded tokenizers give the ids that scripts/make_golden.py wrote down, and save their files."""

import hashlib
import json
from pathlib import Path
from typing import Any

import gristmill
import pytest
from gristmill import Tokenizer

GOLDEN = Path(__file__).parent / "golden"
# As tiktoken publishes them; the last two share their ranks.
CHECKSUMS = {
    "gpt2": "306cd27f03c1a714eca7108e03d66b7dc042abe8c258b44c199a7ed9838dd930",
    "cl100k_base": "223921b76ee99bde995b7ff738513eef100fb51d18c93597a113bcffe865b2a7",
    "o200k_base": "446a9538cb6c348e3516120d7c08b09f57c36495e2acfffe59a5bf8b0cfb1a2d",
    "o200k_harmony": "446a9538cb6c348e3516120d7c08b09f57c36495e2acfffe59a5bf8b0cfb1a2d",
}


def golden(name: str) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((GOLDEN / f"{name}.json").read_text(encoding="utf-8"))
    return content


def test_every_embedded_tokenizer_has_golden_ids() -> None:
    assert {path.stem for path in GOLDEN.glob("*.json")} == set(gristmill.EMBEDDED)


@pytest.mark.parametrize("name", gristmill.EMBEDDED)
def test_golden_ids(name: str) -> None:
    tokenizer, content = Tokenizer(name), golden(name)
    assert content["tokenizer"] == name
    assert len(content["cases"]) > 60
    for case in content["cases"]:
        text = case["text"]
        assert tokenizer.encode(text) == case["ids"], text
        assert tokenizer.encode(text, special="parse") == case["parsed"], text
        assert tokenizer.decode(case["ids"]) == tokenizer.decode(case["parsed"]) == text
    texts = [case["text"] for case in content["cases"]]
    assert tokenizer.encode_batch(texts) == [case["ids"] for case in content["cases"]]


@pytest.mark.parametrize("name", gristmill.EMBEDDED)
def test_saved_ranks_are_the_published_file(name: str, tmp_path: Path) -> None:
    path = tmp_path / "ranks.tiktoken"
    Tokenizer(name).save(path)
    assert hashlib.sha256(path.read_bytes()).hexdigest() == CHECKSUMS[name]
