"""Settings of Hypothesis and the fixtures that more than one file needs.

Examples are derived from the test itself, so a run that passes passes again;
`HYPOTHESIS_PROFILE=long` tries many more, at random.
"""

import os
import signal
from collections.abc import Callable
from pathlib import Path

import gristmill
import pytest
import tiny
from gristmill import Tokenizer
from hypothesis import HealthCheck, settings

_CHECKS = [HealthCheck.too_slow, HealthCheck.data_too_large]
settings.register_profile(
    "short", max_examples=60, deadline=None, derandomize=True, suppress_health_check=_CHECKS
)
settings.register_profile(
    "long", max_examples=2000, deadline=None, suppress_health_check=_CHECKS, print_blob=True
)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "short"))

# A tiny tokenizer of every format.
FORMATS: dict[str, Callable[[], Tokenizer]] = {
    "ranks": lambda: Tokenizer.from_bytes(
        tiny.rank_file(), pattern=tiny.PATTERN, special_tokens=tiny.special_tokens()
    ),
    "byte_level_json": lambda: Tokenizer.from_bytes(tiny.byte_level_json()),
    "fallback_json": lambda: Tokenizer.from_bytes(tiny.fallback_json()),
    "tekken": lambda: Tokenizer.from_bytes(tiny.tekken()),
    "sentencepiece": lambda: Tokenizer.from_bytes(tiny.sentencepiece()),
}


@pytest.fixture(scope="session", autouse=True)
def interrupts() -> None:
    """A shell's background job, and all that it starts, ignores interrupts unless told not to."""
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session", params=FORMATS)
def any_format(request: pytest.FixtureRequest) -> Tokenizer:
    """A tiny tokenizer of each format in turn."""
    return FORMATS[request.param]()


@pytest.fixture(scope="session", params=gristmill.EMBEDDED)
def embedded(request: pytest.FixtureRequest) -> Tokenizer:
    """Each embedded tokenizer in turn."""
    return Tokenizer(request.param)


@pytest.fixture(scope="session")
def gpt2() -> Tokenizer:
    return Tokenizer("gpt2")


@pytest.fixture
def write(tmp_path: Path) -> Callable[[str, bytes], Path]:
    """Write a file and say where it is."""

    def write(name: str, content: bytes) -> Path:
        path = tmp_path / name
        path.write_bytes(content)
        return path

    return write
