"""The engine ray, on a cluster that is started here: the bytes are those of the local engine.

Needs `pip install 'gristmill[cluster]'`; without it these tests fail. `make test-ray` runs them.
"""

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent))

import corpora
import ray
from gristmill import Tokenizer
from gristmill.corpus import CorpusError, Progress, tokenize_corpus
from gristmill.engine import ray as engine

TEXTS = corpora.texts(3000, seed=13)
SMALL: dict[str, Any] = {"tokenizer": "gpt2", "shard_size": 20_000}


@pytest.fixture(scope="session", autouse=True)
def cluster() -> Iterator[None]:
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, logging_level="ERROR")
    yield
    ray.shutdown()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return corpora.folder_of(
        tmp_path_factory.mktemp("in"),
        {"a.jsonl": corpora.jsonl(TEXTS[:2000]), "b.jsonl.gz": corpora.jsonl(TEXTS[2000:])},
    )


@pytest.fixture(scope="module")
def whole(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """What the local engine makes."""
    out = tmp_path_factory.mktemp("local")
    tokenize_corpus(folder, out, **SMALL)
    return corpora.content(out)


@pytest.mark.parametrize("threads", [0, 2])
def test_the_same_bytes(
    folder: Path, whole: dict[str, bytes], tmp_path: Path, threads: int
) -> None:
    told: list[Progress] = []
    report = tokenize_corpus(
        folder, tmp_path, **SMALL, engine="ray", threads=threads, progress=told.append
    )
    assert report.complete
    assert corpora.content(tmp_path) == whole
    assert told[-1].documents == report.documents == 3000


def test_what_ray_began_the_local_engine_ends(
    folder: Path, whole: dict[str, bytes], tmp_path: Path
) -> None:
    count = 0

    class Enough(Exception):
        pass

    def leave(progress: Progress) -> None:
        nonlocal count
        if progress.shards:
            raise Enough

    with pytest.raises(Enough):
        tokenize_corpus(folder, tmp_path, **SMALL, engine="ray", progress=leave)
    made = list(corpora.journalled(tmp_path))
    assert len(made) > 0
    tokenize_corpus(folder, tmp_path, **SMALL)
    assert corpora.content(tmp_path) == whole


def test_a_task_whose_process_dies_is_begun_again(
    folder: Path, whole: dict[str, bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make, marker = engine.make, str(tmp_path / "died")

    def dying(tok: Tokenizer, job: str, threads: int, max_memory: int) -> list[str]:
        reports = make(tok, job, threads, max_memory)
        if not os.path.exists(marker):
            Path(marker).touch()
            os._exit(1)
        return reports

    monkeypatch.setattr(engine, "make", dying)
    out = tmp_path / "out"
    assert tokenize_corpus(folder, out, **SMALL, engine="ray").complete
    assert os.path.exists(marker)
    assert corpora.content(out) == whole


def test_an_error_in_a_task_is_the_error_of_the_run(tmp_path: Path) -> None:
    source = corpora.folder_of(tmp_path / "in", {"a.jsonl": b"{bad\n"})
    with pytest.raises(CorpusError, match=r"a\.jsonl.*bad"):
        tokenize_corpus(source, tmp_path / "out", **SMALL, engine="ray", on_error="stop")


# Ray Data warns of what it does itself.
@pytest.mark.filterwarnings("default::DeprecationWarning")
def test_the_encoder_of_ray_data() -> None:
    import ray.data

    tok = Tokenizer("gpt2")
    texts = TEXTS[:300]
    rows = ray.data.from_items([{"id": n, "text": text} for n, text in enumerate(texts)])
    encoded = rows.map_batches(
        engine.Encoder, fn_constructor_args=("gpt2",), concurrency=1, batch_format="pyarrow"
    )
    found = {row["id"]: list(row["input_ids"]) for row in encoded.take_all()}
    assert found == {n: tok.encode(text) for n, text in enumerate(texts)}
