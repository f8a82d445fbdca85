"""Measure training against other libraries: each in a fresh process, time and peak memory, merges
checked first.

    bench/train.py [--data FOLDER] [--megabytes N ...] [--runs N] [--vocab-size N]

Texts are a mix of English, code, chats and several languages from FOLDER/corpora, cut into
documents of some two thousand characters, and lie in memory when the clock starts. Whole is a
training from texts to merges; merges alone is that minus a training of one merge on the same texts.
The small workload is 500 short texts and a vocabulary of 300, in one process, the best of many.
Memory is the peak of the process minus what it was before training. A ratio is the peer's median
over ours.
"""

import argparse
import json
import os
import pathlib
import platform
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Literal

Train = Callable[[list[str], int], list[bytes]]

FILES = {
    "en_web_or_wiki.txt": 4,
    "code.txt": 3,
    "chat.jsonl": 1,
    "multi/de.txt": 0.5,
    "multi/ru.txt": 0.5,
    "multi/zh.txt": 0.5,
    "multi/ja.txt": 0.5,
}
SMALL = [
    "Hello world! This is a test.",
    "The quick brown fox jumps over the lazy dog.",
    "Byte pair encoding is a text tokenization method.",
    "Don't stop; 12345 words fit here, naïve café.",
    "def train(texts): return merges",
] * 100


def ours(parity: Literal["rustbpe", "hf"]) -> Train:
    import gristmill

    def train(texts: list[str], size: int) -> list[bytes]:
        tok = gristmill.Trainer(size, parity=parity, pattern="gpt4").train(texts)
        return [tok.token_bytes(id) for id in range(tok.vocab_size)]

    return train


def rustbpe() -> Train:
    import rustbpe

    def train(texts: list[str], size: int) -> list[bytes]:
        tok = rustbpe.Tokenizer()
        tok.train_from_iterator(iter(texts), size)
        return [bytes(token) for token, _ in tok.get_mergeable_ranks()]

    return train


def huggingface() -> Train:
    import gristmill
    import tokenizers
    from tokenizers import models, pre_tokenizers
    from tokenizers.trainers import BpeTrainer

    pattern = gristmill.Trainer(257, parity="rustbpe").train([]).info["pattern"]

    def train(texts: list[str], size: int) -> list[bytes]:
        tok = tokenizers.Tokenizer(models.BPE())
        split = pre_tokenizers.Split(tokenizers.Regex(pattern), "isolated")
        level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
        tok.pre_tokenizer = pre_tokenizers.Sequence([split, level])
        alphabet = pre_tokenizers.ByteLevel.alphabet()
        tok.train_from_iterator(
            texts, BpeTrainer(vocab_size=size, initial_alphabet=alphabet, show_progress=False)
        )
        made = gristmill.Tokenizer.from_bytes(tok.to_str().encode())
        return [made.token_bytes(id) for id in range(made.vocab_size)]

    return train


# Each peer beside the parity that gives its merges.
PEERS: dict[str, tuple[Callable[[], Train], str | None]] = {
    "gristmill": (lambda: ours("rustbpe"), None),
    "gristmill hf": (lambda: ours("hf"), None),
    "rustbpe": (rustbpe, "gristmill"),
    "tokenizers": (huggingface, "gristmill hf"),
}


def documents(data: pathlib.Path, megabytes: float) -> list[str]:
    texts = []
    whole = sum(FILES.values())
    for name, share in FILES.items():
        with open(data / "corpora" / name, "rb") as file:
            text = file.read(int(megabytes * 1e6 * share / whole)).decode("utf-8", "ignore")
        texts += [text[at : at + 2000] for at in range(0, len(text), 2000)]
    return texts


def peak() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def one(peer: str, data: pathlib.Path, megabytes: float, size: int) -> dict[str, object]:
    """What one process finds out."""
    import hashlib

    train = PEERS[peer][0]()
    if megabytes == 0:
        best = min(timed(train, SMALL, 300)[0] for _ in range(50))
        return {"whole": best, "merges": 0.0, "memory": 0, "digest": ""}
    texts = documents(data, megabytes)
    before = peak()
    whole, tokens = timed(train, texts, size)
    memory = peak() - before
    first, _ = timed(train, texts, 257)
    digest = hashlib.sha256(b"\0".join(tokens)).hexdigest()
    return {"whole": whole, "merges": whole - first, "memory": memory, "digest": digest}


def timed(train: Train, texts: list[str], size: int) -> tuple[float, list[bytes]]:
    began = time.perf_counter()
    tokens = train(texts, size)
    return time.perf_counter() - began, tokens


def run(peer: str, options: argparse.Namespace, megabytes: float) -> dict[str, float | str]:
    arguments = [peer, str(options.data), str(megabytes), str(options.vocab_size)]
    done = subprocess.run(
        [sys.executable, __file__, "--one", *arguments], stdout=subprocess.PIPE, check=True
    )
    found: dict[str, float | str] = json.loads(done.stdout)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--data", type=pathlib.Path, default=os.environ.get("GRISTMILL_DATA"))
    parser.add_argument("--megabytes", type=float, nargs="+", default=[0, 40])
    parser.add_argument("--vocab-size", type=int, default=32_768)
    parser.add_argument("--runs", type=int, default=3)
    options = parser.parse_args()
    if options.data is None and any(options.megabytes):
        parser.error("texts are needed: --data FOLDER, or --megabytes 0 for the small workload")
    print(f"{platform.processor() or platform.machine()}, {os.cpu_count()} cores")
    for megabytes in options.megabytes:
        runs: dict[str, list[dict[str, float | str]]] = {peer: [] for peer in PEERS}
        # In turn, so that whatever else the machine does hits all alike.
        for _ in range(options.runs):
            for peer in PEERS:
                runs[peer].append(run(peer, options, megabytes))
        show(megabytes, runs)


def show(megabytes: float, runs: dict[str, list[dict[str, float | str]]]) -> None:
    def median(peer: str, what: str) -> float:
        return statistics.median(float(found[what]) for found in runs[peer])

    what = f"{megabytes:g} MB" if megabytes else "500 short texts"
    print(f"\n{what:15}  {'whole':>10}  {'merges':>10}  {'memory':>9}  ratios")
    for peer, (_, same) in PEERS.items():
        if same and runs[peer][0]["digest"] != runs[same][0]["digest"]:
            print(f"{peer:15}  merges differ: no number")
            continue
        line = f"{peer:15}  {median(peer, 'whole') * 1e3:7,.1f} ms"
        line += (
            f"  {median(peer, 'merges') * 1e3:7,.1f} ms  {median(peer, 'memory') / 1e6:6,.0f} MB"
        )
        if same:
            line += f"  {median(peer, 'whole') / median(same, 'whole'):.1f}x whole"
            if megabytes:
                line += f", {median(peer, 'merges') / median(same, 'merges'):.1f}x merges"
        print(line)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--one"]:
        peer, folder, size, vocabulary = sys.argv[2:]
        print(json.dumps(one(peer, pathlib.Path(folder), float(size), int(vocabulary))))
    else:
        main()
