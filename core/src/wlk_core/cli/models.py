"""Models: the commands ``models``, ``pull`` and ``rm``."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING

import attrs
import click

from wlk_core import models as store
from wlk_core.cli.main import print_error, registry_of
from wlk_core.cli.plugins import install_hint
from wlk_core.cli.tables import megabytes, table
from wlk_core.cli.terminal import echo
from wlk_core.errors import ModelNotFoundError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from wlk_core.registry import Registry


@click.command(short_help="List the models.")
@click.option("--backend", metavar="NAME", help="Only the models of this backend.")
@click.option("--check", is_flag=True, help="Read every file and compare it with its checksum.")
@click.option("--json", "as_json", is_flag=True, help="Write JSON.")
@click.pass_context
def models(context: click.Context, *, backend: str | None, check: bool, as_json: bool) -> int:
    """
    List every model a backend names or that was pulled for it, and where it is.

    A star marks the model that a backend takes by default.  Other models are named by their
    repository (owner/name) or directory.  With --check the exit status is 1 if one is damaged.
    """
    registry = registry_of(context)
    specs = registry.specs() if backend is None else (registry.spec(backend),)
    rows = store.list_models(specs)
    damaged = _damaged(rows, registry) if check else {}
    rows = tuple(
        attrs.evolve(row, state="damaged") if (row.backend, row.name) in damaged else row
        for row in rows
    )
    for (owner, name), files in damaged.items():
        print_error(
            f"{name} of {owner} is damaged: {', '.join(files)}; "
            f"repair it with: wlk-core pull {name} --backend {owner}"
        )
    status = 1 if damaged else 0
    if as_json:
        described = [attrs.asdict(row) | {"path": row.path and str(row.path)} for row in rows]
        echo(json.dumps(described, indent=2))
        return status
    if not specs:
        echo(install_hint())
        return status
    echo(
        table(
            (
                row.backend,
                row.name + ("*" if row.is_default else ""),
                row.state,
                megabytes(row.size),
                row.repo or "",
            )
            for row in rows
        )
        or f"no models; get one with: wlk-core pull OWNER/NAME --backend {specs[0].name}"
    )
    return status


def _damaged(
    rows: Iterable[store.Model], registry: Registry
) -> dict[tuple[str, str], tuple[str, ...]]:
    """Return the damaged files of each model that has some, by backend and name."""
    found = {
        (row.backend, row.name): store.damaged_files(row, registry.spec(row.backend))
        for row in rows
    }
    return {key: files for key, files in found.items() if files}


@click.command(short_help="Fetch a model.")
@click.argument("model")
@click.option("--backend", metavar="NAME", required=True, help="Backend that will load the model.")
@click.pass_context
def pull(context: click.Context, *, model: str, backend: str) -> None:
    """
    Fetch MODEL, a size alias or a repository id (owner/name), into the Hugging Face cache.

    Every tool that uses this cache finds the model there.  An interrupted pull goes on where it
    stopped.  HF_HUB_CACHE or HF_HOME chooses another cache, HF_ENDPOINT another hub, HF_TOKEN the
    account.
    """
    row = store.pull(model, registry_of(context).spec(backend))
    if row.state != "pulled":
        echo(f"{model} is {row.state}: nothing to pull")
        return
    echo(
        f"{model} is ready for {backend}: {row.repo} at {(row.revision or '')[:12]}, "
        f"{megabytes(row.size)}"
    )


@click.command(short_help="Remove a model.")
@click.argument("model")
@click.option("--backend", metavar="NAME", required=True, help="Backend it was pulled for.")
@click.option(
    "--yes", is_flag=True, help="Also remove files that another tool fetched; ask nothing."
)
@click.pass_context
def rm(context: click.Context, *, model: str, backend: str, yes: bool) -> int:
    """
    Remove what pulling MODEL brought, except files that another backend needs.

    A model that another tool fetched is removed only after a question, or with --yes.
    """
    removal = store.plan_removal(model, registry_of(context).spec(backend))
    foreign = yes
    if not removal.pulls and not yes:
        question = (
            f"{model} was fetched by another tool, which may still use it "
            f"({megabytes(removal.foreign_size)})"
        )
        if not sys.stdin.isatty():
            raise ModelNotFoundError(
                f"{question}; remove it nevertheless with: "
                f"wlk-core rm {model} --backend {backend} --yes"
            )
        if not click.confirm(f"{question}. Remove it?", err=True):
            echo("nothing was removed")
            return 1
        foreign = True
    freed = removal.execute(foreign=foreign)
    stays = ""
    if removal.foreign and not foreign:
        stays = f"; {len(removal.foreign)} files that another tool fetched stay"
    echo(f"removed {model} of {backend}: {megabytes(freed)} are free again{stays}")
    return 0
