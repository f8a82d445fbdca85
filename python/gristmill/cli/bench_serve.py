"""`gristmill bench serve`: what a server pays for its tokenizer, beside what servers do in Python.

All arms of a row run in one process and in turns, on messages that no arm has seen, after their
results were found equal; a number is the median of the processor's microseconds for one call, and a
ratio is the median of the ratios of the runs, to ours. The managers in Python are those of
`serve/reference.py`, which do as mini-sglang's do. Arms whose library is not installed, and rows
for which the tokenizer has no chat template, are listed as left out. `--json` keeps every run.
`tests/test_cli_bench.py` runs it.
"""

import argparse
import datetime
import functools
import importlib.util
import os
import platform
import statistics
import sys
import time
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from gristmill import StreamBatch, Tokenizer, __version__, build_info
from gristmill.cli.bench import NotThis, json_file
from gristmill.cli.jobs import load, source_of
from gristmill.cli.messages import DONE, JobError, to_json
from gristmill.cli.tables import print_rows
from gristmill.serve import reference
from gristmill.serve.managers import DetokenizeManager, TokenizeManager
from gristmill.serve.wire import Kind, pack, unpack

OURS = "gristmill"
SENTENCE = "The miller's daughter carried the flour to the bakers; they'd been baking since four. "
TEXT = SENTENCE + "水車は小麦を挽く。 Мельница мелет муку. 물레방아. 🙂🎉\n    return total;\n"
STOPS = ["</think>", "<|im_end|>"]
BATCH = 16
PROMPT = 32_768
# Calls of a run, where one is too short for the clock.
CALLS = 20

Arms = Mapping[str, Callable[[int], Any]]


@dataclass
class Message:
    """A message to either manager."""

    uid: int
    text: Any = None
    next_token: int = 0
    finished: bool = False


@dataclass
class Bench:
    """The tokenizer in its libraries, and what was measured."""

    tok: Tokenizer
    runs: int
    library: Any = None
    """In tokenizers."""
    python: Any = None
    """In transformers."""
    rows: list[dict[str, Any]] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)

    def row(self, name: str, arms: Arms, *, per: int = 1, calls: int = 1) -> None:
        """Run the arms in turns, so many calls each; the first is ours."""
        times: dict[str, list[float]] = {arm: [] for arm in arms}
        for run in range(self.runs):
            # Whoever is first has colder caches, so that is not always the same.
            order = list(arms) if run % 2 == 0 else list(arms)[::-1]
            for arm in order:
                began = time.process_time_ns()
                for call in range(run * calls, (run + 1) * calls):
                    arms[arm](call)
                times[arm].append((time.process_time_ns() - began) / 1000 / per / calls)
        ours = times[next(iter(arms))]
        for arm, found in times.items():
            pairs = zip(found, ours, strict=True)
            ratio = statistics.median(theirs / max(mine, 1e-3) for theirs, mine in pairs)
            self.rows.append(
                {
                    "row": name,
                    "arm": arm,
                    "microseconds": round(statistics.median(found), 3),
                    "times_ours": round(ratio, 2),
                    "runs": [round(one, 3) for one in found],
                }
            )


def bench(options: argparse.Namespace) -> int:
    """A tokenizer in, a table out."""
    warnings.simplefilter("ignore")
    tok = load(options)
    measured = Bench(tok, options.runs)
    load_others(measured, options)
    for measure in (tokenize, detokenize, steps, opening, logprobs, wire):
        measure(measured)
    facts = {
        "tokenizer": options.tokenizer,
        "gristmill": __version__,
        "debug_build": build_info()["debug"],
        "python": platform.python_version(),
        "machine": f"{platform.processor() or platform.machine()}, {os.cpu_count()} cores",
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "libraries": {
            name: sys.modules[name].__version__
            for name in ("tokenizers", "transformers")
            if name in sys.modules and hasattr(sys.modules[name], "__version__")
        },
        "left_out": measured.left_out,
        "rows": measured.rows,
    }
    if options.json:
        Path(options.json).write_text(to_json(facts) + "\n", encoding="utf-8")
    print_rows(
        ("microseconds", "times ours", "what", "by"),
        [
            (f"{row['microseconds']:,.2f}", f"{row['times_ours']:.2f}", row["row"], row["arm"])
            for row in measured.rows
        ],
    )
    for what in measured.left_out:
        print(f"left out: {what}")
    return DONE


def load_others(measured: Bench, options: argparse.Namespace) -> None:
    """The same tokenizer in tokenizers and transformers, where they are installed."""
    try:
        path = json_file(measured.tok, source_of(options.tokenizer))
    except NotThis:
        measured.left_out.append("tokenizers and transformers, since this is no tokenizer.json")
        return
    if importlib.util.find_spec("tokenizers") is None:
        measured.left_out.append("tokenizers, which is not installed")
        return
    import tokenizers

    measured.library = tokenizers.Tokenizer.from_file(str(path))
    if importlib.util.find_spec("transformers") is None:
        measured.left_out.append("the managers in Python, since transformers is not installed")
        return
    import transformers

    make: Any = transformers.PreTrainedTokenizerFast
    template = measured.tok.chat_template
    tokens = template.special_tokens if template else {}
    measured.python = make(tokenizer_file=str(path), clean_up_tokenization_spaces=False, **tokens)
    if template:
        measured.python.chat_template = template.source()


def same(name: str, ours: Any, theirs: Any) -> None:
    """What is measured has to be the same work."""
    if ours != theirs:
        raise JobError(f"{name}: the results differ, so there is nothing to compare")


def nth(call: Callable[[Any], Any], batches: list[Any]) -> Callable[[int], Any]:
    """The call with a batch of its own each time."""
    return lambda at: call(batches[at])


def tokenize(measured: Bench) -> None:
    """Prompts of 500 to 1,000 ids, no two the same; all texts, or half of them chats."""
    ours: TokenizeManager[Any] = TokenizeManager(measured.tok)
    serial: TokenizeManager[Any] = TokenizeManager(measured.tok, threads=1)
    for chats in (0, BATCH // 2):
        name = f"tokenize {BATCH} prompts" + (f", {chats} of them chats" if chats else "")
        if chats and measured.tok.chat_template is None:
            measured.left_out.append(f"{name}: the tokenizer has no chat template")
            continue
        batches = [prompts(run, chats) for run in range(measured.runs + 1)]
        arms: dict[str, Callable[[int], Any]] = {
            OURS: nth(ours.tokenize, batches),
            f"{OURS}, one thread": nth(serial.tokenize, batches),
        }
        if measured.python is not None:
            theirs = reference.TokenizeManager(measured.python)
            last = batches[-1]
            found = [ids.tolist() for ids in ours.tokenize(last)]
            same(name, found, [ids.tolist() for ids in theirs.tokenize(last)])
            arms["managers in Python"] = nth(theirs.tokenize, batches)
        measured.row(name, arms)


def prompts(run: int, chats: int) -> list[Message]:
    """A batch that is like no other."""
    batch = []
    for uid in range(BATCH):
        text = f"{run} {uid} {SENTENCE * (25 + uid)}"
        parts = [text[at : at + 400] for at in range(0, len(text), 400)]
        chat = [
            {"role": ("user", "assistant")[at % 2], "content": part}
            for at, part in enumerate(parts)
        ]
        batch.append(Message(uid, chat if uid < chats else text))
    return batch


def rows_of(measured: Bench, streams: int) -> list[list[int]]:
    """The ids of each step."""
    ids = measured.tok.encode(TEXT * 40)
    return [
        [ids[(7 * at + step) % len(ids)] for at in range(streams)]
        for step in range(measured.runs * CALLS)
    ]


def detokenize(measured: Bench) -> None:
    """Steps as message objects, as mini-sglang's managers take them."""
    for streams in (1, 16, 256):
        batches = [
            [Message(uid, next_token=id) for uid, id in enumerate(row)]
            for row in rows_of(measured, streams)
        ]
        ours = DetokenizeManager(measured.tok, eos_token_ids=[])
        arms: dict[str, Callable[[int], Any]] = {
            OURS: nth(ours.detokenize, batches),
        }
        if measured.python is not None:
            theirs = reference.DetokenizeManager(measured.python)
            arms["managers in Python"] = nth(theirs.detokenize, batches)
        measured.row(f"detokenize a step of {streams}, messages", arms, calls=CALLS)


def steps(measured: Bench) -> None:
    """Steps of streams, as strings and flat, and with stop strings."""
    for streams in (1, 16, 256):
        rows = rows_of(measured, streams)
        arrays = [np.array(row, dtype=np.int32) for row in rows]
        arms: dict[str, Callable[[int], Any]] = {}
        for name, stop, flat in (
            (OURS, None, False),
            (f"{OURS}, flat", None, True),
            (f"{OURS}, stop strings", STOPS, False),
        ):
            batch = StreamBatch(measured.tok)
            slots = batch.open(streams, stop=stop)

            arms[name] = functools.partial(step, batch, slots, arrays, flat)
        if measured.library is not None:
            arms["DecodeStream of tokenizers"] = decode_streams(measured, streams, rows)
        measured.row(f"a step of {streams} stream{'s' if streams > 1 else ''}", arms, calls=CALLS)


def step(batch: StreamBatch, slots: Any, arrays: list[Any], flat: bool, call: int) -> Any:
    """The next id of each stream, and what is new of their texts."""
    found = batch.step(slots, arrays[call])
    return (found.text, found.offsets, found.flags) if flat else found.strs()


def decode_streams(
    measured: Bench, streams: int, rows: list[list[int]]
) -> Callable[[int], list[str | None]]:
    """One of their streams for each of ours, whose text is the same in the end."""
    import tokenizers

    whole = [row[0] for row in rows]
    theirs = measured.library.decode(whole, skip_special_tokens=False)
    same("decode", measured.tok.decode(whole), theirs)
    opened = [tokenizers.decoders.DecodeStream(skip_special_tokens=False) for _ in range(streams)]
    library = measured.library
    return lambda run: [
        stream.step(library, id) for stream, id in zip(opened, rows[run], strict=True)
    ]


def opening(measured: Bench) -> None:
    """A stream behind a long prompt, opened and stepped once."""
    ids = measured.tok.encode(TEXT * 40)
    prompt = [ids[at % len(ids)] for at in range(PROMPT)]
    array = np.array(prompt, dtype=np.int32)
    batch = StreamBatch(measured.tok)

    def ours(given: Any) -> Callable[[int], Any]:
        def run(_: int) -> None:
            slots = batch.open(1, prompt=given)
            batch.step(slots, [ids[0]]).strs()
            batch.close(slots)

        return run

    arms: dict[str, Callable[[int], Any]] = {
        OURS: ours(array),
        f"{OURS}, prompt as a list": ours(prompt),
    }
    if measured.library is not None:
        import tokenizers

        def theirs(_: int) -> None:
            stream = tokenizers.decoders.DecodeStream(ids=prompt, skip_special_tokens=False)
            stream.step(measured.library, ids[0])

        arms["DecodeStream of tokenizers"] = theirs
    measured.row(f"the first step behind {PROMPT:,} ids", arms)


def logprobs(measured: Bench) -> None:
    """The texts of 256 times 20 single ids, for one of them."""
    ids = measured.tok.encode(TEXT * 80)[: 256 * 20]
    array = np.array(ids, dtype=np.int32)
    arms: dict[str, Callable[[int], Any]] = {OURS: lambda _: measured.tok.token_texts(array).strs()}
    library = measured.library
    if library is not None:

        def theirs(_: int = 0) -> list[str]:
            return [library.decode([id], skip_special_tokens=False) for id in ids]

        same("logprobs", arms[OURS](0), theirs())
        arms["decode of tokenizers"] = theirs
    measured.row("the text of an id, for logprobs", arms, per=len(ids))


def wire(measured: Bench) -> None:
    """A step's messages of 256 streams, packed and unpacked; msgpack gets a dictionary each."""
    uids = np.arange(256, dtype=np.int64) + 1_000_000
    tokens = np.arange(256, dtype=np.int32) * 500
    arms: dict[str, Callable[[int], Any]] = {
        OURS: lambda _: unpack(pack(Kind.STEP, uids, tokens)),
    }
    if importlib.util.find_spec("msgpack") is None:
        measured.left_out.append("msgpack, which is not installed")
    else:
        import msgpack

        steps = zip(uids.tolist(), tokens.tolist(), strict=True)
        batch = [Message(uid, None, token) for uid, token in steps]

        def objects(_: int = 0) -> list[Message]:
            sent = [{"__type__": "Message", **vars(message)} for message in batch]
            found = msgpack.unpackb(msgpack.packb(sent))
            return [
                Message(**{name: item for name, item in one.items() if name != "__type__"})
                for one in found
            ]

        same("messages", objects(), batch)
        arms["msgpack"] = objects
    measured.row("the message of a step of 256", arms, calls=CALLS)
