"""What the command reads and writes: texts, ids in three formats, and files that appear whole.

Ids are read as strictly as they are written: what is no id is refused, with its place.
"""

import argparse
import contextlib
import os
import sys
from collections.abc import Iterator
from typing import IO, TYPE_CHECKING, Any, NamedTuple

from gristmill import Tokenizer, TokenizerError
from gristmill.cli.messages import LARGEST_ID, JobError, input_name, to_json

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


# Files that are being written.
UNFINISHED: set[str] = set()


class Document(NamedTuple):
    """A text to encode and where it comes from."""

    file: str
    line: int | None
    start: int
    text: bytes

    def where(self) -> str:
        """The place, as error messages begin."""
        name = input_name(self.file)
        return name if self.line is None else f"{name}: line {self.line}"


def documents(names: list[str], lines: bool) -> Iterator[Document]:
    """The texts of the files: each whole, or line by line without the newline."""
    for name in names or ["-"]:
        with opened_input(name) as file:
            if not lines:
                yield Document(name, None, 0, file.read())
                continue
            start = 0
            for number, line in enumerate(file, 1):
                yield Document(name, number, start, line.removesuffix(b"\n"))
                start += len(line)


@contextlib.contextmanager
def opened_input(name: str) -> Iterator[IO[bytes]]:
    """A file to read, or standard input."""
    if name == "-" and sys.stdin is None:
        raise JobError("standard input is closed")
    with about(input_name(name)):
        if name == "-":
            yield sys.stdin.buffer
        else:
            with open(name, "rb") as file:
                yield file


@contextlib.contextmanager
def about(name: str) -> Iterator[None]:
    """Give an OSError that names no file the name."""
    try:
        yield
    except OSError as error:
        if error.filename is None and error.strerror is not None:
            error.filename = name
        raise


@contextlib.contextmanager
def naming(document: Document) -> Iterator[None]:
    """Errors of one document, with its name and place."""
    try:
        yield
    except UnicodeDecodeError as error:
        at = document.start + error.start
        byte = document.text[error.start] if error.start < len(document.text) else 0
        raise JobError(
            f"{document.where()}: not UTF-8 at byte {at} (0x{byte:02x}); convert it first, "
            "e.g. iconv -f WINDOWS-1252 -t UTF-8"
        ) from None
    except TokenizerError as error:
        raise JobError(f"{document.where()}: {error}") from None


@contextlib.contextmanager
def opened_output(name: str | None) -> Iterator[IO[bytes]]:
    """Standard output, or a file that appears whole or not at all."""
    if name is None:
        yield sys.stdout.buffer
        return
    if os.path.isdir(name):
        raise JobError(f"cannot write {name}: Is a directory")
    if os.path.exists(name) and not os.path.isfile(name):
        # A device or a pipe: there is nothing to rename.
        with about(name), open(name, "wb") as file:
            yield file
        return
    target = os.path.realpath(name)
    aside = f"{target}.{os.getpid()}.part"
    UNFINISHED.add(aside)
    try:
        with about(name), created(aside, name) as file:
            if os.path.exists(target):
                os.chmod(aside, os.stat(target).st_mode & 0o7777)
            yield file
        os.replace(aside, target)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(aside)
        raise
    finally:
        UNFINISHED.discard(aside)


def created(aside: str, name: str) -> IO[bytes]:
    """A new file to write what becomes `name`."""
    try:
        return open(aside, "wb")
    except OSError as error:
        raise JobError(f"cannot write {name}: {error.strerror}") from None


def remove_unfinished() -> None:
    """Leave nothing half written behind when the process ends here and now."""
    for aside in list(UNFINISHED):
        with contextlib.suppress(OSError):
            os.unlink(aside)


# --- ids to bytes


def as_text(
    tok: Tokenizer, document: Document, how: dict[str, Any], options: argparse.Namespace
) -> bytes:
    """Ids as decimal numbers on one line."""
    return " ".join(map(str, tok.encode(document.text, **how))).encode() + b"\n"


def as_json(
    tok: Tokenizer, document: Document, how: dict[str, Any], options: argparse.Namespace
) -> bytes:
    """One object on one line."""
    record: dict[str, Any] = {"file": document.file}
    if document.line is not None:
        record["line"] = document.line
    offsets = None
    if options.offsets:
        record["ids"], offsets = tok.encode_with_offsets(document.text, **how)
    else:
        record["ids"] = tok.encode(document.text, **how)
    if options.tokens:
        record["tokens"] = [tok.id_to_token(id) for id in record["ids"]]
    if offsets is not None:
        record["offsets"] = offsets
    return to_json(record).encode() + b"\n"


def as_binary(
    tok: Tokenizer, document: Document, how: dict[str, Any], options: argparse.Namespace
) -> bytes:
    """Ids as little-endian integers."""
    ids = tok.encode_numpy(document.text, **how)
    if options.dtype == "uint16" and len(ids) and ids.max() > 0xFFFF:
        raise JobError(
            f"{document.where()}: id {ids.max()} does not fit in uint16; use --dtype uint32"
        )
    return ids.astype("<u2" if options.dtype == "uint16" else "<u4", copy=False).tobytes()


# --- bytes to ids

Placed = tuple[str, "list[int] | NDArray[np.uint32]"]


def id_lists(options: argparse.Namespace) -> Iterator[Placed]:
    """The lists of ids in the files, each with its place."""
    read = {"text": ids_of_text, "json": ids_of_json, "bin": ids_of_binary}[options.format]
    for name in options.files or ["-"]:
        with opened_input(name) as file:
            yield from read(file, input_name(name), options.dtype)


def ids_of_text(file: IO[bytes], name: str, dtype: str | None) -> Iterator[Placed]:
    """Ids as decimal numbers between white space; a line is decoded by itself."""
    for number, line in enumerate(file, 1):
        place = f"{name}: line {number}"
        yield place, [id_of_word(word, place) for word in line.split()]


def id_of_word(word: bytes, place: str) -> int:
    """One id as a decimal number."""
    # Ten digits are the most an id has; more would cost time to read.
    if word.isdigit() and len(word) <= 10 and int(word) <= LARGEST_ID:
        return int(word)
    shown = word[:20].decode("utf-8", "replace") + ("..." if len(word) > 20 else "")
    raise JobError(f"{place}: {shown!r} is not a token id, a number from 0 to {LARGEST_ID}")


def ids_of_json(file: IO[bytes], name: str, dtype: str | None) -> Iterator[Placed]:
    """One JSON value a line: an object with `ids`, or the list itself."""
    import json

    for number, line in enumerate(file, 1):
        place = f"{name}: line {number}"
        if not line.strip():
            continue
        try:
            value = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise JobError(f"{place}: not JSON: {error}") from None
        ids = value.get("ids") if isinstance(value, dict) else value
        if not isinstance(ids, list) or not all(map(is_id, ids)):
            raise JobError(
                f"{place}: expected a list of ids, numbers from 0 to {LARGEST_ID}, "
                'or an object with such a list as "ids"'
            )
        yield place, ids


def is_id(value: object) -> bool:
    """Whether a JSON value is an id; true and false are not."""
    return type(value) is int and 0 <= value <= LARGEST_ID


def ids_of_binary(file: IO[bytes], name: str, dtype: str | None) -> Iterator[Placed]:
    """Little-endian integers, all of the file at once."""
    import numpy as np

    type_ = np.dtype(dtype or "uint32")
    data = file.read()
    if len(data) % type_.itemsize:
        raise JobError(
            f"{name}: {len(data)} bytes are not a whole number of {type_.name} ids; "
            "cut short, or of the other --dtype?"
        )
    yield name, np.frombuffer(data, dtype=type_.newbyteorder("<")).astype(np.uint32)
