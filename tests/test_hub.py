"""Tokenizers from the Hugging Face hub, without a network.

A client made for the test shows what is asked of the client and what becomes of its errors; the
real one, where it is installed, runs offline on a cache made for it.
"""

import json
import os
import subprocess
import sys
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gristmill
import pytest
from gristmill import hub


class HFValidationError(ValueError):
    pass


class RepositoryNotFoundError(OSError):
    pass


class GatedRepoError(RepositoryNotFoundError):
    pass


class RevisionNotFoundError(OSError):
    pass


class LocalEntryNotFoundError(FileNotFoundError):
    pass


Client = Callable[..., None]


@pytest.fixture
def client(monkeypatch: pytest.MonkeyPatch) -> Client:
    """Put a client in the place of huggingface_hub: it returns a folder or raises an error."""

    def install(answer: Path | Exception, calls: list[dict[str, Any]] | None = None) -> None:
        def snapshot_download(repo_id: str, **options: Any) -> str:
            if calls is not None:
                calls.append({"repo_id": repo_id, **options})
            if isinstance(answer, Exception):
                raise answer
            return str(answer)

        module: Any = types.ModuleType("huggingface_hub")
        module.snapshot_download = snapshot_download
        module.errors = types.SimpleNamespace(
            HFValidationError=HFValidationError,
            RepositoryNotFoundError=RepositoryNotFoundError,
            GatedRepoError=GatedRepoError,
            RevisionNotFoundError=RevisionNotFoundError,
            LocalEntryNotFoundError=LocalEntryNotFoundError,
        )
        monkeypatch.setitem(sys.modules, "huggingface_hub", module)

    return install


def byte_level_tokenizer(merges: list[tuple[str, str]]) -> str:
    """A tokenizer.json of the printable ASCII characters and a few merges."""
    vocab = [chr(code) for code in range(33, 127)] + ["".join(pair) for pair in merges]
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True}
    return json.dumps(
        {
            "version": "1.0",
            "truncation": None,
            "padding": None,
            "added_tokens": [],
            "normalizer": None,
            "pre_tokenizer": {**byte_level, "use_regex": True},
            "post_processor": None,
            "decoder": {**byte_level, "use_regex": True},
            "model": {
                "type": "BPE",
                "dropout": None,
                "unk_token": None,
                "continuing_subword_prefix": None,
                "end_of_word_suffix": None,
                "fuse_unk": False,
                "byte_fallback": False,
                "ignore_merges": False,
                "vocab": {token: id for id, token in enumerate(vocab)},
                "merges": [list(pair) for pair in merges],
            },
        }
    )


@pytest.fixture
def snapshot(tmp_path: Path) -> Path:
    folder = tmp_path / "snapshot"
    folder.mkdir()
    (folder / "tokenizer.json").write_text(byte_level_tokenizer([("a", "b"), ("ab", "c")]))
    return folder


def test_only_tokenizer_files_are_asked_for(client: Client, snapshot: Path) -> None:
    calls: list[dict[str, Any]] = []
    client(snapshot, calls)
    assert hub.fetch("org/name", revision="v1", token="secret") == snapshot
    (call,) = calls
    assert call["repo_id"] == "org/name"
    assert call["revision"] == "v1"
    assert call["token"] == "secret"
    assert set(call["allow_patterns"]) == {
        "tokenizer.json",
        "tekken.json",
        "tokenizer.model",
        "tiktoken.model",
        "*.tiktoken",
        "tokenizer_config.json",
        "special_tokens_map.json",
        "chat_template.jinja",
        "chat_templates/*.jinja",
    }


def test_from_pretrained(client: Client, snapshot: Path) -> None:
    calls: list[dict[str, Any]] = []
    client(snapshot, calls)
    tok = gristmill.Tokenizer.from_pretrained("org/name", revision="main", token=False)
    assert tok.encode("abcab") == [95, 94]
    assert calls[0]["revision"] == "main"
    assert calls[0]["token"] is False


def test_from_pretrained_raises_what_fetch_raises(client: Client) -> None:
    client(RepositoryNotFoundError("404"))
    with pytest.raises(FileNotFoundError, match="no hub repository org/name"):
        gristmill.Tokenizer.from_pretrained("org/name")


@pytest.mark.parametrize(
    ("raised", "expected", "message"),
    [
        (HFValidationError("bad"), gristmill.TokenizerError, "looks like 'org/name'"),
        (GatedRepoError("403"), PermissionError, "ask for access on https://huggingface.co/o/n"),
        (RepositoryNotFoundError("404"), FileNotFoundError, "no hub repository o/n, or it is priv"),
        (RevisionNotFoundError("404"), FileNotFoundError, "has no revision 'v9'"),
        (LocalEntryNotFoundError("off"), FileNotFoundError, "not in the hub's local cache"),
        (ConnectionError("reset by peer"), OSError, "cannot get o/n .*: reset by peer"),
    ],
)
def test_errors_say_what_to_do(
    client: Client, raised: Exception, expected: type[Exception], message: str
) -> None:
    client(raised)
    with pytest.raises(expected, match=message) as info:
        hub.fetch("o/n", revision="v9")
    assert info.value.__cause__ is raised


def test_repository_without_tokenizer(client: Client, tmp_path: Path) -> None:
    (tmp_path / "tokenizer_config.json").write_text("{}")
    client(tmp_path)
    with pytest.raises(FileNotFoundError, match=r"holds no tokenizer file .*tekken\.json"):
        hub.fetch("org/name")


def test_without_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with pytest.raises(ImportError, match=r"pip install 'gristmill\[hub\]'"):
        hub.fetch("org/name")


def fetch_offline(cache: Path, repo_id: str) -> subprocess.CompletedProcess[str]:
    """Run `fetch` with the real client, which reads its settings when it is imported."""
    program = f"from gristmill import hub; print(hub.fetch({repo_id!r}))"
    environment = {**os.environ, "HF_HUB_CACHE": str(cache), "HF_HUB_OFFLINE": "1"}
    return subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True
    )


def test_real_client_offline(tmp_path: Path, snapshot: Path) -> None:
    pytest.importorskip("huggingface_hub")
    commit = "0123456789abcdef0123456789abcdef01234567"
    repository = tmp_path / "models--org--name"
    (repository / "refs").mkdir(parents=True)
    (repository / "refs" / "main").write_text(commit)
    cached = repository / "snapshots" / commit
    cached.parent.mkdir()
    snapshot.rename(cached)
    done = fetch_offline(tmp_path, "org/name")
    assert done.returncode == 0, done.stderr
    assert Path(done.stdout.strip()) == cached

    done = fetch_offline(tmp_path, "org/other")
    assert "FileNotFoundError: org/other is not in the hub's local cache" in done.stderr

    done = fetch_offline(tmp_path, "not a repository")
    assert "TokenizerError: 'not a repository' is not the name of a hub repository" in done.stderr
