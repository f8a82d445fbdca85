"""Who makes the shards: threads of this process, or tasks on a Ray cluster.

An engine is given jobs as JSON and has them made by the same native call, `_native.run_jobs`, so
that no two engines can give different bytes. It tells a sink of each shard that is on disk and of
how far it is. `tests/test_corpus_run.py` and `tests/cluster/` hold the engines to one output.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Protocol


@dataclass(frozen=True)
class Task:
    """A job to be made."""

    number: int
    # About how many bytes it reads.
    bytes: int
    job: str


class Sink(Protocol):
    """Where an engine tells what happened. Each method may raise to end the run."""

    def shard(self, report: dict[str, Any], /) -> None:
        """A shard is on disk."""

    def told(self, counters: dict[str, Any], /) -> None:
        """How far the engine is, over all jobs since it began; empty where it does not know."""


def large_first(tasks: Iterable[Task]) -> list[Task]:
    """The order in which jobs begin, so that none is left alone at the end."""
    return sorted(tasks, key=lambda task: (-task.bytes, task.number))
