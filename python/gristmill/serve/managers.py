"""The two managers of a server of mini-sglang's kind: messages in, ids or text out.

The contract, for any objects with these attributes: `TokenizeManager.tokenize` takes messages
with `uid` and `text` (a string or a chat) and gives an int32 array each, in order;
`DetokenizeManager.detokenize` takes messages with `uid`, `next_token` and `finished` and gives
the new text of each. A stream begins with its first message and ends with the one that is
finished, whose token is not part of the text if it is the tokenizer's end of text. Special tokens
are text.

Where the original goes wrong, this does not: a chat has no second `<s>`; a character that is cut
off is flushed; all ids that end a text are known, not one; an aborted stream leaves nothing, and
what the scheduler still sends for a stream that has ended is ignored. Tested in
`test_oracle_serve.py` against `reference.py`, whose managers do as the original does.
"""

from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Generic, Literal, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from gristmill import ChatTemplate, StreamBatch, Tokenizer

T = TypeVar("T")
Ids = NDArray[np.int32]

# Streams that have ended are remembered, so that what comes late for them does not begin another.
REMEMBERED = 65_536


class TokenizeMessage(Protocol):
    """A prompt."""

    @property
    def uid(self) -> int: ...
    @property
    def text(self) -> str | list[dict[str, Any]]: ...


class DetokenizeMessage(Protocol):
    """A token of a stream."""

    @property
    def uid(self) -> int: ...
    @property
    def next_token(self) -> int: ...
    @property
    def finished(self) -> bool: ...


class Tokenizes(Protocol):
    """What `tokenize` is asked of."""

    def tokenize(self, msgs: Sequence[TokenizeMessage]) -> list[Any]: ...


class Detokenizes(Protocol):
    """What `detokenize` is asked of."""

    def detokenize(self, msgs: Sequence[DetokenizeMessage]) -> list[str]: ...


class TokenizeManager(Generic[T]):
    """Prompts and chats to ids, a batch at a time."""

    def __init__(
        self,
        tokenizer: Tokenizer,
        *,
        template: ChatTemplate | None = None,
        convert: Callable[[Ids], T] | None = None,
        threads: int = 0,
    ) -> None:
        """`template` is for chats, in place of the tokenizer's own. `convert` makes of each array
        of ids what the server wants, such as `torch.from_numpy`."""
        self.tokenizer = tokenizer
        self.template = template or tokenizer.chat_template
        self._convert: Callable[[Ids], Any] = convert or (lambda ids: ids)
        self._threads = threads

    def tokenize(self, msgs: Sequence[TokenizeMessage]) -> list[T]:
        """The ids of each message's text or chat, in order."""
        texts = [msg.text for msg in msgs]
        chats = [at for at, text in enumerate(texts) if not isinstance(text, str)]
        plain = [at for at, text in enumerate(texts) if isinstance(text, str)]
        found: list[Any] = [None] * len(texts)
        # A chat writes its own first token.
        for places, add in ((plain, True), (chats, False)):
            rendered = [
                text if isinstance(text := texts[at], str) else self._render(text) for at in places
            ]
            ids, ends = self.tokenizer.encode_batch_numpy(
                rendered, special="parse", add_special_tokens=add, threads=self._threads
            )
            signed = ids.view(np.int32)
            for at, start, end in zip(places, ends[:-1].tolist(), ends[1:].tolist(), strict=True):
                found[at] = self._convert(signed[start:end])
        return found

    def _render(self, chat: Any) -> str:
        if self.template is None:
            raise ValueError("a chat came, and the tokenizer has no chat template")
        return self.template.render(chat, add_generation_prompt=True)


class DetokenizeManager:
    """The tokens of many streams to text, a step at a time."""

    def __init__(
        self,
        tokenizer: Tokenizer,
        *,
        eos_token_ids: Iterable[int] | None = None,
        **options: Any,
    ) -> None:
        """`eos_token_ids` end a text; without them, the eos_token of the tokenizer's settings does.
        `options` are those of `StreamBatch.open`, such as `skip_special_tokens`."""
        if eos_token_ids is None:
            template = tokenizer.chat_template
            eos = template.special_tokens.get("eos_token") if template else None
            id = tokenizer.token_to_id(eos) if eos is not None else None
            eos_token_ids = [] if id is None else [id]
        self._eos = frozenset(eos_token_ids)
        self._options = options
        self._batch = StreamBatch(tokenizer)
        self._slots: dict[int, int] = {}
        self._ended: OrderedDict[int, None] = OrderedDict()

    def __len__(self) -> int:
        """The number of open streams."""
        return len(self._batch)

    def detokenize(self, msgs: Sequence[DetokenizeMessage]) -> list[str]:
        """The new text of each message's stream, in order."""
        uids = [msg.uid for msg in msgs]
        finished = [msg.finished for msg in msgs]
        tokens = [msg.next_token for msg in msgs]
        offsets = None
        if True in finished and self._eos.intersection(tokens):
            ends_text = [
                f and token in self._eos for f, token in zip(finished, tokens, strict=True)
            ]
            tokens = [token for token, ends in zip(tokens, ends_text, strict=True) if not ends]
            offsets = [0, *np.cumsum(np.logical_not(ends_text)).tolist()]
        texts: list[str] = self.step(uids, tokens, finished, offsets).strs()
        return texts

    def step(
        self,
        uids: Sequence[int],
        tokens: Any,
        finished: Sequence[bool],
        offsets: Any = None,
    ) -> Any:
        """`StreamBatch.step` for streams named by uid; what is new is opened."""
        new = list(dict.fromkeys(uid for uid in uids if uid not in self._slots))
        new = [uid for uid in new if uid not in self._ended]
        if new:
            opened = self._batch.open(len(new), **self._options)
            self._slots.update(zip(new, opened.tolist(), strict=True))
        slots = [self._slots.get(uid, -1) for uid in uids]
        found = self._batch.step(slots, tokens, offsets, finished)
        if True in finished:
            self._end(uid for uid, ends in zip(uids, finished, strict=True) if ends)
        return found

    def abort(self, uids: Iterable[int]) -> None:
        """End these streams; their text is not wanted any more."""
        uids = list(uids)
        self._batch.close([self._slots[uid] for uid in uids if uid in self._slots])
        self._end(uids)

    def _end(self, uids: Iterable[int]) -> None:
        for uid in uids:
            self._slots.pop(uid, None)
            self._ended[uid] = None
        while len(self._ended) > REMEMBERED:
            self._ended.popitem(last=False)

    def reopen(self, uids: Iterable[int]) -> None:
        """Let these uids begin streams again, where a server gives them out more than once."""
        for uid in uids:
            self._ended.pop(uid, None)


Backend = Literal["python", "inprocess", "tokenize_only"]


def managers(
    backend: Backend, tokenizer: Tokenizer | None = None, *, library: Any = None, **options: Any
) -> tuple[Tokenizes, Detokenizes]:
    """The managers of a backend, by its name.

    "inprocess" is Gristmill both ways, "tokenize_only" Gristmill on the way in and transformers on
    the way out, "python" transformers both ways. `library` is a tokenizer of transformers. What a
    backend needs and is not given is an error: no backend stands in for another.
    """
    from gristmill.serve import reference

    if backend not in ("python", "inprocess", "tokenize_only"):
        raise ValueError(f"backend must be python, inprocess or tokenize_only, not {backend!r}")
    if tokenizer is None and backend != "python":
        raise ValueError(f"the backend {backend!r} needs a Tokenizer")
    if library is None and backend != "inprocess":
        raise ValueError(f"the backend {backend!r} needs library=, a tokenizer of transformers")
    incoming: Tokenizes
    if backend == "python" or tokenizer is None:
        incoming = reference.TokenizeManager(library, **options)
    else:
        incoming = TokenizeManager(tokenizer, **options)
    if backend == "inprocess" and tokenizer is not None:
        return incoming, DetokenizeManager(tokenizer)
    return incoming, reference.DetokenizeManager(library)
