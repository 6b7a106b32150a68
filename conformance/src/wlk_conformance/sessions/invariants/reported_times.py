"""The times that an emission reports: `processed_up_to` and `stable_up_to`."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import attrs

from wlk_conformance.sessions.clock import ROUNDING
from wlk_conformance.sessions.violation import Violation

if TYPE_CHECKING:
    from collections.abc import Iterator

    from wlk_core import Emission

__all__ = ["ReportedTimes"]

MANY = 10  # silences after which a small error of the clock is a drift
# The rule of a flush that leaves audio undecoded, where nothing else explains it.
FLUSHES = {
    "start_silence": "SIL-01", "new_speaker": "SPK-01", "is_last": "LIFE-07", "finish": "TIME-03",
}  # fmt: skip


class ReportedTimes:
    """The times that were reported last, and what moved the clock since they were right."""

    def __init__(self) -> None:
        self.processed = 0.0
        self.stable = 0.0
        self._movers: list[str] = []  # rules of calls that moved the clock since the last flush
        self._silences = 0
        self._short: tuple[Violation, float] | None = None  # a report below the clock, its time
        self._is_off = False  # samples are missing, of which every later time is a consequence

    def moved(self, rule: str) -> None:
        """Note a call that moved the clock, or must not have moved it, by its rule."""
        self._movers.append(rule)
        self._silences += rule == "SIL-03"

    def counted(self, call: str, seconds: float, expected: float) -> Iterator[Violation]:
        """Check `audio_seconds`, read after *call*, against the seconds that were inserted."""
        if self._is_off or abs(seconds - expected) <= ROUNDING:
            return
        self._is_off = True
        yield Violation(
            self._movers[-1] if self._movers else "IN-01",
            f"after {call} audio_seconds is {seconds:.6f}, and {expected:.6f} s were inserted",
            kind="clock",
        )

    def take(
        self, emission: Emission, call: str, *, before: float, now: float
    ) -> Iterator[Violation]:
        """Check *emission*; the audio ended at *before* when the call began, and ends at *now*."""
        processed, stable = emission.processed_up_to, emission.stable_up_to
        if not (math.isfinite(processed) and math.isfinite(stable)):
            yield Violation("TIME-03", f"{call} reported processed {processed}, stable {stable}")
            return
        if processed < self.processed:
            yield Violation(
                "TIME-03",
                f"{call}: processed_up_to went back from {self.processed:.6f} to {processed:.6f} s",
            )
        if stable < self.stable:
            yield Violation(
                "TIME-03",
                f"{call}: stable_up_to went back from {self.stable:.6f} to {stable:.6f} s",
            )
        self.processed, self.stable = max(self.processed, processed), max(self.stable, stable)
        yield from self._recovered(processed)
        if self._is_off:
            return
        if processed > now + ROUNDING:
            yield self._off(call, processed, now)
        elif call in FLUSHES:
            if processed >= before - ROUNDING:
                self._movers.clear()
            elif self._movers:
                self._short = self._short or (self._off(call, processed, before), before)
            else:
                yield self._off(call, processed, before)

    def settle(self) -> Iterator[Violation]:
        """Yield a report below the clock that no later report made good."""
        short, self._short = self._short, None
        if short is not None:
            yield short[0]

    def _recovered(self, processed: float) -> Iterator[Violation]:
        """Yield TIME-03 for a report below the clock, if the clock itself turns out to be right."""
        if self._short is None:
            return
        violation, expected = self._short
        self._short = None
        if processed >= expected - ROUNDING:
            violation = attrs.evolve(violation, rule="TIME-03")
        yield violation

    def _off(self, call: str, processed: float, expected: float) -> Violation:
        rule = self._movers[-1] if self._movers else FLUSHES.get(call, "TIME-03")
        if rule == "SIL-03" and self._silences >= MANY:
            rule = "SIL-04"
        self._movers.clear()
        return Violation(
            rule,
            f"{call}: processed_up_to is {processed:.6f} s, expected {expected:.6f} s by the clock "
            "of samples and silences",
            kind="clock",
        )
