"""The calls of a stream and their results, kept to be printed with a failure."""

from __future__ import annotations

from collections import deque
import reprlib
from typing import TYPE_CHECKING, Any

import attrs
import numpy as np

from wlk_core import Emission

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["CallLog", "RecordingProcessor"]

LINES = 14  # calls kept, because the last ones before a failure explain most
TEXT = 200  # characters shown of the tokens of one emission


@attrs.define
class CallLog:
    """The last calls of one stream, one line each."""

    name: str
    opened_with: str = ""
    lines: deque[str] = attrs.field(factory=lambda: deque(maxlen=LINES), init=False)
    calls: int = attrs.field(default=0, init=False)

    def note(self, line: str) -> None:
        """Add a line."""
        self.calls += 1
        self.lines.append(line)

    def __str__(self) -> str:
        """Return the lines, with the number of those that were dropped."""
        dropped = self.calls - len(self.lines)
        head = [f"... {dropped} calls before ..."] if dropped else []
        return "\n".join([f"{self.name}({self.opened_with})", *head, *self.lines])


class RecordingProcessor:
    """
    An online processor that notes every call in a log and passes it on.

    `touch` is called when a call returns, because a stream that still answers does not hang.
    """

    def __init__(self, processor: Any, log: CallLog, touch: Callable[[], None]) -> None:
        self._processor = processor
        self._log = log
        self._touch = touch

    def __getattr__(self, name: str) -> Any:
        """Return an attribute of the processor; a method is noted when it is called."""
        value = getattr(self._processor, name)
        if name.startswith("_") or not callable(value):
            return value

        def call(*args: Any, **kwargs: Any) -> Any:
            arguments = ", ".join(
                [*map(_short, args), *(f"{key}={_short(value)}" for key, value in kwargs.items())]
            )
            try:
                result = value(*args, **kwargs)
            except Exception as error:  # any, because it is only noted here
                self._log.note(f"  .{name}({arguments}) raised {type(error).__name__}: {error}")
                raise
            finally:
                self._touch()
            if name != "get_buffer":
                self._log.note(f"  .{name}({arguments}){_result(result)}")
            return result

        return call


def _short(value: object) -> str:
    if isinstance(value, np.ndarray):
        return f"{value.dtype}[{', '.join(map(str, value.shape))}]"
    return reprlib.repr(value)  # a list of samples in full would hide the failure


def _result(result: object) -> str:
    if not isinstance(result, Emission):
        return "" if result is None else f" -> {result!r}"
    words = " ".join(
        f"{token.text!r}@{token.start:.2f}-{token.end:.2f}" for token in result.committed
    )[:TEXT]
    return f" -> [{words}] up to {result.processed_up_to:.3f}, stable {result.stable_up_to:.3f}"
