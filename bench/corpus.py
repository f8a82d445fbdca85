"""Measure `gristmill tokenize` beside what people use: fresh processes, start and writing included.

    bench/corpus.py --data FOLDER --work FOLDER [--only speed,threads,packed,memory,kill]
                    [--megabytes 1000] [--slice 60] [--peers PYTHON] [--runs 3]

FOLDER of the data holds `tokenizers/NAME/tokenizer.json` and `corpora/en_web_or_wiki.txt`; the one
to work in gets the corpus, JSON Lines made of that text, again and again in documents of other
sizes and order until there is enough, and all outputs. `--peers` is the Python that has datatrove,
tokenizers and gigatoken, where another one than this has them. Slow peers get a slice of the
corpus.

- speed: documents and megabytes of text a second; gigatoken's `encode_files` writes nothing, the
  others write all of it; `loop` is what Megatron's preprocess_data.py does, in its shape: a pool of
  processes that encode lines one by one, one process that writes;
- threads: one thread on one core beside two on two;
- packed: CPU-milliseconds that decompression adds to a megabyte of text;
- memory: the resident size while gigabytes go through, and its slope;
- kill: kill -9 at random moments until it is done; the bytes have to be those of a whole run.
"""

import argparse
import gzip
import hashlib
import json
import os
import pathlib
import random
import shutil
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

PARTS = ("speed", "threads", "packed", "memory", "kill")
OURS = "gristmill"

Command = Callable[[], list[str]]

GIGATOKEN = """
import sys, gigatoken
tok = gigatoken.Tokenizer(sys.argv[1])
print(len(tok.encode_files(gigatoken.JsonlFileSource([sys.argv[2]]))))
"""

DATATROVE = """
import sys
from datatrove.executor import LocalPipelineExecutor
from datatrove.pipeline.readers import JsonlReader
from datatrove.pipeline.tokens.tokenizer import DocumentTokenizer
if __name__ == "__main__":
    LocalPipelineExecutor(
        pipeline=[
            JsonlReader(sys.argv[2]),
            DocumentTokenizer(
                sys.argv[3], sys.argv[1], eos_token="<|endoftext|>", shuffle_documents=False
            ),
        ],
        tasks=2, workers=2, logging_dir=sys.argv[3] + "-logs",
    ).run()
"""

LOOP = """
import json, multiprocessing, sys
import numpy
from tokenizers import Tokenizer
def start(path):
    global tok
    tok = Tokenizer.from_file(path)
def encode(line):
    return tok.encode(json.loads(line)["text"]).ids + [tok.token_to_id("<|endoftext|>")]
if __name__ == "__main__":
    lengths = []
    with open(sys.argv[2], "rb") as lines, open(sys.argv[3], "wb") as out:
        with multiprocessing.Pool(2, start, (sys.argv[1],)) as pool:
            for ids in pool.imap(encode, lines, 32):
                out.write(numpy.array(ids, numpy.uint16).tobytes())
                lengths.append(len(ids))
    numpy.array(lengths, numpy.int32).tofile(sys.argv[3] + ".idx")
    print(len(lengths), sum(lengths))
"""


class Bench:
    """Where everything lies, and what was found."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.data = pathlib.Path(options.data)
        self.work = pathlib.Path(options.work)
        self.work.mkdir(parents=True, exist_ok=True)
        self.results: dict[str, Any] = {}

    def tokenizer(self, name: str) -> pathlib.Path:
        """The tokenizer file that every package reads."""
        return self.data / "tokenizers" / name / "tokenizer.json"

    def corpus(self, megabytes: int) -> pathlib.Path:
        """JSON Lines of so many megabytes."""
        path = self.work / f"corpus-{megabytes}.jsonl"
        if not path.exists():
            text = (self.data / "corpora" / "en_web_or_wiki.txt").read_text(encoding="utf-8")
            aside = path.with_suffix(".aside")
            with open(aside, "w", encoding="utf-8") as out:
                written = 0
                for line in documents(text):
                    written += out.write(line)
                    if written >= megabytes * 10**6:
                        break
            aside.rename(path)
        return path

    def ours(self, source: object, out: object, tokenizer: object, *more: object) -> list[str]:
        """Our command."""
        command = [sys.executable, "-m", "gristmill", "tokenize", source, "-o", out]
        command += ["-t", tokenizer, "--to", "megatron", "--progress", "none", *more]
        return [str(part) for part in command]

    def clean(self, name: str) -> pathlib.Path:
        """A folder that is not there yet."""
        path = self.work / name
        shutil.rmtree(path, ignore_errors=True)
        return path


def documents(text: str) -> Iterator[str]:
    """Lines of JSON without end: the text cut at line ends into documents, about 1.4 kB on average.

    Each pass cuts elsewhere and in another order.
    """
    number = 0
    while True:
        random_ = random.Random(number)
        cuts = []
        at = 0
        while at < len(text):
            end = text.find("\n", at + min(100_000, int(random_.lognormvariate(6.8, 0.9))))
            end = len(text) if end < 0 else end + 1
            cuts.append((at, end))
            at = end
        random_.shuffle(cuts)
        for start, end in cuts:
            yield json.dumps({"text": text[start:end], "id": f"{number}-{start}"}) + "\n"
        number += 1


class Measured:
    """What a process took."""

    def __init__(self, command: list[str], **how: Any) -> None:
        began = time.perf_counter()
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **how)
        self.out, self.error = process.communicate()
        self.seconds = time.perf_counter() - began
        self.code = process.returncode
        if self.code not in (0, 3):
            raise SystemExit(f"{command}: {self.code}\n{self.error.decode()[-2000:]}")


def measured(command: list[str], **how: Any) -> tuple[float, float, bytes]:
    """Seconds by the wall, seconds of all cores, and the output of a process."""
    before = os.times()
    run = Measured(command, **how)
    after = os.times()
    spent = sum(after[2:4]) - sum(before[2:4])
    return run.seconds, spent, run.out


def speed(bench: Bench) -> None:
    """Ours beside the others."""
    options = bench.options
    whole, part = bench.corpus(options.megabytes), bench.corpus(options.slice)
    python = options.peers or sys.executable
    for name in options.tokenizers.split(","):
        path = str(bench.tokenizer(name))
        out = bench.clean("out")
        rows: dict[str, float] = {}
        theirs = (python, path)
        runs: list[tuple[str, pathlib.Path, Command]] = [
            (OURS, whole, partial(bench.ours, whole, out, path, "--threads", 2)),
            ("gigatoken", whole, partial(gigatoken, *theirs, whole)),
            ("datatrove", part, partial(datatrove, bench, *theirs, part)),
            ("loop", part, partial(loop, bench, *theirs, part)),
        ]
        wanted = options.methods.split(",") if options.methods else None
        for label, source, command in runs:
            if wanted and label.split()[0] not in wanted:
                continue
            times = []
            for _ in range(options.runs if label == OURS or "giga" in label else 1):
                line = command()
                shutil.rmtree(out, ignore_errors=True)
                times.append(
                    measured(line, env=os.environ | {"TOKENIZERS_PARALLELISM": "false"})[0]
                )
            count, text = amount(source)
            seconds = statistics.median(times)
            rows[label] = text / 1e6 / seconds
            print(
                f"{name}  {label:20} {seconds:7.2f} s  {text / 1e6 / seconds:8.1f} MB/s text  "
                f"{count / seconds:10,.0f} docs/s  runs {[round(one, 2) for one in times]}",
                flush=True,
            )
        for label, value in rows.items():
            if label != OURS and OURS in rows:
                print(f"{name}  {OURS} to {label}: {rows[OURS] / value:.2f}x", flush=True)
        bench.results[f"speed {name}"] = rows


def gigatoken(python: str, tokenizer: str, source: pathlib.Path) -> list[str]:
    """The command that encodes in memory, on all cores."""
    return [python, "-c", GIGATOKEN, tokenizer, str(source)]


def datatrove(bench: Bench, python: str, tokenizer: str, source: pathlib.Path) -> list[str]:
    """The command that runs datatrove's pipeline with two workers."""
    out = bench.clean("datatrove")
    shutil.rmtree(f"{out}-logs", ignore_errors=True)
    return [python, script(bench, DATATROVE), tokenizer, str(halves(bench, source)), str(out)]


def loop(bench: Bench, python: str, tokenizer: str, source: pathlib.Path) -> list[str]:
    """The command that does what Megatron's script does."""
    out = bench.work / "loop.bin"
    return [python, script(bench, LOOP), tokenizer, str(source), str(out)]


def script(bench: Bench, text: str) -> str:
    """A program as a file, which processes that are spawned need."""
    path = bench.work / f"peer-{hashlib.sha256(text.encode()).hexdigest()[:8]}.py"
    path.write_text(text)
    return str(path)


def halves(bench: Bench, source: pathlib.Path) -> pathlib.Path:
    """The corpus in two files, which is how datatrove uses two processes."""
    folder = bench.work / "halves"
    if not folder.exists():
        folder.mkdir()
        lines = source.read_bytes().splitlines(keepends=True)
        for number in (0, 1):
            half = lines[number * len(lines) // 2 : (number + 1) * len(lines) // 2]
            (folder / f"{number}.jsonl").write_bytes(b"".join(half))
    return folder


def amount(source: pathlib.Path) -> tuple[int, int]:
    """Documents of a corpus, and bytes of their text."""
    kept = source.with_suffix(".amount")
    if not kept.exists():
        count = text = 0
        with open(source, "rb") as lines:
            for line in lines:
                count += 1
                text += len(json.loads(line)["text"].encode())
        kept.write_text(f"{count} {text}")
    count, text = map(int, kept.read_text().split())
    return count, text


def threads(bench: Bench) -> None:
    """One thread on one core, two on two."""
    source = bench.corpus(bench.options.megabytes)
    path = bench.tokenizer("gpt2")
    times = {}
    for count in (1, 2):
        line = ["taskset", "-c", "0" if count == 1 else "0,1"]
        line += bench.ours(source, bench.clean("out"), path, "--threads", count)
        times[count] = measured(line)[0]
    print(f"threads  1: {times[1]:.2f} s  2: {times[2]:.2f} s  {times[1] / times[2]:.2f}x")
    bench.results["threads"] = times


def packed(bench: Bench) -> None:
    """What decompression adds."""
    import zstandard

    source = bench.corpus(bench.options.megabytes // 4)
    content = source.read_bytes()
    files = {"plain": source}
    packs: dict[str, Callable[[bytes], bytes]] = {
        "gz": lambda content: gzip.compress(content, 6),
        "zst": zstandard.ZstdCompressor(3).compress,
    }
    for ending, pack in packs.items():
        files[ending] = pathlib.Path(f"{source}.{ending}")
        if not files[ending].exists():
            files[ending].write_bytes(pack(content))
    spent: dict[str, list[float]] = {ending: [] for ending in files}
    for _ in range(bench.options.runs):
        for ending, path in files.items():
            line = bench.ours(path, bench.clean("out"), "gpt2", "--threads", 1)
            spent[ending].append(measured(line)[1])
    middle = {ending: statistics.median(times) for ending, times in spent.items()}
    for ending in ("gz", "zst"):
        added = (middle[ending] - middle["plain"]) / (len(content) / 1e6) * 1000
        print(f"packed  {ending}: {added:+.2f} CPU-ms/MB beside plain {middle['plain']:.2f} s")
        bench.results[f"packed {ending}"] = added


def memory(bench: Bench) -> None:
    """Links to one corpus under many names: as many gigabytes as asked for, and no disk."""
    source = bench.corpus(bench.options.megabytes)
    folder = bench.clean("links")
    folder.mkdir()
    size = source.stat().st_size
    for number in range(max(1, round(bench.options.gigabytes * 1e9 / size))):
        os.link(source, folder / f"{number:03}.jsonl")
    out = bench.clean("out")
    line = bench.ours(folder, out, "gpt2", "--threads", 2)
    process = subprocess.Popen(line, stdout=subprocess.DEVNULL)
    points = []
    began = time.perf_counter()
    while process.poll() is None:
        time.sleep(0.2)
        done = consumed(process.pid)
        if done is not None:
            points.append(done)
    if process.returncode not in (0, 3):
        raise SystemExit(f"the run failed: {process.returncode}")
    most = max(resident for _, resident in points)
    late = [point for point in points if point[0] > points[-1][0] * 0.1]
    slope = slope_of([(read / 1e9, resident / 1e6) for read, resident in late])
    print(
        f"memory  {points[-1][0] / 1e9:.1f} GB read in {time.perf_counter() - began:.0f} s, "
        f"at most {most / 1e6:.0f} MB resident, slope {slope:+.3f} MB for each GB"
    )
    bench.results["memory"] = {"most": most, "slope": slope}


def consumed(pid: int) -> tuple[int, int] | None:
    """Bytes that a process has read, and the memory that it takes."""
    try:
        counters = pathlib.Path(f"/proc/{pid}/io").read_text().split()
        pages = pathlib.Path(f"/proc/{pid}/statm").read_text().split()
    except (OSError, ProcessLookupError):
        return None
    if len(pages) < 2 or pages[1] == "0":
        return None
    return int(counters[1]), int(pages[1]) * os.sysconf("SC_PAGE_SIZE")


def slope_of(points: list[tuple[float, float]]) -> float:
    """The slope of the line that fits best."""
    x = statistics.fmean(point[0] for point in points)
    y = statistics.fmean(point[1] for point in points)
    return sum((a - x) * (b - y) for a, b in points) / sum((a - x) ** 2 for a, _ in points)


def kill(bench: Bench) -> None:
    """Kill it until it is done."""
    source = bench.corpus(bench.options.megabytes)
    whole = bench.clean("whole")
    size = ("--shard-size", "8MB")
    seconds = measured(bench.ours(source, whole, "gpt2", *size))[0]
    out = bench.clean("killed")
    random_ = random.Random(5)
    kills, starts = 0, []
    while True:
        process = subprocess.Popen(
            bench.ours(source, out, "gpt2", *size), stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        began = time.perf_counter()
        try:
            process.communicate(timeout=random_.uniform(0.05, max(0.3, seconds / 6)))
        except subprocess.TimeoutExpired:
            if kills < bench.options.kills:
                process.send_signal(signal.SIGKILL)
                kills += 1
            process.communicate()
        starts.append(time.perf_counter() - began)
        if process.returncode in (0, 3):
            break
    same = hashes(whole) == hashes(out)
    lines = [json.loads(line) for line in (out / "journal.jsonl").read_text().splitlines()]
    shards = [(one["shard"]["job"], one["shard"]["shard"]) for one in lines if "shard" in one]
    began = time.perf_counter()
    measured(bench.ours(source, out, "gpt2", *size))
    again = time.perf_counter() - began
    print(
        f"kill  {kills} kills, {len(set(shards))} shards, {len(shards) - len(set(shards))} "
        f"journalled twice, same bytes: {same}, a resume with nothing to do takes {again:.2f} s"
    )
    bench.results["kill"] = {"kills": kills, "same": same, "resume": again}
    if not same:
        raise SystemExit("the bytes differ")


def hashes(folder: pathlib.Path) -> dict[str, str]:
    """Each file of token ids and its hash."""
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted((folder / "megatron").rglob("*"))
    }


def main() -> None:
    """Measure what was asked for."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", required=True)
    parser.add_argument("--work", required=True)
    parser.add_argument("--only", default=",".join(PARTS))
    parser.add_argument("--megabytes", type=int, default=1000)
    parser.add_argument("--slice", type=int, default=60)
    parser.add_argument("--gigabytes", type=float, default=20)
    parser.add_argument("--tokenizers", default="gpt2,gpt_neox_20b")
    parser.add_argument("--methods", help="speed: only these, such as gristmill,gigatoken")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--peers", metavar="PYTHON")
    options = parser.parse_args()
    bench = Bench(options)
    for name in options.only.split(","):
        {"speed": speed, "threads": threads, "packed": packed, "memory": memory, "kill": kill}[
            name
        ](bench)
    (bench.work / "results.json").write_text(json.dumps(bench.results, indent=1) + "\n")


if __name__ == "__main__":
    main()
