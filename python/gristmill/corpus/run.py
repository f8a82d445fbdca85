"""One run: plan, lock, resume, let an engine make the shards, finish, report.

Invariant: whatever ends a run, the same command goes on with it, and what it leaves at the end has
the bytes of a run that nothing ended. `tests/test_corpus_resume.py` kills runs until they are done.
"""

import contextlib
import json
import os
import shutil
import socket
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from gristmill import _native
from gristmill._native import Tokenizer
from gristmill.corpus import inputs as inputs_
from gristmill.corpus import journal as journals
from gristmill.corpus import plan as plans
from gristmill.corpus import remote
from gristmill.corpus.errors import CorpusError, TooManyBadRecords
from gristmill.corpus.inputs import KEPT, PLAN, STANDARD_INPUT, Input
from gristmill.corpus.journal import Done, Journal
from gristmill.corpus.options import FORMATS, Options, Running
from gristmill.corpus.plan import Kind, Plan
from gristmill.corpus.report import Report, Row
from gristmill.corpus.tracker import Progress, Tracker
from gristmill.engine import Task
from gristmill.memory import resident

Watch = Callable[[Progress], None]
# A share of bad records means nothing before there are some records.
ENOUGH_RECORDS = 10_000


def run(
    names: Iterable[str | os.PathLike[str]],
    out: str | os.PathLike[str],
    tok: Tokenizer,
    source: str,
    options: Options,
    running: Running,
    watch: Watch | None = None,
    notice: Callable[[str], None] = lambda line: None,
) -> Report:
    """Make of the inputs what the options say, or go on with it."""
    folder = os.fspath(out)
    os.makedirs(folder, exist_ok=True)
    with journals.locked(folder, running.part):
        if running.overwrite:
            clear(folder)
        names = list(names)
        if STANDARD_INPUT in names and running.part is not None:
            raise CorpusError("standard input has no parts; write it to a file first")
        names = [
            inputs_.keep(sys.stdin.buffer, folder) if name == STANDARD_INPUT else name
            for name in names
        ]
        paths, left = inputs_.find(names, folder)
        stored = plans.load(folder)
        alone = running.part is None
        plan = agree(stored, inputs_.look(paths), tok, source, options, folder, alone)
        return Run(plan, left, folder, tok, running, watch, notice).run()


def agree(
    stored: Plan | None,
    found: list[Input],
    tok: Tokenizer,
    source: str,
    options: Options,
    folder: str,
    alone: bool,
) -> Plan:
    """The plan that lies in the folder, if it is for the same; a new one if there is none."""
    if stored is None:
        kinds = inputs_.many(lambda one: kind_of(one, options), found)
        plan = plans.make(tok, source, options, found, kinds)
        plans.write(plan, folder)
        return plan
    outputs = options.outputs(tok, plans.called(source))
    now = Plan(plans.identify(tok, source), options, outputs, found, [], [])
    lines = plans.differences(stored.identity(), now.identity())
    if not lines:
        return stored
    reports = [line["shard"] for line in journals.entries(folder) if "shard" in line]
    if alone and not reports:
        # Nothing was made by the other plan that could be lost or mixed up.
        return agree(None, found, tok, source, options, folder, alone)
    if alone and not any(report["bad"] for report in reports):
        # What is done with bad records makes no difference where there was none.
        plan = replace(stored, options=replace(stored.options, on_error=options.on_error))
        if not plans.differences(plan.identity(), now.identity()):
            plans.write(plan, folder)
            return plan
    shown = lines[:10] + ([f"and {len(lines) - 10} more"] if len(lines) > 10 else [])
    raise CorpusError(
        f"{folder} holds another run, which this command cannot go on with: "
        + "; ".join(shown)
        + ". Nothing was changed; give another folder, or --overwrite to start anew"
    )


def kind_of(input: Input, options: Options) -> Kind:
    """What a look into a file says of it."""

    def inspect(path: str) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(
            _native.inspect_input(
                path,
                format=None if options.format == "auto" else options.format,
                separator=options.separator,
                unit_bytes=plans.smallest_range(options.shard_size),
            )
        )
        return found

    if remote.is_remote(input.path):
        format, compression = remote.kind(input.path, inputs_.ENDS, inspect)
        return Kind(format, compression, False, ((0, None),))
    found = inspect(input.path)
    if (found["size"], found["modified"]) != (input.size, input.modified):
        raise CorpusError(f"{input.path} changes while it is looked at; run again when it is done")
    ranges = tuple((one["start"], one["end"]) for one in found["units"])
    return Kind(
        found["format"], found["compression"], found["splittable"], ranges, found.get("rows")
    )


def clear(folder: str) -> None:
    """Take away what a run made, and nothing else."""
    try:
        stored = json.loads(Path(folder, PLAN).read_bytes())
        formats = {str(output["format"]) for output in stored["outputs"]}
    except FileNotFoundError:
        return
    except (ValueError, KeyError, TypeError):
        formats = set()
    for report in journals.survey_loosely(folder):
        for file in report["files"]:
            (Path(folder) / file["name"]).unlink(missing_ok=True)
    for name in formats & set(FORMATS):
        # Indexes over all shards lie there, too.
        shutil.rmtree(os.path.join(folder, name), ignore_errors=True)
    journals.remove_aside(folder)
    for path in journals.journals(folder):
        os.remove(path)
    for name in ("report.json", "report.html", KEPT, PLAN):
        (Path(folder) / name).unlink(missing_ok=True)


class Run:
    """A run at work; the engine tells it what happens."""

    def __init__(
        self,
        plan: Plan,
        left: list[str],
        folder: str,
        tok: Tokenizer,
        running: Running,
        watch: Watch | None,
        notice: Callable[[str], None],
    ) -> None:
        self.plan = plan
        self.left = left
        self.folder = folder
        self.tok = tok
        self.running = running
        self.watch = watch
        self.notice = notice
        self.mine = part_of(plan, running.part)
        self.tracker = Tracker(plan, self.mine)
        self.journal = Journal(folder, running.part)
        self.began = time.time()

    def run(self) -> Report:
        """Make what is not there yet."""
        done = journals.survey(self.folder)
        self.clean(done)
        tasks = self.tasks(done)
        with self.journal:
            if tasks:
                self.journal.line({"run": self.about(), "at": self.began})
                try:
                    self.engine(tasks)
                except BaseException:
                    # What went wrong is what is told, also if that was a disk that is full.
                    with contextlib.suppress(OSError):
                        self.keep_samples()
                    raise
                self.keep_samples()
        done = journals.survey(self.folder)
        complete = all(done.finished(job.number) for job in self.plan.jobs)
        if complete:
            self.check_inputs()
        return self.end(done, complete)

    def keep_samples(self) -> None:
        """The curves of this run, for the report."""
        self.tracker.progress()
        self.journal.line({"samples": self.tracker.samples, "at": time.time()})

    def clean(self, done: Done) -> None:
        """Take away what an earlier run did not finish."""
        mine = None if self.running.part is None else set(self.mine)
        journals.remove_aside(self.folder, mine)
        if mine is None:
            # What a killed run had brought here.
            shutil.rmtree(os.path.join(self.folder, remote.HERE), ignore_errors=True)
        if done.damaged:
            self.notice(
                f"{len(done.damaged):,} shards are gone or of another size than when they were "
                "made; they are made again"
            )

    def tasks(self, done: Done) -> list[Task]:
        """The jobs that are left."""
        tasks = []
        for job in self.plan.jobs:
            leading = done.leading(job.number)
            for report in leading:
                self.tracker.shard(report, earlier=True)
            if job.number in self.mine and not done.finished(job.number):
                described = self.plan.job(job.number, self.folder, len(leading))
                tasks.append(Task(job.number, job.bytes, json.dumps(described)))
        return tasks

    def about(self) -> dict[str, Any]:
        """Who is at work, for those who read the journal."""
        return {
            "process": os.getpid(),
            "host": socket.gethostname(),
            "threads": self.running.workers,
            "engine": self.running.engine,
            "part": self.running.part,
        }

    def engine(self, tasks: list[Task]) -> None:
        """Have the jobs made."""
        workers, memory = self.running.workers, self.running.max_memory
        if self.running.engine == "ray":
            from gristmill.engine import ray

            ray.run(self.tok, tasks, self, threads=self.running.threads, max_memory=memory)
        else:
            from gristmill.engine import local

            local.run(self.tok, tasks, self, threads=workers, max_memory=memory)

    # --- what the engine tells

    def shard(self, report: dict[str, Any]) -> None:
        """A shard is on disk: now the journal says so."""
        law(report)
        self.journal.line({"shard": report, "at": time.time(), "memory": resident()})
        self.tracker.shard(report)
        self.check_bad()

    def told(self, counters: dict[str, Any]) -> None:
        """The engine is so far: show it."""
        self.tracker.told(counters)
        if self.tracker.bad > self.tracker.totals.bad.total():
            self.check_bad()
        progress = self.tracker.progress()
        if self.watch is not None:
            self.watch(progress)

    def check_bad(self, at_end: bool = False) -> None:
        """Stop when too many records are bad."""
        limit, bad = self.running.max_bad, self.tracker.bad
        if limit is None:
            return
        records = self.tracker.totals.records
        if isinstance(limit, float):
            if records < ENOUGH_RECORDS and not at_end:
                return
            most, said = limit * records, f"{limit:.4%}".rstrip("0%") + "%"
        else:
            most, said = limit, f"{limit:,}"
        if bad > most:
            reasons = ", ".join(
                f"{count:,} {reason}" for reason, count in self.tracker.totals.bad.most_common(5)
            )
            raise TooManyBadRecords(
                f"{bad:,} records are bad, and --max-bad allows {said}"
                + (f" ({reasons})" if reasons else "")
                + "; what is done stays, and the same command with a larger --max-bad goes on"
            )

    # --- the end

    def check_inputs(self) -> None:
        """No input may have changed since the plan: its shards would be of two contents."""
        now = inputs_.look([one.path for one in self.plan.inputs])
        lines = plans.input_differences(
            [one.as_json() for one in self.plan.inputs], [one.as_json() for one in now]
        )
        if lines:
            raise CorpusError(
                "inputs changed while the run was at work: "
                + "; ".join(lines[:10])
                + ". The shards are of the earlier or of the later content; start anew with "
                "--overwrite when the inputs are at rest"
            )

    def end(self, done: Done, complete: bool) -> Report:
        """Make the files that are of all shards, and the report."""
        self.check_bad(at_end=True)
        report = make_report(self.plan, done, self.folder, self.left, complete, self.tracker)
        if report.lost:
            raise CorpusError(
                f"the numbers do not add up: {report.law()}; this is an error of Gristmill"
            )
        if complete:
            with journals.lock(self.folder, f"{journals.LOCK}-end", patience=3600):
                self.finish(done)
                plans.store(
                    os.path.join(self.folder, "report.json"), report.to_json().encode() + b"\n"
                )
                plans.store(os.path.join(self.folder, "report.html"), report.to_html().encode())
        return report

    def finish(self, done: Done) -> None:
        """The files of each format that are about all shards."""
        reports = json.dumps(in_order(self.plan, done))
        for output in self.plan.outputs:
            _native.finish_output(self.folder, json.dumps(output), reports)


def law(report: dict[str, Any]) -> None:
    """What went into a shard is what came out, and what did not is counted."""
    bad = sum(report["bad"].values())
    if report["records"] != report["documents"] + report["empty"] + bad:
        raise CorpusError(
            f"shard {report['shard']} of job {report['job']} has {report['records']} records, but "
            f"{report['documents']} documents, {report['empty']} empty and {bad} bad ones; this is "
            "an error of Gristmill"
        )


def part_of(plan: Plan, part: tuple[int, int] | None) -> list[int]:
    """The jobs of one part: large ones first, each to the part that has the least."""
    if part is None:
        return [job.number for job in plan.jobs]
    number, parts = part
    loads = [0] * parts
    mine = []
    for job in sorted(plan.jobs, key=lambda job: (-job.bytes, job.number)):
        lightest = loads.index(min(loads))
        loads[lightest] += max(1, job.bytes)
        if lightest == number - 1:
            mine.append(job.number)
    return sorted(mine)


def in_order(plan: Plan, done: Done) -> list[dict[str, Any]]:
    """The reports of all shards."""
    return [report for job in plan.jobs for report in done.leading(job.number)]


def make_report(
    plan: Plan, done: Done, folder: str, left: list[str], complete: bool, tracker: Tracker
) -> Report:
    """What came of this run and those before it."""
    totals = type(tracker.totals)()
    rows = []
    for job in plan.jobs:
        reports = done.leading(job.number)
        for report in reports:
            totals.add(report)
        if reports:
            rows.append(
                Row(
                    job=job.number,
                    inputs=[
                        plan.inputs[at].path for at in dict.fromkeys(r.input for r in job.ranges)
                    ],
                    documents=sum(report["documents"] for report in reports),
                    tokens=sum(report["tokens"] for report in reports),
                    text_bytes=sum(report["text_bytes"] for report in reports),
                    bad=sum(sum(report["bad"].values()) for report in reports),
                )
            )
    samples, seconds = history(done.lines)
    return Report(
        folder=folder,
        complete=complete,
        tokenizer=plan.tokenizer["source"],
        outputs=[output["format"] for output in plan.outputs],
        files=len(plan.inputs),
        jobs=len(plan.jobs),
        jobs_done=sum(done.finished(job.number) for job in plan.jobs),
        shards=totals.shards,
        records=totals.records,
        documents=totals.documents,
        empty=totals.empty,
        bad=dict(totals.bad),
        partial=totals.partial,
        left_out=left,
        text_bytes=totals.text_bytes,
        read_bytes=totals.read_bytes,
        written=totals.written,
        tokens=totals.tokens,
        largest=totals.largest,
        lengths=totals.lengths,
        seconds=round(time.monotonic() - tracker.began, 3),
        all_seconds=round(seconds, 3),
        samples=samples,
        rows=rows,
    )


def history(
    lines: Sequence[dict[str, Any]],
) -> tuple[list[tuple[float, int, int, int]], float]:
    """The curves of all runs behind each other, and how long all of them took.

    A run that was killed left no samples; its time is that of its last shard.
    """
    samples: list[tuple[float, int, int, int]] = []
    seconds = 0.0
    began = last = None
    read = tokens = 0
    for line in [*lines, {"run": None, "at": None}]:
        if "run" in line:
            if began is not None and last is not None:
                seconds += max(0.0, last - began)
            began, last = line["at"], None
        elif "samples" in line:
            for second, done, made, memory in line["samples"]:
                samples.append((seconds + second, read + done, tokens + made, memory))
            if line["samples"]:
                read += line["samples"][-1][1]
            last = line["at"]
        else:
            last = line["at"]
    return samples, seconds
