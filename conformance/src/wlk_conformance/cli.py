"""The command ``wlk-conformance``: test an installed backend against the contract."""

from __future__ import annotations

from pathlib import Path
import shutil
import signal
import sys
from typing import Any, NoReturn

import click

from wlk_core.cli.main import show_warnings
from wlk_core.cli.terminal import print_error, usage_line
from wlk_core.errors import WLKError

_PROGRAM = "wlk-conformance"
_INTERRUPTED = 130  # exit status of a program ended by Ctrl-C
_SIGNALLED = 128  # added to the number of the signal that ended the run, as shells do
EXIT_COMPLIANT, EXIT_NOT_COMPLIANT, EXIT_USAGE = 0, 1, 2


def run() -> None:
    """Run the command and print each error on one line."""
    show_warnings(_PROGRAM)
    try:
        sys.exit(main.main(prog_name=_PROGRAM, standalone_mode=False))
    except (click.UsageError, WLKError) as error:
        print_error(usage_line(error) if isinstance(error, click.UsageError) else error, _PROGRAM)
        sys.exit(EXIT_USAGE)
    except click.Abort:
        print_error("interrupted", _PROGRAM)
        sys.exit(_INTERRUPTED)


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("backend", required=False)
@click.option("--model", metavar="REF", help="Size alias, repository id or directory.")
@click.option("--policy", metavar="NAME", help="Policy that decides when text is final.")
@click.option(
    "--option",
    "options",
    metavar="KEY=VALUE",
    multiple=True,
    help="Option of the backend or its streams; may be repeated (wlk-core backends BACKEND).",
)
@click.option("--speech", is_flag=True, help="Run the speech tier as well: known words and times.")
@click.option(
    "--long", "is_long", is_flag=True, help="Run the long tier as well: an hour of audio."
)
@click.option(
    "--words",
    metavar="digits|DIR",
    help="Words that the model recognises, if its spec does not declare them: spoken digits, or a "
    "folder of WAV or FLAC recordings, each with a .txt of its words.",
)
@click.option(
    "--rule",
    "rules",
    metavar="ID",
    multiple=True,
    help="Test only this rule, such as TIME-05; may be repeated. Gives no verdict.",
)
@click.option(
    "--explain",
    "explained",
    metavar="RULE",
    help="Print a rule and the usual causes of a failure, and exit.",
)
@click.option(
    "--report",
    "report_path",
    metavar="PATH",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write the report to a file, as JSON.",
)
@click.option(
    "--time-limit",
    metavar="SECONDS",
    type=click.FloatRange(min=0, min_open=True),
    default=120.0,
    help="Time after which a call that does not return counts as hung (default: 120): of its own "
    "processor time, or without work; ten times that in any case.",
)
@click.option(
    "--sessions",
    metavar="N",
    type=click.IntRange(min=0),
    help="Play N generated sessions (default: 160 on coded audio, 12 on a model).",
)
@click.option(
    "--seed", metavar="N", type=int, default=0, help="Seed of the generated sessions (default: 0)."
)
@click.option(
    "--replay",
    metavar="FILE",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Play only the generated session in this file, which an earlier run wrote.",
)
@click.version_option(package_name="wlk-conformance", message="wlk-conformance %(version)s")
def main(
    backend: str | None,
    policy: str | None,
    options: tuple[str, ...],
    *,
    speech: bool,
    is_long: bool,
    words: str | None,
    explained: str | None,
    report_path: Path | None,
    **chosen: Any,
) -> NoReturn:
    """
    Test BACKEND, an installed backend, against the contract.

    Each rule is printed as soon as it is judged.  Exit status: 0 compliant (declared deviations
    included), 1 not compliant, 2 usage; after a signal such as SIGTERM, 128 and its number, with a
    report on the rules judged until then.
    """
    from wlk_conformance.live_table import LiveTable  # noqa: PLC0415 -- imports numpy
    from wlk_conformance.stimuli import OpenSpeech  # noqa: PLC0415 -- likewise
    from wlk_conformance.suite import explain  # noqa: PLC0415 -- likewise
    from wlk_conformance.suite_run import run_suite  # noqa: PLC0415 -- likewise

    if explained is not None:
        click.echo(explain(explained))
        sys.exit(0)
    if backend is None:
        raise click.UsageError("expected the name of a backend (BACKEND), got none")
    if words not in (None, "digits"):
        OpenSpeech.read(Path(words))  # fails before the backend is loaded
        words = str(Path(words).resolve())
    if report_path is not None and not report_path.parent.is_dir():
        raise click.BadParameter(f"{report_path.parent} is not a directory", param_hint="--report")
    table = LiveTable(
        width=max(60, min(shutil.get_terminal_size((100, 24)).columns, 120)),
        echo=click.echo,  # flushes each line
        begin=_show_progress if sys.stderr.isatty() else _show_nothing,
    )
    report = run_suite(
        backend,
        pairs=[*([] if policy is None else [f"policy={policy}"]), *options],
        tiers=[tier for tier, is_on in (("speech", speech), ("long", is_long)) if is_on],
        words=words,
        listener=table,
        **chosen,
    )
    table.close(report)
    if report_path is not None:
        report_path.write_text(report.as_json(), encoding="utf-8")
    if report.ended_by:
        sys.exit(_SIGNALLED + signal.Signals[report.ended_by])
    sys.exit(EXIT_COMPLIANT if report.is_compliant else EXIT_NOT_COMPLIANT)


def _show_progress(rule: str | None) -> None:
    # Erase the line first, so that no old progress remains on the screen.
    click.echo(f"\r\x1b[K{f'{rule} ...' if rule else ''}", err=True, nl=False)


def _show_nothing(rule: str | None) -> None:
    del rule
