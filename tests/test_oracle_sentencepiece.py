"""Made-up SentencePiece models against `sentencepiece`: ids, places, text and pieces are equal.

Each model is trained here, with one or several options of the trainer that change what encoding
does. `sentencepiece` never finds control symbols in a text, which is `special="text"`, the
default.
"""

import functools
import itertools
from typing import Any

import oracles
import pytest
import tiny
from gristmill import Tokenizer, TokenizerError
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles import SentencePiece
from texts import HOSTILE, texts

LINES = [*tiny.PARAGRAPH.splitlines(), *(line for line in HOSTILE if "\0" not in line)] * 3
RULES = ("identity", "nmt_nfkc", "nfkc", "nmt_nfkc_cf", "nfkc_cf")
SYMBOLS = ["<tool>", "the", "▁▁", "水車", "<|a|>", "<|a|>b", "\n"]

Options = dict[str, Any]


def options() -> dict[str, Options]:
    found: dict[str, Options] = {
        "plain": {},
        "byte fallback": {"byte_fallback": True},
        "few characters": {"character_coverage": 0.98},
        "few characters, bytes": {"character_coverage": 0.98, "byte_fallback": True},
        "symbols": {"user_defined_symbols": SYMBOLS},
        "control symbols": {"control_symbols": ["<tool>", "<|a|>"]},
        "suffix": {"treat_whitespace_as_suffix": True},
        "suffix, symbols": {"treat_whitespace_as_suffix": True, "user_defined_symbols": SYMBOLS},
        "each digit": {"split_digits": True},
        "spaces alone": {"allow_whitespace_only_pieces": True, "remove_extra_whitespaces": False},
        "not cut at spaces": {"split_by_whitespace": False},
        "another unk surface": {"unk_surface": "?"},
        "no unk surface": {"unk_surface": "", "remove_extra_whitespaces": False},
        "other names": {
            "unk_piece": "[UNK]",
            "bos_piece": "[BOS]",
            "eos_piece": "[EOS]",
            "pad_piece": "[PAD]",
            "pad_id": 3,
        },
        "no bos or eos": {"bos_id": -1, "eos_id": -1},
        "llama": {
            "byte_fallback": True,
            "normalization_rule_name": "identity",
            "remove_extra_whitespaces": False,
            "allow_whitespace_only_pieces": True,
            "split_digits": True,
            "character_coverage": 0.98,
        },
        "gemma": {
            "byte_fallback": True,
            "normalization_rule_name": "identity",
            "remove_extra_whitespaces": False,
            "allow_whitespace_only_pieces": True,
            "add_dummy_prefix": False,
            "user_defined_symbols": ["\n", "\n\n", "▁▁", "▁▁▁", "<start_of_turn>"],
        },
    }
    flags = itertools.product(RULES, [True, False], [True, False])
    for rule, prefix, collapse in flags:
        found[f"{rule} prefix={prefix} collapse={collapse}"] = {
            "normalization_rule_name": rule,
            "add_dummy_prefix": prefix,
            "remove_extra_whitespaces": collapse,
            "byte_fallback": prefix != collapse,
        }
    return found


OPTIONS = options()


@functools.cache
def model(name: str) -> bytes:
    return oracles.train_sentencepiece(LINES, **OPTIONS[name])


@functools.cache
def pair(name: str) -> tuple[Tokenizer, SentencePiece]:
    return Tokenizer.from_bytes(model(name)), SentencePiece(model(name))


def check_text(ours: Tokenizer, theirs: SentencePiece, text: str) -> None:
    ids, offsets = theirs.encode(text)
    assert ids == theirs.ids(text)
    assert ours.encode(text) == ids, text
    assert ours.encode_with_offsets(text) == (ids, offsets), text
    assert ours.count(text) == len(ids)
    assert ours.decode(ids) == theirs.decode(ids), text


@pytest.mark.parametrize("name", OPTIONS)
def test_hostile_texts(name: str) -> None:
    for text in [*HOSTILE, *tiny.PARAGRAPH.splitlines(), tiny.PARAGRAPH, *SYMBOLS]:
        check_text(*pair(name), text)


@pytest.mark.parametrize("name", OPTIONS)
def test_pieces(name: str) -> None:
    ours, theirs = pair(name)
    pieces = theirs.pieces()
    assert ours.vocab_size == len(pieces)
    assert [ours.id_to_token(id) for id in range(len(pieces))] == pieces
    assert [ours.token_to_id(piece) for piece in pieces] == [*range(len(pieces))]
    assert ours.token_to_id("no such piece") is None


@settings(max_examples=settings().max_examples * 12)
@given(st.sampled_from(list(OPTIONS)), texts(12, *SYMBOLS))
def test_made_up_texts(name: str, text: str) -> None:
    check_text(*pair(name), text)


def test_unknown_characters_of_no_text() -> None:
    ours, theirs = pair("no unk surface")
    for text in ("の a", "\U00031b55 \U00031b55 a", "a の b", " \U00031b55", "の  x"):
        check_text(ours, theirs, text)


@settings(max_examples=settings().max_examples * 12)
@given(st.data(), st.sampled_from(list(OPTIONS)))
def test_made_up_ids(data: st.DataObject, name: str) -> None:
    ours, theirs = pair(name)
    number = len(theirs.pieces())
    some = st.one_of(st.integers(0, number - 1), st.integers(0, min(number - 1, 260)))
    ids = data.draw(st.lists(some, max_size=12))
    control = set(theirs.control_ids())
    special = set(ours.special_tokens.values())
    assert special == control | {theirs.library.unk_id()}
    plain = [id for id in ids if id not in control]
    assert ours.decode(plain) == theirs.decode(plain), plain
    # `sentencepiece` writes nothing for control symbols, and a sign for the unknown one.
    known = [id for id in ids if id != theirs.library.unk_id()]
    assert ours.decode(known, skip_special_tokens=True) == theirs.decode(known), known
    rest = [id for id in ids if id not in special]
    assert ours.decode(ids, skip_special_tokens=True) == ours.decode(rest), ids


@pytest.mark.parametrize("name", ["plain", "llama", "gemma", "control symbols"])
def test_policies(name: str) -> None:
    ours, theirs = pair(name)
    specials = ours.special_tokens
    assert {specials[token] for token in specials} >= set(theirs.control_ids())
    for token in map(theirs.library.id_to_piece, theirs.control_ids()):
        for text in (token, f"a {token} b", f"{token}{token}x"):
            assert specials[token] not in ours.encode(text)
            assert specials[token] in ours.encode(text, special="parse")
            assert specials[token] in ours.encode(text, special={token})
            with pytest.raises(TokenizerError, match="special token"):
                ours.encode(text, special="forbid")
    for text in HOSTILE:
        assert ours.encode(text, special=set()) == ours.encode(text)


@pytest.mark.parametrize("kind", ["unigram", "word", "char"])
def test_other_kinds_of_model_are_refused_by_name(kind: str) -> None:
    trained = oracles.train_sentencepiece(LINES, model_type=kind, vocab_size=400)
    with pytest.raises(TokenizerError, match=f"(?i){kind}"):
        Tokenizer.from_bytes(trained)


def test_hand_made_model() -> None:
    """The model that the tests without oracles use means what they think it means."""
    for prefix, collapse in itertools.product([True, False], repeat=2):
        content = tiny.sentencepiece(prefix=prefix, collapse=collapse)
        for text in HOSTILE:
            check_text(Tokenizer.from_bytes(content), SentencePiece(content), text)
