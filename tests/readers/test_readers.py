"""Shards read by the real readers, and the same documents written by the real writers.

Run by `make test-readers`, in an environment of its own: the packages bring torch, and cannot all
be installed beside each other with everything they ask for (`requirements.txt`, `packages.txt`).
Without them these tests fail.
"""

import json
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import shard_writers
from gristmill._native import Shards, convert_shards
from gristmill.data import TokenDataset
from shard_writers import CASES, DOCUMENTS, END
from test_shards import GOLDEN, all_of, written

IDS = {case: [id for document in DOCUMENTS[case] for id in document] for case in CASES}


@pytest.fixture(params=CASES)
def case(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


def test_golden_files_are_what_the_writers_write(case: str) -> None:
    versions = json.loads((GOLDEN / "versions.json").read_text())
    assert {name: version(name) for name in versions} == versions
    for name, content in shard_writers.all_files(DOCUMENTS[case], CASES[case]).items():
        assert content == (GOLDEN / f"{case}.{name}").read_bytes(), name


def test_megatron_core(tmp_path: Path, case: str) -> None:
    from megatron.core.datasets.indexed_dataset import IndexedDataset

    folder = written(tmp_path, DOCUMENTS[case], "megatron", CASES[case])
    dataset = IndexedDataset(str(folder / "megatron" / "shard-000000"), mmap=True)
    assert [dataset[number].tolist() for number in range(len(dataset))] == DOCUMENTS[case]
    assert dataset.document_indices.tolist() == list(range(len(DOCUMENTS[case]) + 1))


def test_megatron_core_keeps_empty_documents(tmp_path: Path) -> None:
    documents: list[list[int]] = [[], [5, END], [], [6, END], []]
    folder = written(tmp_path / "ours", documents, "megatron")
    (tmp_path / "theirs").mkdir()
    theirs = shard_writers.write_megatron(tmp_path / "theirs", documents, 50257)
    for kind in ("bin", "idx"):
        ours = (folder / "megatron" / f"shard-000000.{kind}").read_bytes()
        assert ours == theirs[f"megatron.{kind}"]


def test_datatrove(tmp_path: Path, case: str) -> None:
    from datatrove.utils.dataset import DatatroveFileDataset

    folder = written(tmp_path, DOCUMENTS[case], "datatrove", CASES[case])
    dataset = DatatroveFileDataset(
        str(folder / "datatrove" / "shard-000000.ds"),
        seq_len=2,
        token_size=4 if CASES[case] > 65536 else 2,
    )
    windows = [dataset[number]["input_ids"].tolist() for number in range(len(dataset))]
    ids = IDS[case]
    assert windows == [ids[at : at + 3] for at in range(0, len(ids) // 3 * 3, 3)]


@pytest.mark.parametrize("length", [None, 4])
def test_mosaicml_streaming(tmp_path: Path, case: str, length: int | None) -> None:
    streaming = shard_writers.import_streaming()
    sequences = length and {"length": length, "pack": "concat", "pad": END}
    folder = written(tmp_path, DOCUMENTS[case], "mds", CASES[case], sequences=sequences)
    dataset = streaming.LocalDataset(str(folder / "mds"))
    rows = [dataset[number]["tokens"].tolist() for number in range(len(dataset))]
    if length is None:
        assert rows == DOCUMENTS[case]
    else:
        assert rows == shard_writers.rows_of(DOCUMENTS[case], length)


def test_mosaicml_streaming_of_several_files(tmp_path: Path) -> None:
    streaming = shard_writers.import_streaming()
    sequences = {"length": 16, "pack": "bestfit", "pad": END, "per_file": 10}
    folder = written(tmp_path, DOCUMENTS["u16"], "mds", sequences=sequences)
    dataset = streaming.LocalDataset(str(folder / "mds"))
    ours = TokenDataset(folder, 16)
    assert len(dataset) == len(ours) > 100
    for number in range(len(ours)):
        assert dataset[number]["tokens"].tolist() == ours[number]["input_ids"].tolist()


def test_litdata(tmp_path: Path, case: str) -> None:
    import litdata
    from litdata.streaming.item_loader import TokensLoader

    folder = written(tmp_path, DOCUMENTS[case], "litdata", CASES[case])
    dataset = litdata.StreamingDataset(
        str(folder / "litdata"), item_loader=TokensLoader(block_size=4), shuffle=False
    )
    blocks = [dataset[number].tolist() for number in range(len(dataset))]
    ids = IDS[case]
    assert blocks == [ids[at : at + 4] for at in range(0, len(ids) // 4 * 4, 4)]


@pytest.mark.parametrize("format", ["parquet", "arrow"])
def test_pyarrow(tmp_path: Path, case: str, format: str) -> None:
    import pyarrow
    import pyarrow.parquet

    folder = written(tmp_path, DOCUMENTS[case], format, CASES[case])
    path = folder / format / f"shard-000000.{format}"
    if format == "parquet":
        table = pyarrow.parquet.read_table(path)
    else:
        table = pyarrow.ipc.open_file(path).read_all()
    item = pyarrow.uint16() if CASES[case] <= 65536 else pyarrow.uint32()
    assert table.schema.field("input_ids").type == pyarrow.list_(item)
    assert table["input_ids"].to_pylist() == DOCUMENTS[case]


@pytest.mark.parametrize("large", [False, True])
@pytest.mark.parametrize("item", ["uint16", "uint32", "int32", "int64"])
@pytest.mark.parametrize("format", ["parquet", "arrow"])
def test_trap_33_tables_of_pyarrow(tmp_path: Path, format: str, item: str, large: bool) -> None:
    """Lists and large lists, several row groups, other columns: all are read."""
    import pyarrow
    import pyarrow.parquet

    of = getattr(pyarrow, item)()
    kind = pyarrow.large_list(of) if large else pyarrow.list_(of)
    ids = pyarrow.array(DOCUMENTS["u16"], type=kind)
    names = pyarrow.array([f"{number}" for number in range(len(ids))])
    table = pyarrow.table({"name": names, "input_ids": ids})
    path = tmp_path / f"a.{format}"
    if format == "parquet":
        pyarrow.parquet.write_table(table, path, row_group_size=7)
    else:
        with pyarrow.ipc.new_file(path, table.schema) as writer:
            writer.write_table(table, max_chunksize=7)
    shards = Shards(path)
    assert all_of(shards) == DOCUMENTS["u16"]
    assert shards[50].tolist() == DOCUMENTS["u16"][50]


@pytest.mark.parametrize("workers", [0, 2])
def test_torch_dataloader(tmp_path: Path, workers: int) -> None:
    """Batches of two processes with workers, a resume with three: every window once."""
    from torch.utils.data import DataLoader

    source = written(tmp_path, DOCUMENTS["u16"], "megatron")
    plain = TokenDataset(source, 16)
    dataset = TokenDataset(source, 16, seed=7, shuffle=True)
    seen: list[tuple[int, ...]] = []

    def train(world: int, batches: int) -> None:
        for rank in range(world):
            loader: Any = DataLoader(
                dataset,  # type: ignore[arg-type, unused-ignore]
                batch_size=4,
                sampler=dataset.sampler(rank, world),
                num_workers=workers,
            )
            for _, batch in zip(range(batches), loader, strict=False):
                assert batch["labels"].shape == (4, 16)
                seen.extend(tuple(row) for row in batch["input_ids"].tolist())
        dataset.advance(world * batches * 4)

    train(world=2, batches=5)
    state = dataset.state_dict()
    dataset = TokenDataset(source, 16, seed=7, shuffle=True)
    dataset.load_state_dict(state)
    train(world=3, batches=6)
    order = [tuple(dataset[place]["input_ids"].tolist()) for place in range(112)]
    assert sorted(seen) == sorted(order)
    everything = {tuple(plain[place]["input_ids"].tolist()) for place in range(len(plain))}
    assert set(seen) <= everything


def test_files_that_others_wrote_are_converted(tmp_path: Path, case: str) -> None:
    files = shard_writers.all_files(DOCUMENTS[case], CASES[case])
    for name in ("megatron.bin", "megatron.idx", "datatrove.ds", "datatrove.ds.index", "mds"):
        kind = name.split(".")[0]
        (tmp_path / kind).mkdir(exist_ok=True)
        path = tmp_path / kind / ("a." + (name.partition(".")[2] or name))
        path.write_bytes(files[name])
    output = json.dumps({"format": "parquet", "id_end": CASES[case]})
    for kind in ("megatron", "datatrove", "mds"):
        convert_shards([tmp_path / kind], tmp_path / f"{kind}-out", output)
        made = Shards(tmp_path / f"{kind}-out")
        assert all_of(made) == DOCUMENTS[case]
        assert made[0].dtype == np.uint32
