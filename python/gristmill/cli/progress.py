"""The progress of a training on standard error: one line that changes on a terminal, else a line
now and then.

On a terminal the line is never wider than it, whatever its width becomes: what matters least is
left out first, so that each line overwrites the one before. Tested by what a terminal shows.
"""

import os
import sys
import time
from typing import Any

from gristmill.memory import resident

# Seconds between two lines where lines stay.
BETWEEN_LINES = 5.0
# Before so many seconds of a stage nobody can say how fast it is.
BEFORE_SPEED = 0.2
BAR = 20


class Display:
    """Shows what a `Trainer` reports; pass it as `progress`.

    `total` is the number of bytes of all texts, where it is known beforehand.
    """

    def __init__(self, total: int | None = None) -> None:
        self.total = total
        self.stage = ""
        self.stage_began = 0.0
        self.merges_before = 0
        self.last_line = 0.0
        self.shown = False
        self.live = sys.stderr is not None and sys.stderr.isatty()

    def __call__(self, progress: dict[str, Any]) -> None:
        """Show how far the training is."""
        now = time.monotonic()
        if progress["stage"] != self.stage:
            self.stage, self.stage_began = progress["stage"], now
            self.merges_before = progress["merges"]
            self.last_line = 0.0
        if sys.stderr is None:
            return
        parts = self.parts(progress, now - self.stage_began)
        if self.live:
            # To the beginning of the line, and clear what is left of a longer one.
            sys.stderr.write("\r" + fitting(parts, width() - 1) + "\x1b[K")
            self.shown = True
        elif now - self.last_line >= BETWEEN_LINES:
            sys.stderr.write(fitting(parts, None) + "\n")
            self.last_line = now
        sys.stderr.flush()

    def parts(self, progress: dict[str, Any], seconds: float) -> list[tuple[int, str]]:
        """What there is to say, each with how much it matters; 0 matters most."""
        memory = (3, f"{resident() / 1e6:,.0f} MB memory")
        read, words = progress["bytes"], progress["words"]
        if progress["stage"] == "counting":
            of = f" of {self.total / 1e6:,.1f}" if self.total else ""
            share = min(read / self.total, 1.0) if self.total else None
            return [
                (0, "counting"),
                *bar(share),
                (1, f"{read / 1e6:,.1f}{of} MB read"),
                (5, f"{progress['texts']:,} texts"),
                # As many as the thread has seen that has seen most.
                (2, f"{words:,}+ words"),
                *speed("MB", read / 1e6, self.total and self.total / 1e6, seconds),
                memory,
            ]
        if progress["stage"] == "pairs":
            return [
                (0, "pairs"),
                (1, f"{read / 1e6:,.1f} MB read"),
                (2, f"{words:,} words"),
                memory,
            ]
        merges, wanted = progress["merges"], progress["wanted"]
        made = merges - self.merges_before
        return [
            (0, "merging"),
            *bar(merges / wanted if wanted else None),
            (1, f"{merges:,} of {wanted:,} merges"),
            (5, f"{words:,} words"),
            (5, f"{progress['pairs']:,} pairs"),
            *speed("pairs", made, wanted - self.merges_before, seconds),
            memory,
        ]

    def close(self) -> None:
        """Leave the line."""
        if self.shown and sys.stderr is not None:
            sys.stderr.write("\n")
            sys.stderr.flush()


def bar(share: float | None) -> list[tuple[int, str]]:
    """How much is done, as a picture."""
    if share is None:
        return []
    full = round(share * BAR)
    return [(4, "█" * full + "░" * (BAR - full))]


def speed(unit: str, done: float, total: float | None, seconds: float) -> list[tuple[int, str]]:
    """How fast it goes, and for how long it will."""
    if seconds < BEFORE_SPEED or done <= 0:
        return []
    parts = [(2, f"{done / seconds:,.0f} {unit}/s")]
    if total is not None:
        left = max(total - done, 0) * seconds / done
        parts.append((1, f"{time_of(left)} left"))
    return parts


def time_of(seconds: float) -> str:
    """Seconds as people say them."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    minutes, rest = divmod(whole, 60)
    if minutes < 60:
        return f"{minutes}:{rest:02} min"
    return f"{minutes // 60}:{minutes % 60:02} h"


def fitting(parts: list[tuple[int, str]], columns: int | None) -> str:
    """The parts that fit; those that matter least go first."""

    def line(kept: list[tuple[int, str]]) -> str:
        first, *others = [part for _, part in kept]
        return (f"{first:9} " + ", ".join(others)).rstrip()

    kept = list(parts)
    while columns is not None and len(line(kept)) > columns and len(kept) > 1:
        least = max(range(len(kept)), key=lambda at: (kept[at][0], at))
        del kept[least]
    return line(kept)[:columns]


def width() -> int:
    """The columns of the terminal."""
    try:
        return os.get_terminal_size(sys.stderr.fileno()).columns or 80
    except (OSError, ValueError):
        return 80
