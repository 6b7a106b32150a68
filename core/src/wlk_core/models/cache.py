"""
The Hugging Face cache: what it holds, downloads to it, and a record of each pull.

Each ordinary failure of huggingface_hub is one line.
"""

from __future__ import annotations

from contextlib import contextmanager
import errno
from fnmatch import fnmatchcase
import glob
import os
from pathlib import Path
import re
import shutil
import sys
from typing import TYPE_CHECKING, Any

import attrs
import msgspec

from wlk_core._directories import data_directory
from wlk_core.errors import ModelNotFoundError
from wlk_core.untrusted import one_line

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from wlk_core.backend import BackendSpec

__all__ = [
    "CachedRepo",
    "PullRecord",
    "Removal",
    "cache_directory",
    "download",
    "matching",
    "offline_mode",
    "records",
]

CARD = "README.md"  #: of a model, with its licence
WEIGHTS = (".bin", ".npz", ".safetensors")
FAULTS_OF_DISKS = dict.fromkeys((errno.ENOSPC, errno.EDQUOT), "is full") | dict.fromkeys(
    (errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR, errno.EEXIST), "cannot be written"
)


def cache_directory(cache_dir: str | os.PathLike[str] | None = None) -> Path:
    """
    Return *cache_dir*, else the directory that huggingface_hub uses.

    Its rules are repeated here, because a listing should not wait half a second for its import.
    """
    variables = os.environ
    caches = variables.get("XDG_CACHE_HOME") or "~/.cache"
    home = variables.get("HF_HOME") or Path(caches, "huggingface")
    chosen = cache_dir or variables.get("HF_HUB_CACHE") or variables.get("HUGGINGFACE_HUB_CACHE")
    return Path(chosen or Path(home, "hub")).expanduser()


def offline_mode() -> bool:
    """Return whether HF_HUB_OFFLINE forbids the network, or TRANSFORMERS_OFFLINE, its old name."""
    value = os.environ.get("HF_HUB_OFFLINE") or os.environ.get("TRANSFORMERS_OFFLINE") or ""
    return value.lower() in ("1", "on", "yes", "true")


def matching(names: Iterable[str], patterns: Sequence[str]) -> set[str]:
    """Return the names that `BackendSpec.model_files` selects; all of them without patterns."""
    names = set(names)
    selected = set() if patterns else names
    for pattern in patterns:
        for alternative in pattern.split("|"):
            if matched := {name for name in names if fnmatchcase(name, alternative)}:
                selected |= matched
                break  # the first alternative that matches any name counts alone
    return selected


class PullRecord(msgspec.Struct, frozen=True, kw_only=True):
    """The files that a pull for a backend downloaded, or had yet to when it was interrupted."""

    backend: str
    repo: str
    revision: str  #: the commit
    files: dict[str, int]  #: bytes by name in the snapshot
    found: frozenset[str] = frozenset()  #: files that another tool had downloaded before

    @property
    def path(self) -> Path:
        """The file of this record."""
        repo = self.repo.replace("/", "--")
        return data_directory() / "pulled" / self.backend / repo / f"{self.revision}.json"

    @property
    def downloaded(self) -> set[tuple[str, str]]:
        """The revision and name of each file that no other tool had downloaded."""
        return {(self.revision, name) for name in self.files.keys() - self.found}

    def write(self) -> None:
        """Write the record to its file."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self.path.write_bytes(msgspec.json.encode(self, order="deterministic"))


def records(*, backend: str = "*", repo: str = "*") -> Iterator[PullRecord]:
    """Iterate over the records of a backend, a repository or both, sorted by path."""
    folder = data_directory() / "pulled"
    for path in sorted(folder.glob(f"{backend}/{repo.replace('/', '--')}/*.json")):
        try:
            yield msgspec.json.decode(path.read_bytes(), type=PullRecord)
        except (OSError, ValueError):
            continue  # truncated: its files count as another tool's


@attrs.frozen
class CachedRepo:
    """A model repository in a cache."""

    cache: Path
    repo: str

    @property
    def folder(self) -> Path:
        """The folder of the repository, which need not exist."""
        return self.cache / f"models--{self.repo.replace('/', '--')}"

    @property
    def main(self) -> str | None:
        """The commit that the branch main had when any tool last resolved it."""
        path = self.folder / "refs" / "main"
        return path.read_text(encoding="utf-8").strip() if path.is_file() else None

    def snapshot(self, revision: str) -> Path:
        """Return the directory of a revision, which need not exist."""
        return self.folder / "snapshots" / revision

    def sizes(self, revision: str) -> dict[str, int]:
        """Return the bytes of each file of a revision; dangling links are left out."""
        root = self.snapshot(revision)
        files = (path for path in root.rglob("*") if path.is_file())
        return {path.relative_to(root).as_posix(): path.stat().st_size for path in files}

    def licence(self, revision: str) -> str:
        """Return the licence that the model card names, empty without one."""
        card = self.snapshot(revision) / CARD
        text = card.read_bytes()[:4096].decode(errors="replace") if card.is_file() else ""
        found = re.search(r"^license: *([\w.+-]+)", text, re.MULTILINE)
        return found[1] if found else ""

    def is_complete(self, revision: str, patterns: Sequence[str]) -> bool:
        """Return whether a revision that any tool downloaded holds all that a backend loads."""
        from huggingface_hub import errors, get_cached_repo_tree  # noqa: PLC0415 -- half a second

        cached = self.sizes(revision)
        try:
            tree = get_cached_repo_tree(self.repo, revision=revision, cache_dir=self.cache)
        except errors.CachedRepoTreeNotFoundError:
            # Only `snapshot_download` stores the list; other tools may fetch single files.
            weights = [part for part in "|".join(patterns).split("|") if part.endswith(WEIGHTS)]
            has_weights = any(fnmatchcase(name, part) for name in cached for part in weights)
            is_unfinished = any((self.folder / "blobs").glob("*.incomplete"))
            return bool(cached) and (has_weights or not weights) and not is_unfinished
        listed = {file.path: file.size for file in tree}
        return all(cached.get(name) == listed[name] for name in matching(listed, patterns))

    def state(self, spec: BackendSpec) -> tuple[str, str | None]:
        """
        Return the state for a backend, as in `Model`, and the commit, None without a snapshot.

        A complete pull precedes all else, so that a failed update leaves the older revision usable.
        """
        main = self.main
        for record in sorted(
            records(backend=spec.name, repo=self.repo), key=lambda record: record.revision != main
        ):
            if record.files.items() <= self.sizes(record.revision).items():
                return "pulled", record.revision
        if main is None or not self.snapshot(main).is_dir():
            return "incomplete" if self.folder.is_dir() else "absent", None
        return "cached" if self.is_complete(main, spec.model_files) else "incomplete", main


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
        if self.repo.folder.is_dir():
            shutil.rmtree(self.repo.folder)
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
