"""Documents of ids for the tests of shards, and the formats' own writers.

The writers are imported when they are called: they bring torch, and live in the environment of
`make test-readers`. `scripts/make_shards_golden.py` writes the golden files with them.
"""

import importlib.machinery
import struct
import sys
import tempfile
import types
from collections.abc import Sequence
from pathlib import Path
from typing import Any

Documents = Sequence[Sequence[int]]

END = 50256


def documents_below(largest: int, number: int) -> list[list[int]]:
    """Documents of many lengths with ids up to the largest, each ended by `END`; no randomness."""
    state, documents = 1, []
    for document in range(number):
        ids = []
        for _ in range(document * 37 % 101):
            state = state * 6364136223846793005 + 1442695040888963407 & (1 << 64) - 1
            ids.append((state >> 33) % (largest + 1))
        documents.append([*ids, END])
    documents[-1][0] = largest
    return documents


# The first number that is no id, by the name of the case.
CASES = {"few": 50257, "u16": 50257, "i32": 128256}
DOCUMENTS: dict[str, list[list[int]]] = {
    "few": [[5, 6, 7, END], [8, END], [9, 10, 11, 12, 13, END]],
    "u16": documents_below(50256, 100),
    "i32": documents_below(128255, 100),
}


def megatron_pair(folder: Path, name: str, documents: Documents, wide: bool = False) -> Path:
    """A pair of Megatron's files, written as their description says."""
    import numpy as np

    folder.mkdir(parents=True, exist_ok=True)
    dtype = "<i4" if wide else "<u2"
    whole = [np.asarray(document, dtype) for document in documents if document]
    (folder / f"{name}.bin").write_bytes(b"".join(ids.tobytes() for ids in whole))
    lengths = np.asarray([len(ids) for ids in whole], "<i4")
    pointers = np.concatenate([[0], np.cumsum([ids.nbytes for ids in whole])]).astype("<i8")
    numbers = np.cumsum([0, *(bool(document) for document in documents)]).astype("<i8")
    header = struct.pack("<9sQBQQ", b"MMIDIDX\0\0", 1, 4 if wide else 8, len(whole), len(numbers))
    index = header + lengths.tobytes() + pointers[: len(whole)].tobytes() + numbers.tobytes()
    (folder / f"{name}.idx").write_bytes(index)
    return folder / name


def all_files(documents: Documents, end: int) -> dict[str, bytes]:
    """What the formats' own writers make of the documents."""
    files: dict[str, bytes] = {}
    for write in (write_megatron, write_datatrove, write_mds, write_litdata):
        with tempfile.TemporaryDirectory() as folder:
            files |= write(Path(folder), documents, end)
    return files


def write_megatron(folder: Path, documents: Documents, end: int) -> dict[str, bytes]:
    """megatron-core."""
    import torch
    from megatron.core.datasets.indexed_dataset import DType, IndexedDatasetBuilder

    builder = IndexedDatasetBuilder(str(folder / "a.bin"), dtype=DType.optimal_dtype(end))
    for document in documents:
        builder.add_document(torch.tensor(document), [len(document)] if document else [])
    builder.finalize(str(folder / "a.idx"))
    return {f"megatron.{kind}": (folder / f"a.{kind}").read_bytes() for kind in ("bin", "idx")}


def write_datatrove(folder: Path, documents: Documents, end: int) -> dict[str, bytes]:
    """datatrove."""
    from datatrove.pipeline.tokens.tokenizer import TokenizedFile

    file = TokenizedFile(
        str(folder),
        "a.ds",
        save_final_metadata=True,
        token_size=4 if end > 65536 else 2,
        tokenizer_name_or_path="gpt2",
    )
    for document in documents:
        file.write(list(document), None)
    file.close()
    names = ("ds", "ds.index", "ds.metadata")
    return {f"datatrove.{name}": (folder / f"a.{name}").read_bytes() for name in names}


def write_mds(folder: Path, documents: Documents, end: int) -> dict[str, bytes]:
    """mosaicml-streaming: documents of any length, and sequences of 8."""
    import numpy as np

    streaming = import_streaming()
    dtype = np.dtype("uint16" if end <= 65536 else "int32")
    encoding = f"ndarray:{dtype.name}"
    with streaming.MDSWriter(out=str(folder / "a"), columns={"tokens": encoding}) as writer:
        for document in documents:
            writer.write({"tokens": np.asarray(document, dtype)})
    with streaming.MDSWriter(out=str(folder / "b"), columns={"tokens": f"{encoding}:8"}) as writer:
        for row in rows_of(documents, 8):
            writer.write({"tokens": np.asarray(row, dtype)})
    return {
        "mds": (folder / "a" / "shard.00000.mds").read_bytes(),
        "rows.mds": (folder / "b" / "shard.00000.mds").read_bytes(),
    }


def rows_of(documents: Documents, length: int) -> list[list[int]]:
    """The documents one behind the other, cut; the last row filled with `END`."""
    ids = [id for document in documents for id in document]
    ids += [END] * (-len(ids) % length)
    return [ids[at : at + length] for at in range(0, len(ids), length)]


def write_litdata(folder: Path, documents: Documents, end: int) -> dict[str, bytes]:
    """litdata."""
    import torch
    from litdata.streaming.item_loader import TokensLoader
    from litdata.streaming.writer import BinaryWriter

    writer = BinaryWriter(str(folder), chunk_bytes=64_000_000, item_loader=TokensLoader())
    dtype = torch.uint16 if end <= 65536 else torch.int32
    for number, document in enumerate(documents):
        writer.add_item(number, torch.tensor(document, dtype=torch.int32).to(dtype))
    writer.done()
    return {"litdata.bin": (folder / "chunk-0-0.bin").read_bytes()}


def import_streaming() -> Any:
    """mosaicml-streaming without what it needs for pictures and chats, which it imports at once."""
    stubs: dict[str, dict[str, Any]] = {
        "torchvision": {},
        "torchvision.datasets": {"VisionDataset": object},
        "torchvision.transforms": {},
        "torchvision.transforms.functional": {"to_tensor": None},
        "transformers": {},
        "transformers.feature_extraction_utils": {"BatchFeature": dict},
        "transformers.tokenization_utils_base": {"BatchEncoding": dict},
        "transformers.models": {},
        "transformers.models.auto": {},
        "transformers.models.auto.tokenization_auto": {"AutoTokenizer": None},
    }
    for name, values in stubs.items():
        if name not in sys.modules:
            module = types.ModuleType(name)
            module.__spec__ = importlib.machinery.ModuleSpec(name, None)
            module.__dict__.update(values)
            sys.modules[name] = module
    import streaming

    return streaming
