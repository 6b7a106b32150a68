"""Where models lie on this machine: pulled ones with their records, and the hub's own cache."""

from __future__ import annotations

import json
import os
from pathlib import Path
import re
import shutil
from typing import TYPE_CHECKING, Self

import attrs
import platformdirs

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

__all__ = ["Record", "Store", "hub_cache_snapshot", "is_repository", "lacking", "offline_mode"]

_REPOSITORY = re.compile(r"[A-Za-z0-9][\w.-]*/[\w.-]+")


@attrs.frozen(kw_only=True)
class Record:
    """
    What one pull brought, written last: a model without its record does not count.

    `files` maps each file, relative to the model's directory, to its size in bytes.
    """

    backend: str
    repo: str
    revision: str
    files: dict[str, int]

    @property
    def size(self) -> int:
        """Bytes of all files."""
        return sum(self.files.values())

    @classmethod
    def read(cls, path: Path) -> Self | None:
        """Return the record at *path*, None where there is none that can be read."""
        try:
            raw = json.loads(path.read_text(encoding="utf-8"))
            return cls(
                backend=str(raw["backend"]),
                repo=str(raw["repo"]),
                revision=str(raw["revision"]),
                files={str(name): int(size) for name, size in raw["files"].items()},
            )
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            return None  # an unreadable record is no record: the model is pulled again


@attrs.frozen
class Store:
    """
    The models that were pulled, below `root`.

    ``models/<owner>--<name>/<revision>/`` holds the files and
    ``pulled/<backend>/<owner>--<name>.json`` the record.  Two backends that pull one revision
    share its files.
    """

    root: Path

    @classmethod
    def at(cls, cache_dir: str | os.PathLike[str] | None = None) -> Self:
        """Return the store in *cache_dir*, else in $WLK_CACHE_DIR, else in the user's cache."""
        chosen = cache_dir or os.environ.get("WLK_CACHE_DIR")
        root = Path(chosen).expanduser() if chosen else platformdirs.user_cache_path("wlk-core")
        return cls(root)

    def directory(self, repo: str, revision: str) -> Path:
        """Return where the files of a revision belong."""
        return self.root / "models" / _flat(repo) / revision

    def record(self, repo: str, backend: str) -> Record | None:
        """Return the record of a complete model: every file is there in its full size."""
        record = Record.read(self._record_path(repo, backend))
        if record is None or record.repo != repo:
            return None
        directory = self.directory(repo, record.revision)
        complete = all(_size(directory / name) == size for name, size in record.files.items())
        return record if complete else None

    def records(self) -> Iterator[Record]:
        """Iterate over all records, complete or not, in a fixed order."""
        for path in sorted((self.root / "pulled").glob("*/*.json")):
            if (record := Record.read(path)) is not None:
                yield record

    def write(self, record: Record) -> None:
        """Write the record in one step, then drop revisions that no record names any more."""
        path = self._record_path(record.repo, record.backend)
        path.parent.mkdir(parents=True, exist_ok=True)
        draft = path.with_suffix(f".{os.getpid()}.part")
        with draft.open("w", encoding="utf-8") as file:
            json.dump(attrs.asdict(record), file, indent=1, sort_keys=True)
            file.flush()
            os.fsync(file.fileno())
        draft.replace(path)
        self._prune(record.repo, keep_going=True)  # an old revision may still be open elsewhere

    def remove(self, repo: str, backend: str) -> int | None:
        """
        Remove what pulling *repo* for *backend* brought, an unfinished pull too.

        Files that another backend's record names stay.  Returns the bytes that became free, None
        where nothing was there.
        """
        before = self._bytes(repo)
        path = self._record_path(repo, backend)
        if not path.exists() and before == 0:
            return None
        record = Record.read(path)
        path.unlink(missing_ok=True)
        if record is not None:
            self._remove_files(record)
        self._prune(repo)
        return before - self._bytes(repo)

    def _remove_files(self, record: Record) -> None:
        shared = {
            name
            for other in self.records()
            if (other.repo, other.revision) == (record.repo, record.revision)
            for name in other.files
        }
        directory = self.directory(record.repo, record.revision)
        for name in record.files.keys() - shared:
            path = directory / name
            if ".." not in path.parts:  # a record is a file that anyone could have edited
                path.unlink(missing_ok=True)

    def _prune(self, repo: str, *, keep_going: bool = False) -> None:
        kept = {record.revision for record in self.records() if record.repo == repo}
        home = self.root / "models" / _flat(repo)
        if not kept:
            shutil.rmtree(home, ignore_errors=not home.exists())
            return
        for directory in home.glob("*"):
            if directory.name not in kept:
                shutil.rmtree(directory, ignore_errors=keep_going)

    def _bytes(self, repo: str) -> int:
        home = self.root / "models" / _flat(repo)
        return sum(path.stat().st_size for path in home.rglob("*") if path.is_file())

    def _record_path(self, repo: str, backend: str) -> Path:
        return self.root / "pulled" / backend / f"{_flat(repo)}.json"


def hub_cache_snapshot(repo: str) -> Path | None:
    """
    Return *repo* in the hub's own cache, which other programs share; it is only ever read.

    Follows the hub's documented variables and layout, without importing its library.
    """
    variables = os.environ
    home = Path(variables.get("XDG_CACHE_HOME") or "~/.cache", "huggingface")
    home = Path(variables.get("HF_HOME") or home)
    cache = variables.get("HF_HUB_CACHE") or variables.get("HUGGINGFACE_HUB_CACHE") or home / "hub"
    folder = Path(os.path.expandvars(cache)).expanduser() / f"models--{_flat(repo)}"
    try:
        revision = (folder / "refs" / "main").read_text(encoding="utf-8").strip()
    except OSError:
        return None
    snapshot = folder / "snapshots" / revision
    return snapshot if revision and snapshot.is_dir() else None


def lacking(directory: Path, needs: Iterable[str]) -> tuple[str, ...]:
    """Return those of the glob patterns *needs* that no file below *directory* matches."""
    return tuple(
        pattern for pattern in needs if not any(path.is_file() for path in directory.glob(pattern))
    )


def offline_mode(*, offline: bool | None = None) -> bool:
    """Tell whether the network is forbidden: by the argument, else by HF_HUB_OFFLINE."""
    if offline is not None:
        return offline
    return os.environ.get("HF_HUB_OFFLINE", "").lower() in {"1", "on", "yes", "true"}


def is_repository(ref: str) -> bool:
    """Tell whether *ref* is written like a repository id, owner/name."""
    return _REPOSITORY.fullmatch(ref) is not None and ".." not in ref


def _flat(repo: str) -> str:
    return repo.replace("/", "--")


def _size(path: Path) -> int | None:
    try:
        return path.stat().st_size
    except OSError:
        return None
