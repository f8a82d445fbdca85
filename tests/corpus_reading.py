"""The slow truth for the readers of corpora: plain Python, one record after the other.

A record is a text, or the reason why it is none. However a file is cut and compressed, and by
however many threads it is read, Gristmill has to find these records.
"""

import bz2
import csv
import gzip
import io
import json
import lzma
import re
from collections.abc import Callable
from typing import Any

import zstandard

Records = list[tuple[str, str]]
"""For each record "text" and the text, or "bad" and the reason."""

COMPRESS: dict[str, Callable[[bytes], bytes]] = {
    "none": bytes,
    "gzip": gzip.compress,
    "zstd": zstandard.compress,
    "bz2": bz2.compress,
    "xz": lzma.compress,
}
ENDINGS = {"none": "", "gzip": ".gz", "zstd": ".zst", "bz2": ".bz2", "xz": ".xz"}


def jsonl(data: bytes, field: str = "text", replace: bool = False) -> Records:
    """The records of a file of JSON lines."""
    data = data.removeprefix(b"\xef\xbb\xbf")
    records: Records = []
    for line in data.split(b"\n"):
        if line.strip(b" \t\r"):
            records.append(json_line(line, field.split("."), replace))
    return records


def json_line(line: bytes, path: list[str], replace: bool) -> tuple[str, str]:
    try:
        value: Any = json.loads(line.decode())
    except UnicodeDecodeError:
        return "bad", "invalid UTF-8"
    except ValueError:
        return "bad", "invalid JSON"
    if not isinstance(value, dict):
        return "bad", "not an object"
    for name in path:
        if not isinstance(value, dict) or name not in value:
            return "bad", "no such field"
        value = value[name]
    if value is None:
        return "bad", "null"
    if isinstance(value, list):
        return "bad", "list"
    if not isinstance(value, str):
        return "bad", "not a string"
    if re.search("[\ud800-\udfff]", value):
        if not replace:
            return "bad", "lone surrogate"
        value = re.sub("[\ud800-\udfff]", "\ufffd", value)
    return "text", value


def txt(data: bytes, separator: str | None) -> Records:
    """The records of a text file."""
    data = data.removeprefix(b"\xef\xbb\xbf")
    parts = [data]
    if separator is not None:
        parts = data.split(separator.encode())
        if not parts[-1]:
            parts.pop()
    records: Records = []
    for part in parts:
        try:
            text = part.decode()
        except UnicodeDecodeError:
            records.append(("bad", "invalid UTF-8"))
            continue
        records.append(("text", text.removesuffix("\r") if separator == "\n" else text))
    return records


def csv_rows(data: bytes, field: str = "text", comma: str = ",") -> Records:
    """The records of a file of comma-separated values."""
    text = data.removeprefix(b"\xef\xbb\xbf").decode(errors="surrogateescape")
    rows = [row for row in csv.reader(io.StringIO(text, newline=""), delimiter=comma) if row]
    if not rows:
        return []
    column = len(rows[0]) - 1 - rows[0][::-1].index(field)
    records: Records = []
    for row in rows[1:]:
        if re.search("[\udc80-\udcff]", "".join(row)):
            records.append(("bad", "invalid UTF-8"))
        elif len(row) <= column:
            records.append(("bad", "no such field"))
        else:
            records.append(("text", row[column]))
    return records
