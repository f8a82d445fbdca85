"""What goes wrong with a run as a whole: its message says what, where and what to do."""

from gristmill._native import CorpusError

__all__ = ["CorpusError", "TooManyBadRecords"]


class TooManyBadRecords(CorpusError):
    """More records are bad than `max_bad` allows."""
