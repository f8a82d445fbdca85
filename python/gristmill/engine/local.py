"""Jobs on threads of this process, all in one native call; those whose inputs lie elsewhere one
by one.

The call lets every thread do whatever is to be done next, for one job or, where one does not keep
them busy, for several. It tells of shards and of progress in the thread that called it, so that an
interrupt ends it, too.
"""

import json
from collections import Counter
from collections.abc import Iterable

from gristmill import _native
from gristmill._native import Tokenizer
from gristmill.corpus import remote
from gristmill.engine import Sink, Task, large_first


def run(
    tok: Tokenizer, tasks: Iterable[Task], sink: Sink, *, threads: int, max_memory: int
) -> None:
    """Make all jobs with so many threads, within about so many bytes of memory."""
    jobs = [task.job for task in large_first(tasks)]
    before: Counter[str] = Counter()

    def make(jobs: list[str]) -> None:
        counters: dict[str, int] = {}

        def told(text: str) -> None:
            counters.update(json.loads(text))
            sink.told(before + Counter(counters))

        _native.run_jobs(
            tok,
            jobs,
            threads=threads,
            max_memory=max_memory,
            on_shard=lambda report: sink.shard(json.loads(report)),
            on_progress=told,
        )
        before.update(counters)

    if here := [job for job in jobs if not remote.needs(job)]:
        make(here)
    for job in remote.one_ahead(job for job in jobs if remote.needs(job)):
        make([job])
