"""The journal: what is cut off is not there, what is damaged is said, two runs are kept apart."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from gristmill.corpus.errors import CorpusError
from gristmill.corpus.journal import Journal, entries, locked, remove_aside, survey


def shard(folder: Path, job: int, number: int = 0, last: bool = True) -> dict[str, Any]:
    """The report of a shard that is there."""
    name = f"megatron/shard-{job:06}-{number:04}.bin"
    path = folder / name
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(b"12")
    return {"job": job, "shard": number, "last": last, "files": [{"name": name, "bytes": 2}]}


def keep(folder: Path, *reports: dict[str, Any]) -> None:
    with Journal(str(folder)) as journal:
        for report in reports:
            journal.line({"shard": report})


@pytest.mark.parametrize("cut", range(1, 12))
def test_a_line_that_was_cut_off_is_not_there(tmp_path: Path, cut: int) -> None:
    keep(tmp_path, shard(tmp_path, 0), shard(tmp_path, 1))
    path = tmp_path / "journal.jsonl"
    path.write_bytes(path.read_bytes()[:-cut])
    assert list(survey(str(tmp_path)).shards) == [(0, 0)]
    # What is written next is a line by itself.
    keep(tmp_path, shard(tmp_path, 2))
    assert [line["shard"]["job"] for line in entries(str(tmp_path))] == [0, 2]


def test_a_long_line_that_was_cut_off_is_taken_away(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    path.write_bytes(b'{"at": 1}\n' + b"x" * 20_000)
    with Journal(str(tmp_path)):
        pass
    assert path.read_bytes() == b'{"at": 1}\n'
    path.write_bytes(b"x" * 20_000)
    with Journal(str(tmp_path)):
        pass
    assert path.read_bytes() == b""


def test_damage_in_the_middle_is_said(tmp_path: Path) -> None:
    (tmp_path / "journal.jsonl").write_bytes(b'{"at": 1}\n\0\0\0\n{"at": 2}\n')
    with pytest.raises(CorpusError, match="line 2 is damaged"):
        survey(str(tmp_path))


def test_shards_that_are_gone_or_short_are_made_again(tmp_path: Path) -> None:
    keep(tmp_path, *(shard(tmp_path, job) for job in range(3)))
    (tmp_path / "megatron" / "shard-000001-0000.bin").unlink()
    (tmp_path / "megatron" / "shard-000002-0000.bin").write_bytes(b"1")
    done = survey(str(tmp_path))
    assert [done.finished(job) for job in range(4)] == [True, False, False, False]
    assert sorted(done.damaged) == [(1, 0), (2, 0)]


def test_a_job_goes_on_behind_its_leading_shards(tmp_path: Path) -> None:
    reports = [shard(tmp_path, 7, number, number == 3) for number in range(4)]
    keep(tmp_path, *reports[:2])
    done = survey(str(tmp_path))
    assert (len(done.leading(7)), done.finished(7)) == (2, False)
    keep(tmp_path, *reports[2:])
    assert survey(str(tmp_path)).finished(7)
    (tmp_path / reports[1]["files"][0]["name"]).unlink()
    done = survey(str(tmp_path))
    assert (len(done.leading(7)), done.finished(7)) == (1, False)


def test_the_last_line_about_a_shard_counts(tmp_path: Path) -> None:
    first = shard(tmp_path, 0) | {"tokens": 1}
    keep(tmp_path, first, first | {"tokens": 2})
    assert survey(str(tmp_path)).shards[0, 0]["tokens"] == 2


def test_parts_have_journals_of_their_own_and_are_read_together(tmp_path: Path) -> None:
    for number in (1, 2):
        with Journal(str(tmp_path), (number, 2)) as journal:
            journal.line({"shard": shard(tmp_path, number)})
    (tmp_path / "journal-1-of-2.jsonl.txt").write_text("something else")
    assert sorted(survey(str(tmp_path)).shards) == [(1, 0), (2, 0)]


def test_what_was_not_finished_is_taken_away(tmp_path: Path) -> None:
    for name in ("megatron/shard-000001.bin.aside", "quarantine/shard-000002.jsonl.aside"):
        (tmp_path / name).parent.mkdir()
        (tmp_path / name).touch()
    shard(tmp_path, 3)
    assert remove_aside(str(tmp_path), {2, 3}) == 1
    assert remove_aside(str(tmp_path)) == 1
    assert [path.name for path in (tmp_path / "megatron").iterdir()] == ["shard-000003-0000.bin"]


# --- locks

HOLD = """
import sys
from gristmill.corpus.journal import locked
part = tuple(map(int, sys.argv[2:])) or None
with locked(sys.argv[1], part):
    print("held", flush=True)
    sys.stdin.read()
"""


@pytest.mark.parametrize(
    ("theirs", "ours", "together"),
    [
        (None, None, False),
        ((1, 2), None, False),
        ((1, 2), (1, 2), False),
        ((1, 2), (2, 2), True),
        ((1, 2), (1, 3), False),
    ],
)
def test_two_runs_are_kept_apart(
    tmp_path: Path, theirs: tuple[int, int] | None, ours: tuple[int, int] | None, together: bool
) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(tmp_path), *map(str, theirs or ())],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert process.stdout is not None
    assert process.stdin is not None
    try:
        assert process.stdout.readline() == b"held\n"
        if together:
            with locked(str(tmp_path), ours):
                pass
        else:
            said = rf"another run is at work in .*\(process {process.pid} on "
            with pytest.raises(CorpusError, match=said), locked(str(tmp_path), ours):
                pass
    finally:
        process.kill()
        process.wait()
        process.stdin.close()
        process.stdout.close()
    # A lock ends with its process, even a killed one.
    with locked(str(tmp_path), ours):
        pass


def test_a_full_run_keeps_parts_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gristmill.corpus.journal.PATIENCE", 0.1)
    with locked(str(tmp_path)), pytest.raises(CorpusError), locked(str(tmp_path), (1, 2)):
        pass


def test_journal_lines_are_json(tmp_path: Path) -> None:
    keep(tmp_path, shard(tmp_path, 0) | {"name": "line\nbreak"})
    (line,) = (tmp_path / "journal.jsonl").read_text().splitlines()
    assert json.loads(line)["shard"]["name"] == "line\nbreak"
