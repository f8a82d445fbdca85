"""Reading corpora: the records that a slow reader in plain Python finds.

Files are cut into units of any size, read in blocks of any size by any number of threads, and
compressed. What comes out is read back from Megatron's files, whose ids a byte-level tokenizer
decodes exactly, and from the quarantine.
"""

import itertools
import json
from collections import Counter
from pathlib import Path
from typing import Any

import corpus_reading as slow
import gristmill
import numpy as np
import pytest
from gristmill import _native

TOKENIZER = gristmill.Tokenizer("gpt2")
READ = {
    "field": "text",
    "separator": None,
    "max_document": 1 << 28,
    "on_error": "quarantine",
    "surrogates": "error",
    "keep_empty": True,
}

HOSTILE_JSON = [
    b'{"text": "plain"}',
    b'{"id": 1, "text": "two\\nlines \\u00e9\\u4e2d\\ud83d\\ude00"}',
    b'{"text": "\\"quoted\\" \\\\ \\/ \\b\\f\\r\\t"}',
    b'{"text": ""}',
    b"   \t ",
    b"",
    b"\r",
    b'{"text": "crlf"}\r',
    b'  {"text" : "spaces" , "x" : [ 1 , 2 ] }  ',
    b'{"text": null}',
    b'{"text": ["a"]}',
    b'{"text": 5}',
    b'{"text": {"text": "inner"}}',
    b'{"other": "x"}',
    b'["text", "x"]',
    b'"text"',
    b"12",
    b'{"text": "first", "text": "last"}',
    b'{"text": "first", "text": null}',
    b'{"text": 1, "te\\u0078t": "escaped key"}',
    b'{"text": "ok", "n": NaN, "i": [Infinity, -Infinity], "e": -1.5e+10, "z": 0, "m": -0.0}',
    b'{"text": "bad number", "n": 01}',
    b'{"text": "bad number", "n": 1.}',
    b'{"text": "bad number", "n": -}',
    b'{"text": "bad number", "n": 1e}',
    b'{"text": "bad number", "n": .5}',
    b'{"text": "bad number", "n": +1}',
    b'{"text": "bad word", "n": nul}',
    b'{"text": "cut", "meta": ',
    b'{"text": "junk"} junk',
    b'{"text": "twice"}{"text": "twice"}',
    b'{"text": "comma",}',
    b'{,"text": "comma"}',
    b'{"text" "colon"}',
    b"{'text': 'quotes'}",
    b'{"text": "open',
    b'{"text": "bad escape \\x"}',
    b'{"text": "bad escape \\u12g4"}',
    b'{"text": "bad escape \\u12"}',
    b'{"text": "control \x01"}',
    b'{"text": "tab \t"}',
    b'{"text": "nul \x00"}',
    b"\x00\x00\x00",
    b'{"text": "lone \\ud800"}',
    b'{"text": "lone \\udc00 low"}',
    b'{"text": "swapped \\udc00\\ud800"}',
    b'{"text": "two high \\ud83d\\ud83d\\ude00"}',
    b'{"text": "high, then letter \\ud83dx"}',
    b'{"text": "other field", "o": "\\ud800", "\\ud800": 1}',
    b'{"text": "invalid \xff"}',
    b'{"text": "fine", "o": "\xc3"}',
    b'{"text": "surrogate in UTF-8 \xed\xa0\x80"}',
    '{"text": "naïve 中文 🙂 <|endoftext|> \x7f"}'.encode(),
    b'{"text": "deep", "d": ' + b"[" * 300 + b"]" * 300 + b"}",
    b'{"text": "crossed", "d": [{]}}',
    b'{"a": {"text": "not here"}}',
    b'{"text": "' + b"long " * 60 + b'"}',
    b"{}",
    b"[]",
    b"}",
    b"",
    b'{"text": "no end of line"}',
]
HOSTILE = b"\xef\xbb\xbf" + b"\n".join(HOSTILE_JSON)


def job(path: Path, folder: Path, unit_bytes: int = 1 << 26, **read: Any) -> dict[str, Any]:
    read = {**READ, **read}
    separator = read["separator"]
    found = json.loads(_native.inspect_input(path, separator=separator, unit_bytes=unit_bytes))
    unit = {name: found[name] for name in ("path", "format", "compression", "size", "modified")}
    return {
        "number": 0,
        "folder": str(folder),
        "units": [{**unit, **part} for part in found["units"]],
        "read": read,
        "encode": {"special": "text", "add_special_tokens": False},
        "outputs": [{"format": "megatron", "id_end": 50257}],
        "shard_bytes": None,
        "skip": 0,
    }


def run(*jobs: dict[str, Any], threads: int = 1, block_bytes: int = 0) -> list[dict[str, Any]]:
    reports: list[str] = []
    _native.run_jobs(
        TOKENIZER,
        [json.dumps(one) for one in jobs],
        threads=threads,
        max_memory=1 << 28,
        on_shard=reports.append,
        block_bytes=block_bytes,
    )
    return [json.loads(report) for report in reports]


def texts(folder: Path, shard: str = "shard-000000") -> list[str]:
    """The documents of a shard, decoded."""
    ids = np.fromfile(folder / f"megatron/{shard}.bin", dtype=np.uint16)
    index = (folder / f"megatron/{shard}.idx").read_bytes()
    sequences, ends = np.frombuffer(index, np.int64, 2, 18)
    lengths = np.frombuffer(index, np.int32, sequences, 34)
    documents = np.frombuffer(index, np.int64, ends, 34 + 12 * sequences)
    found = []
    at = 0
    for first, end in itertools.pairwise(documents):
        length = int(lengths[first:end].sum())
        found.append(TOKENIZER.decode(ids[at : at + length]))
        at += length
    assert at == len(ids)
    return found


def quarantined(folder: Path, shard: str = "shard-000000") -> list[dict[str, Any]]:
    path = folder / f"quarantine/{shard}.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def check(folder: Path, report: dict[str, Any], records: slow.Records) -> None:
    """A shard and its report hold exactly these records."""
    wanted = [text for kind, text in records if kind == "text"]
    bad = [reason for kind, reason in records if kind == "bad"]
    assert texts(folder) == wanted
    assert [line["reason"] for line in quarantined(folder)] == bad
    assert report["bad"] == dict(Counter(bad))
    assert report["records"] == len(records)
    assert report["documents"] == len(wanted)
    assert report["empty"] == 0
    assert report["text_bytes"] == sum(len(text.encode()) for text in wanted)


@pytest.mark.parametrize("surrogates", ["error", "replace"])
def test_hostile_lines_of_json_are_read_as_json_loads_reads_them(
    tmp_path: Path, surrogates: str
) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(HOSTILE)
    [report] = run(job(path, tmp_path, surrogates=surrogates))
    records = slow.jsonl(HOSTILE, replace=surrogates == "replace")
    check(tmp_path, report, records)
    for line in quarantined(tmp_path):
        # Each bad record is found again where the quarantine says that it is.
        begins = HOSTILE[line["offset"] :].split(b"\n")[0][:200]
        assert line["begins"] == begins.decode(errors="backslashreplace")
        assert line["file"] == str(path)
        assert records[line["record"]] == ("bad", line["reason"])


@pytest.mark.parametrize("threads", [1, 2, 7])
@pytest.mark.parametrize("block_bytes", [1, 2, 3, 7, 64, 1000, 0])
def test_blocks_and_threads_change_nothing(tmp_path: Path, threads: int, block_bytes: int) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(HOSTILE)
    [report] = run(job(path, tmp_path), threads=threads, block_bytes=block_bytes)
    check(tmp_path, report, slow.jsonl(HOSTILE))


def test_any_cutting_into_units_gives_the_same(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(HOSTILE)
    records = slow.jsonl(HOSTILE)
    for unit_bytes in [1, 2, 3, 5, 17, 100, 1000, len(HOSTILE) - 1, len(HOSTILE)]:
        [report] = run(job(path, tmp_path, unit_bytes), threads=2, block_bytes=unit_bytes % 70)
        check(tmp_path, report, records)


@pytest.mark.parametrize("compression", slow.COMPRESS)
def test_compressed_files_hold_the_same(tmp_path: Path, compression: str) -> None:
    data = HOSTILE * 20
    path = tmp_path / "no_ending"
    # Two members, frames or streams: the cut is inside of a record.
    compress = slow.COMPRESS[compression]
    path.write_bytes(compress(data[:3000]) + compress(data[3000:]))
    for threads, block_bytes in [(1, 0), (1, 10), (2, 100), (7, 1000)]:
        [report] = run(job(path, tmp_path), threads=threads, block_bytes=block_bytes)
        check(tmp_path, report, slow.jsonl(data))


SEPARATORS = [None, "\n", "\r\n", "\n\n", "<|doc|>", "aab", "é"]
HOSTILE_TEXT = (
    b"one\n\ntwo\r\n\r\n\n\n\nthree <|doc|><|doc|> four<|do <|doc|aabaaab aab\xff bad\n\r\n\r\r\n"
    + "é中é\x00\n<|doc|>éé".encode()
    + b"\n\n\n\nlast\n\n"
)


@pytest.mark.parametrize("separator", SEPARATORS)
def test_text_is_cut_at_separators(tmp_path: Path, separator: str | None) -> None:
    path = tmp_path / "a.txt"
    few = [b"", b"\n", b"\xef\xbb\xbf", b"\xef\xbb\xbfa", b"a\r"]
    for number, data in enumerate([HOSTILE_TEXT, HOSTILE_TEXT + b"x", *few]):
        path.write_bytes(data)
        folder = tmp_path / str(number)
        for unit_bytes, block_bytes in [(1 << 20, 0), (1 << 20, 1), (1, 1), (3, 2), (10, 100)]:
            one = job(path, folder, unit_bytes, separator=separator)
            [report] = run(one, threads=2, block_bytes=block_bytes)
            check(folder, report, slow.txt(data, separator))
