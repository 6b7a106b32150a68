"""
Deepgram's turns, ``/v2/listen`` (Flux).

The source is the reference of Deepgram's API and deepgram-sdk 7.17, listen/v2.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import attrs

from wlk_core.session import Commit, Endpoint, Failure, HypothesisChange, Marked
from wlk_protocol_deepgram.messages import language_fields, parse_message
from wlk_serve.protocols import DAMAGED_AUDIO, RequestError, WebmDecoder, as_request_error

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from wlk_core.session import Event
    from wlk_core.tokens import ASRToken
    from wlk_protocol_deepgram.query import FluxQuery
    from wlk_serve.protocols import Message, SegmentEnd, SessionAudio, SessionInfo

_UPDATE_SECONDS = 0.25  # of audio
_FRAME_SECONDS = 0.05  # a little more than the 32 ms that the detector of speech may wait for


@attrs.define
class _Quiet:
    """
    How long nobody has spoken, as marks show it: the gate passes on no audio after its hang-over.

    The model does not know: it gets no more audio then, and while somebody speaks, it may not have
    found the words of the last half second yet.
    """

    _time: float = 0.0  # of the last mark
    _passed: float = 0.0  # seconds of audio that the model had by then
    _held: float = 0.0

    def add(self, time: float, passed: float) -> None:
        """Count what the model got of the audio up to a mark."""
        is_passing = passed != self._passed
        held = time - self._time - (passed - self._passed)
        self._held = max(0.0, held if is_passing else self._held + held)
        self._time, self._passed = time, passed

    def silence(self, without_words: float, hang_over: float) -> float:
        """Return seconds of silence, where the model found no words in its last seconds."""
        if self._held > _FRAME_SECONDS:
            return hang_over + self._held
        return min(max(0.0, without_words), hang_over)


class FluxProtocol:
    """
    One connection; a `ClientProtocol` without I/O.

    A turn starts with its first words and ends with a pause.  It may end eagerly before, when no
    word has followed for a shorter time and the text did not change; if it changes after all, the
    turn is resumed, so that an end has the transcript of the eager end before it.  Other settings
    hold from the next turn, because they need another stream, and a turn has one.
    """

    replaceable: ClassVar[Collection[str | None]] = ()

    def __init__(self, audio: SessionAudio, info: SessionInfo, query: FluxQuery) -> None:
        self._audio = audio
        self._info = info
        self._query = query
        self._next_query = query  # from the end of the turn
        self._decode = WebmDecoder().decode if query.is_webm else lambda data: (data,)
        self._sequence = 0  # of the next message
        self._turn = 0
        self._turn_start: float | None = None  # in seconds; None before the first words
        self._words: list[ASRToken] = []  # of the turn, committed
        self._hypothesis: Sequence[ASRToken] = ()
        self._marked_text = ""  # at the last mark
        self._quiet = _Quiet()
        self._eager_text: str | None = None  # of an eager end that holds
        self._marked = 0.0  # seconds of audio at the last mark that was requested
        self._forces = 0  # requests to end a turn that have not been done

    def begin(self) -> list[Message]:
        """Return the first message of the connection."""
        return [self._message("Connected")]

    def receive(self, data: str | bytes) -> list[Message]:
        """Apply audio, or a message of the client."""
        if self._audio.is_ended:
            return []
        try:
            if isinstance(data, str):
                return self._apply(data)
            for samples in self._decode(data):
                self._audio.append(samples)
            if self._audio.seconds >= self._marked + _UPDATE_SECONDS:
                self._marked = self._audio.seconds
                self._audio.mark(str(self._marked))  # its answer has the text so far
        except RequestError as error:
            return [*self.refuse(error), *(self.end() if error.code == DAMAGED_AUDIO else ())]
        return []

    def refuse(self, error: RequestError) -> list[Message]:
        """Return the message of an error."""
        code = str(error.code or "error").upper()
        return [self._message("Error", code=code, description=str(error))]

    def handle(self, event: Event | SegmentEnd) -> Iterator[Message]:
        """Apply what happened to the audio."""
        match event:
            case Commit():
                self._words += event.tokens
                self._hypothesis = ()
                yield from self._change(event.audio_time)
            case HypothesisChange():
                self._hypothesis = event.transcript.tokens
                yield from self._change(event.audio_time)
            case Marked():
                yield from self._look(event)
            case Endpoint():
                yield from self._end_turn(event)
            case Failure(is_final=True):
                yield from self.refuse(as_request_error(event.error))

    def end(self) -> list[Message]:
        """End the audio; may be called again."""
        self._audio.end()
        return []

    def _apply(self, text: str) -> list[Message]:
        fields = parse_message(text)
        match fields.get("type"):
            case "CloseStream":
                return self.end()
            case "ForceEndTurn":
                self._forces += self._audio.commit() is not None
                return []
            case "Configure":
                return [self._configure(fields)]
        raise RequestError(
            f"expected audio, Configure, ForceEndTurn or CloseStream, got {text[:100]!r}",
            code="invalid_message",
        )

    def _configure(self, fields: Message) -> Message:
        """Take other settings; those that a message does not name stay."""
        try:
            query = self._next_query.configured(fields)
            self._audio.check_change()
        except RequestError as error:
            code = str(error.code).upper()
            return self._message("ConfigureFailure", code=code, description=str(error))
        self._next_query = query
        if self._turn_start is None:
            self._change_settings()
        return self._message("ConfigureSuccess", **query.record())

    def _change_settings(self) -> None:
        self._query = self._next_query
        self._audio.change(self._query.settings)

    @property
    def _tokens(self) -> list[ASRToken]:
        return [*self._words, *self._hypothesis]

    @property
    def _text(self) -> str:
        return "".join(token.text for token in self._tokens).strip()

    def _change(self, now: float) -> Iterator[Message]:
        """Start a turn, or resume one whose eager end was wrong."""
        if self._turn_start is None:
            if self._text:
                self._turn_start = min(token.start for token in self._tokens)
                yield self._info_message("StartOfTurn", now)
        elif self._eager_text not in {None, self._text}:
            self._eager_text = None
            yield self._info_message("TurnResumed", now)

    def _look(self, mark: Marked) -> Iterator[Message]:
        """Report the turn as it is, or its eager end."""
        text, last = self._text, self._marked_text
        now = float(mark.name)
        self._marked_text = text
        self._quiet.add(now, mark.stats.audio_seconds)
        if self._turn_start is None or self._eager_text is not None:
            return
        end = max((token.end for token in self._tokens), default=mark.processed_up_to)
        silence = self._quiet.silence(mark.processed_up_to - end, self._query.hang_over)
        if text and text == last and silence >= self._query.eager_seconds:
            self._eager_text = text
            yield self._info_message("EagerEndOfTurn", now, silence)
        else:
            yield self._info_message("Update", now, silence)

    def _end_turn(self, event: Endpoint) -> Iterator[Message]:
        is_forced = event.reason == "commit" and self._forces > 0
        self._forces -= is_forced
        self._hypothesis = ()  # all words are committed
        yield from self._change(event.audio_time)
        if self._turn_start is not None:
            trigger = "manual" if is_forced else self._query.trigger
            message = self._info_message("EndOfTurn", event.audio_time, self._query.end_seconds)
            yield {**message, "trigger": trigger}
            self._turn += 1
        self._turn_start, self._words, self._eager_text, self._marked_text = None, [], None, ""
        self._change_settings()

    def _info_message(self, event: str, now: float, silence: float = 0.0) -> Message:
        return self._message(
            "TurnInfo",
            event=event,
            turn_index=self._turn,
            audio_window_start=round(self._turn_start or 0.0, 3),
            audio_window_end=round(now, 3),
            transcript=self._text,
            words=[
                {
                    "word": token.text.strip(),
                    "confidence": token.probability or 0.0,
                    "start": round(token.start, 3),
                    "end": round(token.end, 3),
                }
                for token in self._tokens
                if token.text.strip()
            ],
            end_of_turn_confidence=round(self._query.confidence(silence), 3),
            **language_fields(self._tokens),
        )

    def _message(self, kind: str, **fields: Any) -> Message:
        number = self._sequence
        self._sequence += 1
        return {"type": kind, "request_id": self._info.id, "sequence_id": number, **fields}
