"""A stream of a generated session: its tape, and the calls that read from the tape."""

from __future__ import annotations

from contextlib import contextmanager, suppress
import math
from typing import TYPE_CHECKING, Any

import numpy as np

from wlk_conformance.calls import RULES_OF_CALLS, Escaped
from wlk_conformance.sessions.generated_session import Action, Violation
from wlk_conformance.stimuli import bad_audio
from wlk_core import SAMPLE_RATE, ChangeSpeaker
from wlk_core.errors import (
    AudioFormatError,
    BackendError,
    ClockError,
    StreamBroken,
    StreamClosed,
    WLKError,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from wlk_conformance.sessions.life_cycle import LifeCycle
    from wlk_conformance.sessions.monitor import MonitoredProcessor

BAD_SAMPLES = 320  # unless the action has another number
BAD_SILENCES = {"negative silence": -0.5, "silence without end": math.inf, "nan silence": math.nan}
#: Calls that must be refused, and the rules that they break if they are accepted.
BAD = {
    **dict.fromkeys(bad_audio(BAD_SAMPLES), "IN-02"),
    **dict.fromkeys(BAD_SILENCES, "SIL-03"),
    "an overlap": "IN-03",
}
JUNK = np.float32(0.25)  # overwrites a buffer that is reused
PLAIN_OPTIONS = {"policy", "language", "task"}  # the max_delay holds with no others


class Unexpected(Exception):  # noqa: N818 -- a finding that ends a generated session
    """A call raised what it must not raise, or was accepted where it must be refused."""

    def __init__(self, violation: Violation) -> None:
        super().__init__(violation.message)
        self.violation = violation

    @classmethod
    def raised(cls, rule: str, call: str, error: BaseException, stream: str = "") -> Unexpected:
        """Return the finding that *call* raised *error*, which breaks *rule*."""
        cause = error.__cause__ if isinstance(error, Escaped) else error
        message = f"{call} raised {type(cause).__name__}: {cause}".removesuffix(": ")
        # A lost connection does not depend on the calls before it.
        is_lost = isinstance(cause, BackendError) and isinstance(cause.__cause__, OSError)
        return cls(Violation(rule, message, "invariant" if is_lost else "raised", stream))


@contextmanager
def reported(
    call: str, stream: str = "", *, rule: str = "", passes: type[Exception] = Unexpected
) -> Iterator[None]:
    """Raise Unexpected for any error of a call of the backend except those of type *passes*."""
    try:
        yield
    except (Unexpected, passes):
        raise
    except Exception as error:  # a backend may raise any, and each is a finding
        raise Unexpected.raised(rule or RULES_OF_CALLS[call], call, error, stream) from error


class PlayedStream:
    """A stream with a tape: `insert` takes the next samples, or zeros after its end."""

    def __init__(
        self, processor: MonitoredProcessor, audio: NDArray[np.float32], options: dict[str, Any]
    ) -> None:
        self.name = processor.name
        self.policy: str | None = options.get("policy")
        self.processor = processor
        self.keeps_delay = options.keys() <= PLAIN_OPTIONS  #: the max_delay of the spec holds
        self.is_closed = False
        self.has_words = False  #: its engine's answers are known, see EngineFaults.worded
        self._audio = audio
        self._position = 0
        self._scratch = np.zeros(0, dtype=np.float32)
        self._begin()

    def _begin(self) -> None:
        self.life_cycle.first_sample = self._position
        self.life_cycle.may_end_early = not self.keeps_delay
        self.faults = 0  #: those of the latest calls in a row that had any
        self.may_fail = False  #: the previous call had faults, whose error may come later

    @property
    def life_cycle(self) -> LifeCycle:
        """The current life cycle of the stream."""
        return self.processor.life_cycle

    @property
    def is_open(self) -> bool:
        """Whether the stream takes audio."""
        cycle = self.life_cycle
        return not (self.is_closed or cycle.is_broken or cycle.is_complete)

    def insert(self, action: Action) -> None:
        """Insert the next samples; an overlap must be refused."""
        samples = np.zeros(action.samples, dtype=np.float32)
        piece = self._audio[self._position : self._position + action.samples]
        samples[: len(piece)] = piece
        clock = self.life_cycle.clock
        end_time = None
        if action.end_offset is not None:
            end_time = clock.end + len(samples) / SAMPLE_RATE + action.end_offset
        array = self._shaped(samples, action.form)
        try:
            self.processor.insert_audio_chunk(array, end_time)
        except ClockError:
            if clock.gap_before(len(samples), end_time) >= 0:
                raise
            return
        finally:
            if action.form == "reused":
                array[:] = JUNK
        self._position += len(samples)

    def end_silence(self, action: Action) -> None:
        """Move the clock."""
        self.processor.end_silence(action.seconds, action.offset)

    def exclusive(self, action: Action) -> None:
        """Make a call that returns an emission."""
        if action.do == "new_speaker":
            start = max(0.0, self.life_cycle.clock.end + action.start)
            self.processor.new_speaker(ChangeSpeaker(action.speaker or 0, start))
        elif action.do in ("start_silence", "finish"):
            getattr(self.processor, action.do)()
        else:
            self.processor.process_iter(action.do == "is_last")

    def read(self, action: Action) -> None:
        """Read the hypothesis and the counters."""
        for _ in range(action.times):
            self.processor.get_buffer()
            self.processor.stats  # noqa: B018 -- a read is what is tested

    def refuse(self, action: Action) -> None:
        """Make a call that must be refused with the error that the contract names."""
        bad, samples = action.bad, action.samples or BAD_SAMPLES
        rule = BAD[bad]
        expected: type[WLKError] = AudioFormatError if rule == "IN-02" else ClockError
        try:
            with reported(f"a call with {bad}", self.name, rule=rule, passes=expected):
                if bad in BAD_SILENCES:
                    self.processor.end_silence(BAD_SILENCES[bad])
                elif bad == "an overlap":
                    end_time = self.life_cycle.clock.end - 0.5 + samples / SAMPLE_RATE
                    audio = np.zeros(samples, dtype=np.float32)
                    self.processor.insert_audio_chunk(audio, end_time)
                else:
                    self.processor.insert_audio_chunk(bad_audio(samples)[bad])
        except expected:
            return
        message = f"a call with {bad} was accepted, expected {expected.__name__}"
        raise Unexpected(Violation(rule, message, stream=self.name))

    def reset(self) -> None:
        """Begin a new life cycle at the current place in the tape."""
        self.processor.reset()
        self._begin()

    def close(self) -> None:
        """Close the stream, twice, because the second close must be accepted."""
        self.is_closed = True
        self.processor.close()
        self.processor.close()
        with suppress(StreamClosed, StreamBroken):
            self.processor.process_iter()

    def _shaped(self, samples: NDArray[np.float32], form: str) -> NDArray[np.float32]:
        if form == "read-only":
            samples.flags.writeable = False
        elif form == "strided":
            doubled = np.full(2 * len(samples), JUNK, dtype=np.float32)
            doubled[::2] = samples
            return doubled[::2]
        elif form == "reversed":
            return samples[::-1].copy()[::-1]
        elif form == "reused":
            if len(self._scratch) < len(samples):
                self._scratch = np.zeros(len(samples), dtype=np.float32)
            self._scratch[: len(samples)] = samples
            return self._scratch[: len(samples)]
        return samples
