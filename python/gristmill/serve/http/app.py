"""The ASGI application: from a request to its answer, within limits.

Small bodies are worked on where they arrive, which is faster than to hand them to a thread; larger
ones in a thread, where the native calls let others run. Bounded are the size of a body, the bytes
of all bodies held, the requests under way, and the seconds a body may take to arrive and an answer
to be made. What is beyond a limit is refused at once, and only that. Tested in `test_http.py`.
"""

import asyncio
import contextlib
import functools
import importlib.resources
import json
import os
import sys
import time
import traceback
from collections.abc import Awaitable, Callable, MutableMapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from gristmill import __version__, build_info
from gristmill.serve.http.endpoints import ENDPOINTS, Answer, Endpoint, House, tokenizers
from gristmill.serve.http.metrics import Metrics
from gristmill.serve.http.openapi import description
from gristmill.serve.http.requests import Problem, read_json

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]

# To encode so many bytes takes about as long as to wake a thread.
INLINE = 16 * 1024
# After a refusal, what a client still sends is read and dropped, so that it sees the refusal and
# not a broken connection: up to so many bytes and seconds.
LINGER_BYTES = 64 << 20
LINGER_SECONDS = 1.0

JSON = b"application/json"
# The page takes everything from here, nothing from elsewhere, and nothing inline.
POLICY = (
    b"default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; "
    b"base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
PAGE = {
    "/": ("index.html", b"text/html; charset=utf-8"),
    "/playground.css": ("playground.css", b"text/css; charset=utf-8"),
    "/playground.js": ("playground.js", b"text/javascript; charset=utf-8"),
}


@dataclass(frozen=True)
class Limits:
    """What one client may ask for, and all of them together."""

    body: int = 4 << 20
    """Bytes of a body."""
    held: int = 256 << 20
    """Bytes of all bodies under way."""
    running: int = 512
    """Requests under way."""
    arrival: float = 10.0
    """Seconds for a body to arrive."""
    work: float = 60.0
    """Seconds for an answer to be made."""


@dataclass
class Reply:
    """What goes back."""

    status: int
    body: bytes
    kind: bytes = JSON
    headers: tuple[tuple[bytes, bytes], ...] = ()
    close: bool = False
    """Whether the connection is of no more use, because a body was left unread."""


class Service:
    """An ASGI application that serves tokenizers."""

    def __init__(
        self, house: House, limits: Limits | None = None, *, threads: int | None = None
    ) -> None:
        self.house = house
        self.limits = limits or Limits()
        self.metrics = Metrics()
        self.metrics.build.set((__version__, str(build_info()["debug"]).lower()), 1)
        self._running = 0
        self._held = 0
        # One more than there are cores: some are in Python while others are in native calls.
        self._executor = ThreadPoolExecutor(
            threads or (os.cpu_count() or 1) + 1, thread_name_prefix="gristmill"
        )
        folder = importlib.resources.files("gristmill.serve.http") / "page"
        self._files: dict[str, Callable[[], Reply]] = {
            path: functools.partial(
                Reply,
                200,
                (folder / name).read_bytes(),
                kind,
                ((b"content-security-policy", POLICY), (b"referrer-policy", b"no-referrer")),
            )
            for path, (name, kind) in PAGE.items()
        }
        listed = json.dumps(tokenizers(house)).encode()
        described = json.dumps(description(house)).encode()
        self._files |= {
            "/health": lambda: Reply(200, b'{"status":"ok"}'),
            "/version": lambda: Reply(200, json.dumps({"version": __version__}).encode()),
            "/tokenizers": lambda: Reply(200, listed),
            "/openapi.json": lambda: Reply(200, described),
            "/metrics": lambda: Reply(
                200, self.metrics.text().encode(), b"text/plain; version=0.0.4; charset=utf-8"
            ),
        }

    def close(self) -> None:
        """Let the threads go."""
        self._executor.shutdown(wait=False, cancel_futures=True)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] == "lifespan":
            await self._live(receive, send)
            return
        if scope["type"] != "http":
            raise ValueError(f"nothing here speaks {scope['type']}")
        began = time.perf_counter()
        path = scope["path"]
        known = path if path in ENDPOINTS or path in self._files else "other"
        self._running += 1
        self.metrics.running.set((), self._running)
        reply = None
        try:
            reply = await self._reply(scope, receive)
            await self._send(scope, reply, receive, send)
        finally:
            self._running -= 1
            self.metrics.running.set((), self._running)
            status = "none" if reply is None else str(reply.status)
            self.metrics.requests.add((known, status))
            self.metrics.seconds.add((known,), time.perf_counter() - began)

    async def _live(self, receive: Receive, send: Send) -> None:
        while True:
            message = await receive()
            await send({"type": f"{message['type']}.complete"})
            if message["type"] == "lifespan.shutdown":
                self.close()
                return

    async def _reply(self, scope: Scope, receive: Receive) -> Reply:
        path, method = scope["path"], scope["method"]
        allowed = "POST" if path in ENDPOINTS else "GET, HEAD"
        try:
            if path not in ENDPOINTS and path not in self._files:
                raise Problem(404, f"there is nothing at {path}")
            if method not in allowed.split(", "):
                reply = _refusal(Problem(405, f"{path} takes {allowed}, not {method}"))
                reply.headers = ((b"allow", allowed.encode()),)
                return reply
            if path in self._files:
                return self._files[path]()
            if self._running > self.limits.running:
                raise Problem(503, f"{self.limits.running} requests are under way already")
            return await self._work(ENDPOINTS[path], scope, receive)
        except Problem as problem:
            return _refusal(problem)

    async def _work(self, endpoint: Endpoint, scope: Scope, receive: Receive) -> Reply:
        headers = dict(scope["headers"])
        kind = headers.get(b"content-type", JSON).split(b";")[0].strip().lower()
        if kind != JSON:
            raise Problem(415, "the body must be application/json")
        if headers.get(b"content-encoding", b"identity").lower() != b"identity":
            raise Problem(415, "the body must not be compressed")
        with _Held(self) as held:
            data = await self._body(headers, receive, held)
            self.metrics.received.add((), len(data))
            work = functools.partial(self._answer, endpoint, data)
            if len(data) <= INLINE and not self.house.allow_templates:
                answer, body = work()
            else:
                answer, body = await self._in_thread(work)
        if answer.encoded:
            self.metrics.tokens.add((answer.model, "encoded"), answer.encoded)
        if answer.decoded:
            self.metrics.tokens.add((answer.model, "decoded"), answer.decoded)
        return Reply(200, body)

    async def _body(self, headers: dict[bytes, bytes], receive: Receive, held: "_Held") -> bytes:
        """All of a body, if it is not too large and does not take too long."""
        declared = headers.get(b"content-length", b"")
        # Any other length was refused by the server.
        if declared.isdigit() and int(declared[:20]) > self.limits.body:
            raise self._too_large()
        chunks = []
        size = 0
        try:
            async with asyncio.timeout(self.limits.arrival):
                while True:
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        raise Problem(400, "the connection ended inside of the body")
                    chunk = message.get("body", b"")
                    size += len(chunk)
                    if size > self.limits.body:
                        raise self._too_large()
                    held.add(len(chunk))
                    chunks.append(chunk)
                    if not message.get("more_body", False):
                        return b"".join(chunks)
        except TimeoutError:
            raise Problem(
                408, f"the body did not arrive within {self.limits.arrival:g} seconds"
            ) from None

    def _too_large(self) -> Problem:
        return Problem(413, f"a body has at most {self.limits.body} bytes")

    async def _in_thread(self, work: Callable[[], tuple[Answer, bytes]]) -> tuple[Answer, bytes]:
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(self.limits.work):
                return await loop.run_in_executor(self._executor, work)
        except TimeoutError:
            raise Problem(
                503, f"the answer was not made within {self.limits.work:g} seconds"
            ) from None

    def _answer(self, endpoint: Endpoint, data: bytes) -> tuple[Answer, bytes]:
        """What an endpoint says to a body; the event loop or a thread runs it."""
        try:
            answer = endpoint.work(self.house, endpoint.read(read_json(data)))
            return answer, "".join(answer.parts()).encode()
        except Problem:
            raise
        except KeyError as error:
            raise Problem(422, f"no token has the id {error.args[0]}", "tokens") from None
        except UnicodeEncodeError as error:
            raise Problem(
                422, f"a string is no text: character {error.start} is half of a surrogate pair"
            ) from None
        except (ValueError, OverflowError, RecursionError) as error:
            raise Problem(422, str(error)) from None
        except Exception as error:
            # A defect of ours: the client learns that much, the operator everything.
            traceback.print_exception(error, file=sys.stderr)
            raise Problem(500, "the service failed; its log says more") from None

    async def _send(self, scope: Scope, reply: Reply, receive: Receive, send: Send) -> None:
        headers = [
            (b"content-type", reply.kind),
            (b"content-length", str(len(reply.body)).encode()),
            (b"x-content-type-options", b"nosniff"),
            *reply.headers,
        ]
        if reply.close:
            headers.append((b"connection", b"close"))
        await send({"type": "http.response.start", "status": reply.status, "headers": headers})
        body = b"" if scope["method"] == "HEAD" else reply.body
        self.metrics.sent.add((), len(body))
        if reply.close:
            await send({"type": "http.response.body", "body": body, "more_body": True})
            await _linger(receive)
            body = b""
        await send({"type": "http.response.body", "body": body})


class _Held:
    """The bytes of one request that count towards those of all."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._bytes = 0

    def __enter__(self) -> "_Held":
        return self

    def add(self, size: int) -> None:
        """Count some more, or refuse the request."""
        if self._service._held + size > self._service.limits.held:
            raise Problem(503, "too many large requests are under way")
        self._service._held += size
        self._bytes += size

    def __exit__(self, *_: object) -> None:
        self._service._held -= self._bytes


def _refusal(problem: Problem) -> Reply:
    # Of these alone the body may still be on its way.
    unread = problem.status in (404, 405, 408, 413, 415, 503)
    headers = ((b"retry-after", b"1"),) if problem.status == 503 else ()
    return Reply(problem.status, problem.body(), headers=headers, close=unread)


async def _linger(receive: Receive) -> None:
    """Drop what a client still sends."""
    left = LINGER_BYTES
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(LINGER_SECONDS):
            while left > 0:
                message = await receive()
                if message["type"] == "http.disconnect" or not message.get("more_body", False):
                    return
                left -= len(message.get("body", b""))
