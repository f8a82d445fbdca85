"""The command `gristmill`, run as a user runs it.

Expected ids were made with tiktoken 0.14.0 from the rank files of the embedded tokenizers.
"""

import base64
import json
import os
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import gristmill
import numpy as np
import pytest
from gristmill.cli import main
from gristmill.cli.arguments import COMMANDS

# Warnings are errors here too.
COMMAND = [sys.executable, "-W", "error", "-m", "gristmill"]
TOKENIZER = ["-t", "o200k_base"]
TEXT = "naïve 日本語 🙂\n"
IDS = [1503, 9954, 737, 17428, 40909, 171593]
END = "<|endoftext|>"
END_AS_TEXT = [27, 91, 419, 1440, 919, 91, 29]

posix = pytest.mark.skipif(sys.platform == "win32", reason="needs signals and pipes of POSIX")


class Done:
    """What a run left behind."""

    def __init__(self, code: int, out: bytes, err: bytes) -> None:
        self.code = code
        self.out = out
        self.err = err.decode().replace("\r\n", "\n")

    @property
    def text(self) -> str:
        return self.out.decode().replace("\r\n", "\n")

    def failed(self, code: int = 1) -> str:
        """The one line of a failure, without its beginning."""
        assert self.code == code, self.err
        assert self.err.startswith("gristmill: error: ")
        assert self.err.count("\n") == 1
        assert self.err.endswith("\n")
        return self.err.removeprefix("gristmill: error: ").rstrip("\n")


def run(
    *arguments: str | Path,
    stdin: bytes | str = b"",
    cwd: Path | None = None,
    env: dict[str, str] | None = None,
) -> Done:
    """Run the command to its end."""
    done = subprocess.run(
        [*COMMAND, *map(str, arguments)],
        input=stdin.encode() if isinstance(stdin, str) else stdin,
        capture_output=True,
        cwd=cwd,
        env={**os.environ, **(env or {})},
    )
    return Done(done.returncode, done.stdout, done.stderr)


def good(*arguments: str | Path, stdin: bytes | str = b"", cwd: Path | None = None) -> Done:
    """Run the command; it must do its job and say nothing more."""
    done = run(*arguments, stdin=stdin, cwd=cwd)
    assert done.err == ""
    assert done.code == 0
    return done


@pytest.fixture
def ranks(tmp_path: Path) -> Path:
    """A rank file of the bytes and `ab`, `abc`."""
    tokens = [bytes([byte]) for byte in range(256)] + [b"ab", b"abc"]
    path = tmp_path / "tiny.tiktoken"
    path.write_bytes(
        b"".join(base64.b64encode(token) + b" %d\n" % id for id, token in enumerate(tokens))
    )
    return path


# --- the command line itself


def test_version() -> None:
    assert good("--version").text == f"gristmill {gristmill.__version__}\n"


@pytest.mark.parametrize("command", ["encode", "decode", "count", "info", "bench"])
def test_help(command: str) -> None:
    assert command in good("--help").text
    text = good(command, "--help").text
    assert text.startswith(f"usage: gristmill {command}")
    assert "o200k_harmony" in text


@pytest.mark.parametrize("command", COMMANDS)
def test_help_of_each_command(command: str) -> None:
    text = good(command, "--help").text
    assert text.startswith(f"usage: gristmill {command} ")
    assert "--help" in text


def test_no_command() -> None:
    assert "encode, decode, count, info, bench" in run().failed(2)


def test_mistyped_command() -> None:
    message = run("cout", "x").failed(2)
    assert "'cout'; did you mean count?" in message
    assert "gristmill --help" in message


@pytest.mark.parametrize("flag", ["--fromat", "--fromat=json"])
def test_mistyped_option(flag: str) -> None:
    assert "; did you mean --format?" in run("encode", *TOKENIZER, flag).failed(2)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["count", "x"], "-t/--tokenizer"),
        (["count", *TOKENIZER, "--nope"], "--nope"),
        (["encode", *TOKENIZER, "--format", "xml"], "'xml'"),
        (["encode", *TOKENIZER, "--special", "parse", "--allow", END], "not allowed with"),
        (["encode", *TOKENIZER, "--special-token", "x"], "NAME=ID"),
        (["encode", *TOKENIZER, "--special-token", "x=-1"], "NAME=ID"),
        (["encode", *TOKENIZER, "--special-token", "x=4294967296"], "at most 4294967295"),
        (["encode", *TOKENIZER, "--offsets"], "--offsets is for --format json"),
        (["encode", *TOKENIZER, "--tokens", "--format", "bin"], "--tokens is for --format json"),
        (["encode", *TOKENIZER, "--dtype", "uint16"], "--dtype is for --format bin"),
        (["decode", *TOKENIZER, "--dtype", "uint16"], "--dtype is for --format bin"),
        (["info"], "TOKENIZER"),
        (["info", "gpt2", "cl100k_base"], "cl100k_base"),
    ],
)
def test_wrong_command_line(arguments: list[str], message: str) -> None:
    assert message in run(*arguments).failed(2)


def test_options_between_files(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("one")
    (tmp_path / "b").write_text("two")
    assert good("encode", "a", *TOKENIZER, "b", cwd=tmp_path).text == "690\n38397\n"
    assert good("encode", *TOKENIZER, "--", "a", cwd=tmp_path).text == "690\n"


def test_output_that_is_a_folder(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("one")
    message = run("encode", "a", *TOKENIZER, "-o", tmp_path, cwd=tmp_path).failed()
    assert f"cannot write {tmp_path}: Is a directory" in message


# --- tokenizers


def test_mistyped_tokenizer() -> None:
    message = run("count", "-t", "o200k-base").failed()
    assert "no tokenizer 'o200k-base'" in message
    assert "did you mean o200k_base" in message


def test_missing_tokenizer_file(tmp_path: Path) -> None:
    message = run("count", "-t", tmp_path / "tokenizer.json").failed()
    assert "tokenizer.json" in message
    assert "no file" in message


def test_folder_without_tokenizer(tmp_path: Path) -> None:
    (tmp_path / "weights.bin").write_bytes(b"")
    message = run("count", "-t", tmp_path).failed()
    assert str(tmp_path) in message
    assert "tokenizer.json" in message
    assert "tekken.json" in message


def test_file_that_is_no_tokenizer(tmp_path: Path) -> None:
    path = tmp_path / "tokenizer.json"
    path.write_text("Once upon a time")
    assert "tokenizer.json" in run("count", "-t", path).failed()


def test_rank_file(ranks: Path) -> None:
    arguments = ["-t", str(ranks), "--pattern", r"\S+|\s+", "--special-token", "<end>=300"]
    assert good("encode", *arguments, stdin="abcab <end>").text == "257 256 32 60 101 110 100 62\n"
    parsed = good("encode", *arguments, "--special", "parse", stdin="abcab <end>")
    assert parsed.text == "257 256 32 300\n"
    assert good("decode", *arguments, stdin="257 300").out == b"abc<end>"
    facts = json.loads(good("info", "--json", *arguments[1:]).text)
    assert facts["special_tokens"] == {"<end>": 300}


def test_rank_file_needs_a_pattern(ranks: Path) -> None:
    assert "pattern" in run("encode", "-t", ranks, stdin="abc").failed()


def test_pattern_is_for_rank_files() -> None:
    assert "pattern" in run("encode", *TOKENIZER, "--pattern", "x", stdin="abc").failed()


def test_path_of_an_embedded_name(ranks: Path) -> None:
    # A name is the embedded tokenizer; with a folder before it, it is the file.
    ranks.rename(ranks.parent / "o200k_base")
    assert good("encode", *TOKENIZER, stdin="abc", cwd=ranks.parent).text != "257\n"
    path = ["-t", "./o200k_base", "--pattern", r"\S+|\s+"]
    assert good("encode", *path, stdin="abc", cwd=ranks.parent).text == "257\n"


FAKE_HUB = """
from pathlib import Path
from . import errors
def snapshot_download(repo_id, **options):
    if repo_id != "org/name":
        raise errors.RepositoryNotFoundError("404")
    return {folder!r}
"""
FAKE_ERRORS = """
class HFValidationError(ValueError): pass
class RepositoryNotFoundError(OSError): pass
class GatedRepoError(RepositoryNotFoundError): pass
class RevisionNotFoundError(OSError): pass
class LocalEntryNotFoundError(FileNotFoundError): pass
"""


def test_hub_repository(ranks: Path, tmp_path: Path) -> None:
    package = tmp_path / "client" / "huggingface_hub"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text(FAKE_HUB.format(folder=str(ranks.parent)))
    (package / "errors.py").write_text(FAKE_ERRORS)
    path = os.pathsep.join(filter(None, [str(package.parent), os.environ.get("PYTHONPATH")]))
    arguments = ["--pattern", r"\S+|\s+"]
    done = run("encode", "-t", "org/name", *arguments, stdin="abc", env={"PYTHONPATH": path})
    assert (done.code, done.text) == (0, "257\n")
    done = run("encode", "-t", "org/other", *arguments, stdin="abc", env={"PYTHONPATH": path})
    message = done.failed()
    assert "no file 'org/other'" in message
    assert "no hub repository org/other" in message


def test_hub_repository_without_the_extra(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert main(["count", "-t", "org/name"]) == 1
    assert "pip install 'gristmill[hub]'" in capsys.readouterr().err


# --- encode


def test_encode_stdin() -> None:
    expected = " ".join(map(str, IDS)) + "\n"
    assert good("encode", *TOKENIZER, stdin=TEXT).text == expected
    assert good("encode", "-", *TOKENIZER, stdin=TEXT).text == expected


def test_encode_files(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("Hello, world!")
    (tmp_path / "empty").write_text("")
    done = good("encode", *TOKENIZER, "a", "empty", "-", cwd=tmp_path, stdin="one")
    assert done.text == "13225 11 2375 0\n\n690\n"


def test_encode_lines(tmp_path: Path) -> None:
    done = good("encode", *TOKENIZER, "--lines", stdin="Hello, world!\n\none")
    assert done.text == "13225 11 2375 0\n\n690\n"
    assert good("encode", *TOKENIZER, "--lines", stdin="").text == ""


def test_only_a_newline_ends_a_line() -> None:
    texts = ["a\rb\r", "a\x0bb", "a\x85b", "a\u2028b"]
    done = good("encode", *TOKENIZER, "--lines", stdin="\n".join(texts) + "\n")
    tok = gristmill.Tokenizer("o200k_base")
    assert [list(map(int, line.split())) for line in done.text.splitlines()] == [
        tok.encode(text) for text in texts
    ]


def test_encode_json(tmp_path: Path) -> None:
    (tmp_path / "ä").write_text("one", encoding="utf-8")
    done = good("encode", *TOKENIZER, "--format", "json", "ä", "-", cwd=tmp_path, stdin="two")
    assert [json.loads(line) for line in done.text.splitlines()] == [
        {"file": "ä", "ids": [690]},
        {"file": "-", "ids": [38397]},
    ]


def test_encode_json_in_full() -> None:
    done = good(
        "encode", *TOKENIZER, "--format=json", "--lines", "--tokens", "--offsets", stdin=TEXT
    )
    assert json.loads(done.text) == {
        "file": "-",
        "line": 1,
        "ids": [*IDS[:5], 26192],
        "tokens": ["na", "ï", "ve", " 日本", "語", " 🙂"],
        "offsets": [[0, 2], [2, 4], [4, 6], [6, 13], [13, 16], [16, 21]],
    }


@pytest.mark.parametrize(("dtype", "type_"), [(None, "<u4"), ("uint32", "<u4"), ("uint16", "<u2")])
def test_encode_binary(dtype: str | None, type_: str) -> None:
    options = [] if dtype is None else ["--dtype", dtype]
    done = good("encode", *TOKENIZER, "--format", "bin", *options, stdin="Hello, world!")
    assert done.out == np.array([13225, 11, 2375, 0], dtype=type_).tobytes()


def test_encode_binary_that_does_not_fit(tmp_path: Path) -> None:
    (tmp_path / "text").write_text(TEXT, encoding="utf-8")
    arguments = ["--format", "bin", "--dtype", "uint16", "-o", "ids"]
    message = run("encode", *TOKENIZER, *arguments, "text", cwd=tmp_path).failed()
    assert message == "text: id 171593 does not fit in uint16; use --dtype uint32"
    assert not (tmp_path / "ids").exists()


@posix
def test_no_binary_on_a_terminal() -> None:
    code, out = run_on_terminal("encode", *TOKENIZER, "--format", "bin")
    assert code == 2
    assert "use -o FILE or a pipe" in out


def test_special_tokens() -> None:
    def ids(*options: str, text: str = f"one{END}") -> list[int]:
        return [int(id) for id in good("encode", *TOKENIZER, *options, stdin=text).text.split()]

    assert ids() == [690, *END_AS_TEXT]
    assert ids("--special", "text") == [690, *END_AS_TEXT]
    assert ids("--special", "parse") == [690, 199999]
    assert ids("--allow", END) == [690, 199999]
    assert ids("--allow", "<|endofprompt|>") == [690, *END_AS_TEXT]
    both = ["--allow", END, "--allow", "<|endofprompt|>"]
    assert ids(*both, text=f"{END}<|endofprompt|>") == [199999, 200018]
    assert ids("--special", "forbid", text="one") == [690]
    assert ids("--add-special-tokens", text="one") == [690]


def test_forbidden_special_token(tmp_path: Path) -> None:
    (tmp_path / "text").write_text(f"one{END}")
    message = run("encode", *TOKENIZER, "--special", "forbid", "text", cwd=tmp_path).failed()
    assert message.startswith("text: ")
    assert END in message
    assert "3" in message


def test_allow_knows_the_special_tokens() -> None:
    message = run("encode", *TOKENIZER, "--allow", "<|endoftxt|>").failed()
    assert "no special token '<|endoftxt|>'; did you mean <|endoftext|>" in message


@pytest.mark.parametrize("command", ["encode", "count"])
def test_not_utf8(command: str, tmp_path: Path) -> None:
    (tmp_path / "latin").write_bytes("na\xefve".encode("latin-1"))
    message = run(command, *TOKENIZER, "latin", cwd=tmp_path).failed()
    assert message.startswith("latin: not UTF-8 at byte 2 (0xef)")
    assert "iconv" in message


def test_not_utf8_in_a_line() -> None:
    done = run("encode", *TOKENIZER, "--lines", stdin=b"one\ntwo\nab\xff\n")
    assert done.failed().startswith("standard input: line 3: not UTF-8 at byte 10 (0xff)")
    # What came before it was done.
    assert done.text == "690\n38397\n"


def test_cut_character() -> None:
    message = run("encode", *TOKENIZER, stdin=b"ab\xe6\x97").failed()
    assert message.startswith("standard input: not UTF-8 at byte 2 (0xe6)")


# --- decode


@pytest.mark.parametrize("format", ["text", "json", "bin"])
def test_round_trip(format: str, tmp_path: Path) -> None:
    text = (TEXT * 3 + "\r\n\x00 end without newline").encode()
    ids = good("encode", *TOKENIZER, "--format", format, stdin=text).out
    assert good("decode", *TOKENIZER, "--format", format, stdin=ids).out == text
    (tmp_path / "ids").write_bytes(ids)
    files = ["ids", "-", "ids"]
    done = good("decode", *TOKENIZER, "--format", format, *files, stdin=ids, cwd=tmp_path)
    assert done.out == text * 3


@pytest.mark.parametrize("format", ["text", "json"])
def test_round_trip_of_lines(format: str) -> None:
    text = "one\n\n" + TEXT + "\r\nend\n"
    ids = good("encode", *TOKENIZER, "--lines", "--format", format, stdin=text).out
    done = good("decode", *TOKENIZER, "--lines", "--format", format, stdin=ids)
    assert done.out == text.encode()


def test_round_trip_of_uint16() -> None:
    options = ["--format", "bin", "--dtype", "uint16"]
    ids = good("encode", *TOKENIZER, *options, stdin="Hello, world!").out
    assert good("decode", *TOKENIZER, *options, stdin=ids).out == b"Hello, world!"


def test_decode_is_lossless() -> None:
    # Two tokens of cl100k_base that hold parts of one character.
    assert good("decode", "-t", "cl100k_base", stdin="45918 252").out == "語".encode()
    assert good("decode", "-t", "cl100k_base", stdin="45918").out == "語".encode()[:2]


def test_decode_special_tokens() -> None:
    assert good("decode", *TOKENIZER, stdin="690 199999").out == f"one{END}".encode()
    done = good("decode", *TOKENIZER, "--skip-special-tokens", stdin="690 199999")
    assert done.out == b"one"


def test_decode_json_lists() -> None:
    done = good("decode", *TOKENIZER, "--format", "json", "--lines", stdin='[690]\n\n{"ids": []}\n')
    assert done.out == b"one\n\n"


@pytest.mark.parametrize(
    ("format", "ids", "message"),
    [
        ("text", b"690\n1 x2\n", "line 2: 'x2' is not a token id"),
        ("text", b"-1", "line 1: '-1' is not a token id"),
        ("text", b"+1", "'+1' is not a token id"),
        ("text", b"1_0", "'1_0' is not a token id"),
        ("text", "٣".encode(), "is not a token id"),
        ("text", b"\xff", "is not a token id"),
        ("text", b"4294967296", "'4294967296' is not a token id"),
        ("text", b"9" * 100_000, "'99999999999999999999...' is not a token id"),
        ("text", b"690\n999999\n", "line 2: "),
        ("json", b"[1]\n[1,\n", "line 2: not JSON"),
        ("json", b"[" * 100_000, "line 1: not JSON"),
        ("json", b'{"id": [1]}', "line 1: expected a list of ids"),
        ("json", b"[1, true]", "line 1: expected a list of ids"),
        ("json", b"[1.0]", "line 1: expected a list of ids"),
        ("json", b"[-1]", "line 1: expected a list of ids"),
        ("json", b"[4294967296]", "line 1: expected a list of ids"),
        ("json", b"[999999]", "line 1: "),
        ("json", b"\xff", "line 1: not JSON"),
        ("bin", b"\x00\x00\x00\x00\x01", "5 bytes are not a whole number of uint32 ids"),
        ("bin", b"\xff\xff\xff\xff", "4294967295"),
    ],
)
def test_decode_bad_input(format: str, ids: bytes, message: str) -> None:
    done = run("decode", *TOKENIZER, "--format", format, stdin=ids)
    found = done.failed()
    assert found.startswith("standard input: ")
    assert message in found


def test_unknown_id_is_named(tmp_path: Path) -> None:
    (tmp_path / "ids").write_text("690\n690 999999\n")
    message = run("decode", *TOKENIZER, "ids", cwd=tmp_path).failed()
    assert message.startswith("ids: line 2: ")
    assert "999999" in message


# --- count


def test_count(tmp_path: Path) -> None:
    (tmp_path / "short").write_text("one")
    (tmp_path / "naive").write_text(TEXT, encoding="utf-8")
    (tmp_path / "empty").write_text("")
    done = good("count", *TOKENIZER, "short", "naive", "empty", cwd=tmp_path)
    assert done.text == (
        "bytes  characters  tokens  bytes/token  file\n"
        "    3           3       1         3.00  short\n"
        "   22          12       6         3.67  naive\n"
        "    0           0       0            -  empty\n"
        "   25          15       7         3.57  total\n"
    )


def test_count_one_has_no_total() -> None:
    done = good("count", *TOKENIZER, stdin="Hello, world!")
    assert done.text.splitlines()[1:] == ["   13          13       4         3.25  standard input"]


def test_count_json(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("one")
    done = good("count", *TOKENIZER, "--format", "json", "a", "-", cwd=tmp_path, stdin="")
    assert json.loads(done.text) == {
        "files": [
            {"file": "a", "bytes": 3, "characters": 3, "tokens": 1, "bytes_per_token": 3.0},
            {"file": "-", "bytes": 0, "characters": 0, "tokens": 0, "bytes_per_token": None},
        ],
        "total": {"bytes": 3, "characters": 3, "tokens": 1, "bytes_per_token": 3.0},
    }


def test_count_special_tokens() -> None:
    def tokens(*options: str) -> int:
        done = good("count", *TOKENIZER, "--format", "json", *options, stdin=f"one{END}")
        total: dict[str, Any] = json.loads(done.text)["total"]
        return int(total["tokens"])

    assert tokens() == 8
    assert tokens("--special", "parse") == 2
    assert tokens("--allow", END) == 2
    done = run("count", *TOKENIZER, "--special", "forbid", stdin=f"one{END}")
    assert END in done.failed()


def test_count_leaves_out_what_it_cannot_count(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("one")
    (tmp_path / "bad").write_bytes(b"\xff")
    done = run("count", *TOKENIZER, "missing", "a", ".", "bad", "a", cwd=tmp_path)
    assert done.code == 1
    messages = done.err.splitlines()
    assert len(messages) == 3
    assert messages[0].startswith("gristmill: error: missing: ")
    assert messages[1].startswith("gristmill: error: .: ")
    assert messages[2].startswith("gristmill: error: bad: not UTF-8 at byte 0 (0xff)")
    assert [line.split()[-1] for line in done.text.splitlines()] == ["file", "a", "a", "total"]


def test_count_nothing(tmp_path: Path) -> None:
    done = run("count", *TOKENIZER, "missing", cwd=tmp_path)
    assert done.failed().startswith("missing: ")
    assert done.out == b""


@posix
def test_names_of_files_cannot_move_the_cursor(tmp_path: Path) -> None:
    name = "a\x1b[2Jb\nc"
    (tmp_path / name).write_text("one")
    assert good("count", *TOKENIZER, name, cwd=tmp_path).text.splitlines()[1:] == [
        r"    3           3       1         3.00  a\x1b[2Jb\nc"
    ]


@pytest.mark.skipif(sys.platform != "linux", reason="needs names of files that are not UTF-8")
def test_names_of_files_need_not_be_utf8(tmp_path: Path) -> None:
    (tmp_path / os.fsdecode(b"\xff")).write_text("one")
    done = good("count", *TOKENIZER, os.fsdecode(b"\xff"), cwd=tmp_path)
    assert done.text.splitlines()[1].endswith(r"\udcff")
    done = run("encode", *TOKENIZER, os.fsdecode(b"\xfe"), cwd=tmp_path)
    assert r"\udcfe" in done.failed()


@posix
def test_count_on_a_terminal(tmp_path: Path) -> None:
    (tmp_path / "[bold]a").write_text("one")
    code, out = run_on_terminal("count", *TOKENIZER, "[bold]a", "[bold]a", cwd=tmp_path)
    assert code == 0
    assert "─" in out
    for word in ["bytes/token", "[bold]a", "3.00", "total"]:
        assert word in out


def run_on_terminal(*arguments: str, cwd: Path | None = None) -> tuple[int, str]:
    """Run the command with a terminal for its output; the exit code and what was shown."""
    import pty

    ours, theirs = pty.openpty()
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "100"}
    process = subprocess.Popen(
        [*COMMAND, *arguments],
        stdin=subprocess.DEVNULL,
        stdout=theirs,
        stderr=theirs,
        cwd=cwd,
        env=environment,
    )
    os.close(theirs)
    shown = b""
    try:
        while part := os.read(ours, 65536):
            shown += part
    except OSError:
        pass  # Linux's way of saying that the other side is closed.
    os.close(ours)
    return process.wait(), shown.decode()


# --- info


@pytest.mark.parametrize("name", gristmill.EMBEDDED)
def test_info(name: str) -> None:
    tok = gristmill.Tokenizer(name)
    text = good("info", name).text
    lines = dict(line.split(maxsplit=1) for line in text.splitlines())
    assert lines["tokenizer"] == name
    assert lines["vocab_size"] == str(tok.vocab_size)
    assert "format" in lines
    assert END in lines["special_tokens"]


def test_info_json() -> None:
    tok = gristmill.Tokenizer("o200k_base")
    facts = json.loads(good("info", "o200k_base", "--json").text)
    assert facts["tokenizer"] == "o200k_base"
    assert facts["vocab_size"] == tok.vocab_size == 200019
    assert facts["special_tokens"] == {END: 199999, "<|endofprompt|>": 200018}
    own = {"special_tokens": facts["special_tokens"]}
    assert facts == {**facts, **json.loads(json.dumps(tok.info)), **own}


def test_info_of_many_special_tokens(ranks: Path) -> None:
    options = [f"--special-token=<{id}>={id}" for id in range(300, 320)]
    text = good("info", ranks, "--pattern", ".", *options).text
    assert "<300> = 300, " in text
    assert "... (20 in all)" in text


# --- output


def test_output_file(tmp_path: Path) -> None:
    target = tmp_path / "ids"
    assert good("encode", *TOKENIZER, "-o", target, stdin="one").out == b""
    assert target.read_bytes() == b"690\n"
    good("decode", *TOKENIZER, target, "-o", tmp_path / "text")
    assert (tmp_path / "text").read_bytes() == b"one"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["ids", "text"]


def test_output_file_may_be_the_input(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("one")
    good("encode", *TOKENIZER, "file", "-o", "file", cwd=tmp_path)
    assert (tmp_path / "file").read_text() == "690\n"


@pytest.mark.parametrize("before", [None, b"old"])
def test_failure_leaves_the_output_file_alone(before: bytes | None, tmp_path: Path) -> None:
    target = tmp_path / "ids"
    if before is not None:
        target.write_bytes(before)
    run("encode", *TOKENIZER, "--lines", "-o", target, stdin=b"one\n\xff\n").failed()
    if before is None:
        assert list(tmp_path.iterdir()) == []
    else:
        assert [path.name for path in tmp_path.iterdir()] == ["ids"]
        assert target.read_bytes() == before


def test_output_into_a_missing_folder(tmp_path: Path) -> None:
    message = run("encode", *TOKENIZER, "-o", tmp_path / "no" / "ids", stdin="one").failed()
    assert message.startswith(f"cannot write {tmp_path / 'no' / 'ids'}: ")


@posix
def test_output_file_keeps_its_mode_and_link(tmp_path: Path) -> None:
    target = tmp_path / "ids"
    target.write_bytes(b"old")
    target.chmod(0o640)
    (tmp_path / "link").symlink_to("ids")
    good("encode", *TOKENIZER, "-o", tmp_path / "link", stdin="one")
    assert target.read_bytes() == b"690\n"
    assert stat.S_IMODE(target.stat().st_mode) == 0o640
    assert (tmp_path / "link").is_symlink()


@posix
def test_output_device() -> None:
    good("encode", *TOKENIZER, "-o", "/dev/null", stdin="one")
    assert stat.S_ISCHR(os.stat("/dev/null").st_mode)
    assert good("encode", *TOKENIZER, "-o", "/dev/stdout", stdin="one").text == "690\n"


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
@pytest.mark.parametrize("lines", [1, 100_000])
@pytest.mark.parametrize("command", ["encode", "count"])
def test_full_disk(command: str, lines: int) -> None:
    with open("/dev/full", "wb") as full:
        done = subprocess.run(
            [*COMMAND, command, *TOKENIZER],
            input=b"one\n" * lines,
            stdout=full,
            stderr=subprocess.PIPE,
        )
    message = Done(done.returncode, b"", done.stderr).failed()
    assert message == "standard output: No space left on device"


@posix
@pytest.mark.parametrize("redirection", [">&-", "<&-"])
def test_closed_streams(redirection: str) -> None:
    done = subprocess.run(
        ["sh", "-c", f'"$@" {redirection}', "sh", *COMMAND, "count", *TOKENIZER],
        stdin=subprocess.DEVNULL,
        capture_output=True,
    )
    assert "is closed" in Done(done.returncode, done.stdout, done.stderr).failed()


# --- the end


def endless(*arguments: str) -> subprocess.Popen[bytes]:
    """The command at work on more input than a pipe holds, its first output read."""
    process = subprocess.Popen(
        [*COMMAND, *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    # More than what Python buffers before it writes, less than what a pipe holds.
    process.stdin.write(b"one\n" * 5000)
    process.stdin.flush()
    assert process.stdout.read(4) == b"690\n"
    return process


@posix
def test_broken_pipe() -> None:
    process = endless("encode", *TOKENIZER, "--lines")
    assert process.stdin is not None
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.close()
    process.stdin.write(b"one\n" * 5000)
    process.stdin.close()
    assert process.wait(timeout=30) == 141
    assert process.stderr.read() == b""
    process.stderr.close()


@posix
@pytest.mark.parametrize(
    "arguments", [["count", *TOKENIZER], ["encode", *TOKENIZER], ["info", "o200k_base"]]
)
def test_broken_pipe_from_the_start(arguments: list[str]) -> None:
    # The output is small, so it is written when all is done.
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run(
        [*COMMAND, *arguments], input=b"one", stdout=writer, stderr=subprocess.PIPE
    )
    os.close(writer)
    assert done.returncode == 141
    assert done.stderr == b""


@posix
def test_head(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("one\n" * 200_000)
    command = ["encode", "--lines", *TOKENIZER, "text"]
    done = subprocess.run(
        ["sh", "-c", '"$@" | head -n 2', "sh", *COMMAND, *command],
        cwd=tmp_path,
        capture_output=True,
    )
    assert done.stdout == b"690\n690\n"
    assert done.stderr == b""


@posix
def test_interrupt(tmp_path: Path) -> None:
    process = endless("encode", *TOKENIZER, "--lines")
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=30)
    assert process.returncode == 130
    assert err == b""


@posix
def test_interrupt_leaves_no_file(tmp_path: Path) -> None:
    target = tmp_path / "ids"
    process = subprocess.Popen(
        [*COMMAND, "encode", *TOKENIZER, "--lines", "-o", target],
        stdin=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdin is not None
    process.stdin.write(b"one\n")
    process.stdin.flush()
    deadline = time.monotonic() + 30
    while not list(tmp_path.iterdir()):
        assert time.monotonic() < deadline
        time.sleep(0.01)
    # Let it get from making the file to reading what to write there.
    time.sleep(0.2)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=30)
    assert process.returncode == 130
    assert err == b""
    assert list(tmp_path.iterdir()) == []


@posix
def test_interrupt_of_a_long_call(tmp_path: Path) -> None:
    (tmp_path / "long").write_bytes(b"a" * 50_000_000)
    process = subprocess.Popen(
        [*COMMAND, "encode", *TOKENIZER, tmp_path / "long", "-o", tmp_path / "ids"],
        stderr=subprocess.PIPE,
    )
    while not [path for path in tmp_path.iterdir() if path.name.endswith(".part")]:
        assert process.poll() is None
        time.sleep(0.01)
    time.sleep(0.3)
    began = time.monotonic()
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert err == b""
    assert [path.name for path in tmp_path.iterdir()] == ["long"]
    # The call itself would take many seconds.
    assert time.monotonic() - began < 2


# --- what it costs


def test_count_loads_neither_numpy_nor_rich(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("one")
    program = (
        "import sys; from gristmill.cli import main; "
        "code = main(['count', 'text', 'text', '-t', 'o200k_base']); "
        "print(code, sorted({'numpy', 'rich', 'huggingface_hub'} & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, check=True, cwd=tmp_path
    )
    assert done.stdout.splitlines()[-1] == b"0 []"


def test_starts_quickly() -> None:
    # Other work on the machine only adds: the fastest start is what the command needs.
    times = []
    for _ in range(7):
        began = time.perf_counter()
        good("--version")
        times.append(time.perf_counter() - began)
    assert min(times) < 0.2
