"""Cells to results: every run in a fresh process, columns taken in turn, ids compared.

One round gives each column one run, so that what else the machine does hits all alike, and each
round begins with another column. A column whose ids are not those of the reference gets no number:
the reference is `tokenizers` if it could do the task, else `tiktoken`, else what most packages say.
"""

import json
import pathlib
import statistics
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from typing import Any, NamedTuple

import peers
from tables import FASTEST, LIMIT, OURS, Bar, Cell, Metric

MEASURES = pathlib.Path(__file__).with_name("measures.py")
# The packages whose ids are the truth, if they are here.
ORACLES = ("tokenizers", "tiktoken")
OTHER_IDS = "other ids"

Found = dict[str, Any]


class Options(NamedTuple):
    """How to run."""

    runs: int
    clock: str
    timeout: float
    packages: list[str]


class Verdict(NamedTuple):
    """Whether a bar is met; None if there is nothing to compare with."""

    bar: Bar
    ratio: float | None
    met: bool | None


class Row(NamedTuple):
    """One metric of one cell."""

    name: str
    sizes: str
    metric: Metric
    # Medians, or why there is none.
    values: dict[str, float | str]
    spreads: dict[str, list[float]]
    fastest: str | None
    verdicts: list[Verdict]

    def ratio(self, against: str) -> float | None:
        """How many times as good ours is."""
        ours, theirs = self.values.get(OURS), self.values.get(against)
        if not isinstance(ours, float) or not isinstance(theirs, float):
            return None
        # Nothing measured is no more than the smallest of what can be.
        ours, theirs = max(ours, 0.01), max(theirs, 0.01)
        return ours / theirs if self.metric.more else theirs / ours


def rows_of(cell: Cell, options: Options, tell: Callable[[str], None]) -> list[Row]:
    """Run a cell, and read its metrics off."""
    columns = cell.columns or {name: {"peer": name} for name in options.packages}
    known = set(options.packages) | {"rustbpe"}
    columns = {
        label: task
        for label, task in columns.items()
        if task["peer"] in known and label not in cell.without
    }
    found: dict[str, list[Found]] = {label: [] for label in columns}
    labels = list(columns)
    for turn in range(options.runs):
        for label in labels[turn % len(labels) :] + labels[: turn % len(labels)]:
            earlier = found[label]
            failed = bool(earlier) and "failed" in earlier[-1]
            if failed or (turn and label in cell.once):
                continue
            tell(f"{cell.name}: {label}, run {turn + 1} of {options.runs}")
            task = {"pinned": cell.pinned, "clock": options.clock, **cell.task, **columns[label]}
            if not cell.pinned:
                # Work of several threads is compared with other work by the wall alone.
                task["clock"] = "wall"
            earlier.append(in_fresh_process(task, options.timeout))
    refused = refusals(found)
    return [row(cell, metric, found, refused) for metric in cell.metrics]


def in_fresh_process(task: dict[str, Any], timeout: float) -> Found:
    """What a process found, or why it found nothing."""
    try:
        done = subprocess.run(
            [sys.executable, str(MEASURES)],
            input=json.dumps(task),
            capture_output=True,
            text=True,
            check=False,
            timeout=timeout,
        )
    except subprocess.TimeoutExpired:
        return {"cannot": f"over {timeout:g} s", "failed": 1}
    if done.returncode:
        last = done.stderr.strip().splitlines()
        reason = last[-1] if last else f"exit code {done.returncode}"
        return {"cannot": f"fails: {reason}", "failed": 1}
    found: Found = json.loads(done.stdout.splitlines()[-1])
    return {**found, "failed": 1} if "cannot" in found else found


def refusals(found: dict[str, list[Found]]) -> dict[str, str]:
    """The columns that get no number, and why."""
    refused: dict[str, str] = {}
    ids: dict[str, str] = {}
    for label, runs in found.items():
        reasons = [str(run["cannot"]) for run in runs if "cannot" in run]
        if reasons or not runs:
            refused[label] = reasons[0] if reasons else "not run"
        elif len({run["ids"] for run in runs}) > 1:
            refused[label] = "ids differ from run to run"
        else:
            ids[label] = runs[0]["ids"]
    right = next((ids[oracle] for oracle in ORACLES if oracle in ids), None)
    if right is None and ids:
        # Of equally many, the first: ours is the first column.
        right = Counter(ids.values()).most_common(1)[0][0]
    return refused | {label: OTHER_IDS for label, one in ids.items() if one != right}


def row(cell: Cell, metric: Metric, found: dict[str, list[Found]], refused: dict[str, str]) -> Row:
    """The medians of one metric, and what they are compared with."""
    values: dict[str, float | str] = {}
    spreads: dict[str, list[float]] = {}
    for label, runs in found.items():
        if label in refused:
            values[label] = refused[label]
            continue
        spreads[label] = [float(run[metric.key]) for run in runs]
        values[label] = statistics.median(spreads[label])
    others = {
        label: value
        for label, value in values.items()
        if label in peers.PEERS and label != OURS and isinstance(value, float)
    }
    best = (max if metric.more else min)(others, key=lambda label: others[label], default=None)
    name = f"{cell.name}: {metric.name}" if metric.name else cell.name
    one = Row(name, cell.sizes, metric, values, spreads, best, [])
    one.verdicts.extend(verdict(one, bar) for bar in metric.bars)
    return one


def verdict(row: Row, bar: Bar) -> Verdict:
    """Compare with a bar."""
    ours = row.values.get(OURS)
    if bar.against == LIMIT:
        if not isinstance(ours, float):
            return Verdict(bar, None, None)
        return Verdict(bar, ours, ours <= bar.factor)
    against = row.fastest if bar.against == FASTEST else bar.against
    ratio = row.ratio(against) if against else None
    return Verdict(bar, ratio, None if ratio is None else ratio >= bar.factor)


def ours_differ(rows: list[Row]) -> bool:
    """Whether any ids of ours are not the right ones."""
    return any(row.values.get(OURS) == OTHER_IDS for row in rows)
