"""Arguments from outside: a real number of any type, and any value as a short line of a message."""

from __future__ import annotations

from decimal import Decimal
import math
from numbers import Real

__all__ = ["is_text", "real_number", "shown"]

MAX_SHOWN = 80  # characters of a value in a message


def real_number(value: object) -> float | None:
    """
    Return *value* as a float if it is a real number of any type, else None.

    Python's, numpy's and the standard library's numbers are real; a bool is no number.  NaN and
    infinity are returned, and a number beyond the range of floats is infinity.
    """
    if isinstance(value, bool) or not isinstance(value, (Real, Decimal)):
        return None
    try:
        return float(value)
    except OverflowError:
        return math.inf  # of either sign: no limit admits it
    except (TypeError, ValueError):  # a signalling NaN
        return None


def is_text(value: object) -> bool:
    """Return whether *value* is a text that can be encoded, so without a lone surrogate."""
    if not isinstance(value, str):
        return False
    try:
        value.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def shown(value: object) -> str:
    """Return *value* for a message: one line, short, and without a failure."""
    try:
        text = repr(value)
    except Exception:  # noqa: BLE001 -- foreign code, and a message must be possible
        return f"a value of type {type(value).__name__}"
    text = " ".join(text.split()).encode("utf-8", "backslashreplace").decode("utf-8")
    return text if len(text) <= MAX_SHOWN else f"{text[:MAX_SHOWN]}..."
