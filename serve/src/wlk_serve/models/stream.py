"""Sessions of the core as the server steps them: over a socket, or of an uploaded recording."""

from __future__ import annotations

from collections import deque
import time
from typing import TYPE_CHECKING, Any, ClassVar

import attrs

from wlk_core.errors import AudioFormatError, WLKError
from wlk_core.processor import SAMPLE_RATE
from wlk_core.session import End, Failure
from wlk_serve.errors import RequestError, as_failure

if TYPE_CHECKING:
    from collections.abc import Callable, Generator
    from contextlib import ExitStack

    import numpy as np
    from numpy.typing import NDArray

    from wlk_core.audio.pcm import Encoding
    from wlk_core.session import Session
    from wlk_core.session.events import Event
    from wlk_core.vad import GateParameters


@attrs.frozen(kw_only=True)
class StreamSettings:
    """
    How a stream is opened.

    Attributes:
        encoding: of the samples of its audio, one channel.
        rate: samples a second.
        language: a code of the backend; None to detect it.
        prompt: what the model is told before the audio; None for nothing.
        keyterms: names and terms to listen for, separated by commas; None for none.
        gate: when speech begins and ends; None for the gate's own parameters.
        leaves_out_pauses: without it there is no gate and the model gets all audio, because the
            client has a gate of its own.
        detects_turns: whether a turn detector ends utterances too, where the server has one.
        translates: whether what is committed is translated, where the server can.

    """

    encoding: Encoding = "s16le"
    rate: int = 16_000
    language: str | None = None
    prompt: str | None = None
    keyterms: str | None = None
    gate: GateParameters | None = None
    leaves_out_pauses: bool = True
    detects_turns: bool = True
    translates: bool = False


@attrs.define(eq=False)
class ServedStream:
    """
    A session that a scheduler steps, with the *parts* that belong to it.

    The first `close` lets *close_later* call `release` in a thread.
    """

    session: Any
    parts: ExitStack
    _close_later: Callable[[Callable[[], object]], object]
    #: Tells the scheduler that something was received.
    notify: Callable[[], object] = attrs.field(init=False, default=lambda: None)
    #: Of commits whose endpoints have not come yet.
    commit_times: deque[float] = attrs.field(init=False, factory=deque)
    _is_closed: bool = attrs.field(init=False, default=False)

    @property
    def backlog_seconds(self) -> float:
        """Seconds of audio that wait to be decoded."""
        return 0.0 if self._is_closed else self.session.backlog_seconds

    def receive(self, audio: bytes) -> None:
        """Append audio."""
        self.session.receive(audio)
        self.notify()

    def commit(self) -> None:
        """End the utterance."""
        self.session.commit()
        self.commit_times.append(time.monotonic())
        self.notify()

    def mark(self, name: str) -> None:
        """Request an event when all audio so far is decoded."""
        self.session.mark(name)
        self.notify()

    def end_audio(self) -> None:
        """Declare that no more audio will come."""
        self.session.end_audio()
        self.notify()

    def close(self) -> None:
        """Drop what was not transcribed; the engine call that runs ends by itself."""
        if not self._is_closed:
            self._is_closed = True
            self._close_later(self.release)

    def release(self) -> None:
        """Close every part after the step that runs; what one raises is raised after the others."""
        self._is_closed = True
        try:
            self.parts.close()
        finally:
            # Cycles refer to this object, and Python collects them late: it does not count the
            # native memory of the model and of the detector.
            del self.session, self.notify


@attrs.define(eq=False)
class RecordingSession:
    """
    A session that takes its audio from a recording, for a scheduler.

    A step either makes a call of the session, or decodes a second of audio where it waits for some.
    The audio before a damaged part is transcribed before the failure.  *use* is called with the
    seconds of each piece, and may raise RequestError.  Nothing is done while *has_room* is false.
    """

    _session: Session
    _pieces: Generator[NDArray[np.float32]]
    _use: Callable[[float], object]
    _has_room: Callable[[], bool]
    _failure: WLKError | None = attrs.field(init=False, default=None)
    # Nothing of it is ever due.
    audio_time: ClassVar = 0.0
    backlog_seconds: ClassVar = 0.0
    is_ending_utterance: ClassVar = False

    @property
    def is_over(self) -> bool:
        """Whether no event will come any more."""
        return self._session.is_over

    @property
    def has_work(self) -> bool:
        """Whether a step would do something now."""
        return not self._session.is_over and self._has_room()

    def step(self) -> list[Event]:
        """Make the next step; a failure of the recording comes in place of the End."""
        if not self._session.has_work:
            self._read()
        return [
            Failure(self._failure, True, event.audio_time)
            if self._failure is not None and isinstance(event, End)
            else event
            for event in self._session.step()
        ]

    def fail(self, error: WLKError) -> list[Event]:
        """End the session because of *error*; return its last events."""
        return self._session.fail(error)

    def _read(self) -> None:
        samples = 0
        try:
            while samples < SAMPLE_RATE:
                piece = next(self._pieces, None)
                if piece is None:
                    self._session.end_audio()
                    return
                self._use(len(piece) / SAMPLE_RATE)
                self._session.receive(piece)
                samples += len(piece)
        except (AudioFormatError, OSError, RequestError) as error:
            self._failure = as_failure(error)
            self._session.end_audio()
