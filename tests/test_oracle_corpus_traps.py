"""The traps of reading corpora, by name, with the counts that have to come out."""

import bz2
import gzip
import itertools
import json
import lzma
import os
import random
from pathlib import Path
from typing import Any

import corpus_reading as slow
import gristmill
import pytest
import zstandard
from gristmill import _native
from test_oracle_corpus_read import TOKENIZER, check, job, quarantined, run, texts


def lines(count: int, seed: int = 0) -> list[bytes]:
    """Lines of JSON that do not compress to nothing."""
    words = random.Random(seed)
    return [
        json.dumps({"id": at, "text": f"document {at}: {words.random()} {words.random()}"}).encode()
        for at in range(count)
    ]


def records(found: list[bytes]) -> slow.Records:
    return slow.jsonl(b"\n".join(found))


# --- archives


def test_all_members_of_gzip_are_read_and_the_zeros_between_them(tmp_path: Path) -> None:
    data = b"\n".join(lines(1000))
    path = tmp_path / "a.jsonl.gz"
    parts = [data[:5000], b"", data[5000:5001], data[5001:]]
    path.write_bytes(b"\0\0\0".join(gzip.compress(part) for part in parts) + b"\0" * 600_000)
    [report] = run(job(path, tmp_path))
    check(tmp_path, report, slow.jsonl(data))


def test_all_frames_of_zstandard_are_read_and_long_windows(tmp_path: Path) -> None:
    data = b"\n".join(lines(1000))
    long = zstandard.ZstdCompressionParameters(window_log=30, enable_ldm=True)
    path = tmp_path / "a.jsonl.zst"
    skippable = b"\x50\x2a\x4d\x18\x04\0\0\0skip"
    parts = [
        zstandard.compress(data[:5000]),
        zstandard.ZstdCompressor(compression_params=long).compress(data[5000:]),
    ]
    path.write_bytes(skippable + skippable.join(parts))
    [report] = run(job(path, tmp_path))
    check(tmp_path, report, slow.jsonl(data))


@pytest.mark.parametrize(
    ("compression", "compress"),
    [
        ("gzip", gzip.compress),
        ("zstd", zstandard.compress),
        ("bz2", bz2.compress),
        ("xz", lzma.compress),
    ],
)
def test_an_archive_cut_off_anywhere_is_partial(
    tmp_path: Path, compression: str, compress: Any
) -> None:
    found = lines(2000)
    whole = compress(b"\n".join(found))
    path = tmp_path / "a"
    everything = records(found)
    kept = set()
    # In the header, in the middle, and where only the checksum is missing.
    for number, size in enumerate([7, len(whole) // 2, len(whole) - 2000, len(whole) - 1]):
        path.write_bytes(whole[:size])
        folder = tmp_path / str(number)
        planned = job(path, folder, format="jsonl")
        [report] = run(planned, threads=2)
        for block_bytes in [1, 100, 70_000]:
            [again] = run(planned, block_bytes=block_bytes)
            assert {**again, "read_bytes": 0} == {**report, "read_bytes": 0}
        assert report["partial"] == [str(path)]
        assert report["bad"] == {"cut off": 1}
        documents = texts(folder)
        assert [("text", text) for text in documents] == everything[: len(documents)]
        assert report["records"] == len(documents) + 1
        [line] = quarantined(folder)
        assert line["reason"] == "cut off"
        assert line["damage"]
        kept.add(len(documents))
        with pytest.raises(gristmill.CorpusError, match="cut off"):
            run(job(path, folder, format="jsonl", on_error="stop"))
    assert 0 in kept
    assert max(kept) >= 1700


@pytest.mark.parametrize("compress", [gzip.compress, zstandard.compress, lzma.compress])
def test_an_archive_with_a_wrong_byte_is_partial(tmp_path: Path, compress: Any) -> None:
    data = b"\n".join(lines(2000))
    whole = bytearray(
        zstandard.ZstdCompressor(write_checksum=True).compress(data)
        if compress is zstandard.compress
        else compress(data)
    )
    whole[len(whole) // 2] ^= 0x55
    path = tmp_path / "a"
    path.write_bytes(whole)
    planned = job(path, tmp_path)
    [report] = run(planned)
    for block_bytes in [1, 100, 70_000]:
        [again] = run(planned, block_bytes=block_bytes)
        assert {**again, "read_bytes": 0} == {**report, "read_bytes": 0}
    # What was read before the damage was noticed may hold wrong letters, but not silently.
    assert report["partial"] == [str(path)]
    assert report["bad"]["cut off"] == 1


def test_junk_behind_an_archive_is_damage(tmp_path: Path) -> None:
    found = lines(10)
    path = tmp_path / "a.gz"
    path.write_bytes(gzip.compress(b"\n".join(found) + b"\n") + b"junk")
    [report] = run(job(path, tmp_path))
    assert report["documents"] == 10
    assert report["bad"] == {"cut off": 1}


# --- what a file is


@pytest.mark.parametrize(
    ("name", "data", "format", "compression"),
    [
        ("a.JSONL", b'{"text": "x"}', "jsonl", "none"),
        ("a.json", b'{"text": "x"}\n', "jsonl", "none"),
        ("a.ndjson", b"", "jsonl", "none"),
        ("a.json.gz", gzip.compress(b'{"text": "x"}'), "jsonl", "gzip"),
        ("a.jsonl.zstd", zstandard.compress(b'{"text": "x"}'), "jsonl", "zstd"),
        ("no_ending", b' \n{"text": "x"}', "jsonl", "none"),
        ("no_ending", b"plain text", "txt", "none"),
        ("gzip_without_ending", gzip.compress(b'{"text": "x"}'), "jsonl", "gzip"),
        ("a.txt", b'{"text": "x"}', "txt", "none"),
        ("a.txt.bz2", bz2.compress(b"x"), "txt", "bz2"),
        ("a.csv.xz", lzma.compress(b"text\nx"), "csv", "xz"),
        ("a.tsv", b"text\nx", "tsv", "none"),
        ("a.txt.gz", b"", "txt", "gzip"),
        ("nul.txt", b"a\0b", "txt", "none"),
    ],
)
def test_what_a_file_is_is_seen_in_it(
    tmp_path: Path, name: str, data: bytes, format: str, compression: str
) -> None:
    path = tmp_path / name
    path.write_bytes(data)
    found = json.loads(_native.inspect_input(path))
    assert (found["format"], found["compression"]) == (format, compression)
    assert (found["size"], found["modified"]) == (len(data), path.stat().st_mtime_ns)


@pytest.mark.parametrize(
    ("name", "data", "what"),
    [
        ("a.txt", b"%PDF-1.7", "a PDF"),
        ("a.jsonl", b"PK\x03\x04", "a zip archive"),
        ("a.txt.gz", b"not compressed", "not gz"),
        ("a.parquet", b"not a table", "not parquet"),
        ("a", bytes(range(256)), "not text"),
        ("a.json", b'[{"text": "x"}]', "one JSON document"),
        ("a.json", b'{\n  "text": "x"\n}', "one JSON document"),
        ("a.txt", "text".encode("utf-16"), "UTF-16"),
        ("a.gz", gzip.compress(b"%PDF-1.7"), "a PDF"),
        ("a.tar.gz", gzip.compress(b"name".ljust(257, b"\0") + b"ustar\x0000"), "a tar archive"),
        ("a.txt.lz4", b"\x04\x22\x4d\x18", "LZ4"),
    ],
)
def test_what_is_no_text_is_refused_by_name(
    tmp_path: Path, name: str, data: bytes, what: str
) -> None:
    path = tmp_path / name
    path.write_bytes(data)
    with pytest.raises(gristmill.CorpusError, match=what) as error:
        _native.inspect_input(path)
    assert str(path) in str(error.value)


# --- what happens under way


def test_a_file_that_changed_since_the_plan_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(b"\n".join(lines(10)))
    planned = job(path, tmp_path)
    os.utime(path, ns=(0, planned["units"][0]["modified"] + 1))
    with pytest.raises(gristmill.CorpusError, match="has changed"):
        run(planned)
    os.utime(path, ns=(0, planned["units"][0]["modified"]))
    run(planned)
    with path.open("ab") as file:
        file.write(b"\n")
    with pytest.raises(gristmill.CorpusError, match="has changed"):
        run(planned)
    path.unlink()
    with pytest.raises(FileNotFoundError) as error:
        run(planned)
    assert error.value.filename == str(path)


def test_a_file_that_changes_while_it_is_read_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(b"\n".join(lines(40_000)))
    planned = {**job(path, tmp_path), "shard_bytes": 50_000}

    def touch(_: str) -> None:
        os.utime(path)

    with pytest.raises(gristmill.CorpusError, match="has changed"):
        _native.run_job(
            TOKENIZER, json.dumps(planned), threads=1, max_memory=1 << 22, on_shard=touch
        )


def test_what_a_callback_raises_ends_the_run(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(b"\n".join(lines(3000)))
    planned = json.dumps({**job(path, tmp_path), "shard_bytes": 10_000})
    seen = []

    def stop(report: str) -> None:
        seen.append(json.loads(report)["shard"])
        raise KeyError("full")

    with pytest.raises(KeyError, match="full"):
        _native.run_job(TOKENIZER, planned, threads=2, max_memory=1 << 28, on_shard=stop)
    # What is under its name was told of, or is written over by the next run.
    assert seen[0] == 0
    assert not list(tmp_path.glob("**/shard-000000-0000*.aside"))


def test_output_that_cannot_be_written_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(b"\n".join(lines(10)))
    (tmp_path / "file").touch()
    with pytest.raises(OSError, match=r"Not a directory|File exists"):
        run(job(path, tmp_path / "file"))


def test_shards_end_by_text_and_are_the_same_when_some_exist(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl.gz"
    found = lines(500)
    for at in range(0, 500, 7):
        found[at] = b"bad"
    found[20] = b'{"text": ""}'
    path.write_bytes(gzip.compress(b"\n".join(found)))
    whole = {**job(path, tmp_path / "whole", keep_empty=False), "shard_bytes": 2000}
    reports = run(whole, threads=1)
    assert [report["last"] for report in reports] == [False] * (len(reports) - 1) + [True]
    assert sum(report["records"] for report in reports) == 500
    assert sum(report["bad"]["invalid JSON"] for report in reports) == 72
    assert sum(report["empty"] for report in reports) == 1
    assert all(2000 <= report["text_bytes"] < 2060 for report in reports[:-1])
    names = [f"shard-000000-{number:04}" for number in range(len(reports))]
    documents = [texts(tmp_path / "whole", name) for name in names]
    wanted = [text for kind, text in records(found) if kind == "text" and text]
    assert list(itertools.chain(*documents)) == wanted
    for skip in range(len(reports)):
        folder = tmp_path / str(skip)
        rest = {**whole, "folder": str(folder), "skip": skip}
        again = run(rest, threads=1 + skip % 3, block_bytes=1 + skip * 37)
        for before, after in zip(reports[skip:], again, strict=True):
            # How much had to be read for a shard depends on the blocks.
            assert {**before, "read_bytes": 0} == {**after, "read_bytes": 0}
        for report in again:
            for file in report["files"]:
                one, other = tmp_path / "whole" / file["name"], folder / file["name"]
                assert one.read_bytes() == other.read_bytes()


# --- documents of every length


@pytest.mark.parametrize("block_bytes", [1, 10, 64, 300, 0])
@pytest.mark.parametrize("compress", [bytes, gzip.compress])
def test_documents_that_are_too_long_are_bad_records(
    tmp_path: Path, block_bytes: int, compress: Any
) -> None:
    texts_of = ["x" * 90, "x" * 100, "x" * 101, "short", "x" * 5000, "", "x" * 99, "x" * 1000]
    path = tmp_path / "a.txt"
    path.write_bytes(compress("\n".join(texts_of).encode()))
    wanted: slow.Records = [
        ("text", text) if len(text) <= 100 else ("bad", "too long") for text in texts_of
    ]
    one = job(path, tmp_path, separator="\n", max_document=100)
    [report] = run(one, threads=2, block_bytes=block_bytes)
    check(tmp_path, report, wanted)
    assert [line["begins"] for line in quarantined(tmp_path)] == [
        "x" * 101,
        "x" * 200,
        "x" * 200,
    ]
    assert [line["offset"] for line in quarantined(tmp_path)] == [192, 300, 5402]


def test_a_document_as_long_as_a_file_is_encoded_as_one(tmp_path: Path) -> None:
    text = "One document without an end, 12345 words; naïve 中文🙂 \t\n" * 20_000
    path = tmp_path / "a.txt"
    path.write_text(text, newline="")
    [report] = run(job(path, tmp_path), threads=2, block_bytes=1000)
    assert report["documents"] == 1
    assert report["tokens"] == len(TOKENIZER.encode(text))
    assert texts(tmp_path) == [text]


def test_special_tokens_in_texts(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes(b"a<|endoftext|>\nb\n<|endoftext|>\n")
    planned = job(path, tmp_path, separator="\n")
    tokens = {"text": 16, "parse": 4, "forbid": 1}
    for special, count in tokens.items():
        planned["encode"]["special"] = special
        [report] = run(planned)
        assert report["tokens"] == count
        assert report["bad"] == ({"special token": 2} if special == "forbid" else {})
    with pytest.raises(gristmill.CorpusError, match="forbid"):
        run({**planned, "encode": {"special": "?", "add_special_tokens": False}})


def test_bad_records_are_skipped_kept_or_stop_the_run(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(b'{"text": "good"}\nbad \xff\n{"text": "good"}\n')
    [report] = run(job(path, tmp_path / "skip", on_error="skip"))
    assert (report["documents"], report["bad"]) == (2, {"invalid UTF-8": 1})
    assert not (tmp_path / "skip/quarantine").exists()
    [report] = run(job(path, tmp_path / "keep"))
    [line] = quarantined(tmp_path / "keep")
    assert line == {
        "file": str(path),
        "offset": 17,
        "record": 1,
        "reason": "invalid UTF-8",
        "at": 4,
        "begins": "bad \\xff",
    }
    with pytest.raises(gristmill.CorpusError, match="at byte 17 is bad: invalid UTF-8"):
        run(job(path, tmp_path / "stop", on_error="stop"))
    assert not list((tmp_path / "stop/megatron").iterdir())
