"""Gristmill in SGLang's detokenizer process.

    import gristmill.compat.sglang

    gristmill.compat.sglang.install()

before the process begins, or from a plugin of SGLang. A batch of ids becomes text in one native
call. The texts are SGLang's, but come as soon as they are certain, and an id that no token has
gives no text where SGLang gives that of token 0. A tokenizer that Gristmill refuses is an error
when the first batch comes.

Tested in tests/peers against the class of SGLang 0.5.23.
"""

from dataclasses import dataclass, field
from typing import Any

from gristmill import StreamBatch
from gristmill.compat.tokenizers import of

__all__ = ["decode_batch", "install"]


def install() -> None:
    """Let SGLang's detokenizer use Gristmill."""
    from sglang.srt.managers.detokenizer_manager import DetokenizerManager

    DetokenizerManager._decode_batch_token_id_output = decode_batch


@dataclass
class _Stream:
    slot: int
    given: list[str] = field(default_factory=list)
    """What was given, for a stop string that is found in all of it at the end."""


class _Streams:
    def __init__(self, tokenizer: Any) -> None:
        self.batch = StreamBatch(of(tokenizer._tokenizer))
        self.open: dict[str, _Stream] = {}


def decode_batch(self: Any, recv_obj: Any) -> list[str]:
    """`DetokenizerManager._decode_batch_token_id_output`: the new text of each request."""
    streams: _Streams = self.__dict__.get("_gristmill") or _Streams(self.tokenizer)
    self._gristmill = streams
    slots, tokens, ends, finished = [], [], [0], []
    rows = []
    for at, rid in enumerate(recv_obj.rids):
        ids = list(recv_obj.decode_ids[at])
        stream = streams.open.get(rid)
        if stream is None:
            read = recv_obj.read_offsets[at]
            (slot,) = streams.batch.open(
                1,
                prompt=ids[:read] or None,
                skip_special_tokens=bool(recv_obj.skip_special_tokens[at]),
            ).tolist()
            stream = streams.open[rid] = _Stream(slot)
            if recv_obj.decoded_texts[at]:
                stream.given.append(recv_obj.decoded_texts[at])
            ids = ids[read:]
        reason = recv_obj.finished_reasons[at]
        if reason is not None and ids:
            # A stop id that is not to be shown.
            ids = self.trim_matched_stop(ids, reason, recv_obj.no_stop_trim[at])
        slots.append(stream.slot)
        tokens += ids
        ends.append(len(tokens))
        finished.append(reason is not None)
        rows.append(stream)
    # An id beyond 31 bits is no token's, and neither is -1.
    found = streams.batch.step(slots, tokens, ends, finished).strs()
    texts = []
    for at, (rid, stream, text) in enumerate(zip(recv_obj.rids, rows, found, strict=True)):
        reason = recv_obj.finished_reasons[at]
        if reason is None:
            stream.given.append(text)
        else:
            del streams.open[rid]
            before = "".join(stream.given)
            whole = self.trim_matched_stop(before + text, reason, recv_obj.no_stop_trim[at])
            text = whole[len(before) :]
        texts.append(text)
    return texts
