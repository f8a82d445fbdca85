"""Measure Gristmill beside other packages: ids compared first, every run in a fresh process.

    bench/compare.py [--data FOLDER] [--only cold,steady] [--pairs gpt2:en,o200k_base:code]
                     [--peers gigatoken,tiktoken] [--runs N] [--scale 0.1] [--clock cpu]

It installs nothing: a package that is not there is left out, and said to be. A process is pinned to
one core unless its table is about several. The text of a run is a new string, whose conversion
counts; only `warm` encodes one twice. A number is the median of the runs; where the ids are not the
right ones there is no number. FOLDER holds `tokenizers/NAME/tokenizer.json` and `corpora/`, plain
or packed (`.zst`); GRISTMILL_DATA names it too. Results go to bench/results as JSON and SVG.
The exit code is 1 if ids of Gristmill are not the right ones, whatever its speed.
"""

import argparse
import difflib
import os
import pathlib
import shlex
import sys
import tempfile
import time
from collections.abc import Callable

import chart
import peers
import report
import runs
import samples
import tables


def main() -> int:
    """Measure, print, write."""
    parser = arguments()
    options = parser.parse_args()
    found, missing = peers.versions()
    only = chosen(parser, "--only", options.only, list(tables.TABLES))
    packages = chosen(parser, "--peers", options.peers, list(peers.PEERS))
    for name in packages:
        if options.peers and name in missing:
            parser.error(f"--peers: {name} cannot be measured: {missing[name]}")
    packages = [tables.OURS, *(name for name in packages if name in found and name != tables.OURS)]
    if tables.OURS not in found:
        parser.error(f"gristmill cannot be imported: {missing[tables.OURS]}; make build")
    facts = {
        "date": report.today(),
        "commit": report.commit(),
        "machine": report.machine(),
        "command": shlex.join(["bench/compare.py", *sys.argv[1:]]),
        "runs": options.runs,
        "clock": options.clock,
        "scale": options.scale,
        "versions": {name: found[name] for name in packages},
    }
    announce(facts, missing)
    how = runs.Options(options.runs, options.clock, options.timeout, packages)
    with tempfile.TemporaryDirectory(prefix="gristmill-bench-") as unpacked:
        if options.data and not os.path.isdir(options.data):
            parser.error(f"--data: there is no folder {options.data!r}")
        data = samples.Data(options.data or os.environ.get("GRISTMILL_DATA") or None, unpacked)
        plan = tables.Plan(data, pairs(parser, options.pairs), options.scale)
        try:
            results, rows = measured(only, plan, how)
        except samples.NoData as error:
            parser.error(str(error))
    print(report.summary(rows))
    if not options.no_files:
        out = options.out or pathlib.Path(__file__).with_name("results") / (
            report.name_of(facts) + ".json"
        )
        report.write(out, facts, results)
        picture = chart.chart({**facts, "tables": results}, only)
        out.with_suffix(".svg").write_text(picture, encoding="utf-8")
        print(f"written: {out} and {out.with_suffix('.svg').name}")
    if runs.ours_differ(rows):
        print("error: ids of gristmill are not the right ones; see above", file=sys.stderr)
        return 1
    return 0


def arguments() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        description=__doc__.splitlines()[0],
        epilog=f"tables: {', '.join(tables.TABLES)}",
        allow_abbrev=False,
    )
    parser.add_argument(
        "--data", metavar="FOLDER", help="tokenizers/ and corpora/, plain or packed"
    )
    parser.add_argument("--only", metavar="TABLES", help="the tables to make, by commas")
    parser.add_argument("--pairs", metavar="T:TEXT", help="tokenizers and texts, by commas")
    parser.add_argument("--peers", metavar="NAMES", help="the packages to measure beside ours")
    parser.add_argument("--runs", type=within(int, 1, 1000), default=5, help="runs a number (5)")
    parser.add_argument(
        "--scale", type=within(float, 0, 1), default=1.0, help="shorten all texts, e.g. 0.1"
    )
    parser.add_argument(
        "--clock", choices=("wall", "cpu"), default="wall", help="cpu on a machine with other work"
    )
    parser.add_argument(
        "--timeout", type=within(float, 0, 86400), default=300.0, help="seconds a run (300)"
    )
    parser.add_argument("--out", type=pathlib.Path, metavar="FILE.json", help="where to write")
    parser.add_argument("--no-files", action="store_true", help="print only")
    return parser


def measured(
    only: list[str], plan: tables.Plan, how: runs.Options
) -> tuple[dict[str, dict[str, object]], list[runs.Row]]:
    """Make the tables, and print each when it is done."""
    results: dict[str, dict[str, object]] = {}
    everything: list[runs.Row] = []
    # What is missing is found out before hours of measuring.
    planned = {name: tables.TABLES[name](plan) for name in only}
    for name, cells in planned.items():
        began = time.monotonic()
        rows = [row for cell in cells for row in runs.rows_of(cell, how, tell)]
        tell("")
        about = (tables.TABLES[name].__doc__ or "").splitlines()[0].rstrip(".")
        print(report.table(name, about, rows))
        took = time.monotonic() - began
        print(f"  ({took:.0f} s)", flush=True)
        results[name] = {
            "about": about,
            "seconds": round(took),
            "rows": [report.as_json(row) for row in rows],
        }
        everything += rows
    return results, everything


def announce(facts: dict[str, object], missing: dict[str, str]) -> None:
    """The machine and the packages."""
    machine = facts["machine"]
    versions = facts["versions"]
    assert isinstance(machine, dict)
    assert isinstance(versions, dict)
    print(", ".join(f"{name} {value}" for name, value in machine.items() if value))
    print(f"{facts['date']}, commit {facts['commit']}, {facts['command']}")
    print("packages:", ", ".join(f"{name} {version}" for name, version in versions.items()))
    for name, reason in missing.items():
        print(f"left out: {name} ({reason})")
    if facts["scale"] != 1 or facts["runs"] != 5:
        print(f"note: {facts['runs']} runs at {facts['scale']:g} of the sizes")


def tell(line: str) -> None:
    """What is being done, on a terminal."""
    if sys.stderr.isatty():
        print(f"\r\x1b[K{line}", end="", file=sys.stderr, flush=True)


def chosen(
    parser: argparse.ArgumentParser, option: str, given: str | None, known: list[str]
) -> list[str]:
    """Names by commas; unknown ones are an error with the nearest."""
    names = given.split(",") if given else known
    for name in names:
        if name not in known:
            close = difflib.get_close_matches(name, known, n=1)
            hint = f"; did you mean {close[0]}?" if close else f"; there are {', '.join(known)}"
            parser.error(f"{option}: no {name!r}{hint}")
    return names


def pairs(parser: argparse.ArgumentParser, given: str | None) -> list[str]:
    """Tokenizers and texts."""
    if given is None:
        return tables.PAIRS
    found = given.split(",")
    for pair in found:
        tokenizer, colon, text = pair.partition(":")
        if not tokenizer or not colon or text not in samples.TEXTS:
            known = ", ".join(samples.TEXTS)
            parser.error(f"--pairs: {pair!r} is not TOKENIZER:TEXT with a text of {known}")
    return found


def within(kind: type[int] | type[float], low: float, high: float) -> Callable[[str], float]:
    """A reader of numbers from `low` to `high`; a fraction has to be over `low`."""

    def read(text: str) -> float:
        try:
            value = kind(text)
        except ValueError:
            raise argparse.ArgumentTypeError(f"{text!r} is not a number of that kind") from None
        if not (low <= value if kind is int else low < value) or not value <= high:
            bound = "from" if kind is int else "over"
            raise argparse.ArgumentTypeError(f"{text} is not {bound} {low:g} to {high:g}")
        return value

    return read


if __name__ == "__main__":
    sys.exit(main())
