"""The documentation is true: its examples run, its links and make targets exist.

In README.md, CONTRIBUTING.md and docs: a `python` block runs, a `console` block gives the output it
shows, and the README begins with the two commands that CI runs.
"""

import os
import re
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]


class Block(NamedTuple):
    """A fenced block."""

    page: Path
    line: int
    language: str
    text: str


def blocks_of(page: Path) -> list[Block]:
    """The fenced blocks of a page."""
    found = []
    text = page.read_text(encoding="utf-8")
    for match in re.finditer(r"^```([^\n`]*)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL):
        line = text.count("\n", 0, match.start()) + 1
        found.append(Block(page, line, match[1].strip(), match[2]))
    return found


BLOCKS = [block for page in PAGES for block in blocks_of(page)]


def written_in(language: str) -> list[object]:
    """The blocks of one language, as parameters of a test."""
    return [
        pytest.param(block, id=f"{block.page.relative_to(ROOT).as_posix()}:{block.line}")
        for block in BLOCKS
        if block.language == language
    ]


@pytest.mark.parametrize("block", written_in("python"))
def test_python_example(block: Block, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    # Errors show the line of the page.
    code = compile("\n" * block.line + block.text, str(block.page), "exec")
    exec(code, {"__name__": "__main__"})


@pytest.mark.skipif(sys.platform == "win32", reason="the examples are written for a POSIX shell")
@pytest.mark.parametrize("block", written_in("console"))
def test_console_example(block: Block, tmp_path: Path) -> None:
    scripts = sysconfig.get_path("scripts")
    environment = {**os.environ, "PATH": scripts + os.pathsep + os.environ["PATH"]}
    command = ""
    shown: dict[str, str] = {}
    for line in block.text.splitlines(keepends=True):
        if line.startswith("$ "):
            command = line[2:].strip()
            shown[command] = ""
        else:
            shown[command] += line
    for command, output in shown.items():
        done = subprocess.run(
            command,
            shell=True,
            cwd=tmp_path,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            encoding="utf-8",
        )
        assert done.stdout.rstrip("\n") == output.rstrip("\n"), command


def test_readme_begins_with_two_commands() -> None:
    commands = [block.text for block in blocks_of(ROOT / "README.md") if block.language == "sh"]
    assert commands[0].startswith("make install && .venv/bin/gristmill ")
    assert commands[1] == "make test\n"
    for command in commands[:2]:
        assert command.count("\n") == 1


def test_examples_exist() -> None:
    assert any(block.language == "python" for block in blocks_of(ROOT / "README.md"))
    assert any(block.language == "console" for block in blocks_of(ROOT / "README.md"))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)\s]+)\)", page.read_text(encoding="utf-8")):
        path, _, anchor = target.partition("#")
        if "://" in path:
            continue
        linked = page.parent / path if path else page
        assert linked.exists(), f"{page.name}: {target}"
        if anchor and linked.suffix == ".md":
            assert anchor in anchors(linked), f"{page.name}: {target}"


def anchors(page: Path) -> set[str]:
    """The anchors that a page's headings get."""
    headings = re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {
        re.sub(r"[^\w\- ]", "", heading).strip().lower().replace(" ", "-") for heading in headings
    }


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_make_targets_exist(page: Path) -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"^([a-z-]+):", makefile, re.MULTILINE))
    text = page.read_text(encoding="utf-8")
    named = re.findall(r"(?:^|`)make ([a-z][a-z-]*)", text, re.MULTILINE)
    assert set(named) <= targets
