"""
The protocol of Twilio's media streams.

It follows https://www.twilio.com/docs/voice/media-streams/websocket-messages and
https://www.twilio.com/docs/voice/twiml/stream.
"""

from __future__ import annotations

import base64
import binascii
from typing import TYPE_CHECKING, Any, ClassVar

import attrs
import msgspec

from wlk_live.records import span_record
from wlk_live.session import Failure
from wlk_protocols.fields import check_terms, decoded, keyterms_of, language_of
from wlk_protocols.twilio.calls import ENDED, ERROR, INTERIM, STARTED
from wlk_protocols.utterance import Utterance, text_of
from wlk_serve.protocols import RequestError, SegmentEnd, as_request_error

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

    from wlk_core.tokens import ASRToken
    from wlk_live.session import Event
    from wlk_protocols.twilio.calls import Calls
    from wlk_serve.protocols import Message, SessionAudio, SessionInfo

TRACKS = ("inbound", "outbound")  # what the caller says, and what the caller hears
_FORMAT = ("audio/x-mulaw", 8000, 1)  # encoding, samples per second, channels: the only one
# Timestamps in milliseconds wander by a few; a device that is lost, or a held call, leaves more.
_GAP_SECONDS = 0.25
_MAX_DIGITS = 8  # of a timestamp: a day, the longest call of Twilio, has 86,400,000 ms
# Characters: Twilio's names have 34, and are in each message; all keyterms may have 10,000.
_MAX_SID, _MAX_PARAMETERS = 100, 16_000


class _Start(msgspec.Struct, rename="camel"):
    call_sid: str = ""
    custom_parameters: dict[str, str] = {}
    media_format: dict[str, Any] | None = None


class _Media(msgspec.Struct):
    payload: str
    track: str = "inbound"
    timestamp: str | int = ""


class _Event(msgspec.Struct, rename="camel"):
    event: str = ""
    stream_sid: str = ""
    start: _Start | None = None
    media: _Media | None = None


@attrs.define(eq=False, kw_only=True)
class _Track:
    """One direction of the call: its audio, and its current utterance."""

    name: str
    audio: SessionAudio
    utterance: Utterance = attrs.field(factory=Utterance)


class TwilioProtocol:
    """
    A `ClientProtocol` for one media stream, with a channel for each track.

    The words go to those who follow the call.  Twilio gets none of them, because it takes only
    audio, marks and `clear` from a server; with *answers*, they are also sent over this socket.
    A start that is missing or late loses no words: it only names the call.

    Media that does not come leaves a gap, so that times stay those of the call.
    """

    replaceable: ClassVar[Collection[str | None]] = {INTERIM}

    def __init__(
        self, audio: SessionAudio, info: SessionInfo, calls: Calls, *, answers: bool
    ) -> None:
        self._audio = audio
        self._info = info
        self._calls = calls
        self._answers = answers
        self._call_sid = self._stream_sid = ""
        self._tracks: dict[str, _Track] = {}
        self._is_ended = False  # everything was published
        self._is_started = False
        self._is_full = False  # the other track was refused
        calls.begin(self._call_sid, self)

    @property
    def is_over(self) -> bool:
        """Whether no words will come any more."""
        audios = (self._audio, *(track.audio for track in self._tracks.values()))
        return all(audio.is_over for audio in audios)

    def begin(self) -> list[Message]:
        """Return nothing: Twilio sends the first message."""
        return []

    def receive(self, data: str | bytes) -> list[Message]:
        """Apply a message of Twilio."""
        return self._published(self._apply(decoded(data, _Event)))

    def refuse(self, error: RequestError) -> list[Message]:
        """Report an error to the followers, and the end if it ended the stream."""
        return self._published([self._message(ERROR, error=error.record()), *self._ended()])

    def handle(self, event: Event | SegmentEnd) -> list[Message]:
        """Apply an event of the first track."""
        return self._handle(next(iter(self._tracks.values())), event)

    def end(self) -> list[Message]:
        """End the audio of all tracks; may be called again."""
        self._end_audio()
        return self._published(self._ended())

    def _apply(self, event: _Event) -> Iterator[Message]:
        if self._audio.is_ended:
            return
        match event.event:
            case "start" if self._is_started:
                raise RequestError("expected one start, got another", code="wrong_order")
            case "start":
                self._is_started = True
                try:
                    yield self._start(event.stream_sid, event.start or _Start())
                except RequestError:  # the words would be wrong throughout
                    self._end_audio()
                    raise
            case "media" if event.media is not None:
                if (track := self._track(event.media.track)) is not None:
                    self._append(track, event.media)
            case "stop":
                self._end_audio()
                yield from self._ended()
            case "connected" | "mark" | "dtmf":
                pass
            case kind:
                raise RequestError(
                    f"expected connected, start, media, dtmf, mark or stop, got {kind[:100]!r}",
                    code="unknown_event",
                )

    def _start(self, stream_sid: str, start: _Start) -> Message:
        """Name the call, and apply the parameters of its TwiML to the audio that follows."""
        given = start.custom_parameters
        longest = max(len(start.call_sid), len(stream_sid))
        if longest > _MAX_SID or sum(map(len, [*given, *given.values()])) > _MAX_PARAMETERS:
            raise RequestError(
                f"expected callSid and streamSid of at most {_MAX_SID} characters, and "
                f"customParameters of at most {_MAX_PARAMETERS:,} in all",
                code="invalid_value",
            )
        self._calls.end(self._call_sid, self)
        self._call_sid, self._stream_sid = start.call_sid, stream_sid
        self._calls.begin(self._call_sid, self)
        media = start.media_format or {}
        names = ("encoding", "sampleRate", "channels")
        form = tuple(media.get(*pair) for pair in zip(names, _FORMAT, strict=True))
        if form != _FORMAT:
            raise RequestError(
                f"expected the media format {_FORMAT}, got {str(form)[:100]}",
                code="invalid_audio",
            )
        card = self._info.card
        terms = [term.strip() for term in given.get("keyterms", "").split(",") if term.strip()]
        check_terms("keyterms", terms)
        options = attrs.evolve(
            self._audio.options,
            language=language_of(card, given.get("language", "")),
            keyterms=keyterms_of(card, terms),
        )
        for audio in (self._audio, *(track.audio for track in self._tracks.values())):
            audio.change(options)
        return self._message(STARTED, customParameters=given)

    def _track(self, name: str) -> _Track | None:
        """Return a track, opened if it is new; None while the server is full."""
        if name not in TRACKS:
            raise RequestError(
                f"expected track as {' or '.join(TRACKS)}, got {name[:100]!r}", code="unknown_track"
            )
        if name not in self._tracks:
            audio = self._audio
            if self._tracks:
                try:
                    audio = self._info.open_channel(
                        audio.options, lambda event: self._handle(self._tracks[name], event)
                    )
                except RequestError:
                    if self._is_full:
                        return None  # was reported, and another session may end while they speak
                    self._is_full = True
                    raise
            self._tracks[name] = _Track(name=name, audio=audio)
        return self._tracks[name]

    def _append(self, track: _Track, media: _Media) -> None:
        try:
            audio = base64.b64decode(media.payload, validate=True)
        except (binascii.Error, ValueError):
            raise RequestError("expected the payload in base64", code="invalid_audio") from None
        text = str(media.timestamp) or "0"
        if not (text.isascii() and text.isdigit() and len(text) <= _MAX_DIGITS):
            raise RequestError(
                f"expected timestamp as at most {_MAX_DIGITS} digits, got {text[:100]!r}",
                code="invalid_value",
            )
        if (gap := int(text) / 1000 - track.audio.seconds) > _GAP_SECONDS:
            track.audio.skip(gap)
        track.audio.append(audio)

    def _end_audio(self) -> None:
        for audio in (self._audio, *(track.audio for track in self._tracks.values())):
            audio.end()

    def _ended(self) -> Iterator[Message]:
        """Report the end once, after the words of all tracks."""
        if not self._is_ended and self.is_over:
            self._is_ended = True
            yield self._message(ENDED)

    def _handle(self, track: _Track, event: Event | SegmentEnd) -> list[Message]:
        return self._published(self._apply_event(track, event))

    def _apply_event(self, track: _Track, event: Event | SegmentEnd) -> Iterator[Message]:
        match event:
            case Failure(is_final=True):
                error = as_request_error(event.error)
                yield self._message(ERROR, track=track.name, error=error.record())
            case SegmentEnd():
                yield from self._ended()
        if (heard := track.utterance.apply(event)) is not None:
            kind, tokens = heard
            words = [*map(_record, tokens)]
            yield self._message(
                f"call.{kind}",
                track=track.name,
                start=words[0]["start"],
                end=words[-1]["end"],
                text=text_of(tokens),
                **({"words": words} if kind == "final" else {}),
            )

    def _message(self, kind: str, **fields: Any) -> Message:
        return {
            "type": kind,
            "callSid": self._call_sid,
            "streamSid": self._stream_sid,
            **fields,
        }

    def _published(self, messages: Iterable[Message]) -> list[Message]:
        """Send *messages* to the followers; return those for the socket itself."""
        sent = [*messages]
        self._calls.publish(self._call_sid, sent)
        if any(message["type"] == ENDED for message in sent):
            self._calls.end(self._call_sid, self)
        return sent if self._answers else []


def _record(token: ASRToken) -> Message:
    probability = None if token.probability is None else round(token.probability, 4)
    return {"word": token.text.strip(), **span_record(token), "confidence": probability}
