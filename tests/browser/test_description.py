"""The service keeps what /openapi.json promises: schemathesis tries it."""

import subprocess
import sysconfig
from pathlib import Path

from served import Served


def test_the_description_is_true(service: Served, tmp_path: Path) -> None:
    done = subprocess.run(
        [
            str(Path(sysconfig.get_path("scripts")) / "schemathesis"),
            "run",
            f"{service.url}/openapi.json",
            "--checks=all",
            # A chat that its template refuses is well formed, and so is an id that no token has.
            "--exclude-checks=positive_data_acceptance",
            "--max-examples=60",
            "--phases=examples,coverage,fuzzing",
            "--seed=7",
            "--no-color",
        ],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
    print(done.stdout)
    assert service.post("/count", prompt="one two")["count"] == 2
