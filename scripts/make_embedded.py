"""Make the embedded vocabularies from the published rank files.

    make_embedded.py FOLDER

FOLDER holds cl100k_base.tiktoken, o200k_base.tiktoken, and r50k_base.tiktoken or GPT-2's
tokenizer.json, from which the same file is made. Each is checked against the checksum tiktoken
publishes. Then each token becomes five bytes, of which two halves of 20 bits are made, the first
one lowest: the two tokens it is merged from, by number, or its only byte and 0xFFFFF.
"""

import base64
import hashlib
import itertools
import json
import pathlib
import sys

PUBLISHED = {
    "r50k_base": "306cd27f03c1a714eca7108e03d66b7dc042abe8c258b44c199a7ed9838dd930",
    "cl100k_base": "223921b76ee99bde995b7ff738513eef100fb51d18c93597a113bcffe865b2a7",
    "o200k_base": "446a9538cb6c348e3516120d7c08b09f57c36495e2acfffe59a5bf8b0cfb1a2d",
}
TARGET = pathlib.Path(__file__).parent.parent / "crates" / "gristmill" / "data"
SINGLE = 0xFFFFF


def byte_alphabet() -> dict[str, int]:
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    alphabet = {chr(byte): byte for byte in printable}
    others = (byte for byte in range(256) if byte not in printable)
    return alphabet | {chr(0x100 + number): byte for number, byte in enumerate(others)}


def gpt2_ranks(path: pathlib.Path) -> bytes:
    alphabet = byte_alphabet()
    vocab = json.loads(path.read_text(encoding="utf-8"))["model"]["vocab"]
    tokens = sorted((rank, token) for token, rank in vocab.items() if rank < 50256)
    lines = []
    for rank, token in tokens:
        text = base64.b64encode(bytes(alphabet[char] for char in token)).decode()
        lines.append(f"{text} {rank}\n")
    return "".join(lines).encode()


def rank_file(folder: pathlib.Path, name: str) -> bytes:
    found = next(folder.rglob(f"{name}.tiktoken"), None)
    if found is not None:
        return found.read_bytes()
    return gpt2_ranks(next(folder.rglob("gpt2/tokenizer.json")))


def parts(token: bytes, ranks: dict[bytes, int]) -> list[bytes]:
    """What the token's bytes merge into before its own merge."""
    symbols = [token[at : at + 1] for at in range(len(token))]
    while len(symbols) > 2:
        pairs = (left + right for left, right in itertools.pairwise(symbols))
        rank, at = min((ranks.get(pair, SINGLE), at) for at, pair in enumerate(pairs))
        if rank >= ranks[token]:
            break
        symbols[at : at + 2] = [symbols[at] + symbols[at + 1]]
    return symbols


def packed(tokens: list[bytes]) -> bytes:
    ranks = {token: rank for rank, token in enumerate(tokens)}
    records = bytearray()
    for token in tokens:
        if len(token) == 1:
            left, right = token[0], SINGLE
        else:
            left, right = (ranks[part] for part in parts(token, ranks))
            assert max(left, right) < ranks[token]
        records += (left | right << 20).to_bytes(5, "little")
    return bytes(records)


def main() -> None:
    folder = pathlib.Path(sys.argv[1])
    TARGET.mkdir(exist_ok=True)
    for name, published in PUBLISHED.items():
        data = rank_file(folder, name)
        checksum = hashlib.sha256(data).hexdigest()
        if checksum != published:
            sys.exit(f"{name}: checksum {checksum}, published is {published}")
        tokens = []
        for number, line in enumerate(data.splitlines()):
            text, rank = line.split()
            assert int(rank) == number
            tokens.append(base64.b64decode(text))
        records = packed(tokens)
        target = TARGET / f"{name}.parts"
        target.write_bytes(records)
        print(f"{target}: {len(records)} bytes, sha256 {hashlib.sha256(records).hexdigest()}")


if __name__ == "__main__":
    main()
