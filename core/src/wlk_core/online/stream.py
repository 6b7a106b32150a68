"""One stream of a backend: life cycle, clock, threads and failure around a recognizer."""

from __future__ import annotations

from contextlib import contextmanager
import threading
from time import perf_counter
from typing import TYPE_CHECKING

import attrs

from wlk_core.errors import (
    BackendError,
    ConcurrentCallError,
    StreamBroken,
    StreamClosed,
)
from wlk_core.online.input_queue import InputQueue
from wlk_core.online.transcript_builder import TranscriptBuilder, Utterance
from wlk_core.processor import SAMPLE_RATE, StreamStats
from wlk_core.tokens import Emission, Transcript

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import numpy as np
    from numpy.typing import NDArray

    from wlk_core.online.recognizer import Recognizer, Step
    from wlk_core.tokens import ASRToken, ChangeSpeaker

__all__ = ["MAX_RETRIES", "STEPS_PER_CALL", "OnlineStream"]

STEPS_PER_CALL = 4  # steps one process_iter runs at most; the rest is backlog (decision 6)
MAX_RETRIES = 3  # failed retries after which a stream is broken (contract ERR-03)


class OnlineStream:
    """
    An online processor made of a recognizer: everything that is the same for every backend.

    It keeps the stream clock, hands audio to the recognizer run by run, turns its words into
    tokens, and sees to it that a failed call changes nothing and that calls which overlap are
    told so.  `make_recognizer` is called once now and once for each reset.
    """

    def __init__(self, make_recognizer: Callable[[], Recognizer]) -> None:
        self._make_recognizer = make_recognizer
        self._exclusive = threading.Lock()
        self._is_closing = False
        self._is_released = False
        self._begin()

    def _begin(self) -> None:
        self._recognizer = self._make_recognizer()
        self._input = InputQueue()
        self._transcript = TranscriptBuilder()
        self._outbox: list[ASRToken] = []
        self._shown = Transcript()
        self._run_start = 0.0  # stream time of the run's first sample
        self._taken_time = 0.0  # stream time of the end of what the recognizer was fed
        self._run_samples = 0  # samples the recognizer was fed in this run
        self._processed = 0.0  # stream time
        self._is_finished = False
        self._failures = 0  # consecutive
        self._cause: BaseException | None = None
        self._busy_seconds = 0.0
        self._work = self._recognizer.work
        self._held_bytes = self._recognizer.state_bytes

    def insert_audio_chunk(
        self, audio: NDArray[np.float32], audio_stream_end_time: float | None = None
    ) -> None:
        """Append a copy of *audio*; see OnlineProcessor."""
        self._check_open()
        self._input.put_audio(audio, audio_stream_end_time)

    def get_buffer(self) -> Transcript:
        """Return the hypothesis; see OnlineProcessor."""
        return self._shown

    @property
    def stats(self) -> StreamStats:
        """The counters so far; see OnlineProcessor."""
        held = self._held_bytes
        return StreamStats(
            **attrs.asdict(self._work),
            audio_seconds=self._input.samples / SAMPLE_RATE,
            state_bytes=None if held is None else held + self._input.nbytes,
            busy_seconds=self._busy_seconds,
        )

    def close(self) -> None:
        """Let go of everything; from another thread after the current step."""
        self._is_closing = True
        self._release_if_idle()

    def process_iter(self, is_last: bool = False) -> Emission:  # noqa: FBT001, FBT002 -- pinned
        """Run a few steps and return what they committed; see OnlineProcessor."""
        with self._exclusive_call():
            if is_last:
                self._flush()
                return self._emission()
            try:
                self._advance(STEPS_PER_CALL)
            except BackendError:
                if not self._outbox or self._failures > MAX_RETRIES:
                    raise
                # Earlier steps of this call committed text: it goes out now, and the next call
                # repeats the step that failed and raises if it fails again.
            return self._emission()

    def start_silence(self) -> Emission:
        """Commit every word whose audio was inserted; see OnlineProcessor."""
        return self.process_iter(is_last=True)

    def end_silence(self, silence_duration: float, offset: float | None = None) -> None:
        """Move the clock by exactly `silence_duration`; see OnlineProcessor."""
        del offset  # advisory: the samples rule (contract SIL-03)
        with self._exclusive_call():
            self._input.put_silence(silence_duration)
            if self._run_samples == 0:
                self._pass_silences()  # nothing waits to be decoded before it

    def new_speaker(self, change: ChangeSpeaker) -> Emission:
        """Commit what was said and attribute later words anew; see SupportsSpeakerTurns."""
        with self._exclusive_call():
            self._transcript.check_turn(change)
            self._flush()
            for index, token in enumerate(self._outbox):
                self._outbox[index] = self._transcript.reattributed(token, change)
            self._transcript.turn(change)
            return self._emission()

    def finish(self) -> Emission:
        """Commit everything and end the stream; see OnlineProcessor."""
        with self._exclusive_call(may_be_finished=True):
            if not self._is_finished:
                self._input.shut(is_shut=True)
                try:
                    self._flush(keeps_state=True)
                except BaseException:
                    self._input.shut(is_shut=False)
                    raise
                self._is_finished = True
            return self._emission()

    def reset(self) -> None:
        """Return to the state of a new processor; see OnlineProcessor."""
        with self._exclusive_call(may_be_finished=True, may_be_broken=True):
            self._recognizer.close()
            self._begin()

    def _advance(self, steps: int) -> None:
        """Run at most *steps* steps, passing from run to run."""
        until = self._input.samples
        while not self._is_closing:
            self._take_audio(until)
            is_last = self._input.at_silence()
            if steps == 0 and self._run_samples:
                return
            done = self._step(is_last=is_last) if self._run_samples else None
            if done is None and not is_last:
                return
            if done is None:
                self._end_run()
                self._pass_silences()
            else:
                steps -= 1

    def _flush(self, *, keeps_state: bool = False) -> None:
        """
        Run every step there is for what was inserted before this call, and end the run.

        With `keeps_state` the last run's state stays until close or reset, for `stats` to tell.
        """
        until = self._input.samples
        while not self._is_closing:
            self._take_audio(until)
            if self._run_samples and self._step(is_last=True) is not None:
                continue
            is_over = not self._input.at_silence()
            self._end_run(keeps_state=keeps_state and is_over)
            if is_over:
                return
            self._pass_silences()

    def _take_audio(self, until: int) -> None:
        for audio in self._input.take_audio(until):
            self._recognizer.feed(audio)
            self._run_samples += len(audio)
        self._taken_time = self._input.taken_time()

    def _step(self, *, is_last: bool) -> Step | None:
        began = perf_counter()
        try:
            step = self._recognizer.step(is_last=is_last)
        except Exception as error:  # the engine call: wrapped, nothing was changed, counted
            raise self._failure(error) from error
        finally:
            self._busy_seconds += perf_counter() - began
        self._failures = 0
        self._cause = None
        if step is not None:
            self._apply(step)
        self._account()
        return step

    def _apply(self, step: Step) -> None:
        run = Utterance(self._run_start, self._taken_time, self._recognizer.language)
        heard = min(run.origin + step.consumed_samples / SAMPLE_RATE, run.end)
        self._outbox.extend(self._transcript.commit(word, run) for word in step.committed)
        self._shown = self._transcript.preview(self._recognizer.hypothesis, run)
        self._processed = max(self._processed, heard)

    def _end_run(self, *, keeps_state: bool = False) -> None:
        """Close the run after its last step; text that is not committed by now is none."""
        if self._run_samples and not keeps_state:
            self._recognizer.end_utterance(self._transcript.prompt_tail)
            self._run_samples = 0
        self._shown = Transcript()
        self._start_run()
        self._account()

    def _pass_silences(self) -> None:
        """Move the clock over the silences that are next in line; the run must be empty."""
        while self._input.at_silence():
            self._input.take_silence()
        self._start_run()

    def _start_run(self) -> None:
        self._run_start = self._taken_time = self._input.taken_time()
        self._processed = max(self._processed, self._run_start)
        self._transcript.end_utterance(self._run_start)

    def _emission(self) -> Emission:
        committed = tuple(self._outbox)
        self._outbox.clear()
        return Emission(committed, self._processed, self._transcript.stable)

    def _account(self) -> None:
        self._work = self._recognizer.work
        held = self._recognizer.state_bytes
        self._held_bytes = None if held is None else held + self._transcript.nbytes

    def _failure(self, error: Exception) -> BackendError:
        self._failures += 1
        self._cause = error
        if self._failures > MAX_RETRIES:
            return self._broken()
        if isinstance(error, BackendError):
            return BackendError(str(error), retryable=error.retryable)
        return BackendError(
            f"the engine failed: {type(error).__name__}: {error}; nothing was changed, "
            "call again to retry"
        )

    def _broken(self) -> StreamBroken:
        broken = StreamBroken(
            f"the stream is broken: the engine failed {MAX_RETRIES} retries in a row, last with "
            f"{type(self._cause).__name__}: {self._cause}; reset() or open a new stream",
            committed=tuple(self._outbox),
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
            if self._is_closing:
                self._release_if_idle()

    def _release_if_idle(self) -> None:
        """Let go of the recognizer unless a call is running: that call will."""
        if not self._exclusive.acquire(blocking=False):
            return
        try:
            if not self._is_released:
                self._is_released = True
                self._shown = Transcript()
                self._recognizer.close()
                self._held_bytes = 0
        finally:
            self._exclusive.release()
