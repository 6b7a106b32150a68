"""Downloads from a model hub: the only module that touches the network."""

from __future__ import annotations

from contextlib import contextmanager
import errno
from fnmatch import fnmatch
import hashlib
import os
from pathlib import Path, PurePosixPath
import shutil
from typing import TYPE_CHECKING, NoReturn
from urllib.parse import urlsplit
import warnings

from wlk_core._store import Record, Store
from wlk_core.errors import ModelNotFoundError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from huggingface_hub.hf_api import RepoSibling

__all__ = ["download"]


def download(
    repo: str, *, backend: str, patterns: Sequence[str], store: Store, command: str
) -> Record:
    """
    Bring the newest revision of *repo* into *store* and return its record.

    `patterns` are those of BackendSpec.model_files.  A run that was interrupted is taken up where
    it stopped.  A progress bar is drawn on standard error if that is a terminal.

    Raises:
        ModelNotFoundError: it cannot be had, with the reason and the command to run again.

    """
    with _explained(repo, store, command):
        from huggingface_hub import HfApi  # noqa: PLC0415 -- half a second

        endpoint = os.environ.get("HF_ENDPOINT") or None
        info = HfApi(endpoint=endpoint).model_info(repo, files_metadata=True)
        there = [file for file in info.siblings or () if _is_inside(file.rfilename)]
        names = _wanted([file.rfilename for file in there], patterns)
        wanted = [file for file in there if file.rfilename in names]
        if info.sha is None or not wanted:
            some = f" ({', '.join(patterns)})" if patterns else ""
            raise ModelNotFoundError(
                f"{repo} holds none of the files that {backend} needs{some}; "
                f"is it a model for another backend?"
            )
        directory = store.directory(repo, info.sha)
        sizes = {file.rfilename: file.size or 0 for file in wanted}
        _check_space(store, directory, sizes, repo)
        for file in wanted:
            _fetch(repo, file, info.sha, directory)
        record = Record(backend=backend, repo=repo, revision=info.sha, files=sizes)
        store.write(record)
        return record


def _fetch(repo: str, sibling: RepoSibling, revision: str, directory: Path) -> None:
    """
    Bring one file, going on with the part of it that an earlier run left.

    `hf_hub_download` of huggingface-hub 2.4 begins a file anew after an interruption.  `http_get`
    under it can go on, tries again on a lost connection and draws the bar.
    """
    from huggingface_hub import get_hf_file_metadata, hf_hub_url  # noqa: PLC0415 -- half a second
    from huggingface_hub.file_download import http_get  # noqa: PLC0415 -- half a second

    # Documented there, though not marked as exported.
    from huggingface_hub.utils import build_hf_headers  # type: ignore[attr-defined] # noqa: PLC0415

    name, size = sibling.rfilename, sibling.size or 0
    path = directory / name
    if path.is_file() and path.stat().st_size == size:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f"{path.name}.part")
    url = hf_hub_url(repo, name, revision=revision, endpoint=os.environ.get("HF_ENDPOINT") or None)
    location = get_hf_file_metadata(url).location
    ours = urlsplit(location).netloc == urlsplit(url).netloc  # a token is for the hub alone
    headers = build_hf_headers(token=None if ours else False)
    headers["Accept-Encoding"] = "identity"  # a part of a compressed body could not be resumed
    with part.open("ab") as file:
        if file.tell() > size:
            file.truncate(0)
            file.seek(0)
        http_get(
            location,
            file,
            resume_size=file.tell(),
            headers=headers,
            expected_size=size,
            displayed_filename=name,
        )
    if part.stat().st_size != size or (sibling.lfs and _sha256(part) != sibling.lfs.sha256):
        part.unlink()
        raise OSError(f"{name} arrived damaged")
    part.replace(path)


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _wanted(names: Sequence[str], patterns: Sequence[str]) -> set[str]:
    """Return the names that the patterns want: of alternatives, those of the first one there."""
    if not patterns:
        return set(names)
    wanted: set[str] = set()
    for pattern in patterns:
        matches = ({name for name in names if fnmatch(name, one)} for one in pattern.split("|"))
        wanted |= next(filter(None, matches), set())
    return wanted


def _is_inside(name: str) -> bool:
    """Tell whether a file name given by a server stays below the directory it is put in."""
    path = PurePosixPath(name)
    return not path.is_absolute() and ".." not in path.parts and "\\" not in name


def _check_space(store: Store, directory: Path, wanted: dict[str, int], repo: str) -> None:
    directory.mkdir(parents=True, exist_ok=True)
    there = sum(path.stat().st_size for path in directory.rglob("*") if path.is_file())
    needed = sum(wanted.values()) - there
    free = shutil.disk_usage(directory).free
    if needed > free:
        raise ModelNotFoundError(
            f"{repo} needs {needed / 1e6:.0f} MB more, and the disk of {store.root} has "
            f"{free / 1e6:.0f} MB free; make room, or point WLK_CACHE_DIR at another disk"
        )


@contextmanager
def _explained(repo: str, store: Store, command: str) -> Iterator[None]:
    """Turn what the hub's library, the network and the disk raise into one clear line."""
    from huggingface_hub import errors  # noqa: PLC0415 -- half a second

    # The transport under the library changed from requests to httpx to httpx2; the bases of its
    # own error lead to the error class of whichever it is.  hf-xet raises RuntimeError.
    network: tuple[type[BaseException], ...] = (OSError, RuntimeError, errors.EntryNotFoundError)
    network += errors.HfHubHTTPError.__bases__
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about disk space, checked here, and old options
            yield
    except ModelNotFoundError:
        raise
    except errors.GatedRepoError as error:
        raise ModelNotFoundError(
            f"{repo} is gated: accept its conditions on its page, then: hf auth login && {command}"
        ) from error
    except errors.RepositoryNotFoundError as error:
        raise ModelNotFoundError(
            f"the hub has no public model called {repo}; check the name, or for a private one: "
            f"hf auth login && {command}"
        ) from error
    except network as error:
        _explain(error, repo, store, command)


def _explain(error: BaseException, repo: str, store: Store, command: str) -> NoReturn:
    chain: list[BaseException] = [error]
    while (cause := chain[-1].__cause__ or chain[-1].__context__) and cause not in chain:
        chain.append(cause)
    system = [link for link in chain if isinstance(link, OSError)]
    codes = {link.errno for link in system}
    if codes & {errno.ENOSPC, errno.EDQUOT}:
        raise ModelNotFoundError(
            f"{repo} was not pulled: the disk of {store.root} is full; make room or point "
            f"WLK_CACHE_DIR at another disk, then: {command}"
        ) from error
    if codes & {errno.EACCES, errno.EPERM, errno.EROFS} or any(link.filename for link in system):
        raise ModelNotFoundError(
            f"{repo} was not pulled: {store.root} cannot be written; point WLK_CACHE_DIR at a "
            f"directory of yours, then: {command}"
        ) from error
    reason = " ".join(str(chain[-1] if str(chain[-1]) else error).split())
    raise ModelNotFoundError(
        f"{repo} was not pulled: {reason or type(error).__name__}; check the connection, then: "
        f"{command} (what is here already is kept and not fetched again)"
    ) from error
