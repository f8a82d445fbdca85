"""Gristmill: encode, decode and train with any BPE tokenizer, exactly.

    >>> import gristmill
    >>> tok = gristmill.Tokenizer("o200k_base")
    >>> tok.decode(tok.encode("Hello, world!"))
    'Hello, world!'

These are the public names. The classes are native; their documentation is in `_native.pyi`.
Importing the package loads nothing else: numpy comes with the first array, rich with the first
table, chat templates and corpora with the first of them. `tests/test_package.py` holds it to that.
"""

from typing import TYPE_CHECKING, Any

from gristmill._native import (
    EMBEDDED,
    CorpusError,
    DecodeStream,
    StreamBatch,
    StreamTexts,
    Tokenizer,
    TokenizerError,
    Trainer,
    WordCounts,
    __version__,
    build_info,
    extend,
    prune,
)
from gristmill.evaluation import Report, compare, evaluate

if TYPE_CHECKING:
    from gristmill.chat import ChatTemplate
    from gristmill.corpus import tokenize_corpus

__all__ = [
    "EMBEDDED",
    "ChatTemplate",
    "CorpusError",
    "DecodeStream",
    "Report",
    "StreamBatch",
    "StreamTexts",
    "Tokenizer",
    "TokenizerError",
    "Trainer",
    "WordCounts",
    "__version__",
    "build_info",
    "compare",
    "evaluate",
    "extend",
    "prune",
    "tokenize_corpus",
]


def _warn_of_debug(info: dict[str, Any]) -> None:
    """Say that nothing measured with a debug build means anything."""
    if info["debug"]:
        import warnings

        warnings.warn(
            "this is a debug build of gristmill, slower by an order of magnitude: measure nothing "
            "with it and serve nobody; build it with --release",
            RuntimeWarning,
            stacklevel=3,
        )


_warn_of_debug(build_info())


def __getattr__(name: str) -> Any:
    """What not every program needs, and is loaded when it is asked for."""
    if name == "ChatTemplate":
        from gristmill.chat import ChatTemplate

        return ChatTemplate
    if name == "tokenize_corpus":
        from gristmill.corpus import tokenize_corpus

        return tokenize_corpus
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
