"""A stand-in for the package rustbpe, which trains nanochat's tokenizer.

    from gristmill.compat import rustbpe

    tokenizer = rustbpe.Tokenizer()
    tokenizer.train_from_iterator(texts, vocab_size=32_768)

The class has the methods of the original and gives the same merges, ranks and ids. Where the
original ends in a panic, overflows its counts or takes quadratic time, this does not.
`tests/test_oracle_train.py` compares the two.
"""

from collections.abc import Iterable, Sequence

from gristmill import Tokenizer as _Tokenizer
from gristmill import Trainer

__all__ = ["Tokenizer"]

# The original's default, GPT-4's.
GPT4_PATTERN = (
    r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]++[\r\n]*"
    r"|\s*[\r\n]|\s+(?!\S)|\s+"
)


class Tokenizer:
    """A byte-pair encoding that is trained, then used."""

    def __init__(self) -> None:
        self._pattern = ""
        self._trained: _Tokenizer | None = None

    def train_from_iterator(
        self,
        iterator: Iterable[str],
        vocab_size: int,
        buffer_size: int = 8192,
        pattern: str | None = None,
    ) -> None:
        """Train on texts. `buffer_size` changes nothing: texts are taken a megabyte at a time."""
        if vocab_size < 256:
            raise ValueError("vocab_size must be at least 256")
        pattern = GPT4_PATTERN if pattern is None else pattern
        self._trained = Trainer(vocab_size, pattern=pattern).train(iterator)
        self._pattern = pattern

    def get_pattern(self) -> str:
        """The pattern that cuts texts; empty before training."""
        return self._pattern

    @property
    def vocab_size(self) -> int:
        """The number of tokens: 256 before training."""
        return 256 if self._trained is None else self._trained.vocab_size

    def get_mergeable_ranks(self) -> list[tuple[bytes, int]]:
        """Every token and its rank, lowest first."""
        if self._trained is None:
            return [(bytes([byte]), byte) for byte in range(256)]
        return [(self._trained.token_bytes(id), id) for id in range(self._trained.vocab_size)]

    def encode(self, text: str) -> list[int]:
        """The ids of a text; none before training."""
        return [] if self._trained is None else self._trained.encode(text)

    def batch_encode(self, texts: Sequence[str]) -> list[list[int]]:
        """The ids of several texts, encoded on all cores."""
        if self._trained is None:
            return [[] for _ in texts]
        return self._trained.encode_batch(texts)

    def decode(self, ids: Sequence[int]) -> str:
        """The text of some ids. Bytes that are not UTF-8 are a UnicodeDecodeError."""
        if self._trained is None:
            return bytes(map(_byte, ids)).decode()
        try:
            return self._trained.decode_bytes(ids).decode()
        except KeyError as error:
            raise ValueError(f"Unknown token id: {error.args[0]}") from None


def _byte(id: int) -> int:
    if not 0 <= id < 256:
        raise ValueError(f"Unknown token id: {id}")
    return id
