"""The command `gristmill`: encode, decode, count, info, bench, train, evaluate, tokenize.

Thin: it reads bytes, makes one call of the Tokenizer and writes what comes back. This package is
the only part of Gristmill that prints. Results go to standard output, everything else to standard
error. A failure is one line there, `gristmill: error: ...`, that says what to do next. What costs
time to load is imported where it is used. `tests/test_cli.py` runs the command as a user does.

Exit codes: 0 done; 1 the job failed; 2 the command line is wrong; 130 interrupted; 141 the reader
of the output went away (as for a program that SIGPIPE ended).
"""

import contextlib
import io
import os
import sys
from collections.abc import Sequence

from gristmill import TokenizerError
from gristmill.cli import arguments, jobs, shards, training
from gristmill.cli.files import about, remove_unfinished
from gristmill.cli.interrupt import leaving_promptly
from gristmill.cli.messages import (
    BROKEN_PIPE,
    INTERRUPTED,
    JobError,
    describe_os_error,
    did_you_mean,
    fail,
)

__all__ = ["main"]


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code."""
    try:
        with leaving_promptly(leave):
            return finish(attempt(sys.argv[1:] if argv is None else list(argv)))
    except KeyboardInterrupt:
        discard_output()
        return INTERRUPTED


def leave() -> None:
    """End the process here and now."""
    remove_unfinished()
    os._exit(INTERRUPTED)


def attempt(argv: list[str]) -> int:
    """Run the command line; what goes wrong becomes a message and a code."""
    try:
        return run(argv)
    except BrokenPipeError:
        return BROKEN_PIPE
    except JobError as error:
        return fail(str(error), error.code)
    except (TokenizerError, ImportError) as error:
        return fail(str(error))
    except OSError as error:
        return fail(describe_os_error(error))
    except UnicodeEncodeError:
        return fail("an argument is not text in the encoding of this system")
    except MemoryError:
        return fail("out of memory; encode --lines reads a file line by line")


def finish(code: int) -> int:
    """Write out what is buffered, also after a failure: it was done."""
    try:
        if sys.stdout is not None:
            sys.stdout.flush()
        return code
    except OSError as error:
        discard_output()
        if isinstance(error, BrokenPipeError):
            return BROKEN_PIPE
        return code or fail(f"standard output: {error.strerror}")


def run(argv: list[str]) -> int:
    """Find the command and do its job."""
    parser = arguments.top_parser()
    if not argv or argv[0].startswith("-"):
        parser.parse_args(argv)
        parser.error(f"a command is needed: {', '.join(arguments.COMMANDS)}")
    command, rest = argv[0], argv[1:]
    if command == "bench" and rest[:1] in (["corpus"], ["serve"]):
        command, rest = f"bench {rest[0]}", rest[1:]
    elif command not in arguments.COMMANDS:
        parser.error(f"no command {command!r}" + did_you_mean(command, arguments.COMMANDS))
    if sys.stdout is None:
        raise JobError("standard output is closed")
    if isinstance(sys.stdout, io.TextIOWrapper):
        # A name of a file that the terminal cannot show is no reason to fail.
        sys.stdout.reconfigure(errors="backslashreplace")
    build, job = {
        "encode": (arguments.encode_parser, jobs.encode),
        "decode": (arguments.decode_parser, jobs.decode),
        "count": (arguments.count_parser, jobs.count),
        "info": (arguments.info_parser, jobs.info),
        "bench": (arguments.bench_parser, jobs.bench),
        "bench corpus": (arguments.bench_corpus_parser, jobs.bench_corpus),
        "bench serve": (arguments.bench_serve_parser, jobs.bench_serve),
        "train": (arguments.train_parser, training.train),
        "evaluate": (arguments.evaluate_parser, training.evaluate),
        "serve": (arguments.serve_parser, jobs.serve),
        "tokenize": (arguments.tokenize_parser, jobs.tokenize),
        "verify": (shards.verify_parser, shards.verify),
        "cat": (shards.cat_parser, shards.cat),
        "convert": (shards.convert_parser, shards.convert),
        "merge": (shards.merge_parser, shards.merge),
    }[command]
    # Intermixed: options may stand between file names.
    options = build().parse_intermixed_args(rest)
    # Whatever else is read or written names itself.
    with about("standard output"):
        return job(options)


def discard_output() -> None:
    """Let what is still buffered go nowhere, or Python would fail again when it ends."""
    with contextlib.suppress(OSError, ValueError, AttributeError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
