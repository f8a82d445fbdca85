"""What a run has done, and the locks that keep two runs apart.

The journal has one line of JSON for each shard, written and synced when the shard has its final
name. A line that the power or a full disk cut off is the last one; it is taken away, and its
shard made again, with the same bytes.

Invariant: a shard is in the journal only if it is on disk. A folder is written to by one run, or by
the parts of one run. Tested in `tests/test_corpus_journal.py`, and by killing runs in
`tests/test_corpus_resume.py`.
"""

import contextlib
import json
import os
import re
import socket
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from gristmill.corpus.errors import CorpusError
from gristmill.corpus.inputs import ASIDE

JOURNAL = "journal.jsonl"
LOCK = ".lock"
# Seconds that a part waits for another one to begin.
PATIENCE = 5.0
PART = re.compile(r"journal(?:-(\d+)-of-(\d+))?\.jsonl")
SHARD = re.compile(r"shard-(\d{6,})")


def journal_name(part: tuple[int, int] | None) -> str:
    """The journal of a run, or of one of its parts."""
    return JOURNAL if part is None else f"journal-{part[0]}-of-{part[1]}.jsonl"


class Journal:
    """The journal that a run writes."""

    def __init__(self, folder: str, part: tuple[int, int] | None = None) -> None:
        self.path = os.path.join(folder, journal_name(part))
        self.file: IO[bytes] | None = None

    def __enter__(self) -> "Journal":
        # Unbuffered: a line is one write.
        self.file = open(self.path, "ab", buffering=0)
        self.size = whole_lines(self.path)
        self.file.truncate(self.size)
        return self

    def __exit__(self, *_: object) -> None:
        if self.file is not None:
            self.file.close()

    def line(self, entry: dict[str, Any]) -> None:
        """Write one line and see it on disk. What cannot be written whole is taken back."""
        assert self.file is not None
        content = json.dumps(entry).encode() + b"\n"
        try:
            done = 0
            while done < len(content):
                done += self.file.write(content[done:]) or 0
            os.fsync(self.file.fileno())
        except OSError as error:
            with contextlib.suppress(OSError):
                self.file.truncate(self.size)
            raise OSError(error.errno, error.strerror, self.path) from None
        self.size += len(content)


def whole_lines(path: str) -> int:
    """How many bytes of a journal are lines that were finished."""
    with open(path, "rb") as file:
        file.seek(0, os.SEEK_END)
        at = file.tell()
        while at:
            start = max(0, at - 4096)
            file.seek(start)
            newline = file.read(at - start).rfind(b"\n")
            if newline >= 0:
                return start + newline + 1
            at = start
    return 0


def entries(folder: str) -> Iterator[dict[str, Any]]:
    """All that the journals of a folder say."""
    for path in journals(folder):
        content = Path(path).read_bytes()
        lines = content.split(b"\n")
        # Behind the last newline is nothing, or a line that was cut off.
        for number, line in enumerate(lines[:-1], 1):
            try:
                yield json.loads(line)
            except ValueError:
                raise CorpusError(
                    f"{path}: line {number} is damaged, so it is not known which shards are whole; "
                    "--overwrite starts anew"
                ) from None


def journals(folder: str) -> list[str]:
    """The journals that lie in a folder."""
    names = sorted(name for name in os.listdir(folder) if PART.fullmatch(name))
    return [os.path.join(folder, name) for name in names]


@dataclass
class Done:
    """What earlier runs have left that is good."""

    # The reports of whole shards, by job and shard.
    shards: dict[tuple[int, int], dict[str, Any]]
    # Shards whose files are not there, or not of their size.
    damaged: list[tuple[int, int]]
    # All lines of the journals, for the report.
    lines: list[dict[str, Any]]

    def leading(self, job: int) -> list[dict[str, Any]]:
        """The shards of a job that are there, up to the first that is not."""
        found: list[dict[str, Any]] = []
        while (job, len(found)) in self.shards:
            report = self.shards[job, len(found)]
            found.append(report)
            if report["last"]:
                break
        return found

    def finished(self, job: int) -> bool:
        """Whether all shards of a job are there."""
        leading = self.leading(job)
        return bool(leading) and bool(leading[-1]["last"])


def survey(folder: str) -> Done:
    """Look at each shard that the journals name."""
    lines = list(entries(folder))
    shards: dict[tuple[int, int], dict[str, Any]] = {}
    for line in lines:
        report = line.get("shard")
        if report is not None:
            shards[report["job"], report["shard"]] = report
    damaged = [key for key, report in shards.items() if not is_whole(folder, report)]
    for key in damaged:
        del shards[key]
    return Done(shards, damaged, lines)


def survey_loosely(folder: str) -> Iterator[dict[str, Any]]:
    """The shards that journals name, as far as they can be read: what there is to take away."""
    for path in journals(folder):
        for line in Path(path).read_bytes().split(b"\n"):
            with contextlib.suppress(ValueError, KeyError, TypeError):
                yield json.loads(line)["shard"]


def is_whole(folder: str, report: dict[str, Any]) -> bool:
    """Whether the files of a shard are there and have their size."""
    try:
        return all(
            os.stat(os.path.join(folder, file["name"])).st_size == file["bytes"]
            for file in report["files"]
        )
    except FileNotFoundError:
        return False


def remove_aside(folder: str, jobs: set[int] | None = None) -> int:
    """Take away what was not finished, of all jobs or of these; how many files it was."""
    removed = 0
    for parent, _, files in os.walk(folder):
        for name in files:
            shard = SHARD.match(name)
            of_another = jobs is not None and (shard is None or int(shard[1]) not in jobs)
            if name.endswith(ASIDE) and not of_another:
                os.remove(os.path.join(parent, name))
                removed += 1
    return removed


# --- locks


@contextlib.contextmanager
def locked(folder: str, part: tuple[int, int] | None = None) -> Iterator[None]:
    """Keep other runs out of a folder; the parts of one run let each other in."""
    with contextlib.ExitStack() as stack:
        if part is None:
            stack.enter_context(lock(folder, LOCK))
            for name in sorted(os.listdir(folder)):
                if name.startswith(f"{LOCK}-part-"):
                    stack.enter_context(lock(folder, name))
        else:
            number, parts = part
            with lock(folder, LOCK, patience=PATIENCE):
                others = f"{LOCK}-part-"
                for name in sorted(os.listdir(folder)):
                    if name.startswith(others) and not name.endswith(f"-of-{parts}"):
                        with lock(folder, name):
                            pass
                stack.enter_context(lock(folder, f"{others}{number}-of-{parts}"))
        yield


@contextlib.contextmanager
def lock(folder: str, name: str, patience: float = 0.0) -> Iterator[None]:
    """Hold one lock, or say who holds it. It ends with the process, however that ends."""
    import time

    path = os.path.join(folder, name)
    until = time.monotonic() + patience
    with open(path, "a+b") as file:
        while not acquire(file):
            if time.monotonic() >= until:
                file.seek(0)
                raise CorpusError(
                    f"another run is at work in {folder} ({file.read().decode().strip() or name}); "
                    "wait for it, end it, or give another folder"
                )
            time.sleep(0.05)
        file.truncate(0)
        file.write(f"process {os.getpid()} on {socket.gethostname()}\n".encode())
        file.flush()
        yield


if sys.platform == "win32":
    import msvcrt

    def acquire(file: IO[bytes]) -> bool:
        """Lock the file, unless another has."""
        try:
            # Far behind the text, which others may still read.
            file.seek(1 << 30)
            msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        return True

else:
    import fcntl

    def acquire(file: IO[bytes]) -> bool:
        """Lock the file, unless another has."""
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True
