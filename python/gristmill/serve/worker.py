"""A tokenizer in a process of its own, between a server's front and its engine.

    python -m gristmill.serve.worker TOKENIZER --pull ADDRESS --ids ADDRESS --texts ADDRESS

It pulls messages of `wire.py` over ZeroMQ from one address and pushes the ids of prompts to a
second and the text of steps to a third: one message for each that came. A message that is none,
or of a kind that is not for a worker, is reported on standard error and dropped; nothing else is
disturbed. It ends at SIGTERM or Ctrl-C, after the message at hand. Needs the extra
`gristmill[serve]`.
"""

import argparse
import contextlib
import json
import signal
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gristmill import Tokenizer
from gristmill.serve.managers import DetokenizeManager, TokenizeManager
from gristmill.serve.wire import Kind, Message, WireError, pack, unpack


@dataclass
class _Prompt:
    uid: int
    text: Any


class Worker:
    """What the process does with a message, without the sockets."""

    def __init__(self, tokenizer: Tokenizer, **options: Any) -> None:
        self._tokenize: TokenizeManager[Any] = TokenizeManager(tokenizer)
        self._detokenize = DetokenizeManager(tokenizer, **options)

    def answer(self, data: bytes) -> tuple[Kind, bytes] | None:
        """The answer to a message and its kind; None if it has none."""
        message = unpack(data)
        if message.kind == Kind.STEP:
            return Kind.TEXTS, self._texts(message)
        if message.kind == Kind.PROMPTS:
            return Kind.IDS, self._ids(message)
        if message.kind == Kind.ABORT:
            self._detokenize.abort(message.uids.tolist())
            return None
        raise WireError(f"a worker does not take messages of the kind {message.kind.name}")

    def _texts(self, message: Message) -> bytes:
        finished = message.flags.astype(bool).tolist()
        found = self._detokenize.step(
            message.uids.tolist(), message.items, finished, message.offsets
        )
        return pack(Kind.TEXTS, message.uids, found.text, offsets=found.offsets, flags=found.flags)

    def _ids(self, message: Message) -> bytes:
        rows, failed = [], []
        for uid, flag, data in zip(
            message.uids.tolist(), message.flags.tolist(), message.rows(), strict=True
        ):
            ids = self._encoded(_Prompt(uid, data), is_chat=bool(flag))
            failed.append(ids is None)
            rows.append(np.zeros(0, dtype=np.int32) if ids is None else ids)
        ends = np.cumsum([0, *map(len, rows)])
        items = np.concatenate(rows) if rows else np.zeros(0, dtype=np.int32)
        return pack(Kind.IDS, message.uids, items, offsets=ends, flags=failed)

    def _encoded(self, prompt: _Prompt, *, is_chat: bool) -> Any:
        """The ids of one prompt; None, and a line on standard error, if it has none."""
        try:
            text = bytes(prompt.text).decode()
            prompt.text = json.loads(text) if is_chat else text
            if is_chat and not isinstance(prompt.text, list):
                raise TypeError("a chat is a list of messages")
            return self._tokenize.tokenize([prompt])[0]
        except Exception as error:
            # Templates may raise anything, and one prompt must not end the others.
            _report(f"prompt {prompt.uid}: {type(error).__name__}: {error}")
            return None


def _report(what: str) -> None:
    print(f"gristmill worker: {what}", file=sys.stderr, flush=True)


def serve(worker: Worker, pull: str, ids: str, texts: str) -> None:
    """Answer messages until a signal comes."""
    import zmq

    with contextlib.ExitStack() as stack:
        context = stack.enter_context(zmq.Context())
        incoming = stack.enter_context(context.socket(zmq.PULL))
        incoming.bind(pull)
        outgoing = {}
        for kind, address in ((Kind.IDS, ids), (Kind.TEXTS, texts)):
            outgoing[kind] = stack.enter_context(context.socket(zmq.PUSH))
            outgoing[kind].setsockopt(zmq.LINGER, 1000)
            outgoing[kind].connect(address)
        while True:
            data = incoming.recv()
            try:
                answer = worker.answer(data)
            except WireError as error:
                _report(str(error))
                continue
            if answer is not None:
                outgoing[answer[0]].send(answer[1])


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a worker until a signal comes."""
    parser = argparse.ArgumentParser(prog="gristmill.serve.worker")
    parser.add_argument("tokenizer", help="a name, a file or a folder")
    parser.add_argument("--pull", required=True, metavar="ADDRESS", help="where messages come from")
    parser.add_argument("--ids", required=True, metavar="ADDRESS", help="where ids of prompts go")
    parser.add_argument("--texts", required=True, metavar="ADDRESS", help="where texts of steps go")
    parser.add_argument("--skip-special-tokens", action="store_true")
    options = parser.parse_args(arguments)
    worker = Worker(Tokenizer(options.tokenizer), skip_special_tokens=options.skip_special_tokens)

    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    signal.signal(signal.SIGTERM, stop)
    with contextlib.suppress(KeyboardInterrupt):
        serve(worker, options.pull, options.ids, options.texts)
    return 0


if __name__ == "__main__":
    sys.exit(main())
