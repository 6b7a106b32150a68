"""Uploaded recordings: their turns to use the model, and what their events sum up to."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from wlk_core.errors import BackendError
from wlk_core.processor import SAMPLE_RATE
from wlk_core.session import Commit, End, Endpoint, Failure, SpeakerTurn
from wlk_serve.errors import RequestError
from wlk_serve.speakers import SpeakerSegments
from wlk_serve.transcriptions.protocol import Recognized, SpeakerLines

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    import numpy as np
    from numpy.typing import NDArray

    from wlk_core.session.events import Event
    from wlk_core.session.timeline import TextLine
    from wlk_core.tokens import ASRToken
    from wlk_serve.models.engine_turns import Turns
    from wlk_serve.transcriptions.protocol import TranscriptionRequest

__all__ = ["Recording", "Result", "in_turns"]

Result: TypeAlias = "tuple[ASRToken, ...] | SpeakerLines | Recognized"


class Recording:
    """Collects the events of a recording."""

    def __init__(self, request: TranscriptionRequest, speaker_delay: float | None) -> None:
        self._request = request
        self._tokens: list[ASRToken] = []
        self._lines: list[TextLine] = []
        self._duration = 0.0
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
                self._duration = event.audio_time
            case Failure(error=BackendError(retryable=False), is_final=False):
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


def in_turns(
    pieces: Iterable[NDArray[np.float32]],
    turns: Turns,
    use: Callable[[float], object],
) -> Iterator[NDArray[np.float32]]:
    """Yield *pieces*; give the turn back while the next one is awaited, as of a slow upload."""
    iterator = iter(pieces)
    while True:
        turns.release()
        try:
            piece = next(iterator, None)
        finally:
            turns.acquire()
        if piece is None:
            return
        use(len(piece) / SAMPLE_RATE)
        yield piece
