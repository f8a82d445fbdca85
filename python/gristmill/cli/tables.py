"""Results for people: the tables of `count` and `bench` and the facts of `info`.

On a terminal the table is drawn by rich; anywhere else it is aligned text, without rich.
"""

import sys
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from gristmill.cli.messages import input_name, printable, to_json


class Count(NamedTuple):
    """What `count` tells of a file."""

    file: str
    bytes: int
    characters: int
    tokens: int

    @property
    def bytes_per_token(self) -> float | None:
        """How much text a token stands for."""
        return round(self.bytes / self.tokens, 2) if self.tokens else None

    def as_json(self) -> dict[str, str | int | float | None]:
        """The count by names."""
        return {**self._asdict(), "bytes_per_token": self.bytes_per_token}


def print_counts(counts: list[Count]) -> None:
    """The table of counts; a last line of several is their total."""
    rows = [
        (
            str(one.bytes),
            str(one.characters),
            str(one.tokens),
            "-" if one.bytes_per_token is None else f"{one.bytes_per_token:.2f}",
            printable(input_name(one.file)),
        )
        for one in counts
    ]
    columns = ("bytes", "characters", "tokens", "bytes/token", "file")
    print_rows(columns, rows, total=len(rows) > 1)


def print_rows(
    columns: Sequence[str], rows: Sequence[tuple[str, ...]], total: bool = False
) -> None:
    """Numbers, then what they are of: aligned text, or on a terminal a table with lines."""
    if sys.stdout.isatty():
        print_table(columns, rows, total)
        return
    numbers = len(columns) - 1
    widths = [max(len(row[i]) for row in [columns, *rows]) for i in range(numbers)]
    for row in [columns, *rows]:
        cells = (f"{cell:>{width}}" for cell, width in zip(row, widths, strict=False))
        print("  ".join([*cells, row[numbers]]))


def print_table(columns: Sequence[str], rows: Sequence[tuple[str, ...]], total: bool) -> None:
    """A table for the eye."""
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD)
    for column in columns[:-1]:
        table.add_column(column, justify="right")
    table.add_column(columns[-1], overflow="fold")
    for index, row in enumerate(rows):
        last = total and index == len(rows) - 1
        if last:
            table.add_section()
        table.add_row(*map(Text, row), style="bold" if last else None)
    Console().print(table)


def readable(facts: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Facts as lines for the eye: long lists are cut, and say so."""
    for name, value in facts.items():
        if name == "special_tokens" and isinstance(value, dict):
            by_id = sorted(value.items(), key=lambda token: token[1])
            yield name, few([f"{token} = {id}" for token, id in by_id])
        elif value is None or value == "" or value == [] or value == {}:
            yield name, "none"
        elif isinstance(value, bool):
            yield name, "yes" if value else "no"
        elif isinstance(value, list) and not any(isinstance(item, (dict, list)) for item in value):
            yield name, few([str(item) for item in value])
        elif isinstance(value, (dict, list)):
            yield name, to_json(value)
        else:
            yield name, printable(str(value))


def few(items: list[str], most: int = 6) -> str:
    """The first items, and how many there are."""
    if not items:
        return "none"
    shown = ", ".join(map(printable, items[:most]))
    return shown if len(items) <= most else f"{shown}, ... ({len(items)} in all)"
