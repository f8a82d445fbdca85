"""What came of a run: numbers that add up, for people, for programs and as a page.

Invariant: `records == documents + empty + bad`, for every shard and for the whole; a run whose
numbers do not add up fails. Tested in `tests/test_corpus_run.py`.
"""

import html
import json
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from itertools import pairwise
from typing import Any

from gristmill.corpus.sizes import counted, lasting, spelled


@dataclass(frozen=True)
class Row:
    """One job, for the table of those that stand out."""

    job: int
    inputs: list[str]
    documents: int
    tokens: int
    text_bytes: int
    bad: int

    @property
    def bytes_per_token(self) -> float:
        """How much text a token stands for."""
        return self.text_bytes / self.tokens if self.tokens else math.nan


@dataclass(frozen=True)
class Report:
    """What came of a run. `complete` says whether every shard is there."""

    folder: str
    complete: bool
    tokenizer: str
    outputs: list[str]
    files: int
    jobs: int
    jobs_done: int
    shards: int
    records: int
    documents: int
    empty: int
    bad: dict[str, int]
    partial: list[str]
    left_out: list[str]
    text_bytes: int
    read_bytes: int
    written: int
    tokens: int
    largest: int | None
    lengths: list[int]
    # Of this run, and of all runs together that made the output.
    seconds: float
    all_seconds: float
    # Seconds, bytes of inputs, tokens and memory, over this and earlier runs.
    samples: list[tuple[float, int, int, int]] = field(default_factory=list)
    rows: list[Row] = field(default_factory=list)

    @property
    def bad_records(self) -> int:
        """Bad records of all kinds."""
        return sum(self.bad.values())

    @property
    def lost(self) -> int:
        """Records that are in none of the numbers; never another than 0."""
        return self.records - self.documents - self.empty - self.bad_records

    def as_json(self) -> dict[str, Any]:
        """All of it by names."""
        return asdict(self)

    def law(self) -> str:
        """What went in and what came out, which has to be equal."""
        sign = "=" if not self.lost else "≠"
        return (
            f"{self.records:,} records {sign} {self.documents:,} documents "
            f"+ {self.empty:,} empty + {self.bad_records:,} bad"
        )

    def __str__(self) -> str:
        return "\n".join(self.lines())

    def lines(self) -> list[str]:
        """What there is to say at the end."""
        speed = self.text_bytes / self.all_seconds / 1e6 if self.all_seconds else 0.0
        lines = [
            self.law(),
            f"{self.tokens:,} tokens from {spelled(self.text_bytes)} of text, "
            f"{self.shards:,} shards, {spelled(self.written)} written as "
            f"{', '.join(self.outputs)} to {self.folder}",
            f"{lasting(self.all_seconds)}, {speed:,.1f} MB/s, "
            f"{counted(self.tokens / self.all_seconds if self.all_seconds else 0)} tokens/s, "
            f"{self.documents / self.all_seconds if self.all_seconds else 0:,.0f} documents/s",
        ]
        lines += [
            f"bad: {count:,} {reason}"
            for reason, count in sorted(self.bad.items(), key=lambda item: (-item[1], item[0]))
        ]
        lines += [f"cut off or damaged: {path}" for path in self.partial]
        if self.left_out:
            names = ", ".join(self.left_out[:3]) + (" ..." if len(self.left_out) > 3 else "")
            lines.append(f"left out, not known as texts: {len(self.left_out):,} files, {names}")
        return lines

    def to_json(self) -> str:
        """One line of JSON."""
        return json.dumps(self.as_json())

    def to_html(self) -> str:
        """A page with numbers and pictures that needs nothing beside it."""
        return page(self)


# --- the page

BLUE, ORANGE, GRID = "#3b6ea5", "#c8722c", "#e3e3e3"
STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 64rem; color: #222;
       background: #fff; padding: 0 1rem }
h1 { font-size: 1.5rem; margin-bottom: .2rem } h2 { font-size: 1.05rem; margin: 2rem 0 .3rem }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums }
th, td { padding: .3rem .6rem; text-align: right; border-bottom: 1px solid #ddd }
th:last-child, td:last-child, table.facts td { text-align: left; overflow-wrap: anywhere }
p { color: #555; margin: .2rem 0 } p.law { font-size: 1.1rem; color: #222 }
.tiles { display: flex; flex-wrap: wrap; gap: .8rem; margin: 1.2rem 0 }
.tile { flex: 1 1 5.8rem; border: 1px solid #ddd; border-radius: 6px; padding: .6rem .8rem }
.tile b { display: block; font-size: 1.35rem; font-weight: 600 } .tile span { color: #555 }
.bad { color: #b03a48 }
svg { width: 100%; height: auto } text { font: 12px system-ui, sans-serif; fill: #444 }
"""


def page(report: Report) -> str:
    """The report as HTML."""
    title = "Corpus tokenized" if report.complete else "Corpus, not finished"
    parts = [
        "<!doctype html>\n<html lang='en'><head><meta charset='utf-8'>",
        "<meta name='viewport' content='width=device-width'>",
        f"<title>{title}: {html.escape(report.folder)}</title>",
        f"<style>{STYLE}</style></head>\n<body>",
        f"<h1>{title}</h1><p>{html.escape(report.folder)} &middot; "
        f"tokenizer {html.escape(report.tokenizer)} &middot; "
        f"{html.escape(', '.join(report.outputs))}</p>",
        tiles(report),
        f"<p class='law{' bad' if report.lost else ''}'>{html.escape(report.law())}</p>",
        reasons(report),
        curves(report),
        "<h2>Lengths of documents</h2><p>How many documents have how many tokens.</p>",
        histogram(report.lengths),
        outliers(report.rows),
        "</body></html>\n",
    ]
    return "\n".join(parts)


def tiles(report: Report) -> str:
    """The numbers that people look for first."""
    seconds = report.all_seconds or math.inf
    facts = [
        (counted(report.tokens), "tokens"),
        (counted(report.documents), "documents"),
        (spelled(report.text_bytes), "of text"),
        (spelled(report.written), f"in {report.shards:,} shards"),
        (lasting(report.all_seconds), "of work"),
        (
            f"{report.text_bytes / seconds / 1e6:,.1f} MB/s",
            f"{counted(report.tokens / seconds)} tokens/s",
        ),
        (f"{report.bad_records:,}", "bad records"),
    ]
    return (
        "<div class='tiles'>"
        + "".join(
            f"<div class='tile'><b>{html.escape(number)}</b><span>{html.escape(what)}</span></div>"
            for number, what in facts
        )
        + "</div>"
    )


def reasons(report: Report) -> str:
    """Why records were bad."""
    if not report.bad and not report.partial:
        return ""
    rows = "".join(
        f"<tr><td>{count:,}</td><td>{html.escape(reason)}</td></tr>"
        for reason, count in sorted(report.bad.items(), key=lambda item: -item[1])
    )
    rows += "".join(
        f"<tr><td>file</td><td>cut off or damaged: {html.escape(path)}</td></tr>"
        for path in report.partial
    )
    return f"<h2>Bad records</h2><table>{rows}</table>"


def curves(report: Report) -> str:
    """Throughput and memory over time."""
    points = report.samples
    if len(points) < 3:
        return ""
    speeds = []
    for (before, done, *_), (after, more, *_) in pairwise(points):
        if after > before:
            speeds.append((after, max(0, more - done) / (after - before) / 1e6))
    memory = [(second, taken / 1e6) for second, _, _, taken in points]
    return (
        "<h2>Throughput</h2><p>Megabytes of the inputs a second.</p>"
        + curve(smooth(speeds), BLUE, "MB/s")
        + "<h2>Memory</h2><p>Megabytes that the process took.</p>"
        + curve(memory, ORANGE, "MB")
    )


def smooth(points: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """Means of neighbours, where there are more points than a curve can show."""
    width = max(1, len(points) // 150)
    groups = [points[at : at + width] for at in range(0, len(points), width)]
    return [(group[-1][0], sum(y for _, y in group) / len(group)) for group in groups]


def curve(points: Sequence[tuple[float, float]], colour: str, unit: str) -> str:
    """A line over time with its axes, as SVG."""
    if not points:
        return ""
    width, height, left, bottom = 900, 200, 70, 24
    most_x = points[-1][0] or 1.0
    top = nice(max(y for _, y in points) or 1.0)

    def place(x: float, y: float) -> str:
        across = left + x / most_x * (width - left - 10)
        down = 10 + (1 - y / top) * (height - bottom - 10)
        return f"{across:.1f},{down:.1f}"

    parts = []
    for step in range(5):
        y = 10 + step / 4 * (height - bottom - 10)
        value = top * (4 - step) / 4
        parts.append(
            f"<line x1='{left}' x2='{width - 10}' y1='{y:.1f}' y2='{y:.1f}' stroke='{GRID}'/>"
            f"<text x='{left - 6}' y='{y + 4:.1f}' text-anchor='end'>{value:,.4g} {unit}</text>"
        )
    for step in range(5):
        x = left + step / 4 * (width - left - 10)
        anchor = "start" if step == 0 else "end" if step == 4 else "middle"
        parts.append(
            f"<text x='{x:.1f}' y='{height - 6}' text-anchor='{anchor}'>"
            f"{lasting(most_x * step / 4)}</text>"
        )
    line = " ".join(place(x, y) for x, y in points)
    area = f"{place(points[0][0], 0)} {line} {place(points[-1][0], 0)}"
    parts.append(f"<polygon points='{area}' fill='{colour}' opacity='.12'/>")
    parts.append(f"<polyline points='{line}' fill='none' stroke='{colour}' stroke-width='1.6'/>")
    return f"<svg viewBox='0 0 {width} {height}' role='img'>{''.join(parts)}</svg>"


def nice(most: float) -> float:
    """A round number that is not less."""
    power = 10.0 ** math.floor(math.log10(most))
    return next(step * power for step in (1, 2, 2.5, 4, 5, 8, 10) if step * power >= most)


def histogram(lengths: Sequence[int]) -> str:
    """Documents by length, as SVG bars."""
    if not any(lengths):
        return "<p>No documents.</p>"
    first = next(at for at, count in enumerate(lengths) if count)
    last = max(at for at, count in enumerate(lengths) if count)
    width, height, bottom = 900, 190, 24
    step = (width - 20) / (last - first + 1)
    most = max(lengths)
    parts = []
    for at in range(first, last + 1):
        count = lengths[at]
        high = count / most * (height - bottom - 26)
        x = 10 + (at - first) * step
        top = height - bottom - high
        parts.append(
            f"<rect x='{x + 1:.1f}' y='{top:.1f}' width='{max(1.0, step - 2):.1f}' "
            f"height='{high:.1f}' rx='2' fill='{BLUE}'><title>{count:,} documents of {1 << at:,} "
            f"to {(2 << at) - 1:,} tokens</title></rect>"
            f"<text x='{x + step / 2:.1f}' y='{height - 8}' text-anchor='middle'>"
            f"{counted(1 << at)}</text>"
        )
        if count:
            parts.append(
                f"<text x='{x + step / 2:.1f}' y='{top - 5:.1f}' text-anchor='middle'>"
                f"{counted(count)}</text>"
            )
    return f"<svg viewBox='0 0 {width} {height}' role='img'>{''.join(parts)}</svg>"


def outliers(rows: Sequence[Row], most: int = 12) -> str:
    """The jobs whose text is the least like that of the others, or that had bad records."""
    known = [row for row in rows if row.tokens]
    if not known:
        return ""
    values = sorted(row.bytes_per_token for row in known)
    middle = values[len(values) // 2]

    def strange(row: Row) -> float:
        share = row.bad / max(1, row.bad + row.documents)
        odd = abs(math.log(row.bytes_per_token / middle)) if row.text_bytes else 0.0
        return odd + share

    picked = sorted(known, key=strange, reverse=True)[:most]
    cells = "".join(
        f"<tr><td>{row.job:,}</td><td>{row.documents:,}</td><td>{row.tokens:,}</td>"
        f"<td>{row.bytes_per_token:.2f}</td><td>{row.bad:,}</td>"
        f"<td>{html.escape(names(row.inputs))}</td></tr>"
        for row in picked
    )
    return (
        f"<h2>What stands out</h2><p>The jobs whose bytes for a token are furthest from the middle "
        f"one, {middle:.2f}, or whose records are bad.</p><table><tr><th>job</th><th>documents</th>"
        "<th>tokens</th><th>bytes/token</th><th>bad</th><th>files</th></tr>"
        f"{cells}</table>"
    )


def names(inputs: Sequence[str]) -> str:
    """The files of a job, a few of them."""
    more = f" and {len(inputs) - 2:,} more" if len(inputs) > 2 else ""
    return ", ".join(inputs[:2]) + more
