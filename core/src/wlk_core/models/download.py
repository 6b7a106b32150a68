"""Downloads from a model hub into its cache: the only module that touches the network."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import attrs

from wlk_core.errors import ModelNotFoundError
from wlk_core.models.download_errors import explained
from wlk_core.models.hub_cache import is_commit, is_inside, matching
from wlk_core.models.pull_record import PullRecord, records
from wlk_core.models.removal import delete_superseded

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from wlk_core.models.hub_cache import CachedRepo

__all__ = ["download"]

_TIMEOUT_SECONDS = 10.0  # the hub library's own default for requests that fetch no file
_ETAG = re.compile(r"(?!\.)[\w.~+=-]{1,128}", re.ASCII)
_LONGEST_TIMEOUT_SECONDS = 3600.0
_PIECE = 2**20  # bytes read at a time for a checksum


@attrs.frozen(kw_only=True)
class _RemoteFile:
    """A file as the hub lists it; each of its checksums may be absent."""

    name: str
    size: int | None
    sha256: str | None = None  # of the content, for a file in large-file storage
    blob_id: str | None = None  # git's SHA-1, for any other


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
    with explained(repo, command):
        revision, listed = _listing(repo.repo)
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
            _fetch(repo, revision, file)
        sizes = {file.name: repo.size(revision, file.name) for file in files}
        record = attrs.evolve(record, files={name: size or 0 for name, size in sizes.items()})
        record.write()
        _point_main_at(repo, revision)
        delete_superseded(repo, backend, revision)
        return record


def _listing(repo: str) -> tuple[str, Mapping[str, _RemoteFile]]:
    """Return the newest commit and its files; everything in the answer is checked."""
    from huggingface_hub import HfApi  # noqa: PLC0415 -- half a second

    endpoint = _endpoint()
    try:
        info = HfApi(endpoint=endpoint).model_info(repo, files_metadata=True, timeout=_timeout())
        revision, siblings = info.sha, list(info.siblings or ())
        files = [
            _RemoteFile(
                name=sibling.rfilename,
                size=_size(sibling.size),
                sha256=_text(sibling.lfs and sibling.lfs.sha256),
                blob_id=_text(sibling.blob_id),
            )
            for sibling in siblings
        ]
    except (TypeError, KeyError, AttributeError) as error:
        raise _no_hub("its answer has another form") from error
    except ValueError as error:
        if type(error).__name__ == "HFValidationError":
            raise
        raise _no_hub("its answer is no JSON") from error
    if not is_commit(revision):
        raise _no_hub(f"its revision of {repo} is no commit: {str(revision)[:60]!r}")
    return str(revision), {file.name: file for file in files if is_inside(file.name)}


def _fetch(repo: CachedRepo, revision: str, file: _RemoteFile) -> None:
    """Bring one file, or make sure of the one that is there; raise if it arrives damaged."""
    from huggingface_hub import hf_hub_download  # noqa: PLC0415 -- half a second

    path = repo.snapshot(revision) / file.name
    if path.is_file() and _is_sound(path, file):
        return
    _check_answer(repo.repo, revision, file)
    hf_hub_download(
        repo.repo,
        file.name,
        revision=revision,
        cache_dir=repo.cache,
        endpoint=_endpoint(),
        etag_timeout=_timeout(),
        force_download=os.path.lexists(path),  # what is there is damaged
    )
    if not path.is_file():
        raise OSError(f"{file.name} was not found in the answer of the hub")
    if not _is_sound(path, file):
        _discard(path, repo)
        raise OSError(f"{file.name} arrived damaged")


def _check_answer(repo: str, revision: str, file: _RemoteFile) -> None:
    """
    Refuse an answer of the hub that would put a file beside the cache.

    The hub's library uses the entity tag as a file name, and waits for minutes where a server
    accepts a connection and never answers; this request has a short time limit.
    """
    from huggingface_hub import get_hf_file_metadata, hf_hub_url  # noqa: PLC0415 -- half a second

    url = hf_hub_url(repo, file.name, revision=revision, endpoint=_endpoint())
    answer = get_hf_file_metadata(url, timeout=_timeout())
    if answer.etag is None or not _ETAG.fullmatch(answer.etag):
        raise _no_hub(f"its entity tag of {file.name} is no name: {str(answer.etag)[:60]!r}")
    if answer.commit_hash != revision:
        raise _no_hub(f"{file.name} comes from another commit than {revision}")


def _begin(
    repo: CachedRepo, backend: str, revision: str, files: Sequence[_RemoteFile]
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


def _is_sound(path: Path, file: _RemoteFile) -> bool:
    """Return whether a file has the size and the checksum that the hub lists, where it does."""
    size = path.stat().st_size
    if file.size is not None and size != file.size:
        return False
    if file.sha256 is not None:
        return _digest(path, hashlib.sha256()) == file.sha256
    if file.blob_id is not None:
        # https://git-scm.com/book/en/v2/Git-Internals-Git-Objects
        start = hashlib.sha1(f"blob {size}\0".encode(), usedforsecurity=False)
        return _digest(path, start) == file.blob_id
    return True


def _digest(path: Path, digest: hashlib._Hash) -> str:
    with path.open("rb") as content:
        while piece := content.read(_PIECE):
            digest.update(piece)
    return digest.hexdigest()


def _discard(path: Path, repo: CachedRepo) -> None:
    """Remove a damaged file: its pointer, and the blob if that lies in this repository."""
    blob = path.resolve()
    path.unlink(missing_ok=True)
    if blob.parent == (repo.folder / "blobs").resolve():
        blob.unlink(missing_ok=True)


def _check_space(repo: CachedRepo, revision: str, files: Sequence[_RemoteFile]) -> None:
    needed = sum(file.size or 0 for file in files if repo.size(revision, file.name) != file.size)
    disk = next(path for path in (repo.folder, *repo.folder.parents) if path.exists())
    free = shutil.disk_usage(disk).free
    if needed > free:
        raise ModelNotFoundError(
            f"{repo.repo} needs {needed / 1e6:.0f} MB more, and the disk of {repo.cache} has "
            f"{free / 1e6:.0f} MB free; make room, or set HF_HUB_CACHE to a directory on "
            "another disk"
        )


def _endpoint() -> str | None:
    """Return $HF_ENDPOINT without a slash at its end, None for the library's default."""
    endpoint = (os.environ.get("HF_ENDPOINT") or "").rstrip("/")
    if not endpoint:
        return None
    try:
        parts = urlsplit(endpoint)
        is_address = parts.scheme in {"http", "https"} and bool(parts.hostname)
        _ = parts.port  # raises for a port that is no number
    except ValueError:
        is_address = False
    if not is_address:
        raise ModelNotFoundError(
            "HF_ENDPOINT is no address of a model hub; expected https://HOST, or leave it unset"
        )
    return endpoint


def _timeout() -> float:
    """Return the seconds a request may wait for its answer: $HF_HUB_ETAG_TIMEOUT, else 10."""
    try:
        seconds = float(os.environ.get("HF_HUB_ETAG_TIMEOUT") or _TIMEOUT_SECONDS)
    except ValueError:
        return _TIMEOUT_SECONDS
    return seconds if 0 < seconds <= _LONGEST_TIMEOUT_SECONDS else _TIMEOUT_SECONDS


def _no_hub(reason: str) -> ModelNotFoundError:
    host = urlsplit(_endpoint() or "https://huggingface.co").hostname
    return ModelNotFoundError(
        f"{host} does not answer like a model hub: {reason}; a proxy or the login page of a "
        "network may stand in between, or HF_ENDPOINT be wrong"
    )


def _size(size: object) -> int | None:
    return size if type(size) is int and size >= 0 else None


def _text(text: object) -> str | None:
    return text if isinstance(text, str) and text else None
