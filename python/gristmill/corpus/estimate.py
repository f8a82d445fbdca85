"""What a run would take, from a sample: tokens, documents, time and disk, each with an interval.

Points are spread evenly over the bytes of the inputs; at each a piece is tokenized as a run
would, into a folder that is thrown away. The sums are scaled by the bytes that the pieces have of
the whole, and the interval is that of a ratio of sums, at 95 %. Where the sample is everything,
there is nothing to estimate. Tested in `tests/test_corpus_run.py` against a real run.
"""

import contextlib
import json
import math
import random
import tempfile
import time
from collections.abc import Iterable
from contextlib import nullcontext
from dataclasses import asdict, dataclass
from typing import Any

from gristmill import _native
from gristmill._native import Tokenizer
from gristmill.corpus import inputs as inputs_
from gristmill.corpus import plan as plans
from gristmill.corpus import remote
from gristmill.corpus.options import Options, Running
from gristmill.corpus.plan import Plan, Range
from gristmill.corpus.run import kind_of
from gristmill.corpus.sizes import counted, lasting, spelled

POINTS = 32
# Bytes of a piece of a file that can be cut, and of text from the beginning of one that cannot.
PIECE = 1 << 20
BEGINNING = 8 << 20
# Half of an interval at 95 %, in standard errors, for about as many points as there are.
SPREAD = 2.04


@dataclass(frozen=True)
class Guess:
    """A number and how far it may be off, either way."""

    value: float
    plus_minus: float

    def said(self, spell: Any) -> str:
        """The number for people."""
        if not self.plus_minus:
            return str(spell(self.value))
        return f"{spell(self.value)} ± {spell(self.plus_minus)}"


@dataclass(frozen=True)
class Estimate:
    """What a run would take."""

    files: int
    bytes: int
    sampled: int
    documents: Guess
    tokens: Guess
    seconds: Guess
    disk: Guess
    shards: int
    bad: int
    # Records of the sample, of which so many were bad.
    records: int

    def as_json(self) -> dict[str, Any]:
        """All of it by names."""
        return {"estimate": asdict(self)}

    def __str__(self) -> str:
        share = self.sampled / self.bytes if self.bytes else 1.0
        lines = [
            f"{self.files:,} files, {spelled(self.bytes)}; tokenized for this estimate: "
            f"{spelled(self.sampled)} ({share:.2%})",
            f"tokens     {self.tokens.said(counted)}",
            f"documents  {self.documents.said(counted)}",
            f"time       {self.seconds.said(lasting)} on this machine",
            f"disk       {self.disk.said(spelled)} in {self.shards:,} or more shards",
        ]
        if self.bad:
            lines.append(f"bad        {self.bad:,} of {self.records:,} records in the sample")
        return "\n".join(lines)


@dataclass(frozen=True)
class Piece:
    """What came of one piece."""

    bytes: int
    tokens: int
    documents: int
    seconds: float
    written: int
    records: int
    bad: int


class Enough(Exception):
    """A piece is large enough."""


def estimate(
    names: Iterable[str], out: str, tok: Tokenizer, options: Options, running: Running
) -> Estimate:
    """Tokenize a sample."""
    found = inputs_.look(inputs_.find(names, out)[0])
    kinds = inputs_.many(lambda one: kind_of(one, options), found)
    plan = plans.make(tok, "", options, found, kinds)
    picked = pick(plan)
    with tempfile.TemporaryDirectory() as folder:
        if picked:
            # Once for nothing: a run does not begin with empty caches all the time.
            make(plan, picked[0], tok, running, folder)
        pieces = [make(plan, one, tok, running, folder) for one in picked]
    pieces = [one for one in pieces if one.bytes]
    return Estimate(
        files=len(plan.inputs),
        bytes=plan.bytes,
        sampled=min(plan.bytes, sum(one.bytes for one in pieces)),
        documents=scaled(plan.bytes, pieces, "documents"),
        tokens=scaled(plan.bytes, pieces, "tokens"),
        seconds=scaled(plan.bytes, pieces, "seconds"),
        disk=scaled(plan.bytes, pieces, "written"),
        shards=len(plan.jobs),
        bad=sum(one.bad for one in pieces),
        records=sum(one.records for one in pieces),
    )


def pick(plan: Plan) -> list[Range]:
    """Pieces at points spread evenly over the bytes of the inputs; all of them, if that is
    little."""
    if plan.bytes <= POINTS * PIECE:
        return [one for job in plan.jobs for one in job.ranges if one.bytes]
    step = plan.bytes / POINTS
    # The same for the same inputs.
    first = random.Random(plan.bytes).random() * step
    points = [int(first + number * step) for number in range(POINTS)]
    picked: dict[tuple[int, int], Range] = {}
    before = 0
    for at, input in enumerate(plan.inputs):
        while points and points[0] < before + input.size:
            one = piece(plan, at, points.pop(0) - before)
            picked[one.input, one.start] = one
        before += input.size
    return list(picked.values())


def piece(plan: Plan, at: int, offset: int) -> Range:
    """The piece at an offset of an input."""
    kind, size = plan.kinds[at], plan.inputs[at].size
    if not kind.splittable:
        return Range(at, 0, None, size)
    if kind.format in plans.TABLES:
        start, end = kind.ranges[offset * len(kind.ranges) // size]
        return Range(at, start, end, size // len(kind.ranges))
    start = min(offset, max(0, size - PIECE))
    return Range(at, start, min(size, start + PIECE), min(size, PIECE))


def make(plan: Plan, one: Range, tok: Tokenizer, running: Running, folder: str) -> Piece:
    """Tokenize one piece."""
    job = {
        **plan.job(0, folder),
        "units": [plan.unit(one)],
        "shard_bytes": None if plan.kinds[one.input].splittable else BEGINNING,
    }
    reports: list[dict[str, Any]] = []

    def keep(report: str) -> None:
        reports.append(json.loads(report))
        if not reports[0]["last"]:
            raise Enough

    began = time.perf_counter()
    described = json.dumps(job)
    near = remote.here(described) if remote.needs(described) else nullcontext(described)
    with contextlib.suppress(Enough), near as text:
        _native.run_jobs(
            tok,
            [text],
            threads=running.workers,
            max_memory=running.max_memory,
            on_shard=keep,
            on_progress=lambda counters: None,
        )
    report = reports[0]
    return Piece(
        bytes=one.bytes if report["last"] else report["read_bytes"],
        tokens=report["tokens"],
        documents=report["documents"],
        seconds=time.perf_counter() - began,
        written=sum(file["bytes"] for file in report["files"]),
        records=report["records"],
        bad=sum(report["bad"].values()),
    )


def scaled(whole: int, pieces: list[Piece], name: str) -> Guess:
    """The sum over all bytes, from that over some."""
    read = sum(one.bytes for one in pieces)
    if not read:
        return Guess(0, 0)
    ratio = sum(getattr(one, name) for one in pieces) / read
    if read >= whole or len(pieces) < 2:
        return Guess(ratio * whole, 0)
    off = [getattr(one, name) - ratio * one.bytes for one in pieces]
    variance = len(pieces) / (len(pieces) - 1) * math.fsum(one * one for one in off)
    # Of a whole that is not much larger than the sample less is unknown.
    unknown = 1 - read / whole
    return Guess(ratio * whole, SPREAD * whole * math.sqrt(variance * unknown) / read)
