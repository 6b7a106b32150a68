"""Uploaded recordings: how they are stepped, and what their events sum up to."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from wlk_core.errors import AudioFormatError, BackendError, WLKError
from wlk_core.processor import SAMPLE_RATE
from wlk_core.session import Commit, End, Endpoint, Failure, SpeakerTurn
from wlk_serve.errors import RequestError, as_failure
from wlk_serve.speakers import SpeakerSegments
from wlk_serve.transcriptions.protocol import Recognized, SpeakerLines

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator

    import numpy as np
    from numpy.typing import NDArray

    from wlk_core.session import Session
    from wlk_core.session.events import Event
    from wlk_core.session.timeline import TextLine
    from wlk_core.tokens import ASRToken
    from wlk_serve.transcriptions.protocol import TranscriptionRequest

__all__ = ["Recording", "RecordingSession", "Result"]

Result: TypeAlias = "tuple[ASRToken, ...] | SpeakerLines | Recognized"


class RecordingSession:
    """
    A session that takes its audio from a recording, for a scheduler.

    A step either makes a call of the session, or decodes a second of audio where it waits for some.
    The audio before a damaged part is transcribed before the failure.

    Args:
        session: a session of the core, which nothing else uses.
        pieces: the audio; closed by `close`.
        use: called with the seconds of each piece; may raise RequestError.

    """

    audio_time = backlog_seconds = 0.0  # nothing of it is ever due
    is_ending_utterance = False

    def __init__(
        self,
        session: Session,
        pieces: Generator[NDArray[np.float32]],
        use: Callable[[float], object],
    ) -> None:
        self._session = session
        self._pieces = pieces
        self._use = use
        self._failure: WLKError | None = None

    @property
    def is_over(self) -> bool:
        """Whether no event will come any more."""
        return self._session.is_over

    @property
    def has_work(self) -> bool:
        """Whether a step would do something now: there is audio until the session is over."""
        return not self._session.is_over

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

    def close(self) -> None:
        """Close the recording."""
        self._pieces.close()

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


class Recording:
    """Collects the events of a recording."""

    def __init__(self, request: TranscriptionRequest, speaker_delay: float | None) -> None:
        self._request = request
        self._tokens: list[ASRToken] = []
        self._lines: list[TextLine] = []
        self._duration = 0.0
        self.is_over = False  #: whether the End has come
        self._utterances = 1
        self._speakers: SpeakerSegments | None = None
        if request.has_speakers and speaker_delay is not None:
            self._speakers = SpeakerSegments(speaker_delay)

    def add(self, event: Event) -> Iterator[Result]:
        """Yield what *event* brings to the client."""
        match event:
            case Commit():
                self._tokens += event.tokens
                yield event.tokens
            case End():
                self._duration, self.is_over = event.audio_time, True
            case Failure(is_final=True):
                raise event.error
            case Failure(error=BackendError(retryable=False)):
                # It is switched off, and the answer needs it.  The session has logged the cause.
                raise RequestError(
                    "the diarizer failed; the log of the server has the cause",
                    status=500,
                    code="engine_failed",
                ) from event.error
        if self._speakers is not None:
            self._add_speakers(event, self._speakers)
            if lines := tuple(line for _, line in self._speakers.take()):
                self._lines += lines
                yield SpeakerLines(lines)

    def _add_speakers(self, event: Event, speakers: SpeakerSegments) -> None:
        name = str(self._utterances)
        match event:
            case Commit():
                speakers.extend(name, event.tokens)
            case Endpoint():
                speakers.advance(event.time)
                speakers.end(name)
                self._utterances += 1
            case SpeakerTurn():
                speakers.add_span(event.span)
            case End():
                speakers.end(name)
                speakers.settle()

    def recognized(self) -> Recognized:
        """Return the whole."""
        detected = [token.detected_language for token in self._tokens if token.detected_language]
        return Recognized(
            tokens=tuple(self._tokens),
            duration=self._duration,
            language=detected[-1] if detected else self._request.language,
            speaker_lines=tuple(self._lines),
        )
