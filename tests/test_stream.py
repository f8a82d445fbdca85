"""Streams: what they give is what decoding at once gives, in any steps; and how they end.

That decoding at once is right is for the other tests; `test_oracle_stream.py` compares streams with
the library itself.
"""

import codecs
import itertools
import random
import subprocess
import sys
import threading
import time
from collections.abc import Sequence

import gristmill
import numpy as np
import pytest
from gristmill import DecodeStream, StreamBatch, Tokenizer
from hypothesis import given
from hypothesis import strategies as st
from texts import HOSTILE

UNKNOWN, STOPPED, FINISHED, IGNORED = 1, 2, 4, 8


def streamed(stream: DecodeStream, ids: Sequence[int], cuts: Sequence[int] = ()) -> str:
    """All that a stream gives of ids, cut at these places."""
    places = [0, *sorted(cut % (len(ids) + 1) for cut in cuts), len(ids)]
    parts = [stream.push(ids[start:end]) for start, end in itertools.pairwise(places)]
    return "".join([*parts, stream.finish()])


def known(tok: Tokenizer, ids: Sequence[int]) -> list[int]:
    """The ids that some token has."""
    flags = tok.token_texts(ids).flags
    return [id for id, flag in zip(ids, flags, strict=True) if not flag & UNKNOWN]


@given(
    ids=st.lists(st.integers(-2, 500), max_size=40),
    cuts=st.lists(st.integers(0, 40), max_size=6),
    skip=st.booleans(),
)
def test_any_ids_in_any_steps(
    any_format: Tokenizer, ids: list[int], cuts: list[int], skip: bool
) -> None:
    whole = any_format.decode(known(any_format, ids), skip_special_tokens=skip)
    assert streamed(any_format.decode_stream(skip_special_tokens=skip), ids, cuts) == whole
    one_by_one = any_format.decode_stream(skip_special_tokens=skip)
    assert "".join(map(one_by_one.push, ids)) + one_by_one.finish() == whole


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_texts(any_format: Tokenizer, text: str) -> None:
    ids = any_format.encode(text, special="parse")
    assert streamed(any_format.decode_stream(), ids, range(len(ids))) == any_format.decode(ids)


@given(data=st.binary(max_size=24), cuts=st.lists(st.integers(0, 24), max_size=6))
def test_any_bytes(gpt2: Tokenizer, data: bytes, cuts: list[int]) -> None:
    ids = [gpt2.token_to_id(bytes([byte])) or 0 for byte in data]
    assert streamed(gpt2.decode_stream(), ids, cuts) == data.decode("utf-8", "replace")


def test_text_comes_as_soon_as_it_is_certain(gpt2: Tokenizer) -> None:
    """What waits is the beginning of a character and nothing else."""
    data = "a é 中 🙂 x".encode() + b"\xe4\xbdz\xf0\x9f\xff\x80"
    stream, decoder = gpt2.decode_stream(), codecs.getincrementaldecoder("utf-8")("replace")
    for number, byte in enumerate(data, 1):
        text = stream.push(gpt2.token_to_id(bytes([byte])) or 0)
        assert text == decoder.decode(bytes([byte]))
        waiting = decoder.getstate()[0]
        assert stream.tokens == number - len(waiting)
    assert stream.finish() == ""


def test_a_text_that_is_cut_off_is_flushed(gpt2: Tokenizer) -> None:
    stream = gpt2.decode_stream()
    ids = gpt2.encode("a 🦙")[:-1]
    assert "".join(map(stream.push, ids)) == "a "
    assert stream.finish() == "\ufffd"
    assert stream.push(64) == ""
    assert stream.finish() == ""
    assert stream.flags == FINISHED


def test_unknown_ids_are_flagged(gpt2: Tokenizer) -> None:
    stream = gpt2.decode_stream()
    a = gpt2.encode("a")[0]
    assert [stream.push(id) for id in (a, -1, 50257, 2**40, -(2**70), a)] == ["a"] + [""] * 4 + [
        "a"
    ]
    assert stream.flags == UNKNOWN
    assert stream.tokens == 6
    texts = gpt2.token_texts([a, -1, 10**9])
    assert texts.strs() == ["a", "", ""]
    assert list(texts.flags) == [0, UNKNOWN, UNKNOWN]
    with pytest.raises(TypeError):
        stream.push("a")  # type: ignore[arg-type]


def test_special_tokens_are_skipped(gpt2: Tokenizer) -> None:
    ids = gpt2.encode("a<|endoftext|>b", special="parse")
    assert streamed(gpt2.decode_stream(), ids) == "a<|endoftext|>b"
    assert streamed(gpt2.decode_stream(skip_special_tokens=True), ids) == "ab"


def test_token_texts(any_format: Tokenizer) -> None:
    ids = known(any_format, range(600))
    for skip in (False, True):
        found = any_format.token_texts(ids, skip_special_tokens=skip)
        expected = [any_format.decode([id], skip_special_tokens=skip) for id in ids]
        assert found.strs() == expected
        ends = found.offsets
        assert [
            found.text[start:end].decode() for start, end in itertools.pairwise(ends)
        ] == expected
    assert len(any_format.token_texts([])) == 0


class TestStops:
    def test_a_stop_string_across_tokens(self, gpt2: Tokenizer) -> None:
        stream = gpt2.decode_stream(stop=["</think>", "zzz"])
        given = [stream.push(id) for id in gpt2.encode("so. </think> rest")]
        assert "".join(given) == "so. "
        assert stream.stop == "</think>"
        assert stream.flags == STOPPED
        assert stream.finish() == ""

    def test_it_is_given_if_asked_for(self, gpt2: Tokenizer) -> None:
        stream = gpt2.decode_stream(stop="</think>", include_stop=True)
        assert streamed(stream, gpt2.encode("so. </think> rest")) == "so. </think>"

    def test_it_may_stand_inside_of_a_token(self, gpt2: Tokenizer) -> None:
        stream = gpt2.decode_stream(stop="orl")
        assert streamed(stream, gpt2.encode("Hello world")) == "Hello w"

    def test_what_only_begins_like_one_is_given(self, gpt2: Tokenizer) -> None:
        text = "a < b </ c </t d </thin e </thin"
        stream = gpt2.decode_stream(stop="</think>")
        given = [stream.push(id) for id in gpt2.encode(text)]
        # Held back is what could be a beginning, and no more.
        assert "".join(given) == text.removesuffix(" </thin")
        assert stream.finish() == " </thin"
        assert stream.stop is None

    def test_the_first_to_end_wins(self, gpt2: Tokenizer) -> None:
        for stops, cut, stop in [
            (["world", "o w"], "Hell", "o w"),
            (["lo wor", "wor"], "Hel", "lo wor"),
            (["wor", "lo wor"], "Hello ", "wor"),
        ]:
            stream = gpt2.decode_stream(stop=stops)
            assert stream.push(gpt2.encode("Hello world")) == cut
            assert stream.stop == stop

    def test_stop_ids(self, gpt2: Tokenizer) -> None:
        ids = gpt2.encode("one<|endoftext|>two", special="parse")
        stream = gpt2.decode_stream(stop_ids=[50256])
        assert streamed(stream, ids) == "one"
        assert stream.stop == 50256
        stream = gpt2.decode_stream(stop_ids=[50256], include_stop=True)
        assert streamed(stream, ids) == "one<|endoftext|>"
        # 0 is an id like any other.
        stream = gpt2.decode_stream(stop_ids=[0])
        assert streamed(stream, [*gpt2.encode("a"), 0]) == "a"
        assert stream.stop == 0

    def test_min_tokens(self, gpt2: Tokenizer) -> None:
        ids = gpt2.encode("a a a a")
        assert streamed(gpt2.decode_stream(stop="a", min_tokens=2), ids) == "a a "
        stream = gpt2.decode_stream(stop_ids=[ids[1]], min_tokens=2)
        assert streamed(stream, ids) == "a a"

    def test_a_character_that_is_cut_off_is_flushed_before_a_stop_id(self, gpt2: Tokenizer) -> None:
        stream = gpt2.decode_stream(stop_ids=[50256])
        assert streamed(stream, [*gpt2.encode("🙂")[:-1], 50256]) == "\ufffd"

    @given(
        ids=st.lists(st.integers(0, 420), max_size=30),
        stops=st.lists(st.text("ae 水\ufffd", min_size=1, max_size=3), min_size=1, max_size=3),
        include=st.booleans(),
    )
    def test_as_a_search_of_the_whole_text(
        self, any_format: Tokenizer, ids: list[int], stops: list[str], include: bool
    ) -> None:
        whole = any_format.decode(known(any_format, ids))
        found = min(
            ((whole.find(s) + len(s), at, s) for at, s in enumerate(stops) if s in whole),
            default=None,
        )
        stream = any_format.decode_stream(stop=stops, include_stop=include)
        text = streamed(stream, ids, range(len(ids)))
        if found is None:
            assert (text, stream.stop) == (whole, None)
        else:
            end, _, stop = found
            assert (text, stream.stop) == (whole[: end if include else end - len(stop)], stop)

    @pytest.mark.parametrize("stop", ["", ["a", ""], ["x" * 70_000]])
    def test_they_are_checked(self, gpt2: Tokenizer, stop: str | list[str]) -> None:
        with pytest.raises(gristmill.TokenizerError):
            gpt2.decode_stream(stop=stop)
        with pytest.raises(gristmill.TokenizerError):
            StreamBatch(gpt2).open(1, stop=stop)


class TestBatch:
    @given(
        rows=st.lists(st.lists(st.integers(-1, 450), max_size=12), min_size=1, max_size=6),
        order=st.randoms(use_true_random=False),
    )
    def test_streams_do_not_touch_each_other(
        self, any_format: Tokenizer, rows: list[list[int]], order: random.Random
    ) -> None:
        batch = StreamBatch(any_format)
        slots = batch.open(len(rows))
        texts = [""] * len(rows)
        left = [list(row) for row in rows]
        while any(left):
            chosen = order.sample(range(len(rows)), order.randint(1, len(rows)))
            steps = [[left[at].pop(0) for _ in range(min(len(left[at]), 2))] for at in chosen]
            ends = [0, *itertools.accumulate(map(len, steps))]
            tokens = list(itertools.chain.from_iterable(steps))
            found = batch.step(slots[chosen], tokens, ends)
            for at, text in zip(chosen, found.strs(), strict=True):
                texts[at] += text
        for at, text in enumerate(batch.finish(slots).strs()):
            assert texts[at] + text == any_format.decode(known(any_format, rows[at]))
        assert len(batch) == 0

    def test_numbers_of_every_kind(self, gpt2: Tokenizer) -> None:
        tokens = gpt2.encode("one two")
        for kind in (np.int32, np.int64, np.uint32):
            batch = StreamBatch(gpt2)
            slots = batch.open(2).astype(kind)
            found = batch.step(
                slots, np.array(tokens, dtype=kind), finished=np.array([True, False])
            )
            assert found.strs() == ["one", " two"]
            assert list(found.flags) == [FINISHED, 0]
        batch = StreamBatch(gpt2)
        slots = batch.open(2)[::-1]
        assert batch.step(tuple(slots), range(64, 66)).strs() == ["a", "b"]
        assert batch.step(slots, np.array([2**40, 64])).strs() == ["", "a"]
        for wrong in ("ab", [1.5, 2], np.zeros((2, 2), dtype=np.int32), np.zeros(2), 7):
            with pytest.raises(TypeError):
                batch.step(slots, wrong)  # type: ignore[arg-type]

    def test_what_does_not_fit_is_refused_and_changes_nothing(self, gpt2: Tokenizer) -> None:
        batch = StreamBatch(gpt2)
        slots = batch.open(2)
        for tokens, offsets, finished in [
            ([64], None, None),
            ([64, 64], [0, 1], None),
            ([64, 64], [0, 2, 1], None),
            ([64, 64], [0, -1, 2], None),
            ([64, 64], None, [True]),
        ]:
            with pytest.raises(gristmill.TokenizerError):
                batch.step(slots, tokens, offsets, finished)
        assert batch.step(slots, [64, 64]).strs() == ["a", "a"]

    def test_late_tokens_are_ignored(self, gpt2: Tokenizer) -> None:
        batch = StreamBatch(gpt2)
        first = batch.open(3)
        batch.finish(first[:1])
        batch.close(first[1:2])
        batch.close(first[1:2])
        again = batch.open(2)
        assert not set(first) & set(again)
        found = batch.step([*first, *again, -1, 123456], [64] * 7)
        assert found.strs() == ["", "", "a", "a", "a", "", ""]
        assert list(found.flags) == [IGNORED, IGNORED, 0, 0, 0, IGNORED, IGNORED]
        assert len(batch) == 3

    def test_text_and_tokens_stay_in_step(self, gpt2: Tokenizer) -> None:
        batch = StreamBatch(gpt2)
        slot = batch.open(1, stop=["</think>"], stop_ids=[50256])
        ids, text, done = gpt2.encode("a <b></thin> 🙂 c</think>"), "", 0
        for id in ids:
            found = batch.step(slot, [id])
            text += found.strs()[0]
            done = int(found.tokens[0])
            if not found.flags[0] & STOPPED:
                assert text == gpt2.decode(ids[:done])
        assert list(found.stops) == [0]
        assert text == "a <b></thin> 🙂 c"
        assert gpt2.decode(ids[:done]) == text

    def test_a_prompt_is_context_only(self, any_format: Tokenizer) -> None:
        prompt = any_format.encode("The miller's daughter")
        ids = any_format.encode(" carried the flour")
        batch = StreamBatch(any_format)
        for before_it in (prompt, np.array(prompt, dtype=np.int32), tuple(prompt)):
            slot = batch.open(1, prompt=before_it)
            before = any_format.decode(prompt)
            after = any_format.decode(prompt + ids)
            assert after.startswith(before)
            assert batch.step(slot, ids, [0, len(ids)], [1]).strs() == [after[len(before) :]]

    def test_threads_take_turns(self, gpt2: Tokenizer) -> None:
        batch, ids, texts = StreamBatch(gpt2), gpt2.encode("水車は小麦を挽く。" * 20), {}

        def work(number: int) -> None:
            slots = batch.open(100)
            parts = [batch.step(slots, [id] * 100).strs()[number] for id in ids]
            texts[number] = "".join([*parts, *batch.finish(slots).strs()[:1]])

        threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert set(texts.values()) == {"水車は小麦を挽く。" * 20}
        assert len(batch) == 0


class TestLinear:
    """No token costs more for what came before it."""

    @pytest.mark.parametrize("stop", [None, ["a" * 60 + "b", "\ufffd" * 40 + "x", "<|endo"]])
    @pytest.mark.parametrize("what", ["a", "\xe4", "special", "unknown"])
    def test_time(self, what: str, stop: list[str] | None, gpt2: Tokenizer) -> None:
        lead = next(id for id in range(256) if gpt2.token_bytes(id) == b"\xe4")
        id = {"a": gpt2.encode("a")[0], "\xe4": lead, "special": 50256, "unknown": -1}[what]

        def seconds(number: int) -> float:
            batch = StreamBatch(gpt2)
            slot = batch.open(1, skip_special_tokens=True, stop=stop)
            ids = np.full(1000, id, dtype=np.int32)
            ends = np.array([0, 1000], dtype=np.int32)
            began = time.process_time()
            for _ in range(number // 1000):
                batch.step(slot, ids, ends)
            return time.process_time() - began

        seconds(10_000)
        few = min(seconds(25_000) for _ in range(3))
        many = min(seconds(100_000) for _ in range(3))
        assert many < 10 * few + 0.02

    def test_memory(self) -> None:
        """100,000 streams with stop strings in less than 64 MB, and none of it once they end."""
        program = """
import resource, gristmill, numpy
tok = gristmill.Tokenizer("gpt2")
batch = gristmill.StreamBatch(tok)
batch.open(1, stop=["</think>"])
peak = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
def round():
    slots = numpy.concatenate([batch.open(1, stop=["</think>", "###"]) for _ in range(100_000)])
    ids = numpy.full(100_000, tok.encode("</")[0], dtype=numpy.int32)
    batch.step(slots, ids)
    return slots
before = peak()
slots = round()
assert len(batch) == 100_001
print(peak() - before)
batch.close(slots)
for _ in range(4):
    batch.close(round())
assert len(batch) == 1
print(peak() - before)
"""
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)
        once, again = map(int, done.stdout.split())
        assert once < 64_000
        assert again < 1.3 * once + 4_000


def test_modes_are_checked(gpt2: Tokenizer) -> None:
    with pytest.raises(ValueError, match="exact"):
        gpt2.decode_stream(mode="fast")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="no stops"):
        gpt2.decode_stream(mode="hf", stop="a")
    stream = gpt2.decode_stream(mode="hf")
    assert [stream.push(id) for id in gpt2.encode("a 🦙")] == ["a", "", "", " 🦙"]
    assert (stream.finish(), stream.stop, stream.flags, stream.tokens) == ("", None, 0, 0)
