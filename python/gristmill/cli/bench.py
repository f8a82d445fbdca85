"""`gristmill bench`: how fast a tokenizer is on the user's own files, here and in other libraries.

The other libraries are those that are installed; none is needed. Each has to give the ids of
Gristmill before it gets a number. A number is the median of the runs, in megabytes of UTF-8 a
second:

- first call: a tokenizer that was just loaded, so nothing it remembers helps it;
- steady: the last third of each file, after the first two thirds of all of them;
- again: the same texts once more.

Everything is measured in one process, which is what a user has; `tests/test_cli_bench.py` runs it.
"""

import argparse
import base64
import importlib.util
import os
import statistics
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from gristmill import Tokenizer
from gristmill.cli.files import documents, naming
from gristmill.cli.jobs import load, source_of
from gristmill.cli.messages import DONE, FAILED, JobError, fail, to_json
from gristmill.cli.tables import print_rows

OURS = "gristmill"
# Short texts are encoded so long, in seconds, that the clock can tell; a first call is what it is.
LONG_ENOUGH = 0.02
ROWS = {
    "first call": "encode to an array, first call",
    "steady": "encode to an array, steady",
    "again": "encode to an array, again",
    "list": "encode to a list, again",
    "batch": "encode all files as a batch, on all cores, again",
    "count": "count, again",
    "decode": "decode",
}


@dataclass(frozen=True)
class Library:
    """What a loaded tokenizer can do; what it cannot is None."""

    array: Callable[[str], Any]
    as_list: Callable[[str], list[int]]
    batch: Callable[[list[str]], Any] | None = None
    count: Callable[[str], int] | None = None
    decode: Callable[[list[int]], Any] | None = None


class NotThis(Exception):
    """A library has no way to load this tokenizer."""


class Other(NamedTuple):
    """Another library: how it loads a tokenizer, and whether its ids are the truth."""

    load: Callable[[Tokenizer, str | Path], Library]
    oracle: bool


def load_ours(tok: Tokenizer) -> Library:
    return Library(tok.encode_numpy, tok.encode, tok.encode_batch_numpy, tok.count, tok.decode)


def load_tokenizers(tok: Tokenizer, source: str | Path) -> Library:
    from tokenizers import Tokenizer as Theirs

    path = json_file(tok, source)
    theirs = Theirs.from_file(str(path))
    theirs.encode_special_tokens = True

    def encode(text: str) -> list[int]:
        ids: list[int] = theirs.encode(text, add_special_tokens=False).ids
        return ids

    def batch(texts: list[str]) -> list[list[int]]:
        return [one.ids for one in theirs.encode_batch_fast(texts, add_special_tokens=False)]

    return Library(
        encode, encode, batch, decode=lambda ids: theirs.decode(ids, skip_special_tokens=False)
    )


def load_tiktoken(tok: Tokenizer, source: str | Path) -> Library:
    from tiktoken import Encoding

    if tok.info["format"] != "tiktoken ranks":
        raise NotThis("it takes rank files only")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "ranks"
        tok.save(path)
        lines = [line.split() for line in path.read_bytes().splitlines()]
    theirs = Encoding(
        str(source),
        pat_str=tok.info["pattern"],
        mergeable_ranks={base64.b64decode(token): int(rank) for token, rank in lines},
        special_tokens=tok.special_tokens,
    )
    return Library(
        lambda text: theirs.encode_to_numpy(text, disallowed_special=()),
        theirs.encode_ordinary,
        theirs.encode_ordinary_batch,
        decode=theirs.decode,
    )


def load_gigatoken(tok: Tokenizer, source: str | Path) -> Library:
    from gigatoken import Tokenizer as Theirs

    if tok.info["format"] == "tiktoken ranks":
        with tempfile.TemporaryDirectory() as folder:
            # It knows the pattern by the name of the file, and GPT-2's by its older name.
            name = tok.info.get("name") or "ranks"
            path = Path(folder) / f"{'r50k_base' if name == 'gpt2' else name}.tiktoken"
            tok.save(path)
            # With special tokens it would find them in the text, which here they are a part of.
            theirs = Theirs.from_tiktoken(path, special_tokens={})
    else:
        theirs = Theirs(json_file(tok, source))
    return Library(
        theirs.encode,
        lambda text: theirs.encode(text).tolist(),
        theirs.encode_batch,
        decode=theirs.decode,
    )


OTHERS = {
    "tokenizers": Other(load_tokenizers, True),
    "tiktoken": Other(load_tiktoken, True),
    "gigatoken": Other(load_gigatoken, False),
}


def json_file(tok: Tokenizer, source: str | Path) -> Path:
    """The tokenizer.json, for libraries that read no other format."""
    path = Path(source)
    path = path / "tokenizer.json" if path.is_dir() else path
    if tok.info["format"] != "tokenizer.json" or not path.is_file():
        raise NotThis("it needs a tokenizer.json")
    return path


def bench(options: argparse.Namespace) -> int:
    """Files in, speeds out."""
    # Loaded by the first call that makes an array, whose time it is not.
    import numpy  # noqa: F401

    tok = load(options)
    source = source_of(options.tokenizer)
    texts = read(options.files)
    loaders: dict[str, Callable[[], Library]] = {OURS: lambda: load_ours(load(options))}
    why: dict[str, str] = {}
    for name in options.peers or OTHERS:
        if name == "none":
            continue
        if importlib.util.find_spec(name) is None:
            why[name] = "is not installed"
        else:
            loaders[name] = lambda name=name: OTHERS[name].load(tok, source)  # type: ignore[misc]
    right = [tok.encode(text) for text in texts]
    wrong = check(loaders, texts, right, why)
    speeds = {name: measure(make, texts, right, options.runs) for name, make in loaders.items()}
    size = sum(len(text.encode()) for text in texts)
    facts = {"tokenizer": options.tokenizer, "files": len(texts), "bytes": size}
    facts |= {"tokens": sum(map(len, right)), "cores": os.cpu_count(), "runs": options.runs}
    if options.format == "json":
        print(to_json({**facts, "MB/s": speeds, "left out": why}))
    else:
        show(facts, speeds, why)
    if wrong:
        return fail(f"the ids differ from those of {' and '.join(wrong)} on these files", FAILED)
    return DONE


def read(names: list[str]) -> list[str]:
    """The texts; there has to be something to measure."""
    texts = []
    for document in documents(names, False):
        with naming(document):
            texts.append(document.text.decode())
    if not any(texts):
        raise JobError("nothing to measure: the input is empty")
    return texts


def check(
    loaders: dict[str, Callable[[], Library]],
    texts: list[str],
    right: list[list[int]],
    why: dict[str, str],
) -> list[str]:
    """Leave out the libraries with other ids, and those that fail; the oracles that differ."""
    wrong = []
    for name, make in list(loaders.items()):
        if name == OURS:
            continue
        try:
            library = make()
            same = all(
                library.as_list(text) == ids and list(map(int, library.array(text))) == ids
                for text, ids in zip(texts, right, strict=True)
            )
        except NotThis as reason:
            why[name] = f"cannot load this tokenizer: {reason}"
        except Exception as error:
            # Whatever another library raises is its answer.
            why[name] = f"fails: {type(error).__name__}: {error}"
        else:
            if same:
                continue
            why[name] = "gives other ids"
            wrong += [name] if OTHERS[name].oracle else []
        del loaders[name]
    return wrong


def measure(
    make: Callable[[], Library], texts: list[str], right: list[list[int]], runs: int
) -> dict[str, float | None]:
    """Megabytes a second of each row."""
    size = sum(len(text.encode()) for text in texts)
    cuts = [len(text) - len(text) // 3 for text in texts]
    found: dict[str, list[float]] = {row: [] for row in ROWS}
    for _ in range(runs):
        library = make()
        # Copies: CPython keeps the UTF-8 of a string once it was asked for.
        fresh = [copied(text) for text in texts]
        found["first call"].append(size / timed(library.array, fresh))
        found["again"].append(size / timed_long(library.array, fresh))
        found["list"].append(size / timed_long(library.as_list, fresh))
        if library.count is not None:
            found["count"].append(size / timed_long(library.count, fresh))
        if library.batch is not None:
            found["batch"].append(size / timed_long(library.batch, [fresh]))
        if library.decode is not None:
            found["decode"].append(size / timed_long(library.decode, right))
        library = make()
        parts = [(text[:cut], text[cut:]) for text, cut in zip(texts, cuts, strict=True)]
        for begin, _ in parts:
            library.array(begin)
        ends = [copied(end) for _, end in parts]
        if rest := sum(len(end.encode()) for _, end in parts):
            found["steady"].append(rest / timed(library.array, ends))
    return {row: statistics.median(rates) / 1e6 if rates else None for row, rates in found.items()}


def copied(text: str) -> str:
    """An equal string that was not encoded yet."""
    return text.encode().decode()


def timed(call: Callable[[Any], Any], arguments: list[Any]) -> float:
    """Seconds of one call for each argument."""
    began = time.perf_counter()
    for argument in arguments:
        call(argument)
    return max(time.perf_counter() - began, 1e-9)


def timed_long(call: Callable[[Any], Any], arguments: list[Any]) -> float:
    """The same, not for the first time, repeated while it is too short to tell."""
    timed(call, arguments)
    took, times = timed(call, arguments), 1
    while took < LONG_ENOUGH:
        took += timed(call, arguments)
        times += 1
    return took / times


def show(
    facts: dict[str, Any], speeds: dict[str, dict[str, float | None]], why: dict[str, str]
) -> None:
    """The table, and what is not in it."""
    names = list(speeds)
    rows = [(*(in_digits(speeds[name][row]) for name in names), what) for row, what in ROWS.items()]
    print_rows((*names, "MB/s"), rows)
    print(
        f"{facts['files']} file{'s' if facts['files'] != 1 else ''}, "
        f"{facts['bytes']} bytes, {facts['tokens']} tokens, "
        f"{facts['cores']} cores, median of {facts['runs']}; ids are equal in all columns"
    )
    for name, reason in why.items():
        print(f"left out: {name} {reason}")


def in_digits(speed: float | None) -> str:
    """A speed with the digits that matter."""
    if speed is None:
        return "-"
    return f"{speed:.1f}" if speed >= 1 else f"{speed:.2g}"
