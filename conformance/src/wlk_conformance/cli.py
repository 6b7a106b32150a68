"""The command ``wlk-conformance``: judge an installed backend."""

from __future__ import annotations

from pathlib import Path
import shutil
import sys
from typing import NoReturn

import click

from wlk_core.errors import WLKError

__all__ = ["main", "run"]

EXIT_COMPLIANT, EXIT_NOT_COMPLIANT, EXIT_USAGE = 0, 1, 2


def run() -> None:
    """Run the command; errors are one line each."""
    try:
        main()
    except WLKError as error:
        click.echo(f"wlk-conformance: {error}", err=True)
        sys.exit(EXIT_USAGE)


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("backend")
@click.option("--model", metavar="REF", help="Size alias, repository id or directory.")
@click.option("--policy", metavar="NAME", help="How text is decided to be final.")
@click.option(
    "--option",
    "options",
    metavar="KEY=VALUE",
    multiple=True,
    help="An option of the backend or its streams; may be repeated.",
)
@click.option("--speech", is_flag=True, help="Run the speech tier too: known words and times.")
@click.option("--long", "is_long", is_flag=True, help="Run the long tier too: an hour of audio.")
@click.option(
    "--report",
    "report_path",
    metavar="PATH",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write the report to a file: JSON, or Markdown where it ends in .md.",
)
@click.option(
    "--time-limit",
    metavar="SECONDS",
    type=click.FloatRange(min=0, min_open=True),
    default=120.0,
    help="After which a call that does not return is given up (default: 120).",
)
@click.version_option(package_name="wlk-conformance", message="wlk-conformance %(version)s")
def main(
    backend: str,
    model: str | None,
    policy: str | None,
    options: tuple[str, ...],
    *,
    speech: bool,
    is_long: bool,
    report_path: Path | None,
    time_limit: float,
) -> NoReturn:
    """
    Judge BACKEND, an installed backend, by the contract.

    Exit status: 0 compliant (declared deviations included), 1 not compliant, 2 usage.
    """
    from wlk_conformance.session import Session  # noqa: PLC0415 -- brings numpy, --help does not

    given = _pairs(options)
    if policy is not None:
        given["policy"] = policy
    _check_writable(report_path)
    session = Session.prepare(
        backend,
        model=model,
        options=given,
        tiers=[tier for tier, is_on in (("speech", speech), ("long", is_long)) if is_on],
        time_limit=time_limit,
    )
    report = session.run(progress=_show_progress if sys.stderr.isatty() else None)
    for explanation in session.explanations:
        click.echo(explanation + "\n")
    click.echo(
        report.as_table(width=max(60, min(shutil.get_terminal_size((100, 24)).columns, 120)))
    )
    if report_path is not None:
        text = report.as_markdown() if report_path.suffix == ".md" else report.as_json()
        report_path.write_text(text, encoding="utf-8")
    sys.exit(EXIT_COMPLIANT if report.is_compliant else EXIT_NOT_COMPLIANT)


def _pairs(options: tuple[str, ...]) -> dict[str, str]:
    pairs: dict[str, str] = {}
    for text in options:
        name, separator, value = text.partition("=")
        if not separator or not name:
            raise click.BadParameter(f"expected KEY=VALUE, got {text!r}", param_hint="--option")
        pairs[name] = value
    return pairs


def _check_writable(path: Path | None) -> None:
    """Refuse a report that could not be written before minutes are spent on it."""
    if path is not None and not path.parent.is_dir():
        raise click.BadParameter(f"{path.parent} is no directory", param_hint="--report")


def _show_progress(rule: str | None) -> None:
    # Erase the line: progress leaves nothing behind.
    click.echo(f"\r\x1b[K{f'{rule} ...' if rule else ''}", err=True, nl=False)
