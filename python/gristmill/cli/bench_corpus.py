"""`gristmill bench corpus`: how fast a corpus goes through, on the user's own documents.

The documents are read once, before any clock starts. `tokenizers`, where it is installed and the
tokenizer is a tokenizer.json, encodes them one by one and in batches, from memory into memory. Ours
reads them from a file, as JSON Lines, and writes Megatron's files, once with one thread and once on
all cores. The ids have to be equal before there is a number. `tests/test_cli_bench.py` runs it.
"""

import argparse
import importlib.util
import itertools
import json
import os
import tempfile
import time
from collections.abc import Callable
from typing import Any

from gristmill import Tokenizer
from gristmill.cli.bench import NotThis, json_file
from gristmill.cli.jobs import load, source_of
from gristmill.cli.messages import DONE, FAILED, JobError, fail, printable, to_json
from gristmill.cli.tables import print_rows
from gristmill.corpus.options import Options, Running
from gristmill.files import texts as texts_of

BATCHES = (32, 64, 100, 256)


def bench(options: argparse.Namespace) -> int:
    """Documents in, a table out."""
    tok = load(options)
    texts = read(options)
    size = sum(len(text.encode()) for text in texts)
    times: dict[str, float] = {}
    counts: dict[str, int] = {}
    why = measure_tokenizers(options, tok, texts, times, counts)
    for threads in dict.fromkeys((1, Running().workers)):
        name = f"gristmill tokenize, {threads} thread{'s' if threads > 1 else ''}"
        times[name], counts[name] = ours(tok, options.tokenizer, texts, threads)
    show(options, texts, size, times, counts, why)
    if len(set(counts.values())) > 1:
        return fail(f"the numbers of tokens differ: {counts}", FAILED)
    return DONE


def read(options: argparse.Namespace) -> list[str]:
    """The first documents of the files."""
    try:
        found = itertools.islice(texts_of(options.files, field=options.field), options.num_docs)
        texts = [one.decode() if isinstance(one, bytes) else one for one in found]
    except ValueError as error:
        raise JobError(str(error)) from None
    texts = [text for text in texts if text]
    if not texts:
        raise JobError("there is no document in these files")
    return texts


def measure_tokenizers(
    options: argparse.Namespace,
    tok: Tokenizer,
    texts: list[str],
    times: dict[str, float],
    counts: dict[str, int],
) -> str | None:
    """The rows of `tokenizers`, or why there are none."""
    if importlib.util.find_spec("tokenizers") is None:
        return "tokenizers is not installed"
    from tokenizers import Tokenizer as Theirs

    try:
        path = json_file(tok, source_of(options.tokenizer))
    except NotThis as error:
        return f"tokenizers: {error}"
    theirs = Theirs.from_file(str(path))
    theirs.encode_special_tokens = True

    def single() -> int:
        return sum(len(theirs.encode(text, add_special_tokens=False).ids) for text in texts)

    def batches(size: int) -> int:
        return sum(
            len(one.ids)
            for at in range(0, len(texts), size)
            for one in theirs.encode_batch_fast(texts[at : at + size], add_special_tokens=False)
        )

    methods: dict[str, Callable[[], int]] = {"tokenizers, one by one": single}
    for size in BATCHES:
        methods[f"tokenizers, batches of {size}"] = lambda size=size: batches(size)  # type: ignore[misc]
    for name, method in methods.items():
        began = time.perf_counter()
        counts[name] = method()
        times[name] = time.perf_counter() - began
    return None


def ours(tok: Tokenizer, source: str, texts: list[str], threads: int) -> tuple[float, int]:
    """Seconds from a file of documents to files of ids, and the ids of the documents."""
    from gristmill.corpus.run import run

    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "documents.jsonl")
        with open(path, "w", encoding="utf-8") as file:
            file.writelines(json.dumps({"text": text}) + "\n" for text in texts)
        out = os.path.join(folder, "out")
        began = time.perf_counter()
        options, running = Options(eos="none"), Running(threads=threads)
        report = run([path], out, tok, source, options, running)
        return time.perf_counter() - began, report.tokens


def show(
    options: argparse.Namespace,
    texts: list[str],
    size: int,
    times: dict[str, float],
    counts: dict[str, int],
    why: str | None,
) -> None:
    """The table."""
    slowest = next(iter(times.values()))
    if options.format == "json":
        rows: dict[str, Any] = {
            name: {
                "seconds": seconds,
                "documents/s": len(texts) / seconds,
                "tokens/s": counts[name] / seconds,
                "MB/s": size / 1e6 / seconds,
                "speed-up": slowest / seconds,
            }
            for name, seconds in times.items()
        }
        facts = {"documents": len(texts), "bytes": size, "tokens": next(iter(counts.values()))}
        print(to_json({**facts, "methods": rows, "left out": why}))
        return
    print(f"{len(texts):,} documents, {size / 1e6:,.1f} MB, {next(iter(counts.values())):,} tokens")
    columns = ("time", "documents/s", "tokens/s", "MB/s", "speed-up", "method")
    print_rows(
        columns,
        [
            (
                f"{seconds:.2f} s",
                f"{len(texts) / seconds:,.0f}",
                f"{counts[name] / seconds:,.0f}",
                f"{size / 1e6 / seconds:,.1f}",
                f"{slowest / seconds:,.1f}x",
                name,
            )
            for name, seconds in times.items()
        ],
    )
    if why:
        print(f"left out: {printable(why)}")
