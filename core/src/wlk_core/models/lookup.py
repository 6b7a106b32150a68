"""From a model reference to a directory: local, bundled, cached, or pulled from the hub."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wlk_core.errors import ModelNotFoundError
from wlk_core.models.hub_cache import (
    CachedRepo,
    cache_directory,
    missing_patterns,
    offline_mode,
)
from wlk_core.models.listing import Model, describe_model
from wlk_core.models.references import (
    BUNDLED,
    is_local,
    local_directory,
    packaged_word,
    repository,
)
from wlk_core.models.state import cached_state

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    import os
    from pathlib import Path

    from wlk_core.backend import BackendSpec

__all__ = ["locate", "pull"]


def locate(
    ref: str,
    *,
    spec: BackendSpec,
    bundled: Mapping[str, Path] | None = None,
    cache_dir: str | os.PathLike[str] | None = None,
    offline: bool | None = None,
    needs: Sequence[str] = ("config.json",),
) -> Path:
    """
    Return the directory of the model *ref*: a size alias, a repository id or a local directory.

    An alias is an alias even beside a directory of that name; ``./name`` is the directory.  A
    local directory, a bundled model and a cached one never touch the network.  Any other is
    pulled, unless `offline` or HF_HUB_OFFLINE forbids it.  `bundled` maps the aliases that come
    in the plugin's wheel to their directories, `cache_dir` is a cache of the hub's library, and
    `needs` are glob patterns that a model must hold.

    Raises:
        ModelNotFoundError: the model is not available; the message names the command that gets it.

    """
    if is_local(ref, spec):
        return _local(ref, spec, needs)
    if spec.models.get(ref) == BUNDLED or (bundled and ref in bundled):
        return _bundled(ref, spec, bundled or {}, needs)
    repo = CachedRepo(cache_directory(cache_dir), repository(ref, spec))
    revision = cached_state(repo, spec, needs=needs).usable_revision
    directory = repo.snapshot(revision or _pull(ref, repo, spec, offline=offline))
    if missing := missing_patterns(directory, needs):
        raise ModelNotFoundError(
            f"{repo.repo} is no model for {spec.name}: it holds no {', '.join(missing)}; "
            f"{_hint(spec)}"
        )
    return directory


def pull(ref: str, spec: BackendSpec, *, cache_dir: str | os.PathLike[str] | None = None) -> Model:
    """
    Bring the newest revision of a model into the hub's cache, with a progress bar on a terminal.

    A model that comes from no hub is returned as it is.  An interrupted pull leaves nothing that
    counts as a model; the next pull fetches only the files that are not complete.  An older
    complete revision stays usable until the new one is complete.

    Raises:
        ModelNotFoundError: it cannot be fetched; the message has the reason and what helps.

    """
    if is_local(ref, spec):
        raise ModelNotFoundError(
            f"{ref} is a directory and needs no pulling; use it with: --model {ref}"
        )
    if packaged_word(ref, spec) is None:
        repo = CachedRepo(cache_directory(cache_dir), repository(ref, spec))
        _pull(ref, repo, spec, offline=None)
    return describe_model(ref, spec, cache_dir=cache_dir)


def _pull(ref: str, repo: CachedRepo, spec: BackendSpec, *, offline: bool | None) -> str:
    """Pull the newest revision and return it."""
    command = f"wlk-core pull {ref} --backend {spec.name}"
    if offline_mode(offline=offline):
        state = "is not complete in the cache" if repo.folder.is_dir() else "is not on this machine"
        raise ModelNotFoundError(
            f"model {ref} {state} and the network is switched off; "
            f"get it while online with: {command}"
        )
    from wlk_core.models.download import download  # noqa: PLC0415 -- brings the hub's library

    return download(repo, backend=spec.name, patterns=spec.model_files, command=command).revision


def _local(ref: str, spec: BackendSpec, needs: Sequence[str]) -> Path:
    directory = local_directory(ref)
    if not directory.is_dir():
        kind = "is a file" if directory.exists() else "does not exist"
        raise ModelNotFoundError(f"model {ref}: expected a directory, and it {kind}; {_hint(spec)}")
    if missing := missing_patterns(directory, needs):
        raise ModelNotFoundError(
            f"model {ref}: the directory holds no {', '.join(missing)}, which {spec.name} needs; "
            f"{_hint(spec)}"
        )
    return directory


def _bundled(
    ref: str, spec: BackendSpec, bundled: Mapping[str, Path], needs: Sequence[str]
) -> Path:
    directory = bundled.get(ref)
    if directory is None or missing_patterns(directory, needs):
        raise ModelNotFoundError(
            f"model {ref} should have come with the plugin of {spec.name} and is incomplete: "
            "install that again, with: pip install --force-reinstall"
        )
    return directory


def _hint(spec: BackendSpec) -> str:
    return (
        f"see: wlk-core models --backend {spec.name}, "
        f"get one with: wlk-core pull MODEL --backend {spec.name}"
    )
