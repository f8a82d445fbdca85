"""Results to people and files: an aligned table, JSON, and the facts of the machine beside them."""

import datetime
import json
import os
import pathlib
import platform
import re
import subprocess
from typing import Any

from runs import Row, Verdict
from tables import LIMIT

WHOLE = pathlib.Path(__file__).resolve().parent.parent


def machine() -> dict[str, Any]:
    """What the numbers were measured on."""
    cpu, frequency = platform.processor() or platform.machine(), None
    try:
        info = pathlib.Path("/proc/cpuinfo").read_text()
    except OSError:
        info = ""
    if name := re.search(r"^model name\s*:\s*(.+)$", info, re.M):
        cpu = name[1].strip()
    family = [re.search(rf"^{key}\s*:\s*(\d+)$", info, re.M) for key in ("cpu family", "model")]
    if all(family):
        cpu += " (family {}, model {})".format(*(one[1] for one in family if one))
    if speeds := re.findall(r"^cpu MHz\s*:\s*([\d.]+)$", info, re.M):
        frequency = round(max(map(float, speeds)))
    return {
        "cpu": cpu,
        "cores": os.cpu_count(),
        "MHz": frequency,
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
    }


def commit() -> str:
    """The commit that is checked out, and whether anything was changed since."""

    def git(*arguments: str) -> str:
        done = subprocess.run(
            ["git", *arguments], cwd=WHOLE, capture_output=True, text=True, check=False
        )
        return done.stdout.strip()

    try:
        changed = " with changes" if git("status", "--porcelain", "-uno") else ""
        return (git("rev-parse", "--short=12", "HEAD") or "unknown") + changed
    except OSError:
        return "unknown"


def today() -> str:
    return datetime.datetime.now(datetime.UTC).date().isoformat()


# --- the table


def number(value: float | str | None) -> str:
    """A number with three digits that matter, or why there is none."""
    if value is None:
        return "-"
    if isinstance(value, str):
        return value.split(":")[0]
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def ratio(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}x"


def judged(verdict: Verdict) -> str:
    """A bar and whether it is met, in words."""
    bar = verdict.bar
    limit = bar.against == LIMIT
    what = f"at most {bar.factor:g}" if limit else f"{bar.factor:g}x {bar.against}"
    if verdict.met is None:
        return f"{what}: not measured"
    short = "met" if verdict.met else "MISSED"
    return f"{what}: {short}" if limit else f"{what}: {short} ({verdict.ratio:.2f}x)"


def table(title: str, about: str, rows: list[Row]) -> str:
    """Rows with the same columns, as aligned text; each unit has a table of its own."""
    parts = [f"\n== {title}: {about}"]
    units: dict[tuple[str, ...], list[Row]] = {}
    for row in rows:
        units.setdefault((row.metric.unit, *row.values), []).append(row)
    for (unit, *labels), some in units.items():
        head = ["", "size", *labels, "fastest", "ours/fastest", "ours/gigatoken", "bars"]
        lines = [head]
        for row in some:
            # A number that only has to keep a limit is no race.
            bars = row.metric.bars
            race = not bars or any(bar.against != LIMIT for bar in bars)
            lines.append(
                [
                    row.name,
                    row.sizes,
                    *(number(row.values[label]) for label in labels),
                    (race and row.fastest) or "-",
                    ratio(row.ratio(row.fastest) if race and row.fastest else None),
                    ratio(row.ratio("gigatoken") if race else None),
                    ", ".join(map(judged, row.verdicts)) or "-",
                ]
            )
        better = "more is better" if some[0].metric.more else "less is better"
        parts.append(f"\n{unit}, {better}; a ratio over 1 says that ours is the better")
        parts.append(aligned(lines))
        parts += notes(some)
    return "\n".join(parts)


def notes(rows: list[Row]) -> list[str]:
    """Why a cell has no number, in full, once."""
    why: dict[str, list[str]] = {}
    for row in rows:
        for label, value in row.values.items():
            if isinstance(value, str):
                why.setdefault(f"{label}: {value}", []).append(row.name)
    return [
        f"  no number for {reason} ({', '.join(dict.fromkeys(names))})"
        for reason, names in why.items()
    ]


def aligned(lines: list[list[str]]) -> str:
    """Numbers to the right, words to the left; a column without anything in it is left out."""
    keep = [
        at
        for at in range(len(lines[0]))
        if at < 2 or any(line[at] not in ("-", "") for line in lines[1:])
    ]
    widths = {at: max(len(line[at]) for line in lines) for at in keep}
    out = []
    for line in lines:
        cells = [
            line[at].ljust(widths[at]) if at in (0, len(line) - 1) else line[at].rjust(widths[at])
            for at in keep
        ]
        out.append("  ".join(cells).rstrip())
    return "\n".join(out)


# --- files


def as_json(row: Row) -> dict[str, Any]:
    """A row with all its runs."""
    return {
        "name": row.name,
        "sizes": row.sizes,
        "metric": row.metric.key,
        "unit": row.metric.unit,
        "more is better": row.metric.more,
        "values": row.values,
        "runs": row.spreads,
        "fastest peer": row.fastest,
        "ratio to the fastest peer": row.ratio(row.fastest) if row.fastest else None,
        "ratio to gigatoken": row.ratio("gigatoken"),
        "bars": [
            {
                "against": verdict.bar.against,
                "factor": verdict.bar.factor,
                "ratio": verdict.ratio,
                "met": verdict.met,
            }
            for verdict in row.verdicts
        ],
    }


def write(out: pathlib.Path, facts: dict[str, Any], tables: dict[str, dict[str, Any]]) -> None:
    """The JSON file; written aside and renamed."""
    out.parent.mkdir(parents=True, exist_ok=True)
    part = out.with_name(out.name + ".part")
    part.write_text(json.dumps({**facts, "tables": tables}, indent=1) + "\n")
    part.replace(out)


def summary(rows: list[Row]) -> str:
    """How many bars are met."""
    verdicts = [verdict for row in rows for verdict in row.verdicts]
    met = sum(verdict.met is True for verdict in verdicts)
    missed = sum(verdict.met is False for verdict in verdicts)
    unknown = len(verdicts) - met - missed
    return f"\n{met} bars met, {missed} missed, {unknown} not measured"


def name_of(facts: dict[str, Any]) -> str:
    """What result files of this machine and day are called."""
    cpu = re.sub(r"\(.*|Processor|CPU|@.*", "", facts["machine"]["cpu"])
    words = re.findall(r"[a-z0-9]+", cpu.lower())
    return f"{facts['date']}-{'-'.join(words) or 'machine'}-{facts['machine']['cores']}"
