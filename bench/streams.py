"""Measure streams against other libraries, in one process and one run, texts checked equal first.

    bench/streams.py TOKENIZER.json [--runs N]

Each number is the median of microseconds of CPU time for one step (for one id, where it says
so); runs of ours and of the peers take turns. Peers are the `DecodeStream` of tokenizers, one for
each stream, and its `decode`, and the decode streams of iree-tokenizer; ratios are to the fastest.
Peers that are not installed are left out, and said to be.
"""

import argparse
import importlib.util
import platform
import statistics
import time
from collections.abc import Callable, Mapping
from typing import Any

import gristmill
import numpy as np

TEXT = """The miller's daughter carried the flour to the bakers; they'd been baking since 4:00.
for (int i = 0; i < 10; i++) {    total += weights[i];    }    return total;
水車は小麦を挽く。水车磨面粉,磨坊主在睡觉。 Мельница мелет муку, мельник спит. 물레방아. 🙂🎉
"""
PEERS = ("tokenizers", "iree")
# What is measured, by who does it: makes a call, which is timed.
Arms = Mapping[str, Callable[..., Callable[[], object]]]
STOPS = ["</think>", "<|im_end|>"]


def cpu(call: Callable[[], object], calls: int) -> float:
    """Microseconds of one call."""
    began = time.process_time()
    for _ in range(calls):
        call()
    return (time.process_time() - began) / calls * 1e6


def compare(name: str, runs: int, per: int, arms: Arms) -> None:
    """A line of the table: each arm is made anew for each run, and the runs take turns."""
    times: dict[str, list[float]] = {arm: [] for arm in arms}
    for _ in range(runs):
        for arm, make in arms.items():
            call = make()
            times[arm].append(cpu(call, 1))
    medians = {arm: statistics.median(found) / per for arm, found in times.items()}
    fastest = min((medians[peer] for peer in PEERS if peer in medians), default=None)
    for arm, median in medians.items():
        ratio = f"{fastest / median:8.1f}x" if fastest and arm not in PEERS else ""
        print(f"{name:32} {arm:24} {median:12.3f} us {ratio}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("tokenizer", help="a tokenizer.json")
    parser.add_argument("--runs", type=int, default=15)
    options = parser.parse_args()
    tok = gristmill.Tokenizer(options.tokenizer)
    ids = tok.encode(TEXT * 40)
    library: Any = None
    if importlib.util.find_spec("tokenizers"):
        import tokenizers

        library = tokenizers.Tokenizer.from_file(options.tokenizer)
        assert library.decode(ids, skip_special_tokens=False) == tok.decode(ids)
    print(f"{platform.processor() or platform.machine()}, Python {platform.python_version()}")
    print(f"gristmill {gristmill.__version__}, {options.tokenizer}")
    other: Any = None
    if importlib.util.find_spec("iree"):
        import iree.tokenizer

        other = iree.tokenizer.Tokenizer.from_file(options.tokenizer)
        if other.decode(ids) != tok.decode(ids):
            print("iree decodes another text, so it gets no numbers")
            other = None
    missing = [name for name, peer in zip(PEERS, (library, other), strict=True) if peer is None]
    print("not installed:", ", ".join(missing) or "none")

    batch = gristmill.StreamBatch(tok)
    steps = 200

    def flat(streams: int, stops: list[str] | None, strs: bool) -> Callable[[], object]:
        slots = batch.open(streams, stop=stops)
        rows = [
            np.array([ids[(7 * at + step) % len(ids)] for at in range(streams)], dtype=np.int32)
            for step in range(steps)
        ]

        def run() -> None:
            for row in rows:
                found = batch.step(slots, row)
                if strs:
                    found.strs()
                else:
                    _ = (found.text, found.offsets, found.flags)
            batch.close(slots)

        return run

    def theirs(streams: int) -> Callable[[], object]:
        import tokenizers

        opened = [
            tokenizers.decoders.DecodeStream(skip_special_tokens=False) for _ in range(streams)
        ]
        rows = [[ids[(7 * at + step) % len(ids)] for at in range(streams)] for step in range(steps)]

        def run() -> None:
            for row in rows:
                for stream, id in zip(opened, row, strict=True):
                    stream.step(library, id)

        return run

    def irees(streams: int) -> Callable[[], object]:
        opened = [other.decode_stream() for _ in range(streams)]
        rows = [
            [[ids[(7 * at + step) % len(ids)]] for at in range(streams)] for step in range(steps)
        ]

        def run() -> None:
            for row in rows:
                for stream, id in zip(opened, row, strict=True):
                    stream.feed(id)

        return run

    arms: dict[str, Callable[..., Callable[[], object]]]
    for streams in (1, 16, 256):
        arms = {
            "flat": lambda n=streams: flat(n, None, False),
            "list[str]": lambda n=streams: flat(n, None, True),
            "flat, stop strings": lambda n=streams: flat(n, STOPS, False),
        }
        if library:
            arms["tokenizers"] = lambda n=streams: theirs(n)
        if other:
            arms["iree"] = lambda n=streams: irees(n)
        compare(f"a step of {streams} streams", options.runs, steps, arms)

    prompt = np.resize(np.array(ids, dtype=np.int32), 32_768)
    as_list = prompt.tolist()

    def opening(given: Any) -> Callable[[], object]:
        def run() -> None:
            for _ in range(100):
                batch.close(batch.open(1, prompt=given))

        return run

    def first_step() -> Callable[[], object]:
        import tokenizers

        stream = tokenizers.decoders.DecodeStream(ids=as_list, skip_special_tokens=False)
        return lambda: stream.step(library, ids[0])

    arms = {"array": lambda: opening(prompt), "list": lambda: opening(as_list)}
    compare("open and close, 32k prompt", options.runs, 100, arms)
    if library:
        compare("first step, 32k prompt", 5, 1, {"tokenizers": first_step})

    some = ids[: 20 * 256]
    array = np.array(some, dtype=np.int32)
    assert tok.token_texts(array).strs() == [tok.decode([id]) for id in some]
    arms = {
        "flat": lambda: lambda: tok.token_texts(array).text,
        "list[str]": lambda: lambda: tok.token_texts(array).strs(),
    }
    if library:
        arms["tokenizers"] = lambda: (
            lambda: [library.decode([id], skip_special_tokens=False) for id in some]
        )
    compare("logprob text, for one id", options.runs, len(some), arms)

    def repeated(id: int, number: int) -> Callable[[], object]:
        stream = tok.decode_stream(stop=["a" * 60])
        row = np.full(number, id, dtype=np.int32)
        return lambda: stream.push(row)

    for name, id in [("undecodable", tok.token_to_id(b"\xe4")), ("one token", ids[0])]:
        for number in (10_000, 100_000) if id is not None else ():
            arms = {"one stream": lambda id=id, number=number: repeated(id, number)}
            compare(f"{number} times {name}, for one id", 5, number, arms)


if __name__ == "__main__":
    main()
