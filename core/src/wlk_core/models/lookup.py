"""Resolve a model reference to a directory: local, bundled, cached, or pulled from the hub."""

from __future__ import annotations

import os
from pathlib import Path
import re
from typing import TYPE_CHECKING

import attrs

from wlk_core._directories import expanded
from wlk_core.errors import ModelNotFoundError
from wlk_core.models.cache import (
    CachedRepo,
    Removal,
    cache_directory,
    download,
    matching,
    offline_mode,
    records,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from wlk_core.backend import BackendSpec

__all__ = ["Model", "describe_model", "list_models", "locate", "plan_removal", "pull"]

# The hub's own rules (huggingface_hub.utils.validate_repo_id), for ids with an owner.
_REPOSITORY = re.compile(r"(?!.*(--|\.\.))\w([\w.-]*\w)?/\w([\w.-]{0,94}\w)?(?<!\.git)", re.ASCII)


@attrs.frozen(kw_only=True)
class Model:
    """
    A model as ``wlk-core models`` shows it.

    The state is "pulled" (by wlk-core), "cached" (by another tool), "incomplete" or "absent"; for
    a model that comes from no hub "local" (a directory) or the spec's own word, such as "bundled".
    """

    backend: str
    name: str  #: what a user types: the size alias, else the repository id or directory
    repo: str | None  #: None for a bundled or local one
    state: str
    revision: str | None = None  #: the commit in the cache
    size: int | None = None  #: bytes of its files
    licence: str = ""  #: that its model card names
    path: Path | None = None
    is_default: bool = False  #: the backend takes it when no model is named


def list_models(specs: Iterable[BackendSpec]) -> tuple[Model, ...]:
    """Return the models that *specs* name, and those pulled for them; never uses the network."""
    models = []
    for spec in specs:
        pulled = {record.repo for record in records(backend=spec.name)}
        names = [*spec.models, *sorted(pulled - set(spec.models.values()))]
        models += [describe_model(name, spec) for name in names]
    return tuple(models)


def describe_model(name: str, spec: BackendSpec) -> Model:
    """Return the state of one model, named by its alias, its repository or its directory."""
    name = _folded(name, spec)
    word = _local_or_bundled(name, spec)
    model = Model(
        backend=spec.name,
        name=name,
        repo=None if word else spec.models.get(name, name),
        state=word or "absent",
        path=expanded(name) if word == "local" else None,
        is_default=name == spec.default_model,
    )
    if model.repo is None:
        return model
    repo = CachedRepo(cache_directory(), model.repo)
    state, revision = repo.state(spec)
    if revision is None:
        return attrs.evolve(model, state=state)
    sizes = repo.sizes(revision)
    size = sum(sizes[name] for name in matching(sizes, spec.model_files))
    return attrs.evolve(
        model,
        state=state,
        revision=revision,
        size=size,
        licence=repo.licence(revision),
        path=repo.snapshot(revision),
    )


def locate(
    ref: str,
    *,
    spec: BackendSpec,
    bundled: Mapping[str, Path] | None = None,
    cache_dir: str | os.PathLike[str] | None = None,
    needs: Sequence[str] = ("config.json",),
) -> Path:
    """
    Return the directory of the model *ref*: a size alias, a repository id or a local directory.

    An alias precedes a directory of the same name, which is ``./name``.  A model that is not in the
    cache is pulled, unless HF_HUB_OFFLINE forbids it; nothing else uses the network.  `bundled`
    maps the aliases in the plugin's wheel to their directories; each of the glob patterns `needs`
    has to match a file.

    Raises:
        ModelNotFoundError: the model is not available; the message names the command that gets it.

    """
    hint = f"get one with: wlk-core pull MODEL --backend {spec.name}"
    ref = _folded(ref, spec)
    word = _local_or_bundled(ref, spec)
    if word == "local":
        directory = expanded(ref)
        missing = _missing(directory, needs)
        if missing or not directory.is_dir():
            fault = f"holds no {missing}" if directory.is_dir() else "is not a directory"
            raise ModelNotFoundError(f"model {ref}: {directory} {fault}; {hint}")
        return directory
    if word == "bundled" or (bundled and ref in bundled):
        packaged = (bundled or {}).get(ref)
        if packaged is None or _missing(packaged, needs):
            raise ModelNotFoundError(
                f"the bundled model {ref} of {spec.name} is incomplete: install its plugin again "
                "with: pip install --force-reinstall"
            )
        return packaged
    repo = CachedRepo(cache_directory(cache_dir), _repository(ref, spec))
    state, revision = repo.state(spec)
    if state == "cached" and _missing(repo.snapshot(str(revision)), needs):
        state = "incomplete"  # by the standard of the backend
    if revision is None or state == "incomplete":
        revision = _pull(ref, repo, spec)
    directory = repo.snapshot(revision)
    if missing := _missing(directory, needs):
        raise ModelNotFoundError(
            f"{repo.repo} is not a model for {spec.name}: it holds no {missing}; {hint}"
        )
    return directory


def pull(ref: str, spec: BackendSpec) -> Model:
    """
    Download the newest revision of a model into the cache; a bundled one is returned as it is.

    Raises ModelNotFoundError with the reason and a remedy.
    """
    ref = _folded(ref, spec)
    word = _local_or_bundled(ref, spec)
    if word == "local":
        raise ModelNotFoundError(
            f"{ref} is a directory and needs no pulling; use it with: --model {ref}"
        )
    if word is None:
        _pull(ref, CachedRepo(cache_directory(), _repository(ref, spec)), spec)
    return describe_model(ref, spec)


def plan_removal(ref: str, spec: BackendSpec) -> Removal:
    """Return what there is to remove of *ref*, or raise ModelNotFoundError; removes nothing."""
    ref = _folded(ref, spec)
    if word := _local_or_bundled(ref, spec):
        raise ModelNotFoundError(f"{ref} is {word} and was never pulled: nothing can be removed")
    repo = CachedRepo(cache_directory(), _repository(ref, spec))
    pulls = tuple(records(repo=repo.repo))
    if not pulls and not repo.folder.is_dir():
        raise ModelNotFoundError(
            f"{ref} is not in the cache; what is: wlk-core models --backend {spec.name}"
        )
    ours = {file for record in pulls for file in record.downloaded}
    revisions = [folder.name for folder in repo.folder.glob("snapshots/*")]
    cached = {(revision, name) for revision in revisions for name in repo.sizes(revision)}
    users = sorted({record.backend for record in pulls} - {spec.name})
    if cached - ours or not pulls:
        users.append("another tool")
    return Removal(repo=repo, pulls=pulls, users=tuple(users))


def _folded(ref: str, spec: BackendSpec) -> str:
    """Return the alias that *ref* is in another case, such as "Tiny.EN"; else *ref*."""
    if ref in spec.models or Path(ref).exists():
        return ref
    return next((name for name in spec.models if name.casefold() == ref.casefold()), ref)


def _missing(directory: Path, needs: Sequence[str]) -> str:
    """Return the glob patterns in *needs* that no file in *directory* matches."""
    return ", ".join(
        need for need in needs if not any(path.is_file() for path in directory.glob(need))
    )


def _local_or_bundled(ref: str, spec: BackendSpec) -> str | None:
    """Return "local", or the word in *spec* such as "bundled"; None for a model of the hub."""
    if ref in spec.models:
        source = spec.models[ref]
        return None if _REPOSITORY.fullmatch(source) else source
    is_path = ref.startswith((".", "/", "~")) or (os.sep != "/" and os.sep in ref)
    return "local" if is_path or (ref and Path(ref).exists()) else None


def _repository(ref: str, spec: BackendSpec) -> str:
    """Return the repository id of an alias or of an id, or raise ModelNotFoundError."""
    repo = spec.models.get(ref, ref)
    if _REPOSITORY.fullmatch(repo):
        return repo
    known = ", ".join(spec.models) or "none"
    raise ModelNotFoundError(
        f"{spec.name} has no model called {ref!r}; expected one of {known}, a repository id "
        f"(owner/name) or a directory; get one with: wlk-core pull MODEL --backend {spec.name}"
    )


def _pull(ref: str, repo: CachedRepo, spec: BackendSpec) -> str:
    command = f"wlk-core pull {ref} --backend {spec.name}"
    if offline_mode():
        fault = "is not complete in the cache" if repo.folder.is_dir() else "is not on this machine"
        raise ModelNotFoundError(
            f"model {ref} {fault} and the network is switched off; "
            f"get it while online with: {command}"
        )
    return download(repo, backend=spec.name, patterns=spec.model_files, command=command)
