"""Counts and times, in the text format of Prometheus.

Only the event loop's thread changes them. Labels come from closed sets, endpoints and the names of
tokenizers, never from what a client wrote, so their number is bounded. `test_http.py` reads them
with the parser of prometheus_client.
"""

import time
from bisect import bisect_left
from collections.abc import Iterable, Iterator

# Seconds; a short prompt takes a few tenths of a millisecond.
BUCKETS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)

Labels = tuple[str, ...]


class Counter:
    """Numbers that only grow, one for each combination of labels."""

    kind = "counter"

    def __init__(self, name: str, about: str, labels: Labels = ()) -> None:
        self.name, self.about, self.labels = name, about, labels
        self._values: dict[Labels, float] = {}

    def add(self, labels: Labels, amount: float = 1) -> None:
        """Count."""
        self._values[labels] = self._values.get(labels, 0) + amount

    def set(self, labels: Labels, value: float) -> None:
        """What it is now, where somebody else counts."""
        self._values[labels] = value

    def lines(self) -> Iterator[str]:
        """A line for each number, exact however large it is."""
        for labels, value in self._values.items():
            yield f"{self.name}{written(self.labels, labels)} {value!r}"


class Gauge(Counter):
    """Numbers that go up and down."""

    kind = "gauge"


class Histogram:
    """How many took how long."""

    kind = "histogram"

    def __init__(self, name: str, about: str, labels: Labels = ()) -> None:
        self.name, self.about, self.labels = name, about, labels
        self._values: dict[Labels, tuple[list[int], list[float]]] = {}

    def add(self, labels: Labels, seconds: float) -> None:
        """Count one that took so long."""
        if labels not in self._values:
            self._values[labels] = ([0] * (len(BUCKETS) + 1), [0.0])
        counts, total = self._values[labels]
        counts[bisect_left(BUCKETS, seconds)] += 1
        total[0] += seconds

    def lines(self) -> Iterator[str]:
        """The buckets, each with all below it, the sum and the number."""
        for labels, (counts, total) in self._values.items():
            below = 0
            for edge, count in zip((*map(str, BUCKETS), "+Inf"), counts, strict=True):
                below += count
                marks = written((*self.labels, "le"), (*labels, edge))
                yield f"{self.name}_bucket{marks} {below}"
            marks = written(self.labels, labels)
            yield f"{self.name}_sum{marks} {total[0]!r}"
            yield f"{self.name}_count{marks} {below}"


def written(names: Labels, values: Labels) -> str:
    """Labels as they stand behind a name."""
    pairs = (f'{name}="{escaped(value)}"' for name, value in zip(names, values, strict=True))
    return "{" + ",".join(pairs) + "}" if names else ""


def escaped(value: str) -> str:
    """A label's value between its quotation marks."""
    return value.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')


def exposition(metrics: Iterable[Counter | Histogram]) -> str:
    """What Prometheus scrapes."""
    lines = []
    for metric in metrics:
        lines += [f"# HELP {metric.name} {metric.about}", f"# TYPE {metric.name} {metric.kind}"]
        lines += metric.lines()
    return "\n".join(lines) + "\n"


def resident_bytes() -> int | None:
    """The memory this process has now, where the system says it."""
    try:
        with open("/proc/self/statm", "rb") as file:
            pages = int(file.read().split()[1])
    except (OSError, ValueError, IndexError):
        return None
    import resource

    return pages * resource.getpagesize()


class Metrics:
    """All there are."""

    def __init__(self) -> None:
        self.requests = Counter(
            "gristmill_requests_total",
            "Requests answered, by endpoint and status.",
            ("endpoint", "status"),
        )
        self.seconds = Histogram(
            "gristmill_request_seconds",
            "Time from the head of a request to the end of its answer.",
            ("endpoint",),
        )
        self.tokens = Counter(
            "gristmill_tokens_total",
            "Ids made of texts (encoded) or made into text (decoded), by tokenizer.",
            ("tokenizer", "direction"),
        )
        self.received = Counter("gristmill_received_bytes_total", "Bytes of bodies of requests.")
        self.sent = Counter("gristmill_sent_bytes_total", "Bytes of bodies of answers.")
        self.running = Gauge("gristmill_requests_running", "Requests under way.")
        self.memory = Gauge("process_resident_memory_bytes", "Resident memory.")
        self.cpu = Counter("process_cpu_seconds_total", "Processor time, user and system.")
        self.began = Gauge("process_start_time_seconds", "When the service began.")
        self.began.set((), round(time.time(), 3))
        self.build = Gauge("gristmill_build_info", "1, and what was built.", ("version", "debug"))

    def text(self) -> str:
        """What Prometheus scrapes."""
        memory = resident_bytes()
        if memory is not None:
            self.memory.set((), memory)
        self.cpu.set((), time.process_time())
        return exposition(vars(self).values())
