"""Real tokenizers on real texts against their oracles: ids, places and text are equal.

Run by `make test-wide`. GRISTMILL_DATA names a folder that holds `tokenizers/`, with one folder
for each tokenizer, and `corpora/`. Without it these tests fail. GRISTMILL_WIDE_BYTES says how
much of each text is read, 1 MB unless told; 100000 is a quick run.

A text is cut at any place into documents of very different sizes. All are encoded under each policy
for special tokens, with and without the post-processor; a fourth of them, with special tokens put
into them, once more. One corpus for each tokenizer is encoded in one call.
"""

import functools
import itertools
import json
import os
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Literal, get_args

import oracles
import pytest
from gristmill import Tokenizer, TokenizerError
from hypothesis import given, settings
from json_cases import CL100K_PATTERN
from oracles import HuggingFace, Mistral, Offsets, SentencePiece, TikToken
from test_oracle_json import POLICIES, check_text
from texts import HOSTILE, texts

pytestmark = pytest.mark.wide

VARIABLE = "GRISTMILL_DATA"
DATA = Path(os.environ.get(VARIABLE) or "missing")
BYTES = int(os.environ.get("GRISTMILL_WIDE_BYTES", "1000000"))
SIZES = (1, 30, 100, 300, 1_000, 5_000, 20_000, 80_000)
Word = Literal["text", "parse"]


def found(folder: str, *patterns: str) -> list[str]:
    """Files in a folder of the data; a name that no file has where there is none."""
    root = DATA / folder
    paths = {path for pattern in patterns for path in root.glob(pattern)}
    return sorted(str(path.relative_to(root)) for path in paths) or ["missing"]


ALL_JSON = found("tokenizers", "*/tokenizer.json")
OTHERS = {"bert_base_uncased/tokenizer.json": "WordPiece", "t5_small/tokenizer.json": "Unigram"}
JSON = [name for name in ALL_JSON if name not in OTHERS]
RANKS = found("tokenizers", "*/*.tiktoken", "*/tiktoken.model", "llama3/tokenizer.model")
TEKKEN = found("tokenizers", "*/tekken*.json")
MODELS = [m for m in found("tokenizers", "*/*.model") if m not in RANKS] or ["missing"]
CORPORA = found("corpora", "*.txt", "*.jsonl", "*/*.txt", "*/*.jsonl")


def test_the_data_is_there() -> None:
    assert DATA.is_dir(), f"{VARIABLE} must name the folder that holds tokenizers/ and corpora/"
    for names in (JSON, RANKS, TEKKEN, MODELS, CORPORA):
        assert names != ["missing"]


def texts_of_json_lines(path: Path) -> str:
    parts, size = [], 0
    with path.open(encoding="utf-8") as lines:
        for line in lines:
            row = json.loads(line)
            part = row.get("text") or "\n\n".join(turn["content"] for turn in row["messages"])
            parts.append(part)
            size += len(part.encode())
            if size >= BYTES:
                return "\n".join(parts)
    raise AssertionError(f"{path} is shorter than {BYTES} bytes")


@functools.cache
def corpus(name: str) -> str:
    """The beginning of a corpus."""
    path = DATA / "corpora" / name
    if path.suffix == ".jsonl":
        return texts_of_json_lines(path)
    with path.open("rb") as file:
        text = file.read(BYTES + 4).decode(errors="ignore")
    assert len(text.encode()) >= BYTES
    return text


def documents(name: str) -> list[str]:
    """A corpus in pieces of all sizes."""
    text, source, at, pieces = corpus(name), random.Random(name), 0, []
    for size in itertools.cycle(SIZES):
        end = at + source.randint(size, 2 * size)
        pieces.append(text[at:end])
        at = end
        if at >= len(text):
            return pieces
    raise AssertionError


def with_tokens(pieces: list[str], tokens: list[str]) -> Iterator[str]:
    """Every piece, and every fourth once more with some of the tokens put into it."""
    source = random.Random(len(pieces))
    for number, piece in enumerate(pieces):
        if tokens and number % 4 == 0:
            places = sorted(source.randint(0, len(piece)) for _ in range(4))
            parts = map(
                "".join, zip(cut(piece, places), [*source.choices(tokens, k=4), ""], strict=True)
            )
            yield "".join(parts)
        yield piece


def cut(text: str, places: list[int]) -> list[str]:
    return [text[start:end] for start, end in itertools.pairwise([0, *places, len(text)])]


def path_of(name: str) -> Path:
    path = DATA / "tokenizers" / name
    assert path.is_file(), f"{VARIABLE} must name the folder that holds tokenizers/ and corpora/"
    return path


def no_difference(
    pieces: list[str], ours: list[list[int]], theirs: list[list[int]], what: object = ""
) -> None:
    """Say which document differs, and where: pytest would print megabytes."""
    for piece, left, right in zip(pieces, ours, theirs, strict=True):
        if left != right:
            at = next(
                (n for n, (a, b) in enumerate(zip(left, right, strict=False)) if a != b),
                min(len(left), len(right)),
            )
            pytest.fail(
                f"{what}: document {piece[:60]!r}..., token {at}: "
                f"{left[at - 2 : at + 4]} is not {right[at - 2 : at + 4]}"
            )


# --- tokenizer.json


@functools.lru_cache(maxsize=1)
def json_pair(name: str) -> tuple[Tokenizer, HuggingFace]:
    path = path_of(name)
    return Tokenizer(path), HuggingFace(path.read_bytes())


def some_tokens(theirs: HuggingFace) -> list[str]:
    added = theirs.library.get_added_tokens_decoder().values()
    return random.Random(5).sample(
        tokens := [token.content for token in added], min(40, len(tokens))
    )


@pytest.mark.parametrize("text", CORPORA)
@pytest.mark.parametrize("name", JSON)
def test_json(name: str, text: str) -> None:
    ours, theirs = json_pair(name)
    pieces = documents(text)
    check_documents(ours, theirs, pieces, "text", False)
    mixed = list(with_tokens(pieces, some_tokens(theirs)))
    for special, add in POLICIES[1:]:
        check_documents(ours, theirs, mixed, special, add)


def check_documents(
    ours: Tokenizer, theirs: HuggingFace, pieces: list[str], special: Word, add: bool
) -> None:
    expected = theirs.encode_batch(pieces, special, add)
    ids = [ids for ids, _ in expected]
    found = ours.encode_batch(pieces, special=special, add_special_tokens=add)
    no_difference(pieces, found, ids, (special, add))
    places: list[Offsets] = []
    for piece in pieces:
        same, offsets = ours.encode_with_offsets(piece, special=special, add_special_tokens=add)
        assert len(same) == len(offsets)
        places.append(offsets)
    for piece, left, (_, right) in zip(pieces, places, expected, strict=True):
        if left != right:
            at = next(n for n, (a, b) in enumerate(zip(left, right, strict=True)) if a != b)
            pytest.fail(f"{piece[:60]!r}..., token {at}: place {left[at]} is not {right[at]}")
    assert ours.count_batch(pieces, special=special, add_special_tokens=add) == [*map(len, ids)]
    if (special, add) not in (POLICIES[0], POLICIES[-1]):
        # The ids of the others are no others.
        return
    for skip in (False, True):
        decoded = theirs.library.decode_batch(ids, skip_special_tokens=skip)
        texts_ = ours.decode_batch(ids, skip_special_tokens=skip)
        for piece, one, other in zip(pieces, texts_, decoded, strict=True):
            assert one == other, piece[:60]


@pytest.mark.parametrize("name", JSON)
def test_json_in_one_call(name: str) -> None:
    ours, theirs = json_pair(name)
    text = corpus(CORPORA[JSON.index(name) % len(CORPORA)])
    no_difference([text], [ours.encode(text)], [theirs.ids(text)])
    assert ours.count(text.encode()) == len(theirs.ids(text))


@pytest.mark.parametrize("name", JSON)
def test_json_hostile_texts(name: str) -> None:
    ours, theirs = json_pair(name)
    around = [f"x {token} y{token}{token}z" for token in some_tokens(theirs)]
    for text in [*HOSTILE, *around, *map(str.upper, around)]:
        check_text(ours, theirs, text)


@pytest.mark.parametrize("name", JSON)
def test_json_made_up_texts(name: str) -> None:
    ours, theirs = json_pair(name)

    @settings(max_examples=settings().max_examples * 4)
    @given(texts(12, *some_tokens(theirs)))
    def run(text: str) -> None:
        check_text(ours, theirs, text)

    run()


@pytest.mark.parametrize("name", JSON)
def test_json_vocabulary(name: str) -> None:
    ours, theirs = json_pair(name)
    vocab = theirs.vocab()
    assert ours.vocab_size == theirs.vocab_size()
    assert ours.special_tokens == theirs.special_tokens()
    assert {token: ours.token_to_id(token) for token in vocab} == vocab
    # Of tokens of one id, which is its name is the library's choice.
    assert all(vocab[ours.id_to_token(id)] == id for id in vocab.values())


@pytest.mark.parametrize("name", [name for name in ALL_JSON if name in OTHERS] or ["missing"])
def test_other_models_are_refused_by_name(name: str) -> None:
    with pytest.raises(TokenizerError, match=OTHERS.get(name, "")):
        Tokenizer(path_of(name))


def test_known_ids() -> None:
    llama = Tokenizer(path_of("llama3/tokenizer.json"))
    assert llama.encode(" Arthropoda") == [112328]


# --- rank files and tekken.json


@functools.lru_cache(maxsize=1)
def rank_pair(name: str) -> tuple[Tokenizer, TikToken]:
    path = path_of(name)
    ours = Tokenizer(path)
    if path.stem in oracles.PUBLISHED:
        return ours, TikToken(path.read_bytes(), *oracles.PUBLISHED[path.stem])
    meta = path.parent / "tiktoken_meta.json"
    pattern = json.loads(meta.read_text())["pat_str"] if meta.exists() else CL100K_PATTERN
    return ours, TikToken(path.read_bytes(), pattern, ours.special_tokens)


@functools.lru_cache(maxsize=1)
def tekken_pair(name: str) -> tuple[Tokenizer, Mistral, TikToken]:
    path = path_of(name)
    theirs = Mistral(path)
    return Tokenizer(path), theirs, theirs.tiktoken(path)


def check_ranks(ours: Tokenizer, theirs: TikToken, pieces: list[str]) -> None:
    tokens = random.Random(5).sample(sorted(ours.special_tokens), min(20, len(ours.special_tokens)))
    expected = [theirs.ids(piece) for piece in pieces]
    no_difference(pieces, ours.encode_batch(pieces), expected)
    assert ours.decode_batch(expected) == pieces
    mixed = list(with_tokens(pieces, tokens))
    for special in get_args(Word):
        expected = [theirs.ids(piece, special) for piece in mixed]
        no_difference(mixed, ours.encode_batch(mixed, special=special), expected, special)
    some = set(tokens[::2])
    expected = [theirs.ids(piece, some) for piece in mixed]
    no_difference(mixed, ours.encode_batch(mixed, special=some), expected, some)
    for piece in mixed:
        has = any(token in piece for token in ours.special_tokens)
        if has:
            with pytest.raises(TokenizerError, match="special token"):
                ours.count(piece, special="forbid")
        else:
            ours.count(piece, special="forbid")


@pytest.mark.parametrize("text", CORPORA)
@pytest.mark.parametrize("name", RANKS)
def test_ranks(name: str, text: str) -> None:
    check_ranks(*rank_pair(name), documents(text))


@pytest.mark.parametrize("name", RANKS)
def test_ranks_in_one_call(name: str) -> None:
    ours, theirs = rank_pair(name)
    for text in (corpus(CORPORA[0]), "".join(HOSTILE) * 50):
        no_difference([text], [ours.encode(text)], [theirs.ids(text)])


@pytest.mark.parametrize("name", RANKS)
def test_ranks_made_up_texts(name: str) -> None:
    ours, theirs = rank_pair(name)

    @settings(max_examples=settings().max_examples * 4)
    @given(texts(12, *sorted(ours.special_tokens)[:5]))
    def run(text: str) -> None:
        for special in get_args(Word):
            assert ours.encode(text, special=special) == theirs.ids(text, special)

    run()


@pytest.mark.parametrize("text", CORPORA)
@pytest.mark.parametrize("name", TEKKEN)
def test_tekken(name: str, text: str) -> None:
    ours, theirs, tiktoken = tekken_pair(name)
    pieces = documents(text)
    no_difference(pieces, ours.encode_batch(pieces), [theirs.ids(piece) for piece in pieces])
    check_ranks(ours, tiktoken, pieces[::2])


@pytest.mark.parametrize("name", TEKKEN)
def test_tekken_tokens(name: str) -> None:
    ours, theirs, _ = tekken_pair(name)
    number = theirs.vocab_size()
    assert ours.vocab_size == number
    bytes_ = [ours.token_bytes(id) for id in range(number)]
    assert bytes_ == [theirs.token_bytes(id) for id in range(number)]


# --- SentencePiece


@functools.lru_cache(maxsize=1)
def model_pair(name: str) -> tuple[Tokenizer, SentencePiece]:
    path = path_of(name)
    return Tokenizer(path), SentencePiece(path.read_bytes())


@pytest.mark.parametrize("text", CORPORA)
@pytest.mark.parametrize("name", MODELS)
def test_models(name: str, text: str) -> None:
    ours, theirs = model_pair(name)
    pieces = documents(text)
    expected = [theirs.encode(piece) for piece in pieces]
    ids = [ids for ids, _ in expected]
    no_difference(pieces, ours.encode_batch(pieces), ids)
    assert [ours.encode_with_offsets(piece) == (ids, places) for piece, (ids, places) in zip(
        pieces, expected, strict=True
    )] == [True] * len(pieces)  # fmt: skip
    assert ours.decode_batch(ids) == [theirs.decode(one) for one in ids]


@pytest.mark.parametrize("name", MODELS)
def test_models_made_up_texts(name: str) -> None:
    ours, theirs = model_pair(name)
    whole = corpus(CORPORA[-1])
    no_difference([whole], [ours.encode(whole)], [theirs.ids(whole)])

    @settings(max_examples=settings().max_examples * 4)
    @given(texts())
    def run(text: str) -> None:
        ids, places = theirs.encode(text)
        assert ours.encode_with_offsets(text) == (ids, places)
        assert ours.decode(ids) == theirs.decode(ids)

    run()
