"""Inputs that lie elsewhere: what fsspec reaches by a URL, such as `s3://bucket/texts/`.

A file is looked at where it lies, and brought here whole, beside the output, while the job that
reads it is made; the next one is on its way meanwhile. So there is never more on disk than two
jobs need.

Needs the extra `gristmill[remote]`, and what fsspec itself needs for the URL, such as s3fs.
Tested in `tests/test_corpus_remote.py` on the file system that fsspec keeps in memory.
"""

import contextlib
import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from gristmill.corpus.errors import CorpusError

# Where the files of jobs at work lie, in the output.
HERE = ".inputs"
# Formats that end in what has to be read first, by what they begin with.
TABLES = {b"PAR1": "parquet", b"ARROW1": "arrow"}


def is_remote(name: str) -> bool:
    """Whether it is a URL."""
    return "://" in name


def opened(name: str) -> tuple[Any, str]:
    """The file system of a URL, and the path there."""
    try:
        from fsspec.core import url_to_fs
    except ImportError as error:
        raise ImportError(f"to read {name}: pip install 'gristmill[remote]'") from error
    system, path = url_to_fs(name)
    return system, path


def find(name: str) -> tuple[list[str], bool]:
    """The files that a URL stands for, and whether that is a folder."""
    system, path = opened(name)
    if any(letter in path for letter in "*?["):
        found = [one for one in system.glob(path) if system.isfile(one)]
        if not found:
            raise FileNotFoundError(2, "no file matches", name)
        folder = False
    elif system.isdir(path):
        found, folder = system.find(path), True
    elif system.isfile(path):
        found, folder = [path], False
    else:
        raise FileNotFoundError(2, os.strerror(2), name)
    return [system.unstrip_protocol(one) for one in found], folder


def look(name: str, ends: int) -> tuple[int, int, str]:
    """The size of a file, when it was changed in nanoseconds, and the hash of its ends.

    Where a file system does not tell the time, it is 0, and the hash has to do.
    """
    system, path = opened(name)
    size = int(system.info(path)["size"])
    modified = 0
    with contextlib.suppress(NotImplementedError):
        modified = int(system.modified(path).timestamp() * 1e6) * 1000
    hash = hashlib.sha256(system.cat_file(path, start=0, end=min(size, ends)))
    if size > ends:
        hash.update(system.cat_file(path, start=max(ends, size - ends), end=size))
    return size, modified, hash.hexdigest()


def kind(name: str, begin: int, inspect: Callable[[str], dict[str, Any]]) -> tuple[str, str]:
    """The format and the compression of a file, by what it begins with."""
    system, path = opened(name)
    size = int(system.info(path)["size"])
    head = system.cat_file(path, start=0, end=min(size, begin))
    for magic, format in TABLES.items():
        if head.startswith(magic):
            return format, "none"
    with tempfile.TemporaryDirectory() as folder:
        local = os.path.join(folder, os.path.basename(path))
        with open(local, "wb") as file:
            file.write(head)
        try:
            found = inspect(local)
        except CorpusError as error:
            raise CorpusError(str(error).replace(local, name)) from None
    return found["format"], found["compression"]


def fetch(job: str, folder: str) -> str:
    """Bring the files of a job here; the job with their paths here."""
    described = json.loads(job)
    for unit in described["units"]:
        if not is_remote(unit["path"]):
            continue
        system, path = opened(unit["path"])
        local = os.path.join(folder, os.path.basename(path))
        system.get_file(path, local)
        size = os.stat(local).st_size
        if size != unit["size"]:
            raise CorpusError(
                f"{unit['path']}: had {unit['size']:,} bytes when the run was planned, has {size:,}"
            )
        os.utime(local, ns=(unit["modified"], unit["modified"]))
        unit["path"] = local
    return json.dumps(described)


@contextlib.contextmanager
def here(job: str) -> Iterator[str]:
    """A job with all of its files on this machine, as long as it is at work."""
    place = os.path.join(json.loads(job)["folder"], HERE)
    os.makedirs(place, exist_ok=True)
    folder = tempfile.mkdtemp(dir=place)
    try:
        yield fetch(job, folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def needs(job: str) -> bool:
    """Whether a job reads what lies elsewhere."""
    return any(is_remote(unit["path"]) for unit in json.loads(job)["units"])


def one_ahead(jobs: Iterable[str]) -> Iterator[str]:
    """Each job with its files here, while those of the next one are on their way."""
    coming: Future[tuple[contextlib.ExitStack, str]] | None = None
    with ThreadPoolExecutor(1) as pool:
        try:
            for job in jobs:
                now, coming = coming, pool.submit(enter, job)
                if now is not None:
                    yield from leave(now.result())
            now, coming = coming, None
            if now is not None:
                yield from leave(now.result())
        finally:
            # Of a run that ended early.
            if coming is not None and not coming.cancel() and coming.exception() is None:
                coming.result()[0].close()


def enter(job: str) -> tuple[contextlib.ExitStack, str]:
    """Bring the files of a job here, and what takes them away."""
    stack = contextlib.ExitStack()
    return stack, stack.enter_context(here(job))


def leave(entered: tuple[contextlib.ExitStack, str]) -> Iterator[str]:
    """A job that is here, then no more."""
    with entered[0]:
        yield entered[1]
