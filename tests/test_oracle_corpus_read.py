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
import pyarrow as pa
import pyarrow.parquet as pq
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


HOSTILE_CSV = (
    b'\xef\xbb\xbf\r\nid,text,"text",x\r\n1,a,plain,z\n2,,"quoted, with ""quotes""",z\r\n'
    b'3,,"two\nlines\r\nthree\rfour",z\r\r\n\n4,,,z\n5,,"",z\n6\n7,short\n8,,in"side"," z\n'
    b'"\n9,,"closed" behind"x",z\n10,,\xff,z\n\xff,,fine,z\n11,,more,z,and,more\n'
    b'12,,"""",z\n13,,"a""",z\n14,, "spaced" ,z\n15,,last'
)


def job(
    path: Path, folder: Path, unit_bytes: int = 1 << 26, format: str | None = None, **read: Any
) -> dict[str, Any]:
    read = {**READ, **read}
    separator = read["separator"]
    found = json.loads(
        _native.inspect_input(path, format=format, separator=separator, unit_bytes=unit_bytes)
    )
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


@pytest.mark.parametrize("comma", [",", "\t"])
def test_csv_is_read_as_the_csv_module_reads_it(tmp_path: Path, comma: str) -> None:
    path = tmp_path / ("a.csv" if comma == "," else "a.tsv")
    for number, end in enumerate([b"", b"\n", b"\r", b",z\r\n\r\n"]):
        data = (HOSTILE_CSV + end).replace(b",", comma.encode())
        path.write_bytes(data)
        folder = tmp_path / str(number)
        for threads, block_bytes in [(1, 0), (2, 1), (1, 2), (7, 3), (2, 50)]:
            [report] = run(job(path, folder), threads=threads, block_bytes=block_bytes)
            check(folder, report, slow.csv_rows(data, comma=comma))


def test_quotes_that_never_end_are_one_bad_record(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes(b'text\ngood\n"never\nends\n' + b"more\n" * 100)
    [report] = run(job(path, tmp_path), block_bytes=10)
    check(tmp_path, report, [("text", "good"), ("bad", "unclosed quote")])


def test_a_table_without_the_column_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes(b"id,body\n1,x\n")
    with pytest.raises(gristmill.CorpusError, match='no column "text", but id, body'):
        run(job(path, tmp_path))
    [report] = run(job(path, tmp_path, field="body"))
    check(tmp_path, report, [("text", "x")])


def columns() -> dict[str, pa.Array]:
    """The same texts as columns of every kind that holds texts."""
    values = ["plain", None, "", "naïve 中文 🙂", "long " * 50, "<|endoftext|>", "plain"] * 9
    strings = pa.array(values)
    nested = pa.array([None if at % 5 == 4 else {"body": text} for at, text in enumerate(values)])
    return {
        "string": strings,
        "large_string": strings.cast(pa.large_string()),
        "string_view": strings.cast(pa.string_view()),
        "dictionary": strings.dictionary_encode(),
        "binary": strings.cast(pa.binary()),
        "nested.body": nested,
        "null": pa.nulls(len(values)),
    }


def rows_of(column: pa.Array) -> slow.Records:
    records: slow.Records = []
    for value in column.to_pylist():
        text = value["body"] if isinstance(value, dict) else value
        text = text.decode() if isinstance(text, bytes) else text
        records.append(("bad", "null") if text is None else ("text", text))
    return records


@pytest.mark.parametrize("name", columns())
def test_columns_of_every_kind(tmp_path: Path, name: str) -> None:
    column = columns()[name]
    table = pa.table({"id": pa.array(range(len(column))), name.split(".")[0]: column})
    paths = {kind: tmp_path / kind for kind in ["parquet", "file", "stream"]}
    if name != "string_view":
        pq.write_table(table, paths["parquet"], row_group_size=10, compression="zstd")
    else:
        del paths["parquet"]
    with pa.ipc.new_file(paths["file"], table.schema) as writer:
        writer.write_table(table, max_chunksize=10)
    options = pa.ipc.IpcWriteOptions(compression="lz4")
    with pa.ipc.new_stream(paths["stream"], table.schema, options=options) as writer:
        writer.write_table(table, max_chunksize=10)
    for kind, path in paths.items():
        for unit_bytes, block_bytes in [(1 << 26, 0), (1, 1), (1000, 100)]:
            folder = tmp_path / f"{kind} {unit_bytes}"
            one = job(path, folder, unit_bytes, field=name)
            assert (len(one["units"]) > 1) == (unit_bytes < 1 << 26 and kind != "stream")
            [report] = run(one, threads=2, block_bytes=block_bytes)
            check(folder, report, rows_of(column))


def test_bytes_that_are_no_utf8_are_bad_rows(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"text": [b"good", b"bad \xff", b"good"]}), path)
    [report] = run(job(path, tmp_path))
    check(tmp_path, report, [("text", "good"), ("bad", "invalid UTF-8"), ("text", "good")])
    assert quarantined(tmp_path)[0]["offset"] == 1


@pytest.mark.parametrize("compression", ["none", "snappy", "gzip", "lz4", "zstd"])
def test_parquet_of_every_compression(tmp_path: Path, compression: str) -> None:
    path = tmp_path / "a"
    column = columns()["string"]
    pq.write_table(pa.table({"text": column}), path, compression=compression)
    found = json.loads(_native.inspect_input(path))
    assert (found["format"], found["rows"]) == ("parquet", len(column))
    [report] = run(job(path, tmp_path))
    check(tmp_path, report, rows_of(column))
    with pytest.raises(gristmill.CorpusError, match="no column"):
        run(job(path, tmp_path, field="other"))
    pq.write_table(pa.table({"text": [1, 2]}), path)
    with pytest.raises(gristmill.CorpusError, match="no text but Int64"):
        run(job(path, tmp_path))
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(gristmill.CorpusError, match="cannot be read"):
        job(path, tmp_path)
