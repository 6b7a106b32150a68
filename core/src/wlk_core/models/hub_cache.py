"""
The Hugging Face cache on disk, read in its documented layout.

Reading it here keeps listings light: the hub's library takes half a second to import.
"""

from __future__ import annotations

from fnmatch import fnmatchcase
import os
from pathlib import Path, PurePosixPath, PureWindowsPath
import re
from typing import TYPE_CHECKING

import attrs

from wlk_core._directories import expanded
from wlk_core.errors import ModelNotFoundError
from wlk_core.models.json_limits import LISTING_LIMITS
from wlk_core.untrusted import parse_limited_json

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

__all__ = [
    "CachedRepo",
    "cache_directory",
    "flat_name",
    "is_commit",
    "is_inside",
    "matching",
    "missing_patterns",
    "offline_mode",
]

_COMMIT = re.compile(r"[0-9a-f]{40}")
_SHARD = re.compile(r"(?P<stem>.+-)(?P<number>\d{5})-of-(?P<count>\d{5})(?P<ending>\..+)")
_MOST_SHARDS = 1000
_LONGEST_PART = 255  # bytes of a part of a path, on every common file system
_WEIGHTS = (".bin", ".ckpt", ".gguf", ".npz", ".onnx", ".pt", ".safetensors")
_TRUE = frozenset({"1", "on", "yes", "true"})


def cache_directory(cache_dir: str | os.PathLike[str] | None = None) -> Path:
    """
    Return *cache_dir*, else the cache that every tool of the hub uses.

    That is $HF_HUB_CACHE, else the folder ``hub`` of $HF_HOME, else ~/.cache/huggingface/hub.

    Raises:
        ModelNotFoundError: the path names a user's home directory that does not exist.

    """
    variables = os.environ
    home = variables.get("HF_HOME") or Path(
        variables.get("XDG_CACHE_HOME") or "~/.cache", "huggingface"
    )
    chosen = (
        cache_dir
        or variables.get("HF_HUB_CACHE")
        or variables.get("HUGGINGFACE_HUB_CACHE")  # the former name, which the library still reads
        or Path(home, "hub")
    )
    path = expanded(chosen)
    if os.fspath(chosen).startswith("~") and Path(os.fspath(chosen)).parts[0] in path.parts:
        raise ModelNotFoundError(
            f"the model cache {os.fspath(chosen)} names a home directory that does not exist; "
            "set HF_HUB_CACHE, or the option cache_dir, to a directory of yours"
        )
    return path


def offline_mode(*, offline: bool | None = None) -> bool:
    """Return whether the network is forbidden: by the argument, else by HF_HUB_OFFLINE."""
    if offline is not None:
        return offline
    # The hub's library reads both variables, the second for the sake of transformers.
    value = os.environ.get("HF_HUB_OFFLINE") or os.environ.get("TRANSFORMERS_OFFLINE") or ""
    return value.lower() in _TRUE


def is_commit(revision: object) -> bool:
    """Return whether *revision* is a full commit hash, and so a safe directory name."""
    return isinstance(revision, str) and _COMMIT.fullmatch(revision) is not None


def is_inside(name: object) -> bool:
    """
    Return whether a file name from outside stays below the directory it is joined to.

    It is printable, no part of it is too long for a file system, and it is written in one way
    only: "a//b" and "./a" would be other names of listed files.
    """
    if not isinstance(name, str) or not name.isprintable() or "\\" in name:
        return False
    path, windows = PurePosixPath(name), PureWindowsPath(name)
    if path.is_absolute() or windows.drive or ".." in path.parts or str(path) != name:
        return False
    return name != "." and all(_bytes(part) <= _LONGEST_PART for part in path.parts)


def _bytes(part: str) -> int:
    return len(part.encode("utf-8", "surrogatepass"))


def flat_name(repo: str) -> str:
    """Return a repository id as one folder name."""
    return repo.replace("/", "--")


def matching(names: Iterable[str], patterns: Sequence[str]) -> set[str]:
    """
    Return the names that `BackendSpec.model_files` selects; all of them without patterns.

    Of alternatives, "this|that", the first one that matches any name counts alone.
    """
    names = set(names)
    if not patterns:
        return names
    selected: set[str] = set()
    for pattern in patterns:
        alternatives = (
            {name for name in names if fnmatchcase(name, alternative)}
            for alternative in pattern.split("|")
        )
        selected |= next(filter(None, alternatives), set())
    return selected


def missing_patterns(directory: Path, needs: Iterable[str]) -> tuple[str, ...]:
    """Return those of the glob patterns *needs* that no file below *directory* matches."""
    return tuple(
        pattern for pattern in needs if not any(path.is_file() for path in directory.glob(pattern))
    )


@attrs.frozen
class CachedRepo:
    """A model repository in a cache: ``models--<owner>--<name>`` with its snapshots."""

    cache: Path
    repo: str

    @property
    def folder(self) -> Path:
        """The folder of the repository, which need not exist."""
        return self.cache / f"models--{flat_name(self.repo)}"

    @property
    def main(self) -> str | None:
        """The commit that the branch main had when any tool last resolved it."""
        try:
            commit = (self.folder / "refs" / "main").read_text(encoding="utf-8").strip()
        except (OSError, ValueError):
            return None
        return commit if is_commit(commit) else None

    def revisions(self) -> tuple[str, ...]:
        """Return the commits of which there is a snapshot, whole or in part."""
        try:
            names = [path.name for path in (self.folder / "snapshots").iterdir()]
        except OSError:
            return ()
        return tuple(sorted(filter(is_commit, names)))

    def named_revisions(self) -> set[str]:
        """Return the commits to which a branch or tag other than main points."""
        refs = self.folder / "refs"
        named = set()
        for path in refs.rglob("*"):
            if path.is_file() and path != refs / "main":
                named.add(path.read_text(encoding="utf-8", errors="replace").strip())
        return named

    def snapshot(self, revision: str) -> Path:
        """Return the directory of a revision, which need not exist."""
        return self.folder / "snapshots" / revision

    def names(self, revision: str) -> set[str]:
        """Return the files of a revision, those whose pointer leads nowhere included."""
        root = self.snapshot(revision)
        return {
            Path(folder, name).relative_to(root).as_posix()
            for folder, _, names in os.walk(root)
            for name in names
        }

    def size(self, revision: str, name: str) -> int | None:
        """Return the bytes of a file; None if it is absent or its pointer leads nowhere."""
        path = self.snapshot(revision) / name
        try:
            return path.stat().st_size if path.is_file() else None
        except OSError:
            return None

    def holds(self, revision: str, files: Mapping[str, int]) -> bool:
        """Return whether every file is there in its full size."""
        return all(self.size(revision, name) == size for name, size in files.items())

    def is_complete(self, revision: str, *, needs: Sequence[str], patterns: Sequence[str]) -> bool:
        """
        Return whether a revision that some tool fetched holds all that a backend loads.

        The tree listing that newer tools leave decides.  Without it, every selected pointer must
        resolve, no shard and no weights may be missing, and no download may be unfinished.
        """
        directory = self.snapshot(revision)
        if not directory.is_dir() or missing_patterns(directory, needs):
            return False
        tree = self._tree(revision)
        if tree is not None:
            selected = matching(tree, patterns)
            return bool(selected) and self.holds(revision, {name: tree[name] for name in selected})
        names = matching(self.names(revision), patterns)
        return (
            bool(names)
            and all(self.size(revision, name) is not None for name in names)
            and _shards(names) <= names
            and _has_weights(names, patterns)
            and not self._has_unfinished_download()
        )

    def _tree(self, revision: str) -> dict[str, int] | None:
        """Return the files of a revision with their sizes, if a tool left its tree listing."""
        path = self.folder / "trees" / f"{revision}.json"
        try:
            files = parse_limited_json(path.read_bytes(), LISTING_LIMITS)["files"]
            tree = {name: entry["size"] for name, entry in files.items()}
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            return None  # a listing is a help, not a need: its layout may change
        is_sound = all(is_inside(name) and type(size) is int for name, size in tree.items())
        return tree if tree and is_sound else None

    def _has_unfinished_download(self) -> bool:
        """Return whether there is a part, ``<etag>[.<random>].incomplete``, without its blob."""
        blobs = self.folder / "blobs"
        return any(
            not (blobs / part.name.partition(".")[0]).exists()
            for part in blobs.glob("*.incomplete")
        )


def _shards(names: Iterable[str]) -> set[str]:
    """Return every shard that the names of some shards imply."""
    shards: set[str] = set()
    for match in filter(None, map(_SHARD.fullmatch, names)):
        count = min(int(match["count"]), _MOST_SHARDS)  # a name is data: it cannot fill memory
        shards |= {
            f"{match['stem']}{number:05}-of-{match['count']}{match['ending']}"
            for number in range(1, count + 1)
        }
    return shards


def _has_weights(names: Iterable[str], patterns: Sequence[str]) -> bool:
    """Return whether there are weights, if the backend declares what its weights are called."""
    declared = [
        alternative
        for pattern in patterns
        for alternative in pattern.split("|")
        if alternative.endswith(_WEIGHTS)
    ]
    return not declared or any(
        fnmatchcase(name, alternative) for name in names for alternative in declared
    )
