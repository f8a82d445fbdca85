"""Write tests/golden/shards: the same documents by the formats' own writers.

Run by `make golden-shards`, in the environment of `make test-readers`, which has them. The main
suite compares Gristmill's files with these, byte for byte; `tests/readers` writes them again.
"""

import json
import sys
from importlib.metadata import version
from pathlib import Path

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "tests"))

import shard_writers as writers  # noqa: E402  (its folder has to be known first)

PACKAGES = ["megatron-core", "datatrove", "litdata", "mosaicml-streaming", "torch", "numpy"]


def main() -> None:
    """Write all files, and the versions that made them."""
    folder = ROOT / "tests" / "golden" / "shards"
    folder.mkdir(parents=True, exist_ok=True)
    for name, end in writers.CASES.items():
        for file, content in writers.all_files(writers.DOCUMENTS[name], end).items():
            (folder / f"{name}.{file}").write_bytes(content)
    versions = {package: version(package) for package in PACKAGES}
    (folder / "versions.json").write_text(json.dumps(versions, indent=1) + "\n")


if __name__ == "__main__":
    main()
