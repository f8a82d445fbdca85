"""The texts and tokenizers that are measured: slices of a data folder, and texts made up.

The folder has `tokenizers/NAME/tokenizer.json` and `corpora/`, each file plain or packed as `.zst`;
what is packed is unpacked into a temporary folder when it is first asked for. A slice is named by
its file and bytes, so that each process reads its own and no string is shared. Slices end at
characters.
"""

import base64
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

    def rank_file(self, name: str) -> dict[str, object]:
        """What a tokenizer that comes as ranks can be loaded from."""
        from gristmill import Tokenizer

        path = self.file(f"tokenizers/{name}/tiktoken.model")
        tok = Tokenizer(path)
        return {
            "name": name,
            "file": str(path),
            "ranks": str(path),
            "pattern": tok.info["pattern"],
            "special_tokens": tok.special_tokens,
        }

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


# Characters of every class; each is a text of its own, over and over.
CHARACTERS = {
    "small letters": "aez",
    "capitals": "AEZ",
    "accented letters": "éßø",
    "Cyrillic": "жаю",
    "Arabic": "عبك",
    "Devanagari": "कनम",
    "Thai": "กขม",
    "Hiragana": "のはに",
    "Hangul": "한국어",
    "Han": "中文龍",
    "Han beyond the BMP": "𠀀𠮷𪚥",
    "mathematical letters": "𝔄𝕏𝑥",
    "digits": "123",
    "Arabic digits": "٣٤٥",
    "fractions": "½¼Ⅷ",
    "spaces": " ",
    "tabs": "\t",
    "ends of lines": "\n",
    "CR LF": ["\r\n"],
    "no-break spaces": "\u00a0\u202f",
    "ideographic spaces": "\u3000",
    "full stops": ".,;",
    "lines": "=-_",
    "carets": "^~`",
    "quotes": "'\"",
    "slashes": "/\\|",
    "marks": "\u0301\u0308\u093f",
    "emoji": "🙂🚀🔥",
    "flags": ["🇩🇪", "🇯🇵"],
    "families": ["👩\u200d👩\u200d👧"],
    "joiners": "\u200d\u200b\ufeff",
    "controls": "\0\x01\x7f",
    "private use": "\ue000\uf8ff",
    "unassigned": "\U000e1000\U0003ffff",
    "two cases": ["aB", "Aa"],
    "letters and digits": ["a1", "x9"],
    "contractions": ["'s", "it's", "'re"],
    "spaces and tabs": [" \t"],
    "indentation": ["\n    ", " \n"],
    "spaces and letters": [" a", "a  "],
    "combined letters": ["e\u0301", "о\u0301"],
    "special tokens, nearly": ["<|endoftext|", "<|"],
}


def kinds(size: int, turn: int) -> dict[str, str]:
    """Texts of every kind, about `size` bytes of each; another turn gives others."""
    chance = random.Random(turn)
    texts = {}
    for name, some in CHARACTERS.items():
        unit = some[turn % len(some)]
        texts[name] = unit * max(1, size // len(unit.encode()))

    def drawn(count: int, *ranges: tuple[int, int]) -> str:
        """Characters of some ranges of code points."""
        of = chance.choices(ranges, k=count)
        codes = (chance.randrange(low, high) for low, high in of)
        return "".join(chr(code) for code in codes if not 0xD800 <= code < 0xE000)

    texts["random scalar values"] = drawn(size // 4, (0, 0x110000))
    texts["random two bytes"] = drawn(size // 3, (0x80, 0x10000))
    texts["random Latin-1"] = drawn(size * 2 // 3, (0, 0x100))
    texts["random ASCII"] = drawn(size, (32, 127))
    texts["random letters"] = drawn(size, (97, 123))
    texts["random letters of two cases"] = drawn(size, (65, 91), (97, 123))
    texts["random digits"] = drawn(size, (48, 58))
    texts["random Han"] = drawn(size // 3, (0x4E00, 0xA000))
    texts["random Hangul"] = drawn(size // 3, (0xAC00, 0xD7A4))
    texts["random emoji"] = drawn(size // 4, (0x1F300, 0x1F700))
    texts["random words"] = " ".join(drawn(7, (97, 123)) for _ in range(size // 8))
    texts["random words of Han"] = " ".join(drawn(3, (0x4E00, 0xA000)) for _ in range(size // 10))
    data = chance.randbytes(size)
    texts["base64"] = base64.b64encode(data[: size * 3 // 4]).decode()
    texts["hexadecimal"] = data[: size // 2].hex()
    # What a file of bytes looks like to those who read it as text.
    texts["bytes read as UTF-8"] = data[: size * 2 // 3].decode(errors="replace")
    texts["bytes read as Latin-1"] = data[: size * 2 // 3].decode("latin-1")
    texts["random white space"] = "".join(chance.choices(" \t\n\r", k=size))
    wide = " \t\n\u00a0\u3000\u2003\u2028"
    texts["random white space of all kinds"] = "".join(chance.choices(wide, k=size // 2))
    words = [
        "function(",
        "){",
        "}",
        ";",
        "a",
        "var b=",
        "return ",
        "e.",
        "[0]",
        '"x"',
        "!0",
        ",1e3",
    ]
    texts["minified"] = "".join(chance.choices(words, k=size // 3))[:size]
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
