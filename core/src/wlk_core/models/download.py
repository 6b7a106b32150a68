"""Downloads from a model hub into its cache: every file is checked before it counts."""

from __future__ import annotations

from contextlib import suppress
import glob
import os
import shutil
import time
from typing import TYPE_CHECKING

import attrs

from wlk_core.errors import ModelNotFoundError
from wlk_core.models.checksums import is_sound
from wlk_core.models.download_errors import explained
from wlk_core.models.hub_answers import UnexpectedAnswer
from wlk_core.models.hub_cache import matching
from wlk_core.models.hub_requests import Hub, import_library
from wlk_core.models.pull_record import PullRecord, records
from wlk_core.models.removal import delete_superseded

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from wlk_core.models.hub_answers import RemoteFile
    from wlk_core.models.hub_cache import CachedRepo

__all__ = ["download"]

_ABANDONED_SECONDS = 3600.0  # without a byte; a live download is given up much sooner


def download(
    repo: CachedRepo, *, backend: str, patterns: Sequence[str], command: str
) -> PullRecord:
    """
    Bring the newest revision of *repo* into its cache and return the record of that.

    `patterns` are those of BackendSpec.model_files.  Files that are complete are not fetched
    again.  The branch main of the cache moves only once every file has arrived and been checked.
    A progress bar is drawn on standard error if that is a terminal.

    Raises:
        ModelNotFoundError: it cannot be fetched; the message has the reason and the command.

    """
    import_library()
    hub = Hub.chosen()
    with explained(repo, command, hub.host):
        revision, listed = hub.listing(repo.repo)
        files = [listed[name] for name in sorted(matching(listed, patterns))]
        if not files:
            some = f" ({', '.join(patterns)})" if patterns else ""
            raise ModelNotFoundError(
                f"{repo.repo} holds none of the files that {backend} needs{some}; "
                f"is it a model for another backend?"
            )
        _check_space(repo, revision, files)
        record = _begin(repo, backend, revision, files)
        for file in files:
            _fetch(hub, repo, revision, file)
        sizes = {file.name: repo.size(revision, file.name) for file in files}
        record = attrs.evolve(record, files={name: size or 0 for name, size in sizes.items()})
        record.write()
        _point_main_at(repo, revision)
        delete_superseded(repo, backend, revision)
        _delete_unfinished(repo)
        return record


def _fetch(hub: Hub, repo: CachedRepo, revision: str, file: RemoteFile) -> None:
    """Bring one file, or make sure of the one that is there; raise if it arrives damaged."""
    path = repo.snapshot(revision) / file.name
    if path.is_file() and is_sound(path, file):
        return
    file = hub.described(repo.repo, revision, file)
    blob = repo.folder / "blobs" / (file.etag or "")
    for part in blob.parent.glob(f"{glob.escape(blob.name)}*.incomplete"):
        if part.is_symlink():
            part.unlink()  # earlier releases of the library would write through it
    if twin := _twin(repo, revision, file, blob):
        raise UnexpectedAnswer(f"it gives {twin} and {file.name} one entity tag")
    is_damaged = os.path.lexists(path) or (blob.is_file() and not is_sound(blob, file))
    hub.fetch(repo, revision, file, force=is_damaged)
    if not path.is_file():
        raise UnexpectedAnswer(f"{file.name} is not in its answer")
    if not is_sound(path, file):
        _discard(path, repo)
        raise OSError(f"{file.name} arrived damaged")


def _twin(repo: CachedRepo, revision: str, file: RemoteFile, blob: Path) -> str | None:
    """Return a file of another size that has the same blob: one of them would replace the other."""
    has_checksum = file.sha256 is not None or file.blob_id is not None  # which is the tag
    if has_checksum or not blob.is_file() or blob.stat().st_size == file.size:
        return None
    snapshot = repo.snapshot(revision)
    others = sorted(repo.names(revision) - {file.name})
    return next((name for name in others if (snapshot / name).resolve() == blob.resolve()), None)


def _begin(
    repo: CachedRepo, backend: str, revision: str, files: Sequence[RemoteFile]
) -> PullRecord:
    """Write down what is about to be fetched, so that the rest of a failed pull can be removed."""
    others = list(records(repo=repo.repo))
    for record in others:
        is_earlier = (record.backend, record.revision) == (backend, revision)
        if is_earlier and record.files.keys() == {file.name for file in files}:
            return record
    brought = {name for record in others if record.revision == revision for name in record.brought}
    there = {file.name for file in files if repo.size(revision, file.name) is not None}
    record = PullRecord(
        backend=backend,
        repo=repo.repo,
        revision=revision,
        files={file.name: file.size or 0 for file in files},
        found=frozenset(there - brought),
    )
    record.write()
    return record


def _point_main_at(repo: CachedRepo, revision: str) -> None:
    """Write refs/main in one step: it is how every other tool finds the snapshot."""
    if repo.main == revision:
        return
    path = repo.folder / "refs" / "main"
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f"main.{os.getpid()}.tmp")
    draft.write_text(revision, encoding="utf-8")
    draft.replace(path)


def _discard(path: Path, repo: CachedRepo) -> None:
    """Remove a damaged file: its pointer, and the blob if that lies in this repository."""
    blob = path.resolve()
    path.unlink(missing_ok=True)
    if blob.parent == (repo.folder / "blobs").resolve():
        blob.unlink(missing_ok=True)


def _delete_unfinished(repo: CachedRepo) -> None:
    """Remove what killed processes left of files; no process writes to a part that is so old."""
    for part in (repo.folder / "blobs").glob("*.incomplete"):
        with suppress(OSError):  # another process has just removed it
            if time.time() - part.stat().st_mtime > _ABANDONED_SECONDS:
                part.unlink()


def _check_space(repo: CachedRepo, revision: str, files: Sequence[RemoteFile]) -> None:
    needed = sum(file.size or 0 for file in files if repo.size(revision, file.name) != file.size)
    disk = next(path for path in (repo.folder, *repo.folder.parents) if path.exists())
    free = shutil.disk_usage(disk).free
    if needed > free:
        raise ModelNotFoundError(
            f"{repo.repo} needs {needed / 1e6:.1f} MB more, and the disk of {repo.cache} has "
            f"{free / 1e6:.1f} MB free; make room, or set HF_HUB_CACHE to a directory on "
            "another disk"
        )
