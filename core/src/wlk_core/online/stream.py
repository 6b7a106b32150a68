"""One stream of a backend: life cycle, clock, threads and failure around a recognizer."""

from __future__ import annotations

from contextlib import contextmanager
from fractions import Fraction
import logging
import math
import threading
from time import perf_counter
from typing import TYPE_CHECKING, Any, cast

import attrs

from wlk_core.audio import ValidAudio
from wlk_core.errors import (
    BackendError,
    ClockError,
    ConcurrentCallError,
    StreamBroken,
    StreamClosed,
)
from wlk_core.online.engine_calls import engine_errors
from wlk_core.online.input_queue import InputQueue
from wlk_core.online.transcript_builder import PROMPT_TAIL_CHARACTERS, TranscriptBuilder, Utterance
from wlk_core.processor import MAX_RETRIES, SAMPLE_RATE, StreamStats, SupportsCatchUp
from wlk_core.tokens import ChangeSpeaker, Emission, Transcript
from wlk_core.untrusted import real_number, reason, shown

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import numpy as np
    from numpy.typing import NDArray

    from wlk_core.online.recognizer import Recognizer, Step
    from wlk_core.tokens import ASRToken

_LOGGER = logging.getLogger(__name__)

STEPS_PER_CALL = 4  # the most steps of one process_iter, so that a call is short; see has_backlog


class OnlineStream:
    """
    An online processor around a recognizer: everything that is the same for every backend.

    The stream keeps the clock, feeds the recognizer utterance by utterance and turns its words
    into tokens.  A failed step changes nothing, and a call that overlaps another one is refused.
    `make_recognizer` is called once by the constructor and once for each reset; it runs no model.
    """

    def __init__(self, make_recognizer: Callable[[], Recognizer]) -> None:
        self._make_recognizer = make_recognizer
        self._exclusive = threading.Lock()
        self._is_closing = False
        self._is_released = False
        with engine_errors("the stream could not be opened"):
            self._begin(make_recognizer())

    def _begin(self, recognizer: Recognizer) -> None:
        self._recognizer = recognizer
        self._input = InputQueue()
        self._transcript = TranscriptBuilder()
        self._committed: list[ASRToken] = []  # tokens that no Emission has carried yet
        self._decoded: Step | None = None  # a step whose words are not committed yet
        self._hypothesis = Transcript()
        self._utterance_start = 0.0  # stream time of the utterance's first sample
        self._utterance_samples = 0  # samples of this utterance fed to the recognizer
        self._fed_time = 0.0  # stream time up to which the recognizer was fed
        self._processed_time = 0.0  # stream time up to which the model has consumed the audio
        self._may_have_steps = False  # the recognizer was fed audio and may have steps to run
        self._is_finished = False
        self._failures = 0  # engine failures since the last engine call that succeeded
        self._cause: BaseException | None = None
        self._busy_seconds = 0.0
        self._misplaced_words = 0
        self._update_stats()

    def insert_audio_chunk(
        self, audio: NDArray[np.float32], audio_stream_end_time: float | None = None
    ) -> None:
        """Append a copy of *audio*; see OnlineProcessor."""
        self._check_open()
        self._input.put_audio(audio, audio_stream_end_time)

    def get_buffer(self) -> Transcript:
        """Return the hypothesis; see OnlineProcessor."""
        return self._hypothesis

    def begin_catch_up(self) -> None:
        """Let a recognizer that can do so decode a backlog with less work; see SupportsCatchUp."""
        if isinstance(self._recognizer, SupportsCatchUp):
            self._recognizer.begin_catch_up()

    def end_catch_up(self) -> None:
        """Decode as usual again; see SupportsCatchUp."""
        if isinstance(self._recognizer, SupportsCatchUp):
            self._recognizer.end_catch_up()

    def prepare_flush(self) -> Transcript | None:
        """Decode what a flush would decode, if nothing is due before; see SupportsPreparedFlush."""
        recognizer: Any = self._recognizer  # whose `prepare_flush` returns words
        with self._exclusive_call():
            if self.has_backlog or not hasattr(recognizer, "prepare_flush"):
                return None
            with self._engine_attempt():
                words = recognizer.prepare_flush()
            self._update_stats()
            utterance = Utterance(self._utterance_start, self._fed_time, recognizer.language)
            return self._transcript.preview(words, utterance)

    @property
    def has_backlog(self) -> bool:
        """Whether process_iter has something to take or to decode; see OnlineProcessor."""
        return not self._is_closing and (self._may_have_steps or self._input.next is not None)

    @property
    def stats(self) -> StreamStats:
        """The counters so far; see OnlineProcessor."""
        held, waiting = self._held_bytes, self._input.samples - self._input.taken
        return StreamStats(
            **attrs.asdict(self._work),
            audio_seconds=self._input.samples / SAMPLE_RATE,
            state_bytes=None if held is None else held + 4 * waiting,
            busy_seconds=self._busy_seconds,
            misplaced_words=self._misplaced_words,
        )

    def close(self) -> None:
        """Release everything; from another thread after the current step."""
        self._is_closing = True
        self._release_if_idle()

    def process_iter(self, is_last: bool = False) -> Emission:  # noqa: FBT001, FBT002 -- pinned
        """Run a few steps and return what they committed; see OnlineProcessor."""
        with self._exclusive_call():
            self._advance(is_last=is_last)
            return self._emission()

    def start_silence(self) -> Emission:
        """Commit every word whose audio was inserted; see OnlineProcessor."""
        return self.process_iter(is_last=True)

    def end_silence(self, silence_duration: float, offset: float | None = None) -> None:
        """Move the clock by exactly `silence_duration`; see OnlineProcessor."""
        del offset  # advisory (contract SIL-03)
        with self._exclusive_call():
            self._input.put_silence(silence_duration)
            if self._utterance_samples == 0:
                self._pass_silences()  # unless audio before it waits to be decoded

    def new_speaker(self, change: ChangeSpeaker) -> Emission:
        """Commit all words so far and attribute later words anew; see SupportsSpeakerTurns."""
        value: Any = change  # not checked yet
        start = real_number(value.start) if isinstance(value, ChangeSpeaker) else None
        if start is None or not 0 <= start < math.inf:
            raise ClockError(f"a turn starts at a stream time of 0 s or more, got {shown(change)}")
        change = attrs.evolve(change, start=start)
        with self._exclusive_call():
            self._advance(is_last=True)
            self._committed = [
                token if token.start < change.start else attrs.evolve(token, speaker=change.speaker)
                for token in self._committed
            ]
            self._transcript.add_turn(change)
            return self._emission()

    def finish(self) -> Emission:
        """Commit everything and end the stream; see OnlineProcessor."""
        with self._exclusive_call(may_be_finished=True):
            if not self._is_finished:
                # First, so that audio inserted meanwhile by another thread is refused, not lost.
                self._input.close()
                try:
                    self._advance(is_last=True)
                except BaseException:
                    self._input.reopen()
                    raise
                self._is_finished = True
            return self._emission()

    def reset(self) -> None:
        """Return to the state of a new processor; see OnlineProcessor."""
        with (
            self._exclusive_call(may_be_finished=True, may_be_broken=True),
            engine_errors("the stream could not be reset"),
        ):
            recognizer = self._make_recognizer()  # first: if this raises, nothing has changed
            self._recognizer.close()
            self._begin(recognizer)

    def _advance(self, *, is_last: bool) -> None:
        """Run a few steps, across utterances if there are silences; with `is_last`, all steps."""
        steps = math.inf if is_last else STEPS_PER_CALL
        # Audio that comes meanwhile is for the next call; otherwise a flush might never end.
        end_sample = self._input.samples
        while not self._is_closing:
            self._feed_audio(end_sample)
            if steps == 0 and self._utterance_samples:
                return
            is_silence = isinstance(self._input.next, Fraction)
            ends = is_last or is_silence
            if self._utterance_samples and self._step(is_last=ends) is not None:
                steps -= 1
                continue
            self._may_have_steps = is_silence
            if ends:
                # The state of a finished stream stays until close, because `stats` reports it.
                self._end_utterance(keeps_state=self._input.is_closed and not is_silence)
            if not is_silence:
                return
            self._pass_silences()
        if is_last:
            raise StreamClosed(
                "the stream was closed by another thread before every word was committed; create a "
                "new one, and close it after the last call",
                committed=tuple(self._committed),
            )

    def _feed_audio(self, end_sample: int) -> None:
        while self._input.taken < end_sample and isinstance(audio := self._input.next, ValidAudio):
            self._recognizer.feed(audio)
            # Inside the loop, because an interrupt may come after some pieces were fed.
            self._utterance_samples += len(audio)
            self._may_have_steps = True
            self._input.take()
        self._fed_time = self._input.taken_end

    @contextmanager
    def _engine_attempt(self) -> Iterator[None]:
        began = perf_counter()
        try:
            yield
        except Exception as error:
            raise self._failure(error) from error
        finally:
            self._busy_seconds += perf_counter() - began

    def _step(self, *, is_last: bool) -> Step | None:
        with self._engine_attempt():
            # The recognizer does not repeat a step that succeeded, so its words are kept until they
            # are committed: an interrupt in between loses none.
            step = self._decoded = self._decoded or self._recognizer.step(is_last=is_last)
        self._update_stats()
        if step is None:
            return None
        self._failures, self._cause = 0, None
        utterance = Utterance(self._utterance_start, self._fed_time, self._recognizer.language)
        consumed = min(utterance.origin + step.consumed_samples / SAMPLE_RATE, utterance.end)
        self._committed += self._transcript.commit(step.committed, utterance)
        self._decoded = None
        length = utterance.end - utterance.origin
        misplaced = step.misplaced_words + sum(word.is_outside(length) for word in step.committed)
        if misplaced and not self._misplaced_words:
            _LOGGER.warning(
                "the engine timed %d words outside their audio, and they were moved into it; times "
                "must be seconds from the first sample of a call",
                misplaced,
            )
        self._misplaced_words += misplaced
        self._hypothesis = self._transcript.preview(self._recognizer.hypothesis, utterance)
        self._processed_time = max(self._processed_time, consumed)
        return step

    def _end_utterance(self, *, keeps_state: bool) -> None:
        if self._utterance_samples and not keeps_state:
            self._recognizer.start_utterance(self._transcript.prompt_tail)
            self._utterance_samples = 0
        self._hypothesis = Transcript()
        self._may_have_steps = False
        self._start_utterance()
        self._update_stats()

    def _pass_silences(self) -> None:
        while isinstance(self._input.next, Fraction):
            self._input.take()
        self._start_utterance()

    def _start_utterance(self) -> None:
        self._utterance_start = self._fed_time = self._input.taken_end
        self._processed_time = max(self._processed_time, self._utterance_start)
        self._transcript.start_utterance(self._utterance_start)

    def _emission(self) -> Emission:
        committed = tuple(self._committed)
        self._committed.clear()
        return Emission(committed, self._processed_time, self._transcript.stable)

    def _update_stats(self) -> None:
        self._work = self._recognizer.work
        held = self._recognizer.state_bytes
        # The kept text is counted at its maximum, so that `state_bytes` does not grow with it.
        self._held_bytes = None if held is None else held + PROMPT_TAIL_CHARACTERS

    def _failure(self, error: Exception) -> BackendError:
        self._failures += 1
        self._cause = error
        if self._failures > MAX_RETRIES:
            return self._broken()
        if not isinstance(error, BackendError):
            error = BackendError(
                f"the engine failed: {reason(error)}; nothing was changed, call again to retry"
            )
        return BackendError(
            str(error),
            retryable=error.retryable,
            is_exhausted=error.is_exhausted,
            committed=tuple(self._committed),
        )

    def _broken(self) -> StreamBroken:
        broken = StreamBroken(
            f"the stream is broken: the engine failed in {MAX_RETRIES} retries, the last time with "
            f"{self._cause and reason(self._cause)}; reset() or open a new stream",
            committed=tuple(self._committed),
        )
        broken.__cause__ = self._cause
        return broken

    def _check_open(self, *, may_be_finished: bool = False, may_be_broken: bool = False) -> None:
        if self._is_closing:
            raise StreamClosed("the stream was closed; create a new one")
        if self._failures > MAX_RETRIES and not may_be_broken:
            raise self._broken()
        if self._is_finished and not may_be_finished:
            raise StreamClosed("the stream is finished; reset() it or create a new one")

    @contextmanager
    def _exclusive_call(
        self, *, may_be_finished: bool = False, may_be_broken: bool = False
    ) -> Iterator[None]:
        if not self._exclusive.acquire(blocking=False):
            raise ConcurrentCallError(
                "another call of this stream is running; wait for it before the next one"
            )
        try:
            self._check_open(may_be_finished=may_be_finished, may_be_broken=may_be_broken)
            yield
        finally:
            self._exclusive.release()
            # After the release, because a `close` meanwhile found the lock taken and returned.
            if self._is_closing:
                self._release_if_idle()

    def _release_if_idle(self) -> None:
        if not self._exclusive.acquire(blocking=False):
            return  # the running call releases at its end
        try:
            if not self._is_released:
                self._is_released = True
                self._hypothesis = Transcript()
                self._cause = None  # its traceback holds the audio of the call that failed
                self._input.close()
                self._input.clear()
                recognizer, self._recognizer = self._recognizer, cast("Any", None)
                del self._make_recognizer  # a closed stream must not keep the model
                with engine_errors("the stream was closed, and its state could not be released"):
                    recognizer.close()
                self._held_bytes = 0
        finally:
            self._exclusive.release()
