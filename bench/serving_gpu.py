"""The whole of a server on one machine, its tokenizer changed: does anybody notice?

    bench/serving_gpu.py FOLDER [--device cuda] [--pairs 4] [--bursts 20] [--out FILE]
    bench/serving_gpu.py FOLDER --device cpu --tiny

FOLDER holds tokenizer.json. A model of Qwen2.5-0.5B's shape with random weights decodes bursts of
requests: a static KV cache, a CUDA graph for each number of streams, prefill before decode. It runs
whole forwards and takes the argmax, but the next ids are replayed from real text, so all arms see
the same ids. What differs is who turns ids into text, in the process of the model: managers in
Python, ours, streams of tokenizers, or nobody (`null`, the ceiling). `python_again` is Python's
managers once more: what the difference of a thing from itself looks like.

Each run is a process of its own; the arms of a pair are run in an order fixed beforehand, turned
round from pair to pair; the first two bursts of a run are not counted. Compared are medians of
pairs, with an interval by bootstrap. Texts of all arms but `null` have to be equal, and are hashed
to prove it. Results are appended to those in the file, run by run, and cells that have none are
listed as not run.

`--tiny` makes a model of two small layers and short bursts: it proves the protocol, and nothing of
speed. Needs torch, and transformers and tokenizers for their arms. Not here yet: messages between
processes, and a client on a socket.
"""

import argparse
import datetime
import hashlib
import json
import pathlib
import platform
import random
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

HERE = pathlib.Path(__file__).resolve()
DISCARDED = 2
TEXT = (
    "The miller's daughter carried the flour to the bakers; they'd been baking since 4:00. "
    "for (int i = 0; i < 10; i++) { total += weights[i]; } return total;\n"
    "水車は小麦を挽く。水车磨面粉,磨坊主在睡觉。 Мельница мелет муку. 물레방아. 🙂🎉\n"
)
STOPS = ["</think>", "<|im_end|>\n\n"]


@dataclass(frozen=True)
class Cell:
    """What is asked of the server."""

    name: str
    streams: int
    prompt: tuple[int, int]
    answer: int
    arms: tuple[str, ...]
    stops: bool = False
    logprobs: int = 0


ALL = ("python", "ours", "null", "python_again")
# In the order in which they are worth having.
CELLS = (
    Cell("16 streams, 512 to 1,024 in, 32 out", 16, (512, 1024), 32, ALL),
    Cell("256 streams, 512 to 1,024 in, 128 out", 256, (512, 1024), 128, ALL),
    Cell("256 streams, stop strings", 256, (128, 256), 128, ("python", "ours"), stops=True),
    Cell("256 streams, top-5 logprobs", 256, (128, 256), 128, ("python", "ours"), logprobs=5),
    Cell("64 streams, 32k prompts", 64, (32_768, 32_768), 32, ("decode_stream", "ours")),
)


@dataclass(frozen=True)
class Shape:
    """A model."""

    hidden: int = 896
    layers: int = 24
    heads: int = 14
    kv_heads: int = 2
    inner: int = 4864
    vocabulary: int = 151_936

    @property
    def head(self) -> int:
        return self.hidden // self.heads


TINY = Shape(hidden=64, layers=2, heads=4, kv_heads=2, inner=128, vocabulary=1000)


class Model:
    """A decoder with random weights and a static cache, by layer, stream and place."""

    def __init__(self, shape: Shape, streams: int, places: int, device: str) -> None:
        import torch

        self.torch = torch
        self.shape, self.streams, self.device = shape, streams, device
        dtype = torch.bfloat16 if device == "cuda" else torch.float32
        torch.manual_seed(7)

        def weight(*sizes: int) -> Any:
            return torch.randn(*sizes, device=device, dtype=dtype) * 0.02

        kv = shape.kv_heads * shape.head
        self.embedding = weight(shape.vocabulary, shape.hidden)
        self.blocks = [
            {
                "qkv": weight(shape.hidden, shape.hidden + 2 * kv),
                "out": weight(shape.hidden, shape.hidden),
                "up": weight(shape.hidden, 2 * shape.inner),
                "down": weight(shape.inner, shape.hidden),
            }
            for _ in range(shape.layers)
        ]
        sizes = (shape.layers, 2, streams, shape.kv_heads, places, shape.head)
        self.cache = torch.zeros(sizes, device=device, dtype=dtype)
        half = torch.arange(0, shape.head, 2, device=device).float() / shape.head
        angles = torch.outer(torch.arange(places, device=device).float(), 1e6**-half)
        self.cos, self.sin = angles.cos().to(dtype), angles.sin().to(dtype)
        self.ids = torch.zeros(streams, 1, device=device, dtype=torch.long)
        self.at = torch.zeros(streams, device=device, dtype=torch.long)
        self.places = torch.arange(places, device=device)
        self.next = torch.zeros(streams, device=device, dtype=torch.long)
        self.graph: Any = None

    def rotated(self, x: Any, at: Any) -> Any:
        """Positions, in the queries and keys."""
        cos, sin = self.cos[at].unsqueeze(1), self.sin[at].unsqueeze(1)
        left, right = x[..., 0::2], x[..., 1::2]
        both = (left * cos - right * sin, left * sin + right * cos)
        return self.torch.stack(both, -1).flatten(-2)

    def forward(self, ids: Any, at: Any, rows: Any) -> Any:
        """The logits after the last id of each row; `at` are its places, [row, id]."""
        torch, shape = self.torch, self.shape
        functional = torch.nn.functional
        x = self.embedding[ids]
        rows_n, length, _ = x.shape
        kv = shape.kv_heads * shape.head
        mask = self.places[None, None, None, :] <= at[:, None, :, None]
        for layer, block in enumerate(self.blocks):
            normed = functional.rms_norm(x, (shape.hidden,))
            q, k, v = (normed @ block["qkv"]).split([shape.hidden, kv, kv], -1)

            def heads(part: Any) -> Any:
                return part.view(rows_n, length, -1, shape.head).transpose(1, 2)

            q, k = self.rotated(heads(q), at), self.rotated(heads(k), at)
            for which, part in enumerate((k, heads(v))):
                self.cache[layer, which][rows[:, None], :, at] = part.transpose(1, 2)
            keys, values = self.cache[layer, 0][rows], self.cache[layer, 1][rows]
            shared = shape.heads // shape.kv_heads
            keys = keys.repeat_interleave(shared, 1)
            values = values.repeat_interleave(shared, 1)
            mixed = functional.scaled_dot_product_attention(q, keys, values, attn_mask=mask)
            x = x + mixed.transpose(1, 2).reshape(rows_n, length, -1) @ block["out"]
            gate, up = (functional.rms_norm(x, (shape.hidden,)) @ block["up"]).chunk(2, -1)
            x = x + (functional.silu(gate) * up) @ block["down"]
        return functional.rms_norm(x[:, -1], (shape.hidden,)) @ self.embedding.T

    def prefill(self, stream: int, ids: Sequence[int], most: int = 2048) -> None:
        """A prompt into the cache, in chunks."""
        torch = self.torch
        rows = torch.tensor([stream], device=self.device)
        for start in range(0, len(ids), most):
            part = torch.tensor([ids[start : start + most]], device=self.device)
            part = part % self.shape.vocabulary
            at = torch.arange(start, start + part.shape[1], device=self.device)[None]
            self.forward(part, at, rows)

    def one_step(self) -> None:
        """All streams by one id; what a graph records."""
        rows = self.torch.arange(self.streams, device=self.device)
        logits = self.forward(self.ids, self.at[:, None], rows)
        self.next.copy_(logits.argmax(-1))

    def record(self) -> None:
        """The step as a CUDA graph; elsewhere it is run as it is."""
        torch = self.torch
        if self.device != "cuda":
            return
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(3):
                self.one_step()
        torch.cuda.current_stream().wait_stream(stream)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.one_step()

    def launch(self, ids: Sequence[int], at: int) -> None:
        """Begin a step."""
        torch = self.torch
        column = torch.tensor(ids, dtype=torch.long)[:, None] % self.shape.vocabulary
        self.ids.copy_(column, non_blocking=True)
        self.at.fill_(at)
        if self.graph is None:
            self.one_step()
        else:
            self.graph.replay()

    def wait(self) -> list[int]:
        """The ids that the model would have said, copied as a server does."""
        found: list[int] = self.next.to("cpu").tolist()
        return found


@dataclass
class Message:
    """A token of a stream."""

    uid: int
    next_token: int
    finished: bool


# Ids of a step, and whether it is the last: the new texts.
Detokenize = Callable[[list[int], bool], list[str]]


def arm(name: str, cell: Cell, folder: pathlib.Path, prompts: list[list[int]]) -> Detokenize:
    """Who makes text of ids, in one burst."""
    import gristmill
    from gristmill.serve.managers import DetokenizeManager
    from gristmill.serve.reference import DetokenizeManager as InPython

    if name == "null":
        return lambda ids, last: [""] * len(ids)
    tok = LOADED.get("ours") or gristmill.Tokenizer(folder)
    LOADED["ours"] = tok
    path = str(folder / "tokenizer.json")
    if name == "decode_stream":
        import tokenizers

        library = LOADED.get("theirs") or tokenizers.Tokenizer.from_file(path)
        LOADED["theirs"] = library
        make = tokenizers.decoders.DecodeStream
        streams = [make(ids=prompt, skip_special_tokens=False) for prompt in prompts]
        return lambda ids, last: [
            stream.step(library, id) or "" for stream, id in zip(streams, ids, strict=True)
        ]
    manager: Any
    if name.startswith("python"):
        import transformers

        make_fast: Any = transformers.PreTrainedTokenizerFast
        library = LOADED.get("python") or make_fast(tokenizer_file=path)
        LOADED["python"] = library
        manager = InPython(library)
        given = ["" for _ in prompts]

        def finish(texts: list[str]) -> list[str]:
            if cell.stops:
                # As servers look: the end of the text so far, for each string.
                for at, text in enumerate(texts):
                    given[at] = (given[at] + text)[-200:]
                    for stop in STOPS:
                        given[at].find(stop)
            return texts

        def by_manager(ids: list[int], last: bool) -> list[str]:
            texts = manager.detokenize([Message(uid, id, last) for uid, id in enumerate(ids)])
            if cell.logprobs:
                for id in ids:
                    for other in range(cell.logprobs):
                        library.decode([(id + other) % 50_000])
            return finish(texts)

        return by_manager
    manager = DetokenizeManager(tok, eos_token_ids=[], stop=STOPS if cell.stops else None)

    def by_ours(ids: list[int], last: bool) -> list[str]:
        texts: list[str] = manager.detokenize(
            [Message(uid, id, last) for uid, id in enumerate(ids)]
        )
        if cell.logprobs:
            others = [(id + other) % 50_000 for id in ids for other in range(cell.logprobs)]
            tok.token_texts(others).strs()
        return texts

    return by_ours


LOADED: dict[str, Any] = {}


def one_run(options: argparse.Namespace) -> dict[str, Any]:
    """One arm in one cell, in this process: what each burst took."""
    import gristmill

    folder = options.folder
    cell = CELLS[options.cell - 1]
    scale = 16 if options.tiny else 1
    streams = max(2, cell.streams // scale)
    first, last = (max(4, size // (32 * scale)) if options.tiny else size for size in cell.prompt)
    answer = max(4, cell.answer // scale)
    tok = gristmill.Tokenizer(folder)
    ids = tok.encode(TEXT * 400)
    shape = TINY if options.tiny else Shape()
    model = Model(shape, streams, last + answer + 1, options.device)
    model.record()
    bursts = []
    digest = hashlib.sha256()
    for burst in range(DISCARDED + options.bursts):
        draw = random.Random(burst)
        prompts = []
        for _ in range(streams):
            at, size = draw.randrange(len(ids)), draw.randint(first, last)
            prompts.append([ids[(at + place) % len(ids)] for place in range(size)])
        answers = [
            [ids[(draw.randrange(1000) + 7 * step) % len(ids)] for step in range(answer)]
            for _ in range(streams)
        ]
        bursts.append(one_burst(options, cell, folder, model, prompts, answers, last, digest))
    return {
        "cell": cell.name,
        "arm": options.arm,
        "streams": streams,
        "hash": digest.hexdigest() if options.arm != "null" else None,
        "bursts": bursts[DISCARDED:],
    }


def one_burst(
    options: argparse.Namespace,
    cell: Cell,
    folder: pathlib.Path,
    model: Model,
    prompts: list[list[int]],
    answers: list[list[int]],
    longest: int,
    digest: Any,
) -> dict[str, float]:
    """Prefill, then steps: one is at work on the device while the text of the last is made."""
    began, cpu = time.perf_counter(), time.process_time()
    # To the same length, so that one graph serves all.
    for stream, prompt in enumerate(prompts):
        model.prefill(stream, prompt)
    detokenize = arm(options.arm, cell, folder, prompts)
    texts = ["" for _ in prompts]
    first = 0.0
    steps = len(answers[0])
    for step in range(steps):
        now = [answer[step] for answer in answers]
        model.launch(now, longest + step)
        given = detokenize(now, step + 1 == steps)
        for stream, text in enumerate(given):
            texts[stream] += text
        model.wait()
        if step == 0:
            first = time.perf_counter() - began
    took = time.perf_counter() - began
    # Python's managers do not flush what was cut off at the end.
    digest.update("\0".join(text.rstrip("\ufffd") for text in texts).encode())
    return {
        "seconds": took,
        "cpu_seconds": time.process_time() - cpu,
        "ttft": first,
        "tpot": (took - first) / max(1, steps - 1),
        "tokens_per_second": steps * len(prompts) / took,
    }


def interval(differences: Sequence[float]) -> tuple[float, float]:
    """Where 95 of 100 medians of drawn pairs lie."""
    draw = random.Random(7)
    medians = sorted(
        statistics.median(draw.choices(differences, k=len(differences))) for _ in range(2000)
    )
    return medians[50], medians[1949]


def compared(rows: list[dict[str, Any]]) -> list[str]:
    """A line for each cell and arm: how its pairs differ from the first arm's."""
    lines = []
    for cell in CELLS:
        runs = [row for row in rows if row["cell"] == cell.name]
        if not runs:
            lines.append(f"{cell.name}: not run")
            continue
        hashes = {row["hash"] for row in runs if row["hash"]}
        lines.append(f"{cell.name}: texts {'equal' if len(hashes) == 1 else 'DIFFER'}")
        base = cell.arms[0]
        for name in cell.arms[1:]:
            for measure in ("tokens_per_second", "tpot", "ttft", "cpu_seconds"):
                pairs = paired(runs, base, name, measure)
                if not pairs:
                    continue
                low, high = interval(pairs)
                lines.append(
                    f"  {name} to {base}, {measure}: {statistics.median(pairs):+.2%} "
                    f"[{low:+.2%}, {high:+.2%}], {len(pairs)} bursts"
                )
    return lines


def paired(runs: list[dict[str, Any]], base: str, name: str, measure: str) -> list[float]:
    """The differences of bursts with the same requests, in runs of the same pair."""
    found = []
    for pair in {row["pair"] for row in runs}:
        sides = {row["arm"]: row["bursts"] for row in runs if row["pair"] == pair}
        if base in sides and name in sides:
            for one, other in zip(sides[base], sides[name], strict=True):
                found.append(other[measure] / one[measure] - 1)
    return found


def all_runs(options: argparse.Namespace) -> int:
    """Every cell, pair and arm in turn, each in a process of its own."""
    import torch

    kept: dict[str, Any] = {"rows": []}
    if options.out and options.out.exists():
        kept = json.loads(options.out.read_text())
    session = len({row["session"] for row in kept["rows"]})
    for number in options.cells:
        cell = CELLS[number - 1]
        for pair in range(options.pairs):
            arms = cell.arms if pair % 2 == 0 else cell.arms[::-1]
            for name in arms:
                command = [sys.executable, str(HERE), str(options.folder), "--device"]
                command += [options.device, "--bursts", str(options.bursts)]
                command += ["--cell", str(number), "--arm", name]
                command += ["--tiny"] if options.tiny else []
                done = subprocess.run(command, capture_output=True, text=True)
                if done.returncode:
                    print(done.stderr[-3000:], file=sys.stderr)
                    return 1
                row = json.loads(done.stdout.splitlines()[-1])
                row |= {
                    "pair": f"{session}.{pair}",
                    "session": session,
                    "tiny": options.tiny,
                    "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
                    "machine": machine(torch, options.device),
                }
                kept["rows"].append(row)
                if options.out:
                    options.out.write_text(json.dumps(kept, indent=1) + "\n")
    # A tiny model says nothing of a real one.
    lines = compared([row for row in kept["rows"] if row["tiny"] == options.tiny])
    print("\n".join(lines))
    return int(any("DIFFER" in line for line in lines))


def machine(torch: Any, device: str) -> str:
    """What it ran on."""
    name = torch.cuda.get_device_name() if device == "cuda" else "no GPU"
    return f"{name}, {platform.machine()}, torch {torch.__version__}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--device", choices=["cuda", "cpu"], default="cuda")
    parser.add_argument("--pairs", type=int, default=4)
    parser.add_argument("--bursts", type=int, default=20)
    parser.add_argument(
        "--cells",
        type=lambda text: [int(one) for one in text.split(",")],
        default=list(range(1, len(CELLS) + 1)),
    )
    parser.add_argument("--tiny", action="store_true")
    parser.add_argument("--out", type=pathlib.Path)
    # One run, as this program starts itself.
    parser.add_argument("--cell", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--arm", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.arm:
        print(json.dumps(one_run(options)))
        return 0
    return all_runs(options)


if __name__ == "__main__":
    sys.exit(main())
