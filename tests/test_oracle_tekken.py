"""Made-up tekken.json files against `mistral-common`: ids, text, bytes and counts are equal.

`mistral-common` never finds special tokens in a text, which is `special="text"`; for the other
policies the oracle is tiktoken with the same tokens.
"""

from pathlib import Path

import pytest
import tiny
from gristmill import Tokenizer, TokenizerError
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles import Mistral, TikToken
from texts import HOSTILE, texts

PUBLISHED_PATTERN = (
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+"
    r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*"
    r"|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
LISTED = ["<unk>", "<s>", "</s>", "[INST]", "[/INST]", "<pad>"]
FILES = {
    "specials not listed": tiny.tekken(),
    "specials listed": tiny.tekken(LISTED, len(LISTED)),
    "some listed": tiny.tekken(LISTED, 20, version="v11"),
    "none listed": tiny.tekken([], 10, version="v7"),
    "vocabulary cut short": tiny.tekken(LISTED, 8, default_vocab_size=300),
    "only bytes": tiny.tekken(LISTED, 8, default_vocab_size=264),
    "the published pattern": tiny.tekken(LISTED, 1000, pattern=PUBLISHED_PATTERN),
    "pattern of everything": tiny.tekken(LISTED, 9, pattern=r"(?s:.+)"),
}
SPECIALS = ["<s>", "[INST]", "<SPECIAL_7>", "[TOOL_CALLS]", "</s>"]


@pytest.fixture(scope="module", params=FILES)
def trio(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Tokenizer, Mistral, TikToken]:
    path: Path = tmp_path_factory.mktemp("tekken") / "tekken.json"
    path.write_bytes(FILES[request.param])
    theirs = Mistral(path)
    return Tokenizer(path), theirs, theirs.tiktoken(path)


def check_text(trio: tuple[Tokenizer, Mistral, TikToken], text: str) -> None:
    ours, theirs, tiktoken = trio
    ids = theirs.ids(text)
    assert ours.encode(text) == ids == tiktoken.ids(text)
    assert ours.count(text) == len(ids)
    assert ours.decode(ids) == theirs.decode(ids) == text
    parsed = tiktoken.ids(text, "parse")
    assert ours.encode(text, special="parse") == parsed
    assert ours.decode(parsed) == theirs.decode(parsed) == text
    some = {token for token in SPECIALS[:3] if token in ours.special_tokens}
    assert ours.encode(text, special=some) == tiktoken.ids(text, some)


def test_hostile_texts(trio: tuple[Tokenizer, Mistral, TikToken]) -> None:
    around = [f"{token} a{token}{token}b" for token in SPECIALS]
    for text in [*HOSTILE, *around, tiny.PARAGRAPH]:
        check_text(trio, text)


@settings(max_examples=settings().max_examples * 4)
@given(texts(12, *SPECIALS))
def test_made_up_texts(trio: tuple[Tokenizer, Mistral, TikToken], text: str) -> None:
    check_text(trio, text)


@given(st.data())
def test_made_up_ids(trio: tuple[Tokenizer, Mistral, TikToken], data: st.DataObject) -> None:
    ours, theirs, _ = trio
    some = st.one_of(
        st.integers(0, theirs.vocab_size() - 1),
        st.integers(0, theirs.library.num_special_tokens + 255),
    )
    ids = data.draw(st.lists(some.filter(lambda id: id < theirs.vocab_size()), max_size=12))
    assert ours.decode_bytes(ids) == b"".join(theirs.token_bytes(id) for id in ids)
    for skip in (False, True):
        assert ours.decode(ids, skip_special_tokens=skip) == theirs.decode(ids, skip), (ids, skip)


def test_tokens(trio: tuple[Tokenizer, Mistral, TikToken]) -> None:
    ours, theirs, _ = trio
    number = theirs.vocab_size()
    assert ours.vocab_size == number
    assert [ours.token_bytes(id) for id in range(number)] == list(
        map(theirs.token_bytes, range(number))
    )
    assert [ours.id_to_token(id) for id in range(number)] == list(
        map(theirs.library.id_to_piece, range(number))
    )
    assert [ours.token_to_id(theirs.token_bytes(id)) for id in range(number)] == [*range(number)]
    specials = range(theirs.library.num_special_tokens)
    assert ours.special_tokens == {theirs.library.id_to_piece(id): id for id in specials}


@pytest.mark.parametrize(
    "content",
    [
        tiny.tekken(LISTED, 3),
        tiny.tekken(["<s>", "<s>"], 5),
        tiny.tekken(LISTED, 8, default_vocab_size=100_000),
        tiny.tekken(LISTED, 8, default_vocab_size=100),
        tiny.tekken(LISTED, 8, default_vocab_size=4),
        tiny.tekken(LISTED, 8, pattern="("),
        tiny.tekken(LISTED, 8, pattern=None),
    ],
)
def test_what_mistral_refuses_is_refused(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "tekken.json"
    path.write_bytes(content)
    # AssertionError, KeyError, ValueError and, once, a panic.
    with pytest.raises(BaseException):  # noqa: B017, PT011
        Mistral(path).ids("a")
    with pytest.raises(TokenizerError):
        Tokenizer(path)
