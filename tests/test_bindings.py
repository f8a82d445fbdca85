"""Between Python and the core: every fast way gives what the slow one beside it gives."""

import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import accumulate

import numpy as np
import pytest
import tiny
from conftest import FORMATS
from gristmill import Tokenizer
from hypothesis import given
from hypothesis import strategies as st
from texts import HOSTILE, texts

# One string of each width that CPython stores, and some that end in the middle of everything.
WIDTHS = ["plain", "caf\xe9 \xff", "中文 text", "🙂 text 中 \xe9 x", "", "a", "\x00", "\x7f\x80"]


def offsets_one_by_one(tokenizer: Tokenizer, text: str, ids: list[int]) -> list[tuple[int, int]]:
    """For tokens that are bytes: a character belongs to each token that holds a part of it."""
    chars = [number for number, char in enumerate(text) for _ in char.encode()]
    ends = list(accumulate(len(tokenizer.token_bytes(id)) for id in ids))
    return [
        (chars[start], chars[end - 1] + 1) for start, end in zip([0, *ends], ends, strict=False)
    ]


@given(texts())
def test_offsets_are_the_lengths_of_tokens(text: str) -> None:
    for tokenizer in (FORMATS["ranks"](), GPT2):
        ids, offsets = tokenizer.encode_with_offsets(text)
        assert ids == tokenizer.encode(text)
        assert offsets == offsets_one_by_one(tokenizer, text, ids)
        as_bytes = tokenizer.encode_with_offsets(text.encode())
        assert as_bytes[0] == ids
        bounds = [0, *accumulate(len(char.encode()) for char in text)]
        assert as_bytes[1] == [(bounds[start], bounds[end]) for start, end in offsets]


GPT2 = Tokenizer("gpt2")


@pytest.mark.parametrize("text", [*WIDTHS, *HOSTILE, "x" * 20_000, "中" * 9000, "é" * 9000])
def test_every_form_of_a_text_and_of_ids(any_format: Tokenizer, text: str) -> None:
    for tokenizer in (any_format, GPT2):
        ids = tokenizer.encode(text)
        assert tokenizer.encode(text.encode()) == ids
        assert tokenizer.encode(text, special="text", add_special_tokens=False) == ids
        assert tokenizer.encode_numpy(text).tolist() == ids
        assert tokenizer.count(text) == len(ids)
        assert tokenizer.encode_with_offsets(text)[0] == ids
        flat, offsets = tokenizer.encode_batch_numpy([text, "", text])
        assert flat.tolist() == ids * 2
        assert flat.dtype == "uint32"
        assert offsets.tolist() == [0, len(ids), len(ids), 2 * len(ids)]
        assert offsets.dtype == "int64"


class Number(int):
    """An int, but not exactly one."""


class Index:
    """No int, but as good as one."""

    def __init__(self, number: int) -> None:
        self.number = number

    def __index__(self) -> int:
        return self.number


def forms(ids: list[int]) -> Iterator[object]:
    yield ids
    yield tuple(ids)
    yield iter(ids)
    yield [Number(id) for id in ids]
    yield [Index(id) for id in ids]
    yield [np.uint32(id) for id in ids]
    for kind in ("uint8", "uint16", "int32", "uint32", "int64", "uint64", ">u4"):
        if not ids or max(ids) <= np.iinfo(kind).max:
            array = np.array(ids, dtype=kind)
            yield array
            yield np.repeat(array, 2)[::2]
            array.flags.writeable = False
            yield array


@given(st.lists(st.integers(0, 50256), max_size=80))
def test_decode_every_form_of_ids(ids: list[int]) -> None:
    expected = b"".join(map(GPT2.token_bytes, ids))
    plain = b"".join(GPT2.token_bytes(id) for id in ids if id != 50256)
    for form in forms(ids):
        assert GPT2.decode_bytes(form) == expected  # type: ignore[arg-type]
    for form in forms(ids):
        assert GPT2.decode(form) == expected.decode(errors="replace")  # type: ignore[arg-type]
    assert GPT2.decode(ids, skip_special_tokens=True) == plain.decode(errors="replace")
    assert GPT2.decode_bytes(ids, skip_special_tokens=True) == plain
    batch = [ids, np.array(ids, dtype="uint32"), np.array(ids, dtype="int64"), []]
    for threads in (1, 2):
        text = expected.decode(errors="replace")
        found = GPT2.decode_batch(batch, threads=threads)  # type: ignore[arg-type]
        assert found == [text, text, text, ""]


@pytest.mark.parametrize("unknown", [50257, 2**31, 2**32 - 1, 2**32, 2**70, -1, -(2**40)])
def test_an_unknown_id_is_named_wherever_it_stands(unknown: int) -> None:
    for ids in ([unknown], [0] * 500 + [unknown, 2**21, 1], [1, unknown] * 300):
        wrong: list[object] = [ids, tuple(ids)]
        if -(2**63) <= unknown < 2**63:
            wrong.append(np.array(ids, dtype="int64"))
        for form in wrong:
            for decode in (GPT2.decode, GPT2.decode_bytes):
                with pytest.raises(KeyError) as error:
                    decode(form)  # type: ignore[arg-type]
                assert error.value.args[0] == unknown
            with pytest.raises(KeyError):
                GPT2.decode_batch([[0], form])  # type: ignore[list-item]


@pytest.mark.parametrize("wrong", ["text", b"bytes", 1, None, [1.0], ["1"], [None], [[1]]])
def test_what_is_no_list_of_ids(wrong: object) -> None:
    for decode in (GPT2.decode, GPT2.decode_bytes):
        with pytest.raises(TypeError):
            decode(wrong)  # type: ignore[arg-type]
    with pytest.raises((TypeError, ValueError)):
        GPT2.decode(np.zeros((2, 2), dtype="uint32"))
    with pytest.raises(TypeError):
        GPT2.decode(np.zeros(2))  # type: ignore[arg-type]


def test_a_lone_surrogate_is_no_text() -> None:
    calls: list[Callable[[str], object]] = [
        GPT2.encode,
        GPT2.encode_numpy,
        GPT2.encode_with_offsets,
        GPT2.count,
        lambda text: GPT2.encode_batch([text]),
        lambda text: GPT2.encode_batch_numpy(["a", text]),
    ]
    for call in calls:
        for text in ("\ud800", "a" * 100 + "\udfff", "中\udc80中"):
            with pytest.raises(UnicodeEncodeError):
                call(text)


def test_numbers_are_kept_and_given_back() -> None:
    """The int of an id is made once; the list owns its references, and so does the table."""
    tokenizer = Tokenizer("gpt2")
    (id,) = tokenizer.encode(" hello")
    assert id > 300  # not one of the small ints, which are always the same
    [one], [two] = tokenizer.encode(" hello"), tokenizer.encode(" hello")
    assert one is two
    before = sys.getrefcount(one)
    lists = [tokenizer.encode(" hello hello") for _ in range(100)]
    assert sys.getrefcount(one) == before + 200
    del lists
    assert sys.getrefcount(one) == before
    del tokenizer
    assert sys.getrefcount(one) == before - 1


def test_many_threads_fill_one_table() -> None:
    tokenizer = Tokenizer("o200k_base")
    words = [f" word{number:04}" for number in range(3000)]
    expected = Tokenizer("o200k_base").encode("".join(words))

    def work(turn: int) -> list[int]:
        return [id for word in words[turn:] + words[:turn] for id in tokenizer.encode(word)]

    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(work, range(0, 3000, 150)))
    alone = Tokenizer("o200k_base")
    assert found[0] == [id for word in words for id in alone.encode(word)]
    assert {tuple(sorted(ids)) for ids in found} == {tuple(sorted(found[0]))}
    assert tokenizer.encode("".join(words)) == expected


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_long_texts_in_a_batch(threads: int) -> None:
    """Texts long enough to be divided, among short ones."""
    hostile = "\n".join(HOSTILE)
    batch = [tiny.PARAGRAPH * 200, "", *HOSTILE, hostile * 20, "中文，" * 20_000, "x" * 90_000]
    for tokenizer, add in ((GPT2, False), (GPT2, True), (FORMATS["byte_level_json"](), True)):
        lists = [tokenizer.encode(text, add_special_tokens=add) for text in batch]
        flat, offsets = tokenizer.encode_batch_numpy(batch, threads=threads, add_special_tokens=add)
        assert offsets[1:].tolist() == list(accumulate(map(len, lists)))
        assert flat.tolist() == [id for ids in lists for id in ids]
        found = tokenizer.encode_batch(batch, threads=threads, add_special_tokens=add)
        assert found == lists
    parsed = [GPT2.encode(text, special="parse") for text in batch]
    assert GPT2.encode_batch(batch, threads=threads, special="parse") == parsed
