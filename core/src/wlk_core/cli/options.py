"""Options that commands share: the backend, its model, and those of a stream."""

from __future__ import annotations

from contextlib import closing
import os
from typing import TYPE_CHECKING, Any, Self, TypeVar

import attrs
import click

from wlk_core.untrusted import printable

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import ExitStack

    from wlk_core.annotators import Translator
    from wlk_core.backend import Backend, BackendSpec
    from wlk_core.config import Settings
    from wlk_core.registry import Registry
    from wlk_core.vad import GateParameters

F = TypeVar("F", bound="Callable[..., Any]")


def backend_option(text: str, **attributes: Any) -> Callable[[F], F]:
    """Return the option --backend with a help text."""
    return click.option("--backend", metavar="NAME", help=text, **attributes)


_TRANSLATOR_OPTIONS = (
    click.option(
        "--translate-to",
        metavar="LANG",
        help="Translate what was said to this language too, such as de or German.",
    ),
    click.option(
        "--translator",
        metavar="NAME[=MODEL]",
        help="Installed plugin that translates, and its model.",
    ),
    click.option(
        "--translator-option",
        "translator_pairs",
        metavar="KEY=VALUE",
        multiple=True,
        help="Option of the translator; may be repeated.",
    ),
)
_OPTIONS = (
    backend_option(
        "Backend to use; list them with: wlk-core backends.  [default: that of config.toml, "
        "else the preferred one of those installed]",
    ),
    click.option(
        "--model",
        metavar="REF",
        help="Model to load: a size alias, a repository id (owner/name) or a directory.  "
        "[default: the backend's own]",
    ),
    click.option(
        "--language",
        metavar="CODE|auto",
        help="Language of the speech, such as en, en-US or English; detected by default.",
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
        help="Option of the backend; may be repeated.  List them with: wlk-core backends NAME.",
    ),
    click.option(
        "--no-vad",
        is_flag=True,
        help="Give silences to the model too; voice activity detection leaves them out otherwise.",
    ),
    click.option(
        "--vad-threshold",
        "threshold",
        type=float,
        metavar="P",
        help="Probability from 0 to 1 from which a sound is speech.  [default: 0.5]",
    ),
    click.option(
        "--vad-silence",
        "silence_seconds",
        type=float,
        metavar="S",
        help="Seconds of quiet that end an utterance.  [default: 1.2]",
    ),
    click.option(
        "--vad-pre-roll",
        "pre_roll",
        type=float,
        metavar="S",
        help="Seconds before speech that are decoded too.  [default: 0.4]",
    ),
    click.option("--offline", is_flag=True, help="Never use the network."),
)


def stream_options(command: F) -> F:
    """Add the options that choose a backend and run a stream; `choose` resolves their values."""
    command = translator_options(command)
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def translator_options(command: F) -> F:
    """Add the options that choose a translator; `TranslatorChoice` resolves their values."""
    for option in reversed(_TRANSLATOR_OPTIONS):
        command = option(command)
    return command


@attrs.frozen
class TranslatorChoice:
    """A translator that was chosen, and the language that it translates to."""

    registry: Registry
    name: str  #: and its model, as users write them
    language: str
    options: dict[str, str]

    @classmethod
    def of(cls, registry: Registry, flags: dict[str, Any]) -> Self | None:
        """Take the values of `translator_options` from *flags*; return None for no translation."""
        wanted, name, pairs = map(flags.pop, ("translate_to", "translator", "translator_pairs"))
        if wanted is None:
            if name or pairs:
                raise click.UsageError("a translator needs a language: --translate-to LANG")
            return None
        from wlk_core.languages import NAMES, find_language  # noqa: PLC0415 -- only where asked for
        from wlk_core.options import parse_pairs  # noqa: PLC0415 -- as above
        from wlk_core.registry import known_plugins  # noqa: PLC0415 -- as above

        name = name or next(iter(known_plugins("translator")))
        return cls(registry, name, find_language(wanted, tuple(NAMES)), parse_pairs(pairs))

    def open(self, spec: BackendSpec, language: str | None) -> Translator:
        """Return a translator of what a stream of *spec* in *language* (None: detected) commits."""
        if language is None and len(spec.languages) == 1:
            language = spec.languages[0]
        options = {"target_language": self.language, "source_language": language, **self.options}
        opened: Translator = self.registry.load_annotator("translator", self.name, **options)
        return opened


@attrs.frozen(kw_only=True)
class Choice:
    """What a command transcribes with."""

    registry: Registry
    settings: Settings
    task: str = "transcribe"
    vad: bool | GateParameters = True
    translation: TranslatorChoice | None = None

    @property
    def loading(self) -> str:
        """What a terminal shows while the backend is loaded."""
        return printable(f"loading {self.settings.spec.name} {self.settings.model} ...")

    def load(self) -> Backend:
        """Load the backend."""
        return self.settings.load(self.registry)

    def open_translator(self, stack: ExitStack) -> Translator | None:
        """Return a translator that *stack* closes, None where none was chosen."""
        if self.translation is None:
            return None
        translator = self.translation.open(self.settings.spec, self.settings.language)
        return stack.enter_context(closing(translator))


def choose(registry: Registry, *, no_vad: bool, offline: bool, task: str, **flags: Any) -> Choice:
    """Return the checked values of `stream_options`."""
    from wlk_core.config import choose_settings  # noqa: PLC0415 -- `--help` reads no settings

    translation = TranslatorChoice.of(registry, flags)
    if translation is not None and task == "translate":
        raise click.UsageError("--task translate and --translate-to exclude each other")
    names = ("threshold", "silence_seconds", "pre_roll")
    gate = {name: value for name in names if (value := flags.pop(name)) is not None}
    if no_vad and gate:
        raise click.UsageError("--no-vad excludes the options --vad-...; choose one")
    vad: bool | GateParameters = not no_vad
    if gate:
        from wlk_core.vad import GateParameters as Chosen  # noqa: PLC0415 -- loads a model

        vad = Chosen(**gate)
    # A variable and not an argument, because the frameworks under the backends read it too.
    if offline:
        os.environ["HF_HUB_OFFLINE"] = "1"
    settings = choose_settings(registry, **flags)
    settings.spec.check_task(task)
    return Choice(registry=registry, settings=settings, task=task, vad=vad, translation=translation)
