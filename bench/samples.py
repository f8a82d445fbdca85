"""The texts and tokenizers that are measured: slices of a data folder, and texts made up.

The folder has `tokenizers/NAME/tokenizer.json` and `corpora/`, each file plain or packed as `.zst`;
what is packed is unpacked into a temporary folder when it is first asked for. A slice is named by
its file and bytes, so that each process reads its own and no string is shared. Slices end at
characters.
"""

import json
import pathlib
import random
import shutil
import subprocess
import sys
from collections.abc import Callable
from typing import NamedTuple

TEXTS = {
    "en": "en_web_or_wiki.txt",
    "code": "code.txt",
    **{name: f"multi/{name}.txt" for name in ("zh", "ja", "ko", "ru", "ar", "hi", "th", "de")},
}
DOCUMENTS = ("docs/reuters21578.jsonl", "docs/bbc_news.jsonl")
# Documents of a stream are about so long where a corpus does not say where they end.
DOCUMENT = 20_000


class Slice(NamedTuple):
    """Bytes of a file."""

    file: str
    start: int
    end: int

    @property
    def size(self) -> int:
        return self.end - self.start

    def read(self) -> str:
        """The text; a character that is cut by an end is left out there."""
        with open(self.file, "rb") as file:
            file.seek(self.start)
            data = file.read(self.size)
        first, last = 0, len(data)
        while first < min(3, last) and 0x80 <= data[first] < 0xC0:
            first += 1
        for back in range(1, min(4, last) + 1):
            if data[-back] < 0x80:
                break
            if data[-back] >= 0xC0:
                whole = 2 + (data[-back] >= 0xE0) + (data[-back] >= 0xF0)
                last -= back if back < whole else 0
                break
        # Packages differ in whether a special token in a text is text; that is not measured here.
        return data[first:last].decode().replace("<|", "< |")


class NoData(Exception):
    """A file that the data folder does not have."""


class Data:
    """A data folder, and where its packed files are unpacked."""

    def __init__(self, folder: str | None, unpacked: str) -> None:
        self.folder = pathlib.Path(folder) if folder else None
        self.unpacked = pathlib.Path(unpacked)

    def file(self, name: str) -> pathlib.Path:
        """The plain file."""
        if self.folder is None:
            raise NoData("no data folder; name it with --data or GRISTMILL_DATA")
        plain = self.folder / name
        packed = plain.with_name(plain.name + ".zst")
        here = self.unpacked / name
        if plain.exists() or here.exists():
            return plain if plain.exists() else here
        if not packed.exists():
            raise NoData(f"no {name} in {self.folder}")
        here.parent.mkdir(parents=True, exist_ok=True)
        unpack(packed, here)
        return here

    def tokenizer(self, name: str) -> pathlib.Path:
        return self.file(f"tokenizers/{name}/tokenizer.json")

    def source(self, name: str, embedded: bool = False) -> dict[str, object]:
        """All that a tokenizer can be loaded from, as a task names it."""
        from gristmill import EMBEDDED, Tokenizer

        source: dict[str, object] = {"name": name, "file": None, "ranks": None}
        if not embedded:
            source["file"] = str(self.tokenizer(name))
        if name in EMBEDDED:
            tok = Tokenizer(name)
            ranks = self.unpacked / f"{name}.tiktoken"
            if not ranks.exists():
                tok.save(ranks)
            source["ranks"] = str(ranks)
            source["pattern"] = tok.info["pattern"]
            source["special_tokens"] = tok.special_tokens
        return source

    def slices(self, text: str, *sizes: int) -> list[Slice]:
        """Slices of a text one after the other; a shorter text gives a third to the last."""
        path = self.file(f"corpora/{TEXTS[text]}")
        length = path.stat().st_size
        if sum(sizes) > length:
            last = min(sizes[-1], length // 3)
            sizes = (*(size * (length - last) // sum(sizes[:-1]) for size in sizes[:-1]), last)
        found, start = [], 0
        for size in sizes:
            found.append(Slice(str(path), start, start + size))
            start += size
        return found

    def documents(self) -> list[str]:
        """The files of documents, one JSON object with `text` a line."""
        return [str(self.file(f"corpora/{name}")) for name in DOCUMENTS]


def unpack(packed: pathlib.Path, target: pathlib.Path) -> None:
    """Decompress a file with whatever is here."""
    part = target.with_name(target.name + ".part")
    try:
        import zstandard
    except ImportError:
        if shutil.which("zstd") is None:
            raise NoData(f"{packed} is packed, and neither zstandard nor zstd is here") from None
        subprocess.run(["zstd", "-dqf", str(packed), "-o", str(part)], check=True)
    else:
        with open(packed, "rb") as source, open(part, "wb") as out:
            zstandard.ZstdDecompressor().copy_stream(source, out)
    part.rename(target)


def documents_of(files: list[str]) -> list[str]:
    """The texts of files of documents."""
    texts = []
    for name in files:
        with open(name, encoding="utf-8") as file:
            texts += [json.loads(line)["text"] for line in file]
    return texts


def stream_of(slices: list[Slice], total: int, call: int) -> "list[Callable[[], str]]":
    """A stream as long as asked: documents of all slices, shuffled anew each time around.

    Each item makes the text of one call when it is called, so that the stream is never in memory.
    """
    documents = []
    for one in slices:
        text = one.read()
        step = max(1, DOCUMENT * len(text) // one.size)
        documents += [text[at : at + step] for at in range(0, len(text), step)]
    sizes = [len(document.encode()) for document in documents]
    chance = random.Random(0)
    calls: list[Callable[[], str]] = []
    length = 0
    while length < total:
        order = list(range(len(documents)))
        chance.shuffle(order)
        while order and length < total:
            part, size = [], 0
            while order and size < call:
                part.append(order.pop())
                size += sizes[part[-1]]
            length += size
            calls.append(lambda part=part: "".join(documents[i] for i in part))  # type: ignore[misc]
    return calls


def hostile(size: int) -> dict[str, str]:
    """Texts that have made encoders slow, about `size` bytes of each."""
    chance = random.Random(0)
    codes = (chance.randrange(0x110000) for _ in range(size // 4))
    repeated = {
        "a": "a",
        "spaces": " ",
        "newlines": "\n",
        "one CJK character": "中",
        "^": "^",
        "U+0301": "\u0301",
        "digits": "1",
        "apostrophes": "'",
        "cases": "aB",
        "one emoji": "🙂",
        "beginnings of special tokens": "<|endoftext|",
        "zeros": "\0",
    }
    texts = {name: unit * (size // len(unit.encode())) for name, unit in repeated.items()}
    texts["spaces, then a letter"] = " " * size + "a"
    texts["random scalar values"] = "".join(
        chr(code) for code in codes if not 0xD800 <= code < 0xE000
    )
    letters = chance.choices("abcdefghijklmnopqrstuvwxyz", k=size)
    texts["random letters"] = "".join(letters)
    texts["random words, none twice"] = " ".join(
        "".join(letters[at : at + 7]) for at in range(0, size, 7)
    )
    return texts


def english(size: int) -> str:
    """English-like text, made up: the measure of the hostile ones."""
    chance = random.Random(1)
    words = ["the", "of", "and", "to", "in", "that", "water", "people", "number", "something"]
    words += ["quickly", "mill", "stone", "between", "language", "question", "1905", "(see", "it's"]
    ends = [" "] * 12 + [", ", ". ", "\n"]
    text = "".join(chance.choice(words) + chance.choice(ends) for _ in range(size // 4))
    return text[:size]


if __name__ == "__main__":
    sys.exit("this is a part of bench/compare.py")
