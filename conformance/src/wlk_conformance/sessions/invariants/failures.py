"""Errors: raised by the calls that owe them, with their cause, and not for ever."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wlk_conformance.engine_faults import EngineFault
from wlk_conformance.sessions.violation import Violation
from wlk_core.errors import BackendError, StreamBroken
from wlk_core.processor import MAX_RETRIES

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["DECODING", "Failures", "is_caused_by_engine"]

DECODING = ("process_iter", "is_last", "start_silence", "new_speaker", "finish")


def is_caused_by_engine(error: BaseException) -> bool:
    """
    Return whether what the engine raised is a cause of *error*.

    It is the fault that a test requested, or a BackendError, in which a backend reports a fault of
    an engine at a server.
    """
    cause = error.__cause__
    if cause is None:
        return False
    return isinstance(cause, EngineFault | BackendError) or is_caused_by_engine(cause)


class Failures:
    """What failed in a stream, and whether a call still owes the error."""

    def __init__(self) -> None:
        self._is_owed = False
        self._in_a_row = 0

    def returned(self, call: str, fired: int) -> Iterator[Violation]:
        """Note that *call* returned, although *fired* engine calls failed in it."""
        if call not in DECODING:
            return
        if self._is_owed:
            self._is_owed = bool(fired)
            yield Violation(
                "ERR-01",
                f"an engine call failed in the call before {call}, and neither of them raised",
            )
            return
        self._is_owed = bool(fired)
        self._in_a_row = 0

    def raised(
        self, call: str, error: BaseException, fired: int, *, made: int
    ) -> Iterator[Violation]:
        """Note that *call* raised *error*; of *made* engine calls in it *fired* failed."""
        is_owed, self._is_owed = self._is_owed, False
        if not isinstance(error, BackendError):
            if fired:
                yield Violation(
                    "ERR-01",
                    f"the engine failed in {call}, which raised {type(error).__name__}: {error}; "
                    "expected a BackendError with its cause",
                )
            return
        self._in_a_row = 1 if made > fired else self._in_a_row + 1  # a success begins anew
        if (fired or is_owed) and not is_caused_by_engine(error):
            yield Violation(
                "ERR-01",
                f"{call} raised {error!r} without its cause, the fault of the engine: its cause is "
                f"{error.__cause__!r}",
            )
        if isinstance(error, StreamBroken):
            if self._in_a_row <= MAX_RETRIES:
                yield Violation(
                    "ERR-03",
                    f"{call} raised StreamBroken after {self._in_a_row - 1} failures in a row, "
                    f"expected after {MAX_RETRIES} failed retries",
                )
        elif self._in_a_row > MAX_RETRIES + 1:
            yield Violation(
                "ERR-03",
                f"{call} raised {type(error).__name__} {self._in_a_row} times in a row, expected "
                f"StreamBroken after {MAX_RETRIES} failed retries",
            )
