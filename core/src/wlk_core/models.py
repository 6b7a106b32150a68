"""The model store: a name becomes a directory of model files, pulled from a hub where needed."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs

from wlk_core._store import Record, Store, hub_cache_snapshot, is_repository, lacking, offline_mode
from wlk_core.errors import ModelNotFoundError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from wlk_core.backend import BackendSpec

__all__ = ["Model", "list_models", "locate", "offline_mode", "pull", "read_settings", "remove"]

BUNDLED = "bundled"  # what `BackendSpec.models` says of a model that comes in the plugin's wheel


@attrs.frozen(kw_only=True)
class Model:
    """
    A model as ``wlk-core models`` shows it.

    Attributes:
        backend: the backend it belongs to.
        name: what is asked for: the size alias, else the repository id.
        repo: the repository it comes from, None for a bundled one.
        state: "pulled", "hub cache" (another program's, only read) or "absent"; for a model that
            is not fetched from a hub the spec's own word for it, such as "bundled".
        revision: the revision that was pulled, None where it was not.
        size: bytes on disk, None where they are not counted.
        path: where it lies, None for absent and bundled ones.
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
    in the plugin's wheel to their directories; `needs` are glob patterns that a model must hold.

    Raises:
        ModelNotFoundError: the model is not to be had; the message names the command that gets it.

    """
    if _is_local(ref, spec):
        return _local(ref, spec, needs)
    if spec.models.get(ref) == BUNDLED or (bundled and ref in bundled):
        return _bundled(ref, spec, bundled or {}, needs)
    repo = _repository(ref, spec)
    store = Store.at(cache_dir)
    record = store.record(repo, spec.name)
    if record is None:
        cached = hub_cache_snapshot(repo)
        if cached is not None and not lacking(cached, needs):
            return cached
        record = _pull(ref, repo, spec, store, offline=offline)
    directory = store.directory(repo, record.revision)
    if missing := lacking(directory, needs):
        raise ModelNotFoundError(
            f"{repo} is no model for {spec.name}: it holds no {', '.join(missing)}; {_hint(spec)}"
        )
    return directory


def pull(ref: str, spec: BackendSpec, *, cache_dir: str | os.PathLike[str] | None = None) -> Model:
    """
    Bring the newest revision of a model into the store, with a progress bar on a terminal.

    A model that comes from no hub is returned as it is.  Interrupted, it leaves nothing that
    counts as a model, and the next run goes on where it stopped.  A complete older revision stays
    usable until the new one is complete.

    Raises:
        ModelNotFoundError: it cannot be had; the message says why and what helps.

    """
    if _is_local(ref, spec):
        raise ModelNotFoundError(
            f"{ref} is a directory and needs no pulling; use it with: --model {ref}"
        )
    store = Store.at(cache_dir)
    if _word(ref, spec):
        return _row(ref, spec, store)
    _pull(ref, _repository(ref, spec), spec, store, offline=None)
    return _row(ref, spec, store)


def remove(ref: str, spec: BackendSpec, *, cache_dir: str | os.PathLike[str] | None = None) -> int:
    """
    Remove what pulling *ref* brought, and nothing else; return the bytes that became free.

    The rest of an interrupted pull counts as brought.  The hub's own cache is never touched.

    Raises:
        ModelNotFoundError: it was never pulled, or is bundled or a local directory.

    """
    if word := _word(ref, spec):
        raise ModelNotFoundError(f"{ref} is {word} and was never pulled: nothing can be removed")
    if _is_local(ref, spec):
        raise ModelNotFoundError(f"{ref} is a directory of yours: it was never pulled")
    repo = _repository(ref, spec)
    freed = Store.at(cache_dir).remove(repo, spec.name)
    if freed is not None:
        return freed
    cached = hub_cache_snapshot(repo)
    where = f"; {cached} was fetched by another program" if cached else ""
    raise ModelNotFoundError(
        f"{ref} was never pulled for {spec.name}{where}; "
        f"what was: wlk-core models --backend {spec.name}"
    )


def list_models(
    specs: Iterable[BackendSpec], *, cache_dir: str | os.PathLike[str] | None = None
) -> tuple[Model, ...]:
    """Return the models that *specs* name, and those pulled for them; never uses the network."""
    store = Store.at(cache_dir)
    rows = []
    for spec in specs:
        rows += [_row(alias, spec, store) for alias in spec.models]
        named = set(spec.models.values())
        rows += [
            _row(record.repo, spec, store)
            for record in store.records()
            if record.backend == spec.name and record.repo not in named
        ]
    return tuple(rows)


def read_settings(path: Path) -> dict[str, Any]:
    """
    Return the table in a JSON file of a model, an empty one where there is no file or no table.

    Raises:
        ModelNotFoundError: the file is damaged.

    """
    if not path.is_file():
        return {}
    try:
        told = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ModelNotFoundError(f"{path} is damaged: {error}; pull the model again") from error
    return told if isinstance(told, dict) else {}


def _pull(ref: str, repo: str, spec: BackendSpec, store: Store, *, offline: bool | None) -> Record:
    command = f"wlk-core pull {ref} --backend {spec.name}"
    if offline_mode(offline=offline):
        raise ModelNotFoundError(
            f"model {ref} is not on this machine and the network is switched off; "
            f"get it while online with: {command}"
        )
    from wlk_core._hub import download  # noqa: PLC0415 -- brings the hub's library

    return download(
        repo, backend=spec.name, patterns=spec.model_files, store=store, command=command
    )


def _word(ref: str, spec: BackendSpec) -> str | None:
    """Return the spec's word for a model that comes from no hub, such as "bundled"."""
    source = spec.models.get(ref, ref)
    return source if ref in spec.models and not is_repository(source) else None


def _is_local(ref: str, spec: BackendSpec) -> bool:
    if ref in spec.models:
        return False
    marked = ref.startswith((".", "/", "~")) or (os.sep != "/" and os.sep in ref)
    return marked or (ref != "" and Path(ref).exists())


def _local(ref: str, spec: BackendSpec, needs: Sequence[str]) -> Path:
    directory = Path(ref).expanduser()
    if not directory.is_dir():
        kind = "is a file" if directory.exists() else "does not exist"
        raise ModelNotFoundError(f"model {ref}: expected a directory, and it {kind}; {_hint(spec)}")
    if missing := lacking(directory, needs):
        raise ModelNotFoundError(
            f"model {ref}: the directory holds no {', '.join(missing)}, which {spec.name} needs; "
            f"{_hint(spec)}"
        )
    return directory


def _bundled(
    ref: str, spec: BackendSpec, bundled: Mapping[str, Path], needs: Sequence[str]
) -> Path:
    directory = bundled.get(ref)
    if directory is None or lacking(directory, needs):
        raise ModelNotFoundError(
            f"model {ref} should have come with the plugin of {spec.name} and is incomplete: "
            "install that again, with: pip install --force-reinstall"
        )
    return directory


def _repository(ref: str, spec: BackendSpec) -> str:
    repo = spec.models.get(ref, ref)
    if is_repository(repo):
        return repo
    known = ", ".join(spec.models) or "none"
    raise ModelNotFoundError(
        f"{spec.name} knows no model called {ref!r}; expected one of {known}, a repository id "
        f"(owner/name) or a directory; get one with: wlk-core pull MODEL --backend {spec.name}"
    )


def _hint(spec: BackendSpec) -> str:
    return (
        f"see: wlk-core models --backend {spec.name}, "
        f"get one with: wlk-core pull MODEL --backend {spec.name}"
    )


def _row(name: str, spec: BackendSpec, store: Store) -> Model:
    word = _word(name, spec)
    row = Model(
        backend=spec.name,
        name=name,
        repo=None if word else spec.models.get(name, name),
        state=word or "absent",
        is_default=name == spec.default_model,
    )
    if row.repo is None:
        return row
    if record := store.record(row.repo, spec.name):
        return attrs.evolve(
            row,
            state="pulled",
            revision=record.revision,
            size=record.size,
            path=store.directory(record.repo, record.revision),
        )
    if snapshot := hub_cache_snapshot(row.repo):
        return attrs.evolve(row, state="hub cache", revision=snapshot.name, path=snapshot)
    return row
