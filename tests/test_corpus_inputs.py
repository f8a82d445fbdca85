"""Which files a run reads: what folders and patterns stand for, their order, what is refused."""

import os
import re
from pathlib import Path

import pytest
from gristmill.corpus.errors import CorpusError
from gristmill.corpus.inputs import ENDS, find, is_data, look_at


def names(folder: Path, *files: str) -> list[str]:
    for file in files:
        path = folder / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("x")
    return [str(folder / file) for file in files]


def found(*given: object, out: str = "/nowhere") -> list[str]:
    return find([str(one) for one in given], out)[0]


def test_a_folder_gives_all_texts_below_it_in_the_order_of_their_bytes(tmp_path: Path) -> None:
    # "-" is before "/", which is before letters; capital letters are before small ones.
    expected = names(tmp_path, "B.txt", "a-b.txt", "a/x.jsonl.gz", "a/z", "ab.csv", "é.txt")
    assert found(tmp_path) == expected


def test_what_is_not_ours_to_read_is_left_out(tmp_path: Path) -> None:
    expected = names(tmp_path, "part-00000", "a.parquet", "b.json.zst", "c.1")
    names(tmp_path, ".hidden", ".cache/x.txt", "_SUCCESS", "_metadata", "b.txt.aside")
    left = names(tmp_path, "README.md", "model.bin", "texts.tar.gz")
    assert find([tmp_path], "/nowhere") == (sorted(expected), sorted(left))


def test_the_output_of_a_run_is_never_its_input(tmp_path: Path) -> None:
    (text,) = names(tmp_path, "a.txt")
    names(
        tmp_path, "out/megatron/shard-000000.txt", "old/plan.json", "old/journal.jsonl", "old/a.txt"
    )
    assert found(tmp_path, out=str(tmp_path / "out")) == [text]
    assert found(tmp_path / "**", out=str(tmp_path / "out"))[0] == text
    assert not any("/out/" in one for one in found(tmp_path / "**", out=str(tmp_path / "out")))
    with pytest.raises(CorpusError, match="the output of a run"):
        found(tmp_path / "old")


def test_a_file_is_read_once_however_often_it_is_named(tmp_path: Path) -> None:
    a, b = names(tmp_path, "a.md", "b.txt")
    assert found(b, a, tmp_path, tmp_path / "*", os.path.relpath(a)) == [a, b]


def test_a_file_that_is_named_is_read_whatever_it_is_called(tmp_path: Path) -> None:
    files = names(tmp_path, ".hidden", "_SUCCESS", "a[1].txt")
    assert sorted(found(*files)) == sorted(files)


def test_links_are_followed_but_not_in_circles(tmp_path: Path) -> None:
    (real,) = names(tmp_path, "data/deep/a.txt")
    (tmp_path / "data" / "deep" / "up").symlink_to(tmp_path / "data")
    elsewhere = names(tmp_path, "other/b.txt")
    (tmp_path / "data" / "link").symlink_to(tmp_path / "other")
    assert found(tmp_path / "data") == [real, str(tmp_path / "data" / "link" / "b.txt")]
    assert Path(elsewhere[0]).exists()


@pytest.mark.parametrize("name", ["missing.txt", "missing/*.txt"])
def test_what_is_not_there_is_an_error_that_names_it(tmp_path: Path, name: str) -> None:
    names(tmp_path, "a.txt")
    with pytest.raises(FileNotFoundError, match=re.escape(name)):
        found(tmp_path / "a.txt", tmp_path / name)


def test_an_empty_folder_is_an_error(tmp_path: Path) -> None:
    names(tmp_path, "README.md")
    with pytest.raises(CorpusError, match=r"no input.*README\.md"):
        found(tmp_path)


def test_a_name_that_no_json_can_hold_is_refused(tmp_path: Path) -> None:
    path = os.path.join(os.fsencode(tmp_path), b"\xff.txt")
    Path(os.fsdecode(path)).write_text("x")
    with pytest.raises(CorpusError, match="not UTF-8; rename it"):
        found(tmp_path)


def test_files_are_known_by_both_of_their_ends(tmp_path: Path) -> None:
    path = tmp_path / "a"
    content = bytearray(4 * ENDS)
    path.write_bytes(content)
    whole = look_at(str(path))
    assert (whole.size, whole.modified) == (4 * ENDS, path.stat().st_mtime_ns)
    for at, same in ((0, False), (2 * ENDS, True), (4 * ENDS - 1, False)):
        changed = content.copy()
        changed[at] = 1
        path.write_bytes(changed)
        assert (look_at(str(path)).ends == whole.ends) is same


@pytest.mark.parametrize(
    ("name", "taken"),
    [
        *[("a.JSONL", True), ("a.json.gz", True), ("a.weird.zst", True), ("part-0", True)],
        *[("a.tar.gz", False), ("a.pdf", False), ("a.idx", False), ("LICENSE.md", False)],
    ],
)
def test_endings(name: str, taken: bool) -> None:
    assert is_data(f"/x/{name}") is taken
