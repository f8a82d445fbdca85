"""What a user may ask of a run, checked, and what of it decides the bytes of the output.

Invariant: two runs whose `Options.deciding()` are equal, over equal inputs and with equal
tokenizers, give the same files; nothing else that a user can say changes them.
`tests/test_corpus_plan.py` tests what is refused and what is found out about a tokenizer.
"""

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from gristmill._native import Tokenizer, check_output
from gristmill.corpus.sizes import limit, size

# Where the formats put what stands between documents: behind each, or before each as llm.c reads
# it.
BEFORE = {"llmc"}
FORMATS = (
    *("megatron", "llmc", "nanogpt", "npy", "dolma", "datatrove", "mds", "litdata"),
    *("parquet", "arrow"),
)
# Formats of sequences of one length: always, or where one is asked for.
SEQUENCES = ("npy",)
SEQUENCES_WHERE_ASKED = ("mds", "litdata", "parquet", "arrow")
# Formats of ids one behind the other, whose files may end at a number of them.
FLAT = ("llmc", "nanogpt", "dolma", "datatrove")
PACKS = ("none", "concat", "bestfit")
WIDTHS = {"uint8": "u8", "uint16": "u16", "int32": "i32", "uint32": "u32"}
INPUT_FORMATS = ("auto", "txt", "jsonl", "csv", "tsv", "parquet", "arrow")
# What ends a document in vocabularies that come without a word about it, in this order.
ENDS = ("<|endoftext|>", "<|end_of_text|>", "</s>", "<eos>", "<|eos|>", "<|end▁of▁sentence|>")
BEGINNINGS = ("<|begin_of_text|>", "<s>", "<bos>", "<|startoftext|>", "<|begin▁of▁sentence|>")
ON_ERROR = ("skip", "quarantine", "stop")
SPECIAL = ("text", "parse", "forbid")


@dataclass(frozen=True, kw_only=True)
class Options:
    """What decides the bytes. The defaults are those of the command line."""

    to: tuple[str, ...] = ("megatron",)
    format: str = "auto"
    field: str = "text"
    separator: str | None = None
    special: str = "text"
    add_special_tokens: bool = False
    bos: str | None = None
    eos: str | None = None
    seq_len: int | None = None
    sequences_per_chunk: int | None = None
    pack: str = "concat"
    dtype: str = "auto"
    shard_tokens: int | None = None
    shard_size: int = 256 * 10**6
    max_document: int = 256 * 10**6
    surrogates: str = "error"
    on_error: str = "quarantine"
    keep_empty: bool = False

    def __post_init__(self) -> None:
        if not self.to:
            raise ValueError("to: name at least one format")
        for name in self.to:
            choose("to", name, FORMATS)
        if len(set(self.to)) < len(self.to):
            raise ValueError(f"to: a format is named twice: {', '.join(self.to)}")
        choose("format", self.format, INPUT_FORMATS)
        choose("special", self.special, SPECIAL)
        choose("on_error", self.on_error, ON_ERROR)
        choose("surrogates", self.surrogates, ("error", "replace"))
        choose("pack", self.pack, PACKS)
        choose("dtype", self.dtype, ("auto", *WIDTHS))
        self.check_sequences()
        if self.separator == "":
            raise ValueError("separator: it has to have at least one character")
        if not self.field:
            raise ValueError("field: it has to have a name")

    def check_sequences(self) -> None:
        """Refuse lengths of sequences and files for formats that have none."""
        for name in ("seq_len", "sequences_per_chunk", "shard_tokens"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ValueError(f"{name}: {value} is not a number of 1 or more")
        takes = [name for name in self.to if name in (*SEQUENCES, *SEQUENCES_WHERE_ASKED)]
        if self.seq_len is None:
            for name in self.to:
                if name in SEQUENCES:
                    raise ValueError(f"seq_len: the format {name} needs the length of a sequence")
            if self.sequences_per_chunk is not None or self.pack != "concat":
                raise ValueError("seq_len: chunks and packing are about sequences of some length")
        elif not takes:
            raise ValueError(
                f"seq_len: {', '.join(self.to)} has documents, not sequences of one length; those "
                f"are for {', '.join((*SEQUENCES, *SEQUENCES_WHERE_ASKED))}"
            )
        if self.shard_tokens is not None and not set(self.to) & set(FLAT):
            raise ValueError(f"shard_tokens: only {', '.join(FLAT)} have files of so many tokens")

    @classmethod
    def made(cls, **given: Any) -> "Options":
        """Options as a user writes them: sizes may be texts, and `to` one name or several."""
        to = given.get("to", cls.to)
        names = to.replace(",", " ").split() if isinstance(to, str) else list(to)
        given["to"] = tuple(names)
        for name in ("shard_size", "max_document"):
            if name in given:
                given[name] = size(given[name])
        return cls(**given)

    def deciding(self) -> dict[str, Any]:
        """All of them, as JSON has them."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        return values | {"to": list(self.to)}

    def read(self) -> dict[str, Any]:
        """How a job reads."""
        names = ("field", "separator", "max_document", "on_error", "surrogates", "keep_empty")
        return {name: getattr(self, name) for name in names}

    def encode(self) -> dict[str, Any]:
        """How a job encodes."""
        return {"special": self.special, "add_special_tokens": self.add_special_tokens}

    def outputs(self, tok: Tokenizer, called: str | None = None) -> list[dict[str, Any]]:
        """What a job writes, with a tokenizer that is called so."""
        outputs = [self.output(name, tok, called) for name in self.to]
        for output in outputs:
            check_output(json.dumps(output))
        return outputs

    def output(self, name: str, tok: Tokenizer, called: str | None) -> dict[str, Any]:
        """What a job writes in one format."""
        before, after = around(name, tok, self)
        sequences = None
        if self.seq_len is not None and name in (*SEQUENCES, *SEQUENCES_WHERE_ASKED):
            sequences = {
                "length": self.seq_len,
                "pack": self.pack,
                # Loss is not taken there; what stands between documents is as good as anything.
                "pad": (after or before or [0])[-1],
                "per_file": self.sequences_per_chunk,
            }
        return {
            "format": name,
            "before": before,
            "after": after,
            "id_end": tok.info["id_end"],
            "width": WIDTHS.get(self.dtype),
            "sequences": sequences,
            "max_tokens": self.shard_tokens if name in FLAT else None,
            "tokenizer": called,
        }


def choose(what: str, name: str, known: Sequence[str]) -> None:
    """Refuse what is not known."""
    if name not in known:
        raise ValueError(f"{what}: {name!r} is none of {', '.join(known)}")


def around(name: str, tok: Tokenizer, options: Options) -> tuple[list[int], list[int]]:
    """The ids before and behind each document of a format.

    Where nothing is said, a document has what the format's own tool gives it: the end of a text
    behind it, or for llm.c before it. With `add_special_tokens` the tokenizer's file says all of
    it.
    """
    before: list[int] = []
    after: list[int] = []
    if options.bos not in (None, "none"):
        before.append(wanted("bos", options.bos, tok))
    if options.eos == "none" or (options.eos is None and options.add_special_tokens):
        return before, after
    end = wanted("eos", options.eos, tok)
    (before if name in BEFORE and options.bos is None else after).append(end)
    return before, after


def wanted(which: str, name: str | None, tok: Tokenizer) -> int:
    """The id of a token that begins or ends documents: the named one, or the tokenizer's own."""
    if name not in (None, "auto"):
        id = tok.token_to_id(name)
        if id is None:
            known = ", ".join(list(tok.special_tokens)[:8])
            raise ValueError(f"{which}: the tokenizer has no token {name!r}; it has {known}")
        return id
    settings = configured(tok, f"{which}_token")
    for candidate in [settings] if settings else ENDS if which == "eos" else BEGINNINGS:
        id = tok.special_tokens.get(candidate)
        if id is not None:
            return id
    what = "ends" if which == "eos" else "begins"
    raise ValueError(
        f"{which}: it is not known which token {what} a document of this tokenizer; name it, "
        f"such as {which}={next(iter(tok.special_tokens), '</s>')!r}, or say {which}='none'"
    )


def configured(tok: Tokenizer, name: str) -> str | None:
    """What the files beside a tokenizer say of a special token."""
    parts = tok.__reduce__()[1]
    path = parts[3] if len(parts) > 3 else None
    if not isinstance(path, (str, os.PathLike)):
        return None
    folder = Path(path) if os.path.isdir(path) else Path(path).parent
    for file in ("tokenizer_config.json", "special_tokens_map.json"):
        try:
            settings = json.loads((folder / file).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            continue
        value = settings.get(name) if isinstance(settings, Mapping) else None
        if isinstance(value, Mapping):
            value = value.get("content")
        if isinstance(value, str):
            return value
    return None


@dataclass(frozen=True, kw_only=True)
class Running:
    """How a run goes about it; none of this changes a byte."""

    threads: int = 0
    max_memory: int = 512 * 10**6
    max_bad: int | float | None = None
    engine: str = "local"
    part: tuple[int, int] | None = None
    overwrite: bool = False

    def __post_init__(self) -> None:
        if self.threads < 0:
            raise ValueError("threads: 0 (one a core) or more")
        choose("engine", self.engine, ("local", "ray"))
        if self.part is not None:
            if self.overwrite:
                raise ValueError("overwrite: a part cannot start anew what other parts work on")
            number, parts = self.part
            if not 1 <= number <= parts:
                raise ValueError(
                    f"part: {number}/{parts} is not one of 1/{parts} to {parts}/{parts}"
                )

    @classmethod
    def made(cls, **given: Any) -> "Running":
        """Options as a user writes them."""
        if isinstance(given.get("max_memory"), str):
            given["max_memory"] = size(given["max_memory"])
        if given.get("max_bad") is not None:
            given["max_bad"] = limit(given["max_bad"])
        part = given.get("part")
        if isinstance(part, str):
            number, slash, parts = part.partition("/")
            if not (slash and number.isdecimal() and parts.isdecimal()):
                raise ValueError(f"part: {part!r} is not i/n, such as 1/8")
            given["part"] = (int(number), int(parts))
        return cls(**given)

    @property
    def workers(self) -> int:
        """Threads, with what there is for 0."""
        if self.threads:
            return self.threads
        try:
            return len(os.sched_getaffinity(0))
        except AttributeError:
            return os.cpu_count() or 1
