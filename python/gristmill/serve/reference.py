"""The managers as servers have them in Python, with a tokenizer of transformers: what to compare
with.

`DetokenizeManager` decodes two windows of each stream at each step, ids that were read and ids
that still can change, and gives their difference unless it ends in U+FFFD. So a character that
was cut off is never flushed, nothing is freed by an abort, and a token that comes after the last
begins another stream. These are the original's ways, kept for measurements and tests.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from gristmill.serve.managers import DetokenizeMessage, TokenizeMessage

# Scripts written without spaces, whose characters are whole words as they come.
IDEOGRAPHS = (
    (0x4E00, 0x9FFF),
    (0x3400, 0x4DBF),
    (0x20000, 0x2A6DF),
    (0x2A700, 0x2B73F),
    (0x2B740, 0x2B81F),
    (0x2B820, 0x2CEAF),
    (0xF900, 0xFAFF),
    (0x2F800, 0x2FA1F),
)


class TokenizeManager:
    """One prompt after the other."""

    def __init__(self, library: Any, *, convert: Callable[[Any], Any] | None = None) -> None:
        self._library = library
        self._convert = convert or (lambda ids: ids)

    def tokenize(self, msgs: Sequence["TokenizeMessage"]) -> list[Any]:
        """The ids of each message's text or chat, in order."""
        found = []
        for msg in msgs:
            text = msg.text
            if not isinstance(text, str):
                text = self._library.apply_chat_template(
                    text, tokenize=False, add_generation_prompt=True
                )
            found.append(self._convert(np.array(self._library.encode(text), dtype=np.int32)))
        return found


@dataclass
class _Window:
    ids: list[int] = field(default_factory=list)
    text: str = ""
    start: int = 0
    read: int = 0
    sent: int = 0


class DetokenizeManager:
    """Two decodes of a window for each token."""

    def __init__(self, library: Any) -> None:
        self._library = library
        self._streams: dict[int, _Window] = {}

    def __len__(self) -> int:
        """The number of open streams."""
        return len(self._streams)

    def detokenize(self, msgs: Sequence["DetokenizeMessage"]) -> list[str]:
        """The new text of each message's stream, in order."""
        streams = [self._streams.setdefault(msg.uid, _Window()) for msg in msgs]
        known, all_ids = [], []
        for msg, stream in zip(msgs, streams, strict=True):
            if not (msg.finished and msg.next_token == self._library.eos_token_id):
                stream.ids.append(msg.next_token)
            all_ids.append(stream.ids[stream.start :])
            known.append(stream.ids[stream.start : stream.read])
        texts = self._library.batch_decode(all_ids)
        before = self._library.batch_decode(known)
        found = []
        for msg, stream, text, old in zip(msgs, streams, texts, before, strict=True):
            found.append(self._advance(stream, text[len(old) :]))
            if msg.finished:
                self._streams.pop(msg.uid, None)
        return found

    def _advance(self, stream: _Window, new: str) -> str:
        if new and not new.endswith("\ufffd"):
            stream.text += new
            stream.start, stream.read = stream.read, len(stream.ids)
            whole = stream.text
        else:
            whole = stream.text + printable(new)
        given, stream.sent = whole[stream.sent :], len(whole)
        return given


def printable(text: str) -> str:
    """The part of a text that is whole words, by a rule of thumb."""
    if text.endswith("\n") or is_ideograph(text[-1:]):
        return text
    if is_ideograph(text[-2:-1]):
        return text[:-1]
    return text[: text.rfind(" ") + 1]


def is_ideograph(char: str) -> bool:
    """Whether the character, if there is one, is a word by itself."""
    return any(first <= ord(char) <= last for first, last in IDEOGRAPHS) if char else False
