"""
JSON from outside: parsed within limits of size, values, depth and digits, or refused.

The limits are checked before anything is built, so that neither the stack of Python nor memory is
one of them.
"""

from __future__ import annotations

from itertools import accumulate
import json
import math
import re
import reprlib
from typing import Any, NoReturn

import attrs

__all__ = ["JSONLimitError", "JSONLimits", "parse_limited_json"]

MAX_WHOLE_DIGITS = 20  # of a whole number of 64 bits, sign included
_SURROGATE = re.compile(rb"\\u[dD][89abAB]|\\u[dD][c-fC-F]")
_TEXT = re.compile(rb'"[^"]*+"?')
_NO_MARKS = bytes(set(range(256)) - set(b'"[]{},'))
_LEVELS = {ord("["): 1, ord("{"): 1, ord("]"): -1, ord("}"): -1, ord(","): 0}


class JSONLimitError(ValueError):
    """The text is beyond a limit, whichever way it ends."""


@attrs.frozen(kw_only=True)
class JSONLimits:
    """
    How much a JSON text may hold.

    Attributes:
        max_bytes: its length.
        max_values: values in it, those of tables and lists included.
        max_depth: tables and lists inside each other.
        max_digits: characters of a number; a long one is converted in the square of its length.
        is_strict: whether it may hold nothing that readers differ about: a key twice in a table,
            NaN, infinity, a whole number of more than 64 bits, half of a surrogate pair.  A text
            that another library reads too is checked so.

    """

    max_bytes: int
    max_values: int
    max_depth: int
    max_digits: int
    is_strict: bool = True


def parse_limited_json(content: bytes, limits: JSONLimits) -> Any:
    """
    Return the value of a JSON text in UTF-8.

    Raises:
        JSONLimitError: it is beyond one of *limits*.
        ValueError: it is no JSON; it may have been cut off.

    """
    _check_size(content, limits)
    options: dict[str, Any] = {}
    if limits.is_strict:
        options = {"object_pairs_hook": _table, "parse_constant": _refuse_constant}

    def whole(text: str) -> int:
        _check_digits(text, limits)
        if limits.is_strict and len(text) > MAX_WHOLE_DIGITS:
            raise ValueError(f"the number {_short(text)} is too large")
        return int(text)

    def number(text: str) -> float:
        _check_digits(text, limits)
        value = float(text)
        if limits.is_strict and not math.isfinite(value):
            raise ValueError(f"the number {_short(text)} is too large")
        return value

    value = json.loads(content.decode("utf-8"), parse_int=whole, parse_float=number, **options)
    if limits.is_strict and _SURROGATE.search(content):
        _refuse_lone_surrogates(value)
    return value


def _check_size(content: bytes, limits: JSONLimits) -> None:
    if len(content) > limits.max_bytes:
        raise JSONLimitError(f"more than {limits.max_bytes / 2**20:g} MiB")
    marks = _marks(content)
    opened = marks.count(b"[") + marks.count(b"{")
    if opened + marks.count(b",") > limits.max_values:
        raise JSONLimitError(f"more than {limits.max_values:,} values")
    if opened > limits.max_depth:
        depth = max(accumulate(map(_LEVELS.__getitem__, marks)))
        if depth > limits.max_depth:
            raise JSONLimitError(f"values nested deeper than {limits.max_depth} levels")


def _marks(content: bytes) -> bytes:
    """Return the brackets and commas outside of texts; no byte of a longer character is one."""
    if b"\\" in content:  # backslashes come in pairs, or the last of them escapes the quote
        content = content.replace(b"\\\\", b"").replace(b'\\"', b"")
    return _TEXT.sub(b"", content.translate(None, _NO_MARKS))


def _check_digits(text: str, limits: JSONLimits) -> None:
    if len(text) > limits.max_digits:
        raise JSONLimitError(f"a number of {len(text)} characters, which is too large")


def _table(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    table = dict(pairs)
    if len(table) < len(pairs):
        seen: set[str] = set()
        twice = next(key for key, _ in pairs if key in seen or seen.add(key))  # type: ignore[func-returns-value] # add returns None
        raise ValueError(f"the key {_short(twice)} comes twice in a table")
    return table


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no number of JSON")


def _refuse_lone_surrogates(value: Any) -> None:
    try:
        json.dumps(value, ensure_ascii=False).encode("utf-8")
    except UnicodeEncodeError as error:
        raise ValueError("its text contains half of a surrogate pair") from error


def _short(text: str) -> str:
    short = reprlib.Repr()
    short.maxstring = 60
    return short.repr(text)
