"""Models: the commands ``models``, ``pull`` and ``rm``."""

from __future__ import annotations

import json

import attrs
import click

from wlk_core import models as store
from wlk_core.cli.main import registry_of
from wlk_core.cli.tables import megabytes, table


@click.command(short_help="List the models.")
@click.option("--backend", metavar="NAME", help="Only the models of this backend.")
@click.option("--json", "as_json", is_flag=True, help="Write JSON.")
@click.pass_context
def models(context: click.Context, *, backend: str | None, as_json: bool) -> None:
    """
    List every model a backend names or that was pulled for it, and where it is.

    A star marks the model that a backend takes by default.  Other models are named by their
    repository (owner/name) or directory.
    """
    registry = registry_of(context)
    specs = registry.specs() if backend is None else (registry.spec(backend),)
    rows = store.list_models(specs)
    if as_json:
        described = [attrs.asdict(row) | {"path": row.path and str(row.path)} for row in rows]
        click.echo(json.dumps(described, indent=2))
        return
    if not specs:
        click.echo("no backend is installed; install one, for example: pip install wlk-whisper")
        return
    click.echo(
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


@click.command(short_help="Fetch a model.")
@click.argument("model")
@click.option("--backend", metavar="NAME", required=True, help="The backend it is for.")
@click.pass_context
def pull(context: click.Context, *, model: str, backend: str) -> None:
    """
    Fetch MODEL, a size alias or a repository id (owner/name), from its hub.

    An interrupted pull goes on where it stopped.  HF_ENDPOINT chooses another hub, WLK_CACHE_DIR
    another place.
    """
    row = store.pull(model, registry_of(context).spec(backend))
    if row.state != "pulled":
        click.echo(f"{model} is {row.state}: nothing to pull")
        return
    click.echo(
        f"{model} is here for {backend}: {row.repo} at {(row.revision or '')[:12]}, "
        f"{megabytes(row.size)}"
    )


@click.command(short_help="Remove a model.")
@click.argument("model")
@click.option("--backend", metavar="NAME", required=True, help="The backend it was pulled for.")
@click.pass_context
def rm(context: click.Context, *, model: str, backend: str) -> None:
    """Remove what pulling MODEL brought, and nothing else."""
    freed = store.remove(model, registry_of(context).spec(backend))
    click.echo(f"removed {model} of {backend}: {megabytes(freed)} are free again")
