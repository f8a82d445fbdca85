"""Judging vocabularies: the measures by their definitions, and the reports."""

import json
import math
from collections import Counter
from html.parser import HTMLParser
from pathlib import Path

import gristmill
import pytest
import tiny
from gristmill import Tokenizer, compare, evaluate

TEXTS = {
    "English": ["The miller's daughter carried the flour.", "The mill"],
    "Japanese": ["水車は小麦を挽く。", "水車"],
    "marks <&>": ["\u0301 🙂"],
}


@pytest.fixture(scope="module")
def toks() -> dict[str, Tokenizer]:
    return {
        "gpt2": Tokenizer("gpt2"),
        "tiny": Tokenizer.from_bytes(tiny.byte_level_json()),
        "pieces": Tokenizer.from_bytes(tiny.sentencepiece()),
    }


def test_measures_by_their_definitions(toks: dict[str, Tokenizer]) -> None:
    report = compare(toks, TEXTS)
    assert [(row.tokenizer, row.texts) for row in report.rows] == [
        (name, kind) for name in toks for kind in TEXTS
    ]
    for row in report.rows:
        tok, texts = toks[row.tokenizer], TEXTS[row.texts]
        ids = [id for text in texts for id in tok.encode(text)]
        words = [word for text in texts for word in text.split()]
        assert row.tokens == len(ids)
        assert row.bytes == sum(len(text.encode()) for text in texts)
        assert row.characters == sum(map(len, texts))
        assert row.bytes_per_token == row.bytes / len(ids)
        assert row.fertility == len(ids) / len(words)
        whole = [min(tok.count(word), tok.count(f" {word}")) == 1 for word in words]
        assert row.whole_words == sum(whole) / len(words)
        shares = [count / len(ids) for count in Counter(ids).values()]
        entropy = math.log(sum(share**2.5 for share in shares)) / (1 - 2.5)
        assert row.renyi == pytest.approx(entropy / math.log(tok.vocab_size))
        same = [other for other in report.rows if other.tokenizer == row.tokenizer]
        best = min(other.tokens / other.bytes for other in same)
        assert row.parity == pytest.approx(row.tokens / row.bytes / best)


def test_coverage_counts_characters_in_pieces(toks: dict[str, Tokenizer]) -> None:
    def coverage(name: str, text: str) -> float:
        return evaluate(toks[name], {"text": [text]}).rows[0].coverage

    assert coverage("gpt2", "plain") == 1.0
    # One character of bytes beside one of its own.
    assert coverage("pieces", "水☃") == 0.5
    assert coverage("tiny", "a☃") == 0.5


def test_one_tokenizer(toks: dict[str, Tokenizer]) -> None:
    one = evaluate(toks["gpt2"], TEXTS, name="mine")
    assert {row.tokenizer for row in one.rows} == {"mine"}
    listed = compare([toks["gpt2"], toks["tiny"]], TEXTS)
    assert {row.tokenizer for row in listed.rows} == {"gpt2", "tokenizer 2"}


def test_nothing_to_measure(toks: dict[str, Tokenizer]) -> None:
    nothing: list[dict[str, list[str]]] = [{}, {"none": []}, {"empty": [""]}]
    for texts in nothing:
        with pytest.raises(ValueError, match="no text"):
            evaluate(toks["gpt2"], texts)


def test_reports(toks: dict[str, Tokenizer], tmp_path: Path) -> None:
    report = compare(toks, TEXTS)
    lines = str(report).splitlines()
    assert len(lines) == 1 + len(report.rows)
    assert lines[0].split()[:4] == ["tokenizer", "texts", "bytes", "tokens"]
    assert json.loads(json.dumps(report.as_json()))[0]["tokenizer"] == "gpt2"
    report.save(tmp_path / "report.html")
    page = (tmp_path / "report.html").read_text(encoding="utf-8")

    class Reader(HTMLParser):
        def __init__(self) -> None:
            super().__init__()
            self.tags: Counter[str] = Counter()
            self.text = ""

        def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
            self.tags[tag] += 1

        def handle_data(self, data: str) -> None:
            self.text += data

    reader = Reader()
    reader.feed(page)
    assert reader.tags["svg"] == 6
    assert reader.tags["rect"] == 6 * len(report.rows)
    assert "marks <&>" in reader.text
    # Nothing is fetched from anywhere.
    assert "http" not in page
    assert gristmill.Report is type(report)


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("English", ">English<"),
        ("exactly-21-characters", ">exactly-21-characters<"),
        ("a-very-long-name-of-a-text.txt", ">a-very-lon…a-text.txt<"),
        ("水車は小麦を挽く。水車は回る。", ">水車は小麦…車は回る。<"),
    ],
)
def test_names_fit_beside_their_bars(
    toks: dict[str, Tokenizer], name: str, shown: str, tmp_path: Path
) -> None:
    page = compare(toks, {name: ["some text"]}).to_html()
    assert f"<title>{name}</title{shown}/text>" in page
