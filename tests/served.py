"""The service as a process of its own, for tests."""

import contextlib
import http.client
import json
import re
import socket
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any


@dataclass
class Served:
    """A running service."""

    process: subprocess.Popen[str]
    port: int

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def ask(
        self,
        method: str,
        path: str,
        body: bytes | str | dict[str, Any] | None = None,
        headers: dict[str, str] | None = None,
    ) -> tuple[int, http.client.HTTPMessage, bytes]:
        """One request on a connection of its own."""
        if isinstance(body, dict):
            body = json.dumps(body)
        if isinstance(body, str):
            body = body.encode()
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        try:
            kind = {"content-type": "application/json"} if body is not None else {}
            connection.request(method, path, body, kind | (headers or {}))
            answer = connection.getresponse()
            return answer.status, answer.headers, answer.read()
        finally:
            connection.close()

    def post(self, path: str, **body: Any) -> Any:
        """The answer to a request that is good."""
        status, _, data = self.ask("POST", path, body)
        assert status == 200, data
        return json.loads(data)

    def connect(self) -> socket.socket:
        """A bare connection."""
        return socket.create_connection(("127.0.0.1", self.port), timeout=30)


@contextlib.contextmanager
def serving(*arguments: str) -> Iterator[Served]:
    """`gristmill serve` with these arguments, at a port that is free."""
    process = subprocess.Popen(
        [sys.executable, "-m", "gristmill", "serve", "--port", "0", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        found = re.search(r":(\d+)/$", line.strip())
        if found is None:
            raise AssertionError(f"it said {line!r}: {process.communicate()[1]}")
        yield Served(process, int(found[1]))
    finally:
        if process.poll() is None:
            process.terminate()
        try:
            process.communicate(timeout=20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
