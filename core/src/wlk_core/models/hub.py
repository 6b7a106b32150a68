"""Fetch and remove models with huggingface_hub; each ordinary failure is one line."""

from __future__ import annotations

from contextlib import contextmanager
import dataclasses
import errno
import glob
import shutil
import sys
from typing import TYPE_CHECKING, Any

import attrs
import msgspec

from wlk_core.errors import ModelNotFoundError
from wlk_core.models.cache import CARD, CachedRepo, PullRecord, matching, records
from wlk_core.untrusted import one_line

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

__all__ = ["Removal", "download"]

FAULTS_OF_DISKS = dict.fromkeys((errno.ENOSPC, errno.EDQUOT), "is full") | dict.fromkeys(
    (errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR, errno.EEXIST), "cannot be written"
)


def download(repo: CachedRepo, *, backend: str, patterns: Sequence[str], command: str) -> str:
    """
    Download the newest revision of *repo* and return its commit.

    `patterns` are those of BackendSpec.model_files; error messages suggest *command*.  If all files
    are cached already, their checksums are verified and damaged ones are downloaded again.
    """
    import huggingface_hub as library  # noqa: PLC0415 -- half a second
    from huggingface_hub import constants  # noqa: PLC0415 -- as above
    from huggingface_hub.utils.tqdm import disable_progress_bars  # noqa: PLC0415 -- as above

    # Telemetry would also download a list of agent programs and keep it in the cache.
    constants.HF_HUB_DISABLE_TELEMETRY = True
    if not sys.stderr.isatty():
        disable_progress_bars()
    with _explained(repo, command):
        hub = library.HfApi()
        info = hub.model_info(repo.repo, files_metadata=True)
        revision = str(info.sha)
        sizes = {file.rfilename: file.size or 0 for file in info.siblings or ()}
        names = matching(sizes, patterns)
        if not names:
            raise ModelNotFoundError(
                f"{repo.repo} holds none of the files that {backend} needs "
                f"({', '.join(patterns)}); is it a model for another backend?"
            )
        names |= {CARD} & sizes.keys()
        cached = repo.sizes(revision).keys() & names
        ours = {file for earlier in records(repo=repo.repo) for file in earlier.downloaded}
        record = PullRecord(
            backend=backend,
            repo=repo.repo,
            revision=revision,
            files={name: sizes[name] for name in names},
            found=frozenset(name for name in cached if (revision, name) not in ours),
        )
        record.write()  # now, so that `rm` does not ask about the rest of an interrupted pull
        library.snapshot_download(
            repo.repo, cache_dir=repo.cache, allow_patterns=[glob.escape(name) for name in names]
        )
        if cached == names:
            verified = hub.verify_repo_checksums(
                repo.repo, revision=revision, cache_dir=str(repo.cache)
            )
            for name in sorted({file["path"] for file in verified.mismatches} & names):
                library.hf_hub_download(
                    repo.repo, name, revision=revision, cache_dir=repo.cache, force_download=True
                )
        arrived = repo.sizes(revision)  # some mirrors list no sizes
        if missing := sorted(names - arrived.keys()):  # the hub got a new revision meanwhile
            raise OSError(f"{missing[0]} of revision {revision} did not arrive; try again")
        msgspec.structs.replace(record, files={name: arrived[name] for name in names}).write()
        return revision


@attrs.frozen(kw_only=True)
class Removal:
    """A repository to remove from the cache, with the records of its pulls."""

    repo: CachedRepo
    pulls: tuple[PullRecord, ...]
    users: tuple[str, ...]  #: other backends, or "another tool", that may still need the files

    @property
    def size(self) -> int:
        """Bytes of all files in the cache."""
        files = (path for path in self.repo.folder.rglob("*") if path.is_file())
        return sum(path.stat().st_size for path in files if "snapshots" not in path.parts)

    def execute(self) -> None:
        """Remove it, or raise OSError."""
        from huggingface_hub import scan_cache_dir  # noqa: PLC0415 -- half a second

        folder = self.repo.folder
        if folder.is_dir():
            scan = scan_cache_dir(self.repo.cache)
            # Copies of a repository share their commits, and only this one is removed.
            mine = frozenset(repo for repo in scan.repos if repo.repo_path.name == folder.name)
            commits = [revision.commit_hash for repo in mine for revision in repo.revisions]
            dataclasses.replace(scan, repos=mine).delete_revisions(*commits).execute()
        if folder.is_dir():
            shutil.rmtree(folder)  # the library skips damaged entries and interrupted pulls
        for record in self.pulls:
            record.path.unlink(missing_ok=True)


@contextmanager
def _explained(repo: CachedRepo, command: str) -> Iterator[None]:
    """Turn what the hub, the network and the disk raise into a ModelNotFoundError of one line."""
    from huggingface_hub.errors import HfHubHTTPError  # noqa: PLC0415 -- half a second

    client_error: Any = HfHubHTTPError.__bases__[0]  # httpx.HTTPError, or that of its successor
    try:
        yield
    except (OSError, ValueError, RuntimeError, client_error) as error:
        explanation = _explanation(error, repo, command)
        raise ModelNotFoundError(f"{repo.repo} was not pulled: {explanation}") from error


def _explanation(error: BaseException, repo: CachedRepo, command: str) -> str:
    """Return the reason for a failure and its remedy; the library wraps what it runs into."""
    from huggingface_hub import errors  # noqa: PLC0415 -- half a second

    login = f"hf auth login && {command}"
    reason = type(error).__name__
    link: BaseException | None = error
    while link is not None:
        if isinstance(link, errors.GatedRepoError):
            return f"it is gated; accept its conditions on its page, then: {login}"
        if isinstance(link, errors.RepositoryNotFoundError):
            return (
                "the hub has no public model of that name; check the name, or for a private one: "
                f"{login}"
            )
        if isinstance(link, errors.HfHubHTTPError):
            status = link.response.status_code
            remedy = login if status in {401, 403} else f"try again later with: {command}"
            return f"the hub refuses the request ({status}); {remedy}"
        if isinstance(link, OSError) and link.errno in FAULTS_OF_DISKS:
            return (
                f"the disk of {repo.cache} {FAULTS_OF_DISKS[link.errno]}; make room or set "
                f"HF_HUB_CACHE to another directory, then: {command}"
            )
        reason = one_line(str(link)) or reason
        link = link.__cause__ or link.__context__
    kept = "files that are complete are kept and not fetched again"
    return f"{reason}; check the connection, then: {command} ({kept})"
