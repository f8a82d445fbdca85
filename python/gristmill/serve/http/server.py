"""The service under uvicorn, with the limits on connections that uvicorn has not.

A connection that does not bring the head of a request in time is told so (408), one whose head is
too large too (431), and one that does not take its answer is ended. SIGTERM and SIGINT end the
service after the requests under way.
"""

import asyncio
import contextlib
import signal
import socket
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from gristmill.serve.http.app import LINGER_SECONDS, Service

# Bytes of a request's first line and headers.
LARGEST_HEAD = 64 * 1024
# Connections that wait to be taken.
BACKLOG = 1024


@dataclass(frozen=True)
class Patience:
    """Seconds that a connection has."""

    head: float = 10.0
    """For the head of a request to arrive, counted from its first byte or the connection."""
    answer: float = 30.0
    """For a client to take the part of an answer that is ready."""
    idle: int = 15
    """Between two requests."""
    end: int = 60
    """For the requests under way when the service is to end."""


class _Protocol(HttpToolsProtocol):
    """uvicorn's, with limits."""

    patience = Patience()
    _head: asyncio.TimerHandle | None = None
    _taken: asyncio.TimerHandle | None = None
    _head_bytes = 0
    _in_head = True
    _refused = False

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._wait_for_head()

    def _wait_for_head(self) -> None:
        if self._head is None:
            self._head = self.loop.call_later(
                self.patience.head,
                self._refuse,
                b"408 Request Timeout",
                b"the head of the request did not arrive in time",
            )

    def data_received(self, data: bytes) -> None:
        if self._refused:
            return
        if self._in_head:
            self._wait_for_head()
            self._head_bytes += len(data)
            # What came with the head of a body counts too: a read is not larger than 256 KiB.
            if self._head_bytes > LARGEST_HEAD and b"\r\n\r\n" not in data:
                self._refuse(
                    b"431 Request Header Fields Too Large", b"the head of the request is too large"
                )
                return
        super().data_received(data)

    def on_headers_complete(self) -> None:
        self._in_head = False
        self._head_bytes = 0
        self._cancel_head()
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        super().on_message_complete()
        self._in_head = True

    def _cancel_head(self) -> None:
        if self._head is not None:
            self._head.cancel()
            self._head = None

    def _refuse(self, status: bytes, message: bytes) -> None:
        if self.transport.is_closing():
            return
        self.transport.write(
            b"HTTP/1.1 %b\r\ncontent-type: text/plain; charset=utf-8\r\ncontent-length: %d\r\n"
            b"connection: close\r\n\r\n%b" % (status, len(message), message)
        )
        # What is still on its way is dropped for a while: to close now would break the connection
        # before the client has read why.
        self._refused = True
        if self.transport.can_write_eof():
            self.transport.write_eof()
        self.loop.call_later(LINGER_SECONDS, self.transport.close)

    def pause_writing(self) -> None:
        super().pause_writing()
        if self._taken is None:
            self._taken = self.loop.call_later(self.patience.answer, self.transport.abort)

    def resume_writing(self) -> None:
        super().resume_writing()
        self._cancel_taken()

    def _cancel_taken(self) -> None:
        if self._taken is not None:
            self._taken.cancel()
            self._taken = None

    def connection_lost(self, exc: Exception | None) -> None:
        self._cancel_head()
        self._cancel_taken()
        super().connection_lost(exc)


class _Server(uvicorn.Server):
    """uvicorn's, ended by a signal without dying of it."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        wanted = (signal.SIGINT, signal.SIGTERM)
        before = {number: signal.signal(number, self.handle_exit) for number in wanted}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


def listen(host: str, port: int) -> socket.socket:
    """A socket that clients may connect to from now on; port 0 is any that is free."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    return socket.create_server((host, port), family=family, backlog=BACKLOG)


def run(
    service: Service,
    listener: socket.socket,
    *,
    patience: Patience | None = None,
    access_log: bool = False,
) -> None:
    """Serve until a signal comes."""
    patience = patience or Patience()
    config = uvicorn.Config(
        service,
        http=type("Protocol", (_Protocol,), {"patience": patience}),
        ws="none",
        lifespan="on",
        # Of each bad request uvicorn would warn.
        log_level="info" if access_log else "error",
        access_log=access_log,
        server_header=False,
        proxy_headers=False,
        timeout_keep_alive=patience.idle,
        timeout_graceful_shutdown=patience.end,
    )
    try:
        _Server(config).run(sockets=[listener])
    finally:
        service.close()
