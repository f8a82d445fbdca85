"""The texts in files, for training: .txt, .jsonl, and both compressed with gzip or zstandard.

A line of a text file is a text, with its end, as `tokenizers` reads files; SentencePiece reads
lines without their ends. An object of a JSON Lines file is a text: what its `field` holds. Files
are read line by line, so they may be of any size. What is not UTF-8, not JSON, or has no such
field is a ValueError with its place; a file cut off in the middle is one too.
"""

import contextlib
import gzip
import io
import json
import os
import zlib
from collections.abc import Iterable, Iterator
from typing import IO, Any, cast

Path = str | os.PathLike[str]

JSON_SUFFIXES = (".jsonl", ".ndjson")
# More than the texts of these is needed to read them.
REFUSED = (".parquet", ".arrow", ".json", ".bz2", ".xz", ".zip", ".tar")


def texts(
    paths: Path | Iterable[Path], *, field: str = "text", bare_lines: bool = False
) -> Iterator[bytes | str]:
    """The texts of the files, one after the other."""
    if isinstance(paths, (str, os.PathLike)):
        paths = [paths]
    names = [os.fspath(path) for path in paths]
    for name in names:
        # Before hours are spent on the others.
        check(name)
    return (text for name in names for text in texts_of(name, field, bare_lines))


def check(name: str) -> None:
    """Refuse what would not be read as it is meant."""
    if name.endswith(REFUSED):
        raise ValueError(
            f"{name}: only .txt and .jsonl files, plain, .gz or .zst, are read; for any other "
            "give Trainer.train an iterator of the texts"
        )
    if not os.path.exists(name):
        raise FileNotFoundError(2, os.strerror(2), name)
    if os.path.isdir(name):
        raise IsADirectoryError(21, os.strerror(21), name)


def texts_of(name: str, field: str, bare_lines: bool) -> Iterator[bytes | str]:
    """The texts of one file."""
    plain = name.removesuffix(".gz").removesuffix(".zst")
    as_json = plain.endswith(JSON_SUFFIXES)
    with opened(name) as file:
        lines = 0
        try:
            for line in file:
                if not as_json:
                    yield line.rstrip(b"\r\n") if bare_lines else line
                elif line.strip():
                    yield text_of_json(line, field)
                lines += 1
        except (EOFError, zlib.error, gzip.BadGzipFile, ValueError) as error:
            raise ValueError(f"{name}: line {lines + 1}: {error}") from None


def text_of_json(line: bytes, field: str) -> str:
    """The text that a line of JSON holds."""
    record = json.loads(line)
    text = record.get(field) if isinstance(record, dict) else None
    if not isinstance(text, str):
        raise ValueError(f"no text in the field {field!r}")
    return text


@contextlib.contextmanager
def opened(name: str) -> Iterator[IO[bytes]]:
    """A file of lines, decompressed."""
    if name.endswith(".gz"):
        with gzip.open(name, "rb") as file:
            yield cast("IO[bytes]", file)
    elif name.endswith(".zst"):
        with open(name, "rb") as raw, zstandard().open(raw, "rb") as file:
            yield io.BufferedReader(file)
    else:
        with open(name, "rb") as file:
            yield file


def zstandard() -> Any:
    """The module that reads zstandard, which need not be installed."""
    try:
        import zstandard
    except ImportError:
        raise ImportError("to read .zst files: pip install zstandard") from None
    return zstandard
