"""The commands `train` and `evaluate`."""

import argparse
import contextlib
import os
import sys
import tempfile
from collections.abc import Iterator

from gristmill import Tokenizer, Trainer, files
from gristmill.cli import jobs
from gristmill.cli.files import opened_input, opened_output
from gristmill.cli.messages import DONE, JobError, input_name, to_json
from gristmill.cli.progress import Display


def train(options: argparse.Namespace) -> int:
    """Texts in, a tokenizer out."""
    bare_lines = options.parity == "sentencepiece"
    names = options.files or ["-"]
    display = None if options.quiet else Display(None if bare_lines else bytes_in(names))
    try:
        trainer = Trainer(
            options.vocab_size,
            pattern=options.pattern,
            parity=options.parity,
            special_tokens=options.special_token,
            min_frequency=options.min_frequency,
            max_token_length=options.max_token_length,
            threads=options.threads,
            memory_limit=options.memory_limit,
            progress=display,
        )
        texts = (text for name in names for text in texts_of(name, options.field, bare_lines))
        for name in names:
            if name != "-":
                files.check(name)
        tok = trainer.train(texts)
    except UnicodeDecodeError as error:
        note = "".join(f" ({note})" for note in getattr(error, "__notes__", []))
        raise JobError(f"a text is not UTF-8 at byte {error.start}{note}") from None
    except (ValueError, OverflowError) as error:
        raise JobError(str(error)) from None
    finally:
        if display is not None:
            display.close()
    write(tok, options.output)
    if not options.quiet:
        print(f"{options.output}: {tok.vocab_size} tokens", file=sys.stderr)
    return DONE


def texts_of(name: str, field: str, bare_lines: bool) -> Iterator[bytes | str]:
    """The texts of a file, or the lines of standard input."""
    if name != "-":
        yield from files.texts(name, field=field, bare_lines=bare_lines)
        return
    with opened_input(name) as file:
        for line in file:
            yield line.rstrip(b"\r\n") if bare_lines else line


def bytes_in(names: list[str]) -> int | None:
    """The bytes of all texts, if the files are nothing but texts."""
    if not all(os.path.isfile(name) and name.endswith(".txt") for name in names):
        return None
    return sum(os.path.getsize(name) for name in names)


def write(tok: Tokenizer, output: str) -> None:
    """Write the tokenizer in the format that the name asks for."""
    suffix = os.path.splitext(output)[1]
    with tempfile.TemporaryDirectory() as folder:
        made = os.path.join(folder, "tokenizer" + suffix)
        try:
            tok.save(made)
        except ValueError as error:
            raise JobError(f"{output}: {error}") from None
        with open(made, "rb") as file, opened_output(output) as out:
            out.write(file.read())


def evaluate(options: argparse.Namespace) -> int:
    """Texts in, a table out."""
    from gristmill.evaluation import compare

    toks = {name: load(name) for name in options.tokenizer}
    texts = {}
    for name in options.files or ["-"]:
        with opened_input(name) as file:
            try:
                texts[os.path.basename(input_name(name))] = [file.read().decode()]
            except UnicodeDecodeError as error:
                raise JobError(f"{input_name(name)}: not UTF-8 at byte {error.start}") from None
    try:
        report = compare(toks, texts)
    except ValueError as error:
        raise JobError(str(error)) from None
    if options.html:
        with opened_output(options.html) as out:
            out.write(report.to_html().encode())
    if options.format == "json":
        print(to_json(report.as_json()))
    else:
        with contextlib.suppress(BrokenPipeError):
            print(report)
    return DONE


def load(name: str) -> Tokenizer:
    """Load a tokenizer that needs nothing beside its file."""
    alone = argparse.Namespace(tokenizer=name, special_token=None, pattern=None)
    return jobs.load(alone)
