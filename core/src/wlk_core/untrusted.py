"""Make untrusted values safe to use, and to show in a one-line message."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING

from wlk_core.errors import WLKError

if TYPE_CHECKING:
    import logging

#: Characters that a terminal obeys or that break a line: controls, line and paragraph separators,
#: bidirectional embeddings, overrides and isolates, and surrogates, which are not text.
ACTIVE = re.compile("[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")

_SPACING = re.compile("[\t\n\v\f\r\x1c-\x1f\x85\u2028\u2029]")
_MASK = "***"
_MAX_LINE = 300  # characters of untrusted text in a message
_MAX_VALUE = 80  # characters of a value in a message
_CREDENTIALS = (  # compiled on first use, which saves --help half a millisecond
    (r"(?<=//)[^\s/]*@", f"{_MASK}@"),  # user:password@; a password may contain @
    (r"(?<=\?)[^\s'\"<>]*=[^\s'\"<>]*", _MASK),  # the query of a signed address
    (r"hf_\w{6,}", _MASK),  # a token of the model hub
)


def printable(text: str) -> str:
    r"""Return *text* with escapes such as ``\x1b`` in place of active characters."""
    return ACTIVE.sub(lambda match: match[0].encode("unicode_escape").decode(), text)


def printable_formatter(style: str) -> logging.Formatter:
    """Return a formatter of log records that escapes terminal control sequences."""
    import logging  # noqa: PLC0415 -- 3 ms that `wlk-core --help` need not spend

    class PrintableFormatter(logging.Formatter):
        def format(self, record: logging.LogRecord) -> str:
            return "\n".join(map(printable, super().format(record).split("\n")))

    return PrintableFormatter(style)


def plain(text: str) -> str:
    """Return *text* as `printable` does, but with a space for each tab and line break."""
    return printable(_SPACING.sub(" ", text))


def one_line(text: str, *, max_characters: int = _MAX_LINE) -> str:
    """
    Return untrusted text in a form that is safe in a message.

    White space becomes single spaces, active characters become escapes, whatever looks like a
    credential is masked, and text beyond *max_characters* is cut off.

    >>> one_line("no route to https://anna:word@hub.example/api?X-Signature=1")
    'no route to https://***@hub.example/api?***'
    """
    text = text[: 4 * max_characters]  # the patterns take quadratic time
    for pattern, mask in _CREDENTIALS:
        text = re.sub(pattern, mask, text)
    text = " ".join(text.split())
    return printable(text if len(text) <= max_characters else f"{text[:max_characters]}...")


def shown(value: object) -> str:
    """
    Return the beginning of the repr of any value, made safe for a message by `one_line`.

    >>> shown("Ann"), shown(list(range(100)))[-12:]
    ("'Ann'", '20, 21, 2...')
    """
    try:
        text = repr(value)
    except Exception:  # noqa: BLE001 -- a caller's class may raise anything
        text = f"a value of type {type(value).__name__}"
    return one_line(text, max_characters=_MAX_VALUE)


def reason(error: BaseException) -> str:
    """
    Return why *error* was raised, made safe for a message by `one_line`.

    The type of the error comes first, unless the message suffices: for failed imports and errors of
    this project.

    >>> reason(OSError("undefined symbol")), reason(ImportError("no module")), reason(ValueError())
    ('OSError: undefined symbol', 'no module', 'ValueError')
    """
    text, kind = one_line(str(error)), type(error).__name__
    if text and isinstance(error, (ImportError, WLKError)):
        return text
    return f"{kind}: {text}" if text else kind


def real_number(value: object) -> float | None:
    """
    Return *value* as a float if it is a real number of any type, else None.

    Numbers of Python, numpy and the standard library count as real; a bool does not.  NaN and
    infinity are returned as they are, and a number beyond the range of floats becomes infinity.
    """
    from decimal import Decimal  # noqa: PLC0415 -- 3 ms that `wlk-core --help` need not spend
    from numbers import Real  # noqa: PLC0415 -- as above

    if isinstance(value, bool) or not isinstance(value, (Real, Decimal)):
        return None
    try:
        return float(value)
    except OverflowError:
        return math.inf  # of either sign: no limit admits it
    except (TypeError, ValueError):  # a signalling NaN
        return None
