"""Make the embedded character map of SentencePiece's nmt_nfkc normalisation.

    make_nmt_nfkc.py

sentencepiece writes the map into every model that it trains with it; it is taken out of one,
checked against its checksum and compressed.
"""

import hashlib
import io
import pathlib
import sys
import zlib
from collections.abc import Iterator

import sentencepiece

CHECKSUM = "1e2c7b43d3ee9755ceaa2ac335e253d8703604e0249ee1e81156c92b46423844"
TARGET = pathlib.Path(__file__).parent.parent / "crates" / "gristmill" / "data" / "nmt_nfkc.z"
NORMALIZER, CHARSMAP = 3, 2


def fields(message: bytes) -> Iterator[tuple[int, bytes]]:
    """The fields of a protocol buffer that hold bytes."""
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


def main() -> None:
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(["some text"]),
        model_writer=model,
        model_type="bpe",
        vocab_size=20,
        hard_vocab_limit=False,
        normalization_rule_name="nmt_nfkc",
        minloglevel=2,
    )
    normalizer = dict(fields(model.getvalue()))[NORMALIZER]
    charsmap = dict(fields(normalizer))[CHARSMAP]
    if hashlib.sha256(charsmap).hexdigest() != CHECKSUM:
        sys.exit("the map is another one than that of sentencepiece 0.2.3")
    TARGET.write_bytes(zlib.compress(charsmap, 9))


if __name__ == "__main__":
    main()
