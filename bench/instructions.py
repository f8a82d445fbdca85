"""Count the instructions of encoding fixed texts under callgrind, and compare with the kept counts.

    bench/instructions.py [--update] [--toolchain]

Wall time on shared machines is noise; the instructions of one call are the same from run to run.
`bench/instructions.json` keeps instructions a byte for each call and instruction set (valgrind
knows no AVX-512), with the compiler that made them: another one counts differently. More than the
tolerance away, either way, is a failure: a loss is a regression, and a gain that is not recorded
would let the next loss pass. `--update` records; `--toolchain` prints the compiler's version.
"""

import argparse
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
from typing import Any

HERE = pathlib.Path(__file__).resolve().parent
KEPT = HERE / "instructions.json"
TOLERANCE = 0.03
TIERS = ("avx2", "plain")
EXAMPLE = "count_instructions"
# The function whose calls are counted, in the example.
COUNTED = f"{EXAMPLE}::counted"

Counts = dict[str, float]


class Failure(Exception):
    """The counts cannot be made."""


def build() -> pathlib.Path:
    """The example, as it is released; the path of the program."""
    command = ["cargo", "build", "--release", "--locked", "--package", "gristmill"]
    command += ["--example", EXAMPLE, "--message-format", "json-render-diagnostics"]
    done = subprocess.run(command, cwd=HERE.parent, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        raise Failure("the example does not build")
    for line in done.stdout.splitlines():
        message = json.loads(line)
        if message.get("executable") and message["target"]["name"] == EXAMPLE:
            return pathlib.Path(message["executable"])
    raise Failure("cargo names no program")


def count(program: pathlib.Path, tier: str) -> Counts:
    """Instructions a byte of each call."""
    if tier == "avx2" and "avx2" not in cpu_flags():
        raise Failure("this processor has no AVX2, so its counts cannot be made here")
    with tempfile.TemporaryDirectory() as folder:
        command = ["valgrind", "--tool=callgrind", f"--toggle-collect={COUNTED}"]
        # A dump before each call holds the one before it; the end of the program gives the last.
        command += [f"--dump-before={COUNTED}", f"--callgrind-out-file={folder}/out", str(program)]
        environment = {**os.environ, "GRISTMILL_SIMD": tier}
        done = subprocess.run(
            command, env=environment, capture_output=True, text=True, check=False, timeout=3600
        )
        if done.returncode:
            raise Failure(f"valgrind fails: {done.stderr.strip().splitlines()[-1:]}")
        calls = [line.split("\t") for line in done.stdout.splitlines()]
        dumps = [pathlib.Path(folder, f"out.{number}") for number in range(2, len(calls) + 1)]
        dumps.append(pathlib.Path(folder, "out"))
        if not calls or not all(dump.exists() for dump in dumps):
            raise Failure(f"callgrind did not count each call; is there still a {COUNTED}?")
        return {
            f"{tier} {name}": round(total(dump) / int(size), 3)
            for (name, size, _), dump in zip(calls, dumps, strict=True)
        }


def total(dump: pathlib.Path) -> int:
    """The instructions in one dump."""
    found = re.search(r"^(?:totals|summary): (\d+)$", dump.read_text(), re.M)
    if found is None or found[1] == "0":
        raise Failure(f"no count in {dump.name}")
    return int(found[1])


def cpu_flags() -> set[str]:
    """What the processor can do."""
    try:
        info = pathlib.Path("/proc/cpuinfo").read_text()
    except OSError:
        return set()
    found = re.search(r"^flags\s*:(.*)$", info, re.M)
    return set(found[1].split()) if found else set()


def compiler() -> str:
    """The version of rustc."""
    done = subprocess.run(["rustc", "--version"], capture_output=True, text=True, check=True)
    return done.stdout.split()[1]


def compare(now: Counts, kept: Counts) -> list[str]:
    """Print all counts; what is wrong with them."""
    wrong = []
    print(f"{'instructions a byte':32}{'kept':>10}{'now':>10}{'change':>9}")
    for name in dict.fromkeys([*kept, *now]):
        if name not in kept or name not in now:
            print(f"{name:32}{kept.get(name, '-'):>10}{now.get(name, '-'):>10}")
            wrong.append(f"{name} is {'not kept' if name in now else 'not counted any more'}")
            continue
        change = now[name] / kept[name] - 1
        mark = ""
        if abs(change) > TOLERANCE:
            mark = "  WORSE" if change > 0 else "  better: record it"
            wrong.append(f"{name}: {change:+.1%}")
        print(f"{name:32}{kept[name]:10.2f}{now[name]:10.2f}{change:+9.1%}{mark}")
    return wrong


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--update", action="store_true", help="record the counts of now")
    parser.add_argument("--toolchain", action="store_true", help="print the compiler of the record")
    options = parser.parse_args()
    kept: dict[str, Any] = {"rustc": "", "counts": {}}
    if KEPT.exists():
        kept = json.loads(KEPT.read_text())
    if options.toolchain:
        print(kept["rustc"])
        return 0
    if shutil.which("valgrind") is None:
        print("error: valgrind is not installed: apt-get install valgrind", file=sys.stderr)
        return 1
    try:
        program = build()
        now = {name: value for tier in TIERS for name, value in count(program, tier).items()}
    except Failure as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    wrong = compare(now, kept["counts"])
    if options.update:
        KEPT.write_text(json.dumps({"rustc": compiler(), "counts": now}, indent=1) + "\n")
        print(f"recorded in {KEPT.relative_to(HERE.parent)}")
        return 0
    if wrong:
        print(f"error: over {TOLERANCE:.0%} from what is kept:", "; ".join(wrong), file=sys.stderr)
        if compiler() != kept["rustc"]:
            print(f"note: kept from rustc {kept['rustc']}, this is {compiler()}", file=sys.stderr)
        print("if that is wanted: make bench-instructions UPDATE=1", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
