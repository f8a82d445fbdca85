"""Bad input: each kind gives its exception, which says what and where, and nothing else happens."""

import os
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tiny
from conftest import FORMATS
from gristmill import Tokenizer, TokenizerError

INVALID_UTF8 = [
    b"\x80",
    b"ab\xc0\x80",
    b"\xc1\xbf",
    b"\xed\xa0\x80",
    b"\xed\xbf\xbf",
    b"\xe0\x80\x80",
    b"\xf0\x80\x80\x80",
    b"\xf4\x90\x80\x80",
    b"\xf5\x80\x80\x80",
    b"abc\xff",
    b"\xfe",
    b"\xe4\xbd",
    b"x\xe4",
    b"\xf0\x9f\x99",
    b"\xe4\xbdx",
    "é".encode() + b"\xbf",
    "中文".encode()[:-1],
    b"a" * 100 + b"\xf0\x9f" + b"b" * 100,
]


@pytest.mark.parametrize("data", INVALID_UTF8)
def test_invalid_utf8(gpt2: Tokenizer, data: bytes) -> None:
    with pytest.raises(UnicodeDecodeError) as expected:
        data.decode()
    methods = (gpt2.encode, gpt2.encode_numpy, gpt2.encode_with_offsets, gpt2.count)
    calls: list[Any] = [
        *(lambda method=method: method(data) for method in methods),
        lambda: gpt2.truncate(data, 3),
        lambda: gpt2.encode_batch([b"fine", data]),
        lambda: gpt2.count_batch([b"fine", data]),
        lambda: gpt2.encode_batch_numpy([b"fine", data]),
    ]
    for call in calls:
        with pytest.raises(UnicodeDecodeError) as caught:
            call()
        error = caught.value
        assert (error.encoding, error.object) == ("utf-8", data)
        assert error.start == expected.value.start
        assert error.end == expected.value.end


@pytest.mark.parametrize(
    "text", ["\ud800", "a\udfff", "\udc80b", "\ud83d\ude00", "x" * 99 + "\ud83d"]
)
def test_lone_surrogates(gpt2: Tokenizer, text: str) -> None:
    with pytest.raises(UnicodeEncodeError) as expected:
        text.encode()
    calls: list[Any] = [
        lambda: gpt2.encode(text),
        lambda: gpt2.encode_numpy(text),
        lambda: gpt2.encode_with_offsets(text),
        lambda: gpt2.count(text),
        lambda: gpt2.truncate(text, 1),
        lambda: gpt2.encode_batch(["fine", text]),
        lambda: gpt2.count_batch(["fine", text]),
        lambda: gpt2.token_to_id(text),
    ]
    for call in calls:
        with pytest.raises(UnicodeEncodeError) as caught:
            call()
        assert caught.value.start == expected.value.start


@pytest.mark.parametrize(
    "id", [50257, 2**31, 2**32 - 1, 2**32, 2**64, 10**30, -1, -(2**31), -(2**64), np.int64(-5)]
)
def test_unknown_ids(gpt2: Tokenizer, id: Any) -> None:
    calls: list[Any] = [
        lambda: gpt2.decode([15496, id]),
        lambda: gpt2.decode([15496, id], skip_special_tokens=True),
        lambda: gpt2.decode_bytes([id]),
        lambda: gpt2.decode_batch([[15496], [id]]),
        lambda: gpt2.id_to_token(id),
        lambda: gpt2.token_bytes(id),
    ]
    for call in calls:
        with pytest.raises(KeyError) as caught:
            call()
        assert str(int(id)) in str(caught.value)


def test_unknown_ids_in_arrays(gpt2: Tokenizer) -> None:
    for array in (
        np.array([1, 50257], dtype=np.uint32),
        np.array([1, -1], dtype=np.int64),
        np.array([1, 2**40], dtype=np.int64),
    ):
        with pytest.raises(KeyError):
            gpt2.decode(array)


def test_unknown_ids_of_every_format(any_format: Tokenizer) -> None:
    for id in (any_format.vocab_size, 10**9, -1):
        with pytest.raises(KeyError):
            any_format.decode([id])


# Calls that a type checker would not let through.
Loose: Any = Tokenizer
WRONG_TYPES: dict[str, Any] = {
    "no text": lambda t: t.encode(None),
    "a number": lambda t: t.encode(5),
    "a list": lambda t: t.encode(["a"]),
    "bytearray": lambda t: t.encode(bytearray(b"a")),
    "memoryview": lambda t: t.encode(memoryview(b"a")),
    "no argument": lambda t: t.encode(),
    "two texts": lambda t: t.encode("a", "b"),
    "text by name": lambda t: t.encode(text="a"),
    "unknown option": lambda t: t.encode("a", allowed_special="all"),
    "a text as a batch": lambda t: t.encode_batch("abc"),
    "bytes as a batch": lambda t: t.encode_batch(b"abc"),
    "a number as a batch": lambda t: t.encode_batch(5),
    "a number in a batch": lambda t: t.encode_batch(["a", 5]),
    "None in a batch": lambda t: t.count_batch(["a", None]),
    "threads": lambda t: t.encode_batch(["a"], threads="many"),
    "a policy of a list": lambda t: t.encode("a", special=["<|endoftext|>"]),
    "no policy": lambda t: t.encode("a", special=None),
    "a policy of numbers": lambda t: t.encode("a", special={1}),
    "a number for ids": lambda t: t.decode(5),
    "a text for ids": lambda t: t.decode("abc"),
    "bytes for ids": lambda t: t.decode(b"abc"),
    "texts for ids": lambda t: t.decode(["a"]),
    "a float": lambda t: t.decode([1.0]),
    "None for an id": lambda t: t.decode([None]),
    "lists of lists": lambda t: t.decode([[1]]),
    "an array of floats": lambda t: t.decode(np.array([1.0])),
    "one list for a batch": lambda t: t.decode_batch([1, 2]),
    "a text for an id": lambda t: t.id_to_token("a"),
    "a float for an id": lambda t: t.token_bytes(1.5),
    "a number for a token": lambda t: t.token_to_id(5),
    "a limit of text": lambda t: t.truncate("a", "b"),
    "a number for a path": lambda t: t.save(5),
    "a number for a source": lambda t: Loose(5),
    "no source": lambda t: Loose(),
    "text for content": lambda t: Loose.from_bytes("{}"),
    "pattern": lambda t: Loose.from_bytes(tiny.rank_file(), pattern=5),
    "special tokens": lambda t: Loose.from_bytes(
        tiny.rank_file(), pattern=".", special_tokens=["a"]
    ),
    "special tokens of texts": lambda t: Loose.from_bytes(
        tiny.rank_file(), pattern=".", special_tokens={"a": "b"}
    ),
}


@pytest.mark.parametrize("name", WRONG_TYPES)
def test_wrong_types(gpt2: Tokenizer, name: str) -> None:
    with pytest.raises(TypeError):
        WRONG_TYPES[name](gpt2)


def test_wrong_values(gpt2: Tokenizer) -> None:
    with pytest.raises(ValueError, match="special must be"):
        gpt2.encode("a", special="all")  # type: ignore[arg-type]
    with pytest.raises(TokenizerError, match="no such token"):
        gpt2.encode("a", special={"no such token"})
    with pytest.raises(ValueError, match="one dimension"):
        gpt2.decode(np.zeros((2, 2), dtype=np.uint32))
    for negative in (lambda: gpt2.truncate("a", -1), lambda: gpt2.encode_batch(["a"], threads=-1)):
        with pytest.raises((OverflowError, ValueError)):
            negative()
    with pytest.raises(ValueError, match="gpt2"):
        Tokenizer("gpt2", pattern=".")


def test_missing_file(tmp_path: Path) -> None:
    missing = tmp_path / "no" / "tokenizer.json"
    for source in (missing, str(missing)):
        with pytest.raises(FileNotFoundError, match=r"tokenizer\.json"):
            Tokenizer(source)


def test_unknown_name_says_which_exist() -> None:
    with pytest.raises(FileNotFoundError) as caught:
        Tokenizer("gpt5")
    assert "gpt5" in str(caught.value)
    assert "o200k_base" in str(caught.value)


def test_folder_without_a_tokenizer(tmp_path: Path) -> None:
    (tmp_path / "model.safetensors").write_bytes(b"")
    with pytest.raises((FileNotFoundError, TokenizerError)) as caught:
        Tokenizer(tmp_path)
    assert "tokenizer.json" in str(caught.value)


@pytest.mark.skipif(sys.platform == "win32", reason="permissions are those of POSIX")
def test_unreadable_file(tmp_path: Path) -> None:
    path = tmp_path / "tokenizer.json"
    path.write_bytes(tiny.byte_level_json())
    path.chmod(0)
    if os.geteuid() == 0:
        # Root reads everything.
        Tokenizer(path)
        return
    with pytest.raises(PermissionError):
        Tokenizer(path)


def test_save_where_nothing_can_be(any_format: Tokenizer, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        any_format.save(tmp_path / "no" / "such" / "folder")
    with pytest.raises(OSError, match=str(tmp_path.name)):
        any_format.save(tmp_path)
    assert [*tmp_path.iterdir()] == []


def test_rank_file_without_a_pattern() -> None:
    with pytest.raises(TokenizerError, match="pattern"):
        Tokenizer.from_bytes(tiny.rank_file())


@pytest.mark.parametrize("name", sorted(FORMATS.keys() - {"ranks"}))
def test_a_pattern_where_the_file_has_one(name: str, tmp_path: Path) -> None:
    path = tmp_path / "file"
    FORMATS[name]().save(path)
    with pytest.raises((TokenizerError, ValueError), match="pattern"):
        Tokenizer(path, pattern=".")
    with pytest.raises((TokenizerError, ValueError), match="special"):
        Tokenizer(path, special_tokens={"a": 1})


@pytest.mark.parametrize("pattern", ["(", "[", "*", "a{2,1}", r"\p{Nothing}"])
def test_patterns_that_are_none(pattern: str) -> None:
    with pytest.raises(TokenizerError):
        Tokenizer.from_bytes(tiny.rank_file(), pattern=pattern)


@pytest.mark.parametrize("specials", [{"": 500}, {"a": 5}, {"<x>": 500, "<y>": 2**32}, {"<x>": -1}])
def test_special_tokens_that_cannot_be(specials: dict[str, int]) -> None:
    """Empty, with the id of another token, or with no possible id."""
    with pytest.raises((TokenizerError, OverflowError)):
        Tokenizer.from_bytes(tiny.rank_file(), pattern=".", special_tokens=specials)
