"""Rank files against `tiktoken`: the embedded tokenizers, and made-up ones with any pattern.

The oracle is built from the rank file that `Tokenizer.save` writes, so nothing is downloaded.
"""

import functools
import string
import tempfile
from pathlib import Path
from typing import Literal, get_args

import gristmill
import pytest
import tiny
from gristmill import Tokenizer, TokenizerError
from hypothesis import given, settings
from hypothesis import strategies as st
from json_cases import CL100K_PATTERN, GPT2_PATTERN
from oracles import CL100K_PUBLISHED, O200K_PATTERN, PUBLISHED, R50K_PATTERN, TikToken
from test_oracle_tekken import PUBLISHED_PATTERN
from texts import HOSTILE, WHITE_SPACE, texts

SPECIALS = ["<|endoftext|>", "<|fim_prefix|>", "<|endofprompt|>", "<|start|>", "<|channel|>"]
Word = Literal["text", "parse", "forbid"]


@functools.cache
def ranks_of(ours: Tokenizer, folder: Path) -> bytes:
    path = folder / "ranks.tiktoken"
    ours.save(path)
    return path.read_bytes()


@pytest.fixture(scope="module", params=gristmill.EMBEDDED)
def embedded_pair(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Tokenizer, TikToken]:
    """An embedded tokenizer and tiktoken with the same ranks."""
    ours = Tokenizer(request.param)
    content = ranks_of(ours, tmp_path_factory.mktemp("ranks"))
    return ours, TikToken(content, *PUBLISHED[request.param])


def check_text(ours: Tokenizer, theirs: TikToken, text: str) -> None:
    """All policies, and the ways back."""
    for special in get_args(Word):
        try:
            ids = theirs.ids(text, special)
        except ValueError:
            assert special == "forbid"
            with pytest.raises(TokenizerError, match="special token"):
                ours.encode(text, special=special)
            continue
        assert ours.encode(text, special=special) == ids, (text, special)
        assert ours.encode(text.encode(), special=special) == ids
        assert ours.count(text, special=special) == len(ids)
        assert ours.decode(ids) == text == theirs.decode(ids)
        assert ours.decode_bytes(ids) == text.encode()
        assert ours.encode(text, special=special, add_special_tokens=True) == ids
    known = list(ours.special_tokens)
    for some in (set[str](), set(known[:1]), set(known[1:3])):
        assert ours.encode(text, special=some) == theirs.ids(text, some), (text, some)
        assert ours.encode(text, special=frozenset(some)) == theirs.ids(text, some)
    ids, places = ours.encode_with_offsets(text, special="parse")
    assert ids == theirs.ids(text, "parse")
    check_places(ours, text, ids, places)


def check_places(ours: Tokenizer, text: str, ids: list[int], places: list[tuple[int, int]]) -> None:
    """Each token's bytes stand at its place: whole characters, of which it may hold a part."""
    data, at = text.encode(), 0
    # The character that a byte is in.
    character = [n for n, char in enumerate(text) for _ in char.encode()]
    for id, (start, end) in zip(ids, places, strict=True):
        token = ours.token_bytes(id)
        assert data[at : at + len(token)] == token
        assert (start, end) == (character[at], character[at + len(token) - 1] + 1)
        at += len(token)
    assert at == len(data)


def test_hostile_texts(embedded_pair: tuple[Tokenizer, TikToken]) -> None:
    around = [f" {token} a{token}{token[:-1]}{token}b\n" for token in SPECIALS]
    for text in [*HOSTILE, *around, tiny.PARAGRAPH]:
        check_text(*embedded_pair, text)


@settings(max_examples=settings().max_examples * 4)
@given(texts(12, *SPECIALS))
def test_made_up_texts(embedded_pair: tuple[Tokenizer, TikToken], text: str) -> None:
    check_text(*embedded_pair, text)


@given(st.data())
def test_made_up_ids(embedded_pair: tuple[Tokenizer, TikToken], data: st.DataObject) -> None:
    ours, theirs = embedded_pair
    largest = len(theirs.library._mergeable_ranks) - 1
    some = st.one_of(
        st.integers(0, largest),
        st.integers(0, 300),
        st.sampled_from(list(ours.special_tokens.values())),
    )
    ids = data.draw(st.lists(some, max_size=20))
    assert ours.decode_bytes(ids) == theirs.decode_bytes(ids)
    assert ours.decode(ids) == theirs.decode(ids)


def test_vocabulary(embedded_pair: tuple[Tokenizer, TikToken]) -> None:
    ours, theirs = embedded_pair
    ranks, specials = theirs.library._mergeable_ranks, theirs.library._special_tokens
    assert ours.special_tokens == specials
    assert {token: ours.token_to_id(token) for token in ranks} == ranks
    assert {token: ours.token_to_id(token) for token in specials} == specials
    assert [ours.token_bytes(id) for id in ranks.values()] == list(ranks)
    assert ours.vocab_size == theirs.library.n_vocab


def test_gaps_between_special_tokens() -> None:
    """Ids that no token has, though larger ids are tokens."""
    cl100k = Tokenizer("cl100k_base")
    for id in (100256, 100261, 100275, 100277):
        with pytest.raises(KeyError):
            cl100k.decode([id])


MADE_UP = {
    "tiny": tiny.PATTERN,
    "gpt2": GPT2_PATTERN,
    "r50k": R50K_PATTERN,
    "cl100k": CL100K_PATTERN,
    "cl100k, published": CL100K_PUBLISHED,
    "o200k": O200K_PATTERN,
    "tekken": PUBLISHED_PATTERN,
    "everything": r"(?s:.+)",
    "characters": r"(?s:.)",
    "words": r"\w+|\W",
    "words and gaps": r"\w+|[^\w\s]+|\s+",
    "behind": r"(?<=\p{L})\p{N}+|(?<!\s)\s|[\s\S]",
    "lazy": r"\s+?\S|\S+?(?=\s|$)|[\s\S]",
    "cases": r"(?i:THE|ing)|\p{Lu}\p{Ll}*|[\s\S]",
    "scripts": r"\p{Han}+|\p{Hiragana}+|\p{Cyrillic}+|\p{Greek}|[\s\S]",
    "classes": r"[\p{L}&&[^\p{Lu}]]+|[\p{P}--[.,]]|[^\x00-\x7f]|[\s\S]",
    "boundaries": r"\b\w+\b|\B.|[\s\S]",
    "counted": r"\p{L}{2,4}|\p{N}{3}|[\s\S]{1,2}",
    "possessive": r"\s++$|a*+b|\p{L}?+x|[\s\S]",
    "not everything": r"\p{L}+|\p{N}+",
}


@functools.cache
def made_up_pair(name: str) -> tuple[Tokenizer, TikToken]:
    specials = tiny.special_tokens() | {"|>x": 900, "☃ ": 901, "mill": 902, "12": 903}
    ours = Tokenizer.from_bytes(tiny.rank_file(), pattern=MADE_UP[name], special_tokens=specials)
    return ours, TikToken(tiny.rank_file(), MADE_UP[name], specials)


def check_made_up(name: str, text: str) -> None:
    ours, theirs = made_up_pair(name)
    assert ours.encode(text) == theirs.ids(text), (name, text)
    assert ours.encode(text, special="parse") == theirs.ids(text, "parse"), (name, text)
    for some in ({"<|endoftext|>", "mill"}, {"|>x"}, {"☃ ", "12"}):
        assert ours.encode(text, special=some) == theirs.ids(text, some), (name, text, some)
    ids = ours.encode(text, special="parse")
    assert ours.decode(ids) == theirs.decode(ids)


@pytest.mark.parametrize("name", MADE_UP)
def test_patterns_on_hostile_texts(name: str) -> None:
    for text in [*HOSTILE, tiny.PARAGRAPH, "mill<|endoftext|>xx<|endoftext|><|mills☃ ☃|>x123"]:
        check_made_up(name, text)


@settings(max_examples=settings().max_examples * 15)
@given(st.sampled_from(list(MADE_UP)), texts(12, "<|endoftext|>x", "|>x", "mill", "aab", "☃ "))
def test_patterns_on_made_up_texts(name: str, text: str) -> None:
    check_made_up(name, text)


def test_every_character_between_letters() -> None:
    """Each character of the basic plane, in the place where its class decides the cut."""
    for name in ("gpt2", "cl100k_base", "o200k_base"):
        ours, theirs = Tokenizer(name), made_up_pair_of(name)
        for start in range(0, 0x11000, 0x400):
            codes = (code for code in range(start, start + 0x400) if not 0xD800 <= code < 0xE000)
            text = "".join(f"a{chr(code)}b {chr(code)}1{chr(code)}{chr(code)}.\n" for code in codes)
            assert ours.encode(text) == theirs.ids(text), (name, hex(start))


@functools.cache
def made_up_pair_of(name: str) -> TikToken:
    with tempfile.TemporaryDirectory() as folder:
        return TikToken(ranks_of(Tokenizer(name), Path(folder)), *PUBLISHED[name])


@pytest.mark.parametrize("name", ["gpt2", "cl100k_base", "o200k_base"])
def test_every_place_in_padding(name: str) -> None:
    """Cuts do not depend on where in a block of bytes they fall."""
    ours, theirs = Tokenizer(name), made_up_pair_of(name)
    hard = ["'s", " \n x", "12345", "aBc", "\u3000中1", "\r\n\r\n", "e\u0301'LL", "  \t. /"]
    for padding in ("a", "中", " ", "1", ".", "é"):
        for number in range(131):
            text = "".join(padding * number + part + padding for part in hard[number % 3 :: 2])
            assert ours.encode(text) == theirs.ids(text), (padding, number)


def test_runs_of_every_length() -> None:
    ours, theirs = Tokenizer("o200k_base"), made_up_pair_of("o200k_base")
    lengths = [*range(1, 131), *range(254, 259), 1000, 4095, 4096, 4097, 65535, 65536, 65537]
    for character in ["a", "^", " ", "\n", "\t", "=", "中", "\u0301", "1", "ไ", "🙂", "aB", "\r\n"]:
        for number in lengths[: None if len(character.encode()) == 1 else -3]:
            text = character * number
            assert ours.encode(text) == theirs.ids(text), (character, number)


def test_ascii_in_every_order() -> None:
    """Every three ASCII characters of different classes, one after another."""
    alphabet = "aZ1' .\n\r\ts" + WHITE_SPACE[-1] + "é" + string.punctuation[:3]
    text = "".join(a + b + c for a in alphabet for b in alphabet for c in alphabet)
    for name in ("gpt2", "cl100k_base", "o200k_base"):
        assert Tokenizer(name).encode(text) == made_up_pair_of(name).ids(text)
