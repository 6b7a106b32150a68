"""
The protocol between Jigasi, which transcribes Jitsi meetings, and skynet's ``streaming_whisper``.

It follows
https://github.com/jitsi/skynet/blob/master/docs/streaming_whisper_module.md and
https://github.com/jitsi/jigasi/blob/master/src/main/java/org/jitsi/jigasi/transcription/WhisperWebsocket.java
"""

from __future__ import annotations

from functools import partial
import logging
import time
from typing import TYPE_CHECKING, ClassVar
import uuid

import attrs

from wlk_live.session import Failure
from wlk_protocols.fields import language_of
from wlk_protocols.utterance import Utterance, text_of
from wlk_serve.protocols import RequestError, as_request_error

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator

    from wlk_live.session import Event
    from wlk_serve.protocols import Message, SegmentEnd, SessionAudio, SessionInfo

_LOGGER = logging.getLogger(__name__)

_HEADER_BYTES = 60  # the participant and the language, separated by "|" and padded with zeros
_END = b"\0"  # the last message of a meeting
# Jigasi sends nothing for a participant who is muted, perhaps in mid-word; skynet waits as long.
_MUTED_SECONDS = 2.0
# Nor does it say who has left.  Somebody who is muted for longer gets another place when they speak
# again, if the server has one.
_LEFT_SECONDS = 300.0
_INTERIM_VARIANCE, _FINAL_VARIANCE = 0.5, 1.0  # skynet's: Jigasi's `stability`, and never integers


@attrs.define(eq=False, kw_only=True)
class _Participant:
    """The audio of a participant, and the current utterance."""

    name: str
    audio: SessionAudio = attrs.field(init=False)
    until: float = 0.0  # the time of the meeting at which the audio received ends
    is_quiet: bool = False  # the utterance was ended, because no audio came
    utterance: Utterance = attrs.field(factory=Utterance)
    id: str = ""  # of the utterance; a new one begins with the next text
    began: int = 0  # in milliseconds since the epoch


class JitsiProtocol:
    """
    A `ClientProtocol` for one meeting, with a channel for each participant.

    An interim result is the text of a participant's utterance so far, and the final result
    replaces it.  Times of the meeting are counted by the audio of those who are heard.  Whoever
    sends nothing for five minutes has left, except the first one: the meeting is a session itself.
    """

    replaceable: ClassVar[Collection[str | None]] = ()

    def __init__(
        self, audio: SessionAudio, info: SessionInfo, clock: Callable[[], float] = time.time
    ) -> None:
        self._audio = audio
        self._info = info
        self._clock = clock
        self._participants: dict[str, _Participant] = {}  # the first one stays the first
        self._now = 0.0  # the time of the meeting
        self._is_full = False  # a participant was refused, and none was admitted since

    def begin(self) -> list[Message]:
        """Return nothing: skynet sends no message before the first result."""
        return []

    def receive(self, data: str | bytes) -> list[Message]:
        """Append the audio of a participant, or end the meeting."""
        if data == _END:
            return self.end()
        if self._audio.is_ended:
            return []
        if isinstance(data, str) or len(data) < _HEADER_BYTES:
            raise RequestError(
                f"expected a header of {_HEADER_BYTES} bytes and audio, got {len(data)} "
                f"{'characters' if isinstance(data, str) else 'bytes'}",
                code="invalid_message",
            )
        header = data[:_HEADER_BYTES].rstrip(b"\0").decode("utf-8", "replace")
        name, _, language = header.partition("|")
        if not name:
            raise RequestError("expected a participant in the header", code="invalid_message")
        try:
            participant = self._participant(name, language)
        except RequestError:
            if self._is_full:
                return []  # was reported, and another session may end while they speak
            self._is_full = True
            raise
        self._append(participant, data[_HEADER_BYTES:])
        return []

    def refuse(self, error: RequestError) -> list[Message]:
        """Return an error in a message that Jigasi reads as a result without text."""
        return [self._message("", "error", "", error=error.record())]

    def handle(self, event: Event | SegmentEnd) -> Iterator[Message]:
        """Apply an event of the first participant."""
        return self._handle(next(iter(self._participants.values())), event)

    def end(self) -> list[Message]:
        """End the audio of all participants; may be called again."""
        for participant in self._participants.values():
            participant.audio.end()
        self._audio.end()
        return []

    def _participant(self, name: str, language: str) -> _Participant:
        """Return a participant; a new one gets a channel, whose language is that of the header."""
        if name in self._participants:
            return self._participants[name]
        found, audio = _Participant(name=name, until=self._now), self._audio
        if self._participants:
            audio = self._info.open_channel(audio.options, partial(self._handle, found))
        self._is_full = False
        audio.change(attrs.evolve(audio.options, language=self._language(name, language)))
        found.audio = audio
        self._participants[name] = found
        return found

    def _language(self, name: str, language: str) -> str | None:
        """Return the language of a header; the server's if the model does not have it."""
        card = self._info.card
        if language in {"", "null"}:  # as Java writes a language that is not known
            return card.language
        try:
            return language_of(card, language)
        except RequestError as error:
            _LOGGER.warning("participant %s has the language of the server: %s", name[:60], error)
            return card.language

    def _append(self, participant: _Participant, audio: bytes) -> None:
        before = participant.audio.seconds
        participant.audio.append(audio)
        participant.until += participant.audio.seconds - before
        if participant.until < self._now - _MUTED_SECONDS:
            participant.until = self._now  # was muted
        participant.is_quiet = False
        self._now = max(self._now, participant.until)
        for other in self._participants.values():
            if not other.is_quiet and other.until < self._now - _MUTED_SECONDS:
                other.is_quiet = True
                other.audio.commit()
        for other in [*self._participants.values()][1:]:
            if other.until < self._now - _LEFT_SECONDS:
                other.audio.end()
                del self._participants[other.name]

    def _handle(self, participant: _Participant, event: Event | SegmentEnd) -> Iterator[Message]:
        if isinstance(event, Failure) and event.is_final:
            yield from self.refuse(as_request_error(event.error))
        if (heard := participant.utterance.apply(event)) is not None:
            kind, tokens = heard
            if not participant.id:
                participant.id = str(uuid.uuid4())
                participant.began = round(self._clock() * 1000)
            yield self._message(participant.name, kind, text_of(tokens), participant)
            if kind == "final":
                participant.id = ""

    def _message(
        self,
        name: str,
        kind: str,
        text: str,
        participant: _Participant | None = None,
        **fields: object,
    ) -> Message:
        return {
            "id": str(uuid.uuid4()) if participant is None else participant.id,
            "participant_id": name,
            "ts": round(self._clock() * 1000) if participant is None else participant.began,
            "text": text,
            "audio": "",
            "type": kind,
            "variance": _FINAL_VARIANCE if kind == "final" else _INTERIM_VARIANCE,
            **fields,
        }
