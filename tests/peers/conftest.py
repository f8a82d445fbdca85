"""Servers' own classes, without the servers: the file they stand in is loaded, and what it imports
and is not installed is made up, as far as it is only named.

`peer_sources.py` fetches the files; without them these tests fail.
"""

import ast
import importlib.abc
import importlib.machinery
import importlib.util
import itertools
import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import gristmill
import pytest
import tokenizers
import transformers

sys.path.insert(0, str(Path(__file__).parent.parent))

import tiny
from peer_sources import FOLDER

MADE_UP = ("vllm", "sglang", "minisgl", "torch", "zmq", "psutil", "pybase64", "setproctitle")


class Anything:
    """Something that is only named, called, or derived from."""

    def __init__(self, *_: Any, **__: Any) -> None: ...

    def __call__(self, *arguments: Any, **_: Any) -> Any:
        return arguments[0] if arguments else self

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return Anything()


class MadeUp(ModuleType):
    """A module with every name in it."""

    __path__: list[str] = []  # noqa: RUF012

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return type(name, (Anything,), {}) if name[:1].isupper() else Anything()


class Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Makes up modules of packages that are not looked for elsewhere."""

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if name.split(".")[0] not in MADE_UP:
            return None
        return importlib.machinery.ModuleSpec(name, self)

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType:
        return MadeUp(spec.name)

    def exec_module(self, module: ModuleType) -> None: ...


@pytest.fixture(scope="session", autouse=True)
def made_up() -> Iterator[None]:
    before = {name: sys.modules.pop(name) for name in MADE_UP if name in sys.modules}
    finder = Finder()
    sys.meta_path.insert(0, finder)
    yield
    sys.meta_path.remove(finder)
    for name in [name for name in sys.modules if name.split(".")[0] in MADE_UP]:
        del sys.modules[name]
    sys.modules.update(before)


def load(name: str, path: Path) -> Any:
    """Run a server's own file as the module it is."""
    if not path.is_file():
        raise AssertionError(f"{path} is missing: make test-peers fetches it")
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def functions(path: Path, *names: str) -> dict[str, Any]:
    """Some functions of a file whose imports are too many."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    wanted = [node for node in tree.body if getattr(node, "name", None) in names]
    assert len(wanted) == len(names), names
    space: dict[str, Any] = {}
    exec(compile(ast.Module(wanted, []), str(path), "exec"), space)
    return space


@pytest.fixture(scope="session")
def vllm() -> Any:
    """The module vllm.v1.engine.detokenizer."""
    return load(
        "vllm.v1.engine.detokenizer", FOLDER / "vllm" / "vllm" / "v1" / "engine" / "detokenizer.py"
    )


@pytest.fixture(scope="session")
def sglang() -> Any:
    """The module sglang.srt.managers.detokenizer_manager."""
    root = FOLDER / "sglang" / "sglang"
    module = load(
        "sglang.srt.managers.detokenizer_manager", root / "srt/managers/detokenizer_manager.py"
    )
    for name, function in functions(
        root / "utils.py", "find_printable_text", "_is_chinese_char"
    ).items():
        setattr(module, name, function)
    return module


@pytest.fixture(scope="session")
def minisgl() -> Any:
    """The module minisgl.tokenizer.detokenize."""
    return load(
        "minisgl.tokenizer.detokenize",
        FOLDER / "mini-sglang" / "python" / "minisgl" / "tokenizer" / "detokenize.py",
    )


@pytest.fixture(scope="session")
def library() -> Any:
    """GPT-2's tokenizer, in transformers."""
    tok = gristmill.Tokenizer("gpt2")
    ranks = {tok.token_bytes(id): id for id in range(50_256)}
    level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True}
    content = {
        "version": "1.0",
        "added_tokens": [tiny.added_token(50_256, "<|endoftext|>")],
        "normalizer": None,
        "pre_tokenizer": level | {"use_regex": True},
        "post_processor": None,
        "decoder": level,
        "model": {
            "type": "BPE",
            "vocab": {tiny.to_alphabet(token): id for token, id in ranks.items()},
            "merges": [
                [tiny.to_alphabet(part) for part in halves(ranks, token)]
                for token in ranks
                if len(token) > 1
            ],
        },
    }
    made = tokenizers.Tokenizer.from_str(json.dumps(content))
    return transformers.PreTrainedTokenizerFast(tokenizer_object=made, eos_token="<|endoftext|>")


def halves(ranks: dict[bytes, int], token: bytes) -> tuple[bytes, bytes]:
    """The two tokens that a token is merged of: what its bytes become by all earlier merges."""
    parts = [bytes([byte]) for byte in token]
    while len(parts) > 2:
        pairs = [left + right for left, right in itertools.pairwise(parts)]
        at = min(range(len(pairs)), key=lambda at: ranks.get(pairs[at], 10**9))
        parts[at : at + 2] = [pairs[at]]
    return parts[0], parts[1]


@pytest.fixture(scope="session")
def fallback(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A tokenizer with byte fallback, in transformers."""
    path = tmp_path_factory.mktemp("fallback") / "tokenizer.json"
    path.write_bytes(tiny.fallback_json())
    return transformers.PreTrainedTokenizerFast(tokenizer_file=str(path))
