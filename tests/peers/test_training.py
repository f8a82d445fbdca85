"""Training beside the originals that are repositories, not packages: nanochat on the stand-in for
rustbpe, and minbpe's merges.

NANOCHAT and MINBPE name their checkouts, or they lie beside this one. A missing one is a failure.
"""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import gristmill
import pytest
from test_oracle_train import TEXTS, tokens_of

# Its options are parameters of tests, whose types are not followed.
Trainer: Any = gristmill.Trainer

# Runs as if the stand-in were the package: what comes after is nanochat's own.
WITH_THE_STAND_IN = """
import sys
import gristmill.compat.rustbpe
sys.modules["rustbpe"] = gristmill.compat.rustbpe
"""


def checkout(name: str) -> Path:
    """The folder of a project."""
    folder = Path(os.environ.get(name.upper()) or Path(__file__).parents[3] / name)
    if not folder.is_dir():
        pytest.fail(f"{folder} is missing; {name.upper()} names a checkout of karpathy/{name}")
    return folder.resolve()


@pytest.fixture(scope="session")
def nanochat() -> Path:
    return checkout("nanochat")


@pytest.fixture(scope="session")
def minbpe() -> Path:
    return checkout("minbpe")


def run_in(folder: Path, program: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", WITH_THE_STAND_IN + program],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_nanochats_own_tests(nanochat: Path) -> None:
    shown = run_in(
        nanochat,
        'import pytest; sys.exit(pytest.main(["tests/test_tokenizer.py", "-q", '
        '"-p", "no:cacheprovider"]))',
    )
    assert " passed" in shown
    assert " skipped" not in shown


@pytest.mark.parametrize("name", ["english", "code", "emoji", "runs"])
def test_nanochats_tokenizer(nanochat: Path, name: str, tmp_path: Path) -> None:
    """Its tokenizer trained with the stand-in and with rustbpe is one and the same."""
    program = f"""
from nanochat.tokenizer import RustBPETokenizer
texts = {TEXTS[name]!r}
tok = RustBPETokenizer.train_from_iterator(iter(texts), 600)
tok.save({str(tmp_path)!r})
again = RustBPETokenizer.from_directory({str(tmp_path)!r})
chat = [{{"role": "user", "content": "Hi"}}, {{"role": "assistant", "content": "Ho"}}]
print([again.encode(text, prepend="<|bos|>") for text in texts])
print(tok.render_conversation({{"messages": chat}}))
"""
    ours = run_in(nanochat, program)
    theirs = run_in(nanochat, 'del sys.modules["rustbpe"]\n' + program)
    assert ours == theirs
    assert len(ours) > 100


def of_minbpe(folder: Path, kind: str, text: str, size: int) -> list[bytes]:
    sys.path.insert(0, str(folder))
    try:
        import minbpe  # type: ignore[import-not-found]
    finally:
        sys.path.remove(str(folder))
    theirs = getattr(minbpe, kind)()
    theirs.train(text, size)
    return [theirs.vocab[id] for id in range(size)]


@pytest.mark.parametrize("name", [name for name in TEXTS if not name.startswith("empty")])
@pytest.mark.parametrize("kind", ["RegexTokenizer", "BasicTokenizer"])
def test_minbpe(minbpe: Path, kind: str, name: str) -> None:
    # The original fails where no pair is left.
    text = "".join(TEXTS[name])
    # Without a pattern tokens soon get longer than a file of ranks may hold.
    size, options = (2000, {}) if kind == "RegexTokenizer" else (400, {"pattern": None})
    ours = tokens_of(Trainer(size, parity="minbpe", **options).train([text[:6000]]))
    assert ours == of_minbpe(minbpe, kind, text[:6000], len(ours))
