"""What a byte-pair-encoding tokenizer does, in the plainest Python.

These lines define the behaviour: everything that is fast must give the same ids. They know
nothing of file formats; tests that build a tiny tokenizer file of some format also hand its
vocabulary to these. Their own test is to be short enough to be read.
"""

import itertools
import re
from collections.abc import Mapping, Sequence
from typing import TypeVar

Symbol = TypeVar("Symbol", str, bytes)


def split(pattern: str, text: str) -> list[str]:
    """Cut text into pieces: each match of the pattern, and each stretch between matches."""
    pieces, end = [], 0
    for match in re.finditer(pattern, text):
        pieces += [text[end : match.start()], match.group()]
        end = match.end()
    return [piece for piece in [*pieces, text[end:]] if piece]


def merge(symbols: Sequence[Symbol], ranks: Mapping[tuple[Symbol, Symbol], int]) -> list[Symbol]:
    """Join the neighbours of lowest rank, the leftmost first, until no neighbours have a rank."""
    symbols = list(symbols)
    while True:
        pairs = enumerate(itertools.pairwise(symbols))
        found = [(ranks[pair], place) for place, pair in pairs if pair in ranks]
        if not found:
            return symbols
        _, place = min(found)
        symbols[place : place + 2] = [symbols[place] + symbols[place + 1]]


def encode_with_merges(
    pieces: Sequence[str],
    vocab: Mapping[str, int],
    merges: Sequence[tuple[str, str]],
    ignore_merges: bool = False,
) -> list[int]:
    """BPE over a list of merges, whose rank is their place: the last place, of equal merges."""
    ranks = {pair: rank for rank, pair in enumerate(merges)}
    ids = []
    for piece in pieces:
        whole = ignore_merges and piece in vocab
        symbols = [piece] if whole else merge(list(piece), ranks)
        ids += [vocab[symbol] for symbol in symbols]
    return ids


class _Joined(dict[tuple[bytes, bytes], int]):
    """The rank of a pair is the rank of what it becomes."""

    def __init__(self, ranks: Mapping[bytes, int]) -> None:
        super().__init__()
        self.ranks = ranks

    def __contains__(self, pair: object) -> bool:
        return isinstance(pair, tuple) and pair[0] + pair[1] in self.ranks

    def __getitem__(self, pair: tuple[bytes, bytes]) -> int:
        return self.ranks[pair[0] + pair[1]]


def encode_with_ranks(pieces: Sequence[str], ranks: Mapping[bytes, int]) -> list[int]:
    """BPE over ranked tokens, bytes first; a piece that is a token is that token."""
    ids = []
    for piece in (piece.encode() for piece in pieces):
        whole = piece in ranks
        symbols = [piece] if whole else merge([bytes([byte]) for byte in piece], _Joined(ranks))
        ids += [ranks[symbol] for symbol in symbols]
    return ids


def cut_at_specials(text: str, specials: Mapping[str, int]) -> list[str | int]:
    """Cut out special tokens: the leftmost first, and of those that start there the longest."""
    longest_first = sorted(specials, key=len, reverse=True)
    parts = (
        re.split("(" + "|".join(map(re.escape, longest_first)) + ")", text) if specials else [text]
    )
    return [specials.get(part, part) for part in parts if part]
