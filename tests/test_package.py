"""The package as installed: its names, its files, its version, and what importing it loads."""

import importlib.metadata
import importlib.resources
import subprocess
import sys
import tomllib
from pathlib import Path

import gristmill
import pytest

ROOT = Path(__file__).parent.parent


def test_public_names() -> None:
    assert gristmill.__all__ == [
        "EMBEDDED",
        "ChatTemplate",
        "CorpusError",
        "DecodeStream",
        "Report",
        "StreamBatch",
        "StreamTexts",
        "Tokenizer",
        "TokenizerError",
        "Trainer",
        "WordCounts",
        "__version__",
        "build_info",
        "compare",
        "evaluate",
        "extend",
        "prune",
        "tokenize_corpus",
    ]
    for name in gristmill.__all__:
        assert hasattr(gristmill, name)
    assert issubclass(gristmill.TokenizerError, ValueError)


def test_version_is_cargos() -> None:
    cargo = tomllib.loads((ROOT / "Cargo.toml").read_text())
    assert gristmill.__version__ == cargo["workspace"]["package"]["version"]
    assert gristmill.__version__ == importlib.metadata.version("gristmill")


def test_a_debug_build_says_so() -> None:
    info = gristmill.build_info()
    assert info["version"] == gristmill.__version__
    # What is tested is what users get.
    assert info["debug"] is False
    gristmill._warn_of_debug(info)
    with pytest.warns(RuntimeWarning, match="debug build"):
        gristmill._warn_of_debug(info | {"debug": True})


def test_changelog_knows_the_version() -> None:
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert f"## [{gristmill.__version__}]" in changelog


@pytest.mark.parametrize("name", ["py.typed", "_native.pyi"])
def test_types_are_shipped(name: str) -> None:
    assert importlib.resources.files("gristmill").joinpath(name).is_file()


def test_command_is_installed() -> None:
    (entry,) = importlib.metadata.entry_points(group="console_scripts", name="gristmill")
    assert entry.value == "gristmill.cli:main"


def test_embedded_tokenizers() -> None:
    assert gristmill.EMBEDDED == ("gpt2", "cl100k_base", "o200k_base", "o200k_harmony")
    ids = [gristmill.Tokenizer(name).encode("Hello, world!") for name in gristmill.EMBEDDED]
    assert ids == [
        [15496, 11, 995, 0],
        [9906, 11, 1917, 0],
        [13225, 11, 2375, 0],
        [13225, 11, 2375, 0],
    ]


@pytest.mark.parametrize(
    "module", ["gristmill", "gristmill.chat", "gristmill.cli", "gristmill.hub"]
)
def test_import_loads_nothing_heavy(module: str) -> None:
    program = (
        f"import sys, {module}; "
        "print(sorted({'numpy', 'rich', 'huggingface_hub', 'jinja2'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)
    assert done.stdout.strip() == b"[]"
