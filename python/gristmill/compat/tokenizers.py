"""Stand-ins for parts of the package tokenizers.

    from gristmill.compat import tokenizers

    stream = tokenizers.DecodeStream(skip_special_tokens=False)
    text = stream.step(tokenizer, id)  # a tokenizer of tokenizers

`DecodeStream` has the signature of the original and gives what that gives, step by step, errors
apart: where the original raises "Invalid prefix", so does this. `of` is the Gristmill tokenizer of
one of tokenizers. Tested in tests/test_oracle_compat.py.
"""

from collections import OrderedDict
from collections.abc import Sequence
from typing import Any

from gristmill import DecodeStream as _Stream
from gristmill import Tokenizer, TokenizerError

__all__ = ["DecodeStream", "of"]

# Tokenizers whose like is kept. They cannot be referred to weakly, so there is a limit.
KEPT = 16
_kept: OrderedDict[tuple[int, int], tuple[Any, Tokenizer]] = OrderedDict()


def of(library: Any) -> Tokenizer:
    """The same tokenizer, of Gristmill.

    It is made once, and again if tokens were added. What cannot be reproduced is a TokenizerError.
    """
    key = (id(library), library.get_vocab_size())
    found = _kept.get(key)
    if found is None:
        found = _kept[key] = (library, Tokenizer.from_bytes(library.to_str().encode()))
        while len(_kept) > KEPT:
            _kept.popitem(last=False)
    return found[1]


class DecodeStream:
    """`tokenizers.decoders.DecodeStream`."""

    def __init__(self, ids: Sequence[int] | None = None, skip_special_tokens: bool = False) -> None:
        self._ids = ids
        self._skip = skip_special_tokens
        self._stream: _Stream | None = None

    def step(self, tokenizer: Any, id: int | Sequence[int]) -> str | None:
        """The text that is certain after one more id or several, None if there is none."""
        if self._stream is None:
            self._stream = of(tokenizer).decode_stream(
                prompt=self._ids, skip_special_tokens=self._skip, mode="hf"
            )
        try:
            return self._stream.push(id) or None
        except TokenizerError as error:
            # Servers know it by how its message begins.
            raise TokenizerError(f"Invalid prefix encountered: {error}") from None
