"""Corpora: files of text in, files of token ids out, exactly, in bounded memory, resumable.

    >>> report = gristmill.tokenize_corpus("texts/", "out", tokenizer="gpt2", to="megatron")

`options.py` is what a user may ask for, `inputs.py` which files are read, `plan.py` what becomes
what, `journal.py` what is done, `run.py` one run, `tracker.py` how far it is, `report.py` what
came of it, `estimate.py` what a run would take. The shards are made by one native call, whichever
engine of `gristmill.engine` makes it. Nothing here prints.
"""

import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from gristmill._native import EMBEDDED, Tokenizer
from gristmill.corpus.errors import CorpusError, TooManyBadRecords
from gristmill.corpus.options import Options, Running
from gristmill.corpus.report import Report
from gristmill.corpus.tracker import Progress

__all__ = ["CorpusError", "Progress", "Report", "TooManyBadRecords", "tokenize_corpus"]

Name = str | os.PathLike[str]
RUNNING = ("threads", "max_memory", "max_bad", "engine", "part", "overwrite")


def tokenize_corpus(
    inputs: Name | Iterable[Name],
    out: Name,
    *,
    tokenizer: Tokenizer | Name,
    progress: Callable[[Progress], None] | None = None,
    **options: Any,
) -> Report:
    """Tokenize files into the folder `out`, or go on with a run that was interrupted there.

    `options` are those of `gristmill tokenize`, by their names in Python: `to`, `format`,
    `field`, `separator`, `special`, `add_special_tokens`, `bos`, `eos`, `shard_size`,
    `max_document`, `surrogates`, `on_error`, `keep_empty`, and `threads`, `max_memory`,
    `max_bad`, `engine`, `part`, `overwrite`. `progress` is called a few times a second, in this
    thread.

    Raises CorpusError where a run cannot begin or go on, ValueError for an option that makes no
    sense, and OSError for files. Whatever ends it, the same call goes on.
    """
    from gristmill.corpus.run import run

    names = [inputs] if isinstance(inputs, (str, os.PathLike)) else list(inputs)
    if isinstance(tokenizer, Tokenizer):
        tok, source = tokenizer, described(tokenizer)
    else:
        source = os.fspath(tokenizer)
        tok = Tokenizer(source if source in EMBEDDED else Path(tokenizer))
    running = {name: options.pop(name) for name in RUNNING if name in options}
    return run(names, out, tok, source, Options.made(**options), Running.made(**running), progress)


def described(tok: Tokenizer) -> str:
    """What people call a tokenizer that is loaded: the path or name it came from."""
    parts = tok.__reduce__()[1]
    path = parts[0] if len(parts) == 1 else parts[3] if len(parts) > 3 else None
    return os.fspath(path) if isinstance(path, (str, os.PathLike)) else "a tokenizer"
