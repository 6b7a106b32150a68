"""The commands ``models``, ``pull`` and ``rm``: list, fetch and remove models."""

from __future__ import annotations

import json
import shutil
import sys
from typing import TYPE_CHECKING

import attrs
import click

from wlk_core import models as store
from wlk_core.cli.main import registry_of
from wlk_core.cli.options import backend_option, complete
from wlk_core.cli.terminal import echo, megabytes, table
from wlk_core.errors import ModelNotFoundError
from wlk_core.registry import missing_requirements, no_backend

if TYPE_CHECKING:
    from collections.abc import Sequence

    from wlk_core.options import ModelSpec


@click.command()
@backend_option(help="Only the models of this backend.")
@click.option("--json", "as_json", is_flag=True, help="Write JSON.")
def models(*, backend: str | None, as_json: bool) -> None:
    """
    List every model that a backend names, and where it is.

    Backends that can be used come first.  A star marks the default model of a backend.  Other
    models are named by their repository (owner/name) or directory.
    """
    registry = registry_of()
    specs: Sequence[ModelSpec] = (
        sorted(registry.specs(), key=lambda spec: bool(missing_requirements(spec)))
        if backend is None
        else [registry.model_spec(backend)]
    )
    rows = store.list_models(specs)
    if as_json:
        echo(json.dumps(list(map(attrs.asdict, rows)), indent=2, default=str))
        return
    if not rows:
        pull = f"no models; get one with: wlk-core pull OWNER/NAME --backend {backend or 'NAME'}"
        echo(pull if specs else no_backend())
        return
    cells = [
        (
            row.backend,
            row.name + ("*" if row.is_default else ""),
            row.state,
            megabytes(row.size),
            row.licence,
            row.repo or "",
        )
        for row in rows
    ]
    echo(table([("BACKEND", "MODEL", "STATE", "SIZE", "LICENCE", "REPOSITORY"), *cells]))


@click.command()
@click.argument("model", shell_complete=complete)
@backend_option(help="Backend, or annotator, that will load the model.", required=True)
def pull(*, model: str, backend: str) -> None:
    """
    Fetch MODEL, a size alias or a repository id (owner/name), into the Hugging Face cache.

    Every tool that uses this cache finds the model there.  An interrupted pull continues where it
    stopped.  HF_HUB_CACHE or HF_HOME chooses another cache, HF_ENDPOINT another hub, HF_TOKEN the
    account.
    """
    row = store.pull(model, registry_of().model_spec(backend))
    if row.revision is None:
        echo(f"{model} is {row.state}: nothing to pull")
        return
    echo(
        f"{model} is ready for {backend}: {row.repo} at {row.revision[:12]}, "
        f"{megabytes(row.size)}, licence {row.licence or 'not named'}"
    )


@click.command()
@click.argument("model", shell_complete=complete)
@backend_option(help="Backend it was pulled for.", required=True)
@click.option("--yes", is_flag=True, help="Do not ask.")
def rm(*, model: str, backend: str, yes: bool) -> int:
    """
    Remove MODEL from the Hugging Face cache.

    It asks first, because every tool on this machine may use the cache.
    """
    repo = store.cached_repo(model, registry_of().model_spec(backend))
    size = megabytes(repo.size)
    # Other tools share the cache: even a model that `pull` fetched may be in use.
    question = f"other tools may use {repo.repo} ({size})"
    if not (yes or sys.stdin.isatty()):
        command = f"wlk-core rm {model} --backend {backend} --yes"
        raise ModelNotFoundError(f"{question}; remove it with: {command}")
    if not (yes or click.confirm(f"{question}. Remove it?", err=True)):
        echo("nothing was removed")
        return 1
    shutil.rmtree(repo.folder)
    echo(f"removed {model}: {size} are free again")
    return 0
