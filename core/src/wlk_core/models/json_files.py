"""
Read the JSON files of a model directory, which anybody may have written.

msgspec checks them against a schema, usually a `msgspec.Struct` with the keys that a program reads;
its errors name the path of the key.  The value is returned unconverted, because frameworks read
further keys of it.
"""

from __future__ import annotations

import stat
from typing import TYPE_CHECKING, Annotated, Any

import msgspec

from wlk_core.errors import ModelNotFoundError, WLKError
from wlk_core.untrusted import one_line

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["REMEDY", "Index", "Size", "parse_json", "read_json", "read_json_table", "read_limited"]

# The largest published files beside weights are a tekken.json of 20 MB and a tokenizer.json of 12.
MAX_BYTES = 32 * 2**20
REMEDY = "pull the model again"

# Frameworks count sizes in 32 bits, and some keep only the lowest ones of a larger number.
Size = Annotated[int, msgspec.Meta(ge=1, le=2**31 - 1)]  #: a width, or a number of layers
Index = Annotated[int, msgspec.Meta(ge=0, le=2**31 - 1)]  #: a token id, a layer or a head


def read_json(
    path: Path,
    schema: Any = dict[str, Any],
    *,
    remedy: str = REMEDY,
    error: type[WLKError] = ModelNotFoundError,
) -> Any:
    """
    Return the value in a JSON file of a model, None if there is no file.

    The file must fit *schema*, a type that msgspec can convert to.  Error messages end with
    *remedy*.

    Raises:
        ModelNotFoundError: or *error*: the file cannot be read, is larger than 32 MiB, is damaged,
            or does not fit *schema*; the message names the file, and the key.

    """
    content = read_limited(path, remedy=remedy, error=error)
    if content is None:
        return None
    return parse_json(content, schema, name=str(path), remedy=remedy, error=error)


def read_json_table(path: Path, schema: Any = dict[str, Any], **options: Any) -> dict[str, Any]:
    """Return the table in a JSON file, an empty one if there is no file; see `read_json`."""
    return read_json(path, schema, **options) or {}


def read_limited(
    path: Path, *, remedy: str = REMEDY, error: type[WLKError] = ModelNotFoundError
) -> bytes | None:
    """Return the bytes of a file beside the weights, None if there is no file; see `read_json`."""
    try:
        # Opening a FIFO would block until another process writes to it.
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
        raise error(f"{path} is damaged: it has more than {MAX_BYTES // 2**20} MiB; {remedy}")
    return content


def parse_json(
    content: bytes,
    schema: Any = dict[str, Any],
    *,
    name: str,
    remedy: str = REMEDY,
    error: type[WLKError] = ModelNotFoundError,
) -> Any:
    """Return the value of JSON text; messages of errors, as of `read_json`, begin with *name*."""
    try:
        value = msgspec.json.decode(content)
        msgspec.convert(value, schema)
    except msgspec.ValidationError as failure:
        raise error(f"{name} is invalid: {one_line(str(failure))}; {remedy}") from failure
    except (ValueError, RecursionError) as failure:
        raise error(f"{name} is damaged: {one_line(str(failure))}; {remedy}") from failure
    return value
