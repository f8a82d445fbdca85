"""The packages that are measured: one small function each, which loads a tokenizer.

Every call gives ids without tokens around them and treats the text as the package does by default;
the texts hold no special tokens. `array` is the package's fastest call that gives an array, or a
list where it gives no array. What a package cannot do is None, and its cell says so. A package is
looked for by an attribute, because another package may have its name. To add one, write a
function from a `Source` to `Calls` and a line in `PEERS`; the ids of a new peer are checked like
all others before it gets a number.
"""

import base64
import importlib
import importlib.metadata
import pathlib
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

Ids = Any  # A list or an array of ids.


class Source(NamedTuple):
    """What a tokenizer is loaded from."""

    name: str
    # A tokenizer.json, or None for an embedded tokenizer.
    file: pathlib.Path | None = None
    # The same as a rank file with what belongs to it, where there is one.
    ranks: pathlib.Path | None = None
    pattern: str = ""
    special_tokens: dict[str, int] = {}  # noqa: RUF012 - never written


class Calls(NamedTuple):
    """What a loaded tokenizer can do."""

    array: Callable[[str], Ids]
    as_list: Callable[[str], list[int]]
    # Texts to flat ids and the offsets where they start and end.
    batch: Callable[[list[str]], tuple[Ids, Any]] | None = None
    decode: Callable[[list[int]], str] | None = None
    # Only ours: the other ways to call it, by name.
    more: dict[str, Callable[..., Any]] = {}  # noqa: RUF012 - a NamedTuple copies nothing; never written
    # Whether `array` makes an array, and not a list.
    makes_array: bool = True


class Peer(NamedTuple):
    """A package."""

    load: Callable[[Source], Calls]
    module: str
    attribute: str
    distribution: str
    # What it imports only when it is called, which is no part of a call.
    imports: str = "numpy"


def gristmill(source: Source) -> Calls:
    from gristmill import Tokenizer

    tok = Tokenizer(source.file or source.name)
    return Calls(
        array=tok.encode_numpy,
        as_list=tok.encode,
        batch=tok.encode_batch_numpy,
        decode=tok.decode,
        more={
            "encode": tok.encode,
            "encode_numpy": tok.encode_numpy,
            "count": tok.count,
            "encode_with_offsets": lambda text: tok.encode_with_offsets(text)[0],
            "threads": lambda texts, threads: tok.encode_batch_numpy(texts, threads=threads),
        },
    )


def gigatoken(source: Source) -> Calls:
    from gigatoken import Tokenizer

    tok = Tokenizer(file_of(source))

    def batch(texts: list[str]) -> tuple[Ids, Any]:
        layout = tok.encode_batch(texts).layout
        return layout.content.data, layout.offsets.data

    return Calls(
        array=tok.encode,
        as_list=lambda text: tok.encode(text).tolist(),
        batch=batch,
        decode=lambda ids: tok.decode(ids).decode(errors="replace"),
    )


def fastokens(source: Source) -> Calls:
    from fastokens._native import Tokenizer

    try:
        tok = Tokenizer.from_file(str(file_of(source)))
    except ValueError:
        # Some files leave out the type of the model, which this package insists on.
        if source.ranks is None:
            raise
        tok = Tokenizer.from_tiktoken(
            str(source.ranks), pattern=source.pattern, special_tokens=source.special_tokens
        )

    def batch(texts: list[str]) -> tuple[Ids, Any]:
        return flat(*tok.encode_batch_flat(texts))

    return Calls(
        array=lambda text: batch([text])[0],
        as_list=lambda text: tok.encode(text).ids,
        batch=batch,
        decode=tok.decode,
    )


def tokie(source: Source) -> Calls:
    from tokie import Tokenizer

    tok = Tokenizer.from_json(str(file_of(source)))

    def batch(texts: list[str]) -> tuple[Ids, Any]:
        ids, lengths = flat(*tok.encode_batch_flat(texts, add_special_tokens=False))
        return ids, np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)])

    return Calls(
        array=lambda text: batch([text])[0],
        as_list=lambda text: tok.encode(text, add_special_tokens=False).ids,
        batch=batch,
        decode=tok.decode,
    )


def splintr(source: Source) -> Calls:
    import splintr

    tok = splintr.from_json(str(file_of(source)))

    def batch(texts: list[str]) -> tuple[Ids, Any]:
        return flat(*tok.encode_batch_flat(texts))

    return Calls(
        array=lambda text: np.frombuffer(tok.encode_flat(text), np.uint32),
        as_list=tok.encode_raw,
        batch=batch,
        decode=tok.decode,
    )


def quicktok(source: Source) -> Calls:
    from quicktok import Tokenizer

    tok = Tokenizer.from_file(str(file_of(source)))
    return Calls(array=tok.encode_numpy, as_list=tok.encode, decode=tok.decode)


def riptoken(source: Source) -> Calls:
    from riptoken import CoreBPE

    tok = CoreBPE(ranks_of(source), source.special_tokens, source.pattern)
    return Calls(
        array=tok.encode_ordinary,
        as_list=tok.encode_ordinary,
        batch=lambda texts: joined(tok.encode_ordinary_batch(texts)),
        decode=tok.decode,
        makes_array=False,
    )


def tiktoken(source: Source) -> Calls:
    from tiktoken import Encoding

    tok = Encoding(
        source.name,
        pat_str=source.pattern,
        mergeable_ranks=ranks_of(source),
        special_tokens=source.special_tokens,
    )
    return Calls(
        array=lambda text: tok.encode_to_numpy(text, disallowed_special=()),
        as_list=tok.encode_ordinary,
        batch=lambda texts: joined(tok.encode_ordinary_batch(texts)),
        decode=tok.decode,
    )


def tokenizers(source: Source) -> Calls:
    from tokenizers import Tokenizer

    tok = Tokenizer.from_file(str(file_of(source)))

    def encode(text: str) -> list[int]:
        ids: list[int] = tok.encode(text, add_special_tokens=False).ids
        return ids

    return Calls(
        array=encode,
        as_list=encode,
        batch=lambda texts: joined(
            [one.ids for one in tok.encode_batch_fast(texts, add_special_tokens=False)]
        ),
        decode=lambda ids: tok.decode(ids, skip_special_tokens=False),
        makes_array=False,
    )


PEERS = {
    "gristmill": Peer(gristmill, "gristmill", "Tokenizer", "gristmill"),
    "gigatoken": Peer(gigatoken, "gigatoken", "BytesSource", "gigatoken", imports="awkward"),
    "fastokens": Peer(fastokens, "fastokens._native", "Tokenizer", "fastokens"),
    "quicktok": Peer(quicktok, "quicktok", "Tokenizer", "quicktok"),
    "tokie": Peer(tokie, "tokie", "Tokenizer", "tokie"),
    "splintr": Peer(splintr, "splintr", "from_json", "splintr-rs"),
    "riptoken": Peer(riptoken, "riptoken", "CoreBPE", "riptoken"),
    "tiktoken": Peer(tiktoken, "tiktoken", "Encoding", "tiktoken"),
    "tokenizers": Peer(tokenizers, "tokenizers", "Tokenizer", "tokenizers"),
}


class CannotLoad(Exception):
    """The package has no way to load this tokenizer; nothing is wrong."""


def versions() -> tuple[dict[str, str], dict[str, str]]:
    """The versions of the packages that are here, and why each other one is not measured."""
    found, missing = {}, {}
    for name, peer in PEERS.items():
        try:
            module = importlib.import_module(peer.module)
            version = importlib.metadata.version(peer.distribution)
        except ImportError as error:
            missing[name] = "not installed" if name in str(error) else str(error)
            continue
        if hasattr(module, peer.attribute):
            found[name] = version
        else:
            missing[name] = f"{peer.distribution} {version} is another package of that name"
    return found, missing


def file_of(source: Source) -> pathlib.Path:
    """The tokenizer.json, for packages that embed nothing."""
    if source.file is None:
        raise CannotLoad("no tokenizer file")
    return source.file


def ranks_of(source: Source) -> dict[bytes, int]:
    """The ranks, for packages that take them and no tokenizer.json."""
    if source.ranks is None:
        raise CannotLoad("no rank file")
    lines = [line.split() for line in source.ranks.read_bytes().splitlines()]
    return {base64.b64decode(token): int(rank) for token, rank in lines}


def flat(ids: bytes, offsets: bytes) -> tuple[Ids, Any]:
    """Arrays over the buffers that some packages give."""
    return np.frombuffer(ids, np.uint32), np.frombuffer(offsets, np.uint64)


def joined(lists: Sequence[list[int]]) -> tuple[Ids, Any]:
    """Lists as one array and offsets; making it is part of the time."""
    lengths = np.fromiter(map(len, lists), np.int64, len(lists))
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    ids = np.fromiter((id for one in lists for id in one), np.uint32, int(offsets[-1]))
    return ids, offsets
