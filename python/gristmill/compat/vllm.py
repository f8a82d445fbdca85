"""Gristmill as the detokenizer of vLLM's engine.

    import gristmill.compat.vllm

    gristmill.compat.vllm.install()

From then on new requests are detokenized here. vLLM keeps the interface, the stop strings, the ids
and the offsets; only the text of the next token comes from elsewhere, so it costs less, opening a
stream does not depend on the prompt, and a character that was cut off is flushed at the end, as
U+FFFD. What Gristmill does not reproduce (a tokenizer that is refused, a decoder that has to see
the whole text with a prompt, `spaces_between_special_tokens=False` with special tokens shown) is
left to vLLM.

Tested in tests/peers against the classes of vLLM 0.33.0.
"""

from typing import Any

from gristmill import TokenizerError
from gristmill.compat.tokenizers import of

__all__ = ["detokenizer_class", "install"]


def install() -> None:
    """Let vLLM's engine use Gristmill from the next request on."""
    from vllm.v1.engine import detokenizer

    detokenizer.FastIncrementalDetokenizer = detokenizer_class(detokenizer)


def detokenizer_class(module: Any) -> type[Any]:
    """The class that `install` puts into the module vllm.v1.engine.detokenizer."""
    original: Any = module.FastIncrementalDetokenizer

    class GristmillDetokenizer(original):  # type: ignore[misc]
        """vLLM's incremental detokenizer, whose text comes from Gristmill."""

        def __init__(self, tokenizer: Any, request: Any) -> None:
            params = request.sampling_params
            self._ours: Any = None
            self._rest = False
            if params.skip_special_tokens or params.spaces_between_special_tokens:
                try:
                    self._ours = of(tokenizer._tokenizer).decode_stream(
                        prompt=request.prompt_token_ids or None,
                        skip_special_tokens=params.skip_special_tokens,
                    )
                except TokenizerError as error:
                    module.logger.warning("Left to vLLM, for Gristmill refuses: %s", error)
            if self._ours is None:
                super().__init__(tokenizer, request)
                return
            # The original's own initialisation would decode the prompt.
            module.BaseIncrementalDetokenizer.__init__(self, request)
            self.request_id = request.request_id
            self.skip_special_tokens = params.skip_special_tokens
            self.tokenizer = tokenizer._tokenizer
            self._rest = True

        def decode_next(self, next_token_id: int) -> str:
            """The text that is certain after this id."""
            if self._ours is None:
                text: str = super().decode_next(next_token_id)
                return text
            given: str = self._ours.push(next_token_id)
            return given

        def update(self, new_token_ids: list[int], stop_terminated: bool) -> str | None:
            """Take ids; the stop string that was found."""
            stop: str | None = super().update(new_token_ids, stop_terminated)
            if stop is not None:
                self._rest = False
            return stop

        def get_next_output_text(self, finished: bool, delta: bool) -> str:
            """The text so far, or what is new of it; at the end with what was cut off."""
            if finished and self._rest:
                self._rest = False
                self.output_text += self._ours.finish()
            text: str = super().get_next_output_text(finished, delta)
            return text

    return GristmillDetokenizer
