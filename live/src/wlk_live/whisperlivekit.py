"""What the flags and backends of whisperlivekit 0.2.26 are called here."""

from __future__ import annotations

from contextlib import contextmanager
import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

from wlk_core.errors import BackendUnavailable, OptionError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from wlk_core.backend import BackendSpec


def table(kind: str) -> dict[str, str]:
    """Return what *kind*, "flags" or "backends", are called here, as Markdown."""
    text = Path(__file__).with_suffix(".json").read_text(encoding="utf-8")
    rows: dict[str, str] = json.loads(text)[kind]
    return {name: answer for names, answer in rows.items() for name in names.split()}


class Command(click.Command):
    """A command that answers all flags of whisperlivekit-server on its line at once."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Raise UsageError with the names here, never with a flag that is spelt alike."""
        typed = [argument.partition("=")[0] for argument in args]
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            answers = table("flags")
            if error.option_name not in answers:
                raise
            own = {name for parameter in self.params for name in parameter.opts}
            flags = dict.fromkeys([error.option_name, *typed])
            raise click.UsageError(
                ". ".join(
                    _answer(flag, answers[flag])
                    for flag in flags
                    if flag in answers and flag not in own
                ),
                ctx,
            ) from error


@contextmanager
def answered_backend(name: str | None) -> Iterator[None]:
    """Raise BackendUnavailable with the name here, if the backend *name* is not installed."""
    try:
        yield
    except BackendUnavailable as error:
        if answer := table("backends").get(name or ""):
            raise BackendUnavailable(_answer(f"the backend {name!r}", answer)) from error
        raise


def check_option(spec: BackendSpec, name: str) -> None:
    """Raise OptionError with the name here, if *name* is a flag and not an option of *spec*."""
    if any(name in (option.name, *option.former_names) for option in spec.all_options):
        return
    answers = {flag.strip("-").replace("-", "_"): text for flag, text in table("flags").items()}
    if answer := answers.get(name):
        raise OptionError(_answer(f"{spec.name}: the option {name!r}", answer))


def _answer(subject: str, answer: str) -> str:
    plain = answer.replace("`", "")
    is_absent = plain.startswith("none")
    return f"{subject} of whisperlivekit is " + (
        f"not here{plain.removeprefix('none')}" if is_absent else f"here: {plain}"
    )
