"""Measure what surrounds a server's steps: managers against transformers, messages against msgpack.

    bench/serving.py FOLDER [--runs N]

FOLDER holds tokenizer.json and its chat template. Each number is the median of microseconds of CPU
time of one call, all arms in one process and in turns, results checked equal first. Messages are
those of one step of 256 streams, both ways: tokens in, text out. msgpack is given dictionaries, as
servers give it their message objects.
"""

import argparse
import pathlib
import platform
import statistics
import time
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import gristmill
import numpy as np
from gristmill.serve import reference
from gristmill.serve.managers import DetokenizeManager, TokenizeManager
from gristmill.serve.wire import Kind, pack, unpack

SENTENCE = "The miller's daughter carried the flour to the bakers; they'd been baking since four. "


@dataclass
class Message:
    """A message of both kinds."""

    uid: int
    text: Any = None
    next_token: int = 0
    finished: bool = False


def compare(name: str, runs: int, arms: Mapping[str, Callable[..., object]]) -> None:
    """A line for each arm; the last is what the others are compared with."""
    times: dict[str, list[float]] = {arm: [] for arm in arms}
    for run in range(runs):
        for arm, call in arms.items():
            began = time.process_time()
            call(run)
            times[arm].append((time.process_time() - began) * 1e6)
    medians = {arm: statistics.median(found) for arm, found in times.items()}
    last = medians[list(arms)[-1]]
    for arm, median in medians.items():
        print(f"{name:44} {arm:14} {median:10.1f} us {last / median:8.1f}x", flush=True)


def incoming(tok: gristmill.Tokenizer, library: Any, runs: int) -> None:
    """Prompts of 500 to 1,000 ids, no two the same, of which some are chats."""
    ours: TokenizeManager[Any] = TokenizeManager(tok, threads=1)
    theirs = reference.TokenizeManager(library)
    for chats in (0, 8, 16):
        batches = []
        for run in range(runs):
            batch = []
            for uid in range(16):
                text = f"{run} {uid} {SENTENCE * (25 + uid)}"
                parts = [text[at : at + 400] for at in range(0, len(text), 400)]
                chat = [
                    {"role": ("user", "assistant")[at % 2], "content": part}
                    for at, part in enumerate(parts)
                ]
                batch.append(Message(uid, chat if uid < chats else text))
            batches.append(batch)
        for found, expected in zip(
            ours.tokenize(batches[0]), theirs.tokenize(batches[0]), strict=True
        ):
            assert found.tolist() == expected.tolist()
        compare(
            f"tokenize 16, of them {chats} chats",
            runs,
            {
                "gristmill": lambda run, batches=batches: ours.tokenize(batches[run]),
                "transformers": lambda run, batches=batches: theirs.tokenize(batches[run]),
            },
        )


def outgoing(tok: gristmill.Tokenizer, library: Any, runs: int) -> None:
    """Steps of running streams."""
    ids = tok.encode(SENTENCE * 100)
    for streams in (16, 256):
        steps = [
            [Message(uid, next_token=ids[(7 * uid + run) % len(ids)]) for uid in range(streams)]
            for run in range(runs)
        ]
        ours, theirs = DetokenizeManager(tok), reference.DetokenizeManager(library)
        for step in steps[:5]:
            assert ours.detokenize(step) == theirs.detokenize(step)
        compare(
            f"detokenize a step of {streams}",
            runs,
            {
                "gristmill": lambda run, steps=steps, ours=ours: ours.detokenize(steps[run]),
                "transformers": lambda run, steps=steps, theirs=theirs: theirs.detokenize(
                    steps[run]
                ),
            },
        )


@dataclass
class Batch:
    """Messages that are sent together."""

    data: list[Message]


def as_dictionaries(value: Any) -> Any:
    """What servers make of a message object before it is packed."""
    if isinstance(value, list):
        return [as_dictionaries(item) for item in value]
    if isinstance(value, Message | Batch):
        fields = {name: as_dictionaries(item) for name, item in value.__dict__.items()}
        return {"__type__": type(value).__name__, **fields}
    return value


def as_objects(value: Any) -> Any:
    """And the other way."""
    if isinstance(value, list):
        return [as_objects(item) for item in value]
    if isinstance(value, dict):
        fields = {name: as_objects(item) for name, item in value.items() if name != "__type__"}
        return {"Message": Message, "Batch": Batch}[value["__type__"]](**fields)
    return value


def messages(runs: int) -> None:
    """A step's messages, packed and unpacked."""
    import msgpack

    uids = np.arange(256, dtype=np.int64) + 1_000_000
    tokens = np.arange(256, dtype=np.int32) * 500
    offsets = np.arange(257, dtype=np.int32) * 5
    steps = zip(uids.tolist(), tokens.tolist(), strict=True)
    batch = Batch([Message(uid, None, token) for uid, token in steps])
    replies = Batch([Message(uid, " word") for uid in uids.tolist()])

    def objects(batch: Batch) -> Any:
        return as_objects(msgpack.unpackb(msgpack.packb(as_dictionaries(batch))))

    assert objects(batch) == batch
    found: Any = unpack(pack(Kind.STEP, uids, tokens)).items
    assert found.tolist() == tokens.tolist()
    arms: dict[str, Callable[..., object]] = {
        "flat": lambda _: unpack(pack(Kind.STEP, uids, tokens)),
        "msgpack": lambda _: objects(batch),
    }
    compare("tokens of 256, packed and unpacked", runs, arms)
    arms = {
        "flat": lambda _: unpack(pack(Kind.TEXTS, uids, b" word" * 256, offsets=offsets)),
        "msgpack": lambda _: objects(replies),
    }
    compare("texts of 256, packed and unpacked", runs, arms)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--runs", type=int, default=40)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    import transformers

    tok = gristmill.Tokenizer(options.folder)
    template = tok.chat_template
    assert template is not None
    library = transformers.PreTrainedTokenizerFast(
        tokenizer_file=str(options.folder / "tokenizer.json"), **template.special_tokens
    )
    library.chat_template = template.source()
    print(f"{platform.processor() or platform.machine()}, Python {platform.python_version()}")
    print(f"gristmill {gristmill.__version__}, transformers {transformers.__version__}")
    incoming(tok, library, options.runs)
    outgoing(tok, library, options.runs)
    messages(options.runs)


if __name__ == "__main__":
    main()
