"""Shards of every format: byte for byte what the formats' own writers make, and back.

The golden files were made by `scripts/make_shards_golden.py`; `tests/readers` has the real readers.
The laws on any documents are in `crates/gristmill-corpus/src/shards/tests.rs`.
"""

import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gristmill._native import (
    CorpusError,
    Shards,
    check_output,
    convert_shards,
    finish_output,
    verify_shards,
)
from shard_writers import CASES, DOCUMENTS, END, Documents, megatron_pair, rows_of

GOLDEN = Path(__file__).parent / "golden" / "shards"
FORMATS = [
    *("megatron", "llmc", "nanogpt", "npy", "dolma", "datatrove"),
    *("mds", "litdata", "parquet", "arrow"),
]


def output_of(format: str, end: int = 50257, **options: Any) -> dict[str, Any]:
    """An output whose documents end with `END`."""
    output = {"format": format, "after": [END], "id_end": end, "tokenizer": "gpt2"}
    if format == "npy":
        output["sequences"] = {"length": 8, "pack": "concat", "pad": END}
    return output | options


def written(
    folder: Path, documents: Documents, format: str, end: int = 50257, **options: Any
) -> Path:
    """Documents, which bring their ends, as shards of a format."""
    pair = megatron_pair(folder / "source", "a", documents, wide=end >= 65500)
    output = json.dumps(output_of(format, end, **options))
    convert_shards([pair], folder / "out", output)
    return folder / "out"


def all_of(shards: Shards) -> list[list[int]]:
    """Every document."""
    return [shards[number].tolist() for number in range(len(shards))]


def files_of(folder: Path, format: str) -> dict[str, bytes]:
    """The files of the first shard, without its name."""
    found = {}
    for path in sorted((folder / format).iterdir()):
        if path.name != "shards.json":
            found[path.name.replace("shard-000000", "")] = path.read_bytes()
    return found


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize(
    ("format", "names"),
    [
        ("megatron", {".bin": "megatron.bin", ".idx": "megatron.idx"}),
        (
            "datatrove",
            {
                ".ds": "datatrove.ds",
                ".ds.index": "datatrove.ds.index",
                ".ds.metadata": "datatrove.ds.metadata",
            },
        ),
        ("mds", {".000000.mds": "mds"}),
        ("litdata", {"chunk--000000.bin": "litdata.bin"}),
    ],
)
def test_bytes_of_the_own_writer(
    tmp_path: Path, format: str, names: dict[str, str], case: str
) -> None:
    made = files_of(written(tmp_path, DOCUMENTS[case], format, CASES[case]), format)
    for ours, theirs in names.items():
        assert made.pop(ours) == (GOLDEN / f"{case}.{theirs}").read_bytes(), ours
    assert set(made) <= {"index.json"}


@pytest.mark.parametrize("case", CASES)
def test_bytes_of_sequences_as_mds(tmp_path: Path, case: str) -> None:
    sequences = {"length": 8, "pack": "concat", "pad": END}
    folder = written(tmp_path, DOCUMENTS[case], "mds", CASES[case], sequences=sequences)
    ours = files_of(folder, "mds")[".000000.mds"]
    assert ours == (GOLDEN / f"{case}.rows.mds").read_bytes()


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("format", FORMATS)
def test_documents_come_back(tmp_path: Path, format: str, case: str) -> None:
    folder = written(tmp_path, DOCUMENTS[case], format, CASES[case])
    shards = Shards(folder)
    assert all_of(shards) == DOCUMENTS[case]
    assert shards[-1].dtype == np.uint32
    verified = json.loads(verify_shards(folder))
    assert verified["problems"] == []
    assert verified["documents"] == verified["ended"] == len(DOCUMENTS[case])
    with pytest.raises(IndexError, match="there is no document"):
        shards[len(shards)]


@pytest.mark.parametrize(("end", "dtype"), [(50257, np.uint16), (128256, np.uint32)])
def test_trap_14_files_of_olmo_are_no_arrays(tmp_path: Path, end: int, dtype: Any) -> None:
    """They are called .npy, and are ids and nothing else, as nanoGPT's are."""
    documents = DOCUMENTS["u16" if end == 50257 else "i32"]
    ids = [id for document in documents for id in document]
    dolma = written(tmp_path / "a", documents, "dolma", end) / "dolma"
    assert np.memmap(dolma / "shard-000000.npy", dtype=dtype, mode="r").tolist() == ids
    with pytest.raises(ValueError, match=r"pickle|magic"):
        np.load(dolma / "shard-000000.npy")
    rows = gzip.decompress((dolma / "shard-000000.csv.gz").read_bytes()).decode().splitlines()
    starts = [int(row.split(",")[0]) for row in rows]
    ends = [int(row.split(",")[1]) for row in rows]
    assert ends == np.cumsum([len(document) for document in documents]).tolist()
    assert starts == [0, *ends[:-1]]
    nanogpt = written(tmp_path / "b", documents, "nanogpt", end) / "nanogpt"
    assert np.memmap(nanogpt / "shard-000000.bin", dtype=dtype, mode="r").tolist() == ids


@pytest.mark.parametrize(("end", "dtype"), [(50257, np.uint16), (128256, np.uint32)])
def test_arrays_are_what_numpy_loads(tmp_path: Path, end: int, dtype: Any) -> None:
    documents = DOCUMENTS["u16" if end == 50257 else "i32"]
    npy = written(tmp_path, documents, "npy", end) / "npy"
    rows = np.load(npy / "shard-000000.npy", mmap_mode="r")
    assert rows.dtype == dtype
    assert rows.tolist() == rows_of(documents, 8)
    assert np.load(npy / "shard-000000.ends.npy")[-1] == sum(map(len, documents))


def llmc_tokens(path: Path) -> np.ndarray[Any, Any]:
    """What the loaders of llm.c and modded-nanogpt do: look at the header, read, compare."""
    header = np.fromfile(path, dtype="<i4", count=256)
    dtype = {(20240520, 1): "<u2", (20240801, 7): "<u4"}[(int(header[0]), int(header[1]))]
    tokens = np.fromfile(path, dtype=dtype, offset=1024)
    assert len(tokens) == header[2]
    assert path.stat().st_size == 1024 + int(header[2]) * tokens.itemsize
    return tokens


@pytest.mark.parametrize("case", ["u16", "i32"])
def test_files_of_llmc_are_cut_to_the_id(tmp_path: Path, case: str) -> None:
    folder = written(tmp_path, DOCUMENTS[case], "llmc", CASES[case], max_tokens=1000)
    parts = [llmc_tokens(path) for path in sorted((folder / "llmc").glob("*_train.bin"))]
    assert [len(part) for part in parts[:-1]] == [1000] * (len(parts) - 1)
    assert np.concatenate(parts).tolist() == [id for ids in DOCUMENTS[case] for id in ids]


def test_trap_8_documents_without_ids(tmp_path: Path) -> None:
    """Megatron repeats the document index; what has items refuses, since its readers do."""
    documents: list[list[int]] = [[], [5, END], [], [], [6, END], []]
    folder = written(tmp_path / "a", documents, "megatron")
    assert all_of(Shards(folder)) == documents
    for format in ("llmc", "nanogpt", "datatrove", "parquet", "arrow", "npy", "dolma"):
        folder = written(tmp_path / format, documents, format)
        assert all_of(Shards(folder)) == documents, format
    for format in ("mds", "litdata"):
        with pytest.raises(CorpusError, match="without ids cannot be written"):
            written(tmp_path / format, documents, format)


def test_trap_11_ends_before_and_behind(tmp_path: Path) -> None:
    """What a folder says stands at its documents is checked at every one of them."""
    documents = [[END, 5], [END, 6, 7]]
    output = output_of("llmc", before=[END], after=[])
    pair = megatron_pair(tmp_path, "a", documents)
    convert_shards([pair], tmp_path / "out", json.dumps(output))
    verified = json.loads(verify_shards(tmp_path / "out"))
    assert (verified["begun"], verified["documents"]) == (2, 2)
    convert_shards([pair], tmp_path / "other", json.dumps(output_of("llmc")))
    assert json.loads(verify_shards(tmp_path / "other"))["ended"] == 0


@pytest.mark.parametrize(
    ("format", "end", "width"),
    [
        ("megatron", 65499, "u16"),
        ("megatron", 65500, "i32"),
        ("llmc", 65536, "u16"),
        ("llmc", 65537, "u32"),
        ("datatrove", 65536, "u16"),
        ("datatrove", 65537, "u32"),
        ("dolma", 65537, "u32"),
        ("mds", 65537, "i32"),
        ("litdata", 65537, "i32"),
        ("parquet", 65537, "u32"),
    ],
)
def test_trap_12_width_of_the_largest_possible_id(
    tmp_path: Path, format: str, end: int, width: str
) -> None:
    """Not that of the largest id there is: other shards may have larger ones."""
    folder = written(tmp_path, [[1, END]], format, end)
    assert json.loads(Shards(folder).list)["width"] == width


def test_trap_13_files_are_not_read_with_another_width(tmp_path: Path) -> None:
    """The list says how wide ids are, and a file that does not fit it is an error."""
    folder = written(tmp_path, DOCUMENTS["few"], "nanogpt")
    path = folder / "nanogpt" / "shards.json"
    path.write_text(path.read_text().replace('"width":"u16"', '"width":"u32"'))
    with pytest.raises(CorpusError, match=r"shard-000000\.(bin|ends\.npy)"):
        Shards(folder)[0]


def test_trap_15_counts_of_32_bits() -> None:
    """What a format cannot count is refused, or never comes to be."""
    with pytest.raises(CorpusError, match="do not fit"):
        check_output(json.dumps(output_of("megatron", 2**31 + 1)))
    with pytest.raises(CorpusError, match="do not fit"):
        check_output(json.dumps(output_of("nanogpt", 70000, width="u16")))
    check_output(json.dumps(output_of("nanogpt", 2**32)))


def test_outputs_that_make_no_sense_are_refused() -> None:
    for output in (
        output_of("npy", sequences=None),
        output_of("megatron", sequences={"length": 8, "pack": "none", "pad": 0}),
        output_of("mds", sequences={"length": 8, "pack": "none", "pad": 50257}),
        output_of("mds", sequences={"length": 0, "pack": "none", "pad": 0}),
        output_of("megatron", max_tokens=5),
        output_of("megatron", after=[50257]),
    ):
        with pytest.raises(CorpusError):
            check_output(json.dumps(output))
    with pytest.raises(ValueError, match="unknown field"):
        check_output(json.dumps(output_of("megatron", colour="red")))
    with pytest.raises(ValueError, match="unknown variant"):
        check_output(json.dumps(output_of("floppy")))
    with pytest.raises(ValueError, match='no format "floppy": there are megatron'):
        Shards("nowhere", format="floppy")
    with pytest.raises(FileNotFoundError):
        Shards("nowhere")


def test_packing_keeps_documents_whole_where_they_fit(tmp_path: Path) -> None:
    documents = DOCUMENTS["u16"]
    filled = {}
    for pack in ("none", "concat", "bestfit"):
        sequences = {"length": 64, "pack": pack, "pad": 0}
        folder = written(tmp_path / pack, documents, "npy", sequences=sequences)
        rows = np.load(folder / "npy" / "shard-000000.npy")
        of = np.load(folder / "npy" / "shard-000000.documents.npy")
        ends = np.load(folder / "npy" / "shard-000000.ends.npy")
        filled[pack] = len(rows)
        assert all_of(Shards(folder)) == documents
        pieces = np.bincount(of.astype(int))
        fewest = [-(-len(ids) // 64) for ids in documents]
        if pack != "concat":
            assert pieces.tolist() == fewest
        assert np.all(np.diff(ends.astype(int)) > 0)
    assert filled["concat"] <= filled["bestfit"] < filled["none"]
    # Best fit wastes little: at most three rows in a hundred more than the least there can be.
    assert filled["bestfit"] <= filled["concat"] * 1.03 + 1


@pytest.mark.parametrize("format", FORMATS)
def test_trap_29_merge_is_one_writer(tmp_path: Path, format: str) -> None:
    documents = DOCUMENTS["u16"]
    parts = [
        megatron_pair(tmp_path / "parts", f"{number}", documents[start : start + 30])
        for number, start in enumerate(range(0, len(documents), 30))
    ]
    output = output_of(format)
    convert_shards(parts, tmp_path / "merged", json.dumps(output))
    whole = written(tmp_path / "whole", documents, format)
    assert files_of(tmp_path / "merged", format) == files_of(whole, format)
    with pytest.raises(CorpusError, match="holds shards already"):
        convert_shards(parts, tmp_path / "merged", json.dumps(output))


def test_nothing_is_left_when_writing_fails(tmp_path: Path) -> None:
    source = megatron_pair(tmp_path, "a", [[5, 300, END]])
    with pytest.raises(FileNotFoundError):
        convert_shards([source, tmp_path / "b"], tmp_path / "out", json.dumps(output_of("llmc")))
    assert not (tmp_path / "out").exists()


def test_finish_takes_the_reports_of_all_formats(tmp_path: Path) -> None:
    files = [
        {"name": f"{format}/shard-000000.bin", "bytes": 2, "xxh3": "0", "items": 1, "tokens": 1}
        for format in ("megatron", "nanogpt")
    ]
    report: dict[str, Any] = dict.fromkeys(
        ("job", "shard", "records", "empty", "text_bytes", "read_bytes", "tokens"), 0
    )
    report |= {"documents": 1, "files": files, "bad": {}, "partial": [], "lengths": []}
    report |= {"last": True, "largest": None}
    made = finish_output(tmp_path, json.dumps(output_of("nanogpt")), json.dumps([report]))
    assert [file["name"] for file in json.loads(made)] == ["nanogpt/shards.json"]
    listed = json.loads((tmp_path / "nanogpt" / "shards.json").read_text())
    assert listed["shards"] == [{"documents": 1, "files": files[1:]}]
    assert listed["documents"] == 1


def test_a_list_cannot_lead_out_of_its_folder(tmp_path: Path) -> None:
    folder = written(tmp_path, DOCUMENTS["few"], "nanogpt")
    path = folder / "nanogpt" / "shards.json"
    path.write_text(path.read_text().replace("nanogpt/shard", "../nanogpt/shard"))
    with pytest.raises(CorpusError, match="outside"):
        Shards(folder)
