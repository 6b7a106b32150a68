"""Faults of a program: calls that end it, copy it or leave other programs running."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any

from faulty_backends.base import CountedStream, violates

if TYPE_CHECKING:
    from wlk_core import Emission, Transcript

__all__: list[str] = []


class _EndOfProgram(BaseException):
    """No Exception, as some libraries raise it."""


@violates("HYP-01", detector="sessions")
class LeavesProgramInRead(CountedStream):
    """Leaves the program in a read of the hypothesis after two silences."""

    def get_buffer(self) -> Transcript:
        """Leave it."""
        if self.silences >= 2:
            sys.exit("no more")
        shown: Transcript = self.stream.get_buffer()
        return shown


@violates("SPK-01", detector="sessions")
class RaisesBaseExceptionAtTurn(CountedStream):
    """Raises what is no Exception at a speaker turn after two flushes."""

    def new_speaker(self, change: Any) -> Emission:
        """Raise it."""
        if self.flushes >= 2:
            raise _EndOfProgram
        return super().new_speaker(change)


@violates("LIFE-10", detector="sessions")
class ForksAtFinish(CountedStream):
    """Forks in a finish after two silences, and returns in the copy as well."""

    def finish(self) -> Emission:
        """Fork."""
        if self.silences >= 2:
            os.fork()
        return super().finish()


@violates("LIFE-10", detector="sessions")
class LeavesChildOfSilence(CountedStream):
    """Starts a program in the third silence and leaves it running."""

    def start_silence(self) -> Emission:
        """Start it."""
        if self.flushes == 2:
            command = [sys.executable, "-S", "-c", "import signal; signal.pause()"]
            os.posix_spawn(sys.executable, command, os.environ)
        return super().start_silence()
