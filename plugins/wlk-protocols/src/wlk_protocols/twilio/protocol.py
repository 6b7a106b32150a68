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

from wlk_live.session import Commit, Endpoint, Failure, HypothesisChange
from wlk_protocols.fields import check_terms, decoded, keyterms_of, language_of
from wlk_protocols.twilio.calls import ENDED, ERROR, FINAL, INTERIM, STARTED
from wlk_serve.protocols import RequestError, SegmentEnd, as_request_error

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence

    from wlk_core.tokens import ASRToken
    from wlk_live.session import Event
    from wlk_protocols.twilio.calls import Calls
    from wlk_serve.protocols import Message, SessionAudio, SessionInfo

TRACKS = ("inbound", "outbound")  # what the caller says, and what the caller hears
_FORMAT = ("audio/x-mulaw", 8000, 1)  # encoding, samples per second, channels: the only one
# Timestamps in milliseconds wander by a few; a device that is lost, or a held call, leaves more.
_GAP_SECONDS = 0.25
_MAX_SECONDS = 24 * 3600.0  # of a call, as Twilio's
_MAX_HELD = 10  # chunks of 20 ms that wait for an earlier one
_MAX_DIGITS = 15


class _Start(msgspec.Struct, rename="camel"):
    call_sid: str = ""
    custom_parameters: dict[str, str] = {}
    media_format: dict[str, Any] | None = None


class _Media(msgspec.Struct):
    payload: str
    track: str = "inbound"
    chunk: str | int = ""
    timestamp: str | int = ""


class _Event(msgspec.Struct, rename="camel"):
    event: str = ""
    stream_sid: str = ""
    start: _Start | None = None
    media: _Media | None = None


@attrs.define(eq=False, kw_only=True)
class _Track:
    """One direction of the call: its audio, and the words of its current utterance."""

    name: str
    audio: SessionAudio
    next_chunk: int | None = None
    held: dict[int, _Media] = attrs.field(factory=dict)  # chunks after one that is missing
    words: list[ASRToken] = attrs.field(factory=list)
    shown: str = ""  # the text of the last interim message


class TwilioProtocol:
    """
    A `ClientProtocol` for one media stream, with a channel for each track.

    The words go to those who follow the call.  Twilio gets none of them, because it takes only
    audio, marks and `clear` from a server; with *answers*, they are also sent over this socket.
    A start that is missing or late loses no words: it only names the call.

    Media is put in the order of its chunk numbers.  What does not come leaves a gap, so that times
    stay those of the call.
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
        self._is_refused = False  # the start asked for what this server does not have
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
        """Report an error to the followers; end a stream that was started wrongly."""
        message = self._message(ERROR, error=error.record())
        return self._published([message, *(self._end() if self._is_refused else ())])

    def handle(self, event: Event | SegmentEnd) -> list[Message]:
        """Apply an event of the first track."""
        return self._handle(next(iter(self._tracks.values())), event)

    def end(self) -> list[Message]:
        """End the audio of all tracks; may be called again."""
        return self._published(self._end())

    def _apply(self, event: _Event) -> Iterator[Message]:
        if self._audio.is_ended:
            return
        match event.event:
            case "start":
                yield from self._start(event.stream_sid, event.start or _Start())
            case "media" if event.media is not None:
                self._receive(event.media)
            case "stop":
                yield from self._end()
            case "connected" | "mark" | "dtmf":
                pass
            case kind:
                raise RequestError(
                    f"expected connected, start, media, dtmf, mark or stop, got {kind[:100]!r}",
                    code="unknown_event",
                )

    def _start(self, stream_sid: str, start: _Start) -> Iterator[Message]:
        """Name the call, and apply the parameters of its TwiML to the audio that follows."""
        self._calls.end(self._call_sid, self)
        self._call_sid, self._stream_sid = start.call_sid, stream_sid
        self._calls.begin(self._call_sid, self)
        self._is_refused = True  # unless nothing is raised
        given = start.media_format or {}
        names = ("encoding", "sampleRate", "channels")
        form = tuple(given.get(*pair) for pair in zip(names, _FORMAT, strict=True))
        if form != _FORMAT:
            raise RequestError(
                f"expected the media format {_FORMAT}, got {str(form)[:100]}",
                code="invalid_audio",
            )
        yield self._message(STARTED, customParameters=start.custom_parameters)
        card, given = self._info.card, start.custom_parameters
        terms = [term.strip() for term in given.get("keyterms", "").split(",") if term.strip()]
        check_terms("keyterms", terms)
        options = attrs.evolve(
            self._audio.options,
            language=language_of(card, given.get("language", "")),
            keyterms=keyterms_of(card, terms),
        )
        for audio in (self._audio, *(track.audio for track in self._tracks.values())):
            audio.change(options)
        self._is_refused = False

    def _receive(self, media: _Media) -> None:
        """Append media in the order of its chunk numbers."""
        track = self._track(media.track)
        chunk = _number(media.chunk, "chunk")
        if chunk is None or track.next_chunk is None:
            track.next_chunk = chunk
        if chunk is None:
            self._append(track, media)
        elif track.next_chunk is not None and chunk >= track.next_chunk:  # not one that came twice
            track.held[chunk] = media
            self._drain(track)

    def _track(self, name: str) -> _Track:
        if name not in TRACKS:
            raise RequestError(
                f"expected track as {' or '.join(TRACKS)}, got {name[:100]!r}", code="unknown_track"
            )
        if name not in self._tracks:
            audio = self._audio
            if self._tracks:
                audio = self._info.open_channel(
                    audio.options, lambda event: self._handle(self._tracks[name], event)
                )
            self._tracks[name] = _Track(name=name, audio=audio)
        return self._tracks[name]

    def _drain(self, track: _Track, *, max_held: int = _MAX_HELD) -> None:
        """Append the chunks whose turn it is; of others, at most *max_held* wait on."""
        while track.held:
            first = min(track.held)
            if first != track.next_chunk and len(track.held) <= max_held:
                return
            track.next_chunk = first + 1
            self._append(track, track.held.pop(first))

    def _append(self, track: _Track, media: _Media) -> None:
        try:
            audio = base64.b64decode(media.payload, validate=True)
        except (binascii.Error, ValueError):
            raise RequestError("expected the payload in base64", code="invalid_audio") from None
        time = _number(media.timestamp, "timestamp")
        if time is not None and (gap := time / 1000 - track.audio.seconds) > _GAP_SECONDS:
            if time > _MAX_SECONDS * 1000:
                raise RequestError(
                    f"expected a timestamp of at most {_MAX_SECONDS * 1000:.0f} ms, got {time}",
                    code="invalid_value",
                )
            track.audio.skip(gap)
        track.audio.append(audio)

    def _end(self) -> Iterator[Message]:
        for track in self._tracks.values():
            if not track.audio.is_ended:
                self._drain(track, max_held=0)
            track.audio.end()
        self._audio.end()
        yield from self._ended()

    def _ended(self) -> Iterator[Message]:
        """Report the end once, after the words of all tracks."""
        if not self._is_ended and self.is_over:
            self._is_ended = True
            yield self._message(ENDED)

    def _handle(self, track: _Track, event: Event | SegmentEnd) -> list[Message]:
        return self._published(self._apply_event(track, event))

    def _apply_event(self, track: _Track, event: Event | SegmentEnd) -> Iterator[Message]:
        match event:
            case Commit(tokens=tokens):
                track.words += tokens
                yield from self._interim(track, ())
            case HypothesisChange(transcript=transcript):
                yield from self._interim(track, transcript.tokens)
            case Endpoint() if track.words:
                words, track.words, track.shown = track.words, [], ""
                yield self._transcript(FINAL, track, words, words=[*map(_record, words)])
            case Failure(is_final=True):
                error = as_request_error(event.error)
                yield self._message(ERROR, track=track.name, error=error.record())
            case SegmentEnd():
                yield from self._ended()

    def _interim(self, track: _Track, hypothesis: Sequence[ASRToken]) -> Iterator[Message]:
        tokens = [*track.words, *hypothesis]
        text = _text(tokens)
        if text and text != track.shown:
            track.shown = text
            yield self._transcript(INTERIM, track, tokens)

    def _transcript(
        self, kind: str, track: _Track, tokens: Sequence[ASRToken], **fields: Any
    ) -> Message:
        times = {"start": _rounded(tokens[0].start), "end": _rounded(tokens[-1].end)}
        return self._message(kind, track=track.name, **times, text=_text(tokens), **fields)

    def _message(self, kind: str, **fields: Any) -> Message:
        return {
            "type": kind,
            "callSid": self._call_sid,
            "streamSid": self._stream_sid,
            **fields,
        }

    def _published(self, messages: Iterable[Message]) -> list[Message]:
        """Send *messages* to the followers; return those for the socket itself."""
        sent: list[Message] = []
        try:
            sent.extend(messages)
        finally:
            self._calls.publish(self._call_sid, sent)
            if any(message["type"] == ENDED for message in sent):
                self._calls.end(self._call_sid, self)
        return sent if self._answers else []


def _number(value: str | int, name: str) -> int | None:
    """Return the value of a field, with which Twilio sends numbers as strings; None without one."""
    text = str(value)
    if not text:
        return None
    if not (text.isascii() and text.isdigit() and len(text) <= _MAX_DIGITS):
        raise RequestError(
            f"expected {name} as a whole number, got {text[:100]!r}", code="invalid_value"
        )
    return int(text)


def _text(tokens: Iterable[ASRToken]) -> str:
    return "".join(token.text for token in tokens).strip()


def _record(token: ASRToken) -> Message:
    probability = token.probability
    return {
        "word": token.text.strip(),
        "start": _rounded(token.start),
        "end": _rounded(token.end),
        "confidence": None if probability is None else round(probability, 4),
    }


def _rounded(seconds: float) -> float:
    return round(seconds, 3)
