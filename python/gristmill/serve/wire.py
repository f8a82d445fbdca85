"""One flat message for a step of any number of streams: no object for each request.

    bytes 0-3    the letters GMW1
    byte  4      the kind of message
    byte  5      1 if each row has one item and there are no offsets, else 0
    bytes 8-15   n, the number of rows, and m, the number of items; uint32 each
    then         uids int64[n], offsets int32[n + 1], flags uint8[n], items int32[m] or bytes[m]

Row i has the items from `offsets[i]` to `offsets[i + 1]`. All numbers are little-endian, and each
array begins at a multiple of 8 bytes; what fills up is 0. Arrays of a message that was unpacked
are views of its bytes. What is not exactly such a message is an error: it comes from another
process.
"""

import itertools
import struct
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

MAGIC = b"GMW1"
HEADER = struct.Struct("<4sBB2xII")
INT64, INT32, UINT8 = np.dtype("<i8"), np.dtype("<i4"), np.dtype(np.uint8)


class Kind(IntEnum):
    """What a message says."""

    STEP = 1
    """Tokens of streams; flag 1: the stream is finished."""
    TEXTS = 2
    """The new text of streams; flags as in `StreamTexts`."""
    PROMPTS = 3
    """Prompts in UTF-8; flag 1: the prompt is a chat, in JSON."""
    IDS = 4
    """The ids of prompts; flag 1: the prompt could not be encoded."""
    ABORT = 5
    """Streams to be forgotten."""


class WireError(ValueError):
    """Bytes that are no message."""


@dataclass
class Message:
    """A message, unpacked."""

    kind: Kind
    uids: NDArray[np.int64]
    offsets: NDArray[np.int32] | None
    """None where each row has one item."""
    flags: NDArray[np.uint8]
    items: NDArray[np.int32] | bytes

    def rows(self) -> list[Any]:
        """The items of each row."""
        ends = range(len(self.uids) + 1) if self.offsets is None else self.offsets.tolist()
        return [self.items[start:end] for start, end in itertools.pairwise(ends)]


def pack(
    kind: Kind,
    uids: ArrayLike,
    items: ArrayLike | bytes = b"",
    *,
    offsets: ArrayLike | None = None,
    flags: ArrayLike | None = None,
) -> bytes:
    """A message. Without `offsets` each row has one item, or none; without `flags` they are 0."""
    rows = np.asarray(uids, INT64)
    n = rows.size
    data = items if isinstance(items, bytes) else np.asarray(items, INT32).tobytes()
    m = len(data) // _WIDTHS[kind]
    if data and _WIDTHS[kind] == 1 and not isinstance(items, bytes):
        raise TypeError(f"the items of {kind.name} are bytes")
    marks = bytes(n) if flags is None else np.asarray(flags, UINT8).tobytes()
    one_each = offsets is None and n == m
    parts = [HEADER.pack(MAGIC, kind, one_each, n, m), rows.tobytes()]
    if not one_each:
        ends = np.zeros(n + 1, INT32) if offsets is None else np.asarray(offsets, INT32)
        if ends.size != n + 1 or not _fit(ends, m):
            raise ValueError(f"offsets that do not fit {n} rows and {m} items")
        parts += (ends.tobytes(), bytes(-ends.nbytes % 8))
    if len(marks) != n:
        raise ValueError(f"{len(marks)} flags, which do not fit {n} rows")
    parts += (marks, bytes(-n % 8), data)
    return b"".join(parts)


def unpack(data: bytes) -> Message:
    """The message in these bytes."""
    if len(data) < HEADER.size:
        raise WireError(f"{len(data)} bytes are no message")
    magic, number, one_each, n, m = HEADER.unpack_from(data)
    kind = _KINDS.get(number)
    if magic != MAGIC or kind is None or one_each > 1 or (one_each and n != m):
        raise WireError(f"a message does not begin with {bytes(data[: HEADER.size])!r}")
    width = _WIDTHS[kind]
    flags_at = offsets_at = HEADER.size + 8 * n
    if not one_each:
        flags_at += 4 * (n + 1) + -4 * (n + 1) % 8
    items_at = flags_at + n + -n % 8
    if len(data) != items_at + width * m:
        raise WireError(f"a message of {n} rows and {m} items has not {len(data)} bytes")
    offsets = None
    if not one_each:
        offsets = np.frombuffer(data, INT32, n + 1, offsets_at)
        if not _fit(offsets, m):
            raise WireError(f"the offsets of a message go up from 0 to the number of items, {m}")
    return Message(
        kind,
        np.frombuffer(data, INT64, n, HEADER.size),
        offsets,
        np.frombuffer(data, UINT8, n, flags_at),
        data[items_at:] if width == 1 else np.frombuffer(data, INT32, m, items_at),
    )


_KINDS = {int(kind): kind for kind in Kind}
_WIDTHS = {kind: 1 if kind in (Kind.TEXTS, Kind.PROMPTS) else 4 for kind in Kind}


def _fit(offsets: NDArray[np.int32], items: int) -> bool:
    """Whether offsets go up from 0 to the number of items."""
    if offsets[0] != 0 or offsets[-1] != items:
        return False
    return bool((offsets[1:] >= offsets[:-1]).all())
