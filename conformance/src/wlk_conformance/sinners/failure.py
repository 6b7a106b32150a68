"""Sinners against ERR."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs

from wlk_conformance.sinners.sinner import Sin, sinner
from wlk_core import Emission
from wlk_core.errors import BackendError, StreamBroken

if TYPE_CHECKING:
    from wlk_core import ASRToken

__all__: list[str] = []


@sinner("ERR-01", defects="B06, B07")
class TurnsFailureIntoSilence(Sin):
    """Returns nothing where its engine fails at a silence."""

    def start_silence(self) -> Emission:
        """Return nothing."""
        try:
            return super().start_silence()
        except StreamBroken:
            raise
        except BackendError:
            return Emission((), 0.0, 0.0)


@sinner("ERR-01")
class HidesTheCause(Sin):
    """Raises BackendError without what caused it."""

    def finish(self) -> Emission:
        """Hide it."""
        try:
            return super().finish()
        except StreamBroken:
            raise
        except BackendError as error:
            raise BackendError(str(error)) from None


@sinner("ERR-02", defects="B06")
class LosesAWordWhenItFails(Sin):
    """Loses the word it was about to commit when its engine failed."""

    has_failed = False

    def process_iter(self, is_last: bool = False) -> Emission:  # noqa: FBT001, FBT002 -- pinned
        """Remember the failure."""
        try:
            return super().process_iter(is_last)
        except BackendError:
            self.has_failed = True
            raise

    def emitted(self, emission: Emission, call: str) -> Emission:
        """Lose a word."""
        del call
        if not self.has_failed or not emission.committed:
            return emission
        self.has_failed = False
        return attrs.evolve(emission, committed=emission.committed[1:])


@sinner("ERR-02")
class IsOverWhenFinishFails(Sin):
    """Is finished though finish failed."""

    has_failed = False

    def finish(self) -> Emission:
        """Return nothing after a failure."""
        if self.has_failed:
            return Emission((), self.stream.stats.audio_seconds, 0.0)
        try:
            return super().finish()
        except StreamBroken:
            raise
        except BackendError:
            self.has_failed = True
            raise


@sinner("ERR-03")
class TriesForEver(Sin):
    """Never says that it is broken."""

    def process_iter(self, is_last: bool = False) -> Emission:  # noqa: FBT001, FBT002 -- pinned
        """Say that it may work next time."""
        try:
            return super().process_iter(is_last)
        except StreamBroken as error:
            raise BackendError("try again") from error


@sinner("ERR-04")
class InfectsOthers(Sin):
    """Makes the other streams lose a word when its engine fails."""

    is_infected = False

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.backend.marks.setdefault("streams", []).append(self)
        del self.backend.marks["streams"][:-5]

    def process_iter(self, is_last: bool = False) -> Emission:  # noqa: FBT001, FBT002 -- pinned
        """Spread the failure."""
        try:
            return super().process_iter(is_last)
        except BackendError:
            for other in self.backend.marks["streams"]:
                other.is_infected = other.is_infected or other is not self
            raise

    def emitted(self, emission: Emission, call: str) -> Emission:
        """Lose a word."""
        del call
        if not self.is_infected or not emission.committed:
            return emission
        self.is_infected = False
        kept: tuple[ASRToken, ...] = emission.committed[1:]
        return attrs.evolve(emission, committed=kept)
