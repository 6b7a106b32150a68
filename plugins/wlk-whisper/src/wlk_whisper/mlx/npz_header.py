"""The header of an npz file: names and shapes, read without the numbers."""

from __future__ import annotations

import math
import os
from typing import TYPE_CHECKING, Any
import zipfile
import zlib

import numpy as np

from wlk_core.models import TensorHeader
from wlk_core.plugins import ModelNotFoundError

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["read_npz_header"]

_FORMAT: Any = np.lib.format  # without types
_READERS = {(1, 0): _FORMAT.read_array_header_1_0, (2, 0): _FORMAT.read_array_header_2_0}


def read_npz_header(path: Path) -> dict[str, TensorHeader]:
    """
    Return the arrays of an npz file by their names.

    Raises:
        ModelNotFoundError: it is damaged, or an array has another size than it declares.

    """
    try:
        with zipfile.ZipFile(path) as archive:
            return {
                member.filename.removesuffix(".npy"): _read_member(archive, member)
                for member in archive.infolist()
            }
    # RuntimeError is a compression or encryption that Python does not have.
    except (EOFError, OSError, RuntimeError, ValueError, zipfile.BadZipFile, zlib.error) as error:
        raise ModelNotFoundError(
            f"{path} is damaged: {' '.join(str(error).split())[:200]}; pull the model again"
        ) from error


def _read_member(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> TensorHeader:
    with archive.open(member) as file:
        version = _FORMAT.read_magic(file)
        if version not in _READERS:
            raise ValueError(f"{member.filename[:60]!r} has the unknown version {version}")
        shape, _, dtype = _READERS[version](file)
        header_bytes = file.seek(0, os.SEEK_CUR)
    if dtype.hasobject or header_bytes + math.prod(shape) * dtype.itemsize != member.file_size:
        raise ValueError(f"the size of {member.filename[:60]!r} is not that of its array")
    return TensorHeader(dtype.name, tuple(shape))
