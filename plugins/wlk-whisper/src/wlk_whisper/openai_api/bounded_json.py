"""JSON from an endpoint: bounded in depth and in the length of its numbers."""

from __future__ import annotations

import json
import re
from typing import Any

__all__ = ["MAX_DEPTH", "JSONLimitError", "parse_json"]

MAX_DEPTH = 16  # objects and lists inside each other; verbose_json has 4
MAX_DIGITS = 40  # of a number; a float64 is exact in 17

# A string, or a bracket outside of one.
_TOKEN = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+"?|[\[\]{}]', re.DOTALL)


class JSONLimitError(ValueError):
    """The text is beyond a limit, whichever way it ends."""


def parse_json(text: str) -> Any:
    """
    Return the value of a JSON text, whose length the caller has bounded.

    Raises:
        JSONLimitError: values are nested too deep, or a number is too long.
        ValueError: the text is no JSON; it may have been cut off.

    """
    depth = 0
    for token in _TOKEN.finditer(text):
        character = token[0][0]
        depth += (character in "[{") - (character in "]}")
        if depth > MAX_DEPTH:
            raise JSONLimitError(f"values nested deeper than {MAX_DEPTH}")
    return json.loads(text, parse_int=_integer, parse_float=_number, parse_constant=_constant)


def _integer(text: str) -> int:
    return int(_checked(text))


def _number(text: str) -> float:
    return float(_checked(text))


def _constant(text: str) -> float:
    # Times that are no numbers are refused where they are read, and other values do not matter.
    return float(text)


def _checked(text: str) -> str:
    if len(text) > MAX_DIGITS:
        raise JSONLimitError(f"a number of {len(text)} characters, {text[:12]}...")
    return text
