"""Whole runs in this process: ids, numbers, the same bytes whatever the way, what is refused."""

import json
import os
from itertools import pairwise
from pathlib import Path
from typing import Any

import corpora
import gristmill
import pytest
from gristmill import Tokenizer
from gristmill.corpus import CorpusError, Progress, Report, TooManyBadRecords, tokenize_corpus
from gristmill.corpus.estimate import estimate
from gristmill.corpus.options import Options, Running

TEXTS = corpora.texts(4000)
SMALL: dict[str, Any] = {"tokenizer": "gpt2", "shard_size": 20_000}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Texts in files of several kinds, in the order of the names."""
    return corpora.folder_of(
        tmp_path_factory.mktemp("in"),
        {
            "a.jsonl": corpora.jsonl(TEXTS[:2500]),
            "b/empty.jsonl": b"",
            "b/small.jsonl.gz": corpora.jsonl(TEXTS[2500:2600]),
            "c.jsonl.gz": corpora.jsonl(TEXTS[2600:]),
        },
    )


@pytest.fixture(scope="module")
def whole(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Report]:
    """A run that nothing interrupted."""
    out = tmp_path_factory.mktemp("out")
    return out, tokenize_corpus(folder, out, **SMALL)


def test_the_ids_are_those_of_the_documents_in_their_order(
    whole: tuple[Path, Report], gpt2: Tokenizer
) -> None:
    out, report = whole
    assert corpora.megatron(out) == corpora.expected(gpt2, TEXTS)
    assert report.complete
    assert (report.records, report.documents, report.empty, report.bad) == (4000, 4000, 0, {})
    assert report.lost == 0
    assert report.text_bytes == sum(len(text.encode()) for text in TEXTS)
    assert report.shards > report.jobs > 10
    assert report.files == 4
    assert sum(report.lengths) == 4000
    assert report.largest == max(max(ids[:-1]) for ids in corpora.megatron(out))


def test_every_file_that_was_written_is_in_the_journal(whole: tuple[Path, Report]) -> None:
    out, report = whole
    files = [file for shard in corpora.journalled(out) for file in shard["files"]]
    there = {name: len(content) for name, content in corpora.content(out).items()}
    listed = {file["name"]: file["bytes"] for file in files}
    assert there.items() >= listed.items()
    assert {name for name in there if "shard-" in name} == listed.keys()
    assert sum(listed.values()) == report.written


@pytest.mark.parametrize("threads", [1, 2, 7])
def test_the_same_bytes_with_any_number_of_threads(
    folder: Path, whole: tuple[Path, Report], tmp_path: Path, threads: int
) -> None:
    tokenize_corpus(folder, tmp_path, **SMALL, threads=threads, max_memory="64MB")
    assert corpora.content(tmp_path) == corpora.content(whole[0])


def test_the_same_bytes_in_parts(folder: Path, whole: tuple[Path, Report], tmp_path: Path) -> None:
    reports = [
        tokenize_corpus(folder, tmp_path, **SMALL, part=part) for part in ("2/3", "1/3", "3/3")
    ]
    assert [report.complete for report in reports] == [False, False, True]
    assert corpora.content(tmp_path) == corpora.content(whole[0])
    assert len(list(tmp_path.glob("journal-*-of-3.jsonl"))) == 3
    assert reports[-1].documents == 4000
    # What parts have begun a run without parts goes on with.
    again = tokenize_corpus(folder, tmp_path, **SMALL)
    assert again.complete
    assert len(list(corpora.journalled(tmp_path))) == again.shards


def test_nothing_is_made_twice(folder: Path, tmp_path: Path) -> None:
    first = tokenize_corpus(folder, tmp_path, **SMALL)
    times = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("shard-*")}
    second = tokenize_corpus(folder, tmp_path, **SMALL)
    assert times == {path: path.stat().st_mtime_ns for path in tmp_path.rglob("shard-*")}
    assert (second.documents, second.tokens) == (first.documents, first.tokens)
    assert second.all_seconds == first.all_seconds


def test_a_shard_that_is_gone_is_made_again(
    folder: Path, whole: tuple[Path, Report], tmp_path: Path
) -> None:
    tokenize_corpus(folder, tmp_path, **SMALL)
    shards = sorted(tmp_path.rglob("shard-*.bin"))
    shards[2].unlink()
    shards[-2].write_bytes(b"short")
    assert tokenize_corpus(folder, tmp_path, **SMALL).documents == 4000
    assert corpora.content(tmp_path) == corpora.content(whole[0])


class Enough(Exception):
    """Raised to end a run from within."""


@pytest.mark.parametrize("after", [1, 3, 9])
def test_a_run_that_ended_early_goes_on(
    folder: Path, whole: tuple[Path, Report], tmp_path: Path, after: int, monkeypatch: Any
) -> None:
    from gristmill.corpus.journal import Journal

    line = Journal.line
    count = 0

    def failing(self: Journal, entry: dict[str, Any]) -> None:
        nonlocal count
        count += "shard" in entry
        if count > after:
            raise Enough
        line(self, entry)

    monkeypatch.setattr(Journal, "line", failing)
    with pytest.raises(Enough):
        tokenize_corpus(folder, tmp_path, **SMALL)
    monkeypatch.undo()
    before = {(shard["job"], shard["shard"]) for shard in corpora.journalled(tmp_path)}
    assert len(before) == after
    tokenize_corpus(folder, tmp_path, **SMALL)
    shards = [(shard["job"], shard["shard"]) for shard in corpora.journalled(tmp_path)]
    assert len(shards) == len(set(shards)) == whole[1].shards
    assert corpora.content(tmp_path) == corpora.content(whole[0])


# --- what is refused


def test_another_run_in_the_same_folder_is_refused(folder: Path, tmp_path: Path) -> None:
    tokenize_corpus(folder, tmp_path, **SMALL)
    before = corpora.content(tmp_path)
    for other, said in (
        ({"field": "id"}, "--field: was text, is now id"),
        ({"shard_size": 30_000}, "--shard-size: was 20000, is now 30000"),
        ({"tokenizer": "o200k_base", "eos": "none"}, "tokenizer: was gpt2, is now o200k_base"),
    ):
        with pytest.raises(CorpusError, match=said):
            tokenize_corpus(folder, tmp_path, **{**SMALL, **other})
    assert corpora.content(tmp_path) == before


def test_changed_inputs_are_refused_and_named(tmp_path: Path) -> None:
    source = corpora.folder_of(tmp_path / "in", {"a.jsonl": corpora.jsonl(TEXTS[:50])})
    out = tmp_path / "out"
    tokenize_corpus(source, out, **SMALL)
    with open(source / "a.jsonl", "ab") as file:
        file.write(corpora.jsonl(["more"]))
    (source / "b.jsonl").write_bytes(corpora.jsonl(["other"]))
    with pytest.raises(CorpusError, match=r"b\.jsonl: is new; .*a\.jsonl: had .* bytes, has "):
        tokenize_corpus(source, out, **SMALL)
    report = tokenize_corpus(source, out, **SMALL, overwrite=True)
    assert report.documents == 52
    assert len(corpora.megatron(out)) == 52


def test_overwriting_leaves_nothing_of_the_earlier_run(folder: Path, tmp_path: Path) -> None:
    tokenize_corpus(folder, tmp_path, **SMALL, to="megatron,mds")
    (tmp_path / "mine.txt").write_text("not of a run")
    tokenize_corpus(folder, tmp_path, tokenizer="gpt2", overwrite=True)
    names = {path.name for path in tmp_path.iterdir() if not path.name.startswith(".")}
    files = {"plan.json", "journal.jsonl", "report.json", "report.html", "mine.txt"}
    assert names == {*files, "megatron"}
    assert len(list((tmp_path / "megatron").glob("*.bin"))) == 1


def test_a_plan_that_made_nothing_yet_binds_nobody(tmp_path: Path) -> None:
    source = corpora.folder_of(tmp_path / "in", {"a.jsonl": b"{bad\n" + corpora.jsonl(TEXTS[:9])})
    with pytest.raises(CorpusError, match=r"a\.jsonl.*bad"):
        tokenize_corpus(source, tmp_path / "out", **SMALL, on_error="stop")
    report = tokenize_corpus(source, tmp_path / "out", **SMALL, field="text", on_error="skip")
    assert (report.documents, report.bad_records) == (9, 1)


def test_what_is_done_with_bad_records_may_change_while_there_is_none(tmp_path: Path) -> None:
    good, bad = corpora.jsonl(TEXTS[:200]), b"{bad\n"
    source = corpora.folder_of(tmp_path / "in", {"a.jsonl": good, "b.jsonl": bad})
    out = tmp_path / "out"
    with pytest.raises(CorpusError):
        tokenize_corpus(source, out, tokenizer="gpt2", shard_size=2000, on_error="stop", threads=1)
    made = len(list(corpora.journalled(out)))
    assert made > 0
    report = tokenize_corpus(source, out, tokenizer="gpt2", shard_size=2000)
    assert (report.documents, report.bad_records) == (200, 1)
    with pytest.raises(CorpusError, match="--on-error: was quarantine, is now skip"):
        tokenize_corpus(source, out, tokenizer="gpt2", shard_size=2000, on_error="skip")


def test_inputs_that_change_under_way_are_an_error(tmp_path: Path) -> None:
    source = corpora.folder_of(tmp_path / "in", {"a.jsonl": corpora.jsonl(TEXTS)})
    out = tmp_path / "out"
    changed = False

    def change(progress: Progress) -> None:
        nonlocal changed
        if not changed:
            changed = True
            with open(source / "a.jsonl", "ab") as file:
                file.write(b"{}\n")

    with pytest.raises(CorpusError, match=r"a\.jsonl.*(changed|had .* bytes)"):
        tokenize_corpus(source, out, **SMALL, progress=change)
    assert changed
    assert not (out / "report.json").exists()
    with pytest.raises(CorpusError, match=r"a\.jsonl: had .* bytes, has"):
        tokenize_corpus(source, out, **SMALL)


def test_inputs_that_change_after_they_were_read_are_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from gristmill.corpus.run import Run

    source = corpora.folder_of(tmp_path / "in", {"a.jsonl": corpora.jsonl(TEXTS[:20])})
    engine = Run.engine

    def then_change(self: Run, tasks: Any) -> None:
        engine(self, tasks)
        os.utime(source / "a.jsonl", ns=(1, 1))

    monkeypatch.setattr(Run, "engine", then_change)
    with pytest.raises(CorpusError, match=r"changed while the run was at work: .*a\.jsonl"):
        tokenize_corpus(source, tmp_path / "out", **SMALL)


# --- bad records


@pytest.fixture
def spoiled(tmp_path: Path) -> Path:
    lines = corpora.jsonl(TEXTS[:500]).splitlines(keepends=True)
    for at in (10, 200, 300, 499):
        lines[at] = b'{"text": 5}\n'
    lines[100] = b'{"text": ""}\n'
    return corpora.folder_of(tmp_path / "in", {"a.jsonl": b"".join(lines)})


def test_what_goes_in_comes_out_or_is_counted(spoiled: Path, tmp_path: Path) -> None:
    report = tokenize_corpus(spoiled, tmp_path / "out", **SMALL)
    assert (report.records, report.documents, report.empty) == (500, 495, 1)
    assert report.bad_records == 4
    assert report.law() == "500 records = 495 documents + 1 empty + 4 bad"
    kept = [
        json.loads(line)
        for path in sorted((tmp_path / "out" / "quarantine").iterdir())
        for line in path.read_text().splitlines()
    ]
    assert [one["begins"] for one in kept] == ['{"text": 5}'] * 4
    content = (spoiled / "a.jsonl").read_bytes()
    assert [content[one["offset"] :][:11] for one in kept] == [b'{"text": 5}'] * 4


def test_empty_documents_are_kept_if_asked_for(spoiled: Path, tmp_path: Path) -> None:
    report = tokenize_corpus(spoiled, tmp_path / "out", **SMALL, keep_empty=True)
    assert (report.documents, report.empty) == (496, 0)


@pytest.mark.parametrize(
    ("limit", "enough"), [(3, False), (4, True), ("0.7%", False), ("1%", True)]
)
def test_too_many_bad_records_end_a_run_that_can_go_on(
    spoiled: Path, tmp_path: Path, limit: int | str, enough: bool
) -> None:
    out = tmp_path / "out"
    if enough:
        assert tokenize_corpus(spoiled, out, **SMALL, max_bad=limit).complete
        return
    with pytest.raises(
        TooManyBadRecords, match=r"4 records are bad, and --max-bad allows .*goes on"
    ):
        tokenize_corpus(spoiled, out, **SMALL, max_bad=limit)
    assert not (out / "report.json").exists()
    assert tokenize_corpus(spoiled, out, **SMALL, max_bad=4).bad_records == 4


def test_an_archive_that_was_cut_off_is_told(tmp_path: Path) -> None:
    source = corpora.folder_of(tmp_path / "in", {"a.jsonl.gz": corpora.jsonl(TEXTS)})
    path = source / "a.jsonl.gz"
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    report = tokenize_corpus(source, tmp_path / "out", **SMALL)
    assert report.partial == [str(path)]
    assert report.bad_records == 1
    assert 0 < report.documents < 4000
    assert report.lost == 0


# --- several formats, progress, estimate, report


def test_several_formats_at_once(tmp_path: Path, gpt2: Tokenizer) -> None:
    import numpy

    source = corpora.folder_of(tmp_path / "in", {"a.jsonl": corpora.jsonl(TEXTS[:100])})
    out = tmp_path / "out"
    report = tokenize_corpus(
        source, out, tokenizer="gpt2", to=["megatron", "npy", "llmc"], seq_len=16
    )
    assert corpora.megatron(out) == corpora.expected(gpt2, TEXTS[:100])
    flat = [id for ids in corpora.expected(gpt2, TEXTS[:100]) for id in ids]
    array = numpy.load(out / "npy" / "shard-000000.npy")
    assert array.shape[1] == 16
    assert array.ravel().tolist()[: len(flat)] == flat
    (bin,) = sorted((out / "llmc").glob("*.bin"))
    ids = numpy.fromfile(bin, dtype=numpy.uint16, offset=1024).tolist()
    assert ids == [corpora.END, *flat[:-1]]
    assert report.outputs == ["megatron", "npy", "llmc"]


def test_progress_ends_with_all_of_it(folder: Path, tmp_path: Path) -> None:
    told: list[Progress] = []
    report = tokenize_corpus(folder, tmp_path, **SMALL, progress=told.append)
    assert told
    for before, after in pairwise(told):
        assert before.bytes_done <= after.bytes_done <= after.bytes
        assert before.tokens <= after.tokens <= report.tokens
        assert before.documents <= after.documents <= report.documents
    assert (told[-1].bytes_done, told[-1].files_done) == (told[-1].bytes, 4)
    assert told[-1].documents == report.documents


def test_progress_may_end_a_run(folder: Path, tmp_path: Path) -> None:
    def leave(progress: Progress) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        tokenize_corpus(folder, tmp_path, **SMALL, progress=leave)
    assert tokenize_corpus(folder, tmp_path, **SMALL).complete


def test_an_estimate_of_little_is_exact(folder: Path, gpt2: Tokenizer, tmp_path: Path) -> None:
    guess = estimate([str(folder)], str(tmp_path / "out"), gpt2, Options(), Running(threads=2))
    report = tokenize_corpus(folder, tmp_path / "out", tokenizer="gpt2")
    assert guess.tokens.value == pytest.approx(report.tokens)
    assert guess.documents.value == pytest.approx(4000)
    assert guess.disk.value == pytest.approx(report.written, rel=0.02)
    assert (guess.tokens.plus_minus, guess.files) == (0, 4)


def test_an_estimate_of_much_holds_the_truth(
    tmp_path: Path, gpt2: Tokenizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gristmill.corpus.estimate.PIECE", 4000)
    monkeypatch.setattr("gristmill.corpus.estimate.BEGINNING", 16_000)
    source = corpora.folder_of(
        tmp_path / "in",
        {"a.jsonl": corpora.jsonl(TEXTS[:3000]), "b.jsonl.gz": corpora.jsonl(TEXTS[3000:])},
    )
    guess = estimate([str(source)], str(tmp_path / "out"), gpt2, Options(), Running(threads=1))
    report = tokenize_corpus(source, tmp_path / "out", tokenizer="gpt2")
    assert guess.sampled < guess.bytes / 2
    assert 0 < guess.tokens.plus_minus < guess.tokens.value / 3
    assert abs(guess.tokens.value - report.tokens) < 2 * guess.tokens.plus_minus


def test_a_report_is_text_json_and_a_page(whole: tuple[Path, Report]) -> None:
    out, report = whole
    assert str(report).startswith("4,000 records = 4,000 documents + 0 empty + 0 bad\n")
    stored = json.loads((out / "report.json").read_text())
    assert stored["tokens"] == report.tokens
    page = (out / "report.html").read_text(encoding="utf-8")
    assert page.startswith("<!doctype html>")
    assert "http" not in page
    for part in ("Lengths of documents", "What stands out", f"{report.shards} shards", "<svg"):
        assert part in page


def test_names_are_escaped_in_the_page(tmp_path: Path) -> None:
    source = corpora.folder_of(tmp_path / "<b>&", {"a.jsonl": corpora.jsonl(TEXTS[:20])})
    tokenize_corpus(source, tmp_path / "<i>", tokenizer="gpt2")
    page = (tmp_path / "<i>" / "report.html").read_text(encoding="utf-8")
    assert "&lt;b&gt;&amp;" in page
    assert "<b>&" not in page
    assert "<i>" not in page


def test_it_is_a_name_of_the_package(folder: Path, tmp_path: Path, gpt2: Tokenizer) -> None:
    assert gristmill.tokenize_corpus is tokenize_corpus
    report = gristmill.tokenize_corpus([folder / "a.jsonl"], tmp_path, tokenizer=gpt2)
    assert report.documents == 2500
    with pytest.raises(ValueError, match="to: 'x' is none of"):
        gristmill.tokenize_corpus([folder], tmp_path, tokenizer=gpt2, to="x")
    with pytest.raises(TypeError, match="colour"):
        gristmill.tokenize_corpus([folder], tmp_path, tokenizer=gpt2, colour="red")
