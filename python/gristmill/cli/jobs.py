"""The commands: what each does once its arguments are read; `bench` has a file of its own.

A job raises JobError, or lets an OSError through, and leaves nothing half written.
"""

import argparse
import os
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gristmill import EMBEDDED, Tokenizer
from gristmill.cli.files import (
    Document,
    as_binary,
    as_json,
    as_text,
    documents,
    id_lists,
    naming,
    opened_output,
)
from gristmill.cli.messages import (
    DONE,
    USAGE,
    JobError,
    describe_key_error,
    describe_os_error,
    did_you_mean,
    fail,
    to_json,
)
from gristmill.cli.tables import Count, print_counts, readable

if TYPE_CHECKING:
    from gristmill._native import _Special as Special

# What ends so is a file, not the name of a hub repository.
FILE_SUFFIXES = (".json", ".model", ".tiktoken")
# UTF-8 bytes that continue a character, not begin one.
CONTINUATION = bytes(range(0x80, 0xC0))


def encode(options: argparse.Namespace) -> int:
    """Text in, ids out."""
    require_format(options, "json", "--tokens", options.tokens)
    require_format(options, "json", "--offsets", options.offsets)
    require_format(options, "bin", "--dtype", options.dtype)
    if options.format == "bin" and options.output is None and sys.stdout.isatty():
        raise JobError("ids in binary are not for a terminal: use -o FILE or a pipe", USAGE)
    tok = load(options)
    how = special_options(tok, options)
    encoded = {"text": as_text, "json": as_json, "bin": as_binary}[options.format]
    with opened_output(options.output) as out:
        for document in documents(options.files, options.lines):
            with naming(document):
                out.write(encoded(tok, document, how, options))
    return DONE


def decode(options: argparse.Namespace) -> int:
    """Ids in, text out."""
    require_format(options, "bin", "--dtype", options.dtype)
    tok = load(options)
    with opened_output(options.output) as out:
        for place, ids in id_lists(options):
            try:
                text = tok.decode_bytes(ids, skip_special_tokens=options.skip_special_tokens)
            except KeyError as error:
                raise JobError(f"{place}: {describe_key_error(error)}") from None
            out.write(text + b"\n" if options.lines else text)
    return DONE


def count(options: argparse.Namespace) -> int:
    """Text in, numbers out."""
    tok = load(options)
    how = special_options(tok, options)
    counts: list[Count] = []
    code = DONE
    for name in options.files or ["-"]:
        try:
            counts += [count_document(tok, document, how) for document in documents([name], False)]
        except JobError as error:
            code = fail(str(error))
        except OSError as error:
            code = fail(describe_os_error(error))
    total = Count(
        "total",
        sum(one.bytes for one in counts),
        sum(one.characters for one in counts),
        sum(one.tokens for one in counts),
    )
    if options.format == "json":
        numbers = total.as_json()
        del numbers["file"]
        print(to_json({"files": [one.as_json() for one in counts], "total": numbers}))
    elif counts:
        print_counts(counts if len(counts) == 1 else [*counts, total])
    return code


def count_document(tok: Tokenizer, document: Document, how: dict[str, Any]) -> Count:
    """Count one document."""
    with naming(document):
        tokens = tok.count(document.text, **how)
    characters = len(document.text.translate(None, CONTINUATION))
    return Count(document.file, len(document.text), characters, tokens)


def info(options: argparse.Namespace) -> int:
    """What a tokenizer is."""
    tok = load(options)
    facts: dict[str, Any] = {
        "tokenizer": options.tokenizer,
        **tok.info,
        "vocab_size": tok.vocab_size,
        "special_tokens": tok.special_tokens,
    }
    if options.json:
        print(to_json(facts))
        return DONE
    lines = list(readable(facts))
    width = max(len(name) for name, _ in lines)
    for name, value in lines:
        print(f"{name:{width}}  {value}")
    return DONE


def bench(options: argparse.Namespace) -> int:
    """Speeds; what it needs is loaded only for it."""
    from gristmill.cli.bench import bench

    return bench(options)


def serve(options: argparse.Namespace) -> int:
    """The HTTP service; what it needs is loaded only for it."""
    from gristmill.cli.serving import serve

    return serve(options)


def bench_corpus(options: argparse.Namespace) -> int:
    """Speeds of a corpus; what it needs is loaded only for it."""
    from gristmill.cli.bench_corpus import bench

    return bench(options)


def bench_serve(options: argparse.Namespace) -> int:
    """What a server pays; what it needs is loaded only for it."""
    from gristmill.cli.bench_serve import bench

    return bench(options)


def tokenize(options: argparse.Namespace) -> int:
    """Corpora; what they need is loaded only for them."""
    from gristmill.cli.tokenize import tokenize

    return tokenize(options)


def require_format(options: argparse.Namespace, format: str, flag: str, given: object) -> None:
    """Refuse an option that would have no effect."""
    if given and options.format != format:
        raise JobError(f"{flag} is for --format {format}", USAGE)


def load(options: argparse.Namespace) -> Tokenizer:
    """Load the tokenizer that the user named."""
    source = source_of(options.tokenizer)
    special_tokens = dict(options.special_token) if options.special_token else None
    try:
        return Tokenizer(source, pattern=options.pattern, special_tokens=special_tokens)
    except ValueError as error:
        # Also what is no tokenizer's fault: a pattern where none is wanted.
        raise JobError(str(error)) from None


def source_of(name: str) -> str | Path:
    """What the user's name of a tokenizer stands for: an embedded one, or a path."""
    if name in EMBEDDED or os.path.exists(name):
        return name
    if re.fullmatch(r"\w[\w.-]*/[\w.-]+", name) and not name.endswith(FILE_SUFFIXES):
        return fetched(name)
    raise JobError(
        f"no tokenizer {name!r}: it is no embedded one ({', '.join(EMBEDDED)}) and no file"
        + did_you_mean(name, EMBEDDED)
    )


def fetched(name: str) -> Path:
    """Get what is no file here from the hub."""
    import importlib.util

    if importlib.util.find_spec("huggingface_hub") is None:
        raise JobError(
            f"there is no file {name!r}; if it is a Hugging Face hub repository: "
            "pip install 'gristmill[hub]'"
        )
    from gristmill import hub

    try:
        return hub.fetch(name)
    except FileNotFoundError as error:
        raise JobError(f"there is no file {name!r}, and {error}") from None


def special_options(tok: Tokenizer, options: argparse.Namespace) -> dict[str, Any]:
    """The options of `Tokenizer.encode` that stand on the command line."""
    special: Special = options.special
    if options.allow:
        special = set(options.allow)
        known = tok.special_tokens
        for token in options.allow:
            if token not in known:
                raise JobError(
                    f"--allow: the tokenizer has no special token {token!r}"
                    + did_you_mean(token, known)
                )
    return {"special": special, "add_special_tokens": options.add_special_tokens}
