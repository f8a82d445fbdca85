"""Jobs on threads of this process, all in one native call.

The call lets every thread do whatever is to be done next, for one job or, where one does not keep
them busy, for several. It tells of shards and of progress in the thread that called it, so that an
interrupt ends it, too.
"""

import json
from collections.abc import Iterable

from gristmill import _native
from gristmill._native import Tokenizer
from gristmill.engine import Sink, Task, large_first


def run(
    tok: Tokenizer, tasks: Iterable[Task], sink: Sink, *, threads: int, max_memory: int
) -> None:
    """Make all jobs with so many threads, within about so many bytes of memory."""
    _native.run_jobs(
        tok,
        [task.job for task in large_first(tasks)],
        threads=threads,
        max_memory=max_memory,
        on_shard=lambda report: sink.shard(json.loads(report)),
        on_progress=lambda counters: sink.told(json.loads(counters)),
    )
