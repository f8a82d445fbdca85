"""The reference libraries behind one interface, with Gristmill's words for special tokens.

Each adapter holds one tokenizer of one library and is made from the content of a file. Its
answers are the library's own; an adapter only maps arguments. What a library has no word for,
its adapter lacks:

    special=     tokenizers                       tiktoken
    "text"       encode_special_tokens = True     encode_ordinary
    "parse"      its default                      allowed_special="all"
    a set        -                                allowed_special=set, disallowed_special=()
    "forbid"     -                                its default, which raises ValueError

Tests that import this file are named `test_oracle_*`, so that all others run without these
libraries.
"""

import base64
import io
import json
import warnings
from collections.abc import Collection, Iterator, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any, Literal

with warnings.catch_warnings():
    # The libraries are not written for a run that turns warnings into errors.
    warnings.simplefilter("ignore")
    import sentencepiece
    import tiktoken
    import tokenizers
    from mistral_common.tokens.tokenizers.base import SpecialTokenPolicy
    from mistral_common.tokens.tokenizers.tekken import Tekkenizer

Offsets = list[tuple[int, int]]
Policy = Literal["text", "parse"]

VERSIONS = {
    name: version(name) for name in ("tokenizers", "tiktoken", "sentencepiece", "mistral_common")
}


# The patterns and special tokens that tiktoken publishes for these rank files.
O200K_PATTERN = "|".join(
    [
        r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+"
        r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
        r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*"
        r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
        r"\p{N}{1,3}",
        r" ?[^\s\p{L}\p{N}]+[\r\n/]*",
        r"\s*[\r\n]+",
        r"\s+(?!\S)",
        r"\s+",
    ]
)
R50K_PATTERN = r"'(?:[sdmt]|ll|ve|re)| ?\p{L}++| ?\p{N}++| ?[^\s\p{L}\p{N}]++|\s++$|\s+(?!\S)|\s"
CL100K_PUBLISHED = (
    r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+| ?[^\s\p{L}\p{N}]++[\r\n]*+"
    r"|\s++$|\s*[\r\n]|\s+(?!\S)|\s"
)
HARMONY = {
    "<|startoftext|>": 199998,
    "<|endoftext|>": 199999,
    # Another name of the reserved token of the same id.
    "<|endofprompt|>": 200018,
    "<|reserved_200000|>": 200000,
    "<|reserved_200001|>": 200001,
    "<|return|>": 200002,
    "<|constrain|>": 200003,
    "<|reserved_200004|>": 200004,
    "<|channel|>": 200005,
    "<|start|>": 200006,
    "<|end|>": 200007,
    "<|message|>": 200008,
    "<|reserved_200009|>": 200009,
    "<|reserved_200010|>": 200010,
    "<|reserved_200011|>": 200011,
    "<|call|>": 200012,
} | {f"<|reserved_{id}|>": id for id in range(200013, 201088)}
PUBLISHED: dict[str, tuple[str, dict[str, int]]] = {
    "gpt2": (R50K_PATTERN, {"<|endoftext|>": 50256}),
    "cl100k_base": (
        CL100K_PUBLISHED,
        {
            "<|endoftext|>": 100257,
            "<|fim_prefix|>": 100258,
            "<|fim_middle|>": 100259,
            "<|fim_suffix|>": 100260,
            "<|endofprompt|>": 100276,
        },
    ),
    "o200k_base": (O200K_PATTERN, {"<|endoftext|>": 199999, "<|endofprompt|>": 200018}),
    "o200k_harmony": (O200K_PATTERN, HARMONY),
}


class HuggingFace:
    """`tokenizers` with a tokenizer.json."""

    def __init__(self, content: bytes | str) -> None:
        text = content if isinstance(content, str) else content.decode()
        self.library: Any = tokenizers.Tokenizer.from_str(text)

    def encode(
        self, text: str, special: Policy = "text", add_special_tokens: bool = False
    ) -> tuple[list[int], Offsets]:
        self.library.encode_special_tokens = special == "text"
        encoding = self.library.encode(text, add_special_tokens=add_special_tokens)
        return encoding.ids, encoding.offsets

    def ids(
        self, text: str, special: Policy = "text", add_special_tokens: bool = False
    ) -> list[int]:
        return self.encode(text, special, add_special_tokens)[0]

    def encode_batch(
        self, texts: Sequence[str], special: Policy = "text", add_special_tokens: bool = False
    ) -> list[tuple[list[int], Offsets]]:
        self.library.encode_special_tokens = special == "text"
        found = self.library.encode_batch(texts, add_special_tokens=add_special_tokens)
        return [(encoding.ids, encoding.offsets) for encoding in found]

    def decode(self, ids: Sequence[int], skip_special_tokens: bool = False) -> str:
        text: str = self.library.decode(ids, skip_special_tokens=skip_special_tokens)
        return text

    def vocab(self) -> dict[str, int]:
        vocab: dict[str, int] = self.library.get_vocab(with_added_tokens=True)
        return vocab

    def vocab_size(self) -> int:
        size: int = self.library.get_vocab_size(with_added_tokens=True)
        return size

    def special_tokens(self) -> dict[str, int]:
        added = self.library.get_added_tokens_decoder().items()
        return {token.content: id for id, token in added if token.special}


class TikToken:
    """`tiktoken` with a rank file, built by hand, so that it downloads nothing."""

    def __init__(
        self, content: bytes | Mapping[bytes, int], pattern: str, special_tokens: Mapping[str, int]
    ) -> None:
        ranks = parse_ranks(content) if isinstance(content, bytes) else dict(content)
        self.library = tiktoken.Encoding(
            "oracle",
            pat_str=pattern,
            mergeable_ranks=ranks,
            special_tokens=dict(special_tokens),
        )

    def ids(
        self, text: str, special: Literal["text", "parse", "forbid"] | Collection[str] = "text"
    ) -> list[int]:
        if special == "text":
            return self.library.encode_ordinary(text)
        if special == "parse":
            return self.library.encode(text, allowed_special="all")
        if special == "forbid":
            return self.library.encode(text)
        return self.library.encode(text, allowed_special=set(special), disallowed_special=())

    def decode(self, ids: Sequence[int]) -> str:
        return self.library.decode(ids)

    def decode_bytes(self, ids: Sequence[int]) -> bytes:
        return self.library.decode_bytes(ids)

    def token_bytes(self, id: int) -> bytes:
        return self.library.decode_single_token_bytes(id)


def parse_ranks(content: bytes) -> dict[bytes, int]:
    """The tokens of a rank file."""
    lines = (line.split() for line in content.splitlines() if line)
    return {base64.b64decode(token): int(rank) for token, rank in lines}


class SentencePiece:
    """`sentencepiece` with a .model."""

    def __init__(self, content: bytes) -> None:
        self.library: Any = sentencepiece.SentencePieceProcessor(model_proto=content)

    def ids(self, text: str) -> list[int]:
        ids: list[int] = self.library.encode(text)
        return ids

    def encode(self, text: str) -> tuple[list[int], Offsets]:
        found = self.library.encode(text, return_type="offset_mapping")
        return found["ids"], found["offsets"]

    def decode(self, ids: Sequence[int]) -> str:
        text: str = self.library.decode(list(ids))
        return text

    def pieces(self) -> list[str]:
        return [self.library.id_to_piece(id) for id in range(self.library.get_piece_size())]

    def control_ids(self) -> list[int]:
        size = self.library.get_piece_size()
        return [id for id in range(size) if self.library.is_control(id)]


class Mistral:
    """`mistral-common` with a tekken.json; it never parses special tokens."""

    def __init__(self, path: Path) -> None:
        self.library = Tekkenizer.from_file(path)

    def ids(self, text: str) -> list[int]:
        return self.library.encode(text, bos=False, eos=False)

    def decode(self, ids: Sequence[int], skip_special_tokens: bool = False) -> str:
        policy = SpecialTokenPolicy.IGNORE if skip_special_tokens else SpecialTokenPolicy.KEEP
        return self.library.decode(list(ids), special_token_policy=policy)

    def token_bytes(self, id: int) -> bytes:
        return self.library.id_to_byte_piece(id, SpecialTokenPolicy.KEEP)

    def vocab_size(self) -> int:
        return self.library.n_words

    def tiktoken(self, path: Path) -> TikToken:
        """A tiktoken that also knows the special tokens, for the policies this library lacks."""
        content = json.loads(path.read_text(encoding="utf-8"))
        first = self.library.num_special_tokens
        number = content["config"]["default_vocab_size"] - first
        tokens = (base64.b64decode(entry["token_bytes"]) for entry in content["vocab"][:number])
        specials = {self.library.id_to_piece(id): id for id in range(first)}
        ranks = {token: first + rank for rank, token in enumerate(tokens)}
        return TikToken(ranks, content["config"]["pattern"], specials)


def train_sentencepiece(lines: Sequence[str], **options: Any) -> bytes:
    """A small BPE model."""
    defaults: dict[str, Any] = {
        "model_type": "bpe",
        "vocab_size": 900,
        "hard_vocab_limit": False,
        "minloglevel": 2,
        "character_coverage": 1.0,
    }
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(lines), model_writer=model, **defaults | options
    )
    return model.getvalue()


def fields(message: bytes) -> Iterator[tuple[int, bytes]]:
    """The fields of a protocol buffer that hold bytes; the others are passed over."""
    at = 0

    def varint() -> int:
        nonlocal at
        number = shift = 0
        while True:
            byte = message[at]
            at += 1
            number |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return number

    while at < len(message):
        key = varint()
        if key & 7 == 0:
            varint()
        elif key & 7 == 5:
            at += 4
        else:
            length = varint()
            yield key >> 3, message[at : at + length]
            at += length
