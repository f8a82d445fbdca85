"""Tiny tokenizers against the plain Python of reference.py."""

import json
from collections.abc import Sequence

import reference
import tiny
from conftest import FORMATS
from gristmill import Tokenizer
from hypothesis import given, settings
from hypothesis import strategies as st
from texts import HOSTILE, texts

RANKS = tiny.ranks()
VOCAB = tiny.byte_vocab()
MERGES = tiny.byte_merges()
# Few letters, many merges that compete: overlapping, equal, and leading to the same token.
LETTERS = st.text("aabbcd ", max_size=40)
PAIRS = st.lists(
    st.tuples(st.text("abc", min_size=1, max_size=3), st.text("abc", min_size=1, max_size=3)),
    max_size=30,
)


def pieces(text: str) -> list[str]:
    return reference.split(tiny.PATTERN, text)


def spelled(text: str) -> list[str]:
    return [tiny.to_alphabet(piece) for piece in pieces(text)]


@settings(max_examples=settings().max_examples * 3)
@given(texts())
def test_rank_file(text: str) -> None:
    assert FORMATS["ranks"]().encode(text) == reference.encode_with_ranks(pieces(text), RANKS)


@settings(max_examples=settings().max_examples * 3)
@given(texts(12, *tiny.SPECIALS))
def test_special_tokens(text: str) -> None:
    tokenizer, specials = FORMATS["ranks"](), tiny.special_tokens()
    for some in (specials, {"<|fim|>": specials["<|fim|>"]}, dict[str, int]()):
        expected: list[int] = []
        for part in reference.cut_at_specials(text, some):
            if isinstance(part, int):
                expected.append(part)
            else:
                expected += reference.encode_with_ranks(pieces(part), RANKS)
        assert tokenizer.encode(text, special=set(some)) == expected


@settings(max_examples=settings().max_examples * 3)
@given(texts())
def test_merge_list(text: str) -> None:
    expected = reference.encode_with_merges(spelled(text), VOCAB, MERGES)
    assert FORMATS["byte_level_json"]().encode(text) == expected


def from_merges(merges: Sequence[tuple[str, str]], ignore_merges: bool = False) -> Tokenizer:
    """A byte-level tokenizer.json that cuts nowhere, with these merges; ids in no useful order."""
    tokens = {*tiny.ALPHABET.values(), *(a + b for a, b in merges), "".join(sum(merges, ()))[:9]}
    tokens |= {part for pair in merges for part in pair} - {""}
    content = json.loads(tiny.byte_level_json())
    content["pre_tokenizer"] = content["pre_tokenizer"]["pretokenizers"][1]
    content["added_tokens"] = []
    vocab = {token: id for id, token in enumerate(sorted(tokens - {""}, key=lambda t: t[::-1]))}
    content["model"] |= {
        "vocab": vocab,
        "merges": [list(pair) for pair in merges],
        "ignore_merges": ignore_merges,
    }
    return Tokenizer.from_bytes(json.dumps(content).encode())


@settings(max_examples=settings().max_examples * 8)
@given(PAIRS, LETTERS, st.booleans())
def test_any_merge_list(merges: list[tuple[str, str]], text: str, ignore_merges: bool) -> None:
    """Merges of any order, some unreachable, some twice, some making the same token."""
    tokenizer = from_merges(merges, ignore_merges)
    piece = tiny.to_alphabet(text)
    vocab = {tokenizer.id_to_token(id): id for id in range(tokenizer.vocab_size)}
    expected = reference.encode_with_merges([piece] if piece else [], vocab, merges, ignore_merges)
    assert tokenizer.encode(text) == expected


@settings(max_examples=settings().max_examples * 8)
@given(st.sets(st.text("abc", min_size=2, max_size=5), max_size=40), LETTERS, st.randoms())
def test_any_ranks(words: set[str], text: str, random: st.DrawFn) -> None:
    """Tokens of any rank, whether or not shorter tokens lead to them."""
    shuffled = sorted(words)
    getattr(random, "shuffle")(shuffled)  # noqa: B009 - Hypothesis does not name the type
    ranks = {bytes([byte]): byte for byte in range(256)}
    ranks |= {word.encode(): 256 + 2 * number for number, word in enumerate(shuffled)}
    pattern = r"[a-c]+| +|[\s\S]"
    tokenizer = Tokenizer.from_bytes(tiny.rank_file(ranks), pattern=pattern)
    expected = reference.encode_with_ranks(reference.split(pattern, text), ranks)
    assert tokenizer.encode(text) == expected


def test_duplicate_merges_count_at_their_last_place() -> None:
    merges = [("a", "b"), ("b", "c"), ("a", "b")]
    tokenizer = from_merges(merges)
    ids = tokenizer.encode("abc")
    assert [tokenizer.id_to_token(id) for id in ids] == ["a", "bc"]


def test_equal_ranks_merge_from_the_left() -> None:
    tokenizer = from_merges([("a", "a")])
    ids = tokenizer.encode("aaaaa")
    assert [tokenizer.id_to_token(id) for id in ids] == ["aa", "aa", "a"]


def test_long_pieces_merge_as_short_ones() -> None:
    """Whatever is done for long pieces gives what the plain loop gives."""
    tokenizer = from_merges(MERGES)
    vocab = {tokenizer.id_to_token(id): id for id in range(tokenizer.vocab_size)}
    unit = "".join(tiny.PARAGRAPH.split())
    for length in [*range(1, 70), 127, 128, 129, 255, 256, 257, 500, 1000]:
        text = (unit * 3)[:length]
        expected = reference.encode_with_merges([tiny.to_alphabet(text)], vocab, MERGES)
        assert tokenizer.encode(text) == expected


def test_hostile_texts() -> None:
    for text in HOSTILE:
        by_ranks = reference.encode_with_ranks(pieces(text), RANKS)
        assert FORMATS["ranks"]().encode(text) == by_ranks
        by_merges = reference.encode_with_merges(spelled(text), VOCAB, MERGES)
        assert FORMATS["byte_level_json"]().encode(text) == by_merges
        assert [id - 24 for id in FORMATS["tekken"]().encode(text)] == by_ranks
