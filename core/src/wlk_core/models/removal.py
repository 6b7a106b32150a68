"""Removing models from the hub's cache: what a pull brought, and nothing that others need."""

from __future__ import annotations

import dataclasses
import os
from pathlib import Path
import shutil
from typing import TYPE_CHECKING

import attrs

from wlk_core.errors import ModelNotFoundError
from wlk_core.models.hub_cache import CachedRepo, cache_directory, matching
from wlk_core.models.pull_record import PullRecord, records
from wlk_core.models.references import is_local, packaged_word, repository

if TYPE_CHECKING:
    from collections.abc import Iterable

    from wlk_core.backend import BackendSpec

__all__ = ["Removal", "delete_superseded", "plan_removal"]

_Entries = frozenset[tuple[str, str]]  # files of snapshots: revision and name


@attrs.frozen(kw_only=True)
class Removal:
    """
    What removing a model would take away; `execute` does it.

    Attributes:
        ref: the model, as it was named.
        repo: its repository in the cache.
        pulls: the records of what was pulled for the backend.
        brought: the files that these pulls brought and that no other backend pulled.
        foreign: the files that another tool fetched, which may still use them.

    """

    ref: str
    repo: CachedRepo
    pulls: tuple[PullRecord, ...]
    brought: _Entries
    foreign: _Entries

    @property
    def foreign_size(self) -> int:
        """Bytes of the files that another tool fetched."""
        return sum(self.repo.size(*entry) or 0 for entry in self.foreign)

    def execute(self, *, foreign: bool = False) -> int:
        """
        Remove what the pulls brought, with *foreign* also the rest; return the bytes set free.

        Raises:
            OSError: a file cannot be removed.

        """
        before = _bytes(self.repo.folder)
        _delete(self.repo, self.brought | (self.foreign if foreign else frozenset()))
        for record in self.pulls:
            record.delete()
        return before - _bytes(self.repo.folder)


def plan_removal(
    ref: str, spec: BackendSpec, *, cache_dir: str | os.PathLike[str] | None = None
) -> Removal:
    """
    Find out what removing *ref* would take away; nothing is removed yet.

    The rest of an interrupted pull counts as brought.

    Raises:
        ModelNotFoundError: it is not in the cache, or is bundled or a local directory.

    """
    if word := packaged_word(ref, spec):
        raise ModelNotFoundError(f"{ref} is {word} and was never pulled: nothing can be removed")
    if is_local(ref, spec):
        raise ModelNotFoundError(f"{ref} is a directory of yours: it was never pulled")
    repo = CachedRepo(cache_directory(cache_dir), repository(ref, spec))
    pulls = tuple(records(backend=spec.name, repo=repo.repo))
    others = [record for record in records(repo=repo.repo) if record.backend != spec.name]
    needed = _files(others)
    there = _entries(repo)
    brought = (_files(pulls) - _found(pulls)) & there - needed
    if pulls:
        foreign = _found(pulls) & there - needed - brought
    elif others:
        selected = matching({name for _, name in there}, spec.model_files)
        foreign = frozenset(entry for entry in there - needed if entry[1] in selected)
    else:
        foreign = there
    if not pulls and not foreign and (others or not repo.folder.is_dir()):
        pulled = " and ".join(sorted({record.backend for record in others}))
        owner = f"; it was pulled for {pulled}" if pulled else ""
        raise ModelNotFoundError(
            f"{ref} was never pulled for {spec.name}{owner}; "
            f"what was: wlk-core models --backend {spec.name}"
        )
    return Removal(ref=ref, repo=repo, pulls=pulls, brought=brought, foreign=foreign)


def delete_superseded(repo: CachedRepo, backend: str, revision: str) -> None:
    """
    Remove the older revisions that pulls for *backend* brought, once *revision* is complete.

    A revision to which a branch or tag other than main points stays: another tool fetched it by
    that name.
    """
    older = [
        record for record in records(backend=backend, repo=repo.repo) if record.revision != revision
    ]
    if not older:
        return
    needed = _files(
        record
        for record in records(repo=repo.repo)
        if record.backend != backend or record.revision == revision
    )
    named = repo.named_revisions()
    unnamed = [record for record in older if record.revision not in named]
    try:
        _delete(repo, (_files(unnamed) - _found(unnamed)) & _entries(repo) - needed)
    except OSError:
        return  # a file may still be open elsewhere; the record stays, so that `rm` finds it
    for record in older:
        record.delete()


def _files(pulls: Iterable[PullRecord]) -> _Entries:
    return frozenset((record.revision, name) for record in pulls for name in record.files)


def _found(pulls: Iterable[PullRecord]) -> _Entries:
    return frozenset((record.revision, name) for record in pulls for name in record.found)


def _entries(repo: CachedRepo) -> _Entries:
    return frozenset(
        (revision, name) for revision in repo.revisions() for name in repo.names(revision)
    )


def _delete(repo: CachedRepo, entries: _Entries) -> None:
    """Delete files of snapshots, and blobs that no snapshot of the repository needs any more."""
    there = _entries(repo)
    whole = {
        revision
        for revision in repo.revisions()
        if all(entry in entries for entry in there if entry[0] == revision)
    }
    if whole == set(repo.revisions()):
        whole_folder = repo.folder
        if not _delete_revisions(repo, whole) and whole_folder.is_dir():
            shutil.rmtree(whole_folder)  # a damaged entry, or the rest of an interrupted pull
        return
    _delete_revisions(repo, whole)
    _unlink(repo, [entry for entry in entries if entry[0] not in whole])


def _delete_revisions(repo: CachedRepo, revisions: set[str]) -> bool:
    """Let the hub's library delete whole revisions; return whether it knows the repository."""
    if not repo.folder.is_dir():
        return True
    from huggingface_hub import scan_cache_dir  # noqa: PLC0415 -- half a second

    scan = scan_cache_dir(repo.cache)
    # Two repositories may share a commit, so the strategy is made for this one alone.
    mine = frozenset(
        cached
        for cached in scan.repos
        if (cached.repo_type, cached.repo_id) == ("model", repo.repo)
    )
    known = {revision.commit_hash for cached in mine for revision in cached.revisions}
    if chosen := revisions & known:
        dataclasses.replace(scan, repos=mine).delete_revisions(*chosen).execute()
    return bool(chosen) and chosen == revisions


def _unlink(repo: CachedRepo, entries: Iterable[tuple[str, str]]) -> None:
    """Delete some files of snapshots that keep others."""
    paths = [repo.snapshot(revision) / name for revision, name in entries]
    blobs = {_blob(path) for path in paths}
    for path in paths:
        path.unlink(missing_ok=True)
    kept = {_blob(repo.snapshot(revision) / name) for revision, name in _entries(repo)}
    for blob in blobs - kept:
        if blob.parent == repo.folder / "blobs":
            blob.unlink(missing_ok=True)


def _blob(pointer: Path) -> Path:
    """Return what a pointer leads to; on systems without symbolic links the file itself."""
    if not pointer.is_symlink():
        return pointer
    return Path(os.path.normpath(pointer.parent / pointer.readlink()))


def _bytes(folder: Path) -> int:
    """Return the bytes of all files below a folder, every blob counted once."""
    return sum(
        path.lstat().st_size
        for path in folder.rglob("*")
        if path.is_file() and not path.is_symlink()
    )
