"""Ctrl-C while one call of the Tokenizer takes long.

Python raises KeyboardInterrupt between its own instructions, so not before a native call returns,
which for a large file may be seconds. A thread beside the job hears of the signal at once, gives
the job a moment to end in the ordinary way, and then ends the process.
"""

import contextlib
import os
import signal
import threading
from collections.abc import Callable, Iterator

# Seconds that a job has to end by itself.
PATIENCE = 0.3


@contextlib.contextmanager
def leaving_promptly(leave: Callable[[], None]) -> Iterator[None]:
    """Call `leave`, which does not return, if an interrupt has no effect for a moment."""
    in_main_thread = threading.current_thread() is threading.main_thread()
    if os.name != "posix" or not in_main_thread:
        # Python wakes nobody there; the job ends when its native call does.
        yield
        return
    ended = threading.Event()
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    before = signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    threading.Thread(target=watch, args=(reader, ended, leave), daemon=True).start()
    try:
        yield
    finally:
        ended.set()
        signal.set_wakeup_fd(before)
        os.close(writer)


def watch(reader: int, ended: threading.Event, leave: Callable[[], None]) -> None:
    """Read the numbers of signals until there are no more to come."""
    while signals := os.read(reader, 16):
        if signal.SIGINT in signals and not ended.wait(PATIENCE):
            leave()
    os.close(reader)
