"""The texts in files, for training: .txt, .jsonl, and both compressed (.gz, .bz2, .xz, .zst).

A line of a text file is a text, with its end, as `tokenizers` reads files; SentencePiece reads
lines without their ends. An object of a JSON Lines file is a text: what its `field` holds. Files
are read line by line, so they may be of any size. What is not UTF-8, not JSON, or has no such
field is a ValueError with its place; a file cut off in the middle is one too.
"""

import bz2
import contextlib
import gzip
import io
import json
import lzma
import os
import zlib
from collections.abc import Iterable, Iterator
from typing import IO, Any, cast

Path = str | os.PathLike[str]

JSON_SUFFIXES = (".jsonl", ".ndjson")
# More than the texts of these is needed to read them.
REFUSED = (".parquet", ".arrow", ".csv", ".json", ".zip", ".tar")
COMPRESSED = (".gz", ".bz2", ".xz", ".zst")


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
    if plain_name(name).endswith(REFUSED):
        raise ValueError(
            f"{name}: only .txt and .jsonl files, plain, .gz, .bz2, .xz or .zst, are read; for "
            "others give Trainer.train an iterator of the texts"
        )
    if not os.path.exists(name):
        raise FileNotFoundError(2, os.strerror(2), name)
    if os.path.isdir(name):
        raise IsADirectoryError(21, os.strerror(21), name)


def plain_name(name: str) -> str:
    """The name without what says how the file is compressed."""
    plain, suffix = os.path.splitext(name)
    return plain if suffix in COMPRESSED else name


def texts_of(name: str, field: str, bare_lines: bool) -> Iterator[bytes | str]:
    """The texts of one file."""
    as_json = plain_name(name).endswith(JSON_SUFFIXES)
    with opened(name) as file:
        lines = 0
        try:
            for line in file:
                if not as_json:
                    yield line.rstrip(b"\r\n") if bare_lines else line
                elif line.strip():
                    yield text_of_json(line, field)
                lines += 1
        except (EOFError, zlib.error, lzma.LZMAError, OSError, ValueError) as error:
            if isinstance(error, OSError) and error.errno is not None:
                # Not what is in the file, but that it could not be read.
                raise
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
    elif name.endswith(".xz"):
        with lzma.open(name, "rb") as file:
            yield cast("IO[bytes]", file)
    elif name.endswith(".bz2"):
        with bz2.open(name, "rb") as file:
            yield cast("IO[bytes]", file)
    elif name.endswith(".zst"):
        with open(name, "rb") as file:
            yield io.BufferedReader(Frames(file), 1 << 17)
    else:
        with open(name, "rb") as file:
            yield file


class Frames(io.RawIOBase):
    """The content of a zstandard file, which is one frame after the other; each must be whole."""

    def __init__(self, file: IO[bytes]) -> None:
        self.file = file
        self.module = zstandard()
        self.frame: Any = None
        self.waiting = memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not self.waiting:
            data = self.frame.unused_data if self.frame and self.frame.eof else b""
            data = data or self.file.read(1 << 17)
            if not data:
                if self.frame and not self.frame.eof:
                    raise EOFError("the compressed file ends in the middle")
                return 0
            if self.frame is None or self.frame.eof:
                self.frame = self.module.ZstdDecompressor().decompressobj()
            try:
                self.waiting = memoryview(self.frame.decompress(data))
            except self.module.ZstdError as error:
                raise ValueError(str(error)) from None
        count = min(len(buffer), len(self.waiting))
        buffer[:count] = self.waiting[:count]
        self.waiting = self.waiting[count:]
        return count


def zstandard() -> Any:
    """The module that reads zstandard, which need not be installed."""
    try:
        import zstandard
    except ImportError:
        raise ImportError("to read .zst files: pip install zstandard") from None
    return zstandard
