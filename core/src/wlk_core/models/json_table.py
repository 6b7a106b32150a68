"""
The JSON files of a model's directory, which come from strangers: read within limits, or refused.

Every such file is read here, those that a library reads by itself included, which gets a file only
after it has been accepted.
"""

from __future__ import annotations

import json
import math
import re
import stat
from typing import TYPE_CHECKING, Any, NoReturn

from wlk_core.errors import ModelNotFoundError, WLKError
from wlk_core.models.json_kinds import Table, short

if TYPE_CHECKING:
    from pathlib import Path

    from wlk_core.models.json_kinds import Kind

__all__ = ["parse_json", "read_json", "read_json_bytes", "read_json_table", "read_limited"]

MAX_BYTES = 32 * 2**20  # the largest published file, a tekken.json, has 20 MB
MAX_VALUES = 2_000_000  # a tokenizer.json of 152,000 tokens has 0.6 million
MAX_DEPTH = 64  # published files nest 8 levels
MAX_DIGITS = 20  # of a whole number of 64 bits, sign included
REMEDY = "pull the model again"
_SURROGATE = re.compile(rb"\\u[dD][89abAB]|\\u[dD][c-fC-F]")


def read_json_table(
    path: Path,
    schema: Kind | None = None,
    *,
    remedy: str = REMEDY,
    error: type[WLKError] = ModelNotFoundError,
) -> dict[str, Any]:
    """
    Return the table in a JSON file of a model; an empty one if there is no file.

    Args:
        path: the file.
        schema: the kinds of the keys that the caller reads; by default it must be a table.
        remedy: the end of an error message.
        error: the class of the errors.

    Raises:
        ModelNotFoundError: or *error*: the file cannot be read, exceeds the limits, is damaged, or
            does not fit *schema*; the message names the file, and the key where it has a value of
            another kind.

    """
    table: dict[str, Any] | None = read_json(path, schema or Table(), remedy=remedy, error=error)
    return {} if table is None else table


def read_json(
    path: Path,
    schema: Kind,
    *,
    remedy: str = REMEDY,
    error: type[WLKError] = ModelNotFoundError,
) -> Any:
    """Return what a JSON file holds, None if there is no file; see `read_json_table`."""
    content = read_limited(path, remedy=remedy, error=error)
    if content is None:
        return None
    return parse_json(content, schema, name=str(path), remedy=remedy, error=error)


def read_json_bytes(
    path: Path,
    schema: Kind | None = None,
    *,
    remedy: str = REMEDY,
    error: type[WLKError] = ModelNotFoundError,
) -> bytes | None:
    """Return the bytes of a JSON file for another reader, once this one has accepted it."""
    content = read_limited(path, remedy=remedy, error=error)
    if content is not None:
        parse_json(content, schema or Table(), name=str(path), remedy=remedy, error=error)
    return content


def read_limited(
    path: Path,
    *,
    remedy: str = REMEDY,
    error: type[WLKError] = ModelNotFoundError,
) -> bytes | None:
    """
    Return the bytes of a file beside a model's weights, None if there is no file.

    A directory, a FIFO or a device of that name is never opened.

    Raises:
        ModelNotFoundError: or *error*: it is no regular file, too large, or cannot be read.

    """
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            raise error(f"{path} is invalid: expected a file, got a folder or device; {remedy}")
        with path.open("rb") as file:
            content = file.read(MAX_BYTES + 1)
    except FileNotFoundError:
        return None
    except OSError as failure:
        reason = failure.strerror or failure
        raise error(f"{path} cannot be read: {reason}; {remedy}") from failure
    if len(content) > MAX_BYTES:
        raise error(f"{path} is damaged: it has more than {MAX_BYTES >> 20} MiB; {remedy}")
    return content


def parse_json(
    content: bytes,
    schema: Kind,
    *,
    name: str,
    remedy: str = REMEDY,
    error: type[WLKError] = ModelNotFoundError,
) -> Any:
    """
    Return what the JSON text *content* holds.

    A key that comes twice in a table, NaN, infinity and numbers of more than 64 bits are refused,
    because readers differ about them.

    Raises:
        ModelNotFoundError: or *error*: it exceeds the limits, is damaged, or does not fit *schema*;
            the message begins with *name*.

    """
    try:
        value = _parse(content)
    except ValueError as failure:
        reason = " ".join(str(failure).split())
        raise error(f"{name} is damaged: {reason}; {remedy}") from failure
    fault = schema.fault(value)
    if fault is not None:
        raise error(f"{name} is invalid: {fault}; {remedy}")
    return value


def _parse(content: bytes) -> Any:
    opened = content.count(b"[") + content.count(b"{")
    if opened + content.count(b",") > MAX_VALUES:
        raise ValueError(f"it has more than {MAX_VALUES:,} values")
    try:
        value = json.loads(
            content.decode("utf-8"),
            object_pairs_hook=_table,
            parse_constant=_refuse_constant,
            parse_float=_finite,
            parse_int=_whole,
        )
    except RecursionError:
        raise _too_deep() from None
    if opened > MAX_DEPTH and _depth(value) > MAX_DEPTH:
        raise _too_deep()
    if _SURROGATE.search(content):
        _refuse_lone_surrogates(value)
    return value


def _too_deep() -> ValueError:
    return ValueError(f"it is nested deeper than {MAX_DEPTH} levels")


def _depth(value: Any) -> int:
    """Return the levels of *value*, counted without recursion."""
    depth, level = 0, [value]
    while level:
        depth += 1
        children = (
            child
            for parent in level
            for child in (parent.values() if isinstance(parent, dict) else parent)
        )
        level = [child for child in children if isinstance(child, (dict, list))]
    return depth


def _table(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    table = dict(pairs)
    if len(table) < len(pairs):
        seen: set[str] = set()
        twice = next(key for key, _ in pairs if key in seen or seen.add(key))  # type: ignore[func-returns-value] # add returns None
        raise ValueError(f"the key {short(twice)} comes twice in a table")
    return table


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no number of JSON")


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"the number {short(text)} is too large")
    return number


def _whole(text: str) -> int:
    if len(text) > MAX_DIGITS:
        raise ValueError(f"the number {short(text)} is too large")
    return int(text)


def _refuse_lone_surrogates(value: Any) -> None:
    try:
        json.dumps(value, ensure_ascii=False).encode("utf-8")
    except UnicodeEncodeError as error:
        raise ValueError("its text contains half of a surrogate pair") from error
