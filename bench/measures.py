"""What one fresh process finds out: `python measures.py` reads a task as JSON and prints numbers.

A task names a measure, a package, a tokenizer and slices of text. A process loads the tokenizer,
makes the one call, and only then, with the clock stopped, hashes the ids for the comparison with
the other packages. It pins itself to a core before it imports anything that counts cores.
"""

import contextlib
import ctypes
import gc
import hashlib
import json
import os
import pathlib
import sys
import time
from collections.abc import Callable
from typing import Any

Task = dict[str, Any]
Found = dict[str, Any]

MB = 1e6
# What of a tokenizer's source is a path.
PATHS = ("file", "ranks")


def main() -> None:
    task = json.load(sys.stdin)
    if task["pinned"] and hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    # After the pinning: packages count the cores when they are imported.
    import peers

    try:
        found = MEASURES[task["measure"]](task)
    except peers.CannotLoad as reason:
        found = {"cannot": str(reason)}
    print("\n" + json.dumps(found))


class Clock:
    """Seconds of a call, by the wall or of this process's own work."""

    def __init__(self, task: Task) -> None:
        self.now = time.process_time if task["clock"] == "cpu" else time.perf_counter

    def __call__(self, call: Callable[..., Any], *arguments: Any) -> tuple[float, Any]:
        began = self.now()
        result = call(*arguments)
        return self.now() - began, result


def load(task: Task) -> tuple[float, Any]:
    """Load the tokenizer of the task; imports are not part of the time."""
    import importlib

    import peers

    peer = peers.PEERS[task["peer"]]
    for module in (peer.imports, peer.module):
        importlib.import_module(module)
    named = task["source"]
    paths = {name: path and pathlib.Path(path) for name, path in named.items() if name in PATHS}
    return Clock(task)(peer.load, peers.Source(**{**named, **paths}))


def slices(task: Task) -> list[str]:
    from samples import Slice

    return [Slice(*one).read() for one in task["slices"]]


def digest(*many: Any) -> str:
    """One number for ids, whatever holds them."""
    import numpy as np

    total = hashlib.blake2b(digest_size=8)
    for ids in many:
        total.update(np.ascontiguousarray(ids, dtype="<u4").tobytes())
    return total.hexdigest()


def size(text: str) -> int:
    """Bytes of UTF-8, counted on a copy: CPython would keep them, and spare the call its work."""
    return len((text + " ").encode()) - 1


# --- one call on a large text


def cold(task: Task) -> Found:
    """The first call."""
    seconds, calls = load(task)
    (text,) = slices(task)
    length = size(text)
    took, ids = Clock(task)(calls.array, text)
    return {
        "rate": length / took / MB,
        "with load": (seconds + took) * 1000,
        "ids": digest(ids),
    }


def steady(task: Task) -> Found:
    """A text that was not seen, after others of the same kind, by any of our calls."""
    _, calls = load(task)
    before, text = slices(task)
    call = calls.more[task["call"]] if task.get("call") else calls.array
    call(before)
    length = size(text)
    took, ids = Clock(task)(call, text)
    if task.get("call") == "count":
        return {"rate": length / took / MB, "ids": digest(calls.array(text)), "tokens": ids}
    return {"rate": length / took / MB, "ids": digest(ids)}


def warm(task: Task) -> Found:
    """The same text again."""
    _, calls = load(task)
    (text,) = slices(task)
    calls.array(text)
    took, ids = Clock(task)(calls.array, text)
    return {"rate": size(text) / took / MB, "ids": digest(ids)}


def long(task: Task) -> Found:
    """One call on a text of many megabytes, and the memory it needed beside its output."""
    _, calls = load(task)
    (text,) = slices(task)
    length = size(text)
    memory = Memory()
    took, ids = Clock(task)(calls.array, text)
    grown = memory.grown()
    output = getattr(ids, "nbytes", len(ids) * 8)
    return {
        "rate": length / took / MB,
        "memory": (grown - output) / MB,
        "ids": digest(ids),
    }


def stream(task: Task) -> Found:
    """Many calls, by one thread or by `threads` of them, over documents in shuffled order."""
    from samples import Slice, stream_of

    _, calls = load(task)
    parts = stream_of([Slice(*one) for one in task["slices"]], task["total"], task["each"])
    call = calls.array
    if task.get("threads"):
        threads = task["threads"]

        def call(text: str) -> Any:
            step = max(1, len(text) // 64)
            texts = [text[at : at + step] for at in range(0, len(text), step)]
            return calls.more["threads"](texts, threads)[0]

    clock = Clock(task)
    memory = Memory()
    took, length, output = 0.0, 0, 0
    total = hashlib.blake2b(digest_size=8)
    for part in parts:
        text = part()
        length += size(text)
        seconds, ids = clock(call, text)
        took += seconds
        output = max(output, getattr(ids, "nbytes", 0))
        total.update(digest(ids).encode())
        del text, ids
    # The text of one call and its copy for the size lie in memory too.
    grown = memory.grown() - output - 2 * task["each"]
    return {"rate": length / took / MB, "memory": grown / MB, "ids": total.hexdigest()}


class Memory:
    """Growth of resident memory at its highest, from here on."""

    def __init__(self) -> None:
        gc.collect()
        # What loading left free would hide what the call needs.
        with contextlib.suppress(OSError, AttributeError):
            ctypes.CDLL(None).malloc_trim(0)
        with open("/proc/self/clear_refs", "w") as file:
            file.write("5")
        self.before = self.status("VmRSS")

    def grown(self) -> int:
        return self.status("VmHWM") - self.before

    @staticmethod
    def status(name: str) -> int:
        with open("/proc/self/status") as file:
            for line in file:
                if line.startswith(name + ":"):
                    return int(line.split()[1]) * 1024
        raise OSError(f"no {name} in /proc/self/status")


# --- many calls, batches, ids to text


def small(task: Task) -> Found:
    """Calls on short texts that were not seen, after calls on other texts of the same size."""
    _, calls = load(task)
    before, after = slices(task)
    length = task["length"]
    # Characters, not bytes: in a text of one alphabet they are in proportion.
    step = max(1, length * len(after) // size(after))
    texts = [after[at : at + step] for at in range(0, len(after) - step, step)]
    others = [before[at : at + step] for at in range(0, len(before) - step, step)]
    call = calls.as_list if task["to"] == "list" else calls.array
    if task["to"] != "list" and not calls.makes_array:
        return {"cannot": "gives no array"}
    for text in others:
        call(text)

    def all_of_them() -> None:
        for text in texts:
            call(text)

    gc.disable()
    took, _ = Clock(task)(all_of_them)
    return {"time": took / len(texts) * 1e9, "ids": digest(*map(call, texts))}


def batch(task: Task) -> Found:
    """A batch of documents to flat ids and offsets, the first time and again."""
    from samples import documents_of

    _, calls = load(task)
    files = task.get("documents")
    texts = documents_of(files) if files else slices(task)
    length = sum(map(size, texts))
    call = calls.batch
    if task.get("threads"):
        threads = task["threads"]

        def call(texts: list[str]) -> Any:
            return calls.more["threads"](texts, threads)

    if call is None:
        return {"cannot": "has no batches"}
    found: Found = {}
    for state in ("cold", "warm"):
        took, (ids, offsets) = Clock(task)(call, texts)
        found[state] = length / took / MB
    found["ids"] = digest(ids, offsets)
    return found


def decode(task: Task) -> Found:
    """Ids to text; the ids are ours, and the text has to be the one they came from."""
    _, calls = load(task)
    if calls.decode is None:
        return {"cannot": "has no decode"}
    (text,) = slices(task)
    _, ours = load({**task, "peer": "gristmill"})
    ids = ours.as_list(text)
    del ours
    took, found = Clock(task)(calls.decode, ids)
    if found != text:
        return {"cannot": "gives another text"}
    return {"rate": len(ids) / took / 1e6, "ids": "the text"}


def loading(task: Task) -> Found:
    """Nothing but loading."""
    seconds, calls = load(task)
    return {"time": seconds * 1000, "ids": digest(calls.as_list("Hello, world! naïve 日本語\n"))}


# --- bad cases, and the workload of old


def hostile(task: Task) -> Found:
    """A hostile text against English, and against one twice as long."""
    import samples

    clock = Clock(task)
    length = task["length"]
    texts = {
        # What a package does once in a process is no part of any of them.
        "before": samples.english(1000),
        "hostile": samples.hostile(length)[task["text"]],
        "twice": samples.hostile(2 * length)[task["text"]],
        "english": slices(task)[0] if task.get("slices") else samples.english(length),
    }
    took: dict[str, float] = {}
    ids: dict[str, Any] = {}
    # A tokenizer each: none of them may profit from another's text.
    for name, text in texts.items():
        _, calls = load(task)
        took[name], ids[name] = clock(calls.array, text)
    rate = {name: size(text) / took[name] / MB for name, text in texts.items()}
    return {
        "rate": rate["hostile"],
        "slower": rate["english"] / rate["hostile"],
        "growth": took["twice"] / took["hostile"],
        "ids": digest(ids["hostile"], ids["twice"]),
    }


def kinds(task: Task) -> Found:
    """Texts of every kind, none of them seen before, after some English; the best of some turns."""
    import samples

    _, calls = load(task)
    clock = Clock(task)
    calls.array(samples.english(100_000))
    found: Found = {}
    total = hashlib.blake2b(digest_size=8)
    for length, turns in task["lengths"]:
        texts = [samples.kinds(length, turn) for turn in range(turns)]
        for name in texts[0]:
            rates = []
            for text in (some[name] for some in texts):
                took, ids = clock(calls.array, text)
                rates.append(size(text) / max(took, 1e-9) / MB)
                total.update(digest(ids).encode())
            found[f"{name} {length}"] = max(rates)
    return {**found, "ids": total.hexdigest()}


def old(task: Task) -> Found:
    """10,000 encodes of one short text with a small tokenizer that rustbpe trained."""
    import samples

    try:
        import rustbpe
    except ImportError:
        import peers

        raise peers.CannotLoad("rustbpe is not installed, which trains the tokenizer") from None
    text = samples.english(22_600)
    documents = [text[at : at + 45] for at in range(0, len(text), 45)][:500]
    trained = rustbpe.Tokenizer()
    trained.train_from_iterator(iter(documents), 300)
    call = trained.encode
    if task["peer"] == "gristmill":
        import base64

        from gristmill import Tokenizer

        lines = [
            base64.b64encode(bytes(token)) + b" %d\n" % id
            for token, id in trained.get_mergeable_ranks()
        ]
        call = Tokenizer.from_bytes(b"".join(lines), pattern=trained.get_pattern()).encode
    short = samples.english(40_000)[-305:]
    memory = Memory()

    def all_of_them() -> None:
        for _ in range(10_000):
            call(short)

    took, _ = Clock(task)(all_of_them)
    return {"time": took * 1000, "memory": memory.grown() / MB, "ids": digest(call(short))}


MEASURES: dict[str, Callable[[Task], Found]] = {
    "cold": cold,
    "steady": steady,
    "warm": warm,
    "long": long,
    "stream": stream,
    "small": small,
    "batch": batch,
    "decode": decode,
    "load": loading,
    "hostile": hostile,
    "kinds": kinds,
    "old": old,
}

if __name__ == "__main__":
    main()
