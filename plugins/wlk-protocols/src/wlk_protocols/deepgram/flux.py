"""
Deepgram's turn-based transcription (Flux), ``/v2/listen``.

It follows the reference of Deepgram's API, and deepgram-sdk 7.17, listen/v2.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import attrs

from wlk_live.session import Commit, Endpoint, Failure, HypothesisChange, Marked
from wlk_protocols.deepgram.messages import SAMPLES, language_fields, message_type
from wlk_protocols.deepgram.query import Configure
from wlk_protocols.fields import decoded
from wlk_protocols.utterance import text_of
from wlk_serve.protocols import DAMAGED_AUDIO, RequestError, WebmDecoder, as_request_error

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence

    from wlk_core.tokens import ASRToken
    from wlk_live.session import Event
    from wlk_protocols.deepgram.query import FluxQuery
    from wlk_serve.protocols import Message, SegmentEnd, SessionAudio, SessionInfo

_UPDATE_SECONDS = 0.25  # of audio between two updates
_MAX_LEAD = 0.5  # seconds of audio after a silence that are counted as silence
# The share of `end_seconds` after which unchanged text counts as whole, for models that do not
# decode the end in advance.  The session has the others do so by half of the silence.
_WHOLE_SHARE = 0.65
_FRAME_SECONDS = 0.05  # a little more than the 32 ms frames of the voice activity detector


@attrs.define
class _SilenceClock:
    """
    Measure how long nobody has spoken, from the audio that the gate withholds from the model.

    The words alone do not tell: in silence the model gets no more audio after the gate's hang-over,
    and in speech it may not have recognised the last half second yet.
    """

    _time: float = 0.0  # of the last mark
    _passed: float = 0.0  # seconds of audio that the gate had passed on by then
    _withheld: float = 0.0  # seconds of the latest audio that it has not passed on

    def add(self, time: float, passed: float) -> None:
        """Add a mark: by its time, the gate has passed on *passed* seconds of audio in total."""
        is_passing = passed != self._passed
        withheld = time - self._time - (passed - self._passed)
        self._withheld = max(0.0, withheld if is_passing else self._withheld + withheld)
        self._time, self._passed = time, passed

    @property
    def is_withheld(self) -> bool:
        """Whether the gate withholds the latest audio, because nobody speaks."""
        return self._withheld > _FRAME_SECONDS

    @property
    def passed_up_to(self) -> float | None:
        """Stream time before the withheld audio, None if none is withheld."""
        return self._time - self._withheld - _FRAME_SECONDS if self.is_withheld else None

    def silence(self, without_words: float, hang_over: float) -> float:
        """Return seconds of silence; the model's last *without_words* seconds have no words."""
        if self.is_withheld:
            return hang_over + self._withheld
        return min(max(0.0, without_words), hang_over)


class FluxProtocol:
    """
    A `ClientProtocol` for one connection.

    A turn starts with its first words and ends with a pause.  It can end eagerly after a shorter
    silence in which the text did not change.  If the text changes after all, the turn is resumed,
    so that a turn always ends with the transcript of its last eager end.  New options apply from
    the next turn, because they need a new stream, and that only while nobody speaks: a stream that
    ended within a word would split it.
    """

    replaceable: ClassVar[Collection[str | None]] = ()

    def __init__(self, audio: SessionAudio, info: SessionInfo, query: FluxQuery) -> None:
        self._audio = audio
        self._info = info
        self._query = query
        self._next_query = query  # applies when nobody speaks
        self._webm = WebmDecoder(samples=SAMPLES) if query.is_webm else None
        self._sequence = 0  # of the next message
        self._turn = 0
        self._turn_start: float | None = None  # in seconds; None before the first words
        self._words: list[ASRToken] = []  # committed in this turn
        self._hypothesis: Sequence[ASRToken] = ()
        self._marked_text = ""  # the text of the turn at the last mark
        self._silence_clock = _SilenceClock()
        self._eager_text: str | None = None  # of the eager end, until it is resumed
        self._marked = 0.0  # seconds of audio at the last mark that was requested
        self._decoded = 0.0  # seconds of audio that the model has decoded, at least
        self._forces = 0  # ForceEndTurn messages that have yet to take effect

    def begin(self) -> list[Message]:
        """Return the first message of the connection."""
        connected = self._message("Connected")
        return [connected, *self._warnings(self._query.ignored)]

    def receive(self, data: str | bytes) -> list[Message]:
        """Apply audio or a message from the client."""
        if self._audio.is_ended:
            return []
        if isinstance(data, str):
            return self._apply(data)
        if self._webm is None:
            self._audio.append(data)
            self._request_mark()
        else:
            self._audio.append_pieces(self._marked_pieces(self._webm.decode(data)))
        return []

    def refuse(self, error: RequestError) -> list[Message]:
        """Return an error message; end the audio if no more of it can be decoded."""
        code = str(error.code or "error").upper()
        message = self._message("Error", code=code, description=str(error))
        return [message, *(self.end() if error.code == DAMAGED_AUDIO else [])]

    def handle(self, event: Event | SegmentEnd) -> Iterator[Message]:
        """Apply an event of the session."""
        match event:
            case Commit():
                self._words += event.tokens
                self._hypothesis = ()
                yield from self._start_or_resume()
            case HypothesisChange():
                self._hypothesis = event.transcript.tokens
                yield from self._start_or_resume()
            case Marked():
                yield from self._update(event)
            case Endpoint():
                yield from self._end_turn(event)
            case Failure(is_final=True):
                yield from self.refuse(as_request_error(event.error))

    def end(self) -> list[Message]:
        """End the audio; may be called again."""
        self._audio.end()
        return []

    def _marked_pieces(self, pieces: Iterator[bytes]) -> Iterator[bytes]:
        """Yield *pieces*, and request a mark after the last one."""
        yield from pieces
        self._request_mark()

    def _request_mark(self) -> None:
        """Request a mark, whose event sends an update, for each quarter of a second."""
        if self._audio.seconds >= self._marked + _UPDATE_SECONDS:
            self._marked = self._audio.seconds
            self._audio.mark(str(self._marked))

    def _apply(self, text: str) -> list[Message]:
        match message_type(text):
            case "KeepAlive":  # of clients that share code with v1
                return []
            case "CloseStream":
                return self.end()
            case "ForceEndTurn":
                if self._audio.commit() is not None:
                    self._forces += 1
                return []
            case "Configure":
                return self._configure(text)
        raise RequestError(
            f"expected audio, Configure, ForceEndTurn or CloseStream, got {text[:100]!r}",
            code="invalid_message",
        )

    def _configure(self, text: str) -> list[Message]:
        """Change the options that a message names, from the next turn on."""
        try:
            fields = decoded(text, Configure)
            self._next_query = self._next_query.configured(fields)
        except RequestError as error:
            code = str(error.code).upper()
            return [self._message("ConfigureFailure", code=code, description=str(error))]
        if self._audio.open_segment is None:
            self._change_options()
        success = self._message("ConfigureSuccess", **self._next_query.record())
        ignored = {"numerals"}.intersection(self._next_query.ignored)
        return [success, *self._warnings(ignored if fields.numerals else ())]

    def _is_near(self, time: float) -> bool:
        """Return whether the silence before *time* still lasts, as far as the client has sent."""
        return not self._audio.is_waiting and self._audio.seconds - time < _MAX_LEAD

    def _change_options(self) -> None:
        self._query = self._next_query
        self._audio.change(self._query.options)

    def _warnings(self, ignored: Iterable[str]) -> list[Message]:
        """Return a message that names *ignored* fields; none if there are none."""
        names = ", ".join(ignored)
        about = f"this server ignores {names}"
        return [self._message("Warning", code="UNSUPPORTED", description=about)] if names else []

    @property
    def _tokens(self) -> list[ASRToken]:
        return [*self._words, *self._hypothesis]

    @property
    def _text(self) -> str:
        return text_of(self._tokens)

    def _start_or_resume(self) -> Iterator[Message]:
        """Start a turn at its first words; resume it if its text changed after its eager end."""
        if self._turn_start is None:
            if self._text:
                self._turn_start = min(token.start for token in self._tokens)
                yield self._info_message("StartOfTurn")
        elif self._eager_text not in {None, self._text}:
            self._eager_text = None
            yield self._info_message("TurnResumed")

    def _update(self, mark: Marked) -> Iterator[Message]:
        """Report the current turn or its eager end."""
        text, last = self._text, self._marked_text
        self._decoded = max(self._decoded, float(mark.name))
        self._marked_text = text
        self._silence_clock.add(float(mark.name), mark.stats.audio_seconds)
        if self._turn_start is None:
            if self._is_near(float(mark.name)) and self._silence_clock.is_withheld:
                self._change_options()
            return
        if self._eager_text is not None:
            return
        end = max((token.end for token in self._tokens), default=mark.processed_up_to)
        silence = self._silence_clock.silence(mark.processed_up_to - end, self._query.hang_over)
        # While the gate withholds audio, the model may still owe words.  Trust the text once all
        # audio passed on is consumed; some models consume it only at the end, so accept unchanged
        # text late in the silence too.
        passed = self._silence_clock.passed_up_to
        if passed is None:
            is_whole = text == last
        else:
            is_late = silence >= _WHOLE_SHARE * self._query.end_seconds
            is_whole = mark.processed_up_to >= passed or (text == last and is_late)
        if text and is_whole and silence >= self._query.eager_seconds:
            self._eager_text = text
            yield self._info_message("EagerEndOfTurn", silence)
        else:
            yield self._info_message("Update", silence)

    def _end_turn(self, event: Endpoint) -> Iterator[Message]:
        is_forced = event.reason == "commit" and self._forces > 0
        if is_forced:
            self._forces -= 1
        self._hypothesis = ()  # all words are committed
        self._decoded = max(self._decoded, event.time)
        yield from self._start_or_resume()
        if self._turn_start is not None:
            trigger = "manual" if is_forced else self._query.trigger
            message = self._info_message("EndOfTurn", self._query.end_seconds)
            yield {**message, "trigger": trigger}
            self._turn += 1
        self._turn_start = None
        self._words = []
        self._eager_text = None
        self._marked_text = ""
        if event.reason == "commit" or self._is_near(event.time + self._query.end_seconds):
            self._change_options()

    def _info_message(self, event: str, silence: float = 0.0) -> Message:
        end = max([self._decoded, *(token.end for token in self._tokens)])
        return self._message(
            "TurnInfo",
            event=event,
            turn_index=self._turn,
            audio_window_start=round(self._turn_start or 0.0, 3),
            audio_window_end=round(end, 3),
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
