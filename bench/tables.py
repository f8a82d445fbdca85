"""What is measured: a function for each table, which lists its cells and their bars.

A cell is one task given to several columns (packages, or our own ways to do it); its metrics are
numbers of that task, and each becomes a row. A bar compares our number with the fastest peer, with
one column, or with a limit.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

from samples import Data

MEGA = 1_000_000
ENGLISH_AND_CODE = ("en", "code")
CJK_AND_THAI = ("zh", "ja", "th")
# The tokenizers and texts of the first three tables.
PAIRS = [
    "gpt2:en",
    "cl100k_base:en",
    "o200k_base:en",
    "llama3:en",
    "qwen2_5:en",
    "deepseek_v3:en",
    "o200k_base:code",
    "gpt2:code",
    "o200k_base:zh",
    "qwen2_5:zh",
    "deepseek_v3:zh",
    "qwen2_5:ja",
    "llama3:ko",
    "o200k_base:ru",
    "o200k_base:ar",
    "o200k_base:hi",
    "o200k_base:th",
    "gemma3:en",
    "gemma3:zh",
    "llama2:en",
]
# SentencePiece models: other rules, other peers.
SENTENCEPIECE = ("gemma3", "llama2")
LOADED = ("gpt2", "cl100k_base", "o200k_base", "llama3", "qwen2_5", "deepseek_v3", *SENTENCEPIECE)

# What tiktoken can load without a data folder.
EMBEDDED = ("gpt2", "cl100k_base", "o200k_base")

SLOW = ("tokenizers", "tiktoken", "riptoken")

OURS, GIGATOKEN, FASTEST, LIMIT = "gristmill", "gigatoken", "fastest peer", "limit"


class Bar(NamedTuple):
    """Our number is to be `factor` times as good as that of `against`; a limit is to be kept."""

    against: str
    factor: float


class Metric(NamedTuple):
    """A number of a task, and what it has to be."""

    key: str
    unit: str
    # Whether more is better.
    more: bool
    bars: tuple[Bar, ...] = ()
    # Which of several numbers of one kind it is.
    name: str = ""


class Cell(NamedTuple):
    """One task for several columns, and what is read off it."""

    name: str
    sizes: str
    task: dict[str, Any]
    metrics: tuple[Metric, ...]
    # Columns: a label, and what differs from the task; by default each package under its name.
    columns: dict[str, dict[str, Any]] | None = None
    pinned: bool = True
    # One run is enough to know the slow ones, and to check the ids with them.
    once: tuple[str, ...] = ("tokenizers",)
    # Packages that would take an hour.
    without: tuple[str, ...] = ()


class Plan(NamedTuple):
    """What the user asked for."""

    data: Data
    pairs: list[str]
    scale: float

    def bytes(self, size: int) -> int:
        return max(1000, int(size * self.scale))


def mb(*sizes: int) -> str:
    """Sizes as they are printed."""
    return " + ".join(
        f"{size / MEGA:.1f}" if size < 99 * MEGA else f"{size / MEGA:.0f}" for size in sizes
    )


def on_text(plan: Plan, pair: str, *sizes: int) -> tuple[dict[str, Any], str]:
    """The part of a task that names a tokenizer and slices of a text, and their sizes."""
    tokenizer, text = pair.split(":")
    slices = plan.data.slices(text, *map(plan.bytes, sizes))
    note = mb(*(one.size for one in slices)) + " MB"
    return {"source": plan.data.source(tokenizer), "slices": [list(one) for one in slices]}, note


def kind(pair: str) -> str:
    """What the bars differ by."""
    tokenizer, text = pair.split(":")
    if tokenizer in SENTENCEPIECE:
        return "sentencepiece"
    return text if text in ENGLISH_AND_CODE else "cjk" if text in CJK_AND_THAI else "other"


def cold(plan: Plan) -> list[Cell]:
    """The first 10 MB in a fresh process."""
    bars = {
        "en": (Bar(FASTEST, 2.5),),
        "code": (Bar(FASTEST, 2.5),),
        "cjk": (Bar(GIGATOKEN, 4), Bar(FASTEST, 2.5)),
        "other": (Bar(GIGATOKEN, 3),),
        "sentencepiece": (Bar(GIGATOKEN, 3.5),),
    }
    cells = []
    for pair in plan.pairs:
        task, note = on_text(plan, pair, 10 * MEGA)
        metrics = (
            Metric("rate", "MB/s", True, bars[kind(pair)]),
            Metric("with load", "ms with loading", False),
        )
        cells.append(Cell(pair, note, {"measure": "cold", **task}, metrics))
    return cells


def steady(plan: Plan) -> list[Cell]:
    """Unseen 3 MB after 15 MB of other text of the same kind."""
    factors = {"en": 2.5, "code": 2, "cjk": 4, "other": 3, "sentencepiece": 4}
    cells = []
    for pair in plan.pairs:
        task, note = on_text(plan, pair, 15 * MEGA, 3 * MEGA)
        metrics = (Metric("rate", "MB/s", True, (Bar(FASTEST, factors[kind(pair)]),)),)
        cells.append(Cell(pair, note, {"measure": "steady", **task}, metrics))
    return cells


def long(plan: Plan) -> list[Cell]:
    """All of the English or the code in one call, and a stream of 1 GB in calls of 10 MB."""
    cells = []
    streamed = (Metric("rate", "MB/s", True, (Bar(FASTEST, 2),)),)
    for pair, size in (("o200k_base:en", 150 * MEGA), ("o200k_base:code", 90 * MEGA)):
        task, note = on_text(plan, pair, size)
        metrics = (
            Metric("rate", "MB/s", True, (Bar(FASTEST, 2.5),)),
            Metric("memory", "MB beside the output", False, (Bar(GIGATOKEN, 3),)),
        )
        cells.append(Cell(pair, note, {**task, "measure": "long"}, metrics, once=SLOW))
        task |= {"total": plan.bytes(1000 * MEGA), "each": plan.bytes(10 * MEGA)}
        name = f"{pair}, stream of shuffled documents, again and again"
        cell = Cell(name, f"{mb(task['total'])} MB", {**task, "measure": "stream"}, streamed)
        cells.append(cell._replace(once=SLOW, without=("tokenizers",)))
    return cells


def warm(plan: Plan) -> list[Cell]:
    """The same 10 MB again."""
    cells = []
    for pair in plan.pairs:
        task, note = on_text(plan, pair, 10 * MEGA)
        factor = 1.4 if kind(pair) in ENGLISH_AND_CODE else 2
        metrics = (Metric("rate", "MB/s", True, (Bar(GIGATOKEN, factor),)),)
        cells.append(Cell(pair, note, {"measure": "warm", **task}, metrics))
    return cells


def small(plan: Plan) -> list[Cell]:
    """Small calls from Python on text that was not seen."""
    cells = []
    for pair in ("o200k_base:en", "o200k_base:zh"):
        for to in ("list", "array"):
            for length in (16, 128, 1024, 16384):
                # Not scaled: they are small already, and fewer calls would be another state.
                size = max(length * 200, 400_000)
                task, _ = on_text(plan._replace(scale=1), pair, 2 * size, size)
                factor = 1.6 if (to, length) == ("list", 16384) else 2
                cells.append(
                    Cell(
                        f"{pair} to {to}",
                        f"{length} bytes",
                        {"measure": "small", "to": to, "length": length, **task},
                        (Metric("time", "ns", False, (Bar(FASTEST, factor),)),),
                    )
                )
    return cells


def batch(plan: Plan) -> list[Cell]:
    """Documents on all cores to flat ids with offsets, and what a second core gives."""
    both = (
        Metric("cold", "MB/s cold", True, (Bar(FASTEST, 2.5),)),
        Metric("warm", "MB/s warm", True, (Bar(GIGATOKEN, 1.25),)),
    )
    source = plan.data.source("o200k_base")
    task = {"measure": "batch", "source": source, "documents": plan.data.documents()}
    cells = [Cell("o200k_base:documents", "news, all cores", task, both, pinned=False)]
    one, two = "threads=1", "threads=2"
    columns = {
        OURS: {"peer": OURS, "threads": 2},
        one: {"peer": OURS, "threads": 1, "pinned": True},
    }
    scaling = (
        Metric("cold", "MB/s cold", True, (Bar(one, 1.75),)),
        Metric("warm", "MB/s warm", True, (Bar(one, 1.75),)),
    )
    cells.append(Cell(f"the same, {two}", "news", task, scaling, columns, pinned=False))
    for text in ("en", "zh", "th", "ar"):
        part, note = on_text(plan, f"o200k_base:{text}", 10 * MEGA)
        name = f"o200k_base:{text}, one document, {two}"
        cells.append(Cell(name, note, {"measure": "batch", **part}, scaling, columns, pinned=False))
    return cells


def decode(plan: Plan) -> list[Cell]:
    """From a list of ids to text."""
    cells = []
    for pair in ("gpt2:en", "o200k_base:en", "o200k_base:zh", "llama3:en", "llama2:en"):
        task, note = on_text(plan, pair, 10 * MEGA)
        metrics = (Metric("rate", "million tokens/s", True, (Bar(FASTEST, 1.75),)),)
        cells.append(Cell(pair, note, {"measure": "decode", **task}, metrics))
    return cells


def ours_only(plan: Plan, call: str, bars: tuple[Bar, ...]) -> list[Cell]:
    """One of our calls beside others of our calls, on unseen text."""
    columns = {OURS: {"peer": OURS, "call": call}}
    columns |= {bar.against: {"peer": OURS, "call": bar.against} for bar in bars}
    cells = []
    for pair in ("o200k_base:en", "o200k_base:zh", "o200k_base:code", "gemma3:en"):
        task, note = on_text(plan, pair, 15 * MEGA, 3 * MEGA)
        metrics = (Metric("rate", "MB/s", True, bars),)
        cells.append(Cell(f"{pair}, {call}", note, {"measure": "steady", **task}, metrics, columns))
    return cells


def count(plan: Plan) -> list[Cell]:
    """Counting beside encoding."""
    return ours_only(plan, "count", (Bar("encode", 1.2), Bar("encode_numpy", 1)))


def offsets(plan: Plan) -> list[Cell]:
    """Encoding with offsets beside encoding."""
    return ours_only(plan, "encode_with_offsets", (Bar("encode", 0.5),))


def load(plan: Plan) -> list[Cell]:
    """A fresh process to a tokenizer, without imports."""
    task = {"measure": "load", "source": plan.data.source("o200k_base", embedded=True)}
    limit = (Metric("time", "ms", False, (Bar(LIMIT, 20),)),)
    columns = {OURS: {"peer": OURS}}
    cells = [Cell("o200k_base", "embedded", task, limit, columns)]
    bars = (Bar(GIGATOKEN, 5), Bar("tokenizers", 5))
    for name in LOADED:
        path = plan.data.tokenizer(name)
        task = {"measure": "load", "source": plan.data.source(name)}
        note = f"{path.stat().st_size / MEGA:.1f} MB"
        cells.append(Cell(name, note, task, (Metric("time", "ms", False, bars),), once=()))
    return cells


def memory(plan: Plan) -> list[Cell]:
    """Resident growth beside the output: of a 10 MB call, and of 1 GB of mixed text."""
    cells = []
    for pair in ("o200k_base:en", "o200k_base:zh", "gemma3:en"):
        task, note = on_text(plan, pair, 10 * MEGA)
        metrics = (Metric("memory", "MB beside the output", False, (Bar(GIGATOKEN, 3),)),)
        cells.append(Cell(pair, note, {**task, "measure": "long"}, metrics))
    slices = []
    for text in ("en", "code", "zh", "ru", "ar"):
        slices += plan.data.slices(text, plan.bytes(15 * MEGA))
    task = {
        "measure": "stream",
        "source": plan.data.source("o200k_base"),
        "slices": [list(one) for one in slices],
        "total": plan.bytes(1000 * MEGA),
        "each": plan.bytes(10 * MEGA),
    }
    for threads in (1, 2):
        metrics = (Metric("memory", "MB beside the output", False, (Bar(LIMIT, 64 * threads),)),)
        columns = {OURS: {"peer": OURS, "threads": threads}}
        name = f"o200k_base:mixed, threads={threads}"
        note = f"{mb(int(task['total']))} MB"
        cells.append(Cell(name, note, task, metrics, columns, pinned=threads == 1))
    return cells


def hostile(plan: Plan) -> list[Cell]:
    """Texts that made encoders slow: against English, and against twice as much of the same."""
    import samples

    cells = []
    columns = {OURS: {"peer": OURS}, GIGATOKEN: {"peer": GIGATOKEN}}
    size = plan.bytes(MEGA)
    # Real English where there is some; what is made up has few words, and is too easy.
    english: dict[str, Any] = {"source": plan.data.source("o200k_base", embedded=True)}
    if plan.data.folder is not None:
        english, _ = on_text(plan, "o200k_base:en", MEGA)
    for text in samples.hostile(100):
        task = {"measure": "hostile", **english, "text": text, "length": size}
        metrics = (
            Metric("rate", "MB/s", True),
            Metric("slower", "times English's time", False, (Bar(LIMIT, 20),)),
            Metric("growth", "times as long for twice the text", False, (Bar(LIMIT, 3),)),
        )
        cells.append(Cell(text, f"{mb(size)} MB", task, metrics, columns))
    return cells


def kinds(plan: Plan) -> list[Cell]:
    """Texts of every kind, unseen: none of them slower than tiktoken."""
    import samples

    lengths = [(1000, 20), (plan.bytes(60_000), 3), (plan.bytes(MEGA), 1)]
    columns = {OURS: {"peer": OURS}, "tiktoken": {"peer": "tiktoken"}}
    cells = []
    sources = {name: plan.data.source(name, embedded=True) for name in EMBEDDED}
    if plan.data.folder is not None:
        sources["kimi_k2"] = plan.data.rank_file("kimi_k2")
    for name, source in sources.items():
        for length, turns in lengths:
            task = {"measure": "kinds", "source": source, "lengths": [(length, turns)]}
            metrics = tuple(
                Metric(f"{text} {length}", "MB/s", True, (Bar("tiktoken", 1),), text)
                for text in samples.kinds(100, 0)
            )
            cells.append(Cell(name, f"{length:,} bytes", task, metrics, columns))
    return cells


def old(plan: Plan) -> list[Cell]:
    """10,000 encodes of one text of 305 bytes with a tokenizer of 300 entries."""
    task = {"measure": "old", "source": plan.data.source("gpt2", embedded=True)}
    columns = {OURS: {"peer": OURS}, "rustbpe": {"peer": "rustbpe"}}
    metrics = (
        Metric("time", "ms", False, (Bar(LIMIT, 40),)),
        Metric("memory", "MB, highest growth", False),
    )
    return [Cell("300 entries", "305 bytes", task, metrics, columns)]


TABLES: dict[str, Callable[[Plan], list[Cell]]] = {
    "cold": cold,
    "steady": steady,
    "long": long,
    "warm": warm,
    "small": small,
    "batch": batch,
    "decode": decode,
    "count": count,
    "offsets": offsets,
    "load": load,
    "memory": memory,
    "hostile": hostile,
    "kinds": kinds,
    "old": old,
}
