"""The command `gristmill bench`, run as a user runs it; speeds are only held to be numbers.

Other libraries are played by stand-ins, so that the tests need none of them.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import gristmill
import pytest

COMMAND = [sys.executable, "-W", "error", "-m", "gristmill", "bench"]
LINES = {"first call", "steady", "again", "list", "batch", "count", "decode"}
# A tiktoken that is Gristmill; `add` makes its ids wrong.
STAND_IN = """
import gristmill
class Encoding:
    def __init__(self, name, pat_str, mergeable_ranks, special_tokens):
        assert len(mergeable_ranks) > 50_000 and pat_str
        self.tok = gristmill.Tokenizer("gpt2")
    def encode_to_numpy(self, text, disallowed_special):
        return self.tok.encode_numpy(text) + {add}
    def encode_ordinary(self, text):
        return self.tok.encode(text)
    def encode_ordinary_batch(self, texts):
        return self.tok.encode_batch(texts)
    def decode(self, ids):
        return self.tok.decode(ids)
"""


def run(
    *arguments: str | Path, stdin: bytes = b"", path: Path | None = None
) -> subprocess.CompletedProcess[bytes]:
    """Run the command to its end."""
    before = [str(path)] if path else []
    paths = os.pathsep.join([*before, *filter(None, [os.environ.get("PYTHONPATH")])])
    return subprocess.run(
        [*COMMAND, "-t", "gpt2", "--runs", "1", *map(str, arguments)],
        input=stdin,
        capture_output=True,
        env={**os.environ, "PYTHONPATH": paths},
    )


@pytest.fixture
def text(tmp_path: Path) -> Path:
    path = tmp_path / "text.txt"
    path.write_text("All is grist that comes to the mill. Naïve 日本語 🙂\n" * 50, encoding="utf-8")
    return path


def stand_in(folder: Path, add: int = 0) -> Path:
    """A folder with a tiktoken of our own."""
    package = folder / "stand-in"
    package.mkdir()
    (package / "tiktoken.py").write_text(STAND_IN.replace("{add}", str(add)))
    return package


def test_table(text: Path) -> None:
    done = run(text, "--peer", "none")
    assert (done.returncode, done.stderr) == (0, b"")
    lines = done.stdout.decode().splitlines()
    assert lines[0].split() == ["gristmill", "MB/s"]
    assert len(lines) == 1 + len(LINES) + 1
    assert all(float(line.split()[0]) > 0 for line in lines[1:-1])
    size = text.stat().st_size
    assert lines[-1].startswith(f"1 file, {size} bytes, ")
    assert "left out" not in done.stdout.decode()


def test_json(text: Path) -> None:
    done = run(text, "--peer", "none", "--format", "json", text)
    found = json.loads(done.stdout)
    assert set(found["MB/s"]) == {"gristmill"}
    assert set(found["MB/s"]["gristmill"]) == LINES
    assert all(speed > 0 for speed in found["MB/s"]["gristmill"].values())
    assert (found["files"], found["runs"]) == (2, 1)
    assert found["bytes"] == 2 * text.stat().st_size
    one = gristmill.Tokenizer("gpt2").count(text.read_text(encoding="utf-8"))
    assert found["tokens"] == 2 * one


def test_standard_input() -> None:
    done = run("--peer", "none", stdin=b"All is grist. " * 100)
    assert (done.returncode, done.stderr) == (0, b"")


def test_one_character() -> None:
    # Its first two thirds are nothing, and so may be its last third.
    assert run("--peer", "none", stdin=b"a").returncode == 0


def test_another_library(text: Path, tmp_path: Path) -> None:
    done = run(text, "--peer", "tiktoken", "--format", "json", path=stand_in(tmp_path))
    assert (done.returncode, done.stderr) == (0, b"")
    found = json.loads(done.stdout)["MB/s"]
    assert list(found) == ["gristmill", "tiktoken"]
    assert found["tiktoken"].pop("count") is None
    assert all(speed > 0 for speed in found["tiktoken"].values())


def test_other_ids_get_no_number(text: Path, tmp_path: Path) -> None:
    done = run(text, "--peer", "tiktoken", path=stand_in(tmp_path, add=1))
    assert done.returncode == 1
    out = done.stdout.decode()
    assert out.splitlines()[0].split() == ["gristmill", "MB/s"]
    assert "left out: tiktoken gives other ids" in out
    assert b"the ids differ from those of tiktoken" in done.stderr
    assert done.stderr.count(b"\n") == 1


def test_library_that_fails(text: Path, tmp_path: Path) -> None:
    package = stand_in(tmp_path)
    (package / "tiktoken.py").write_text("class Encoding:\n    def __init__(self, *_, **__): 1 / 0")
    done = run(text, "--peer", "tiktoken", path=package)
    assert done.returncode == 0
    assert "left out: tiktoken fails: ZeroDivisionError" in done.stdout.decode()


def test_library_that_cannot(text: Path, tmp_path: Path) -> None:
    package = stand_in(tmp_path)
    (package / "tokenizers.py").write_text("class Tokenizer: pass")
    done = run(text, "--peer", "tokenizers", path=package)
    assert "left out: tokenizers cannot load this tokenizer" in done.stdout.decode()


def test_library_that_is_not_installed(
    text: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    from gristmill.cli import main

    assert main(["bench", str(text), "-t", "gpt2", "--runs", "1", "--peer", "gigatoken"]) == 0
    assert "left out: gigatoken is not installed" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--runs", "0"], "from 1 to 1000"),
        (["--runs", "x"], "from 1 to 1000"),
        (["--peer", "tiktokn"], "'tiktokn'"),
        (["--format", "xml"], "'xml'"),
    ],
)
def test_wrong_command_line(arguments: list[str], message: str) -> None:
    done = run(*arguments)
    assert done.returncode == 2
    assert message in done.stderr.decode()


def test_bad_input(tmp_path: Path) -> None:
    done = run(tmp_path / "missing")
    assert done.returncode == 1
    assert b"missing: No such file" in done.stderr
    done = run("--peer", "none", stdin=b"")
    assert (done.returncode, done.stdout) == (1, b"")
    assert b"the input is empty" in done.stderr
    done = run("--peer", "none", stdin=b"ab\xff")
    assert done.returncode == 1
    assert b"not UTF-8 at byte 2" in done.stderr


def test_a_corpus_without_other_libraries(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text('{"text": "one"}\n{"text": "two words"}\n' * 50)
    ended = subprocess.run(
        [*COMMAND, "corpus", path, "-t", "gpt2", "--num-docs", "30"], capture_output=True
    )
    assert ended.returncode == 0
    assert ended.stdout.startswith(b"30 documents, ")
    assert b"gristmill tokenize, 1 thread" in ended.stdout
    assert b"left out: tokenizers" in ended.stdout


def test_a_corpus_that_is_not_there(tmp_path: Path) -> None:
    path = tmp_path / "none.jsonl"
    ended = subprocess.run([*COMMAND, "corpus", path, "-t", "gpt2"], capture_output=True)
    assert ended.returncode == 1
    assert b"none.jsonl" in ended.stderr


def test_serve(tmp_path: Path) -> None:
    """Without other libraries: ours alone, and what was left out is named."""
    kept = tmp_path / "kept.json"
    arguments = ["serve", "-t", "gpt2", "--runs", "2", "--json", str(kept)]
    done = subprocess.run([*COMMAND, *arguments], capture_output=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert b"left out: tokenizers and transformers, since this is no tokenizer.json" in done.stdout
    assert b"left out: tokenize 16 prompts, 8 of them chats" in done.stdout
    facts = json.loads(kept.read_text())
    assert facts["debug_build"] is False
    rows = {(row["row"], row["arm"]): row for row in facts["rows"]}
    for streams in ("1 stream", "16 streams", "256 streams"):
        for arm in ("gristmill", "gristmill, flat", "gristmill, stop strings"):
            row = rows[f"a step of {streams}", arm]
            assert len(row["runs"]) == 2
            assert all(0 <= one < 1e6 for one in row["runs"])
    assert ("the text of an id, for logprobs", "gristmill") in rows
    assert ("the message of a step of 256", "gristmill") in rows
