"""Options of commands that transcribe, and the backend, model and annotators that they choose."""

from __future__ import annotations

from contextlib import closing
from functools import partial
import os
from typing import TYPE_CHECKING, Any, TypeVar

import attrs
import click

from wlk_core.cli.options import backend_option, complete
from wlk_core.options import parse_pairs
from wlk_core.untrusted import shown

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import ExitStack

    from wlk_core.registry import Registry
    from wlk_live.captions.segments import Languages, Layout
    from wlk_live.config import Settings
    from wlk_live.filter_choice import FilterChoice
    from wlk_live.translator_choice import TranslatorChoice

F = TypeVar("F", bound="Callable[..., Any]")


#: The option --model; callers add the other arguments, such as help.
model_option = partial(click.option, "--model", metavar="REF", shell_complete=complete)


def pairs_option(name: str, variable: str, text: str) -> Callable[[F], F]:
    """Return an option that takes KEY=VALUE and may be repeated."""
    text = f"{text}; may be repeated."
    return click.option(name, variable, metavar="KEY=VALUE", multiple=True, help=text)


def _all(*options: Callable[[F], F]) -> Callable[[F], F]:
    """Return a decorator that adds *options* to a command, in their order."""

    def add_options(command: F) -> F:
        for option in reversed(options):  # as if each stood above the command
            command = option(command)
        return command

    return add_options


#: Adds the options that choose a translator; `TranslatorChoice` resolves their values.
translator_options = _all(
    click.option("--translate-to", metavar="LANG", help="Translate to this language too."),
    click.option("--translator", metavar="NAME[=MODEL]", help="Installed plugin that translates."),
    pairs_option("--translator-option", "translator_pairs", "Option of the translator"),
)
#: Adds the options that choose text filters; `FilterChoice` resolves their values.
filter_options = _all(
    click.option(
        "--filter",
        "filters",
        metavar="NAME[=MODEL]",
        multiple=True,
        help="Rewrite text with this plugin, or none; may be repeated.",
    ),
    click.option(
        "--filter-option",
        "filter_pairs",
        metavar="NAME.KEY=VALUE",
        multiple=True,
        help="Option of a text filter; may be repeated.",
    ),
)
#: Adds the options that choose a backend and run a stream; `choose` resolves their values.
stream_options = _all(
    backend_option(help="Backend to use; wlk-core backends marks the default with a star."),
    model_option(help="Size alias, repository id or directory."),
    click.option(
        "--language", metavar="CODE|auto", help="Language of the speech.  [default: auto]"
    ),
    click.option(
        "--task",
        type=click.Choice(["transcribe", "translate"]),
        default="transcribe",
        show_default=True,
        help="Write what was said, or translate it into English.",
    ),
    click.option("--policy", metavar="NAME", help="Streaming policy; see: wlk-core backends NAME."),
    pairs_option("--option", "pairs", "Option of the backend, see: wlk-core backends NAME"),
    click.option("--no-vad", is_flag=True, help="Decode silences too."),
    click.option("--offline", is_flag=True, help="Never use the network."),
    translator_options,
    filter_options,
)
#: Adds the options of captions; `choose` resolves their values.
caption_options = _all(
    click.option(
        "--max-line-width",
        type=click.IntRange(min=1),
        default=42,
        show_default=True,
        help="Columns of a line of captions.",
    ),
    click.option(
        "--max-lines",
        type=click.IntRange(min=1),
        default=2,
        show_default=True,
        help="Lines of a caption.",
    ),
    click.option(
        "--captions",
        "languages",
        type=click.Choice(["both", "speech", "translation"]),
        help="Language of text, srt and vtt with --translate-to.  [default: both]",
    ),
)
speaker_names_option = click.option(
    "--speaker-names", metavar="NAME,...", help="Names in place of Speaker 1, Speaker 2, ..."
)
#: Adds the options that choose a diarizer and name its speakers; `choose` resolves their values.
diarizer_options = _all(
    click.option("--diarizer", metavar="NAME[=MODEL]", help="Find speakers with this plugin."),
    pairs_option("--diarizer-option", "diarizer_pairs", "Option of the diarizer"),
    speaker_names_option,
)


def _layout(**fields: Any) -> Layout:
    from wlk_live.captions.segments import Layout  # noqa: PLC0415 -- brings numpy

    return Layout(**fields)


def parse_names(names: str | None) -> tuple[str, ...]:
    """
    Return the names in the value of --speaker-names, which has commas between them.

    Raises:
        UsageError: a name is empty.

    """
    found = () if names is None else tuple(name.strip() for name in names.split(","))
    if not all(found):
        raise click.UsageError(
            f"--speaker-names: expected names with commas between them, as in Anna,Ben, got "
            f"{shown(names)}"
        )
    return found


@attrs.frozen(kw_only=True)
class Choice:
    """What the user chose for a transcription."""

    registry: Registry
    settings: Settings
    task: str = "transcribe"
    vad: bool = True
    translation: TranslatorChoice | None = None
    diarizer: tuple[str, dict[str, str]] | None = None  #: name and options
    filters: FilterChoice | None = None
    layout: Layout = attrs.field(factory=_layout)
    by_channel: bool = False  #: whether each channel of a recording is transcribed by itself

    def open_annotators(self, stack: ExitStack) -> dict[str, Any]:
        """Load the chosen annotators, as arguments of a Session; *stack* closes them."""
        annotators: dict[str, Any] = {}
        spec, language = self.settings.spec, self.settings.language
        if self.diarizer is not None:
            name, options = self.diarizer
            annotators["diarizer"] = self.registry.load_annotator("diarizer", name, **options)
            stack.enter_context(closing(annotators["diarizer"]))
        if self.translation is not None:
            annotators["translator"] = self.translation.open(spec, language)
            stack.enter_context(closing(annotators["translator"]))
        if self.filters is not None:
            annotators["text_filters"] = self.filters.open(stack, spec, language)
        return annotators


def choose(
    registry: Registry,
    *,
    no_vad: bool,
    offline: bool,
    task: str,
    max_line_width: int,
    max_lines: int,
    languages: Languages | None = None,
    diarizer: str | None = None,
    diarizer_pairs: tuple[str, ...] = (),
    speaker_names: str | None = None,
    by_channel: bool = False,
    **flags: Any,
) -> Choice:
    """Return the validated values of `stream_options`, `caption_options` and `diarizer_options`."""
    from wlk_live.config import choose_settings  # noqa: PLC0415 -- not for --help
    from wlk_live.filter_choice import FilterChoice  # noqa: PLC0415 -- as above
    from wlk_live.translator_choice import TranslatorChoice  # noqa: PLC0415 -- as above

    if diarizer is None and diarizer_pairs:
        raise click.UsageError("--diarizer-option needs a diarizer: --diarizer NAME")
    if diarizer is not None and by_channel:
        raise click.UsageError(
            "--channels and --diarizer cannot be used together: a channel is a speaker"
        )
    if diarizer is None and speaker_names is not None and not by_channel:
        raise click.UsageError(
            "--speaker-names needs --diarizer NAME or, for the channels of a recording, --channels"
        )
    names = parse_names(speaker_names)
    translation = TranslatorChoice.of(registry, flags)
    if translation is None and languages is not None:
        raise click.UsageError("--captions needs a translation: --translate-to LANG")
    if translation is not None and task == "translate":
        raise click.UsageError("--task translate and --translate-to cannot be used together")
    # The words of a translation are not in the language of the speech.
    filters = FilterChoice.of(registry, flags, configured=task != "translate")
    if filters.options and task == "translate":
        raise click.UsageError("--task translate and --filter cannot be used together")
    # An environment variable, because the frameworks under the backends read it too.
    if offline:
        os.environ["HF_HUB_OFFLINE"] = "1"
    settings = choose_settings(registry, **flags)
    settings.spec.check_task(task)
    return Choice(
        registry=registry,
        settings=settings,
        task=task,
        vad=not no_vad,
        translation=translation,
        diarizer=None if diarizer is None else (diarizer, parse_pairs(diarizer_pairs)),
        filters=filters,
        layout=_layout(
            max_line_width=max_line_width,
            max_lines=max_lines,
            speaker_names=names,
            languages=languages or "both",
        ),
        by_channel=by_channel,
    )
