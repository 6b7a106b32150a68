"""Options that commands share: which backend, which model, and how a stream is run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

import click

from wlk_core.cli.main import registry_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from wlk_core.backend import BackendSpec
    from wlk_core.vad import GateParameters

__all__ = ["BackendCommand", "chosen_vad", "live_options", "stream_options"]

F = TypeVar("F", bound="Callable[..., Any]")

_LONGEST_CHUNK_SECONDS = 86_400.0


def _chunk_seconds(_context: click.Context, _parameter: click.Parameter, value: float) -> float:
    if not 0 < value <= _LONGEST_CHUNK_SECONDS:
        raise click.BadParameter(
            f"expected a number of seconds above 0 and up to {_LONGEST_CHUNK_SECONDS:.0f}, "
            f"got {value:g}"
        )
    return value


_BACKEND_OPTIONS = (
    click.option(
        "--backend",
        metavar="NAME",
        help="Backend to use; list them with: wlk-core backends.  [default: that of config.toml, "
        "else the preferred one of those installed]",
    ),
    click.option(
        "--model",
        metavar="REF",
        help="Model to load: a size alias, a repository id (owner/name) or a directory.  "
        "[default: the backend's own]",
    ),
    click.option(
        "--language", metavar="CODE|auto", help="Language of the speech; detected by default."
    ),
    click.option(
        "--task",
        type=click.Choice(["transcribe", "translate"]),
        default="transcribe",
        show_default=True,
        help="Transcribe, or translate to English where the backend can.",
    ),
    click.option(
        "--policy",
        metavar="NAME",
        help="Streaming policy, which decides when text is final; see: wlk-core backends NAME.",
    ),
    click.option(
        "--option",
        "pairs",
        metavar="KEY=VALUE",
        multiple=True,
        help="Option of the backend; may be repeated.  List them with --backend NAME --help.",
    ),
)
_CHUNK_SECONDS = click.option(
    "--chunk-seconds",
    type=float,
    default=1.0,
    show_default=True,
    callback=_chunk_seconds,
    help="Seconds of audio given to the backend at a time: changes when words come, not which.",
)
_AUDIO_OPTIONS = (
    click.option(
        "--no-vad",
        is_flag=True,
        help="Give silences to the model too; voice activity detection leaves them out otherwise.",
    ),
    click.option(
        "--vad-threshold",
        type=float,
        metavar="P",
        help="Probability from 0 to 1 from which a sound is speech.  [default: 0.5]",
    ),
    click.option(
        "--vad-silence",
        type=float,
        metavar="S",
        help="Seconds of quiet that end an utterance.  [default: 1.2]",
    ),
    click.option(
        "--vad-pre-roll",
        type=float,
        metavar="S",
        help="Seconds before speech that are decoded too.  [default: 0.4]",
    ),
    click.option("--offline", is_flag=True, help="Never use the network."),
)


def stream_options(command: F) -> F:
    """Add the options that choose a backend and run a stream, in their order."""
    return _with_options(command, (*_BACKEND_OPTIONS, _CHUNK_SECONDS, *_AUDIO_OPTIONS))


def live_options(command: F) -> F:
    """Add the same options but --chunk-seconds, because live audio comes as it is spoken."""
    return _with_options(command, (*_BACKEND_OPTIONS, *_AUDIO_OPTIONS))


def chosen_vad(
    *, no_vad: bool, threshold: float | None, silence: float | None, pre_roll: float | None
) -> bool | GateParameters:
    """
    Return voice activity detection as the options choose it; False for none.

    Raises:
        click.UsageError: `--no-vad` with another one of them.
        OptionError: a value is out of range.

    """
    values = {"threshold": threshold, "silence_seconds": silence, "pre_roll": pre_roll}
    chosen = {name: value for name, value in values.items() if value is not None}
    if no_vad and chosen:
        raise click.UsageError("--no-vad excludes the options --vad-...; choose one")
    if not chosen:
        return not no_vad
    from wlk_core.vad import GateParameters as Chosen  # noqa: PLC0415 -- loads a model

    return Chosen(**chosen)


def _with_options(command: F, options: Sequence[Callable[[F], F]]) -> F:
    for option in reversed(options):
        command = option(command)
    return command


class BackendCommand(click.Command):
    """A command whose help lists the options of the backend after ``--backend``."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Remember the backend, because --help ends the parsing before other options."""
        ctx.meta[_BACKEND] = _value_of("--backend", args)
        return super().parse_args(ctx, args)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options of the command, then those of the backend."""
        super().format_options(ctx, formatter)
        if (name := ctx.meta.get(_BACKEND)) is None:
            return
        spec = registry_of(ctx).spec(name)
        with formatter.section(f"Options of {name}, each as --option KEY=VALUE"):
            formatter.write_dl(_lines(spec) or [("none", "")])


_BACKEND = f"{__name__}.backend"


def _value_of(option: str, arguments: Sequence[str]) -> str | None:
    """Return the value of an option, wherever it stands."""
    for position, argument in enumerate(arguments):
        if argument == "--":
            return None
        if argument.startswith(f"{option}="):
            return argument.partition("=")[2]
        if argument == option and position + 1 < len(arguments):
            return arguments[position + 1]
    return None


def _lines(spec: BackendSpec) -> list[tuple[str, str]]:
    from wlk_core.cli.backends import option_lines  # noqa: PLC0415 -- brings importlib.metadata

    return option_lines(spec)
