"""Whether a file on disk is the one that its checksum names."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from wlk_core.models.hub_answers import RemoteFile

__all__ = ["blob_id_of", "is_sound", "sha256_of"]

_PIECE = 2**20  # bytes read at a time


def is_sound(path: Path, file: RemoteFile) -> bool:
    """Return whether *path* has the size and the checksum of *file*, where they are known."""
    if file.size is not None and path.stat().st_size != file.size:
        return False
    if file.sha256 is not None:
        return sha256_of(path) == file.sha256
    return file.blob_id is None or blob_id_of(path) == file.blob_id


def sha256_of(path: Path) -> str:
    """Return the SHA-256 of a file's content, in hexadecimal."""
    return _digest(path, hashlib.sha256())


def blob_id_of(path: Path) -> str:
    """Return git's name of a file's content: https://git-scm.com/book/en/v2/Git-Internals-Git-Objects."""
    header = f"blob {path.stat().st_size}\0".encode()
    return _digest(path, hashlib.sha1(header, usedforsecurity=False))


def _digest(path: Path, digest: hashlib._Hash) -> str:
    with path.open("rb") as content:
        while piece := content.read(_PIECE):
            digest.update(piece)
    return digest.hexdigest()
