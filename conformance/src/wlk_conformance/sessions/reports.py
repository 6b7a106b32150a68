"""Invariants of the times, counters and errors that a stream reports."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import attrs
import numpy as np

from wlk_conformance.engine_faults import EngineFault
from wlk_conformance.sessions.generated_session import FLUSHES, Violation
from wlk_conformance.sessions.life_cycle import ROUNDING
from wlk_core import SAMPLE_RATE
from wlk_core.errors import BackendError, StreamBroken
from wlk_core.processor import MAX_RETRIES, WorkCounters

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from wlk_core import Emission

MANY = 10  # silences after which a small error of the clock is a drift
COUNTERS = tuple(field.name for field in attrs.fields(WorkCounters))
MANY_CALLS = 20  # engine calls in which any model does work that it can count
NEW_SECONDS = 3  # of audio that a cache of answers cannot know
MANY_TOKENS = 3  # committed in them, which shows that not all were for silence


@attrs.define
class EngineWork:
    """The engine calls made during one call, counted if no other call overlapped it."""

    made: int = 0
    faults: int = 0  #: those that failed on request
    raised: int = 0  #: those of them that failed in this process, and not on a server


class ReportedTimes:
    """The last reported times, and what moved the clock since they were right."""

    def __init__(self) -> None:
        self.processed = 0.0
        self.stable = 0.0
        self._mover: str | None = None  # the rule of the last call that moved the clock
        self._silences = 0
        #: A report below the clock, and the clock: it may be late, or wrong for good.
        self._below_clock: tuple[Violation, float] | None = None
        self._is_miscounted = False  # the number of samples is wrong, and so are all later times

    def moved(self, rule: str) -> None:
        """Note that a call moved the clock, or must not have moved it; *rule* judges that."""
        self._mover = rule
        if rule == "SIL-03":
            self._silences += 1

    def counted(self, call: str, seconds: float, expected: float) -> Iterator[Violation]:
        """Check `audio_seconds`, read after *call*, against the seconds that were inserted."""
        if self._is_miscounted or abs(seconds - expected) <= ROUNDING:
            return
        self._is_miscounted = True
        yield Violation(
            self._mover or "IN-01",
            f"audio_seconds is {seconds:.6f} after {call}, but {expected:.6f} s were inserted",
            kind="clock",
        )

    def take(
        self,
        emission: Emission,
        call: str,
        *,
        before: float,
        now: float,
        rule: str | None = None,
    ) -> Iterator[Violation]:
        """
        Check *emission*; the audio ended at *before* when the call began, and ends at *now*.

        A wrong time breaks *rule*, if a failure explains it.
        """
        processed, stable = emission.processed_up_to, emission.stable_up_to
        if not (math.isfinite(processed) and math.isfinite(stable)):
            yield Violation("TIME-03", f"{call} reported non-finite times: {processed}, {stable}")
            return
        for name, value, last in (
            ("processed", processed, self.processed),
            ("stable", stable, self.stable),
        ):
            if value < last:
                text = f"{call}: {name}_up_to went back from {last:.6f} to {value:.6f} s"
                yield Violation("TIME-03", text)
        self.processed, self.stable = max(self.processed, processed), max(self.stable, stable)
        yield from self.settle(processed)
        if self._is_miscounted:
            return
        if processed > now + ROUNDING:
            yield self._wrong_time(call, processed, now)
        elif call in FLUSHES:
            if processed < before - ROUNDING:
                late = self._wrong_time(call, processed, before)
                self._below_clock = attrs.evolve(late, rule=rule or late.rule), before
            self._mover = None

    def settle(self, processed: float = 0.0) -> Iterator[Violation]:
        """Yield a report below the clock, under TIME-03 if *processed* has since caught up."""
        if self._below_clock is None:
            return
        violation, expected = self._below_clock
        self._below_clock = None
        has_caught_up = processed >= expected - ROUNDING
        yield attrs.evolve(violation, rule="TIME-03") if has_caught_up else violation

    def _wrong_time(self, call: str, processed: float, expected: float) -> Violation:
        rule = self._mover or FLUSHES.get(call, "TIME-03")
        if rule == "SIL-03" and self._silences >= MANY:
            rule = "SIL-04"
        self._mover = None
        return Violation(
            rule,
            f"{call}: processed_up_to is {processed:.6f} s, expected {expected:.6f} s by the clock "
            "of samples and silences",
            kind="clock",
        )


class Counters:
    """
    The last counters read, and the engine calls since one of them grew.

    A cache may answer calls for audio that the backend was fed before without any work.  *known* is
    the hash of each second of audio fed to any stream so far, and grows with it.
    """

    def __init__(self, known: set[int]) -> None:
        self._last: dict[str, float] = {}
        self._calls = 0
        self._tokens = 0
        self._known = known
        self._new_seconds = 0
        self._rest = np.empty(0, dtype=np.float32)  # less than a second of audio

    def insert(self, audio: NDArray[np.float32]) -> None:
        """Note audio that was inserted."""
        audio = np.concatenate([self._rest, audio])
        whole = len(audio) - len(audio) % SAMPLE_RATE
        hashes = {hash(second.tobytes()) for second in audio[:whole].reshape(-1, SAMPLE_RATE)}
        self._new_seconds += len(hashes - self._known)
        self._known |= hashes
        self._rest = audio[whole:]

    def take(self, stats: Any, call: str, *, made: int = 0, tokens: int = 0) -> Iterator[Violation]:
        """Check *stats*, read after *call*, which made engine calls and committed tokens."""
        counted = {name: getattr(stats, name) for name in COUNTERS}
        known = {name: value for name, value in counted.items() if value is not None}
        if any(value > self._last.get(name, 0) for name, value in known.items()):
            self._calls = self._tokens = self._new_seconds = 0
        else:
            self._calls += made
            self._tokens += tokens
        is_much = self._calls >= MANY_CALLS and self._tokens >= MANY_TOKENS
        if known and is_much and self._new_seconds >= NEW_SECONDS:
            yield Violation(
                "RES-02",
                f"after {call}: {self._calls} engine calls in a row committed {self._tokens} "
                f"tokens, but none of {', '.join(known)} grew",
            )
            self._calls = 0
        for name in (*COUNTERS, "busy_seconds", "state_bytes"):
            value, before = getattr(stats, name), self._last.get(name)
            rule, least = "RES-02", before or 0
            if name == "state_bytes":  # which may shrink
                rule, least = "RES-01", 0
            if value is None and before:
                yield Violation(rule, f"{name} is None after {call}, but was {before}")
            elif value is not None and value < least:
                yield Violation(rule, f"{name} is {value} after {call}, but was {before or 0}")
            if value is not None:
                self._last[name] = value


def is_caused_by_engine(error: BaseException, *, is_here: bool) -> bool:
    """
    Return whether a requested fault caused *error*.

    One that was not raised here but on a server comes as an error of the backend's own.
    """
    cause = error.__cause__
    if cause is None:
        return False
    if isinstance(cause, EngineFault) or (isinstance(cause, BackendError) and not is_here):
        return True
    return is_caused_by_engine(cause, is_here=is_here)


class Failures:
    """The failures in a stream, and whether a call still has to raise one."""

    def __init__(self) -> None:
        self.has_just_failed = False  #: the last exclusive call raised a BackendError
        self._is_owed = False  # an engine call failed in a call that returned
        self._in_a_row = 0  # calls that raised because of it

    def returned(self, call: str, faults: int) -> Iterator[Violation]:
        """Note that *call* returned, although *faults* engine calls failed in it."""
        was_owed = self._is_owed
        self.has_just_failed = False
        self._is_owed = faults > 0
        self._in_a_row = 0
        if was_owed:
            text = f"an engine call failed in the call before {call}, but neither of them raised"
            yield Violation("ERR-01", text)

    def raised(self, call: str, error: BaseException, work: EngineWork) -> Iterator[Violation]:
        """Note that *call* raised *error* after *work*."""
        faults = work.faults
        was_owed = self._is_owed
        self.has_just_failed = isinstance(error, BackendError)
        self._is_owed = False
        if not isinstance(error, BackendError):
            if faults:
                yield Violation(
                    "ERR-01",
                    f"the engine failed in {call}, which raised {type(error).__name__}: {error}; "
                    "expected a BackendError with its cause",
                )
            return
        has_succeeded = work.made > faults  # an engine call that succeeds resets the count
        self._in_a_row = 1 if has_succeeded else self._in_a_row + 1
        is_caused = is_caused_by_engine(error, is_here=work.raised > 0)
        if (faults or was_owed) and not is_caused:
            yield Violation(
                "ERR-01",
                f"{call} raised {error!r}, whose cause must be the failure of the engine, but is "
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
