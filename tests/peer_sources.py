"""Fetches the files of servers that tests/peers compares with: python tests/peer_sources.py

vLLM and SGLang come from PyPI, their archives checked; mini-sglang is on no index, so its checkout
is looked for in the folder that MINISGL names, or ../mini-sglang. Nothing of them is installed or
kept in the repository.
"""

import hashlib
import io
import json
import os
import shutil
import sys
import tarfile
import urllib.parse
import urllib.request
import zipfile
from pathlib import Path

ROOT = Path(__file__).parent.parent
FOLDER = ROOT / "target" / "peers"
# Name, version, kind of archive, and the files wanted of it.
WANTED = (
    ("vllm", "0.33.0", ".tar.gz", ("vllm/v1/engine/detokenizer.py",)),
    (
        "sglang",
        "0.5.23",
        "cp311-cp311-manylinux_2_34_x86_64.whl",
        ("sglang/srt/managers/detokenizer_manager.py", "sglang/utils.py"),
    ),
)


def fetch(name: str, version: str, kind: str, files: tuple[str, ...]) -> None:
    """Take some files out of an archive on PyPI, unless they are there."""
    folder = FOLDER / name
    if all((folder / file).is_file() for file in files):
        return
    index = f"https://pypi.org/pypi/{name}/json"
    with urllib.request.urlopen(index, timeout=60) as answer:
        known = json.load(answer)
    # Mirrors may know the newest release alone.
    found = known.get("releases", {}).get(version, known["urls"])
    wanted = [f"{name}-{version}{separator}{kind}" for separator in ("", "-")]
    archives = [one for one in found if one["filename"] in wanted]
    if not archives:
        raise SystemExit(f"{index} does not have {name} {version}")
    archive = archives[0]
    with urllib.request.urlopen(urllib.parse.urljoin(index, archive["url"]), timeout=300) as answer:
        data = answer.read()
    if hashlib.sha256(data).hexdigest() != archive["digests"]["sha256"]:
        raise SystemExit(f"{archive['filename']} is not what PyPI says it is")
    for file in files:
        if kind.endswith(".whl"):
            content = zipfile.ZipFile(io.BytesIO(data)).read(file)
        else:
            with tarfile.open(fileobj=io.BytesIO(data)) as tar:
                member = tar.extractfile(f"{name}-{version}/{file}")
                assert member is not None
                content = member.read()
        path = folder / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)


def link_minisgl() -> None:
    """Copy the one file that is wanted from a checkout."""
    file = Path("python/minisgl/tokenizer/detokenize.py")
    path = FOLDER / "mini-sglang" / file
    if path.is_file():
        return
    checkout = Path(os.environ.get("MINISGL", ROOT.parent / "mini-sglang"))
    if not (checkout / file).is_file():
        raise SystemExit(
            f"{checkout} is no checkout of https://github.com/sgl-project/mini-sglang; "
            "clone it, and name it by MINISGL"
        )
    path.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(checkout / file, path)


def main() -> int:
    for wanted in WANTED:
        fetch(*wanted)
    link_minisgl()
    return 0


if __name__ == "__main__":
    sys.exit(main())
