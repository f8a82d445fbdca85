"""Measure training against other libraries: each in a fresh process, time and peak memory, merges
checked first.

    bench/train.py [--data FOLDER] [--megabytes N ...] [--runs N] [--vocab-size N]
                   [--peers NAME ...]
    bench/train.py [--data FOLDER] --stream MEGABYTES [--memory-limit 512MB] [--vocab-size N]

Texts are a mix of English, code, chats and several languages from FOLDER/corpora, cut into
documents of some two thousand characters, and lie in memory when the clock starts. Whole is a
training from texts to merges; merges alone is that minus a training of one merge on the same texts.
The small workload is 500 short texts and a vocabulary of 300, in one process, the best of many.
Memory is the peak of the process minus what it was before training. A ratio is the peer's median
over ours. Beside the time by the clock stands that of the processor, on all cores together.

A stream is texts of all languages one after the other, as many as asked for, taken lazily: files of
FOLDER/corpora, and when they end the same with their letters changed for others, so that words are
new. It is trained on with the limit and without, and the two tokenizers are compared.
"""

import argparse
import hashlib
import json
import os
import pathlib
import platform
import resource
import statistics
import string
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any, Literal

# Trains, and gives what gives the tokens in their order, which is not timed.
Train = Callable[[list[str], int], Callable[[], list[bytes]]]

# Files and their parts of the whole.
FILES = {
    "code.txt": 3,
    "chat.jsonl": 1,
    "multi/de.txt": 0.5,
    "multi/ru.txt": 0.5,
    "multi/zh.txt": 0.5,
    "multi/ja.txt": 0.5,
    "en_web_or_wiki.txt": 4,
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

    def train(texts: list[str], size: int) -> Callable[[], list[bytes]]:
        tok = gristmill.Trainer(size, parity=parity, pattern="gpt4").train(texts)
        return lambda: [tok.token_bytes(id) for id in range(tok.vocab_size)]

    return train


def rustbpe() -> Train:
    import rustbpe

    def train(texts: list[str], size: int) -> Callable[[], list[bytes]]:
        tok = rustbpe.Tokenizer()
        tok.train_from_iterator(iter(texts), size)
        return lambda: [bytes(token) for token, _ in tok.get_mergeable_ranks()]

    return train


def huggingface() -> Train:
    import gristmill
    import tokenizers
    from tokenizers import models, pre_tokenizers
    from tokenizers.trainers import BpeTrainer

    pattern = gristmill.Trainer(257, parity="rustbpe").train([]).info["pattern"]

    def train(texts: list[str], size: int) -> Callable[[], list[bytes]]:
        tok = tokenizers.Tokenizer(models.BPE())
        split = pre_tokenizers.Split(tokenizers.Regex(pattern), "isolated")
        level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
        tok.pre_tokenizer = pre_tokenizers.Sequence([split, level])
        alphabet = pre_tokenizers.ByteLevel.alphabet()
        tok.train_from_iterator(
            texts, BpeTrainer(vocab_size=size, initial_alphabet=alphabet, show_progress=False)
        )

        def tokens() -> list[bytes]:
            made = gristmill.Tokenizer.from_bytes(tok.to_str().encode())
            return [made.token_bytes(id) for id in range(made.vocab_size)]

        return tokens

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
    left = megabytes * 1e6
    whole = sum(FILES.values())
    for name, share in FILES.items():
        # The last one makes up for those that are too short.
        wanted = left if name == list(FILES)[-1] else megabytes * 1e6 * share / whole
        with open(data / "corpora" / name, "rb") as file:
            read = file.read(round(wanted))
        left -= len(read)
        text = read.decode("utf-8", "ignore")
        texts += [text[at : at + 2000] for at in range(0, len(text), 2000)]
    if left > 0:
        raise SystemExit(f"the texts in {data} are too few for {megabytes:g} MB")
    return texts


def stream(data: pathlib.Path, megabytes: float) -> Iterator[str]:
    """Texts of about 20,000 characters."""
    left = int(megabytes * 1e6)
    letters = string.ascii_lowercase
    for shift in range(len(letters)):
        table = str.maketrans(letters, letters[shift:] + letters[:shift])
        for name in sorted((data / "corpora").rglob("*.txt")):
            with open(name, encoding="utf-8", errors="ignore") as file:
                while text := file.read(20_000):
                    if shift:
                        text = text.translate(table)
                    yield text
                    left -= len(text.encode())
                    if left <= 0:
                        return


def one_stream(data: pathlib.Path, megabytes: float, size: int, limit: str) -> dict[str, Any]:
    """What one process finds out about a stream."""
    import gristmill

    seen: dict[str, Any] = {}
    trainer = gristmill.Trainer(
        size, memory_limit=None if limit == "none" else limit, progress=seen.update
    )
    before = peak()
    began = time.perf_counter()
    tok = trainer.train(stream(data, megabytes))
    whole = time.perf_counter() - began
    tokens = [tok.token_bytes(id) for id in range(tok.vocab_size)]
    return {
        "whole": whole,
        "resident": peak(),
        "memory": peak() - before,
        "words": seen["words"],
        "digest": digest_of(tokens),
    }


def compare_streams(options: argparse.Namespace) -> None:
    """Print what a limit does to a stream."""
    print(f"a stream of {options.stream:g} MB, {options.vocab_size:,} tokens")
    digests = set()
    for limit in ("none", options.memory_limit):
        arguments = ["--one-stream", options.data, options.stream, options.vocab_size, limit]
        found = in_a_process(arguments)
        digests.add(found["digest"])
        print(
            f"limit {limit:>8}: {found['whole']:,.1f} s, at most {found['resident'] / 1e6:,.0f} MB "
            f"resident, {found['memory'] / 1e6:,.0f} MB of them by training, {found['words']:,} "
            f"words, {found['memory'] / found['words']:.0f} bytes a word"
        )
    print("the same tokenizer" if len(digests) == 1 else "THE TOKENIZERS DIFFER")


def peak() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def one(peer: str, data: pathlib.Path, megabytes: float, size: int) -> dict[str, Any]:
    """What one process finds out."""
    train = PEERS[peer][0]()
    if megabytes == 0:
        best = min(timed(train, SMALL, 300)[:2] for _ in range(50))
        return {"whole": best[0], "whole_cpu": best[1], "digest": ""}
    texts = documents(data, megabytes)
    before = peak()
    whole, whole_cpu, tokens = timed(train, texts, size)
    memory = peak() - before
    first, first_cpu, _ = timed(train, texts, 257)
    return {
        "whole": whole,
        "whole_cpu": whole_cpu,
        "merges": whole - first,
        "merges_cpu": whole_cpu - first_cpu,
        "memory": memory,
        "digest": digest_of(tokens),
    }


def digest_of(tokens: list[bytes]) -> str:
    return hashlib.sha256(b"\0".join(tokens)).hexdigest()


def timed(train: Train, texts: list[str], size: int) -> tuple[float, float, list[bytes]]:
    """Seconds by the clock, seconds of the processor, and the tokens."""
    began, began_cpu = time.perf_counter(), time.process_time()
    tokens = train(texts, size)
    whole, whole_cpu = time.perf_counter() - began, time.process_time() - began_cpu
    return whole, whole_cpu, tokens()


def in_a_process(arguments: list[Any]) -> dict[str, Any]:
    command = [sys.executable, __file__, *map(str, arguments)]
    done = subprocess.run(command, stdout=subprocess.PIPE, check=True)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--data", type=pathlib.Path, default=os.environ.get("GRISTMILL_DATA"))
    parser.add_argument("--megabytes", type=float, nargs="+", default=[0, 40])
    parser.add_argument("--vocab-size", type=int, default=32_768)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--peers", nargs="+", choices=list(PEERS), default=list(PEERS))
    parser.add_argument("--stream", type=float, metavar="MEGABYTES")
    parser.add_argument("--memory-limit", default="512MB")
    options = parser.parse_args()
    if options.data is None and (options.stream or any(options.megabytes)):
        parser.error("texts are needed: --data FOLDER, or --megabytes 0 for the small workload")
    print(f"{platform.processor() or platform.machine()}, {os.cpu_count()} cores")
    if options.stream:
        compare_streams(options)
        return
    for megabytes in options.megabytes:
        runs: dict[str, list[dict[str, Any]]] = {peer: [] for peer in options.peers}
        # In turn, so that whatever else the machine does hits all alike.
        for _ in range(options.runs):
            for peer in options.peers:
                arguments = ["--one", peer, options.data, megabytes, options.vocab_size]
                runs[peer].append(in_a_process(arguments))
        show(megabytes, runs)


def show(megabytes: float, runs: dict[str, list[dict[str, Any]]]) -> None:
    def median(peer: str, what: str) -> float:
        return statistics.median(float(found.get(what, 0)) for found in runs[peer])

    what = f"{megabytes:g} MB" if megabytes else "500 short texts"
    print(f"\n{what:15}  {'whole':>11}  {'cpu':>11}  {'merges':>11}  {'memory':>8}  ratios")
    for peer, found in runs.items():
        same = PEERS[peer][1]
        if same in runs and found[0]["digest"] != runs[same][0]["digest"]:
            print(f"{peer:15}  merges differ: no number")
            continue
        times = [median(peer, name) * 1e3 for name in ("whole", "whole_cpu", "merges")]
        line = f"{peer:15}" + "".join(f"  {time:8,.1f} ms" for time in times)
        line += f"  {median(peer, 'memory') / 1e6:5,.0f} MB"
        if same in runs:
            line += f"  {median(peer, 'whole') / median(same, 'whole'):.1f}x whole"
            if megabytes:
                line += f", {median(peer, 'merges') / median(same, 'merges'):.1f}x merges"
        print(line)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--one"]:
        peer, folder, amount, vocabulary = sys.argv[2:]
        print(json.dumps(one(peer, pathlib.Path(folder), float(amount), int(vocabulary))))
    elif sys.argv[1:2] == ["--one-stream"]:
        folder, amount, vocabulary, most = sys.argv[2:]
        found = one_stream(pathlib.Path(folder), float(amount), int(vocabulary), most)
        print(json.dumps(found))
    else:
        main()
