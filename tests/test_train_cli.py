"""The commands `train` and `evaluate`, run as a user runs them."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import tiny
from gristmill import Tokenizer, Trainer
from gristmill.cli.progress import Display

COMMAND = [sys.executable, "-W", "error", "-m", "gristmill"]


def run(*arguments: object, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [*COMMAND, *map(str, arguments)], input=stdin, capture_output=True, check=False
    )


@pytest.fixture
def text(tmp_path: Path) -> Path:
    path = tmp_path / "text.txt"
    path.write_text(tiny.PARAGRAPH * 3, encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("name", "parity"),
    [
        ("t.json", "rustbpe"),
        ("t.json", "hf"),
        ("t.tiktoken", "cs336"),
        ("t.model", "sentencepiece"),
    ],
)
def test_train(text: Path, tmp_path: Path, name: str, parity: str) -> None:
    out = tmp_path / name
    done = run("train", text, "--vocab-size", 400, "-o", out, "--parity", parity)
    assert done.returncode == 0, done.stderr
    assert done.stdout == b""
    assert b" tokens" in done.stderr
    expected = Trainer(400, parity=parity).train_files(text)  # type: ignore[arg-type]
    options = {"pattern": expected.info["pattern"]} if name.endswith("tiktoken") else {}
    made = Tokenizer(out, **options)
    assert made.encode(tiny.PARAGRAPH) == expected.encode(tiny.PARAGRAPH)
    assert sorted(os.listdir(tmp_path)) == sorted(["text.txt", name])


def test_train_from_a_pipe(tmp_path: Path) -> None:
    out = tmp_path / "t.json"
    arguments = ["--no-pattern", "--special-token", "<|a|>", "--special-token", "<|b|>", "-q"]
    done = run("train", "-n", 260, "-o", out, *arguments, stdin=b"abab\nabab\n")
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
    assert Tokenizer(out).special_tokens == {"<|a|>": 258, "<|b|>": 259}


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["missing.txt", "-n", 300, "-o", "t.json"], b"missing.txt"),
        (["{text}", "-n", 10, "-o", "t.json"], b"256 bytes"),
        (["{text}", "-n", 300, "-o", "t.json", "--pattern", "("], b"error"),
        (["{text}", "-n", 600, "-o", "t.model", "--parity", "hf"], b"writing"),
        (["a.parquet", "-n", 300, "-o", "t.json"], b"iterator"),
        (["{text}", "-n", 300, "-o", "nowhere/t.json"], b"cannot write"),
    ],
)
def test_what_cannot_be_trained(
    text: Path,
    arguments: list[object],
    says: bytes,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    given = [str(argument).replace("{text}", str(text)) for argument in arguments]
    done = run("train", *given, "-q")
    assert done.returncode == 1
    assert says in done.stderr
    assert done.stderr.count(b"\n") == 1
    assert os.listdir(tmp_path) == ["text.txt"]


def test_what_is_not_utf8(tmp_path: Path) -> None:
    (tmp_path / "bad.txt").write_bytes(b"fine\nb\xffd\n")
    done = run("train", tmp_path / "bad.txt", "-n", 300, "-o", tmp_path / "t.json", "-q")
    assert done.returncode == 1
    assert b"not UTF-8 at byte 1 (in text 1" in done.stderr


def on_a_terminal(columns: int, *arguments: object) -> tuple[int, str]:
    """Run a command whose standard error is a terminal; its exit status and what that shows."""
    import fcntl
    import pty
    import struct
    import termios

    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    with subprocess.Popen([*COMMAND, *map(str, arguments)], stderr=theirs) as process:
        os.close(theirs)
        shown = b""
        # The system's way to say that nobody has the other end any more.
        with contextlib.suppress(OSError):
            while part := os.read(ours, 1 << 16):
                shown += part
        os.close(ours)
    return process.returncode, shown.decode()


@pytest.mark.skipif(sys.platform == "win32", reason="needs terminals of POSIX")
@pytest.mark.parametrize("columns", [20, 60, 300])
def test_the_line_on_a_terminal(columns: int, tmp_path: Path) -> None:
    text = tmp_path / "text.txt"
    text.write_text(tiny.PARAGRAPH * 6000, encoding="utf-8")
    out = tmp_path / "t.json"
    status, shown = on_a_terminal(columns, "train", text, "-n", 1000, "-o", out, "--threads", 1)
    assert status == 0
    lines, last = shown.split("\r\n")[:2]
    assert last == f"{out}: {Tokenizer(out).vocab_size} tokens"
    begun, *lines_shown = lines.split("\r")
    assert begun == ""
    for line in lines_shown:
        # Each clears what is left of the one before, and none goes on in the next row.
        assert line.endswith("\x1b[K")
        assert len(line.removesuffix("\x1b[K")) < columns
    assert lines_shown[0].startswith("counting")
    assert any(line.startswith("merging") for line in lines_shown)
    if columns == 300:
        size = f"{text.stat().st_size / 1e6:,.1f}"
        assert f" of {size} MB read" in lines_shown[0]


def test_what_the_line_says() -> None:
    display = Display(total=300_000_000)
    step = {"stage": "counting", "texts": 9, "words": 7, "pairs": 0, "merges": 0, "wanted": 0}
    parts = display.parts(step | {"bytes": 100_000_000}, 2.0)
    assert {"50 MB/s", "4 s left", "100.0 of 300.0 MB read"} <= {part for _, part in parts}
    step |= {"stage": "merging", "bytes": 300_000_000, "merges": 250, "wanted": 1000, "pairs": 70}
    parts = display.parts(step, 0.5)
    assert {"500 pairs/s", "2 s left", "250 of 1,000 merges"} <= {part for _, part in parts}
    # Too early for either.
    assert not any("left" in part for _, part in display.parts(step, 0.01))


@pytest.mark.skipif(sys.platform == "win32", reason="needs signals of POSIX")
def test_an_interrupt_leaves_nothing(tmp_path: Path) -> None:
    process = subprocess.Popen(
        [*COMMAND, "train", "-", "-n", "300", "-o", str(tmp_path / "t.json")],
        stdin=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=os.environ | {"TMPDIR": str(tmp_path)},
    )
    assert process.stdin is not None
    process.stdin.write(tiny.PARAGRAPH.encode() * 4000)
    process.stdin.flush()
    time.sleep(0.3)
    process.send_signal(signal.SIGINT)
    process.stdin.close()
    assert process.stderr is not None
    with process.stderr:
        process.stderr.read()
    assert process.wait(5) == 130
    assert os.listdir(tmp_path) == []


def test_evaluate(text: Path, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    done = run("evaluate", text, "-t", "gpt2", "-t", "o200k_base", "--html", page)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.decode().splitlines()
    assert [line.split()[0] for line in lines] == ["tokenizer", "gpt2", "o200k_base"]
    assert page.read_text(encoding="utf-8").startswith("<!doctype html>")
    done = run("evaluate", text, "-t", "gpt2", "--format", "json")
    assert json.loads(done.stdout)[0]["texts"] == "text.txt"
    done = run("evaluate", "-t", "gpt2")
    assert (done.returncode, done.stdout) == (1, b"")
    assert b"no text" in done.stderr
