"""A tokenizer for asyncio that encodes together whatever is waiting, and never waits for more.

One batch is at work at a time, in a thread, on all cores; what comes meanwhile is the next batch.
So a single request is as fast as it can be, and many at once share one call. At most `limit`
requests wait; others wait to wait. A request that cannot be encoded fails alone, one that is
cancelled is left out. Tested in `test_serve.py`.
"""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from gristmill import Tokenizer
from gristmill.chat import choose


class AsyncTokenizer:
    """Encode from any task of one event loop.

    async with AsyncTokenizer(tok) as tokenizer:
        ids = await tokenizer.encode(text)
    """

    def __init__(self, tokenizer: Tokenizer, *, limit: int = 4096, threads: int = 0) -> None:
        if limit < 1:
            raise ValueError("limit is at least 1")
        self.tokenizer = tokenizer
        self._limit = limit
        self._threads = threads
        self._queue: asyncio.Queue[_Request] = asyncio.Queue(limit)
        self._task: asyncio.Task[None] | None = None
        self._closed = False
        # Those that wait, or wait to wait.
        self._open: set[_Request] = set()

    async def __aenter__(self) -> "AsyncTokenizer":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Finish what waits and take nothing more."""
        self._closed = True
        while self._open:
            await asyncio.wait([request.answer for request in self._open])
            await asyncio.sleep(0)
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            self._task = None

    async def encode(
        self,
        text: str | bytes,
        /,
        *,
        special: Literal["text", "parse", "forbid"] = "text",
        add_special_tokens: bool = False,
    ) -> list[int]:
        """`Tokenizer.encode`."""
        return await self._ask(_Request(text, None, (special, add_special_tokens)))

    async def encode_chat(
        self, messages: Sequence[Mapping[str, Any]], /, **options: Any
    ) -> list[int]:
        """`Tokenizer.encode_chat`, without a mask."""
        if options.get("return_assistant_mask"):
            raise ValueError("ask the tokenizer itself for a mask")
        return await self._ask(_Request(messages, options, ("parse", False)))

    async def _ask(self, request: "_Request") -> list[int]:
        if self._closed:
            raise RuntimeError("the tokenizer was closed")
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._work())
        self._open.add(request)
        try:
            await self._queue.put(request)
            return await request.answer
        finally:
            request.answer.cancel()
            self._open.discard(request)

    async def _work(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            batch = [await self._queue.get()]
            while not self._queue.empty():
                batch.append(self._queue.get_nowait())
            wanted = [request for request in batch if not request.answer.done()]
            try:
                answers = await loop.run_in_executor(None, self._answers, wanted)
            except Exception as error:
                answers = [error] * len(wanted)
            for request, answer in zip(wanted, answers, strict=True):
                request.give(answer)

    def _answers(self, batch: list["_Request"]) -> list[Any]:
        """The ids of each request, or what went wrong with it."""
        answers: list[Any] = [None] * len(batch)
        groups: dict[Any, list[int]] = {}
        for at, request in enumerate(batch):
            try:
                if request.options is not None:
                    request.text = self._render(request)
                groups.setdefault(request.how, []).append(at)
            except Exception as error:
                answers[at] = error
        for (special, add), places in groups.items():
            texts = [batch[at].text for at in places]
            how = {"special": special, "add_special_tokens": add}
            try:
                found = self.tokenizer.encode_batch(texts, threads=self._threads, **how)
            except Exception:
                found = [self._alone(text, how) for text in texts]
            for at, ids in zip(places, found, strict=True):
                answers[at] = ids
        return answers

    def _alone(self, text: Any, how: dict[str, Any]) -> Any:
        try:
            return self.tokenizer.encode(text, **how)
        except Exception as error:
            return error

    def _render(self, request: "_Request") -> str:
        options = dict(request.options or {})
        template = options.pop("template", None)
        chosen, options = choose(self.tokenizer, template, options)
        return chosen.render(request.text, **options)


class _Request:
    def __init__(self, text: Any, options: dict[str, Any] | None, how: tuple[str, bool]) -> None:
        self.text = text
        self.options = options
        self.how = how
        self.answer: asyncio.Future[list[int]] = asyncio.get_running_loop().create_future()

    def give(self, answer: Any) -> None:
        if self.answer.done():
            return
        if isinstance(answer, Exception):
            self.answer.set_exception(answer)
        else:
            self.answer.set_result(answer)
