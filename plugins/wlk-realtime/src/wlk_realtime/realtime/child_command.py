"""Read the options that name a wlk-serve of another environment; write its command line."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

import attrs

from wlk_core.environments import find_pythons
from wlk_core.plugins import OptionError

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["KEY_VARIABLE", "ChildCommand", "commands_of"]

KEY_VARIABLE = "WLK_CHILD_KEY"
_OWN_NAME = "realtime"  # a child of that would start children for ever
_NO_LIMIT = str(10**9)


@attrs.frozen(kw_only=True)
class ChildCommand:
    """
    What a child serves.

    Attributes:
        python: the Python of its environment.
        backend: the name of a backend that is installed there.
        model: the model, None for the backend's own default.
        options: options of the backend, each KEY=VALUE.

    """

    python: Path
    backend: str
    model: str | None = None
    options: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """The child as messages name it."""
        return f"{self.backend} of {self.python}"

    @property
    def arguments(self) -> list[str]:
        """The command line, which contains no secret."""
        command = [str(self.python), "-m", "wlk_serve", "--end-with-stdin"]
        command += ["--host", "127.0.0.1", "--port", "0", "--api-key-env", KEY_VARIABLE]
        command += ["--drain-seconds", "0", "--max-sessions", _NO_LIMIT]
        command += ["--max-session-seconds", _NO_LIMIT, "--idle-seconds", _NO_LIMIT]
        command += ["--language", "auto", "--backend", self.backend]
        command += [] if self.model is None else ["--model", self.model]
        for pair in self.options:
            command += ["--option", pair]
        return command


def commands_of(
    pythons: str, backends: str | None, model: str | None, options: str
) -> list[ChildCommand]:
    """
    Return a command for each of *pythons*; arguments as users write them.

    Raises:
        OptionError: one is neither a Python nor a virtual environment, there is not one backend for
            all of them or one for each, or *options* is not a list of KEY=VALUE.

    """
    try:
        pairs = tuple(shlex.split(options))
    except ValueError as error:
        raise OptionError(
            f"realtime: expected backend_options as KEY=VALUE KEY=VALUE, got {options!r} ({error})"
        ) from None
    try:
        found = find_pythons(pythons)
    except OptionError as error:
        raise OptionError(f"realtime: {error}") from None
    names = [name.strip() for name in (backends or "").split(",")]
    if not all(names) or _OWN_NAME in names or len(names) not in {1, len(found)}:
        raise OptionError(
            f"realtime: expected option backend as the backend that {found[0]} runs, or one for "
            f"each Python, got {backends!r}; those that are installed there: "
            f"{shlex.quote(str(found[0]))} -m wlk_core backends"
        )
    if model is not None and "://" in model:
        raise OptionError(
            f"realtime: option python starts a server, and {model} names another one; leave the "
            "option out, or name a model of the backend there"
        )
    names *= len(found) if len(names) == 1 else 1
    return [
        ChildCommand(python=python, backend=name, model=model, options=pairs)
        for python, name in zip(found, names, strict=True)
    ]
