"""The progress of a corpus on standard error: bars on a terminal, else a line now and then, or
JSON."""

import contextlib
import json
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict
from typing import Any

from gristmill.corpus.sizes import counted, lasting, spelled
from gristmill.corpus.tracker import Progress

# Seconds between two lines where lines stay.
BETWEEN_LINES = {"plain": 10.0, "json": 1.0}
BETWEEN_FRAMES = 0.2
MODES = ("auto", "plain", "json", "none")

Watch = Callable[[Progress], None]


@contextlib.contextmanager
def watching(mode: str) -> Iterator[Watch | None]:
    """Something to call with each progress."""
    if mode == "none" or sys.stderr is None:
        yield None
    elif mode == "auto" and sys.stderr.isatty():
        with live() as watch:
            yield watch
    else:
        lines = Lines("json" if mode == "json" else "plain")
        yield lines
        lines.last()


class Lines:
    """A line now and then."""

    def __init__(self, mode: str) -> None:
        self.mode = mode
        self.shown = time.monotonic()
        self.progress: Progress | None = None

    def __call__(self, progress: Progress) -> None:
        """Show it, if it is time to."""
        self.progress = progress
        if time.monotonic() - self.shown >= BETWEEN_LINES[self.mode]:
            self.last()

    def last(self) -> None:
        """Show where it is, if that was not shown."""
        if self.progress is None:
            return
        line = json.dumps(as_json(self.progress)) if self.mode == "json" else plain(self.progress)
        with contextlib.suppress(OSError):
            print(line, file=sys.stderr, flush=True)
        self.shown, self.progress = time.monotonic(), None


def as_json(progress: Progress) -> dict[str, Any]:
    """Progress by names, with numbers that need no more digits."""
    values = asdict(progress)
    for name in ("seconds", "speed", "left"):
        if values[name] is not None:
            values[name] = round(values[name], 1)
    if progress.bottleneck is not None:
        stage, share = progress.bottleneck
        values["bottleneck"] = {"stage": stage, "share": round(share, 3)}
    return values


def plain(progress: Progress) -> str:
    """Progress on one line."""
    share = progress.bytes_done / progress.bytes if progress.bytes else 1.0
    parts = [
        f"{share:4.0%}",
        f"{progress.files_done:,}/{progress.files:,} files",
        f"{spelled(progress.bytes_done)} of {spelled(progress.bytes)}",
        f"{counted(progress.documents)} docs",
        f"{counted(progress.tokens)} tokens",
        f"{progress.speed / 1e6:,.0f} MB/s",
        f"{lasting(progress.left) if progress.left is not None else '?'} left",
        f"memory {spelled(progress.memory)}",
        f"{progress.bad:,} bad",
    ]
    if progress.bottleneck is not None:
        parts.append("bound by {} {:.0%}".format(*progress.bottleneck))
    return "  ".join(parts)


@contextlib.contextmanager
def live() -> Iterator[Watch]:
    """A picture of a few lines that changes in place."""
    from rich.console import Console
    from rich.live import Live

    console = Console(stderr=True, highlight=False)
    with Live(console=console, auto_refresh=False, transient=False) as picture:
        shown = 0.0

        def watch(progress: Progress) -> None:
            nonlocal shown
            now = time.monotonic()
            if now - shown >= BETWEEN_FRAMES or progress.jobs_done == progress.jobs:
                shown = now
                picture.update(drawn(progress, console.width), refresh=True)

        yield watch


def drawn(progress: Progress, width: int) -> Any:
    """The picture: a bar, and below it the numbers."""
    from rich.progress_bar import ProgressBar
    from rich.table import Table
    from rich.text import Text

    share = progress.bytes_done / progress.bytes if progress.bytes else 1.0
    done = progress.jobs_done == progress.jobs
    left = "done" if done else f"{lasting(progress.left)} left" if progress.left else "starting"
    top = Table.grid(padding=(0, 1), expand=False)
    top.add_row(
        Text(f"{share:4.0%}", "bold"),
        ProgressBar(total=1.0, completed=share, width=max(10, min(48, width - 48))),
        Text(f"{spelled(progress.bytes_done)} of {spelled(progress.bytes)}"),
        Text(left, "bold green" if done else "bold cyan"),
    )
    numbers = Table.grid(padding=(0, 2, 0, 0))
    speed = f"{progress.speed / 1e6:,.1f} MB/s"
    rows = [
        ("files", f"{progress.files_done:,} of {progress.files:,}"),
        ("shards", f"{progress.shards:,}"),
        ("speed", speed),
        ("documents", counted(progress.documents)),
        ("tokens", counted(progress.tokens)),
        ("memory", spelled(progress.memory)),
        ("bad records", f"{progress.bad:,}"),
        ("time", lasting(progress.seconds)),
        ("bound by", "{} {:.0%}".format(*progress.bottleneck) if progress.bottleneck else "-"),
    ]
    cells = [
        (Text(name, "dim"), Text(value, "red" if name == "bad records" and progress.bad else ""))
        for name, value in rows
    ]
    for at in range(0, len(cells), 3):
        numbers.add_row(*(part for cell in cells[at : at + 3] for part in cell))
    whole = Table.grid()
    whole.add_row(top)
    whole.add_row(numbers)
    return whole
