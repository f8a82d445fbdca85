"""Tokenizer files from the Hugging Face hub, through its own client and its cache.

Only the files a tokenizer is loaded from are downloaded, never weights. What is in the cache is
used without a network. What goes wrong is an OSError that says what to do, whatever the client
raised; a name that cannot be a repository is a TokenizerError. `tests/test_hub.py` runs this with
a client made for the test, and with the real one on a cache made for it.
"""

from fnmatch import fnmatch
from pathlib import Path

from gristmill._native import TokenizerError

# A repository may hold several of them; which is loaded is the loader's choice.
TOKENIZER_FILES = (
    "tokenizer.json",
    "tekken.json",
    "tokenizer.model",
    "tiktoken.model",
    "*.tiktoken",
)
# Not a tokenizer by themselves, but read beside one.
SETTINGS_FILES = (
    "tokenizer_config.json",
    "special_tokens_map.json",
    "chat_template.jinja",
    "chat_templates/*.jinja",
)


def fetch(repo_id: str, revision: str | None = None, token: str | bool | None = None) -> Path:
    """Bring the tokenizer files of a repository to this machine; return the folder they lie in.

    `revision` is a branch, a tag or a commit. `token` is an access token; None takes the one the
    hub's client was logged in with, False sends none.
    """
    try:
        from huggingface_hub import errors, snapshot_download
    except ImportError as error:
        raise ImportError(
            "loading from the Hugging Face hub needs the package huggingface_hub: "
            "pip install 'gristmill[hub]'"
        ) from error

    name = repo_id if revision is None else f"{repo_id} at revision {revision!r}"
    try:
        folder = Path(
            snapshot_download(
                repo_id,
                revision=revision,
                token=token,
                allow_patterns=[*TOKENIZER_FILES, *SETTINGS_FILES],
            )
        )
    except errors.HFValidationError as error:
        raise TokenizerError(
            f"{repo_id!r} is not the name of a hub repository, which looks like 'org/name'"
        ) from error
    except errors.GatedRepoError as error:
        raise PermissionError(
            f"{name} is gated: ask for access on https://huggingface.co/{repo_id}, then log in "
            "with `hf auth login` or give an access token"
        ) from error
    except errors.RepositoryNotFoundError as error:
        raise FileNotFoundError(
            f"there is no hub repository {repo_id}, or it is private: check the name, or log in "
            "with `hf auth login` or give an access token"
        ) from error
    except errors.RevisionNotFoundError as error:
        raise FileNotFoundError(f"hub repository {repo_id} has no revision {revision!r}") from error
    except errors.LocalEntryNotFoundError as error:
        raise FileNotFoundError(
            f"{name} is not in the hub's local cache and the hub cannot be reached: connect once, "
            "unset HF_HUB_OFFLINE if it is set, or load the file by its path"
        ) from error
    except OSError as error:
        raise OSError(f"cannot get {name} from the hub: {error}") from error

    if not any(holds_tokenizer(path) for path in folder.iterdir()):
        raise FileNotFoundError(
            f"hub repository {name} holds no tokenizer file (in {folder}): looked for "
            + ", ".join(TOKENIZER_FILES)
        )
    return folder


def holds_tokenizer(path: Path) -> bool:
    """Whether the file has the name of a tokenizer file."""
    return any(fnmatch(path.name, pattern) for pattern in TOKENIZER_FILES)
