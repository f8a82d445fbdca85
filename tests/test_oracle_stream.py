"""Streams against `tokenizers`: its whole decode with every decoder, and its own streams."""

import itertools
import json
from collections.abc import Sequence

import oracles
import pytest
import tokenizers
from gristmill import Tokenizer, TokenizerError
from hypothesis import given, settings
from hypothesis import strategies as st
from test_oracle_json import CASES, GROUPS, pair
from test_stream import known, streamed
from texts import HOSTILE

DECODERS = GROUPS["decoder"]
OTHERS = [
    "shape of gpt-j",
    "shape of gemma 2",
    "shape of llama 1",
    "shape of phi 3",
    "shape of clip",
    "2000 tokens",
]


def steps(library: tokenizers.Tokenizer, ids: Sequence[int], skip: bool) -> list[str | None]:
    """What each step of the library's stream gives; what it raises."""
    stream = tokenizers.decoders.DecodeStream(skip_special_tokens=skip)
    found: list[str | None] = []
    for id in ids:
        try:
            found.append(stream.step(library, id))
        except Exception as error:
            found.append("prefix" if "prefix" in str(error).lower() else str(error))
    return found


def ours(tok: Tokenizer, ids: Sequence[int], skip: bool) -> list[str | None]:
    stream = tok.decode_stream(mode="hf", skip_special_tokens=skip)
    found: list[str | None] = []
    for id in ids:
        try:
            found.append(stream.push(id) or None)
        except TokenizerError as error:
            found.append("prefix" if "prefix" in str(error) else str(error))
    return found


@pytest.mark.parametrize("name", [*DECODERS, *OTHERS])
@settings(max_examples=25)
@given(data=st.data())
def test_random_ids(name: str, data: st.DataObject) -> None:
    tok, library = pair(name)
    size = library.vocab_size()
    special = sorted(library.special_tokens().values())
    bytes_ = [id for token, id in library.vocab().items() if token.startswith("<0x")]
    choices = [st.integers(0, size + 3)] + [st.sampled_from(s) for s in (special, bytes_) if s]
    ids = data.draw(st.lists(st.one_of(choices), max_size=16))
    cuts = data.draw(st.lists(st.integers(0, 16), max_size=5))
    for skip in (False, True):
        whole = library.decode(ids, skip)
        assert streamed(tok.decode_stream(skip_special_tokens=skip), ids, cuts) == whole
        assert ours(tok, ids, skip) == steps(library.library, ids, skip)


@pytest.mark.parametrize("name", [*DECODERS, *OTHERS])
def test_hostile_texts(name: str) -> None:
    tok, library = pair(name)
    for text in (*HOSTILE, *CASES[name].texts):
        ids = tok.encode(text, special="parse")
        for skip in (False, True):
            whole = library.decode(ids, skip)
            stream = tok.decode_stream(skip_special_tokens=skip)
            assert streamed(stream, ids, range(len(ids))) == whole
            assert ours(tok, ids, skip) == steps(library.library, ids, skip)
        texts = tok.token_texts(ids).strs()
        assert texts == [library.decode([id]) for id in ids]


@pytest.mark.parametrize("name", ["shape of gpt-j", "shape of llama 1", "shape of gemma 2"])
def test_prompts(name: str) -> None:
    """A stream after a prompt gives what the library's stream gives after it."""
    tok, library = pair(name)
    for before, after in itertools.pairwise(HOSTILE):
        prompt, ids = tok.encode(before), tok.encode(after)
        if not prompt or not ids or "\ufffd" in before + after:
            continue
        theirs = tokenizers.decoders.DecodeStream(ids=prompt, skip_special_tokens=False)
        expected = [theirs.step(library.library, id) or "" for id in ids]
        stream = tok.decode_stream(mode="hf", prompt=prompt)
        assert [stream.push(id) for id in ids] == expected
        exact = tok.decode_stream(prompt=prompt)
        given = "".join(map(exact.push, ids)) + exact.finish()
        if library.decode(prompt) and library.decode(prompt + ids).startswith(
            library.decode(prompt)
        ):
            assert given == library.decode(prompt + ids)[len(library.decode(prompt)) :], (
                before,
                after,
            )


def test_what_their_stream_loses_ours_gives() -> None:
    """The hard cases, each as the library has it and as it should be."""
    tok, library = pair("shape of gpt-j")
    part = tok.encode("🙂")[0]
    a = tok.encode("a")[0]
    # A character cut off at the end is never given.
    assert steps(library.library, [a, part], False) == ["a", None]
    assert streamed(tok.decode_stream(), [a, part]) == library.decode([a, part]) == "a\ufffd"
    tok, library = pair("unk=None fuse=False, full byte fallback")
    a, x, e4, bd = (library.vocab()[token] for token in ("a", "<0x20>", "<0xE4>", "<0xBD>"))
    # What a run of bytes is becomes known at its end.
    whole = library.decode([a, x, e4, bd, a])
    assert "".join(filter(None, steps(library.library, [a, x, e4, bd, a], False))) != whole
    assert streamed(tok.decode_stream(), [a, x, e4, bd, a]) == whole == "a\ufffd\ufffd\ufffda"


@pytest.mark.parametrize("kind", ["plain", "byte fallback"])
@settings(max_examples=60)
@given(data=st.data())
def test_sentencepiece(kind: str, data: st.DataObject) -> None:
    tok, library = sentencepiece(kind)
    size = tok.vocab_size
    ids = data.draw(st.lists(st.integers(0, size - 1), max_size=16))
    low = st.lists(st.integers(0, min(size - 1, 270)), max_size=8)
    ids += data.draw(low)
    cuts = data.draw(st.lists(st.integers(0, 24), max_size=5))
    assert known(tok, ids) == ids
    assert streamed(tok.decode_stream(), ids, cuts) == library.decode(ids)


_MODELS: dict[str, tuple[Tokenizer, oracles.SentencePiece]] = {}


def sentencepiece(kind: str) -> tuple[Tokenizer, oracles.SentencePiece]:
    if kind not in _MODELS:
        lines = [line for line in HOSTILE if line.strip() and "\0" not in line]
        model = oracles.train_sentencepiece(
            lines, byte_fallback=kind != "plain", vocab_size=700, unk_surface=" ? "
        )
        _MODELS[kind] = (Tokenizer.from_bytes(model), oracles.SentencePiece(model))
    return _MODELS[kind]


@pytest.mark.parametrize("kind", ["plain", "byte fallback"])
def test_sentencepiece_texts(kind: str) -> None:
    tok, library = sentencepiece(kind)
    for text in HOSTILE:
        ids = tok.encode(text)
        assert streamed(tok.decode_stream(), ids, range(len(ids))) == library.decode(ids)


def test_parted_by_special_tokens() -> None:
    """In tekken.json a character never reaches over a special token, even one that is left out."""
    import tiny

    tok = Tokenizer.from_bytes(tiny.tekken())
    special = next(iter(tok.special_tokens.values()))
    first, *rest = (tok.token_to_id(bytes([byte])) for byte in "é".encode())
    assert first is not None
    ids = [first, special, *(id for id in rest if id is not None)]
    for skip in (False, True):
        whole = tok.decode(ids, skip_special_tokens=skip)
        assert whole.count("\ufffd") == 2
        assert streamed(tok.decode_stream(skip_special_tokens=skip), ids, [1, 2]) == whole
    assert json.loads(tiny.tekken())["config"]
