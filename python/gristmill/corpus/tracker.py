"""How far a run is: what the shards on disk hold, and what the jobs at work have done since.

Invariant: the totals of a finished run are those of its shards alone; what jobs tell on the way
is for people to watch. Tested in `tests/test_corpus_run.py`.
"""

import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from gristmill.corpus.plan import JobPlan, Plan
from gristmill.memory import resident

# Seconds between two samples of the curves in the report, until there are too many.
BETWEEN_SAMPLES = 0.5
MOST_SAMPLES = 600
# Seconds that the speed shown is of.
RECENT = 15.0


@dataclass
class Totals:
    """What documents became, added up over shards."""

    shards: int = 0
    records: int = 0
    documents: int = 0
    empty: int = 0
    bad: Counter[str] = field(default_factory=Counter)
    text_bytes: int = 0
    read_bytes: int = 0
    tokens: int = 0
    written: int = 0
    largest: int | None = None
    lengths: list[int] = field(default_factory=list)
    partial: list[str] = field(default_factory=list)

    def add(self, report: dict[str, Any]) -> None:
        """One more shard."""
        self.shards += 1
        for name in ("records", "documents", "empty", "text_bytes", "read_bytes", "tokens"):
            setattr(self, name, getattr(self, name) + report[name])
        self.bad.update(report["bad"])
        self.written += sum(file["bytes"] for file in report["files"])
        if report["largest"] is not None:
            self.largest = max(self.largest or 0, report["largest"])
        missing = len(report["lengths"]) - len(self.lengths)
        self.lengths += [0] * missing
        for at, count in enumerate(report["lengths"]):
            self.lengths[at] += count
        self.partial += [path for path in report["partial"] if path not in self.partial]

    @property
    def lost(self) -> int:
        """Records that became neither a document nor a number with a reason; always 0."""
        return self.records - self.documents - self.empty - self.bad.total()


@dataclass(frozen=True)
class Progress:
    """How far a run is, for those who watch."""

    seconds: float
    files: int
    files_done: int
    bytes: int
    bytes_done: int
    jobs: int
    jobs_done: int
    shards: int
    documents: int
    tokens: int
    bad: int
    memory: int
    # Bytes of the inputs a second, lately, and seconds left at that.
    speed: float
    left: float | None
    # The stage that takes the most time, and its share of all stages' time.
    bottleneck: tuple[str, float] | None


class Tracker:
    """Adds up shards, and what the engine tells on the way."""

    def __init__(self, plan: Plan, jobs: Iterable[int]) -> None:
        self.plan = plan
        self.began = time.monotonic()
        self.mine = set(jobs)
        self.totals = Totals()
        # What earlier runs had done, to which the engine's counters are added.
        self.earlier = Totals()
        self.counters: dict[str, Any] = {}
        # For each file how many of its jobs are not done.
        self.open = Counter(at for job in plan.jobs for at in files_of(job))
        self.files = len({at for number in self.mine for at in files_of(plan.jobs[number])})
        self.bytes = sum(plan.jobs[number].bytes for number in self.mine)
        self.bytes_before = 0
        self.bytes_done = 0
        self.files_done = 0
        self.jobs_done = 0
        self.recent: list[tuple[float, int]] = []
        self.samples: list[tuple[float, int, int, int]] = []
        self.every = BETWEEN_SAMPLES

    def shard(self, report: dict[str, Any], earlier: bool = False) -> None:
        """A shard is on disk; `earlier` if it was before this run."""
        mine = report["job"] in self.mine
        if mine:
            self.totals.add(report)
            if earlier:
                self.earlier.add(report)
        if report["last"]:
            self.finished(self.plan.jobs[report["job"]], mine, earlier)

    def finished(self, job: JobPlan, mine: bool, earlier: bool) -> None:
        """All shards of a job are there."""
        if mine:
            self.jobs_done += 1
            self.bytes_done += job.bytes
            self.bytes_before += job.bytes if earlier else 0
        for at in files_of(job):
            self.open[at] -= 1
            self.files_done += self.open[at] == 0 and mine

    def told(self, counters: dict[str, Any]) -> None:
        """How far the engine is, over all jobs since it began."""
        self.counters = counters

    def most(self, done: int, earlier: int, name: str) -> int:
        """What is known of a number: from shards, or from what the engine tells, which is ahead."""
        return max(done, earlier + int(self.counters.get(name, 0)))

    @property
    def bad(self) -> int:
        """Bad records so far."""
        return self.most(self.totals.bad.total(), self.earlier.bad.total(), "bad")

    def progress(self) -> Progress:
        """How far all of it is now; takes a sample for the report where one is due."""
        memory = resident()
        seconds = time.monotonic() - self.began
        done = min(self.bytes, self.most(self.bytes_done, self.bytes_before, "read_bytes"))
        tokens = self.most(self.totals.tokens, self.earlier.tokens, "tokens")
        speed = self.speed(seconds, done - self.bytes_before)
        self.sample(seconds, done - self.bytes_before, tokens - self.earlier.tokens, memory)
        return Progress(
            seconds=seconds,
            files=self.files,
            files_done=self.files_done,
            bytes=self.bytes,
            bytes_done=done,
            jobs=len(self.mine),
            jobs_done=self.jobs_done,
            shards=self.totals.shards,
            documents=self.most(self.totals.documents, self.earlier.documents, "documents"),
            tokens=tokens,
            bad=self.bad,
            memory=memory,
            speed=speed,
            left=(self.bytes - done) / speed if speed else None,
            bottleneck=self.bottleneck(),
        )

    def bottleneck(self) -> tuple[str, float] | None:
        """The stage that takes the most of all threads' time."""
        ending = "_time"
        spent = {
            name.removesuffix(ending): time
            for name, time in self.counters.items()
            if name.endswith(ending)
        }
        whole = sum(spent.values())
        if not whole:
            return None
        stage = max(spent, key=lambda name: spent[name])
        return stage, spent[stage] / whole

    def speed(self, seconds: float, done: int) -> float:
        """Bytes a second lately."""
        self.recent.append((seconds, done))
        while len(self.recent) > 2 and self.recent[1][0] < seconds - RECENT:
            del self.recent[0]
        since, before = self.recent[0]
        if seconds - since < 0.5:
            return done / seconds if seconds > 0 else 0.0
        return (done - before) / (seconds - since)

    def sample(self, seconds: float, done: int, tokens: int, memory: int) -> None:
        """Keep a point of the curves; where there are too many, every second one goes."""
        if self.samples and seconds < self.samples[-1][0] + self.every:
            return
        self.samples.append((round(seconds, 3), done, tokens, memory))
        if len(self.samples) > MOST_SAMPLES:
            self.samples = self.samples[::2]
            self.every *= 2


def files_of(job: JobPlan) -> set[int]:
    """The inputs that a job reads."""
    return {one.input for one in job.ranges}
