"""Chats against transformers: the same text, the same ids, the same mask, or the same exception.

Every chat of chats.py with every option, in every template of chats.py. The clock stands still.
"""

import datetime
import functools
import warnings
from typing import Any

import chats
import pytest
import tiny
import tokenizers
from gristmill import Tokenizer, chat
from gristmill.chat import ChatTemplate

with warnings.catch_warnings():
    # The library is not written for a run that turns warnings into errors.
    warnings.simplefilter("ignore")
    import jinja2
    import transformers

TOKENS = {"bos_token": "<s>", "eos_token": "</s>", "pad_token": "<|endoftext|>"}


class Noon(datetime.datetime):
    """A clock that stands still."""

    @classmethod
    def now(cls, tz: datetime.tzinfo | None = None) -> "Noon":
        return cls(2026, 1, 2, 12, 0, tzinfo=tz)


@pytest.fixture(autouse=True)
def stopped_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("transformers.utils.chat_template_utils.datetime", Noon)
    monkeypatch.setattr(chat, "datetime", Noon)


@functools.cache
def pair() -> tuple[Tokenizer, Any]:
    """Gristmill and transformers with the same file."""
    tokens = [
        tiny.added_token(406 + number, token, special=True)
        for number, token in enumerate([*TOKENS.values(), "<|im_start|>", "<|im_end|>"])
    ]
    content = tiny.byte_level_json(added_tokens=tokens)
    library = tokenizers.Tokenizer.from_str(content.decode())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        make: Any = transformers.PreTrainedTokenizerFast
        return Tokenizer.from_bytes(content), make(tokenizer_object=library, **TOKENS)


def theirs(messages: Any, source: str, options: dict[str, Any], **more: Any) -> Any:
    """What transformers gives, or the kind of its exception."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return pair()[1].apply_chat_template(
                messages, chat_template=source, **options, **{"tokenize": False} | more
            )
        except Exception as error:
            return kind_of(error)


def kind_of(error: Exception) -> str:
    """The class of an exception, and what a template said when it raised it."""
    said = str(error) if type(error) is jinja2.TemplateError else ""
    return f"{type(error).__name__} {said}"


def ours(messages: Any, template: ChatTemplate, options: dict[str, Any]) -> Any:
    try:
        return template.render(messages, **options)
    except Exception as error:
        return kind_of(error)


@pytest.mark.parametrize("name", chats.TEMPLATES)
def test_text(name: str) -> None:
    source = chats.TEMPLATES[name]
    template = ChatTemplate(source, special_tokens=TOKENS)
    given = set()
    for which, messages in chats.CHATS.items():
        for how, options in chats.OPTIONS.items():
            expected = theirs(messages, source, options)
            assert ours(messages, template, options) == expected, (which, how)
            given.add(expected)
    assert len(given) > 1 or name in ("broken", "includes", "private", "private item")


@pytest.mark.parametrize("name", ["chatml", "trims", "marked", "macros"])
def test_ids(name: str) -> None:
    source = chats.TEMPLATES[name]
    tok = pair()[0]
    template = ChatTemplate(source, special_tokens=TOKENS)
    for which, messages in chats.CHATS.items():
        for how, options in chats.OPTIONS.items():
            expected = theirs(messages, source, options, tokenize=True, return_dict=False)
            if isinstance(expected, str):
                continue
            assert tok.encode_chat(messages, template=template, **options) == expected, (which, how)


@pytest.mark.parametrize("name", chats.TEMPLATES)
def test_masks(name: str) -> None:
    source = chats.TEMPLATES[name]
    tok = pair()[0]
    template = ChatTemplate(source, special_tokens=TOKENS)
    for which, messages in chats.CHATS.items():
        for prompt in (False, True):
            options = {"add_generation_prompt": prompt}
            found = theirs(
                messages,
                source,
                options,
                tokenize=True,
                return_dict=True,
                return_assistant_tokens_mask=True,
            )
            if isinstance(found, str):
                continue
            ids, mask = tok.encode_chat(
                messages,
                template=template,
                return_assistant_mask=True,
                add_generation_prompt=prompt,
            )
            assert ids == found["input_ids"], which
            assert mask == found["assistant_masks"], which
            assert (1 in mask) <= (name == "marked")


@pytest.mark.parametrize("messages", [[], [1], ["a"], [None], [{}]])
def test_what_is_no_chat(messages: Any) -> None:
    source = chats.TEMPLATES["trims"]
    template = ChatTemplate(source, special_tokens=TOKENS)
    found, expected = ours(messages, template, {}), theirs(messages, source, {})
    if expected.startswith("AttributeError"):
        # What transformers stumbles over is named here.
        assert found.startswith("TypeError")
    else:
        assert found == expected
