"""TokenDataset: every token once, in one order for any number of processes and resumes."""

import copy
import json
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gristmill._native import convert_shards
from gristmill.data import TokenDataset
from hypothesis import given, settings
from hypothesis import strategies as st
from shard_writers import CASES, DOCUMENTS, END
from test_shards import written

STREAMS = ["megatron", "llmc", "nanogpt", "dolma", "datatrove", "litdata"]


def in_parts(folder: Path, format: str, case: str = "u16") -> Path:
    """The documents in several shards."""
    source = written(folder / "whole", DOCUMENTS[case], "datatrove", CASES[case])
    output: dict[str, Any] = {"format": format, "after": [END], "id_end": CASES[case]}
    convert_shards([source], folder / "parts", json.dumps(output), shard_tokens=700)
    return folder / "parts"


@pytest.mark.parametrize("case", ["u16", "i32"])
@pytest.mark.parametrize("format", STREAMS)
def test_trap_16_windows_cross_files(tmp_path: Path, format: str, case: str) -> None:
    """Nothing is lost at the end of a file: only what is left at the end of all."""
    ids = [id for document in DOCUMENTS[case] for id in document]
    dataset = TokenDataset(in_parts(tmp_path, format, case), 64)
    assert len(dataset) == (len(ids) - 1) // 64
    assert dataset.tokens == len(ids)
    for number in range(len(dataset)):
        item = dataset[number]
        assert item["input_ids"].tolist() == ids[number * 64 : number * 64 + 64]
        assert item["labels"].tolist() == ids[number * 64 + 1 : number * 64 + 65]
        assert item["input_ids"].dtype == np.int64
    with pytest.raises(IndexError):
        dataset[len(dataset)]
    assert dataset[-1]["labels"].tolist() == dataset[len(dataset) - 1]["labels"].tolist()


@pytest.mark.parametrize("format", ["npy", "mds", "litdata"])
@pytest.mark.parametrize("pack", ["none", "concat", "bestfit"])
def test_packed_sequences_know_their_documents(tmp_path: Path, format: str, pack: str) -> None:
    sequences = {"length": 32, "pack": pack, "pad": 0}
    folder = written(tmp_path, DOCUMENTS["u16"], format, sequences=sequences)
    dataset = TokenDataset(folder, 32)
    pieces: list[tuple[int, ...]] = []
    for item in (dataset[number] for number in range(len(dataset))):
        documents, labels = item["document_ids"], item["labels"]
        for document in range(documents.max() + 1):
            inside = documents == document
            ids = item["input_ids"][inside]
            assert item["position_ids"][inside].tolist() == list(range(len(ids)))
            assert labels[inside].tolist() == [*ids[1:].tolist(), -100]
            pieces.append(tuple(ids.tolist()))
        assert np.all(labels[documents < 0] == -100)
    expected = [id for document in DOCUMENTS["u16"] for id in document]
    assert sorted(id for piece in pieces for id in piece) == sorted(expected)
    with pytest.raises(ValueError, match="have 32 ids, not 64"):
        TokenDataset(folder, 64)


def test_a_shuffle_is_a_permutation_of_its_own_each_epoch(tmp_path: Path) -> None:
    folder = in_parts(tmp_path, "megatron")
    plain = TokenDataset(folder, 16)
    dataset = TokenDataset(folder, 16, seed=3, shuffle=True)
    everything = sorted(tuple(plain[place]["input_ids"].tolist()) for place in range(len(plain)))
    orders = []
    for _ in range(3):
        order = [tuple(dataset[place]["input_ids"].tolist()) for place in range(len(dataset))]
        assert sorted(order) == everything
        orders.append(order)
        dataset.next_epoch()
    assert orders[0] != orders[1] != orders[2] != orders[0]
    again = TokenDataset(folder, 16, seed=3, shuffle=True)
    assert [tuple(again[place]["input_ids"].tolist()) for place in range(len(again))] == orders[0]
    other = TokenDataset(folder, 16, seed=4, shuffle=True)
    assert [tuple(other[place]["input_ids"].tolist()) for place in range(len(other))] != orders[0]


@given(length=st.integers(1, 5000), seed=st.integers(0, 9), epoch=st.integers(0, 3))
@settings(max_examples=30)
def test_every_permutation_is_one(length: int, seed: int, epoch: int) -> None:
    dataset = object.__new__(TokenDataset)
    dataset._length, dataset.seed = length, seed
    assert sorted(dataset._order(place, epoch) for place in range(length)) == list(range(length))


def read(dataset: TokenDataset, world: int, steps: int, batch: int) -> list[tuple[int, ...]]:
    """What `world` processes train on in so many steps."""
    seen: list[tuple[int, ...]] = []
    samplers = [iter(dataset.sampler(rank, world)) for rank in range(world)]
    for _ in range(steps):
        for _ in range(batch):
            for sampler in samplers:
                seen.append(tuple(dataset[next(sampler)]["input_ids"].tolist()))
        dataset.advance(world * batch)
    return seen


def test_a_resume_with_another_number_of_processes_goes_on_exactly(tmp_path: Path) -> None:
    folder = in_parts(tmp_path, "nanogpt")
    whole = TokenDataset(folder, 16, seed=5, shuffle=True)
    whole.next_epoch()
    expected = [tuple(whole[place]["input_ids"].tolist()) for place in range(48)]
    first = TokenDataset(folder, 16, seed=5, shuffle=True)
    first.next_epoch()
    seen = read(first, world=4, steps=3, batch=2)
    state = json.loads(json.dumps(first.state_dict()))
    second = TokenDataset(folder, 16, seed=5, shuffle=True)
    second.load_state_dict(state)
    assert (second.epoch, second.position) == (1, 24)
    seen += read(second, world=3, steps=4, batch=2)
    assert seen == expected


def test_a_state_of_another_dataset_is_refused(tmp_path: Path) -> None:
    dataset = TokenDataset(in_parts(tmp_path / "a", "nanogpt"), 16)
    others = [
        TokenDataset(in_parts(tmp_path / "b", "nanogpt"), 32),
        TokenDataset(tmp_path / "a" / "parts", 16, seed=1),
        TokenDataset(tmp_path / "a" / "parts", 16, shuffle=True),
        TokenDataset(in_parts(tmp_path / "c", "llmc"), 16),
    ]
    for other in others:
        with pytest.raises(ValueError, match="of another dataset"):
            other.load_state_dict(dataset.state_dict())


def test_samplers_share_evenly_and_say_how_many(tmp_path: Path) -> None:
    dataset = TokenDataset(in_parts(tmp_path, "nanogpt"), 64)
    for world in (1, 2, 5):
        samplers = [dataset.sampler(rank, world) for rank in range(world)]
        places = [place for sampler in samplers for _, place in sampler]
        assert sorted(places) == list(range(len(dataset) // world * world))
        assert {len(sampler) for sampler in samplers} == {len(dataset) // world}
    with pytest.raises(ValueError, match="rank"):
        dataset.sampler(2, 2)
    with pytest.raises(ValueError, match="too many"):
        dataset.advance(len(dataset) + 1)


def test_a_dataset_travels_to_workers(tmp_path: Path) -> None:
    dataset = TokenDataset(in_parts(tmp_path, "megatron"), 16, seed=1, shuffle=True)
    expected = dataset[3]["input_ids"].tolist()
    assert pickle.loads(pickle.dumps(dataset))[3]["input_ids"].tolist() == expected
    assert copy.copy(dataset)[3]["input_ids"].tolist() == expected


def test_what_is_not_one_behind_the_other_is_refused_with_the_way_out(tmp_path: Path) -> None:
    folder = written(tmp_path, DOCUMENTS["few"], "parquet")
    with pytest.raises(ValueError, match="gristmill convert"):
        TokenDataset(folder, 2)


def test_a_file_cut_off_later_is_an_error(tmp_path: Path) -> None:
    folder = in_parts(tmp_path, "nanogpt")
    file = next((folder / "nanogpt").glob("*.bin"))
    file.write_bytes(file.read_bytes()[:-2])
    with pytest.raises(ValueError, match=r"has .* bytes, and had"):
        TokenDataset(folder, 16)


def test_too_few_tokens_are_no_window(tmp_path: Path) -> None:
    dataset = TokenDataset(written(tmp_path, [[END]], "nanogpt"), 4, shuffle=True)
    assert len(dataset) == 0
    assert list(dataset.sampler()) == []


def test_importing_loads_no_numpy() -> None:
    code = "import sys, gristmill.data; sys.exit('numpy' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)
