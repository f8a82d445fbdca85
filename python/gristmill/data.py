"""Shards for training: windows of one length over all tokens, by number, from any place on.

    dataset = TokenDataset("corpus/megatron", 2048, seed=1, shuffle=True)
    while True:
        for batch in DataLoader(dataset, batch_size=8, sampler=dataset.sampler(rank, world)):
            ...
            dataset.advance(8 * world)  # then dataset.state_dict() is where to go on
        dataset.next_epoch()

The tokens of all shards are one long line: window `n` is the tokens from `n * seq_len` on, and one
more, so that every token but the first is a label once and nothing is lost between files. Shards of
sequences that were packed to `seq_len` give these sequences. Files are mapped, so a window costs
one read at its place, however many there are; a shuffle is a permutation that is computed and not
stored.

Invariant: an epoch's windows are the same, in the same order, for every number of processes, and
after a resume. Nothing here needs torch. Tested in `tests/test_shards_data.py`.
"""

import json
import os
from bisect import bisect_right
from collections.abc import Iterator
from functools import cached_property, lru_cache
from hashlib import blake2b
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

from gristmill._native import Shards

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["TokenDataset", "TokenSampler"]

# Where ids stand in a file of a format: its name's end, and the bytes before them (numpy's headers
# say it themselves).
FLAT = {
    "megatron": (".bin", 0),
    "llmc": (".bin", 1024),
    "nanogpt": (".bin", 0),
    "dolma": (".npy", 0),
    "datatrove": (".ds", 0),
    "npy": (".npy", 0),
}
DTYPES = {"u8": "u1", "u16": "<u2", "u32": "<u4", "i32": "<i4"}
# What a label is that no loss is taken of, in torch's cross entropy.
IGNORED = -100


class Span(NamedTuple):
    """Ids that stand one behind the other in a file."""

    path: str
    offset: int
    tokens: int


class TokenDataset:
    """A map-style dataset, as torch's DataLoader takes it, over shards of token ids.

    An item is a dict of int64 arrays: `input_ids` and `labels` of `seq_len` numbers, each label
    the token after its input. Of packed sequences it has `position_ids` and `document_ids` too,
    which begin anew with every document; labels across documents and in what only fills are -100.
    """

    def __init__(
        self,
        folder: str | os.PathLike[str],
        seq_len: int,
        *,
        seed: int = 0,
        shuffle: bool = False,
        format: str | None = None,
    ) -> None:
        """Open shards of a folder; `format` is needed where it holds several.

        With `shuffle`, each epoch has its own order, which follows from `seed`.
        """
        if seq_len < 1:
            raise ValueError(f"seq_len: {seq_len} is not a number of 1 or more")
        self.seq_len = seq_len
        self.seed = seed
        self.shuffle = shuffle
        shards = Shards(folder, format=format)
        self._list: dict[str, Any] = json.loads(shards.list)
        self._folder = os.fspath(shards.folder)
        self._dtype = DTYPES[self._list["width"]]
        packed = self._list["output"].get("sequences")
        self.packed = packed is not None
        if packed is not None and packed["length"] != seq_len:
            raise ValueError(
                f"seq_len: the sequences in {os.fspath(folder)} have {packed['length']} ids, not "
                f"{seq_len}; convert them to documents first, or take that length"
            )
        self._spans = self._find_spans()
        self._ends: list[int] = []
        for span in self._spans:
            self._ends.append(span.tokens + (self._ends[-1] if self._ends else 0))
        self.tokens = self._ends[-1] if self._ends else 0
        # A window needs one token more than its length, for the last label.
        self._length = self.tokens // seq_len if self.packed else max(0, self.tokens - 1) // seq_len
        self.epoch = 0
        self.position = 0

    def __len__(self) -> int:
        """How many windows an epoch has."""
        return self._length

    def __getitem__(self, index: int | tuple[int, int]) -> "dict[str, NDArray[np.int64]]":
        """A window by its place in the order of the current epoch, or of the epoch (epoch, place).

        The samplers give pairs, so that processes of a DataLoader that live on do the right epoch.
        """
        epoch, place = index if isinstance(index, tuple) else (self.epoch, index)
        if not -self._length <= place < self._length:
            raise IndexError(f"there is no window {place}: there are {self._length}")
        place %= self._length
        return self.window(self._order(place, epoch) if self.shuffle else place)

    def window(self, number: int) -> "dict[str, NDArray[np.int64]]":
        """A window by its place in the shards."""
        import numpy as np

        start = number * self.seq_len
        if self.packed:
            return self._packed(number, self.read(start, start + self.seq_len).astype(np.int64))
        ids = self.read(start, start + self.seq_len + 1).astype(np.int64)
        return {"input_ids": ids[:-1], "labels": ids[1:]}

    def read(self, start: int, end: int) -> "NDArray[Any]":
        """The tokens from `start` to `end` of the long line, as the files have them."""
        import numpy as np

        parts = []
        at = bisect_right(self._ends, start)
        while start < end:
            first = self._ends[at] - self._spans[at].tokens
            stop = min(end, self._ends[at])
            parts.append(self._map(at)[start - first : stop - first])
            start = stop
            at += 1
        return parts[0] if len(parts) == 1 else np.concatenate(parts)

    def advance(self, windows: int) -> None:
        """Note that so many windows, of all processes together, have been trained on."""
        if not 0 <= windows <= self._length - self.position:
            raise ValueError(
                f"{windows} windows more are too many: {self.position} of {self._length} are done"
            )
        self.position += windows

    def next_epoch(self) -> None:
        """Begin the next epoch."""
        self.epoch += 1
        self.position = 0

    def sampler(self, rank: int = 0, world_size: int = 1) -> "TokenSampler":
        """The rest of this epoch, as far as this one of `world_size` processes reads it."""
        return TokenSampler(self, rank, world_size)

    def state_dict(self) -> dict[str, Any]:
        """What a later process needs to go on here, with any number of processes."""
        return {
            "version": 1,
            "epoch": self.epoch,
            "position": self.position,
            "seed": self.seed,
            "shuffle": self.shuffle,
            "seq_len": self.seq_len,
            "data": self.fingerprint,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on where another dataset over the same shards was."""
        here = self.state_dict()
        for name in ("version", "seed", "shuffle", "seq_len", "data"):
            if state.get(name) != here[name]:
                raise ValueError(
                    f"the state is of another dataset: {name} was {state.get(name)!r}, and is "
                    f"{here[name]!r}"
                )
        self.epoch, self.position = state["epoch"], state["position"]

    @cached_property
    def fingerprint(self) -> str:
        """What tells these shards from others: their format, files, sizes and hashes."""
        files = [
            (file["name"], file["bytes"], file["xxh3"])
            for shard in self._list["shards"]
            for file in shard["files"]
        ]
        whole = json.dumps([self._list["output"], files], sort_keys=True)
        return blake2b(whole.encode(), digest_size=16).hexdigest()

    def __getstate__(self) -> dict[str, Any]:
        """Workers map the files themselves."""
        return {name: value for name, value in self.__dict__.items() if name != "_maps"}

    def _find_spans(self) -> list[Span]:
        name = self._list["output"]["format"]
        files = [file for shard in self._list["shards"] for file in shard["files"]]
        spans = []
        for file in files:
            path = os.path.join(self._folder, file["name"])
            span = self._span(name, path, file["bytes"])
            if span is not None and span.tokens:
                spans.append(span)
        return spans

    def _span(self, name: str, path: str, size: int) -> Span | None:
        """Where the ids of a file stand, if it holds any."""
        width = int(self._dtype[-1])
        if path.endswith((".ends.npy", ".documents.npy")):
            return None
        if name in FLAT:
            end, offset = FLAT[name]
            if not path.endswith(end):
                return None
            if name == "npy":
                with open(path, "rb") as file:
                    offset = 10 + int.from_bytes(file.read(10)[8:], "little")
        elif name == "litdata" or (name == "mds" and self.packed):
            if not path.endswith((".bin", ".mds")):
                return None
            with open(path, "rb") as file:
                file.seek(4)
                offset = int.from_bytes(file.read(4), "little")
        else:
            raise ValueError(
                f"the format {name} does not have its ids one behind the other; make shards that "
                "have: gristmill convert FOLDER --to npy (or megatron) -o ANOTHER"
            )
        if os.path.getsize(path) != size:
            raise ValueError(f"{path} has {os.path.getsize(path)} bytes, and had {size}")
        return Span(path, offset, (size - offset) // width)

    @cached_property
    def _maps(self) -> "dict[int, NDArray[Any]]":
        return {}

    def _map(self, number: int) -> "NDArray[Any]":
        if number not in self._maps:
            import numpy as np

            path, offset, tokens = self._spans[number]
            self._maps[number] = np.memmap(
                path, dtype=self._dtype, mode="r", offset=offset, shape=(tokens,)
            )
        return self._maps[number]

    def _packed(self, number: int, ids: "NDArray[np.int64]") -> "dict[str, NDArray[np.int64]]":
        """A sequence with what it is packed of."""
        import numpy as np

        lengths = self._pieces(number)
        filled = sum(lengths)
        labels = np.full_like(ids, IGNORED)
        labels[: filled - 1] = ids[1:filled]
        positions = np.zeros_like(ids)
        documents = np.full_like(ids, -1)
        start = 0
        for piece, length in enumerate(lengths):
            end = start + length
            positions[start:end] = np.arange(length)
            documents[start:end] = piece
            labels[end - 1] = IGNORED
            start = end
        return {
            "input_ids": ids,
            "labels": labels,
            "position_ids": positions,
            "document_ids": documents,
        }

    def _pieces(self, number: int) -> list[int]:
        """The lengths of the pieces of a sequence."""
        import numpy as np

        start = number * self.seq_len
        at = bisect_right(self._ends, start)
        span = self._spans[at]
        start -= self._ends[at] - span.tokens
        key = -1 - at
        if key not in self._maps:
            stem = span.path.rpartition(".")[0]
            self._maps[key] = np.load(f"{stem}.ends.npy", mmap_mode="r")
        ends = self._maps[key]
        first = int(np.searchsorted(ends, start, side="right"))
        last = int(np.searchsorted(ends, start + self.seq_len, side="right"))
        bounds = [start, *(int(end) for end in ends[first:last])]
        return [end - begin for begin, end in pairwise(bounds)]

    def _order(self, place: int, epoch: int) -> int:
        """The window at a place of the epoch's order: a permutation of all windows.

        Four rounds of a Feistel network over the next power of four, again as long as the result
        is no window: that is fewer than three times of four.
        """
        half = max(1, ((self._length - 1).bit_length() + 1) // 2)
        low = (1 << half) - 1
        while True:
            left, right = place >> half, place & low
            for key in permutation_keys(self.seed, epoch):
                left, right = right, left ^ (mixed(right ^ key) & low)
            place = left << half | right
            if place < self._length:
                return place


@lru_cache(maxsize=8)
def permutation_keys(seed: int, epoch: int) -> tuple[int, ...]:
    """What makes one epoch's order another than the next one's."""
    digest = blake2b(f"gristmill {seed} {epoch}".encode(), digest_size=32).digest()
    return tuple(int.from_bytes(digest[at : at + 8], "little") for at in range(0, 32, 8))


def mixed(number: int) -> int:
    """A number of 64 bits, well stirred."""
    number = (number ^ number >> 30) * 0xBF58476D1CE4E5B9 & 0xFFFFFFFFFFFFFFFF
    number = (number ^ number >> 27) * 0x94D049BB133111EB & 0xFFFFFFFFFFFFFFFF
    return number ^ number >> 31


class TokenSampler:
    """The places of an epoch, from the dataset's position on, that one process reads."""

    def __init__(self, dataset: TokenDataset, rank: int = 0, world_size: int = 1) -> None:
        if not 0 <= rank < world_size:
            raise ValueError(f"rank: {rank} is not one of 0 to {world_size - 1}")
        self.dataset = dataset
        self.rank = rank
        self.world_size = world_size

    def __iter__(self) -> Iterator[tuple[int, int]]:
        """The epoch with every `world_size`-th place, as many for every process."""
        epoch, first = self.dataset.epoch, self.dataset.position
        for turn in range(len(self)):
            yield epoch, first + turn * self.world_size + self.rank

    def __len__(self) -> int:
        """How many this process reads: what cannot be shared evenly is left to no one."""
        return (len(self.dataset) - self.dataset.position) // self.world_size
