"""`gristmill tokenize`: files of text in, files of token ids out.

Standard output has the report, standard error the progress. Exit codes: 0 all records became
documents, or were empty; 3 finished, but records were bad; 1 not finished: the same command goes
on; 2 the command line is wrong.
"""

import argparse
import contextlib
import re
import sys
from typing import Any

from gristmill import Tokenizer
from gristmill.cli.jobs import load
from gristmill.cli.messages import DONE, USAGE, JobError, describe_os_error, to_json
from gristmill.cli.watching import watching
from gristmill.corpus.errors import CorpusError
from gristmill.corpus.options import Options, Running
from gristmill.corpus.report import Report

BAD_RECORDS = 3
# What goes to the options of a run by its own name, and what to how it goes about it.
DECIDING = (
    "to", "format", "field", "separator", "special", "add_special_tokens", "bos", "eos", "seq_len",
    "sequences_per_chunk", "pack", "dtype", "shard_tokens", "shard_size", "max_document",
    "surrogates", "on_error", "keep_empty",
)  # fmt: skip
RUNNING = ("threads", "max_memory", "max_bad", "engine", "part", "overwrite")


def tokenize(options: argparse.Namespace) -> int:
    """Do it, or say what it would take."""
    inputs = [*options.inputs, *options.input_dir]
    if not inputs:
        raise JobError("no inputs: name files, folders or patterns (see --help)", USAGE)
    if options.output is None:
        raise JobError("no output: name a folder with -o (see --help)", USAGE)
    if options.batch_size is not None or options.prefetch_files is not None:
        note("--batch-size and --prefetch-files have no effect: reading ahead needs no tuning")
    if options.separator is not None:
        options.separator = unescaped(options.separator)
    try:
        deciding = Options.made(**given(options, DECIDING))
        running = Running.made(**given(options, RUNNING))
    except ValueError as error:
        raise JobError(flagged(error), USAGE) from None
    tok = load(options)
    try:
        deciding.outputs(tok)
    except ValueError as error:
        raise JobError(flagged(error), USAGE) from None
    try:
        if options.dry_run:
            return estimate(inputs, options, tok, deciding, running)
        return run(inputs, options, tok, deciding, running)
    except CorpusError as error:
        raise JobError(str(error)) from None
    except OSError as error:
        raise JobError(f"{describe_os_error(error)}; {goes_on(error)}") from None
    except ValueError as error:
        raise JobError(str(error)) from None


def run(
    inputs: list[str],
    options: argparse.Namespace,
    tok: Tokenizer,
    deciding: Options,
    running: Running,
) -> int:
    """Tokenize and report."""
    from gristmill.corpus import run as corpus

    with watching(options.progress) as watch:
        try:
            report = corpus.run(
                inputs, options.output, tok, options.tokenizer, deciding, running, watch, note
            )
        except KeyboardInterrupt:
            note("interrupted; what is finished stays, and the same command goes on")
            raise
    print(to_json(summary(report)) if options.progress == "json" else report)
    if not report.complete:
        note(f"{report.jobs_done:,} of {report.jobs:,} jobs are done; other parts make the rest")
    return BAD_RECORDS if report.bad_records or report.partial else DONE


def summary(report: Report) -> dict[str, Any]:
    """The report as the last line of JSON, without what is there to be drawn."""
    numbers = report.as_json()
    for name in ("samples", "rows"):
        del numbers[name]
    return {"report": numbers}


def estimate(
    inputs: list[str],
    options: argparse.Namespace,
    tok: Tokenizer,
    deciding: Options,
    running: Running,
) -> int:
    """What it would take, from a sample."""
    from gristmill.corpus.estimate import estimate

    found = estimate(inputs, options.output, tok, deciding, running)
    print(to_json(found.as_json()) if options.progress == "json" else found)
    return DONE


def unescaped(text: str) -> str:
    """A separator as a shell can write it: with \\n, \\t and other escapes."""
    return re.sub(
        r"\\(n|t|r|0|\\)",
        lambda match: {"n": "\n", "t": "\t", "r": "\r", "0": "\0", "\\": "\\"}[match[1]],
        text,
    )


def flagged(error: ValueError) -> str:
    """What is wrong with an option, by the name that it has here."""
    name, colon, what = str(error).partition(":")
    return f"--{name.replace('_', '-')}{colon}{what}" if name.isidentifier() else str(error)


def given(options: argparse.Namespace, names: tuple[str, ...]) -> dict[str, Any]:
    """What stands on the command line; the rest keeps its default."""
    values = {name: getattr(options, name) for name in names}
    return {name: value for name, value in values.items() if value is not None}


def goes_on(error: OSError) -> str:
    """What a user can do about it."""
    import errno

    if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        return "make room, and the same command goes on"
    return "what is finished stays, and the same command goes on"


def note(line: str) -> None:
    """Something to know on standard error."""
    if sys.stderr is not None:
        with contextlib.suppress(OSError):
            print(f"gristmill: {line}", file=sys.stderr, flush=True)
