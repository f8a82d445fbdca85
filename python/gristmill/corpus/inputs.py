"""Which files are read: files, folders and patterns into one sorted list, each known by its
content.

Invariant: the list is sorted by the bytes of the paths, has no file twice, and has nothing that a
run made itself. A file that a folder holds and that is left out is named to the user. Tested in
`tests/test_corpus_inputs.py`.
"""

import glob
import hashlib
import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from typing import Any, BinaryIO, TypeVar

from gristmill.corpus import remote
from gristmill.corpus.errors import CorpusError

T = TypeVar("T")
R = TypeVar("R")

# Bytes at either end of a file that its hash is of.
ENDS = 1 << 16
# What these tools leave beside data.
LEFT_BY_TOOLS = ("_SUCCESS", "_metadata", "_common_metadata", "_committed_", "_started_")
TEXTS = (".txt", ".text", ".jsonl", ".ndjson", ".json", ".csv", ".tsv", ".tab")
TABLES = (".parquet", ".pq", ".arrow", ".feather", ".ipc")
PACKED = (".gz", ".gzip", ".zst", ".zstd", ".bz2", ".xz", ".bgz")
ASIDE = ".aside"
PLAN = "plan.json"
# Where standard input is kept, in the output, and what stands for it among the names.
KEPT = "stdin"
STANDARD_INPUT = "-"
BLOCK = 1 << 20


@dataclass(frozen=True)
class Input:
    """A file as it was when the plan was made."""

    path: str
    size: int
    modified: int
    # SHA-256 of its first and last 64 KiB, which tells files apart that have one size and time.
    ends: str

    def as_json(self) -> dict[str, Any]:
        """As the plan has it."""
        return asdict(self)


def find(names: Iterable[str | os.PathLike[str]], out: str) -> tuple[list[str], list[str]]:
    """The files that the names stand for, and those in folders that are left out."""
    found: set[str] = set()
    left: set[str] = set()
    for name in names:
        name = os.fspath(name)
        if remote.is_remote(name):
            paths, folder = remote.find(name)
            for path in paths:
                if not (folder and hidden(path)):
                    (left if folder and not is_data(path) else found).add(path)
        elif os.path.isdir(name):
            for path in in_folder(name, out):
                (found if is_data(path) else left).add(path)
        elif os.path.exists(name):
            found.add(os.path.abspath(name))
        elif glob.has_magic(name):
            found.update(matching(name, out))
        else:
            raise FileNotFoundError(2, os.strerror(2), name)
    left -= found
    if not found:
        raise CorpusError(
            "no input: the folders and patterns given hold no file of texts"
            + (f"; {len(left)} were left out, such as {min(left)}" if left else "")
        )
    for path in found:
        check_name(path)
    return sorted(found, key=os.fsencode), sorted(left, key=os.fsencode)


def keep(stream: BinaryIO, folder: str) -> str:
    """Keep standard input in a file, because a run that goes on needs it again.

    Where it was kept before, what comes now has to be the same, or nothing at all.
    """
    path = os.path.join(os.path.abspath(folder), KEPT)
    if os.path.exists(path):
        compare(stream, path)
        return path
    with open(path + ASIDE, "wb") as file:
        while block := stream.read(BLOCK):
            file.write(block)
        file.flush()
        os.fsync(file.fileno())
    os.replace(path + ASIDE, path)
    return path


def compare(stream: BinaryIO, path: str) -> None:
    """Refuse what is not the content of a file, but for nothing at all."""
    at = 0
    with open(path, "rb") as file:
        while block := stream.read(BLOCK):
            if file.read(len(block)) != block:
                break
            at += len(block)
        else:
            if not at or not file.read(1):
                return
    raise CorpusError(
        f"standard input is not what this run began with, which is kept in {path}; give the same, "
        "nothing (< /dev/null), or --overwrite"
    )


def matching(pattern: str, out: str) -> Iterator[str]:
    """The files that a pattern stands for; folders that it does are looked into."""
    none = True
    for name in glob.iglob(pattern, recursive=True):
        path = os.path.abspath(name)
        if os.path.isdir(path):
            # `**` names every folder and all in it.
            continue
        if not is_ours(path, out):
            none = False
            yield path
    if none:
        raise FileNotFoundError(2, "no file matches", pattern)


def in_folder(folder: str, out: str) -> Iterator[str]:
    """All files below a folder that may hold texts, hidden ones and our own left out."""

    def fail(error: OSError) -> None:
        raise error

    seen: set[str] = set()
    for parent, folders, files in os.walk(os.path.abspath(folder), onerror=fail, followlinks=True):
        # A link may lead to a folder that it lies in.
        real = os.path.realpath(parent)
        if real in seen:
            folders[:] = []
            continue
        seen.add(real)
        folders[:] = [
            name
            for name in folders
            if not name.startswith(".") and not is_run(os.path.join(parent, name), out)
        ]
        if is_run(parent, out):
            raise CorpusError(
                f"{parent} is the output of a run, not a folder of texts: it has a {PLAN}"
            )
        for name in files:
            path = os.path.join(parent, name)
            if not hidden(path):
                yield path


def hidden(path: str) -> bool:
    """Whether tools leave such files beside data, or we while they are not finished."""
    name = os.path.basename(path)
    return name.startswith((".", *LEFT_BY_TOOLS)) or name.endswith(ASIDE)


def is_run(folder: str, out: str) -> bool:
    """Whether a run writes, or has written, to the folder."""
    return os.path.abspath(folder) == os.path.abspath(out) or (
        os.path.isfile(os.path.join(folder, PLAN))
        and os.path.isfile(os.path.join(folder, "journal.jsonl"))
    )


def is_ours(path: str, out: str) -> bool:
    """Whether the file lies in the output of this run or is one that is not finished."""
    return path.endswith(ASIDE) or path.startswith(os.path.join(os.path.abspath(out), ""))


def is_data(path: str) -> bool:
    """Whether a file in a folder is taken by its name: those without an ending are."""
    name = os.path.basename(path).lower()
    stem, ending = os.path.splitext(name)
    if ending in PACKED:
        # What is packed is looked at, whatever it is called.
        return not stem.endswith((".tar", ".zip"))
    return not ending or ending in TEXTS or ending in TABLES or ending[1:].isdecimal()


def check_name(path: str) -> None:
    """A plan is JSON, and a name in it has to be text."""
    try:
        path.encode()
    except UnicodeEncodeError:
        raise CorpusError(
            f"{os.fsencode(path)!r}: the name of this file is not UTF-8; rename it"
        ) from None


def look(paths: list[str]) -> list[Input]:
    """Each file as it is now."""
    return many(look_at, paths)


def look_at(path: str) -> Input:
    """One file as it is now."""
    if remote.is_remote(path):
        return Input(path, *remote.look(path, ENDS))
    with open(path, "rb") as file:
        stat = os.fstat(file.fileno())
        hash = hashlib.sha256(file.read(ENDS))
        if stat.st_size > ENDS:
            file.seek(max(ENDS, stat.st_size - ENDS))
            hash.update(file.read(ENDS))
    return Input(path, stat.st_size, stat.st_mtime_ns, hash.hexdigest())


def many(work: Callable[[T], R], items: list[T]) -> list[R]:
    """The same for each of many files, several at a time, because most of it is waiting."""
    if len(items) < 4:
        return [work(item) for item in items]
    with ThreadPoolExecutor(16) as pool:
        return list(pool.map(work, items))
