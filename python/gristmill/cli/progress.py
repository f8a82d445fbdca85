"""The progress of a training on standard error: one line that changes on a terminal, else a line
now and then.
"""

import sys
import time
from typing import Any

from gristmill.memory import resident

# Seconds between two lines where lines stay.
BETWEEN_LINES = 5.0


class Display:
    """Shows what a `Trainer` reports; pass it as `progress`."""

    def __init__(self) -> None:
        self.began = time.monotonic()
        self.stage = ""
        self.stage_began = self.began
        self.last_line = 0.0
        self.width = 0
        self.live = sys.stderr is not None and sys.stderr.isatty()

    def __call__(self, progress: dict[str, Any]) -> None:
        """Show how far the training is."""
        now = time.monotonic()
        if progress["stage"] != self.stage:
            self.stage, self.stage_began = progress["stage"], now
            self.last_line = 0.0
        if sys.stderr is None:
            return
        line = self.line(progress, max(now - self.stage_began, 1e-9))
        if self.live:
            # What is left of a longer line before it is overwritten.
            sys.stderr.write("\r" + line.ljust(self.width))
            self.width = len(line)
        elif now - self.last_line >= BETWEEN_LINES:
            sys.stderr.write(line + "\n")
            self.last_line = now
        sys.stderr.flush()

    def line(self, progress: dict[str, Any], seconds: float) -> str:
        """What there is to say, on one line."""
        memory = f"{resident() / 1e6:,.0f} MB"
        read = f"{progress['bytes'] / 1e6:,.1f} MB"
        if progress["stage"] == "counting":
            speed = progress["bytes"] / 1e6 / seconds
            return (
                f"counting  {read} read, {progress['texts']:,} texts, "
                f"{progress['words']:,}+ words, {speed:,.0f} MB/s, memory {memory}"
            )
        if progress["stage"] == "pairs":
            return f"pairs     {read} read, {progress['words']:,} words, memory {memory}"
        merges, wanted = progress["merges"], progress["wanted"]
        speed = merges / seconds
        left = (wanted - merges) / speed if speed else 0.0
        return (
            f"merging   {merges:,} of {wanted:,} merges, {progress['words']:,} words, "
            f"{progress['pairs']:,} pairs, {speed:,.0f} pairs/s, {left:,.0f} s left, "
            f"memory {memory}"
        )

    def close(self) -> None:
        """Leave the line."""
        if self.live and self.width and sys.stderr is not None:
            sys.stderr.write("\n")
            sys.stderr.flush()
