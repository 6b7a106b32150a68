"""The OpenAI Realtime transcription protocol: client messages in, server messages out."""

from __future__ import annotations

from collections import deque
import itertools
import reprlib
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import attrs
import msgspec
from msgspec import Meta

from wlk_live.records import round_seconds, translation_record
from wlk_live.session.events import (
    Commit,
    End,
    Endpoint,
    Event,
    Failure,
    HypothesisChange,
    Lag,
    Marked,
    SpeakerTurn,
    SpeechStarted,
    Translation,
)
from wlk_live.speakers import speaker_name
from wlk_serve.errors import RequestError, as_request_error, converted, invalid
from wlk_serve.protocols import SegmentEnd
from wlk_serve.realtime.config import (
    HYPOTHESIS,
    LAG,
    LOGPROBS,
    MARKS,
    TRANSLATION,
    RealtimeConfig,
    update_config,
)
from wlk_serve.realtime.items import Conversation

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

    from wlk_core.tokens import ASRToken
    from wlk_serve.protocols import Message, SessionAudio, SessionInfo, StreamSegment

_MIN_COMMIT_SECONDS = 0.1  # as in OpenAI's API
_NULL = msgspec.Raw(b"null")
_MAX_FIELD_BYTES = 65_536  # of a field without audio
_MarkId = Annotated[str, Meta(max_length=200)]
_APPEND = "input_audio_buffer.append"
_MARK = "wlk.mark"
_END = "wlk.end"  # announces that no more audio will come


class _Append(msgspec.Struct, tag_field="type", tag=_APPEND):
    """The message that most messages are, with its audio out of base64."""

    audio: bytes
    event_id: msgspec.Raw = _NULL


class _Message(msgspec.Struct):
    """The fields of another message, each still as JSON: decoded, 20 MB of objects take 500 MB."""

    type: msgspec.Raw = _NULL
    event_id: msgspec.Raw = _NULL
    session: msgspec.Raw = _NULL
    id: msgspec.Raw = _NULL
    audio: msgspec.Raw = _NULL


_FIELDS = ("type", "session", "id", "audio")
_APPENDS, _MESSAGES = msgspec.json.Decoder(_Append), msgspec.json.Decoder(_Message)


@attrs.frozen
class _PendingCommit:
    """A commit of the client whose item has not begun."""

    segment: StreamSegment | None  #: that the utterance is in; None if its words have come
    seconds: float  #: length of its audio


class RealtimeProtocol:
    """
    One Realtime session, without sockets, threads or clocks: a `ClientProtocol`.

    Items are completed in order, one at a time.

    Args:
        audio: takes the audio that the client appends.
        info: describes the session.
        config: the initial configuration.

    """

    replaceable: ClassVar[Collection[str | None]] = {HYPOTHESIS}

    def __init__(self, audio: SessionAudio, info: SessionInfo, *, config: RealtimeConfig) -> None:
        self._audio = audio
        self._info = info
        self._card = info.card
        self._event_numbers = itertools.count(1)
        self._config = config
        self._items = Conversation(info.id, speaker_delay=info.card.speaker_delay)
        self._speaker_delay = info.card.speaker_delay  # None once the diarizer is switched off
        self._items.has_logprobs = LOGPROBS in self._config.include
        self._is_translated = True  # until the translator is switched off
        self._unmarked: list[ASRToken] = []  # since the last mark, if the session has marks
        self._event_id: str | None = None  # of the message being applied
        self._takes_binary = False  # true after the first update, which sets the format
        self._committed = 0  # samples before the last commit
        self._worded: StreamSegment | None = None  # the last segment that has words
        # Commits whose items have not begun, because voice activity detection has not yet ended the
        # utterances of an earlier segment.
        self._commits: deque[_PendingCommit] = deque()
        self._was_ended = False  # by the server, which the client cannot know yet

    def begin(self) -> list[Message]:
        """Return the first messages of a connection."""
        created = self._session_message("session.created")
        if self._info.resume is not None:
            token, seconds = self._info.resume
            created["session"]["wlk"]["resume"] = {"token": token, "seconds": seconds}
        return self._out([created])

    def receive(self, data: str | bytes) -> list[Message]:
        """
        Apply a message: JSON text, or binary audio after the first ``session.update``.

        Raises:
            WLKError: the message is refused.

        """
        audio, fields = self._read(data)
        if audio is None:
            return self._out(list(self._apply(fields)))
        if not self._audio.append(audio, is_whole=True):
            self._check_open()
        return []

    def refuse(self, error: RequestError) -> list[Message]:
        """Return an error message, which answers the last message of the client."""
        record = {**error.record(), "event_id": self._event_id}
        return self._out([{"type": "error", "error": record}])

    def handle(self, event: Event | SegmentEnd) -> list[Message]:
        """Apply an event of the session's audio."""
        if isinstance(event, SegmentEnd):
            # The next segment has annotators of its own.
            self._speaker_delay, self._is_translated = self._card.speaker_delay, True
            if event.is_cleared:
                self._items.clear()
            return self._out(self._begin_commits())
        speakers, messages = self._apply_speakers(event), self._apply_event(event)
        return self._out([*speakers, *messages, *self._apply_included(event)])

    def end(self) -> list[Message]:
        """
        End the audio before its client does; may be called again.

        Unless the session is over, ``handle`` returns more messages.
        """
        cut: list[Message] = []
        if not self._audio.is_ended:
            self._was_ended = True
            if self._info.resume is not None:
                cut.append({"type": "wlk.cut"})  # the audio may end in the middle of a word
        return self._out([*cut, *self._end()])

    def _read(self, data: str | bytes) -> tuple[bytes | None, Message]:
        """Return the audio of an append, or None and the fields of another message."""
        self._event_id = None
        if isinstance(data, bytes):
            if self._takes_binary:
                return data, {}
            raise RequestError(
                "expected JSON; binary audio is accepted after a session.update",
                code="invalid_event",
            )
        try:
            append = _APPENDS.decode(data)
        except (ValueError, RecursionError):  # another message, or a wrong append
            fields = self._parse(data)
            is_append = fields["type"] == _APPEND
            return converted(fields.get("audio"), bytes, "audio") if is_append else None, fields
        event_id = _value(append, "event_id")
        self._event_id = event_id if isinstance(event_id, str) else None
        return append.audio, {}

    def _parse(self, text: str) -> Message:
        """Return the fields of a message, whose type may be unknown."""
        try:
            message = _MESSAGES.decode(text)
            event_id = _value(message, "event_id")
            self._event_id = event_id if isinstance(event_id, str) else None
            fields = {name: _value(message, name) for name in _FIELDS}
        except msgspec.ValidationError:
            raise RequestError(
                f"expected a message that is a JSON object, got {reprlib.repr(text)}",
                code="invalid_event",
            ) from None
        except (ValueError, RecursionError):
            raise RequestError(
                f"expected a JSON message, got {reprlib.repr(text)}", code="invalid_json"
            ) from None
        if not isinstance(kind := fields["type"], str):
            raise invalid("type", "as a string", reprlib.repr(kind), code="invalid_event")
        return fields

    def _check_open(self) -> None:
        """Raise RequestError if the client should know that its message came too late."""
        if not self._was_ended:  # else no error: some clients would stop before the last words
            raise RequestError("the session is over; connect again", code="session_expired")

    def _apply(self, fields: Message) -> Iterator[Message]:
        kind = fields["type"]
        if kind == _END:  # also if it comes again after a resume, or after the server's own end
            yield from self._end()
            return
        if self._audio.is_ended or self._audio.is_over:
            self._check_open()
            return
        match kind:
            case "session.update":
                yield from self._update(fields.get("session"))
            case "input_audio_buffer.commit":
                self._check_commit()
                yield from self._commit()
            case "input_audio_buffer.clear":
                self._committed = self._audio.samples
                self._audio.clear()
                if not self._audio.segments:
                    self._items.clear()
                yield {"type": "input_audio_buffer.cleared"}
            case _ if kind == _MARK and MARKS in self._config.include:
                self._audio.mark(converted(fields.get("id"), _MarkId, "id"))
            case _:
                remedy = f' without include: ["{MARKS}"]' if kind == _MARK else ""
                raise RequestError(
                    f"a transcription session does not accept {kind[:100]!r}{remedy}",
                    code="invalid_event",
                    param="type",
                )

    def _update(self, session: object) -> Iterator[Message]:
        old = self._config
        new = update_config(old, session, self._card)
        if new.format != old.format and self._audio.samples:
            raise RequestError(
                "the format can only be changed before the first audio; open another session",
                code="invalid_value",
                param="session.audio.input.format",
            )
        options = new.stream_options()
        if old.turn_detection is None and new.turn_detection is not None and self._uncommitted():
            yield from self._commit()
        elif old.turn_detection is not None and new.turn_detection is None:
            self._committed = self._audio.samples  # the end of the stream completes the open item
        self._config = new
        self._takes_binary = True
        self._audio.change(options)  # the next audio may open another stream
        self._items.has_logprobs = LOGPROBS in new.include
        yield self._session_message("session.updated")

    def _check_commit(self) -> None:
        # Like OpenAI, refuse commits of very little audio, because each costs a flush of the model.
        # Clients that set marks may end utterances of any length, as local streams can.
        seconds = self._uncommitted()
        if seconds < _MIN_COMMIT_SECONDS and not (MARKS in self._config.include and seconds):
            raise RequestError(
                f"expected at least {_MIN_COMMIT_SECONDS * 1000:.0f} ms of audio before a commit, "
                f"got {seconds * 1000:.0f} ms; append more (nothing was dropped)",
                code="input_audio_buffer_commit_empty",
            )

    def _commit(self) -> Iterator[Message]:
        segment = self._audio.commit()
        seconds = self._take_uncommitted()
        # With a gate, the endpoint ends the item, because speech may end by itself before that.
        if segment is None or segment.options.gate is None:
            self._commits.append(_PendingCommit(segment, seconds))
        yield from self._begin_commits()
        if segment is None:  # a change of options ended the stream, and all words have come
            yield from self._items.complete()
            yield from self._end_speakers()

    def _end(self) -> Iterator[Message]:
        was_over = self._audio.is_over
        self._audio.end()
        if not self._audio.segments and not was_over:
            yield from self._complete_uncommitted()
            yield from self._end_speakers()

    def _apply_event(self, event: Event) -> Iterator[Message]:
        match event:
            case SpeechStarted() if self._audio.segment.options.gate is not None:
                yield from self._items.start_speech(event.start)
            case Commit():
                if MARKS in self._config.include:  # otherwise no mark would ever empty the list
                    self._unmarked += event.tokens
                begins = self._worded is not self._audio.segment
                self._worded = self._audio.segment
                yield from self._items.extend(event.tokens, begins_stream=begins)
            case Endpoint():
                yield from self._end_utterance(event)
            case Failure() if event.is_final:
                yield from self._items.fail(as_request_error(event.error).record())
            case End():
                if self._audio.is_ended and len(self._audio.segments) == 1:
                    yield from self._complete_uncommitted()
                yield from self._end_speakers()

    def _apply_included(self, event: Event) -> Iterator[Message]:
        """Yield the messages that only clients with a name in `include` get."""
        included = self._config.include
        match event:
            case HypothesisChange() if HYPOTHESIS in included:
                yield self._items.hypothesis(event.transcript.tokens)
            case Marked():
                yield self._mark_answer(event)
            case Translation(text) if TRANSLATION in included:
                yield {"type": TRANSLATION, **translation_record(text)}
            case Failure(annotator="translator") if TRANSLATION in included:
                self._is_translated = False  # no error event: it would make some clients stop
                yield self._session_message("session.updated")
            case Lag() if LAG in included:
                yield {"type": LAG, "seconds": round_seconds(event.seconds)}

    def _apply_speakers(self, event: Event) -> Iterator[Message]:
        if (speakers := self._items.speakers) is None:
            return
        match event:
            case SpeakerTurn(span):
                speakers.add_span(span)
            case Endpoint():
                speakers.advance(event.time)
            case Failure(annotator="diarizer"):
                speakers.settle()
                self._speaker_delay = None  # no error event: it would make some clients stop
                yield self._session_message("session.updated")
        yield from self._items.segments()

    def _end_utterance(self, event: Endpoint) -> Iterator[Message]:
        gate = self._audio.segment.options.gate
        if gate is not None:
            is_silence = event.reason == "silence"
            waited = gate.pre_roll + gate.min_silence if is_silence else 0.0
            yield from self._items.end_speech(event.time, event.time + waited)
        elif event.reason == "commit":
            yield from self._items.complete()

    def _begin_commits(self) -> Iterator[Message]:
        """Begin the items of the commits before the first segment that has a gate."""
        reached: list[StreamSegment | None] = [None]
        for segment in self._audio.segments:
            if segment.options.gate is not None:
                break
            reached.append(segment)
        while self._commits and self._commits[0].segment in reached:
            yield from self._items.commit(self._commits.popleft().seconds)

    def _mark_answer(self, event: Marked) -> Message:
        """Return the answer to a mark, with unrounded times."""
        tokens, self._unmarked = self._unmarked, []
        return {
            "type": "wlk.marked",
            "id": event.name,
            "tokens": [_token_record(token) for token in tokens],
            "hypothesis": [_token_record(token) for token in event.transcript.tokens],
            "processed_up_to": event.processed_up_to,
            "stable_up_to": event.stable_up_to,
            "stats": attrs.asdict(event.stats),
        }

    def _end_speakers(self) -> Iterator[Message]:
        """Yield the remaining speaker segments, because the stream's diarizer has ended."""
        if (speakers := self._items.speakers) is not None:
            speakers.settle()
            yield from self._items.segments()
            speakers.begin()

    def _complete_uncommitted(self) -> Iterator[Message]:
        has_vad = self._config.turn_detection is not None
        if self._uncommitted() and not has_vad and not self._audio.has_failed:
            yield from self._items.commit(self._take_uncommitted())
            yield from self._items.complete()

    def _uncommitted(self) -> float:
        """Return the seconds of audio since the last commit."""
        return (self._audio.samples - self._committed) / self._config.format.rate

    def _take_uncommitted(self) -> float:
        seconds, self._committed = self._uncommitted(), self._audio.samples
        return seconds

    def _session_message(self, kind: str) -> Message:
        config = self._config.record()
        if self._card.speaker_delay is not None:
            delay = self._speaker_delay
            config["wlk"]["speakers"] = None if delay is None else {"seconds": delay}
        if TRANSLATION in self._config.include:
            language = self._card.translates_to
            config["wlk"]["translation"] = {"language": language} if self._is_translated else None
        return {
            "type": kind,
            "session": {
                "id": self._info.id,
                "object": "realtime.transcription_session",
                "expires_at": self._info.expires_at,
                **config,
            },
        }

    def _out(self, messages: Iterable[Message]) -> list[Message]:
        return [
            {"event_id": f"event_{self._info.id}_{next(self._event_numbers)}", **message}
            for message in messages
        ]


def _value(message: _Append | _Message, name: str) -> Any:
    """Return a field, decoded; raise RequestError if it is larger than any client needs."""
    raw = bytes(getattr(message, name))
    if len(raw) > _MAX_FIELD_BYTES and not raw.startswith(b'"'):
        expected = f"in at most {_MAX_FIELD_BYTES:,} bytes of JSON"
        raise invalid(name, expected, f"{len(raw):,}", code="invalid_value")
    return msgspec.json.decode(raw)


def _token_record(token: ASRToken) -> dict[str, Any]:
    record: dict[str, Any] = {
        "start": token.start,
        "end": token.end,
        "text": token.text,
        "probability": token.probability,
        "speaker": None if token.speaker is None else speaker_name(token.speaker),
        "language": token.detected_language,
    }
    return record | ({"spoken": list(map(_token_record, token.spoken))} if token.spoken else {})
