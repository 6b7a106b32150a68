"""A tape beside a stream: every call and what came of it, for the one who reads a failure."""

from __future__ import annotations

from collections import deque
import reprlib
from typing import TYPE_CHECKING, Any

import attrs
import numpy as np

from wlk_core import Emission

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["Tape", "Taped"]

LINES = 14  # calls kept: the ones before a failure say most


@attrs.define
class Tape:
    """The last calls of one stream, one line each; equal inserts in a row share a line."""

    name: str
    opened_with: str = ""
    lines: deque[str] = attrs.field(factory=lambda: deque(maxlen=LINES), init=False)
    calls: int = attrs.field(default=0, init=False)

    def note(self, line: str) -> None:
        """Add a line."""
        self.calls += 1
        self.lines.append(line)

    def __str__(self) -> str:
        """Return the lines, with the number of those that are gone."""
        gone = self.calls - len(self.lines)
        head = [f"... {gone} calls before ..."] if gone else []
        return "\n".join([f"{self.name}({self.opened_with})", *head, *self.lines])


class Taped:
    """
    An online processor that notes every call on its tape and passes it on.

    `touch` is called when a call returns: a stream that still answers does not hang.
    """

    def __init__(self, processor: Any, tape: Tape, touch: Callable[[], None]) -> None:
        self._processor = processor
        self._tape = tape
        self._touch = touch

    @property
    def unwrapped(self) -> Any:
        """The processor itself."""
        return self._processor

    def __getattr__(self, name: str) -> Any:
        """Return an attribute of the processor; a method is noted when it is called."""
        found = getattr(self._processor, name)
        if name.startswith("_") or not callable(found):
            return found

        def call(*args: Any, **kwargs: Any) -> Any:
            shown = ", ".join(
                [*map(_shown, args), *(f"{key}={_shown(value)}" for key, value in kwargs.items())]
            )
            try:
                result = found(*args, **kwargs)
            except Exception as error:
                self._tape.note(f"  .{name}({shown}) raised {type(error).__name__}: {error}")
                raise
            finally:
                self._touch()
            if name != "get_buffer":
                self._tape.note(f"  .{name}({shown}){_came(result)}")
            return result

        return call


def _shown(value: object) -> str:
    if isinstance(value, np.ndarray):
        return f"{value.dtype}[{', '.join(map(str, value.shape))}]"
    return reprlib.repr(value)  # a list of samples in full would bury the failure


def _came(result: object) -> str:
    if not isinstance(result, Emission):
        return "" if result is None else f" -> {result!r}"
    words = " ".join(
        f"{token.text!r}@{token.start:.2f}-{token.end:.2f}" for token in result.committed
    )[:200]
    return f" -> [{words}] up to {result.processed_up_to:.3f}, stable {result.stable_up_to:.3f}"
