"""A life of a stream: the clock that it should keep, what was committed in it, what it showed."""

from __future__ import annotations

from fractions import Fraction
import math
from typing import TYPE_CHECKING

import attrs

from wlk_core import EPS, SAMPLE_RATE

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from wlk_core import ASRToken

ROUNDING = 1e-6  # seconds: rounding allowed in a clock that counts samples


@attrs.frozen
class StreamClock:
    """
    Samples and silences, counted exactly; `pauses` are the samples before each, seconds and rule.

    The core's own Timeline is not used, because it is a part of what is tested.
    """

    samples: int = 0
    silence: Fraction = Fraction(0)
    pauses: tuple[tuple[int, Fraction, str], ...] = ()

    @property
    def end(self) -> float:
        """The end of audio and silences, in seconds."""
        return float(self.silence + Fraction(self.samples, SAMPLE_RATE))

    def after(self, *, samples: int = 0, pause: float = 0.0, rule: str = "SIL-05") -> StreamClock:
        """Return the clock after a pause and then *samples*; a token in the pause breaks *rule*."""
        silence, pauses = self.silence, self.pauses
        if pause > 0:
            silence += Fraction(pause)
            pauses = (*pauses, (self.samples, Fraction(pause), rule))
        return StreamClock(self.samples + samples, silence, pauses)

    def gap_before(self, samples: int, end_time: float | None) -> float:
        """
        Return the silence before a chunk of *samples* that should end at *end_time*.

        It is 0 for a difference of up to EPS, and negative for an overlap beyond it.
        """
        if end_time is None or not math.isfinite(end_time):
            return 0.0
        difference = end_time - (self.end + samples / SAMPLE_RATE)
        return 0.0 if abs(difference) <= EPS + ROUNDING else difference

    def time_of(self, sample: int, *, is_before_pause: bool = False) -> float:
        """Return the stream time of *sample*; where a silence begins, the time before or after."""
        silence = Fraction(sample, SAMPLE_RATE)
        for before, seconds, _ in self.pauses:
            if before < sample or (before == sample and not is_before_pause):
                silence += seconds
        return float(silence)

    def audio_time(self, time: float) -> float:
        """Return *time* without the silences before it, the start of one for a time inside it."""
        silences = (max(0.0, min(time, end) - start) for start, end, _ in self._spans())
        return max(0.0, time - sum(silences))

    def pause_crossed(self, start: float, end: float) -> tuple[float, float, str] | None:
        """Return the first silence that a token lies in or across: its start, end and rule."""
        crossed = (s for s in self._spans() if end > s[0] + EPS and start < s[1] - EPS)
        return next(crossed, None)

    def _spans(self) -> Iterator[tuple[float, float, str]]:
        silence = Fraction(0)
        for sample, seconds, rule in self.pauses:
            begins = silence + Fraction(sample, SAMPLE_RATE)
            silence += seconds
            yield float(begins), float(begins + seconds), rule


@attrs.frozen(kw_only=True)
class Reading:
    """A hypothesis that was read, the tokens committed before, and the samples inserted by then."""

    tokens: tuple[ASRToken, ...]
    committed: int
    samples: int


@attrs.define
class Life:
    """A stream from its opening or reset to the next reset or its end."""

    clock: StreamClock = attrs.field(factory=StreamClock)
    cuts: list[int] = attrs.field(factory=list)  #: samples at which a flush ended an utterance
    tokens: list[ASRToken] = attrs.field(factory=list)
    readings: list[Reading] = attrs.field(factory=list)  #: with text, and other than the one before
    is_complete: bool = False  #: finished, so that every word was committed
    is_broken: bool = False  #: StreamBroken was raised
    first_sample: int = 0  #: of the tape
    may_end_early: bool = False  #: the engine may run before a word that it decodes has ended

    def read(self, tokens: Sequence[ASRToken]) -> None:
        """Note the hypothesis of a read."""
        last = self.readings[-1] if self.readings else None
        known = None if last is None else (last.tokens, last.committed)
        if tokens and known != (tuple(tokens), len(self.tokens)):
            self.readings.append(
                Reading(
                    tokens=tuple(tokens), committed=len(self.tokens), samples=self.clock.samples
                )
            )
