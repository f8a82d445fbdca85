"""What the command says: exit codes, error lines, and text made safe to print.

Every error goes through `fail`, and whatever it is given is one line on standard error.
"""

import contextlib
import sys
from collections.abc import Iterable

DONE, FAILED, USAGE, INTERRUPTED, BROKEN_PIPE = 0, 1, 2, 130, 141
LARGEST_ID = 2**32 - 1


class JobError(Exception):
    """The job cannot be done; the message is for the user."""

    def __init__(self, message: str, code: int = FAILED) -> None:
        super().__init__(message)
        self.code = code


def fail(message: str, code: int = FAILED) -> int:
    """Tell the user on one line."""
    if sys.stderr is not None:
        line = " ".join(printable(part) for part in message.splitlines())
        with contextlib.suppress(OSError):
            print(f"gristmill: error: {line}", file=sys.stderr, flush=True)
    return code


def describe_os_error(error: OSError) -> str:
    """The file and what is wrong with it."""
    if error.filename is None:
        return str(error) if error.strerror is None else error.strerror
    hint = "; name the files in it" if isinstance(error, IsADirectoryError) else ""
    # An empty name is shown as one.
    return f"{error.filename or repr('')}: {error.strerror}{hint}"


def describe_key_error(error: KeyError) -> str:
    """What an unknown id is called."""
    detail = error.args[0] if error.args else "?"
    return f"no token has the id {detail}" if isinstance(detail, int) else str(detail)


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """The nearest known words, if any are near."""
    import difflib

    close = difflib.get_close_matches(word, known, n=2)
    return f"; did you mean {' or '.join(close)}?" if close else ""


def input_name(name: str) -> str:
    """What people call the file."""
    return "standard input" if name == "-" else name


def printable(text: str) -> str:
    """The text on one line, without what would move a terminal's cursor or fail to be written."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def to_json(value: object) -> str:
    """JSON on one line; ASCII, so that any name of a file can be written."""
    import json

    return json.dumps(value)
