"""Make tests/golden/: ids that the reference libraries give to a fixed list of texts.

    make_golden.py

One file for each embedded tokenizer. The ranks are those embedded in Gristmill, whose checksums are
compared with the published ones, and the ids are tiktoken's. Needs the test dependencies.
"""

import hashlib
import json
import pathlib
import sys
import tempfile

ROOT = pathlib.Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "tests"))

import oracles  # noqa: E402
import tiny  # noqa: E402
from gristmill import Tokenizer  # noqa: E402
from texts import HOSTILE  # noqa: E402

CHECKSUMS = {
    "gpt2": "306cd27f03c1a714eca7108e03d66b7dc042abe8c258b44c199a7ed9838dd930",
    "cl100k_base": "223921b76ee99bde995b7ff738513eef100fb51d18c93597a113bcffe865b2a7",
    "o200k_base": "446a9538cb6c348e3516120d7c08b09f57c36495e2acfffe59a5bf8b0cfb1a2d",
    "o200k_harmony": "446a9538cb6c348e3516120d7c08b09f57c36495e2acfffe59a5bf8b0cfb1a2d",
}
MORE = [
    "<|start|>user<|message|>Hi<|end|><|fim_prefix|>x<|fim_suffix|><|endofprompt|>",
    *tiny.PARAGRAPH.splitlines(keepends=True),
]


def oracle(name: str) -> oracles.TikToken:
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "ranks.tiktoken"
        Tokenizer(name).save(path)
        ranks = path.read_bytes()
    checksum = hashlib.sha256(ranks).hexdigest()
    if checksum != CHECKSUMS[name]:
        sys.exit(f"{name}: checksum {checksum}, published is {CHECKSUMS[name]}")
    return oracles.TikToken(ranks, *oracles.PUBLISHED[name])


def main() -> None:
    for name in CHECKSUMS:
        tiktoken = oracle(name)
        cases = [
            {"text": text, "ids": tiktoken.ids(text), "parsed": tiktoken.ids(text, "parse")}
            for text in [*HOSTILE, *MORE]
        ]
        head = {"tokenizer": name, "made_by": f"tiktoken {oracles.VERSIONS['tiktoken']}"}
        # A line for each text, so that changes can be read.
        lines = ",\n".join(json.dumps(case, separators=(",", ":")) for case in cases)
        text = json.dumps(head)[:-1] + f', "cases": [\n{lines}\n]}}\n'
        path = ROOT / "tests" / "golden" / f"{name}.json"
        path.write_text(text, encoding="utf-8")
        print(f"{path}: {len(cases)} texts, {len(text)} bytes")


if __name__ == "__main__":
    main()
