"""Records of what ``wlk-core pull`` brought into the cache: names only, never absolute paths."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any, Self

import attrs

from wlk_core._directories import data_directory
from wlk_core.models.hub_cache import flat_name, is_commit, is_inside
from wlk_core.models.json_limits import LISTING_LIMITS
from wlk_core.models.references import is_repository
from wlk_core.untrusted import parse_limited_json

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

__all__ = ["PullRecord", "records"]


@attrs.frozen(kw_only=True)
class PullRecord:
    """
    What one pull fetched, or was about to fetch when it was interrupted.

    Attributes:
        backend: the backend it was pulled for.
        repo: the repository.
        revision: the commit.
        files: each file of the model, relative to its snapshot, and its size in bytes.
        found: the files that were in the cache before, which some other tool fetched.

    """

    backend: str
    repo: str
    revision: str
    files: Mapping[str, int]
    found: frozenset[str] = frozenset()

    @property
    def brought(self) -> frozenset[str]:
        """The files that no other tool had fetched."""
        return frozenset(self.files) - self.found

    @property
    def path(self) -> Path:
        """The file of this record."""
        return _folder(self.backend, self.repo) / f"{self.revision}.json"

    def write(self) -> None:
        """Write the record in one step, so that a reader sees all of it or nothing."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        draft = self.path.with_suffix(f".{os.getpid()}.part")
        content = attrs.asdict(self) | {"files": dict(self.files), "found": sorted(self.found)}
        with draft.open("w", encoding="utf-8") as file:
            json.dump(content, file, indent=1, sort_keys=True)
            file.flush()
            os.fsync(file.fileno())
        draft.replace(self.path)

    def delete(self) -> None:
        """Remove the record, and its folder once that is empty."""
        self.path.unlink(missing_ok=True)
        try:
            self.path.parent.rmdir()
        except OSError:
            return  # another revision is recorded there

    @classmethod
    def read(cls, path: Path) -> Self | None:
        """Return the record in *path*; None if it is damaged or does not belong there."""
        try:
            table: dict[str, Any] = parse_limited_json(path.read_bytes(), LISTING_LIMITS)
            record = cls(
                backend=table["backend"],
                repo=table["repo"],
                revision=table["revision"],
                files=dict(table["files"]),
                found=frozenset(table["found"]),
            )
            is_sound = (
                is_repository(record.repo)
                and is_commit(record.revision)
                and path == record.path
                and all(is_inside(name) for name in record.files)
                and all(type(size) is int for size in record.files.values())
                and len(record.files) > 0
                and record.found <= record.files.keys()
            )
        except (OSError, ValueError, KeyError, TypeError):
            return None  # it was edited or cut short: what it names is treated as another tool's
        return record if is_sound else None


def records(*, backend: str | None = None, repo: str | None = None) -> Iterator[PullRecord]:
    """Iterate over the records of a backend, a repository or both, in a fixed order."""
    folder = f"{backend or '*'}/{flat_name(repo) if repo else '*'}"
    for path in sorted(_root().glob(f"{folder}/*.json")):
        if (record := PullRecord.read(path)) is not None:
            yield record


def _root() -> Path:
    return data_directory() / "pulled"


def _folder(backend: str, repo: str) -> Path:
    return _root() / backend / flat_name(repo)
