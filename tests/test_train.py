"""Training: what the result must not depend on, hard input, counts, files, formats."""

import bz2
import gzip
import json
import lzma
import random
import re
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gristmill
import pytest
import tiny
import trainers
import zstandard
from gristmill import Tokenizer, TokenizerError, WordCounts, extend, files, prune
from hypothesis import given
from hypothesis import strategies as st

# Its options are parameters of tests, whose types are not followed.
Trainer: Any = gristmill.Trainer
PARITIES = ["rustbpe", "hf", "minbpe", "cs336", "sentencepiece"]
CHANCE = random.Random(7)
WORDS = ["".join(CHANCE.choices("abcdeé水 \n", k=CHANCE.randrange(1, 30))) for _ in range(4000)]
# Several megabytes, so that threads take part.
MANY = [" ".join(CHANCE.choices(WORDS, k=60)) for _ in range(4000)]


def content(tok: Tokenizer) -> tuple[bytes, Any]:
    """A tokenizer as bytes."""
    _, state = tok.__reduce__()
    return state[0], state[1:]


@pytest.fixture(scope="module", params=PARITIES)
def parity(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@pytest.fixture(scope="module")
def expected(parity: str) -> tuple[bytes, Any]:
    return content(Trainer(700, parity=parity, threads=1).train(MANY))


# --- what does not matter


@pytest.mark.parametrize("threads", [0, 2, 3, 16])
def test_threads(parity: str, threads: int, expected: tuple[bytes, Any]) -> None:
    assert content(Trainer(700, parity=parity, threads=threads).train(MANY)) == expected


@pytest.mark.parametrize("limit", [1, 60_000, "1MB"])
def test_memory_limit(parity: str, limit: int | str, expected: tuple[bytes, Any]) -> None:
    trainer = Trainer(700, parity=parity, memory_limit=limit, threads=2)
    counts = WordCounts(trainer)
    counts.add(MANY)
    assert counts.files > 0 or limit == "1MB"
    assert content(trainer.train(counts)) == expected


def test_parts_merged_in_order(parity: str, expected: tuple[bytes, Any], tmp_path: Path) -> None:
    trainer = Trainer(700, parity=parity)
    total = WordCounts(trainer)
    for number, at in enumerate(range(0, len(MANY), 900)):
        part = WordCounts(trainer)
        part.add(iter(MANY[at : at + 900]))
        part.save(tmp_path / str(number))
        total.merge(WordCounts.load(tmp_path / str(number), memory_limit=50_000))
    assert content(trainer.train(total)) == expected
    whole = WordCounts(trainer)
    whole.add(MANY)
    assert total.items() == whole.items()
    assert len(total) == len(whole) == len(whole.items())
    assert total.bytes == 0 or total.texts == 0 or total.texts == len(MANY)


def test_parts_merged_in_any_order(parity: str, expected: tuple[bytes, Any]) -> None:
    if parity == "minbpe":
        # Its rule asks for the order.
        return
    trainer = Trainer(700, parity=parity)
    parts = [MANY[at::3] for at in (2, 0, 1)]
    total = WordCounts(trainer)
    for part in parts:
        counts = WordCounts(trainer)
        counts.add(part)
        total.merge(counts)
    assert content(trainer.train(total)) == expected


def test_str_and_bytes_are_the_same(parity: str, expected: tuple[bytes, Any]) -> None:
    texts = [text if at % 2 else text.encode() for at, text in enumerate(MANY)]
    assert content(Trainer(700, parity=parity).train(texts)) == expected


@given(st.lists(st.text(alphabet="abcé水 1\n'", max_size=30), max_size=12), st.integers(0, 60))
def test_rules_by_the_definition(texts: list[str], merges: int) -> None:
    for parity, rule in trainers.RULES.items():
        words = trainers.rows(trainers.words_of(texts))
        made = trainers.naive(words, merges, rule())
        tok = Trainer(256 + merges, parity=parity, pattern=trainers.PLAIN).train(texts)
        tokens = [tok.token_bytes(id) for id in range(256, tok.vocab_size)]
        assert tokens == [left + right for left, right in made]


# --- hard input


def test_a_word_counted_three_billion_times() -> None:
    trainer = Trainer(258)
    counts = WordCounts(trainer)
    counts.add_words({"ab": 3_000_000_000, "cd": 2_999_999_999, "ef": 1 << 40})
    tok = trainer.train(counts)
    assert [tok.token_bytes(id) for id in (256, 257)] == [b"ef", b"ab"]


def test_sums_that_do_not_fit_are_refused() -> None:
    trainer = Trainer(300)
    counts = WordCounts(trainer)
    counts.add_words([(b"abc", 2**63), (b"abd", 2**63)])
    with pytest.raises(TokenizerError, match="64 bits"):
        trainer.train(counts)


@pytest.mark.parametrize("text", [" " * 2_000_000, "ab" * 500_000, "a" * 1_048_577])
def test_one_huge_word(text: str) -> None:
    for parity in ["rustbpe", "minbpe", "cs336"]:
        tok = Trainer(266, parity=parity, pattern=None).train([text])
        assert tok.vocab_size == 266
        assert len(tok.token_bytes(265)) == 1024
        assert tok.count(text[:4096]) == 4


def test_a_huge_word_among_others() -> None:
    long = "".join(CHANCE.choices("abc", k=1_000_000))
    began = time.process_time()
    tok = Trainer(2000, pattern=None, max_token_length=64).train([long, "x y", *WORDS])
    assert tok.vocab_size == 2000
    assert time.process_time() - began < 20


def test_tokens_too_long_for_ranks_are_refused() -> None:
    with pytest.raises(TokenizerError, match="max_token_length"):
        Trainer(300, pattern=None).train(["a" * 10_000])
    tok = Trainer(300, pattern=None, max_token_length=100).train(["a" * 10_000])
    assert max(len(tok.token_bytes(id)) for id in range(tok.vocab_size)) <= 100


def test_nothing_to_train_on(parity: str) -> None:
    if parity == "sentencepiece":
        with pytest.raises(TokenizerError, match="no text"):
            Trainer(300, parity=parity).train([])
        return
    tok = Trainer(300, parity=parity).train(iter(()))
    assert tok.vocab_size == 256
    assert tok.decode(tok.encode("what 水")) == "what 水"


def test_a_pattern_that_matches_nothing() -> None:
    assert Trainer(300, pattern="zzz").train(["no such thing"]).vocab_size == 256


def test_the_iterators_exception_comes_out(parity: str) -> None:
    def texts() -> Iterator[str]:
        yield from MANY
        raise LookupError("half-way")

    with pytest.raises(LookupError, match="half-way"):
        Trainer(300, parity=parity).train(texts())


def test_bytes_that_are_not_utf8() -> None:
    with pytest.raises(UnicodeDecodeError) as error:
        Trainer(300).train([b"fine", b"a\xffb"])
    assert error.value.start == 1
    assert error.value.__notes__ == ["in text 1 of those given, from 0"]


def test_lone_surrogates() -> None:
    with pytest.raises(UnicodeEncodeError):
        Trainer(300).train(["a\ud800"])


@pytest.mark.parametrize("wrong", ["a text", b"bytes"])
def test_one_text_is_no_iterable_of_texts(wrong: Any) -> None:
    with pytest.raises(TypeError, match="an iterable"):
        Trainer(300).train(wrong)


@pytest.mark.parametrize("wrong", [[1], [None], [["a"]]])
def test_what_is_no_text(wrong: Any) -> None:
    with pytest.raises(TypeError, match="str or bytes"):
        Trainer(300).train(wrong)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"vocab_size": 255}, "256 bytes"),
        ({"vocab_size": 257, "special_tokens": ["a", "b"]}, "at least 258"),
        ({"vocab_size": 10, "parity": "sentencepiece"}, "at least"),
        ({"vocab_size": 300, "limit_alphabet": 3}, 'only parity="hf"'),
        ({"vocab_size": 300, "pattern": "a", "parity": "sentencepiece"}, "white space"),
        ({"vocab_size": 300, "special_tokens": ["", "a"]}, "empty or given twice"),
        ({"vocab_size": 300, "special_tokens": ["a", "a"]}, "given twice"),
        ({"vocab_size": 300, "parity": "nobody"}, "one of rustbpe, hf"),
        ({"vocab_size": 300, "memory_limit": "much"}, "512MB"),
        ({"vocab_size": 300, "pattern": "("}, "("),
        ({"vocab_size": 300, "character_coverage": 0.5}, "0.98"),
        ({"vocab_size": 300, "parity": "hf", "initial_alphabet": ["ab"]}, "single characters"),
    ],
)
def test_options_that_make_no_sense(options: dict[str, Any], says: str) -> None:
    with pytest.raises(ValueError, match=re.escape(says)):
        Trainer(**options).train(["some text of no great length"])


def test_an_interrupt_ends_it() -> None:
    def endless() -> Iterator[str]:
        while True:
            yield from MANY

    timer = threading.Timer(0.3, lambda: signal.raise_signal(signal.SIGINT))
    timer.start()
    began = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        Trainer(300).train(endless())
    assert time.monotonic() - began < 5


def test_progress() -> None:
    seen: list[dict[str, Any]] = []
    Trainer(2000, threads=2, progress=seen.append).train(MANY * 2)
    stages = [step["stage"] for step in seen]
    assert stages[0] == "counting"
    assert "pairs" in stages
    last = seen[-1]
    assert last["bytes"] == sum(len(text.encode()) for text in MANY * 2)
    assert last["texts"] == len(MANY) * 2
    assert last["wanted"] == 2000 - 256

    def fails(step: dict[str, Any]) -> None:
        raise LookupError("seen enough")

    with pytest.raises(LookupError, match="seen enough"):
        Trainer(2000, progress=fails).train(MANY)
    with pytest.raises(TypeError, match="progress"):
        Trainer(300, progress=3)


# --- counts


def test_counts_know_how_they_were_cut(tmp_path: Path) -> None:
    counts = WordCounts(Trainer(300))
    with pytest.raises(TokenizerError, match="in another way"):
        counts.merge(WordCounts(Trainer(300, pattern="gpt2")))
    with pytest.raises(TokenizerError, match="in another way"):
        Trainer(300, parity="cs336").train(counts)
    # The size of the vocabulary has no part in it.
    assert Trainer(999).train(counts).vocab_size == 256


@pytest.mark.parametrize("change", ["cut", "byte", "empty", "other"])
def test_broken_files_of_counts(change: str, tmp_path: Path) -> None:
    path = tmp_path / "counts"
    counts = WordCounts(Trainer(300, parity="minbpe"))
    counts.add(["some words and some more"])
    counts.save(path)
    assert WordCounts.load(path).items() == counts.items()
    data = bytearray(path.read_bytes())
    if change == "byte":
        data[-30] ^= 1
    path.write_bytes(
        {"cut": bytes(data[:-9]), "empty": b"", "other": b"{}"}.get(change, bytes(data))
    )
    with pytest.raises(TokenizerError, match=r"counts"):
        WordCounts.load(path)
    with pytest.raises(FileNotFoundError):
        WordCounts.load(tmp_path / "none")


def test_words_from_elsewhere(tmp_path: Path) -> None:
    trainer = Trainer(300)
    text = "the mill the mill the miller"
    counted = WordCounts(trainer)
    counted.add([text])
    path = tmp_path / "words.tsv"
    path.write_bytes(b"".join(b"%s\t%d\n" % item for item in counted.items()))
    read, given_words = WordCounts(trainer), WordCounts(trainer)
    read.add_tsv(path)
    given_words.add_words(counted.items())
    assert read.items() == given_words.items() == counted.items()
    path.write_text("word\tmany\n")
    with pytest.raises(TokenizerError, match="line 1"):
        read.add_tsv(path)


def test_left_out_texts_are_counted() -> None:
    counts = WordCounts(Trainer(300, parity="sentencepiece"))
    counts.add(["x" * 5000, "fine", "a \u2585 b"])
    assert counts.left_out == 2
    assert counts.items() == [("▁fine".encode(), 1)]


# --- files


def test_files(tmp_path: Path) -> None:
    lines = ["one two\n", "three 水車\n", "four"]
    (tmp_path / "a.txt").write_text("".join(lines), encoding="utf-8")
    compressed: dict[str, Any] = {
        "b.txt.gz": gzip.compress,
        "b.txt.bz2": bz2.compress,
        "b.txt.xz": lzma.compress,
        "b.txt.zst": zstandard.compress,
    }
    for name, compress in compressed.items():
        (tmp_path / name).write_bytes(compress("".join(lines).encode()))
    records = [{"text": "one\ntwo", "id": 1}, {"text": "水", "body": "other"}]
    (tmp_path / "c.jsonl").write_text("\n".join(map(json.dumps, records)) + "\n\n")
    paths = [tmp_path / name for name in ("a.txt", *compressed, "c.jsonl")]
    texts = [*lines * 5, "one\ntwo", "水"]
    read = [text if isinstance(text, str) else text.decode() for text in files.texts(paths)]
    assert read == texts
    trainer = Trainer(300)
    assert content(trainer.train_files(paths)) == content(trainer.train(texts))
    bare = Trainer(300, parity="sentencepiece")
    counts = WordCounts(bare)
    counts.add_files(str(paths[0]))
    assert dict(counts.items())["▁two".encode()] == 1


def test_many_frames_of_zstandard(tmp_path: Path) -> None:
    text = b"".join(b"line %d\n" % n for n in range(100_000))
    parts = [text[at : at + 70_001] for at in range(0, len(text), 70_001)]
    path = tmp_path / "a.txt.zst"
    path.write_bytes(b"".join(map(zstandard.compress, parts)))
    assert list(files.texts(path)) == text.splitlines(True)
    whole = path.read_bytes()
    path.write_bytes(whole[:-1])
    with pytest.raises(ValueError, match="ends in the middle"):
        list(files.texts(path))
    path.write_bytes(b"")
    assert list(files.texts(path)) == []


@pytest.mark.parametrize(
    ("name", "data", "says"),
    [
        ("a.parquet", b"", "iterator"),
        ("a.jsonl", b'{"text": "a"}\nnot json\n', "line 2"),
        ("a.jsonl", b'{"body": "a"}\n', "no text in the field 'text'"),
        ("a.txt.gz", gzip.compress(b"text\n" * 999)[:-20], "a.txt.gz: line"),
        ("a.txt.gz", b"plain", "a.txt.gz: line"),
        ("a.txt.bz2", bz2.compress(b"text\n" * 999)[:-9], "a.txt.bz2: line"),
        ("a.txt.bz2", b"plain", "a.txt.bz2: line"),
        ("a.txt.xz", lzma.compress(b"text\n" * 999)[:-9], "a.txt.xz: line"),
        ("a.txt.xz", b"plain", "a.txt.xz: line"),
        ("a.txt.zst", zstandard.compress(b"text\n" * 999)[:-9], "a.txt.zst: line"),
        ("a.txt.zst", b"plain text", "a.txt.zst: line"),
        ("a.csv.gz", b"", "iterator"),
        ("a.txt", b"fine\n\xff\n", "invalid"),
    ],
)
def test_files_that_cannot_be_read(name: str, data: bytes, says: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(data)
    with pytest.raises(ValueError, match=re.escape(says)):
        Trainer(300).train_files(tmp_path / name)


def test_missing_files_are_seen_at_once(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("text")
    with pytest.raises(FileNotFoundError):
        Trainer(300).train_files([tmp_path / "a.txt", tmp_path / "b.txt"])


# --- formats, longer, shorter


def test_saved_and_loaded(parity: str, tmp_path: Path) -> None:
    special = ["<|a|>", "<|b|>"]
    tok = Trainer(600, parity=parity, special_tokens=special).train(MANY[:200])
    name = {"hf": "t.json", "sentencepiece": "t.model"}.get(parity, "t.tiktoken")
    tok.save(tmp_path / name)
    more = {}
    if name == "t.tiktoken":
        more = {"pattern": tok.info["pattern"], "special_tokens": tok.special_tokens}
    again = Tokenizer(tmp_path / name, **more)
    assert content(again)[0] == content(tok)[0]
    text = f"{MANY[0]} <|a|> unseen ☂"
    assert again.encode(text, special="parse") == tok.encode(text, special="parse")
    assert tok.token_to_id("<|a|>") in tok.encode(text, special="parse")


def test_what_another_format_cannot_say_is_refused(tmp_path: Path) -> None:
    sp = Tokenizer.from_bytes(tiny.sentencepiece())
    for name in ("t.json", "t.tiktoken"):
        with pytest.raises(TokenizerError, match="writing"):
            sp.save(tmp_path / name)
    odd = Trainer(300, pattern=r"(?=a)a|[^a]+").train(["banana"])
    with pytest.raises(TokenizerError, match="may mean something else"):
        odd.save(tmp_path / "t.json")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("parity", ["rustbpe", "hf"])
def test_shorter_is_trained_with_less(parity: str) -> None:
    long = Trainer(600, parity=parity, special_tokens=["<|a|>"]).train(MANY[:200])
    short = Trainer(400, parity=parity, special_tokens=["<|a|>"]).train(MANY[:200])
    assert content(prune(long, 400)) == content(short)
    assert content(prune(long, 9000)) == content(long)
    with pytest.raises(TokenizerError, match="smaller than 257"):
        prune(long, 256)


@pytest.mark.parametrize("parity", ["rustbpe", "hf"])
def test_longer_on_the_same_texts_is_trained_with_more(parity: str) -> None:
    texts = MANY[:200]
    short = Trainer(400, parity=parity).train(texts)
    long = Trainer(600, parity=parity).train(texts)
    assert content(extend(short, texts, tokens=200)) == content(long)


def test_longer_keeps_every_id() -> None:
    gpt2 = Tokenizer("gpt2")
    texts = ["水車は小麦を挽く。" * 20, "Мельница мелет муку. " * 20]
    longer = extend(gpt2, texts, tokens=20)
    assert longer.vocab_size == gpt2.vocab_size + 20
    assert longer.special_tokens == gpt2.special_tokens
    english = "The miller's daughter carried the flour."
    assert longer.encode(english) == gpt2.encode(english)
    assert longer.count(texts[0]) < gpt2.count(texts[0])
    assert longer.decode(longer.encode(texts[0])) == texts[0]
    for content in (tiny.sentencepiece(), tiny.fallback_json()):
        tok = Tokenizer.from_bytes(content)
        with pytest.raises(TokenizerError, match="training on"):
            extend(tok, texts, tokens=5)
        with pytest.raises(TokenizerError, match="training on"):
            prune(tok, 100)


def test_it_prints_itself() -> None:
    assert repr(Trainer(300)) == "<gristmill.Trainer: 300 tokens, as rustbpe>"
    counts = WordCounts(Trainer(300))
    counts.add(["ab"])
    assert repr(counts) == "<gristmill.WordCounts: 1 texts, 2 bytes>"
