"""Write README's section on speed from a results file, between its two markers.

    bench/readme_table.py RESULTS.json [--readme README.md] [--check]

The rows are those of the results, cold and steady first, losses like wins; nothing is rounded in
our favour and nothing is left out but the packages that gave no number anywhere. `--check` writes
nothing and fails if the README says something else.
"""

import argparse
import json
import pathlib
import sys
from typing import Any

BEGIN = "<!-- speed: written by bench/readme_table.py -->"
END = "<!-- speed: end -->"
README = pathlib.Path(__file__).resolve().parent.parent / "README.md"
OURS = "gristmill"
# Tables of README in their order, and the metric of each that is shown.
SHOWN = {
    "cold": ("rate", "Cold: the first call in a fresh process"),
    "steady": ("rate", "Steady: unseen text after other text of the same kind"),
    "long": ("rate", "Long texts"),
    "warm": ("rate", "Warm: the same text again"),
    "small": ("time", "Small calls"),
    "batch": ("cold", "Batches on all cores"),
    "decode": ("rate", "Decoding"),
    "load": ("time", "Loading"),
}


class Wrong(Exception):
    """The results or the README are not what they have to be."""


def section(results: dict[str, Any]) -> str:
    """All between the markers."""
    names = [name for name in SHOWN if results["tables"].get(name, {}).get("rows")]
    for needed in ("cold", "steady"):
        if needed not in names:
            raise Wrong(f"the results have no table {needed!r}, which comes first in the README")
    parts = ["## Speed", source(results)]
    for name in names:
        metric, title = SHOWN[name]
        rows = [row for row in results["tables"][name]["rows"] if row["metric"] == metric]
        # What compares our own calls with each other is not for this table.
        rows = [row for row in rows if set(row["values"]) - {OURS} <= set(results["versions"])]
        if rows:
            parts.append(table(title, rows))
    losses = lost(results, names)
    parts.append(
        "Slower than the fastest peer: " + "; ".join(losses) + "."
        if losses
        else "Nowhere in these tables is another package with the right ids faster."
    )
    return "\n\n".join(parts)


def source(results: dict[str, Any]) -> str:
    """Where the numbers come from."""
    machine = results["machine"]
    packages = ", ".join(f"{name} {version}" for name, version in results["versions"].items())
    shortened = "" if results["scale"] == 1 else f" Texts were {results['scale']:g} of their size."
    return (
        f"{machine['cpu']}, {machine['cores']} cores, {machine['MHz'] or '?'} MHz, "
        f"Python {machine['python']}, "
        f"{results['date']}, commit {results['commit']}: `{results['command']}`. Medians of "
        f"{results['runs']} fresh processes by the {results['clock']} clock, ids compared first; "
        f"a package whose ids differ has no number.{shortened} {packages}."
    )


def table(title: str, rows: list[dict[str, Any]]) -> str:
    """One table; the best of each row is bold."""
    labels = [
        label
        for label in rows[0]["values"]
        if any(not isinstance(row["values"].get(label), str) for row in rows)
    ]
    best_is = "more" if rows[0]["more is better"] else "less"
    head = [f"{rows[0]['unit']}, {best_is} is better", "size", *labels, "to the fastest peer"]
    lines = [head, ["---", "---", *["---:"] * (len(labels) + 1)]]
    for row in rows:
        ratio = row["ratio to the fastest peer"]
        cells = [number(row, label) for label in labels]
        lines.append([row["name"], row["sizes"], *cells, "-" if ratio is None else times(ratio)])
    return f"**{title}**\n\n" + "\n".join("| " + " | ".join(line) + " |" for line in lines)


def number(row: dict[str, Any], label: str) -> str:
    """A value; the best of its row is bold."""
    value = row["values"].get(label)
    if value is None or isinstance(value, str):
        return "other ids" if value == "other ids" else "-"
    shown = f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"
    others = [one for one in row["values"].values() if not isinstance(one, str)]
    best = max(others) if row["more is better"] else min(others)
    return f"**{shown}**" if value == best else shown


def times(ratio: float) -> str:
    """A ratio, rounded down: 0.996 is a loss and reads so."""
    return f"{int(ratio * 100) / 100:.2f}x"


def lost(results: dict[str, Any], names: list[str]) -> list[str]:
    """The rows in which another package is the best."""
    found = []
    for name in names:
        for row in results["tables"][name]["rows"]:
            ratio = row["ratio to the fastest peer"]
            if row["metric"] == SHOWN[name][0] and ratio is not None and ratio < 1:
                found.append(f"{name} {row['name']} {row['sizes']} ({times(ratio)})")
    return found


def written(readme: str, content: str) -> str:
    """The README with the content between its markers."""
    once = readme.count(BEGIN) == 1 and readme.count(END) == 1
    if not once or readme.index(BEGIN) > readme.index(END):
        raise Wrong(f"README needs the lines {BEGIN} and {END}, once each, in this order")
    before, rest = readme.split(BEGIN)
    after = rest.split(END)[1]
    return f"{before}{BEGIN}\n\n{content}\n\n{END}{after}"


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("results", type=pathlib.Path)
    parser.add_argument("--readme", type=pathlib.Path, default=README)
    parser.add_argument("--check", action="store_true", help="write nothing; fail if it differs")
    options = parser.parse_args()
    try:
        readme = options.readme.read_text(encoding="utf-8")
        now = written(readme, section(json.loads(options.results.read_text(encoding="utf-8"))))
    except (Wrong, OSError, ValueError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    if options.check:
        if now != readme:
            print("error: the README does not say what the results say", file=sys.stderr)
        return int(now != readme)
    options.readme.write_text(now, encoding="utf-8")
    print(f"written: {options.readme}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
