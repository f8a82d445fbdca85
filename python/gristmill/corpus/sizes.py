"""Sizes and numbers as people write and read them."""

import re

UNITS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12}
BINARY = {"ki": 2**10, "mi": 2**20, "gi": 2**30, "ti": 2**40}


def size(text: int | str) -> int:
    """A number of bytes: `256MB`, `1.5 GiB`, `1000`."""
    if isinstance(text, int):
        if text <= 0:
            raise ValueError(f"{text} is not a size: it has to be more than 0")
        return text
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([kmgt]?i?)b?\s*", text, re.IGNORECASE)
    unit = match[2].lower() if match else ""
    if match is None or unit == "i":
        raise ValueError(f"{text!r} is not a size such as 256MB or 1GiB")
    number = int(float(match[1]) * {**UNITS, **BINARY}[unit])
    if number <= 0:
        raise ValueError(f"{text!r} is not a size: it has to be more than 0")
    return number


def limit(text: int | float | str) -> int | float:
    """How many: a whole number, or a share such as `0.1%` as a number below 1."""
    if isinstance(text, str):
        try:
            if text.endswith("%"):
                share = float(text[:-1]) / 100
                text = share if share < 1 else -1
            else:
                text = int(text)
        except ValueError:
            raise ValueError(f"{text!r} is neither a number nor a share such as 0.1%") from None
    if text < 0 or (isinstance(text, float) and text >= 1):
        raise ValueError("a limit is a number of 0 or more, or a share of less than 100%")
    return text


def spelled(number: float) -> str:
    """Bytes for people: `1.23 GB`."""
    return scaled(number, ("TB", "GB", "MB", "kB")) or f"{number:.0f} bytes"


def counted(number: float) -> str:
    """A number for people: `1.23 M`."""
    return scaled(number, ("T", "G", "M", "k")) or f"{number:.0f}"


def scaled(number: float, units: tuple[str, str, str, str]) -> str:
    """Three digits and the largest unit that they reach; nothing below a thousand."""
    for unit, factor in zip(units, (1e12, 1e9, 1e6, 1e3), strict=True):
        if number >= factor * 0.9995:
            value = number / factor
            return f"{value:.3g} {unit}" if value < 999.5 else f"{value:,.0f} {unit}"
    return ""


def lasting(seconds: float) -> str:
    """A time for people: `2 h 05 min`, `3 min 20 s`, `4.2 s`."""
    if seconds < 10:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    minutes, rest = divmod(whole, 60)
    if minutes < 60:
        return f"{minutes} min {rest:02} s"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02} min" if hours < 48 else f"{hours / 24:.1f} days"
