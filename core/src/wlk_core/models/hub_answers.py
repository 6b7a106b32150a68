"""What a hub answers is data: every name, revision, size and checksum is validated here."""

from __future__ import annotations

from pathlib import PurePosixPath
import re
from typing import Any

import attrs

from wlk_core.models.hub_cache import is_commit, is_inside
from wlk_core.models.json_limits import LISTING_LIMITS
from wlk_core.untrusted import parse_limited_json

__all__ = ["RemoteFile", "UnexpectedAnswer", "confirmed", "named_by_checksum", "read_listing"]

_ETAG = re.compile(r"(?!\.)[\w.~+=-]{1,128}", re.ASCII)
_SHA256 = re.compile(r"[0-9a-f]{64}")
_SHA1 = re.compile(r"[0-9a-f]{40}")
_LARGEST = 2**50  # bytes of a file: 1 PiB


class UnexpectedAnswer(Exception):  # noqa: N818 -- what came, not what failed
    """An answer that no model hub gives; the text is the reason."""


@attrs.frozen(kw_only=True)
class RemoteFile:
    """
    A file as the hub describes it.

    Attributes:
        name: its path below the snapshot, validated.
        size: its bytes, None if the hub does not give them.
        sha256: the checksum of its content, for a file in large-file storage.
        blob_id: git's SHA-1, for any other.
        etag: the entity tag, which is the name of its blob in the cache; None until confirmed.

    """

    name: str
    size: int | None = None
    sha256: str | None = None
    blob_id: str | None = None
    etag: str | None = None


def read_listing(content: bytes, repo: str) -> tuple[str, dict[str, RemoteFile]]:
    """
    Return the newest commit of *repo* and its files, from the hub's answer about a model.

    A file whose name leads out of the snapshot is left out, and a size of another type is no size.

    Raises:
        UnexpectedAnswer: anything else is not as a hub writes it.

    """
    try:
        answer = parse_limited_json(content, LISTING_LIMITS)
    except ValueError as error:
        raise UnexpectedAnswer("its answer is no JSON") from error
    if not isinstance(answer, dict):
        raise UnexpectedAnswer("its answer has another form")
    revision = answer.get("sha")
    if not is_commit(revision):
        raise UnexpectedAnswer(f"its revision of {repo} is no commit: {str(revision)[:60]!r}")
    siblings = answer.get("siblings") or []
    if not isinstance(siblings, list):
        raise UnexpectedAnswer("its list of files has another form")
    described = [_described(sibling) for sibling in siblings]
    files = {file.name: file for file in described if is_inside(file.name)}
    for name in files:
        if any(str(parent) in files for parent in PurePosixPath(name).parents):
            raise UnexpectedAnswer(f"it lists {name[:60]!r} below another file")
    return str(revision), files


def confirmed(
    file: RemoteFile, *, revision: str, etag: str | None, commit: str | None, size: int | None
) -> RemoteFile:
    """
    Return *file*, completed from the headers of the hub's answer about it.

    The hub's library uses the entity tag as a file name: only a plain one is let through.  A tag
    that is written like a checksum is the checksum, where the listing has none.

    Raises:
        UnexpectedAnswer: the headers contradict the listing, or give no size.

    """
    if etag is None or not _ETAG.fullmatch(etag):
        raise UnexpectedAnswer(f"its entity tag of {file.name} is no name: {str(etag)[:60]!r}")
    if commit != revision:
        raise UnexpectedAnswer(f"{file.name} comes from another commit than {revision}")
    if file.size is None:
        file = attrs.evolve(file, size=_size(size))
    if file.size is None:
        raise UnexpectedAnswer(f"it gives no size of {file.name}")
    if size is not None and size != file.size:
        raise UnexpectedAnswer(f"it gives two sizes of {file.name}: {file.size} and {size} bytes")
    if file.sha256 is None and file.blob_id is None:
        file = attrs.evolve(
            file,
            sha256=etag if _SHA256.fullmatch(etag) else None,
            blob_id=etag if _SHA1.fullmatch(etag) else None,
        )
    return attrs.evolve(file, etag=etag)


def named_by_checksum(blob: str) -> RemoteFile:
    """Return the checksum that a blob of the cache has as its name, if it has one."""
    return RemoteFile(
        name=blob,
        sha256=blob if _SHA256.fullmatch(blob) else None,
        blob_id=blob if _SHA1.fullmatch(blob) else None,
    )


def _described(sibling: Any) -> RemoteFile:
    """Return a file of the listing; its name is not validated yet."""
    if not isinstance(sibling, dict) or not isinstance(sibling.get("rfilename"), str):
        raise UnexpectedAnswer("its list of files has another form")
    name, lfs = sibling["rfilename"], sibling.get("lfs")
    if lfs is not None and not isinstance(lfs, dict):
        raise UnexpectedAnswer("its list of files has another form")
    # The blob of a file in large-file storage is a pointer, and no checksum of the content.
    return RemoteFile(
        name=name,
        size=_size(sibling.get("size")),
        sha256=_checksum(lfs.get("sha256"), _SHA256, name) if lfs else None,
        blob_id=None if lfs else _checksum(sibling.get("blobId"), _SHA1, name),
    )


def _size(size: object) -> int | None:
    return size if type(size) is int and 0 <= size <= _LARGEST else None


def _checksum(text: object, pattern: re.Pattern[str], name: str) -> str | None:
    if text is None or text == "":
        return None
    if not isinstance(text, str) or not pattern.fullmatch(text):
        raise UnexpectedAnswer(f"its checksum of {name[:60]!r} is invalid: {str(text)[:70]!r}")
    return text
