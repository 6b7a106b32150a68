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

MAX_ARRAYS = 100_000  # of a model of 32 layers: 1,300
MAX_RATIO = 100  # of a compressed array; weights are noise and hardly shrink
SUFFIX = ".npy"
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
                member.filename.removesuffix(SUFFIX): _read_member(archive, member)
                for member in _members(archive)
            }
    except (
        EOFError,
        NotImplementedError,  # a compression or encryption that Python does not have
        OSError,
        RuntimeError,
        ValueError,
        zipfile.BadZipFile,
        zlib.error,
    ) as error:
        raise ModelNotFoundError(
            f"{path} is damaged: {' '.join(str(error).split())[:200]}; pull the model again"
        ) from error


def _members(archive: zipfile.ZipFile) -> list[zipfile.ZipInfo]:
    members = archive.infolist()
    if len(members) > MAX_ARRAYS:
        raise ValueError(f"it has more than {MAX_ARRAYS:,} arrays")
    return members


def _read_member(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> TensorHeader:
    with archive.open(member) as file:
        version = _FORMAT.read_magic(file)
        if version not in _READERS:
            raise ValueError(f"{member.filename[:60]!r} has the unknown version {version}")
        shape, _, dtype = _READERS[version](file)
        header_bytes = file.seek(0, os.SEEK_CUR)
    if dtype.hasobject or header_bytes + math.prod(shape) * dtype.itemsize != member.file_size:
        raise ValueError(f"the size of {member.filename[:60]!r} is not that of its array")
    if member.file_size > MAX_RATIO * max(1, member.compress_size):
        raise ValueError(f"{member.filename[:60]!r} unpacks to {member.file_size} bytes")
    return TensorHeader(dtype.name, tuple(shape))
