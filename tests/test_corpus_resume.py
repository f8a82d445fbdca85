"""Runs that are killed, run out of disk or may not write: nothing is lost, and they go on."""

import ctypes
import os
import random
import resource
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import corpora
import pytest
from gristmill.corpus import tokenize_corpus

COMMAND = [sys.executable, "-W", "error", "-m", "gristmill", "tokenize"]
OPTIONS = ["-t", "gpt2", "--shard-size", "100kB", "--threads", "2", "--progress", "none"]
TEXTS = corpora.texts(8000, seed=7)


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return corpora.folder_of(
        tmp_path_factory.mktemp("in"),
        {
            "a.jsonl": corpora.jsonl(TEXTS[:4000]) * 4,
            "b.jsonl.gz": corpora.jsonl(TEXTS[4000:]),
            "c.jsonl": corpora.jsonl(TEXTS[:4000]) * 4,
        },
    )


@pytest.fixture(scope="module")
def whole(source: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """What a run that nothing interrupted leaves."""
    out = tmp_path_factory.mktemp("whole")
    tokenize_corpus(source, out, tokenizer="gpt2", shard_size=100_000, threads=2)
    return corpora.content(out)


def start(source: Path, out: Path, *more: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [*COMMAND, str(source), "-o", str(out), *OPTIONS, *more],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


def run(
    source: Path, out: Path, *more: str, limit: int | None = None
) -> subprocess.CompletedProcess[bytes]:
    """A run to its end, which may write files up to a limit."""

    def limited() -> None:
        if limit is not None:
            # Without a signal handler a write beyond it kills; Python ignores the signal.
            resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))

    return subprocess.run(
        [*COMMAND, str(source), "-o", str(out), *OPTIONS, *more],
        capture_output=True,
        check=False,
        preexec_fn=limited,
    )


def test_killed_until_it_is_done(source: Path, whole: dict[str, bytes], tmp_path: Path) -> None:
    random_ = random.Random(11)
    kills = 0
    while True:
        before = shards_in(tmp_path)
        process = start(source, tmp_path)
        # Now and then in the beginning, else when it has made a few more.
        more, longest = random_.randrange(1, 7), random_.choice([0.1, 0.2, 20, 20, 20])
        until = time.monotonic() + longest
        while process.poll() is None and time.monotonic() < until:
            if shards_in(tmp_path) >= before + more:
                break
        if kills < 8:
            process.kill()
        process.communicate()
        if process.returncode == 0:
            break
        assert process.returncode == -signal.SIGKILL
        kills += 1
    assert kills >= 3
    assert corpora.content(tmp_path) == whole
    made = Counter((one["job"], one["shard"]) for one in corpora.journalled(tmp_path))
    # What the journal names is never made again.
    assert set(made.values()) == {1}


def shards_in(out: Path) -> int:
    """How many shards have their final name."""
    try:
        return sum(name.endswith(".idx") for name in os.listdir(out / "megatron"))
    except FileNotFoundError:
        return 0


def test_an_interrupt_leaves_what_is_done(
    source: Path, whole: dict[str, bytes], tmp_path: Path
) -> None:
    process = start(source, tmp_path)
    until = time.monotonic() + 20
    while not list(tmp_path.glob("megatron/*.idx")) and time.monotonic() < until:
        time.sleep(0.005)
    process.send_signal(signal.SIGINT)
    _, error = process.communicate(timeout=20)
    if process.returncode == 130:
        assert b"the same command goes on" in error
    else:
        assert process.returncode == 0
    assert run(source, tmp_path).returncode == 0
    assert corpora.content(tmp_path) == whole


def test_a_file_that_grows_too_large_is_an_error_and_nothing_is_lost(
    source: Path, whole: dict[str, bytes], tmp_path: Path
) -> None:
    largest = max(len(content) for content in whole.values())
    ended = run(source, tmp_path, limit=largest // 2)
    assert ended.returncode == 1
    assert b"File too large; make room, and the same command goes on" in ended.stderr
    assert ended.stderr.count(b"\n") == 1
    assert run(source, tmp_path).returncode == 0
    assert corpora.content(tmp_path) == whole


def test_a_journal_that_cannot_grow_is_an_error_and_nothing_is_lost(
    source: Path, whole: dict[str, bytes], tmp_path: Path
) -> None:
    assert run(source, tmp_path, "--part", "1/2").returncode == 0
    (journal,) = tmp_path.glob("journal-1-of-2.jsonl")
    # As much as it has, and then the middle of a line.
    (tmp_path / "journal-2-of-2.jsonl").write_bytes(journal.read_bytes()[:-1])
    assert run(source, tmp_path, "--part", "2/2").returncode == 0
    assert corpora.content(tmp_path) == whole


def test_two_runs_do_not_share_a_folder(
    source: Path, whole: dict[str, bytes], tmp_path: Path
) -> None:
    first = start(source, tmp_path)
    until = time.monotonic() + 20
    while not (tmp_path / "plan.json").exists() and time.monotonic() < until:
        time.sleep(0.005)
    os.kill(first.pid, signal.SIGSTOP)
    try:
        second = run(source, tmp_path)
    finally:
        os.kill(first.pid, signal.SIGCONT)
    first.communicate()
    assert second.returncode == 1
    assert (
        f"another run is at work in {tmp_path} (process {first.pid} on ".encode() in second.stderr
    )
    assert first.returncode == 0
    assert corpora.content(tmp_path) == whole


def bound_by_modes() -> None:
    """Give up what lets root read and write whatever the mode of a file says."""
    drop_from_bounding_set, override, read_and_search = 24, 1, 2
    if os.getuid() == 0:
        for capability in (override, read_and_search):
            if ctypes.CDLL(None).prctl(drop_from_bounding_set, capability, 0, 0, 0):
                raise OSError("root may not give up its rights here; run the tests as a user")


def as_user(*arguments: object) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [*COMMAND, *map(str, arguments), *OPTIONS],
        capture_output=True,
        check=False,
        preexec_fn=bound_by_modes,
    )


def test_an_output_that_may_not_be_written(tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir(mode=0o555)
    texts = tmp_path / "a.jsonl"
    texts.write_bytes(corpora.jsonl(TEXTS[:10]))
    ended = as_user(texts, "-o", out)
    assert ended.returncode == 1
    assert ended.stderr.startswith(f"gristmill: error: {out}".encode())
    assert b"Permission denied" in ended.stderr
    assert ended.stderr.count(b"\n") == 1


def test_an_input_that_may_not_be_read(tmp_path: Path) -> None:
    out = tmp_path / "out"
    texts = tmp_path / "a.jsonl"
    texts.write_bytes(corpora.jsonl(TEXTS[:10]))
    texts.chmod(0)
    ended = as_user(texts, "-o", out)
    assert ended.returncode == 1
    assert f"gristmill: error: {texts}: Permission denied".encode() in ended.stderr
    texts.chmod(0o644)
    assert as_user(texts, "-o", out).returncode == 0
    assert len(corpora.megatron(out)) == 10


def test_going_on_starts_quickly_with_two_thousand_shards(tmp_path: Path) -> None:
    """Two thousand shards are looked at, and the one that is left is made."""
    import json

    source = tmp_path / "a.jsonl"
    source.write_bytes(corpora.jsonl(corpora.texts(3)))
    out = tmp_path / "out"
    tokenize_corpus(source, out, tokenizer="gpt2")
    plan = json.loads((out / "plan.json").read_text())
    (line,) = (one for one in (out / "journal.jsonl").read_text().splitlines() if "shard" in one)
    lines = []
    plan["jobs"] *= 2000
    (out / "plan.json").write_text(json.dumps(plan))
    for number in range(1999):
        entry = json.loads(line)
        entry["shard"]["job"] = number
        for file in entry["shard"]["files"]:
            name = file["name"].replace("000000", f"{number:06}")
            if number:
                (out / name).write_bytes((out / file["name"]).read_bytes())
            file["name"] = name
        lines.append(json.dumps(entry) + "\n")
    (out / "journal.jsonl").write_text("".join(lines))
    began = time.process_time()
    report = tokenize_corpus(source, out, tokenizer="gpt2")
    assert time.process_time() - began < 2
    assert (report.shards, report.documents) == (2000, 6000)
