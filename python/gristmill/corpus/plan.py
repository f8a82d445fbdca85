"""The plan of a run: which ranges of which files become which shards, written before the first one.

A plan is made of the inputs, the options that decide bytes and the tokenizer, and of nothing else:
not of the threads, machines or time there are. Jobs are numbered in the order of the inputs; each
is a list of ranges that together have about `shard_size` bytes.

Invariant: the ranges of all jobs, in their order, are the inputs, each byte once. A plan on disk is
whole and synced before any shard is made, and a later run with another plan is refused with the
difference. Tested in `tests/test_corpus_plan.py`.
"""

import hashlib
import json
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import PurePath
from typing import Any

from gristmill._native import Tokenizer, __version__
from gristmill.corpus.errors import CorpusError
from gristmill.corpus.inputs import PLAN, Input
from gristmill.corpus.options import Options

# Changes when the same inputs and options would be cut or written differently.
RULE = 1
# So many ranges to a shard when a file can be cut, so that shards come out even.
CUTS = 16
# Bytes of text for a byte of a file, about, by how it is packed.
SWELLS = {"none": 1, "gzip": 3, "zstd": 3, "bz2": 4, "xz": 4}
TABLE_SWELLS = 2
TABLES = ("parquet", "arrow")
# What the tokenizer has to make the same ids of when a run goes on.
GOLDEN = "All is grist that comes to the mill: 2,718 caf\u00e9s, \u4e2d\u6587 \U0001f999 \t\n  x=1;"


@dataclass(frozen=True)
class Range:
    """A part of an input: bytes, or the row groups or batches of a table. None is its end."""

    input: int
    start: int
    end: int | None
    # About how many bytes of the file it is.
    bytes: int


@dataclass(frozen=True)
class Kind:
    """What a look into a file says of it."""

    format: str
    compression: str
    splittable: bool
    ranges: tuple[tuple[int, int | None], ...]
    rows: int | None = None

    @property
    def swells(self) -> int:
        """Bytes of text for a byte of the file, about."""
        return TABLE_SWELLS if self.format in TABLES else SWELLS.get(self.compression, 3)


@dataclass(frozen=True)
class JobPlan:
    """One job: ranges, and where its shards end if it may have several."""

    number: int
    ranges: tuple[Range, ...]
    shard_bytes: int | None

    @property
    def bytes(self) -> int:
        """About how many bytes of files it reads."""
        return sum(one.bytes for one in self.ranges)


@dataclass(frozen=True)
class Plan:
    """All that is decided before the first shard."""

    tokenizer: dict[str, Any]
    options: Options
    outputs: list[dict[str, Any]]
    inputs: list[Input]
    kinds: list[Kind]
    jobs: list[JobPlan]

    @property
    def bytes(self) -> int:
        """The size of all inputs."""
        return sum(one.size for one in self.inputs)

    def job(self, number: int, folder: str, skip: int = 0) -> dict[str, Any]:
        """A job as an engine takes it; the crate's `job.rs` says what each part is."""
        job = self.jobs[number]
        return {
            "number": number,
            "folder": os.path.abspath(folder),
            "units": [self.unit(one) for one in job.ranges],
            "read": self.options.read(),
            "encode": self.options.encode(),
            "outputs": self.outputs,
            "shard_bytes": job.shard_bytes,
            "skip": skip,
        }

    def unit(self, one: Range) -> dict[str, Any]:
        """A range as a job has it."""
        input, kind = self.inputs[one.input], self.kinds[one.input]
        return {
            "path": input.path,
            "format": kind.format,
            "compression": kind.compression,
            "start": one.start,
            "end": one.end,
            "size": input.size,
            "modified": input.modified,
        }

    def identity(self) -> dict[str, Any]:
        """What has to be equal for a later run to go on with this one."""
        return {
            "rule": RULE,
            "tokenizer": self.tokenizer,
            "options": self.options.deciding(),
            "outputs": self.outputs,
            "inputs": [one.as_json() for one in self.inputs],
        }

    def as_json(self) -> dict[str, Any]:
        """As it stands on disk."""
        return {
            **self.identity(),
            "made_by": f"gristmill {__version__}",
            "kinds": [
                [one.format, one.compression, one.splittable, one.rows] for one in self.kinds
            ],
            "jobs": [
                [[[r.input, r.start, r.end, r.bytes] for r in job.ranges], job.shard_bytes]
                for job in self.jobs
            ],
        }


def make(
    tok: Tokenizer, source: str, options: Options, inputs: list[Input], kinds: list[Kind]
) -> Plan:
    """Decide what becomes what."""
    jobs = list(cut(inputs, kinds, options.shard_size))
    outputs = options.outputs(tok, called(source))
    return Plan(identify(tok, source), options, outputs, inputs, kinds, jobs)


def called(source: str) -> str:
    """The name of a tokenizer for files that note it, wherever it lies."""
    path = PurePath(source)
    return path.parent.name or path.stem if path.name == "tokenizer.json" else path.name


def identify(tok: Tokenizer, source: str) -> dict[str, Any]:
    """What a tokenizer is: by the content of its file, and by ids that it gives."""
    hash = hashlib.sha256()
    # The file and what a user said of it, but not where it lies.
    for part in tok.__reduce__()[1][:3]:
        if not isinstance(part, bytes):
            part = json.dumps(part, sort_keys=True).encode()
        hash.update(len(part).to_bytes(8, "little") + part)
    golden = ",".join(map(str, tok.encode(GOLDEN)))
    return {
        "source": source,
        "sha256": hash.hexdigest(),
        "golden": hashlib.sha256(golden.encode()).hexdigest(),
        "vocab_size": tok.vocab_size,
    }


def smallest_range(shard_size: int) -> int:
    """How finely a file is cut."""
    return max(1, shard_size // CUTS)


def cut(inputs: list[Input], kinds: list[Kind], shard_size: int) -> Iterator[JobPlan]:
    """Group the ranges of the inputs, in their order, into jobs of about one size.

    An input that is larger than a shard and can only be read from its beginning is a job by itself,
    of several shards. What stands between two such inputs is spread evenly over as few jobs as do.
    """
    number = 0
    for alone, several in groupby(
        range(len(inputs)), lambda at: fills(inputs[at], kinds[at], shard_size)
    ):
        if alone:
            for at in several:
                whole = Range(at, 0, None, inputs[at].size)
                yield JobPlan(number, (whole,), shard_size)
                number += 1
            continue
        for group in spread(
            [one for at in several for one in parts(at, inputs[at], kinds[at])], kinds, shard_size
        ):
            packed = any(kinds[one.input].swells > 1 for one in group)
            # How far packed text swells is a guess, and no shard may grow without end.
            yield JobPlan(number, tuple(joined(group)), 2 * shard_size if packed else None)
            number += 1


def fills(input: Input, kind: Kind, shard_size: int) -> bool:
    """Whether an input that cannot be cut is a shard or more."""
    return not kind.splittable and input.size * kind.swells > shard_size


def parts(at: int, input: Input, kind: Kind) -> list[Range]:
    """The ranges of one input."""
    if not kind.splittable or len(kind.ranges) == 1:
        start, end = kind.ranges[0] if kind.ranges else (0, None)
        return [Range(at, start, end, input.size)]
    if kind.format in TABLES:
        share, rest = divmod(input.size, len(kind.ranges))
        return [
            Range(at, start, end, share + (number < rest))
            for number, (start, end) in enumerate(kind.ranges)
        ]
    return [
        Range(at, start, end, (input.size if end is None else end) - start)
        for start, end in kind.ranges
    ]


def spread(ranges: list[Range], kinds: list[Kind], shard_size: int) -> Iterator[list[Range]]:
    """Ranges in as few groups of at most about `shard_size` as do, all of about one size."""
    weights = [max(1, one.bytes * kinds[one.input].swells) for one in ranges]
    total = sum(weights)
    groups = max(1, -(-total // shard_size))
    group: list[Range] = []
    before, ended = 0, 0
    for one, weight in zip(ranges, weights, strict=True):
        # The group ends before a range whose middle lies beyond the group's share of the whole.
        if group and (2 * before + weight) * groups > 2 * (ended + 1) * total:
            yield group
            group, ended = [], ended + 1
        group.append(one)
        before += weight
    if group:
        yield group


def joined(ranges: Iterable[Range]) -> Iterator[Range]:
    """Ranges that follow each other in one file as one."""
    last: Range | None = None
    for one in ranges:
        if last is not None and last.input == one.input and last.end == one.start:
            last = replace(last, end=one.end, bytes=last.bytes + one.bytes)
            continue
        if last is not None:
            yield last
        last = one
    if last is not None:
        yield last


# --- on disk


def write(plan: Plan, folder: str) -> None:
    """Put the plan on disk, whole."""
    store(os.path.join(folder, PLAN), json.dumps(plan.as_json(), indent=None).encode() + b"\n")


def store(path: str, content: bytes) -> None:
    """Write a file aside, sync it and give it its name."""
    # The parts of a run may write the same plan at the same time.
    aside = f"{path}.{os.getpid()}.aside"
    with open(aside, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    os.replace(aside, path)
    sync_folder(os.path.dirname(path))


def sync_folder(folder: str) -> None:
    """Make names in a folder last, where the system has a way to."""
    if os.name != "posix":
        return
    handle = os.open(folder or ".", os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def load(folder: str) -> Plan | None:
    """The plan that lies in a folder."""
    path = os.path.join(folder, PLAN)
    try:
        with open(path, "rb") as file:
            stored = json.loads(file.read())
    except FileNotFoundError:
        return None
    except ValueError as error:
        raise CorpusError(f"{path} is no plan ({error}); --overwrite starts anew") from None
    if not isinstance(stored, dict) or stored.get("rule") != RULE:
        by = stored.get("made_by", "unknown") if isinstance(stored, dict) else "unknown"
        raise CorpusError(
            f"{path} was made by another version of Gristmill ({by}), which cuts inputs by other "
            "rules; finish with that version, or --overwrite"
        )
    options = stored["options"]
    inputs = [Input(**one) for one in stored["inputs"]]
    return Plan(
        tokenizer=stored["tokenizer"],
        options=Options(**{**options, "to": tuple(options["to"])}),
        outputs=stored["outputs"],
        inputs=inputs,
        kinds=[Kind(a, b, c, (), rows) for a, b, c, rows in stored["kinds"]],
        jobs=[
            JobPlan(number, tuple(Range(*one) for one in ranges), shard_bytes)
            for number, (ranges, shard_bytes) in enumerate(stored["jobs"])
        ],
    )


# --- differences


def differences(old: dict[str, Any], new: dict[str, Any]) -> list[str]:
    """What differs between two plans, for people: a line each."""
    lines = []
    for part in ("sha256", "golden"):
        if old["tokenizer"][part] != new["tokenizer"][part]:
            lines.append(
                f"tokenizer: was {old['tokenizer']['source']}, is now "
                f"{new['tokenizer']['source']}, which is another one"
            )
            break
    for name in sorted(old["options"].keys() | new["options"].keys()):
        was, now = old["options"].get(name), new["options"].get(name)
        if was != now:
            lines.append(f"--{name.replace('_', '-')}: was {was}, is now {now}")
    if old["options"] == new["options"] and old["outputs"] != new["outputs"]:
        lines.append(f"outputs: were {old['outputs']}, are now {new['outputs']}")
    return lines + input_differences(old["inputs"], new["inputs"])


def input_differences(old: list[dict[str, Any]], new: list[dict[str, Any]]) -> list[str]:
    """What differs between two lists of inputs."""
    was = {one["path"]: one for one in old}
    now = {one["path"]: one for one in new}
    lines = [f"{path}: is no longer there, or not given" for path in was if path not in now]
    lines += [f"{path}: is new" for path in now if path not in was]
    for path, before in was.items():
        after = now.get(path)
        if after is None or after == before:
            continue
        if after["size"] != before["size"]:
            what = f"had {before['size']:,} bytes, has {after['size']:,}"
        elif after["ends"] != before["ends"]:
            what = "has another content"
        else:
            what = "was written again since (its size, beginning and end are as they were)"
        lines.append(f"{path}: {what}")
    return lines
