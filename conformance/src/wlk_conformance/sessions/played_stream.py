"""One stream of a session that is played: its tape, its clock, and what it committed."""

from __future__ import annotations

from contextlib import contextmanager
import math
from typing import TYPE_CHECKING, Any

import numpy as np

from wlk_conformance.calls import Escaped
from wlk_conformance.sessions.oracle import Life
from wlk_conformance.sessions.session import FLUSHES, Action, Violation
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

__all__ = ["BAD", "PlayedStream", "Unexpected", "reported"]

#: Calls that must be refused, and the rules that they break where they are accepted.
BAD = {
    "int16": "IN-02", "float64": "IN-02", "stereo": "IN-02", "nan": "IN-02", "infinity": "IN-02",
    "overlap": "IN-03", "negative silence": "SIL-03", "silence without end": "SIL-03",
    "float16": "IN-02", "int8": "IN-02", "bool": "IN-02", "complex64": "IN-02",
    "big-endian": "IN-02", "nan at the start": "IN-02", "nan at the end": "IN-02",
    "infinity at the end": "IN-02", "nan silence": "SIL-03",
}  # fmt: skip
BAD_SAMPLES = 320  # unless the action has another number
BAD_SILENCES = {"negative silence": -0.5, "silence without end": math.inf, "nan silence": math.nan}
BAD_PLACES = {"at the start": 0, "at the end": -1}  # of the sample that is not finite
JUNK = np.float32(0.25)  # overwrites a buffer that is used again


class Unexpected(Exception):  # noqa: N818 -- ends a session, and is reported
    """A call raised what it must not raise, or was accepted."""

    def __init__(self, violation: Violation) -> None:
        super().__init__(violation.message)
        self.violation = violation

    @classmethod
    def raised(cls, rule: str, call: str, error: BaseException, stream: str = "") -> Unexpected:
        """Return that *call* raised *error*, which breaks *rule*."""
        cause = error.__cause__ if isinstance(error, Escaped) else error
        message = f"{call} raised {type(cause).__name__}: {cause}".removesuffix(": ")
        # A connection that is lost depends on nothing that is left of a session.
        is_lost = isinstance(cause, BackendError) and isinstance(cause.__cause__, OSError)
        return cls(Violation(rule, message, "invariant" if is_lost else "raised", stream))


@contextmanager
def reported(
    rule: str, call: str, stream: str = "", *, passes: type[Exception] = Unexpected
) -> Iterator[None]:
    """
    Raise Unexpected for what a call of the backend raises; errors of the type *passes* are left.

    It catches every error, because a backend under test may raise any, and each is a finding.
    """
    try:
        yield
    except (Unexpected, passes):
        raise
    except Exception as error:
        raise Unexpected.raised(rule, call, error, stream) from error


class PlayedStream:
    """A stream with a tape: `insert` takes its next samples, and zeros after its end."""

    def __init__(
        self,
        processor: Any,
        audio: NDArray[np.float32],
        *,
        policy: str | None,
        keeps_delay: bool,
    ) -> None:
        self.name = processor.name
        self.policy = policy  #: that it was opened with, None for the default
        self.processor = processor
        self.keeps_delay = keeps_delay  #: by its options, the max_delay of the spec holds
        self.lives: list[Life] = []
        self.is_closed = False
        self._audio = audio
        self._position = 0
        self._scratch = np.zeros(0, dtype=np.float32)
        self._begin()

    def _begin(self) -> None:
        self.lives.append(Life(self._position, may_end_early=not self.keeps_delay))
        self.processed = 0.0
        self.is_broken = False
        self.faults = 0  #: of the last calls in a row that had any
        self.may_fail = False  #: the call before had faults, and its error may come later

    @property
    def life(self) -> Life:
        """The life that the stream is in."""
        return self.lives[-1]

    @property
    def is_open(self) -> bool:
        """Whether the stream takes audio."""
        return not (self.is_closed or self.is_broken or self.life.is_complete)

    def insert(self, action: Action) -> None:
        """Insert the next samples; an overlap must be refused."""
        samples = np.zeros(action.samples, dtype=np.float32)
        piece = self._audio[self._position : self._position + action.samples]
        samples[: len(piece)] = piece
        clock = self.life.clock
        end_time = None
        if action.end_offset is not None:
            end_time = clock.end + len(samples) / SAMPLE_RATE + action.end_offset
        gap = clock.gap_before(len(samples), end_time)
        array = self._shaped(samples, action.form)
        try:
            self.processor.insert_audio_chunk(array, *(() if end_time is None else (end_time,)))
        except ClockError:
            if gap >= 0:
                raise
            return
        finally:
            if action.form == "reused":
                array[:] = JUNK
        self._position += len(samples)
        clock.add_pause(max(0.0, gap))
        clock.add_audio(len(samples))

    def end_silence(self, action: Action) -> None:
        """Move the clock."""
        offset = () if action.offset is None else (action.offset,)
        self.processor.end_silence(action.seconds, *offset)
        self.life.clock.add_pause(action.seconds)

    def exclusive(self, action: Action) -> None:
        """Make a call that returns an emission, and take its tokens."""
        processor, samples = self.processor, self.life.clock.samples
        if action.do == "new_speaker":
            start = max(0.0, self.life.clock.end + action.start)
            emission = processor.new_speaker(ChangeSpeaker(action.speaker or 0, start))
        elif action.do in ("start_silence", "finish"):
            emission = getattr(processor, action.do)()
        else:
            emission = processor.process_iter(*([True] if action.do == "is_last" else []))
        self.life.tokens += emission.committed
        self.processed = emission.processed_up_to
        if action.do in FLUSHES:
            self.life.cuts.append(samples)
        if action.do == "finish":
            self.life.is_complete = True

    def finish_again(self) -> None:
        """Finish a stream that is finished, which must do nothing."""
        self.life.tokens += self.processor.finish().committed

    def failed(self, error: BackendError) -> None:
        """Note an error, and take the tokens in it that a broken stream could not return."""
        if isinstance(error, StreamBroken) and not self.is_broken:
            self.is_broken = True
            self.life.tokens += error.committed

    def read(self, action: Action) -> None:
        """Read the hypothesis and the counters."""
        for _ in range(action.times):
            self.life.read(self.processor.get_buffer().tokens)
            self.processor.stats  # noqa: B018 -- a read is what is tested

    def refuse(self, action: Action) -> None:
        """
        Make a call that must be refused.

        Raises:
            Unexpected: it was accepted, or another error came than the contract names.

        """
        bad, samples = action.bad, action.samples or BAD_SAMPLES
        expected: type[WLKError] = AudioFormatError if BAD[bad] == "IN-02" else ClockError
        try:
            with reported(BAD[bad], f"a call with {bad}", self.name, passes=expected):
                if bad in BAD_SILENCES:
                    self.processor.end_silence(BAD_SILENCES[bad])
                elif bad == "overlap":
                    end_time = self.life.clock.end - 0.5 + samples / SAMPLE_RATE
                    self.processor.insert_audio_chunk(_bad_audio(bad, samples), end_time)
                else:
                    self.processor.insert_audio_chunk(_bad_audio(bad, samples))
        except expected:
            return
        message = f"a call with {bad} was accepted, expected {expected.__name__}"
        raise Unexpected(Violation(BAD[bad], message, stream=self.name))

    def reset(self) -> None:
        """Begin a new life where the tape is."""
        self.processor.reset()
        self._begin()

    def close(self) -> None:
        """Close the stream, twice, because the second close must be accepted."""
        self.is_closed = True
        self.processor.close()
        self.processor.close()
        try:
            self.processor.process_iter()
        except (StreamClosed, StreamBroken):
            return

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


def _bad_audio(bad: str, samples: int) -> NDArray[Any]:
    audio = np.full(samples, 0.125, dtype=np.float32)
    if bad == "stereo":
        return np.stack([audio, audio])
    kind, _, where = bad.partition(" ")
    if kind in ("nan", "infinity"):
        audio[BAD_PLACES.get(where, samples // 2)] = np.nan if kind == "nan" else np.inf
        return audio
    return audio if bad == "overlap" else audio.astype(">f4" if bad == "big-endian" else bad)
