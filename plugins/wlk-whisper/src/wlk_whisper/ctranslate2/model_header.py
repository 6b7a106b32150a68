"""The variables of a CTranslate2 model.bin: names and shapes, read without the numbers."""

from __future__ import annotations

import math
import os
import struct
from typing import TYPE_CHECKING, BinaryIO

from wlk_core.models import TensorHeader
from wlk_core.plugins import ModelNotFoundError

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["read_model_header"]

# https://github.com/OpenNMT/CTranslate2, python/ctranslate2/specs/model_spec.py, _serialize
TYPES = (("float32", 4), ("int8", 1), ("int16", 2), ("int32", 4), ("float16", 2), ("bfloat16", 2))
VERSIONS = range(4, 7)  # with the type and the bytes of a variable; converters write 6 since 2021
SPEC = "WhisperSpec"


def read_model_header(path: Path) -> dict[str, TensorHeader]:
    """
    Return the variables of a model by their names.

    Raises:
        ModelNotFoundError: the file is damaged: it ends early, or a variable has another size than
            it declares; or it contains another model than a Whisper.

    """
    try:
        size = path.stat().st_size
        with path.open("rb") as file:
            return _read_variables(file, size)
    except (OSError, ValueError, struct.error) as error:
        raise ModelNotFoundError(
            f"{path} could not be loaded as a CTranslate2 Whisper model: "
            f"{' '.join(str(error).split())[:200]}; convert or pull it again"
        ) from error


def _read_variables(file: BinaryIO, size: int) -> dict[str, TensorHeader]:
    version = _number(file, "I")
    if version not in VERSIONS:
        raise ValueError(f"it has the unknown version {version}")
    spec = _text(file)
    if spec != SPEC:
        raise ValueError(f"it contains a {spec[:60]!r}, expected a {SPEC}")
    _number(file, "I")  # the revision of the spec
    variables: dict[str, TensorHeader] = {}
    for _ in range(_number(file, "I")):
        name = _text(file)
        shape = tuple(_number(file, "I") for _ in range(_number(file, "B")))
        kind, length = _number(file, "B"), _number(file, "I")
        end = file.seek(0, os.SEEK_CUR) + length
        if kind >= len(TYPES) or end > size:
            raise ValueError(f"the variable {name[:60]!r} lies outside of the file")
        dtype, item_bytes = TYPES[kind]
        if math.prod(shape) * item_bytes != length:
            raise ValueError(f"the size of {name[:60]!r} is not that of its shape")
        variables[name] = TensorHeader(dtype, shape)
        file.seek(end)
    return variables


def _number(file: BinaryIO, kind: str) -> int:
    number: int = struct.unpack(f"<{kind}", file.read(struct.calcsize(kind)))[0]
    return number


def _text(file: BinaryIO) -> str:
    """Return a text, which its length precedes and a zero byte ends."""
    return file.read(_number(file, "H")).rstrip(b"\0").decode("utf-8")
