"""`gristmill tokenize`, run as a user runs it."""

import json
import os
import pty
import subprocess
import sys
from pathlib import Path

import corpora
import pytest
import tiny
from gristmill import Tokenizer

COMMAND = [sys.executable, "-W", "error", "-m", "gristmill", "tokenize"]
TEXTS = corpora.texts(300, seed=3)


def run(*arguments: object, stdin: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*COMMAND, *map(str, arguments)], input=stdin, capture_output=True, check=False, text=True
    )


@pytest.fixture
def source(tmp_path: Path) -> Path:
    return corpora.folder_of(
        tmp_path / "in", {"a.jsonl": corpora.jsonl(TEXTS), "notes.md": b"not data"}
    )


def test_it_makes_files_and_says_what_it_did(source: Path, tmp_path: Path, gpt2: Tokenizer) -> None:
    out = tmp_path / "out"
    ended = run(source, "-o", out, "-t", "gpt2")
    assert ended.returncode == 0
    lines = ended.stdout.splitlines()
    assert lines[0] == "300 records = 300 documents + 0 empty + 0 bad"
    assert f"written as megatron to {out}" in lines[1]
    assert lines[-1] == f"left out, not known as texts: 1 files, {source / 'notes.md'}"
    assert corpora.megatron(out) == corpora.expected(gpt2, TEXTS)


def test_bad_records_decide_the_exit_code(source: Path, tmp_path: Path) -> None:
    with open(source / "a.jsonl", "ab") as file:
        file.write(b"{bad\n")
    ended = run(source, "-o", tmp_path / "out", "-t", "gpt2", "--progress", "none")
    assert ended.returncode == 3
    assert ended.stderr == ""
    assert "301 records = 300 documents + 0 empty + 1 bad" in ended.stdout
    assert "bad: 1 invalid JSON" in ended.stdout
    # Also when there was nothing left to do.
    assert run(source, "-o", tmp_path / "out", "-t", "gpt2").returncode == 3
    ended = run(source, "-o", tmp_path / "stop", "-t", "gpt2", "--on-error", "stop")
    assert ended.returncode == 1
    assert "a.jsonl" in ended.stderr
    ended = run(source, "-o", tmp_path / "max", "-t", "gpt2", "--max-bad", "0")
    assert ended.returncode == 1
    assert "1 records are bad, and --max-bad allows 0" in ended.stderr


def test_json_on_request(source: Path, tmp_path: Path) -> None:
    ended = run(source, "-o", tmp_path / "out", "-t", "gpt2", "--progress", "json")
    assert ended.returncode == 0
    progress = [json.loads(line) for line in ended.stderr.splitlines()]
    assert progress[-1]["documents"] == 300
    assert progress[-1]["bytes_done"] == progress[-1]["bytes"]
    assert json.loads(ended.stdout)["report"]["documents"] == 300


def test_plain_lines_where_there_is_no_terminal(source: Path, tmp_path: Path) -> None:
    ended = run(source, "-o", tmp_path / "out", "-t", "gpt2")
    (line,) = ended.stderr.splitlines()
    assert line.startswith("100%  1/1 files  ")
    assert "300 docs" in line


def test_a_picture_on_a_terminal(source: Path, tmp_path: Path) -> None:
    reader, writer = pty.openpty()
    process = subprocess.Popen(
        [*COMMAND, str(source), "-o", str(tmp_path / "out"), "-t", "gpt2"],
        stdout=subprocess.PIPE,
        stderr=writer,
        env=os.environ | {"TERM": "xterm-256color", "COLUMNS": "90"},
    )
    os.close(writer)
    shown = b""
    while True:
        try:
            part = os.read(reader, 4096)
        except OSError:
            break
        if not part:
            break
        shown += part
    os.close(reader)
    process.communicate()
    assert process.returncode == 0
    for word in (b"100%", b"documents", b"300", b"bound by", b"memory"):
        assert word in shown


def test_an_estimate_makes_nothing(source: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    ended = run(source, "-o", out, "-t", "gpt2", "--dry-run")
    assert ended.returncode == 0
    assert "documents  300" in ended.stdout
    assert not out.exists()
    ended = run(source, "-o", out, "-t", "gpt2", "--dry-run", "--progress", "json")
    assert json.loads(ended.stdout)["estimate"]["documents"]["value"] == 300


def test_the_flags_of_other_scripts(source: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    ended = run(
        *("--input-dir", source, "--output-dir", out, "-t", "gpt2", "--num-workers", 2),
        *("--batch-size", 100, "--prefetch-files", 4),
        *("--to", "npy", "--seq-len", 16, "--sequences-per-chunk", 50),
    )
    assert ended.returncode == 0
    assert "--batch-size and --prefetch-files have no effect" in ended.stderr
    assert len(list((out / "npy").glob("*.npy"))) > 3


def test_several_parts(source: Path, tmp_path: Path) -> None:
    ended = [
        run(source, "-o", tmp_path / "out", "-t", "gpt2", "--shard-size", "2kB", "--part", part)
        for part in ("1/2", "2/2")
    ]
    assert [one.returncode for one in ended] == [0, 0]
    assert "other parts make the rest" in ended[0].stderr
    assert "other parts" not in ended[1].stderr
    assert ended[1].stdout.startswith("300 records = 300 documents")


def test_a_tokenizer_whose_end_is_not_known_asks_for_it(source: Path, tmp_path: Path) -> None:
    path = tmp_path / "tokenizer.model"
    path.write_bytes(tiny.rank_file())
    given = (source, "-o", tmp_path / "out", "-t", path, "--pattern", tiny.PATTERN)
    ended = run(*given)
    assert ended.returncode == 2
    assert ended.stderr.startswith("gristmill: error: --eos: it is not known which token ends")
    assert not (tmp_path / "out").exists()
    assert run(*given, "--eos", "none").returncode == 0


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["-o", "OUT", "-t", "gpt2"], 2, "no inputs"),
        (["IN", "-t", "gpt2"], 2, "no output"),
        (["IN", "-o", "OUT"], 2, "-t/--tokenizer"),
        (["IN", "-o", "OUT", "-t", "gpt2", "--to", "tfrecord"], 2, "--to: 'tfrecord' is none of"),
        (["IN", "-o", "OUT", "-t", "gpt2", "--to", "npy"], 2, "--seq-len: the format npy needs"),
        (["IN", "-o", "OUT", "-t", "gpt2", "--seq-len", "8"], 2, "--seq-len: megatron has doc"),
        (["IN", "-o", "OUT", "-t", "gpt2", "--shard-size", "x"], 2, "'x' is not a size"),
        (["IN", "-o", "OUT", "-t", "gpt2", "--part", "5/4"], 2, "5/4 is not one of 1/4 to 4/4"),
        (["IN", "-o", "OUT", "-t", "gpt2", "--eos", "</doc>"], 2, "no token '</doc>'"),
        (["nothing*", "-o", "OUT", "-t", "gpt2"], 1, "nothing*: no file matches"),
        (["IN/none", "-o", "OUT", "-t", "gpt2"], 1, "No such file"),
        (["IN/notes.md", "-o", "IN/notes.md", "-t", "gpt2"], 1, "notes.md: File exists"),
    ],
)
def test_what_is_wrong_is_one_line(
    source: Path, tmp_path: Path, arguments: list[str], code: int, said: str
) -> None:
    given = [
        one.replace("IN", str(source)).replace("OUT", str(tmp_path / "out")) for one in arguments
    ]
    ended = run(*given)
    assert (ended.returncode, ended.stdout) == (code, "")
    assert said in ended.stderr
    assert ended.stderr.startswith("gristmill: error: ")
    assert ended.stderr.count("\n") == 1
    assert not (tmp_path / "out" / "plan.json").exists()


def test_formats_that_cannot_be_read_are_named(tmp_path: Path) -> None:
    source = corpora.folder_of(tmp_path / "in", {"a.txt": b"%PDF-1.7 ..."})
    ended = run(source, "-o", tmp_path / "out", "-t", "gpt2")
    assert ended.returncode == 1
    assert "a.txt: it is a PDF document" in ended.stderr
    assert ended.stderr.count("\n") == 1


def test_text_by_separator(tmp_path: Path, gpt2: Tokenizer) -> None:
    source = corpora.folder_of(tmp_path / "in", {"a.txt": b"one\ntwo\n\nthree"})
    out = tmp_path / "out"
    assert run(source, "-o", out, "-t", "gpt2", "--separator", r"\n").returncode == 0
    assert corpora.megatron(out) == corpora.expected(gpt2, ["one", "two", "three"])
    out = tmp_path / "whole"
    assert run(source, "-o", out, "-t", "gpt2").returncode == 0
    assert corpora.megatron(out) == corpora.expected(gpt2, ["one\ntwo\n\nthree"])


def test_standard_input_is_kept(tmp_path: Path, gpt2: Tokenizer) -> None:
    out = tmp_path / "out"
    texts = corpora.jsonl(TEXTS).decode()
    assert run("-", "-o", out, "-t", "gpt2", stdin=texts).returncode == 0
    assert corpora.megatron(out) == corpora.expected(gpt2, TEXTS)
    assert (out / "stdin").read_text() == texts
    assert run("-", "-o", out, "-t", "gpt2", stdin=texts).returncode == 0
    assert run("-", "-o", out, "-t", "gpt2").returncode == 0
    for other in (texts + "{}", texts[:-1], "x" + texts):
        ended = run("-", "-o", out, "-t", "gpt2", stdin=other)
        assert ended.returncode == 1
        assert "standard input is not what this run began with" in ended.stderr
    assert run("-", "-o", out, "-t", "gpt2", "--overwrite", stdin='{"text": "a"}').returncode == 0
    assert corpora.megatron(out) == corpora.expected(gpt2, ["a"])


def test_files_of_columns(tmp_path: Path, gpt2: Tokenizer) -> None:
    source = corpora.folder_of(
        tmp_path / "in",
        {
            "a.csv": b'body,id\n"one, two",1\nthree,2\n',
            "b.tsv": b"id\tbody\n1\tfour\n",
        },
    )
    out = tmp_path / "out"
    assert run(source, "-o", out, "-t", "gpt2", "--field", "body").returncode == 0
    assert corpora.megatron(out) == corpora.expected(gpt2, ["one, two", "three", "four"])
