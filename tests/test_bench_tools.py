"""The measuring tools of `bench/`: what gets a number, which bar is met, what the README is given.

Nothing is measured here. A tool that compared wrongly would be believed, so it is held to small
cases whose answers are plain.
"""

import subprocess
import sys
from pathlib import Path
from typing import Any

import chart
import instructions
import pytest
import readme_table
import report
import runs
import samples
from runs import OTHER_IDS
from tables import FASTEST, LIMIT, OURS, Bar, Cell, Metric

BENCH = Path(__file__).parent.parent / "bench"
RATE = Metric("rate", "MB/s", True, (Bar(FASTEST, 2), Bar("gigatoken", 3)))


def row(found: dict[str, list[dict[str, Any]]], metric: Metric = RATE) -> runs.Row:
    """What the runs of one cell come to."""
    cell = Cell("gpt2:en", "1.0 MB", {}, (metric,))
    return runs.row(cell, metric, found, runs.refusals(found))


def rated(*rates: float, ids: str = "a") -> list[dict[str, Any]]:
    return [{"rate": rate, "ids": ids} for rate in rates]


def test_median_fastest_and_bars() -> None:
    one = row({OURS: rated(50, 9, 60), "gigatoken": rated(20), "tiktoken": rated(10)})
    assert one.values == {OURS: 50, "gigatoken": 20, "tiktoken": 10}
    assert one.fastest == "gigatoken"
    assert [(verdict.ratio, verdict.met) for verdict in one.verdicts] == [(2.5, True), (2.5, False)]


def test_less_is_better() -> None:
    metric = Metric("rate", "ms", False, (Bar(FASTEST, 2), Bar(LIMIT, 4)))
    one = row({OURS: rated(5), "gigatoken": rated(30), "tiktoken": rated(20)}, metric)
    assert one.fastest == "tiktoken"
    assert [(verdict.ratio, verdict.met) for verdict in one.verdicts] == [(4, True), (5, False)]


def test_other_ids_get_no_number() -> None:
    one = row({OURS: rated(1), "gigatoken": rated(99, ids="b"), "tiktoken": rated(2)})
    assert one.values == {OURS: 1, "gigatoken": OTHER_IDS, "tiktoken": 2}
    assert one.fastest == "tiktoken"
    assert one.verdicts[1].met is None
    assert not runs.ours_differ([one])


def test_an_oracle_is_right_against_all_others() -> None:
    one = row({OURS: rated(1), "gigatoken": rated(2), "tokenizers": rated(1, ids="b")})
    assert one.values == {OURS: OTHER_IDS, "gigatoken": OTHER_IDS, "tokenizers": 1}
    assert runs.ours_differ([one])


def test_ids_that_change_and_packages_that_fail() -> None:
    changing = rated(1) + rated(1, ids="b")
    one = row({OURS: rated(1), "tokie": changing, "splintr": [{"cannot": "no rank file"}]})
    assert one.values == {OURS: 1, "tokie": "ids differ from run to run", "splintr": "no rank file"}
    assert one.fastest is None
    assert [verdict.met for verdict in one.verdicts] == [None, None]


def test_table_names_what_has_no_number() -> None:
    text = report.table("cold", "about", [row({OURS: rated(1), "tokie": rated(2, ids="b")})])
    assert "no number for tokie: other ids (gpt2:en)" in text
    assert "2x fastest peer: not measured" in text


@pytest.mark.parametrize("start", range(8))
@pytest.mark.parametrize("end", range(8, 16))
def test_slices_end_at_characters(tmp_path: Path, start: int, end: int) -> None:
    data = "aé中🙂b🙂中é".encode()
    path = tmp_path / "text"
    path.write_bytes(data)
    found = samples.Slice(str(path), start, end).read()
    assert found == data[start:end].decode(errors="ignore")


def test_short_text_gives_a_third(tmp_path: Path) -> None:
    (tmp_path / "corpora/multi").mkdir(parents=True)
    (tmp_path / "corpora/multi/hi.txt").write_bytes(b"x" * 900)
    data = samples.Data(str(tmp_path), str(tmp_path))
    before, after = data.slices("hi", 1500, 300)
    assert (before.start, before.end, after.start, after.end) == (0, 600, 600, 900)
    before, after = data.slices("hi", 500, 100)
    assert (before.size, after.size) == (500, 100)


def test_stream_is_as_long_as_asked(tmp_path: Path) -> None:
    path = tmp_path / "text"
    path.write_text("word 中 " * 10_000, encoding="utf-8")
    whole = samples.Slice(str(path), 0, path.stat().st_size)
    parts = [part() for part in samples.stream_of([whole], 500_000, 50_000)]
    assert 500_000 <= sum(len(part.encode()) for part in parts) < 600_000
    assert parts == [part() for part in samples.stream_of([whole], 500_000, 50_000)]


def results() -> dict[str, Any]:
    """A results file of two tables."""
    rows = [report.as_json(row({OURS: rated(150), "gigatoken": rated(151), "tokie": rated(4.56)}))]
    return {
        "machine": {"cpu": "A <fast> one", "cores": 2, "MHz": 1000, "python": "3.11"},
        **{"date": "2026-01-02", "commit": "abc", "command": "bench/compare.py", "scale": 1},
        **{"runs": 5, "clock": "wall", "versions": {OURS: "1", "gigatoken": "2", "tokie": "3"}},
        "tables": {"steady": {"rows": rows}, "cold": {"rows": rows}},
    }


def test_readme_tells_losses() -> None:
    text = readme_table.section(results())
    assert text.index("Cold:") < text.index("Steady:")
    assert "| gpt2:en | 1.0 MB | 150 | **151** | 4.56 | 0.99x |" in text
    assert "Slower than the fastest peer: cold gpt2:en 1.0 MB (0.99x);" in text
    assert all(
        fact in text for fact in ("A <fast> one", "2026-01-02", "commit abc", "Medians of 5")
    )


def test_readme_is_written_between_its_markers() -> None:
    readme = f"before\n{readme_table.BEGIN}\nold\n{readme_table.END}\nafter\n"
    once = readme_table.written(readme, "new")
    assert once == f"before\n{readme_table.BEGIN}\n\nnew\n\n{readme_table.END}\nafter\n"
    assert readme_table.written(once, "new") == once
    with pytest.raises(readme_table.Wrong, match="once each"):
        readme_table.written("no markers", "new")
    # The README of the repository has them.
    readme_table.written(readme_table.README.read_text(encoding="utf-8"), "new")


def test_readme_needs_cold_and_steady() -> None:
    some = results()
    del some["tables"]["steady"]
    with pytest.raises(readme_table.Wrong, match="steady"):
        readme_table.section(some)


def test_chart_is_xml_with_every_number() -> None:
    import xml.etree.ElementTree as ElementTree

    picture = ElementTree.fromstring(chart.chart(results(), ["cold"]))
    texts = ["".join(element.itertext()) for element in picture.iter()]
    assert {"150", "151", "4.56"} <= set(texts)
    assert any("A <fast> one" in text for text in texts)


def test_counts_too_far_away_either_way_are_wrong(capsys: pytest.CaptureFixture[str]) -> None:
    kept = {"same": 100.0, "worse": 100.0, "better": 100.0, "gone": 1.0}
    now = {"same": 102.9, "worse": 103.1, "better": 96.9, "new": 1.0}
    wrong = " ".join(instructions.compare(now, kept))
    assert "same" not in wrong
    assert all(name in wrong for name in ("worse", "better", "gone", "new"))
    assert "WORSE" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--only", "cld"], "did you mean cold?"),
        (["--peers", "gigatokn"], "did you mean gigatoken?"),
        (["--pairs", "gpt2"], "TOKENIZER:TEXT"),
        (["--runs", "0"], "from 1 to 1000"),
        (["--data", "nowhere", "--only", "cold"], "no folder 'nowhere'"),
    ],
)
def test_wrong_command_line(arguments: list[str], message: str, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, str(BENCH / "compare.py"), *arguments], capture_output=True, cwd=tmp_path
    )
    assert done.returncode == 2
    assert message in done.stderr.decode()


def test_one_run_of_ours() -> None:
    task: dict[str, Any] = {
        "measure": "load",
        "source": {"name": "gpt2", "file": None, "ranks": None},
    }
    task |= {"pinned": False, "clock": "wall", "peer": OURS}
    found = runs.in_fresh_process(task, 60)
    assert found["time"] > 0
    assert "cannot" in runs.in_fresh_process({**task, "measure": "none of these"}, 60)
