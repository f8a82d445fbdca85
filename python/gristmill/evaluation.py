"""Judging a vocabulary: how well a tokenizer, or several, does on texts of several kinds.

    >>> import gristmill
    >>> tok = gristmill.Tokenizer("gpt2")
    >>> report = gristmill.evaluate(tok, {"en": ["All is grist."], "de": ["Alles ist Korn."]})
    >>> report.rows[0].tokens
    5

The measures of a kind of text, `Row`:

    bytes_per_token   how much text a token stands for
    fertility         tokens for each word between white space
    whole_words       the share of these words that are one token, as they stand after a space
    coverage          the share of characters that are not made of single bytes or an unknown token
    parity            tokens for each byte of a text, relative to the best of the kinds: 1 is best
    renyi             Rényi efficiency of order 2.5 of the tokens seen: 1 if all are used alike

`tests/test_evaluate.py` compares them with the definitions in plain Python.
"""

import html
import math
import unicodedata
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from gristmill._native import Tokenizer

__all__ = ["Report", "Row", "compare", "evaluate"]

# The order at which the efficiency has been found to follow the quality of models.
RENYI_ORDER = 2.5

_COLUMNS = [
    ("bytes_per_token", "bytes/token"),
    ("fertility", "tokens/word"),
    ("whole_words", "whole words"),
    ("coverage", "coverage"),
    ("parity", "parity"),
    ("renyi", "Rényi"),
]


@dataclass(frozen=True)
class Row:
    """How one tokenizer does on one kind of text."""

    tokenizer: str
    texts: str
    bytes: int
    characters: int
    words: int
    tokens: int
    bytes_per_token: float
    fertility: float
    whole_words: float
    coverage: float
    parity: float
    renyi: float


@dataclass(frozen=True)
class Report:
    """How tokenizers do; prints as a table."""

    rows: list[Row] = field(default_factory=list)

    def __str__(self) -> str:
        header = ["tokenizer", "texts", "bytes", "tokens", *(name for _, name in _COLUMNS)]
        lines = [header, *(_cells(row) for row in self.rows)]
        widths = [max(len(line[at]) for line in lines) for at in range(len(header))]
        return "\n".join(
            "  ".join(
                cell.ljust(width) if at < 2 else cell.rjust(width)
                for at, (cell, width) in enumerate(zip(line, widths, strict=True))
            ).rstrip()
            for line in lines
        )

    def as_json(self) -> list[dict[str, Any]]:
        """The rows as plain values."""
        return [asdict(row) for row in self.rows]

    def to_html(self) -> str:
        """A page with the table and a picture of each measure, without anything from elsewhere."""
        return _page(self.rows)

    def save(self, path: str | Path) -> None:
        """Write the page."""
        Path(path).write_text(self.to_html(), encoding="utf-8")


def evaluate(
    tok: Tokenizer, texts: Mapping[str, Iterable[str]], *, name: str = "tokenizer"
) -> Report:
    """Measure a tokenizer on several kinds of text, such as languages."""
    return compare({name: tok}, texts)


def compare(
    toks: Mapping[str, Tokenizer] | Sequence[Tokenizer], texts: Mapping[str, Iterable[str]]
) -> Report:
    """Measure several tokenizers, by name or in their order, on the same texts."""
    if not isinstance(toks, Mapping):
        toks = {_name(tok, number): tok for number, tok in enumerate(toks, 1)}
    lists = {kind: list(of_kind) for kind, of_kind in texts.items()}
    if not lists:
        raise ValueError("no texts to measure")
    for kind, of_kind in lists.items():
        if not any(of_kind):
            raise ValueError(f"no text in {kind!r}")
    rows = []
    for name, tok in toks.items():
        measured = [_measure(name, tok, kind, of_kind) for kind, of_kind in lists.items()]
        best = min(row.tokens / row.bytes for row in measured)
        rows += [replace(row, parity=row.tokens / row.bytes / best) for row in measured]
    return Report(rows)


def _name(tok: Tokenizer, number: int) -> str:
    shown = repr(tok)
    return shown[11:-2] if shown.startswith("Tokenizer('") else f"tokenizer {number}"


def _measure(name: str, tok: Tokenizer, kind: str, texts: list[str]) -> Row:
    bytes_ = characters = words = tokens = 0
    used: Counter[int] = Counter()
    spoken: Counter[str] = Counter()
    for text, ids in zip(texts, tok.encode_batch(texts), strict=True):
        bytes_ += len(text.encode())
        characters += len(text)
        tokens += len(ids)
        used.update(ids)
        spoken.update(text.split())
    words = sum(spoken.values())
    seen = list(spoken)
    lengths = _lengths(tok, seen)
    whole = sum(spoken[word] for word, length in zip(seen, lengths, strict=True) if length == 1)
    return Row(
        tokenizer=name,
        texts=kind,
        bytes=bytes_,
        characters=characters,
        words=words,
        tokens=tokens,
        bytes_per_token=bytes_ / tokens if tokens else math.inf,
        fertility=tokens / words if words else math.nan,
        whole_words=whole / words if words else math.nan,
        coverage=_coverage(tok, used, characters),
        parity=1.0,
        renyi=_renyi(used, tok.vocab_size),
    )


def _lengths(tok: Tokenizer, words: list[str]) -> list[int]:
    """The tokens of each word after a space, where that is part of the word's own token."""
    with_space = tok.count_batch([f" {word}" for word in words])
    bare = tok.count_batch(words)
    return [min(pair) for pair in zip(with_space, bare, strict=True)]


def _coverage(tok: Tokenizer, used: Mapping[int, int], characters: int) -> float:
    """The share of characters that tokens of whole characters stand for."""
    broken = 0
    for id, count in used.items():
        token = tok.token_bytes(id)
        spelled = tok.id_to_token(id)
        is_byte_piece = len(spelled) == 6 and spelled.startswith("<0x")
        if is_byte_piece:
            token = bytes([int(spelled[3:5], 16)])
        if spelled == "<unk>" or not _is_text(token):
            # A character is counted where it begins.
            starts = sum(byte & 0xC0 != 0x80 for byte in token) if spelled != "<unk>" else 1
            broken += count * starts
    return max(0.0, 1 - broken / characters) if characters else math.nan


def _is_text(token: bytes) -> bool:
    try:
        token.decode()
    except UnicodeDecodeError:
        return False
    return True


def _renyi(used: Mapping[int, int], vocab_size: int) -> float:
    total = sum(used.values())
    if total == 0 or vocab_size < 2:
        return math.nan
    power = math.fsum((count / total) ** RENYI_ORDER for count in used.values())
    return math.log(power) / (1 - RENYI_ORDER) / math.log(vocab_size)


def _cells(row: Row) -> list[str]:
    numbers = [_number(getattr(row, column)) for column, _ in _COLUMNS]
    return [row.tokenizer, row.texts, f"{row.bytes:,}", f"{row.tokens:,}", *numbers]


def _number(value: float) -> str:
    return "-" if math.isnan(value) else f"{value:.3f}"


# --- the page

_COLOURS = ["#3b6ea5", "#c8722c", "#5a8f3c", "#8a5a9e", "#b03a48", "#6b6b6b"]
_STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 64rem; color: #222;
       background: #fff; padding: 0 1rem }
h1 { font-size: 1.5rem } h2 { font-size: 1.05rem; margin: 2rem 0 .3rem }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums }
th, td { padding: .3rem .6rem; text-align: right; border-bottom: 1px solid #ddd }
th:nth-child(-n+2), td:nth-child(-n+2) { text-align: left }
p { color: #555; margin: .2rem 0 } .key span { margin-right: 1.2rem }
svg { width: 100%; height: auto } text { font: 12px system-ui, sans-serif; fill: #222 }
"""
_MEANING = {
    "bytes_per_token": "How much text a token stands for; more is better.",
    "fertility": "Tokens for each word between white space; fewer is better.",
    "whole_words": "The share of words that are one token; more is better.",
    "coverage": "The share of characters that are not taken apart into bytes; 1 is best.",
    "parity": "Tokens for each byte, relative to the kind of text that does best; 1 is best.",
    "renyi": "How evenly the vocabulary is used (Rényi efficiency of order 2.5); more is better.",
}


def _page(rows: list[Row]) -> str:
    names = list(dict.fromkeys(row.tokenizer for row in rows))
    header = ["tokenizer", "texts", "bytes", "tokens", *(name for _, name in _COLUMNS)]
    table = "".join(
        "<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in _cells(row)) + "</tr>\n"
        for row in rows
    )
    key = "".join(
        f'<span><b style="color:{_COLOURS[at % len(_COLOURS)]}">■</b> {html.escape(name)}</span>'
        for at, name in enumerate(names)
    )
    charts = "".join(
        f"<h2>{html.escape(name)}</h2><p>{html.escape(_MEANING[column])}</p>"
        f"{_chart(rows, names, column)}\n"
        for column, name in _COLUMNS
    )
    return (
        "<!doctype html>\n<html lang='en'><head><meta charset='utf-8'>"
        f"<title>Tokenizers compared</title><style>{_STYLE}</style></head>\n<body>"
        f"<h1>Tokenizers compared</h1><p class='key'>{key}</p>\n<table><tr>"
        + "".join(f"<th>{html.escape(name)}</th>" for name in header)
        + f"</tr>\n{table}</table>\n{charts}</body></html>\n"
    )


def _shortened(name: str, most: int = 21) -> str:
    """A name that fits beside its bars; the middle is left out first."""

    def width(text: str) -> int:
        return sum(2 if unicodedata.east_asian_width(char) in "WF" else 1 for char in text)

    if width(name) <= most:
        return name
    begin, end = name[: len(name) // 2], name[len(name) // 2 :]
    while width(begin) + 1 + width(end) > most:
        if width(begin) > width(end):
            begin = begin[:-1]
        else:
            end = end[1:]
    return f"{begin}…{end}"


def _chart(rows: list[Row], names: list[str], column: str) -> str:
    """Bars, grouped by kind of text, as SVG."""
    kinds = list(dict.fromkeys(row.texts for row in rows))
    values = {(row.texts, row.tokenizer): getattr(row, column) for row in rows}
    finite = [value for value in values.values() if math.isfinite(value)]
    most = max(finite, default=1.0) or 1.0
    bar, gap, left, width = 16, 10, 150, 900
    parts, at = [], 0
    for kind in kinds:
        middle = at + bar * len(names) / 2 + 4
        parts.append(
            f"<text x='{left - 8}' y='{middle}' text-anchor='end'>"
            f"<title>{html.escape(kind)}</title>{html.escape(_shortened(kind))}</text>"
        )
        for number, name in enumerate(names):
            value = values[kind, name]
            long = 0.0 if not math.isfinite(value) else value / most * (width - left - 70)
            colour = _COLOURS[number % len(_COLOURS)]
            parts.append(
                f"<rect x='{left}' y='{at + 1}' width='{long:.1f}' height='{bar - 2}' rx='2' "
                f"fill='{colour}'/><text x='{left + long + 5:.1f}' y='{at + bar - 4}'>"
                f"{_number(value)}</text>"
            )
            at += bar
        at += gap
    return f"<svg viewBox='0 0 {width} {at}' role='img'>{''.join(parts)}</svg>"
