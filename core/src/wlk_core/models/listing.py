"""The models that backends name and those that were pulled for them, and where each one is."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from wlk_core.models.checksums import is_sound
from wlk_core.models.hub_answers import named_by_checksum
from wlk_core.models.hub_cache import CachedRepo, cache_directory, matching
from wlk_core.models.pull_record import records
from wlk_core.models.references import is_local, local_directory, packaged_word
from wlk_core.models.state import cached_state

if TYPE_CHECKING:
    from collections.abc import Iterable
    import os
    from pathlib import Path

    from wlk_core.backend import BackendSpec

__all__ = ["Model", "damaged_files", "describe_model", "list_models"]


@attrs.frozen(kw_only=True)
class Model:
    """
    A model as ``wlk-core models`` shows it.

    Attributes:
        backend: the backend it belongs to.
        name: what a user types: the size alias, else the repository id.
        repo: the repository it comes from, None for a bundled one.
        state: "pulled" (by wlk-core), "cached" (by another tool), "incomplete" or "absent"; for a
            model that is not fetched from a hub "local" (a directory) or the spec's own word, such
            as "bundled".
        revision: the commit in the cache, None without a snapshot.
        size: bytes of its files on disk, None without any.
        path: its directory, None for absent and bundled ones.
        is_default: whether the backend takes it when no model is named.

    """

    backend: str
    name: str
    repo: str | None
    state: str
    revision: str | None = None
    size: int | None = None
    path: Path | None = None
    is_default: bool = False


def list_models(
    specs: Iterable[BackendSpec], *, cache_dir: str | os.PathLike[str] | None = None
) -> tuple[Model, ...]:
    """Return the models that *specs* name, and those pulled for them; never uses the network."""
    models = []
    for spec in specs:
        pulled = {record.repo for record in records(backend=spec.name)}
        names = [*spec.models, *sorted(pulled - set(spec.models.values()))]
        models += [describe_model(name, spec, cache_dir=cache_dir) for name in names]
    return tuple(models)


def describe_model(
    name: str, spec: BackendSpec, *, cache_dir: str | os.PathLike[str] | None = None
) -> Model:
    """Return the state of one model, named by its alias, its repository or its directory."""
    is_directory = is_local(name, spec)
    word = "local" if is_directory else packaged_word(name, spec)
    model = Model(
        backend=spec.name,
        name=name,
        repo=None if word else spec.models.get(name, name),
        state=word or "absent",
        path=local_directory(name) if is_directory else None,
        is_default=name == spec.default_model,
    )
    if model.repo is None:
        return model
    repo = CachedRepo(cache_directory(cache_dir), model.repo)
    state = cached_state(repo, spec)
    if state.revision is None:
        return attrs.evolve(model, state=state.word)
    names = matching(repo.names(state.revision), spec.model_files)
    return attrs.evolve(
        model,
        state=state.word,
        revision=state.revision,
        size=sum(repo.size(state.revision, name) or 0 for name in names),
        path=repo.snapshot(state.revision),
    )


def damaged_files(model: Model, spec: BackendSpec) -> tuple[str, ...]:
    """
    Return the files of a model in the cache whose content differs from its checksum.

    The name of a blob is the checksum of its content.  Files that are no pointers to a blob, as on
    a Windows without symbolic links, have none and count as sound.  Reads every byte of the model.
    """
    if model.repo is None or model.revision is None or model.path is None:
        return ()
    repo = CachedRepo(model.path.parents[2], model.repo)
    names = matching(repo.names(model.revision), spec.model_files)
    return tuple(
        name
        for name in sorted(names)
        if (path := model.path / name).is_file()
        and path.is_symlink()
        and not is_sound(path, named_by_checksum(path.readlink().name))
    )
