"""Jobs as tasks on a Ray cluster, and an encoder for the data sets of Ray Data.

A task is one job: a description of less than a kilobyte goes in, the reports of its shards come
out. Texts and ids never pass through Ray. A task that is lost with its machine is begun again: it
makes the same files under the same names. Inputs and output have to be on storage that every
machine reaches by the same path.

Needs the extra `gristmill[ray]`. `tests/cluster/` runs it on a cluster that it starts.
"""

import json
from collections.abc import Iterable
from contextlib import nullcontext
from typing import Any

from gristmill._native import Tokenizer
from gristmill.engine import Sink, Task, large_first

try:
    import ray
except ImportError as error:
    raise ImportError("the engine ray needs Ray: pip install 'gristmill[ray]'") from error

# How often a task is begun again when its machine or process is lost.
RETRIES = 5
# Seconds between two looks at how far it is.
PATIENCE = 0.2


def make(tok: Tokenizer, job: str, threads: int, max_memory: int) -> list[str]:
    """Make one job, wherever this runs; the reports of its shards."""
    from gristmill import _native
    from gristmill.corpus import remote

    reports: list[str] = []
    with remote.here(job) if remote.needs(job) else nullcontext(job) as described:
        _native.run_jobs(
            tok,
            [described],
            threads=threads,
            max_memory=max_memory,
            on_shard=reports.append,
            on_progress=lambda counters: None,
        )
    return reports


def run(
    tok: Tokenizer, tasks: Iterable[Task], sink: Sink, *, threads: int, max_memory: int
) -> None:
    """Make all jobs on the cluster of this session, or on one that is started on this machine.

    `threads` is how many a task has, and how many cores of its machine it takes: 0 is one.
    """
    started = not ray.is_initialized()
    if started:
        ray.init(log_to_driver=False, include_dashboard=False)
    try:
        each = max(1, threads)
        # Once for the cluster: machines need not have the file, nor ask a hub for it.
        shared = ray.put(tok)
        remote = ray.remote(num_cpus=each, max_retries=RETRIES)(make)
        waiting = {remote.remote(shared, task.job, each, max_memory) for task in large_first(tasks)}
        try:
            follow(waiting, sink)
        except BaseException:
            for one in waiting:
                ray.cancel(one, force=True)
            raise
    finally:
        if started:
            ray.shutdown()


def follow(waiting: set[Any], sink: Sink) -> None:
    """Tell of each task that ends until none is left."""
    while waiting:
        ready, _ = ray.wait(list(waiting), timeout=PATIENCE)
        for one in ready:
            try:
                reports = ray.get(one)
            except ray.exceptions.RayTaskError as error:
                # The error itself, without the trace of the other process.
                raise (error.cause or error) from None
            for report in reports:
                sink.shard(json.loads(report))
            waiting.remove(one)
        sink.told({})


class Encoder:
    """Encodes a column of texts of a Ray data set into a column of ids.

    dataset.map_batches(
        Encoder, fn_constructor_args=("gpt2",), concurrency=4, batch_format="pyarrow"
    )
    """

    def __init__(
        self,
        tokenizer: Any,
        *,
        column: str = "text",
        into: str = "input_ids",
        special: Any = "text",
        add_special_tokens: bool = False,
    ) -> None:
        self.tok = tokenizer if isinstance(tokenizer, Tokenizer) else Tokenizer(tokenizer)
        self.column = column
        self.into = into
        self.how = {"special": special, "add_special_tokens": add_special_tokens}

    def __call__(self, batch: Any) -> Any:
        """One batch, an Arrow table, with one more column of type large_list<uint32>."""
        import pyarrow

        texts = batch.column(self.column).to_pylist()
        ids, ends = self.tok.encode_batch_numpy(texts, **self.how)
        values = pyarrow.LargeListArray.from_arrays(pyarrow.array(ends), pyarrow.array(ids))
        return batch.append_column(self.into, values)
