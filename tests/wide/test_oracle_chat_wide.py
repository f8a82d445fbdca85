"""Real chat templates against transformers: texts, exceptions, and ids where there is a tokenizer.

Every template of GRISTMILL_DATA with every chat and option of chats.py; ids with the tokenizer the
template came with, and with Qwen 2.5's for the rest. Run by `make test-wide`.
"""

import functools
import os
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import chats
import pytest
from gristmill import Tokenizer
from gristmill.chat import ChatTemplate
from test_oracle_chat import TOKENS, kind_of, ours, stopped_clock, theirs

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import transformers

__all__ = ["stopped_clock"]

pytestmark = pytest.mark.wide

DATA = Path(os.environ.get("GRISTMILL_DATA") or "missing")
TEMPLATES = sorted(path.name for path in (DATA / "chat_templates").glob("*.jinja")) or ["missing"]
# Tokenizers that lie beside a template of their own.
OWN = sorted(
    path.parent.name
    for path in (DATA / "tokenizers").glob("*/tokenizer.json")
    if ChatTemplate.load(path) is not None
) or ["missing"]


@functools.cache
def pair(name: str) -> tuple[Tokenizer, Any]:
    """Gristmill and transformers with the tokenizer of a folder, and its special tokens."""
    folder = DATA / "tokenizers" / name
    assert folder.is_dir(), "GRISTMILL_DATA must name the folder that holds tokenizers/"
    template = ChatTemplate.load(folder)
    tokens = template.special_tokens if template else {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        make: Any = transformers.PreTrainedTokenizerFast
        library = make(tokenizer_file=str(folder / "tokenizer.json"), **tokens)
    return Tokenizer(folder), library


def read(name: str) -> str:
    path = DATA / "chat_templates" / name
    assert path.is_file(), "GRISTMILL_DATA must name the folder that holds chat_templates/"
    return path.read_text(encoding="utf-8")


@pytest.mark.parametrize("name", TEMPLATES)
def test_text(name: str) -> None:
    source = read(name)
    template = ChatTemplate(source, special_tokens=TOKENS)
    rendered = 0
    for which, messages in chats.CHATS.items():
        for how, options in chats.OPTIONS.items():
            expected = theirs(messages, source, options)
            assert ours(messages, template, options) == expected, (which, how)
            rendered += " " in expected.strip()
    assert rendered > 30


@pytest.mark.parametrize("name", TEMPLATES)
def test_ids_with_qwen(name: str) -> None:
    check_ids("qwen2_5", read(name))


@pytest.mark.parametrize("name", OWN)
def test_ids_with_its_own(name: str) -> None:
    template = pair(name)[0].chat_template
    assert template is not None
    check_ids(name, template.source())


def answer(call: Callable[..., Any], *given: Any, **named: Any) -> Any:
    """What a call gives, or the kind of its exception."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return call(*given, **named)
        except Exception as error:
            return kind_of(error)


def check_ids(tokenizer: str, source: str) -> None:
    tok, library = pair(tokenizer)
    compared = 0
    for which, messages in chats.CHATS.items():
        for how, options in chats.OPTIONS.items():
            expected = answer(
                library.apply_chat_template,
                messages,
                chat_template=source,
                tokenize=True,
                return_dict=False,
                **options,
            )
            found = answer(tok.encode_chat, messages, template=source, **options)
            assert found == expected, (which, how)
            compared += isinstance(expected, list)
    assert compared > 30
