"""What servers are built of: managers of messages, the flat wire format, the worker, asyncio."""

import asyncio
import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tiny
from gristmill import ChatTemplate, Tokenizer, TokenizerError
from gristmill.serve.asynchronous import AsyncTokenizer
from gristmill.serve.managers import DetokenizeManager, TokenizeManager, managers
from gristmill.serve.wire import HEADER, Kind, WireError, pack, unpack
from gristmill.serve.worker import Worker
from hypothesis import given
from hypothesis import strategies as st

CHATML = (
    "{{ bos_token }}{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n"
    "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
TEMPLATE = ChatTemplate(CHATML, special_tokens={"bos_token": "<|endoftext|>"})
CHAT = [{"role": "user", "content": "Grüße, 水車"}]


@dataclass
class Tokenize:
    uid: int
    text: Any


@dataclass
class Detokenize:
    uid: int
    next_token: int
    finished: bool = False


class TestTokenizeManager:
    def test_texts_and_chats(self, gpt2: Tokenizer) -> None:
        manager: TokenizeManager[Any] = TokenizeManager(gpt2, template=TEMPLATE)
        messages = [
            Tokenize(7, "one"),
            Tokenize(8, CHAT),
            Tokenize(9, ""),
            Tokenize(7, "two<|endoftext|>"),
        ]
        found = manager.tokenize(messages)
        assert [array.dtype for array in found] == [np.int32] * 4
        assert [array.ndim for array in found] == [1] * 4
        expected = [
            gpt2.encode("one"),
            gpt2.encode_chat(CHAT, template=TEMPLATE, add_generation_prompt=True),
            [],
            gpt2.encode("two<|endoftext|>", special="parse"),
        ]
        assert [array.tolist() for array in found] == expected
        assert manager.tokenize([]) == []

    def test_a_chat_has_one_first_token(self) -> None:
        """And a text has the one that the file's template puts there."""
        processor = {
            "type": "TemplateProcessing",
            "single": [
                {"SpecialToken": {"id": "<|endoftext|>", "type_id": 0}},
                {"Sequence": {"id": "A", "type_id": 0}},
            ],
            "pair": [],
            "special_tokens": {
                "<|endoftext|>": {"id": "<|endoftext|>", "ids": [406], "tokens": ["<|endoftext|>"]}
            },
        }
        tokens = [tiny.added_token(406, "<|endoftext|>", special=True)]
        tok = Tokenizer.from_bytes(
            tiny.byte_level_json(added_tokens=tokens, post_processor=processor)
        )
        manager: TokenizeManager[Any] = TokenizeManager(tok, template=TEMPLATE)
        text, chat = manager.tokenize([Tokenize(0, "a"), Tokenize(1, CHAT)])
        assert text.tolist().count(406) == chat.tolist().count(406) == 1
        assert text[0] == chat[0] == 406

    def test_converted(self, gpt2: Tokenizer) -> None:
        manager = TokenizeManager(gpt2, convert=lambda ids: ids.tolist())
        assert manager.tokenize([Tokenize(0, "one")]) == [gpt2.encode("one")]

    def test_a_chat_without_a_template(self, gpt2: Tokenizer) -> None:
        with pytest.raises(ValueError, match="no chat template"):
            TokenizeManager(gpt2).tokenize([Tokenize(0, CHAT)])


class TestDetokenizeManager:
    def test_a_stream_is_the_whole_text(self, gpt2: Tokenizer) -> None:
        manager = DetokenizeManager(gpt2, eos_token_ids=[50256])
        texts = {0: "水車は 🦙 x", 1: "one two", 2: "a"}
        ids = {uid: [*gpt2.encode(text), 50256] for uid, text in texts.items()}
        found = dict.fromkeys(texts, "")
        for step in range(max(map(len, ids.values()))):
            running = [uid for uid in ids if step < len(ids[uid])]
            messages = [
                Detokenize(uid, ids[uid][step], step + 1 == len(ids[uid])) for uid in running
            ]
            for uid, text in zip(running, manager.detokenize(messages), strict=True):
                found[uid] += text
        assert found == texts
        assert len(manager) == 0

    def test_only_a_last_token_ends_a_text(self, gpt2: Tokenizer) -> None:
        manager = DetokenizeManager(gpt2, eos_token_ids=[50256, 13])
        assert manager.detokenize([Detokenize(0, 50256)]) == ["<|endoftext|>"]
        assert manager.detokenize([Detokenize(0, 13, True)]) == [""]
        assert manager.detokenize([Detokenize(1, 64, True), Detokenize(2, 50256, True)]) == [
            "a",
            "",
        ]

    def test_what_is_cut_off_is_flushed(self, gpt2: Tokenizer) -> None:
        manager = DetokenizeManager(gpt2)
        first, *_ = gpt2.encode("🦙")
        assert manager.detokenize([Detokenize(0, first, True)]) == ["\ufffd"]

    def test_late_tokens(self, gpt2: Tokenizer) -> None:
        """A scheduler that runs a step ahead sends one more; an abort may cross with others."""
        manager = DetokenizeManager(gpt2)
        manager.detokenize([Detokenize(0, 64), Detokenize(1, 64)])
        manager.abort([1, 99])
        late = [
            Detokenize(0, 64, True),
            Detokenize(0, 64, True),
            Detokenize(1, 64),
            Detokenize(99, 64),
        ]
        assert manager.detokenize(late) == ["a", "", "", ""]
        assert len(manager) == 0
        manager.reopen([1])
        assert manager.detokenize([Detokenize(1, 64, True)]) == ["a"]

    def test_what_has_ended_is_forgotten_in_the_end(
        self, gpt2: Tokenizer, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("gristmill.serve.managers.REMEMBERED", 10)
        manager = DetokenizeManager(gpt2)
        for uid in range(100):
            manager.detokenize([Detokenize(uid, 64, True)])
        assert len(manager._ended) == 10
        assert len(manager._slots) == len(manager) == 0

    def test_the_end_of_text_comes_from_the_settings(self, tmp_path: Path) -> None:
        tokens = [tiny.added_token(406, "</s>", special=True)]
        (tmp_path / "tokenizer.json").write_bytes(tiny.byte_level_json(added_tokens=tokens))
        settings = {"eos_token": "</s>", "chat_template": "x"}
        (tmp_path / "tokenizer_config.json").write_text(json.dumps(settings))
        manager = DetokenizeManager(Tokenizer(tmp_path))
        assert manager.detokenize([Detokenize(0, 406, True)]) == [""]


def test_backends_are_checked(gpt2: Tokenizer) -> None:
    incoming, outgoing = managers("inprocess", gpt2)
    assert incoming.tokenize([Tokenize(0, "a")])[0].tolist() == [64]
    assert outgoing.detokenize([Detokenize(0, 64)]) == ["a"]
    for backend, tok in [
        ("inprocess", None),
        ("tokenize_only", gpt2),
        ("python", None),
        ("rust", gpt2),
    ]:
        with pytest.raises(ValueError, match=r"needs|must be"):
            managers(backend, tok)  # type: ignore[arg-type]


class TestWire:
    @given(
        rows=st.lists(
            st.tuples(
                st.integers(-(2**63), 2**63 - 1),
                st.lists(st.integers(-(2**31), 2**31 - 1), max_size=4),
                st.integers(0, 255),
            ),
            max_size=9,
        ),
        kind=st.sampled_from([Kind.STEP, Kind.IDS, Kind.ABORT]),
    )
    def test_numbers_come_back(self, rows: list[tuple[int, list[int], int]], kind: Kind) -> None:
        uids = [row[0] for row in rows]
        lists = [row[1] for row in rows]
        flags = [row[2] for row in rows]
        ends = np.cumsum([0, *map(len, lists)])
        data = pack(
            kind, uids, np.concatenate([[], *lists]).astype(np.int64), offsets=ends, flags=flags
        )
        found = unpack(data)
        assert found.kind == kind
        assert found.uids.tolist() == uids
        assert found.flags.tolist() == flags
        assert [row.tolist() for row in found.rows()] == lists
        again = pack(kind, found.uids, found.items, offsets=found.offsets, flags=found.flags)
        assert again == data
        assert found.offsets is not None

    @given(texts=st.lists(st.text(max_size=5), max_size=9))
    def test_texts_come_back(self, texts: list[str]) -> None:
        rows = [text.encode() for text in texts]
        ends = np.cumsum([0, *map(len, rows)])
        found = unpack(pack(Kind.TEXTS, range(len(rows)), b"".join(rows), offsets=ends))
        assert found.rows() == rows

    def test_one_item_a_row(self) -> None:
        found = unpack(pack(Kind.STEP, [5, 6], [50, 60]))
        assert [row.tolist() for row in found.rows()] == [[50], [60]]
        assert unpack(pack(Kind.ABORT, [5, 6])).uids.tolist() == [5, 6]

    def test_to_the_byte(self) -> None:
        """What another language has to write."""
        assert pack(Kind.STEP, [-2], [7, 8], offsets=[0, 2], flags=[1]) == (
            b"GMW1\x01\0\0\0" + b"\x01\0\0\0\x02\0\0\0" + b"\xfe" + b"\xff" * 7
            + b"\0\0\0\0\x02\0\0\0" + b"\x01" + bytes(7) + b"\x07\0\0\0\x08\0\0\0"
        )  # fmt: skip

        assert pack(Kind.STEP, [1], [7]) == (
            b"GMW1\x01\x01\0\0" + b"\x01\0\0\0\x01\0\0\0"
            + b"\x01" + bytes(7) + bytes(8) + b"\x07\0\0\0"
        )  # fmt: skip

    def test_what_does_not_fit_is_not_packed(self) -> None:
        for offsets, flags in [([0, 1], None), ([0, 2, 1], None), ([1, 1, 2], None), (None, [1])]:
            with pytest.raises(ValueError, match="not fit"):
                pack(Kind.STEP, [1, 2], [1, 2], offsets=offsets, flags=flags)
        with pytest.raises(ValueError, match="not fit"):
            pack(Kind.STEP, [1, 2], [1, 2, 3])
        with pytest.raises(TypeError):
            pack(Kind.TEXTS, [1], [1])

    def test_every_broken_byte_of_the_frame_is_refused(self) -> None:
        data = pack(Kind.STEP, [1, 2, 3], [1, 2, 3, 4], offsets=[0, 2, 2, 4])
        for end in range(len(data)):
            with pytest.raises(WireError):
                unpack(data[:end])
        with pytest.raises(WireError):
            unpack(data + b"\0")
        source = random.Random(0)
        for _ in range(2000):
            broken = bytearray(data)
            broken[source.randrange(len(data))] ^= 1 << source.randrange(8)
            with contextlib.suppress(WireError):
                found = unpack(bytes(broken))
                assert sum(map(len, found.rows())) == len(found.items)

    def test_sizes_that_would_not_fit_into_memory(self) -> None:
        with pytest.raises(WireError):
            unpack(HEADER.pack(b"GMW1", 1, 0, 2**32 - 1, 2**32 - 1) + bytes(64))


class TestWorker:
    def test_messages_are_answered(self, gpt2: Tokenizer) -> None:
        worker = Worker(gpt2)
        answer = worker.answer(pack(Kind.STEP, [1, 2], gpt2.encode("one two"), flags=[0, 1]))
        assert answer is not None
        assert answer[0] == Kind.TEXTS
        found = unpack(answer[1])
        assert found.rows() == [b"one", b" two"]
        assert found.flags.tolist() == [0, 4]
        assert worker.answer(pack(Kind.ABORT, [1])) is None
        late = worker.answer(pack(Kind.STEP, [1], [64]))
        assert late is not None
        assert unpack(late[1]).flags.tolist() == [8]

    def test_a_prompt_that_fails_fails_alone(
        self, gpt2: Tokenizer, capsys: pytest.CaptureFixture[str]
    ) -> None:
        prompts = [b"one", b"\xff", json.dumps(CHAT).encode(), b"{}", b"[", "é".encode()]
        ends = np.cumsum([0, *map(len, prompts)])
        data = pack(
            Kind.PROMPTS, range(6), b"".join(prompts), offsets=ends, flags=[0, 0, 1, 1, 1, 0]
        )
        answer = Worker(gpt2).answer(data)
        assert answer is not None
        found = unpack(answer[1])
        assert (found.kind, found.flags.tolist()) == (Kind.IDS, [0, 1, 1, 1, 1, 0])
        rows = [row.tolist() for row in found.rows()]
        assert rows == [gpt2.encode("one"), [], [], [], [], gpt2.encode("é")]
        assert capsys.readouterr().err.count("gristmill worker: prompt") == 4

    def test_other_kinds_are_refused(self, gpt2: Tokenizer) -> None:
        for kind in (Kind.TEXTS, Kind.IDS):
            with pytest.raises(WireError):
                Worker(gpt2).answer(pack(kind, []))


@pytest.fixture
def process(tmp_path: Path) -> Iterator[tuple[Any, Any, Any, subprocess.Popen[bytes]]]:
    """A worker process with the tokenizer gpt2: where to push, where ids and texts come from."""
    import zmq

    with zmq.Context() as context, contextlib.ExitStack() as stack:
        push = stack.enter_context(context.socket(zmq.PUSH))
        ids, texts = (stack.enter_context(context.socket(zmq.PULL)) for _ in range(2))
        addresses = {name: f"ipc://{tmp_path}/{name}" for name in ("pull", "ids", "texts")}
        ids.bind(addresses["ids"])
        texts.bind(addresses["texts"])
        for socket in (ids, texts):
            socket.setsockopt(zmq.RCVTIMEO, 20_000)
        push.setsockopt(zmq.LINGER, 0)
        options = [part for name, address in addresses.items() for part in (f"--{name}", address)]
        command = [sys.executable, "-m", "gristmill.serve.worker", "gpt2", *options]
        with subprocess.Popen(command, stderr=subprocess.PIPE) as child:
            push.connect(addresses["pull"])
            try:
                yield push, ids, texts, child
            finally:
                child.kill()


@pytest.mark.skipif(sys.platform == "win32", reason="the sockets of the test are files")
def test_a_worker_process(process: tuple[Any, Any, Any, Any], gpt2: Tokenizer) -> None:
    push, ids, texts, child = process
    push.send(b"no message")
    push.send(pack(Kind.PROMPTS, [3], b"one two", offsets=[0, 7]))
    (row,) = unpack(ids.recv()).rows()
    assert row.tolist() == gpt2.encode("one two")
    uids = list(range(256))
    parts: dict[int, bytes] = dict.fromkeys(uids, b"")
    for id in gpt2.encode("水車は 🦙"):
        push.send(pack(Kind.STEP, uids, [id] * 256))
        for uid, text in zip(uids, unpack(texts.recv()).rows(), strict=True):
            parts[uid] += text
    assert set(parts.values()) == {"水車は 🦙".encode()}
    os.kill(child.pid, signal.SIGTERM)
    assert child.wait(20) == 0
    assert b"gristmill worker: 10 bytes are no message" in child.stderr.read()


class TestAsync:
    def test_many_at_once(self, gpt2: Tokenizer) -> None:
        texts = [f"text {number} " * (number % 7) for number in range(500)]

        async def run() -> list[list[int]]:
            async with AsyncTokenizer(gpt2, limit=10) as tokenizer:
                return await asyncio.gather(*map(tokenizer.encode, texts))

        assert asyncio.run(run()) == gpt2.encode_batch(texts)

    def test_each_fails_alone(self, gpt2: Tokenizer) -> None:
        async def run() -> list[Any]:
            async with AsyncTokenizer(gpt2) as tokenizer:
                return await asyncio.gather(
                    tokenizer.encode("a<|endoftext|>", special="forbid"),
                    tokenizer.encode("a", special="forbid"),
                    tokenizer.encode("a<|endoftext|>", special="parse"),
                    tokenizer.encode(b"\xff"),
                    tokenizer.encode_chat(CHAT),
                    tokenizer.encode_chat(CHAT, template=TEMPLATE, add_generation_prompt=True),
                    tokenizer.encode_chat([], template=TEMPLATE),
                    return_exceptions=True,
                )

        found = asyncio.run(run())
        kinds = (TokenizerError, list, list, UnicodeDecodeError, ValueError, list, ValueError)
        assert [type(answer) for answer in found] == list(kinds)
        assert found[1:3] == [[64], [64, 50256]]
        assert found[5] == gpt2.encode_chat(CHAT, template=TEMPLATE, add_generation_prompt=True)

    def test_cancelled_and_closed(self, gpt2: Tokenizer) -> None:
        async def run() -> None:
            tokenizer = AsyncTokenizer(gpt2, limit=1)
            tasks = [asyncio.create_task(tokenizer.encode("a " * 1000)) for _ in range(50)]
            await asyncio.sleep(0)
            for task in tasks[::2]:
                task.cancel()
            await tokenizer.aclose()
            found = await asyncio.gather(*tasks, return_exceptions=True)
            assert all(isinstance(answer, asyncio.CancelledError) for answer in found[::2])
            assert all(len(answer) == 1001 for answer in found[1::2] if isinstance(answer, list))
            assert not any(isinstance(answer, BaseException) for answer in found[1::2])
            with pytest.raises(RuntimeError, match="closed"):
                await tokenizer.encode("a")

        asyncio.run(asyncio.wait_for(run(), 30))

    def test_the_loop_goes_on(self, gpt2: Tokenizer) -> None:
        """A large text is encoded in a thread."""

        async def run() -> int:
            async with AsyncTokenizer(gpt2) as tokenizer:
                task = asyncio.create_task(tokenizer.encode("large text " * 1_600_000))
                turns, end = 0, time.monotonic() + 20
                while not task.done() and time.monotonic() < end:
                    await asyncio.sleep(0)
                    turns += 1
                assert len(await task) > 1_600_000
                return turns

        assert asyncio.run(run()) > 10

    def test_limits_are_checked(self, gpt2: Tokenizer) -> None:
        with pytest.raises(ValueError, match="limit"):
            AsyncTokenizer(gpt2, limit=0)
