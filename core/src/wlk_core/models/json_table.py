"""
The JSON files of a model's directory, which come from strangers: read within limits, or refused.

Every such file is read here, those that a library reads by itself included, which gets a file only
after it has been accepted.
"""

from __future__ import annotations

import stat
from typing import TYPE_CHECKING, Any

from wlk_core.errors import ModelNotFoundError, WLKError
from wlk_core.models.json_kinds import Table
from wlk_core.models.json_limits import SETTINGS_LIMITS
from wlk_core.untrusted import parse_limited_json

if TYPE_CHECKING:
    from pathlib import Path

    from wlk_core.models.json_kinds import Kind
    from wlk_core.untrusted import JSONLimits

__all__ = ["parse_json", "read_json", "read_json_bytes", "read_json_table", "read_limited"]

REMEDY = "pull the model again"


def read_json_table(
    path: Path,
    schema: Kind | None = None,
    *,
    limits: JSONLimits = SETTINGS_LIMITS,
    remedy: str = REMEDY,
    error: type[WLKError] = ModelNotFoundError,
) -> dict[str, Any]:
    """
    Return the table in a JSON file of a model; an empty one if there is no file.

    Args:
        path: the file.
        schema: the kinds of the keys that the caller reads; by default it must be a table.
        limits: how large it may be; see `json_limits`.
        remedy: the end of an error message.
        error: the class of the errors.

    Raises:
        ModelNotFoundError: or *error*: the file cannot be read, exceeds the limits, is damaged, or
            does not fit *schema*; the message names the file, and the key where it has a value of
            another kind.

    """
    table: dict[str, Any] | None = read_json(
        path, schema or Table(), limits=limits, remedy=remedy, error=error
    )
    return {} if table is None else table


def read_json(
    path: Path,
    schema: Kind,
    *,
    limits: JSONLimits = SETTINGS_LIMITS,
    remedy: str = REMEDY,
    error: type[WLKError] = ModelNotFoundError,
) -> Any:
    """Return what a JSON file holds, None if there is no file; see `read_json_table`."""
    content = read_limited(path, limits=limits, remedy=remedy, error=error)
    if content is None:
        return None
    return parse_json(content, schema, name=str(path), limits=limits, remedy=remedy, error=error)


def read_json_bytes(
    path: Path,
    schema: Kind | None = None,
    *,
    limits: JSONLimits = SETTINGS_LIMITS,
    remedy: str = REMEDY,
    error: type[WLKError] = ModelNotFoundError,
) -> bytes | None:
    """Return the bytes of a JSON file for another reader, once this one has accepted it."""
    content = read_limited(path, limits=limits, remedy=remedy, error=error)
    if content is not None:
        parse_json(
            content,
            schema or Table(),
            name=str(path),
            limits=limits,
            remedy=remedy,
            error=error,
        )
    return content


def read_limited(
    path: Path,
    *,
    limits: JSONLimits = SETTINGS_LIMITS,
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
            content = file.read(limits.max_bytes + 1)
    except FileNotFoundError:
        return None
    except OSError as failure:
        reason = failure.strerror or failure
        raise error(f"{path} cannot be read: {reason}; {remedy}") from failure
    if len(content) > limits.max_bytes:
        mebibytes = limits.max_bytes / 2**20
        raise error(f"{path} is damaged: it has more than {mebibytes:g} MiB; {remedy}")
    return content


def parse_json(
    content: bytes,
    schema: Kind,
    *,
    name: str,
    limits: JSONLimits = SETTINGS_LIMITS,
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
        value = parse_limited_json(content, limits)
    except ValueError as failure:
        reason = " ".join(str(failure).split())
        raise error(f"{name} is damaged: {reason}; {remedy}") from failure
    fault = schema.fault(value)
    if fault is not None:
        raise error(f"{name} is invalid: {fault}; {remedy}")
    return value
