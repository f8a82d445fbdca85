"""Training by the definition, in plain Python: what the fast trainer is compared with.

`naive` counts every pair anew before each merge: the rule of each trainer in a line. `incremental`
counts only what a merge touches, for numbers of merges that the first is too slow for; the tests
hold the two together, and both to the trainers that can be installed. Words are rows of symbols
with their counts, in the order in which the texts have them first, on which only the rule of
minbpe depends.
"""

import bisect
import heapq
import itertools
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

Symbol = bytes
Pair = tuple[Symbol, Symbol]
Row = tuple[Symbol, ...]
Key = Callable[[Pair], Any]

GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
GPT4 = (
    r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]++[\r\n]*"
    r"|\s*[\r\n]|\s+(?!\S)|\s+"
)
# A pattern that Python's `re` and the others read alike.
PLAIN = r" ?[a-z]+| ?[0-9]+|\s+|[^\sa-z0-9]+"


def words_of(texts: Iterable[str], pattern: str | None = PLAIN) -> Counter[bytes]:
    """Words and counts, in the order of the texts."""
    counts: Counter[bytes] = Counter()
    for text in texts:
        for word in [text] if pattern is None else re.findall(pattern, text):
            if word:
                counts[word.encode()] += 1
    return counts


def rows(words: Mapping[bytes, int]) -> list[tuple[Row, int]]:
    """Words as rows of bytes."""
    return [(tuple(bytes([byte]) for byte in word), count) for word, count in words.items()]


def merged(row: Row, pair: Pair) -> Row:
    """The row with the pair joined wherever it stands, left to right."""
    out: list[Symbol] = []
    at = 0
    while at < len(row):
        if row[at : at + 2] == pair:
            out.append(pair[0] + pair[1])
            at += 2
        else:
            out.append(row[at])
            at += 1
    return tuple(out)


class Rule:
    """Which pair is next: that of the highest count, and of those the lowest `tie`."""

    # Whether the lowest place in the texts decides.
    first = False

    def __init__(self, alphabet: Iterable[Symbol] = ()) -> None:
        self.ids = {symbol: id for id, symbol in enumerate(alphabet)}

    def made(self, pair: Pair) -> None:
        """A pair was merged."""
        self.ids.setdefault(pair[0] + pair[1], len(self.ids))

    def tie(self, pair: Pair) -> Any:
        raise NotImplementedError

    def allows(self, pair: Pair) -> bool:
        """Whether the two may be joined."""
        return True


class LowestIds(Rule):
    """rustbpe and, over an alphabet of its own order, tokenizers."""

    def tie(self, pair: Pair) -> Any:
        return self.ids[pair[0]], self.ids[pair[1]]


class First(Rule):
    """minbpe and tiktoken's educational trainer: the first of a dictionary filled in text order."""

    first = True

    def tie(self, pair: Pair) -> Any:
        return 0


class Greatest(Rule):
    """CS336."""

    def tie(self, pair: Pair) -> Any:
        return tuple((*(255 - byte for byte in side), 256) for side in pair)


class Shortest(Rule):
    """SentencePiece, over characters."""

    def __init__(self, longest: int = 16, allows: Callable[[str], bool] | None = None) -> None:
        super().__init__()
        self.longest = longest
        self.asked = allows or (lambda piece: True)

    def tie(self, pair: Pair) -> Any:
        piece = pair[0] + pair[1]
        return len(piece.decode()), piece

    def allows(self, pair: Pair) -> bool:
        piece = (pair[0] + pair[1]).decode()
        return len(piece) <= self.longest and self.asked(piece)


BYTES = [bytes([byte]) for byte in range(256)]
RULES: dict[str, Callable[[], Rule]] = {
    "rustbpe": lambda: LowestIds(BYTES),
    "minbpe": lambda: First(BYTES),
    "cs336": lambda: Greatest(BYTES),
}


def naive(
    words: Sequence[tuple[Row, int]], number: int, rule: Rule, min_count: int = 1
) -> list[Pair]:
    """The merges, with every pair counted anew before each."""
    words = list(words)
    merges: list[Pair] = []
    while len(merges) < number:
        counts: dict[Pair, int] = {}
        for row, count in words:
            for pair in itertools.pairwise(row):
                if rule.allows(pair):
                    counts[pair] = counts.get(pair, 0) + count
        if not counts:
            break
        # Of equal ones `min` takes the first, which is the first in the texts.
        best = min(counts, key=lambda pair: (-counts[pair], rule.tie(pair)))
        if counts[best] < max(1, min_count):
            break
        merges.append(best)
        rule.made(best)
        words = [(merged(row, best), count) for row, count in words]
    return merges


def incremental(words: Sequence[tuple[Row, int]], number: int, rule: Rule) -> list[Pair]:
    """The same, with only the words counted anew that a merge touches.

    The heap holds what was known of each pair when it was put in. Since then it can only have
    become rarer, or first stand further on, unless it was put in again; so the top is brought up to
    date until it is what it says.
    """
    rows_now = [row for row, _ in words]
    counts: Counter[Pair] = Counter()
    # Words that may hold a pair, ascending; what stands before the number was passed over.
    where: defaultdict[Pair, list[int]] = defaultdict(list)
    passed: Counter[Pair] = Counter()

    def count(index: int, sign: int, grown: set[Pair]) -> None:
        for pair in itertools.pairwise(rows_now[index]):
            if rule.allows(pair):
                counts[pair] += sign * words[index][1]
                if sign > 0:
                    grown.add(pair)
                    indices = where[pair]
                    at = bisect.bisect_left(indices, index)
                    if at == len(indices) or indices[at] != index:
                        indices.insert(at, index)

    def first(pair: Pair) -> tuple[int, int]:
        while True:
            index = where[pair][passed[pair]]
            for place, other in enumerate(itertools.pairwise(rows_now[index])):
                if other == pair:
                    return index, place
            passed[pair] += 1

    def known(pair: Pair) -> tuple[int, Any, Pair]:
        return -counts[pair], first(pair) if rule.first else rule.tie(pair), pair

    grown: set[Pair] = set()
    for index in range(len(words)):
        count(index, 1, grown)
    heap = [known(pair) for pair in grown]
    heapq.heapify(heap)
    merges: list[Pair] = []
    while len(merges) < number and heap:
        top = heapq.heappop(heap)
        best = top[2]
        if counts[best] < 1:
            continue
        now = known(best)
        if now != top:
            heapq.heappush(heap, now)
            continue
        merges.append(best)
        rule.made(best)
        grown = set()
        for index in where.pop(best):
            if best in itertools.pairwise(rows_now[index]):
                count(index, -1, grown)
                rows_now[index] = merged(rows_now[index], best)
                count(index, 1, grown)
        passed.pop(best, None)
        for pair in grown:
            if counts[pair] > 0:
                heapq.heappush(heap, known(pair))
    return merges


def hf_words(
    words: Mapping[str, int], prefix: str = "", suffix: str = ""
) -> tuple[list[tuple[Row, int]], list[Symbol]]:
    """Words of characters with their affixes, and the alphabet, numbered as Gristmill does."""
    seen = {char for word in words for char in word}
    variants = set()
    made = []
    for word, count in words.items():
        row = []
        for at, char in enumerate(word):
            before, after = bool(prefix) and at > 0, bool(suffix) and at == len(word) - 1
            variants.add((char, before, after))
            row.append((prefix * before + char + suffix * after).encode())
        made.append((tuple(row), count))
    alphabet = [char.encode() for char in sorted(seen)]
    alphabet += [
        (prefix * before + char + suffix * after).encode()
        for char, before, after in sorted(variants)
        if before or after
    ]
    return made, alphabet
