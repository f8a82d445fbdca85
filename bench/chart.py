"""A bar chart of results as SVG, written by hand: one group of bars for each row of a table.

    bench/chart.py RESULTS.json [-o CHART.svg] [--tables cold,steady]

Ours is drawn in a colour, the others in greys, and every bar carries its number, so that the chart
can be read without a legend, in print and in the dark.
"""

import argparse
import json
import pathlib
from html import escape
from typing import Any

OURS = "gristmill"
COLOURS = {OURS: "#c2571a", "gigatoken": "#5b6b7b"}
OTHER = "#a9b5c0"
WIDTH, LEFT, RIGHT, BAR, GAP = 900, 250, 70, 15, 16
TITLES = {
    "cold": "First call in a fresh process",
    "steady": "Unseen text, after other text of the same kind",
    "long": "Many megabytes",
    "warm": "The same text again",
    "small": "Small calls",
    "batch": "Batches",
    "decode": "Ids to text",
    "count": "Counting",
    "offsets": "Encoding with offsets",
    "load": "Loading",
    "memory": "Memory beside the output",
    "hostile": "Hostile texts",
    "old": "Many calls on one short text",
}


class Drawing:
    """SVG elements, from the top down."""

    def __init__(self) -> None:
        self.parts: list[str] = []
        self.y = 0.0

    def text(self, x: float, y: float, text: str, style: str, anchor: str = "start") -> None:
        self.parts.append(
            f'<text x="{x:.1f}" y="{y:.1f}" class="{style}" text-anchor="{anchor}">'
            f"{escape(text)}</text>"
        )

    def bar(self, y: float, width: float, colour: str) -> None:
        self.parts.append(
            f'<rect x="{LEFT}" y="{y:.1f}" width="{max(width, 1):.1f}" height="{BAR - 3}" '
            f'rx="2" fill="{colour}"/>'
        )


def chart(results: dict[str, Any], wanted: list[str]) -> str:
    """The whole chart."""
    drawing = Drawing()
    drawing.y = 34
    drawing.text(24, drawing.y, "Gristmill beside other encoders", "title")
    drawing.y += 20
    drawing.text(24, drawing.y, about(results), "note")
    for name in wanted:
        rows = results["tables"][name]["rows"]
        # The other metrics of a table are in its numbers; a chart of all is a wall.
        first = [row for row in rows if row["metric"] == rows[0]["metric"]]
        if first:
            better = "longer" if first[0]["more is better"] else "shorter"
            note = f"{first[0]['unit']}; {better} is better"
            section(drawing, TITLES.get(name, name), note, first)
    height = drawing.y + 24
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height:.0f}" '
        f'width="{WIDTH}" height="{height:.0f}" role="img" '
        f'aria-label="Speed of Gristmill beside other encoders">\n{STYLE}\n'
        f'<rect width="{WIDTH}" height="{height:.0f}" fill="#ffffff"/>\n'
        + "\n".join(drawing.parts)
        + "\n</svg>\n"
    )


STYLE = """<style>
text { font-family: system-ui, -apple-system, "Segoe UI", "DejaVu Sans", sans-serif; fill: #1f2933 }
.title { font-size: 20px; font-weight: 600 } .section { font-size: 15px; font-weight: 600 }
.note { font-size: 11px; fill: #616e7c } .label { font-size: 12px; font-weight: 600 }
.peer { font-size: 11px; fill: #3e4c59 } .value { font-size: 11px }
.ours { font-size: 11px; font-weight: 700; fill: #a3440f }
</style>"""


def about(results: dict[str, Any]) -> str:
    """Machine, date and commit on one line."""
    machine = results["machine"]
    speed = f", {machine['MHz']} MHz" if machine.get("MHz") else ""
    return (
        f"{machine['cpu']}, {machine['cores']} cores{speed} · {results['date']} · "
        f"commit {results['commit']} · median of {results['runs']} · {results['clock']} clock"
    )


def section(drawing: Drawing, title: str, unit: str, rows: list[dict[str, Any]]) -> None:
    """One table of one unit."""
    drawing.y += 38
    drawing.text(24, drawing.y, title, "section")
    drawing.text(WIDTH - 24, drawing.y, unit, "note", "end")
    drawing.y += 8
    drawing.parts.append(
        f'<line x1="24" x2="{WIDTH - 24}" y1="{drawing.y}" y2="{drawing.y}" stroke="#d9dee3"/>'
    )
    # One scale for a table, unless its rows are too far apart to be seen on one.
    largest = [max([0.001, *numbers(row)]) for row in rows]
    shared = max(largest) < 20 * min(largest)
    for row, most in zip(rows, largest, strict=True):
        group(drawing, row, max(largest) if shared else most)


def numbers(row: dict[str, Any]) -> list[float]:
    """The values that are numbers."""
    return [value for value in row["values"].values() if not isinstance(value, str)]


def group(drawing: Drawing, row: dict[str, Any], most: float) -> None:
    """The bars of one row; what has no number says why."""
    drawing.y += GAP
    name, _, rest = row["name"].partition(", ")
    drawing.text(24, drawing.y + BAR - 5, name, "label")
    drawing.text(
        24, drawing.y + 2 * BAR - 5, f"{rest}, {row['sizes']}" if rest else row["sizes"], "note"
    )
    top = drawing.y
    for label, value in row["values"].items():
        base = drawing.y + BAR - 5
        drawing.text(LEFT - 8, base, label, "ours" if label == OURS else "peer", "end")
        if isinstance(value, str):
            drawing.text(LEFT + 4, base, value.split(":")[0], "note")
        else:
            length = max(value, 0) / most * (WIDTH - LEFT - RIGHT)
            drawing.bar(drawing.y + 1, length, COLOURS.get(label, OTHER))
            shown = f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"
            drawing.text(LEFT + length + 6, base, shown, "ours" if label == OURS else "value")
        drawing.y += BAR
    drawing.y = max(drawing.y, top + 2 * BAR)


def main() -> None:
    parser = argparse.ArgumentParser(description="draw a chart of results")
    parser.add_argument("results", type=pathlib.Path)
    parser.add_argument("-o", "--out", type=pathlib.Path)
    parser.add_argument("--tables", help="by commas; all by default")
    options = parser.parse_args()
    results = json.loads(options.results.read_text())
    wanted = options.tables.split(",") if options.tables else list(results["tables"])
    if missing := [name for name in wanted if name not in results["tables"]]:
        parser.error(f"no table {missing[0]!r} in it; there are {', '.join(results['tables'])}")
    out = options.out or options.results.with_suffix(".svg")
    out.write_text(chart(results, wanted), encoding="utf-8")
    print(out)


if __name__ == "__main__":
    main()
