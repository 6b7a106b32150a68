"""OpenAI Realtime transcription: messages of a client in, messages of the server out."""

from __future__ import annotations

import itertools
import reprlib
from typing import TYPE_CHECKING

from wlk_core.errors import BackendError, WLKError
from wlk_core.session.events import (
    Commit,
    End,
    Endpoint,
    Event,
    Failure,
    HypothesisChange,
    Marked,
    SpeakerTurn,
    SpeechStarted,
)
from wlk_serve.errors import RequestError, as_request_error, invalid
from wlk_serve.realtime.beta import BETA_UPDATE, from_beta_session, to_beta_messages
from wlk_serve.realtime.config import (
    HYPOTHESIS,
    LOGPROBS,
    MARKS,
    RealtimeConfig,
    default_config,
    update_config,
)
from wlk_serve.realtime.items import Conversation
from wlk_serve.realtime.marks import MARK, Marks, check_name
from wlk_serve.realtime.messages import APPEND, ClientMessage, decode_audio, parse_message
from wlk_serve.realtime.segments import StreamSegments, stream_config

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from wlk_serve.models.card import ModelCard
    from wlk_serve.models.stream import ServedStream
    from wlk_serve.realtime.messages import Message
    from wlk_serve.realtime.segments import StreamSegment
    from wlk_serve.realtime.streams import StreamConfig

__all__ = ["RealtimeProtocol"]

_MIN_COMMIT_SECONDS = 0.1  # OpenAI's own
_END = "wlk.end"  # the client's event that no more audio comes
_MEANINGLESS = ("conversation.item.", "response.", "output_audio_buffer.")  # in a transcription


class RealtimeProtocol:
    """
    One Realtime session, without sockets, threads and clocks.

    ``begin``, ``apply``, ``handle`` and ``end`` return the messages to send, in their order.
    Nothing that a client sends makes them raise.  Items are completed in their order, one at a
    time.  A message of a client takes three calls, because opening a stream may block::

        message = protocol.parse(data)
        config = protocol.stream_needed(message)
        answers = protocol.apply(message, None if config is None else open_stream(config))

    Args:
        card: the model that is served.
        new_id: returns an identifier with a prefix, such as "item_0123".
        expires_at: seconds of the epoch at which the server ends the session.
        config: the configuration at the beginning, None for the default.
        is_beta: whether messages have the beta shape; an update of that shape sets it too.

    """

    def __init__(
        self,
        card: ModelCard,
        *,
        new_id: Callable[[str], str],
        expires_at: int = 0,
        is_beta: bool = False,
        config: RealtimeConfig | None = None,
    ) -> None:
        self._card = card
        self._new_id = new_id
        self._expires_at = expires_at
        self._is_beta = is_beta
        self.session_id = new_id("sess")  #: its name on the wire
        self._event_numbers = itertools.count(1)
        self._config = default_config(card) if config is None else config
        self._items = Conversation(new_id, speaker_delay=card.speaker_delay)
        self._speaker_delay = card.speaker_delay  # None once the diarizer is switched off
        self._items.has_logprobs = LOGPROBS in self._config.include
        self._marks = Marks()
        self._marks.is_enabled = MARKS in self._config.include
        self._segments = StreamSegments()
        self._opened: ServedStream | WLKError | None = None  # for the message that is applied
        self._takes_binary = False  # since the first update, which sets the format
        self.samples = 0  #: appended
        self._uncommitted = 0  # samples since the last commit
        self.is_ending = False  #: whether no more audio is taken
        self._was_ended = False  # by the server, which its client cannot know yet
        self.is_over = False  #: whether the session has ended or failed: nothing will come
        self.has_failed = False  #: whether an engine failure ended it

    @property
    def rate(self) -> int:
        """Samples a second of the audio that the client appends."""
        return self._config.format.rate

    def begin(self) -> list[Message]:
        """Return the first messages of a connection."""
        return self._out([self._session_message("session.created")])

    def parse(self, data: str | bytes) -> ClientMessage:
        """Return the message in *data*: JSON text, or audio after the first update of a session."""
        message = ClientMessage()
        try:
            self._parse_into(message, data)
        except RequestError as error:
            message.error = error
        return message

    def _parse_into(self, message: ClientMessage, data: str | bytes) -> None:
        audio: object = data
        if isinstance(data, bytes):
            if not self._takes_binary:
                raise RequestError(
                    "expected a text message; binary audio is taken after a session.update",
                    code="invalid_event",
                )
            message.kind = APPEND
        else:
            message.fields = parse_message(data)
            kind = message.fields.get("type")
            if not isinstance(kind, str):
                raise invalid("type", "as a string", reprlib.repr(kind), code="invalid_event")
            message.kind, audio = kind, message.fields.get("audio")
        if message.kind == APPEND:
            message.audio = decode_audio(audio, self._config.format)
        elif message.kind == MARK and self._marks.is_enabled:
            check_name(message.fields.get("id"))

    def stream_needed(self, message: ClientMessage) -> StreamConfig | None:
        """Return how to open the stream that *message* needs; None where it needs no new one."""
        needs_stream = message.audio or (message.kind == MARK and self._marks.is_enabled)
        if not needs_stream or message.error is not None or self.is_over or self.is_ending:
            return None
        if self._segments.open is not None or self._segments.is_full:
            return None
        return stream_config(self._config)

    def apply(
        self, message: ClientMessage, opened: ServedStream | WLKError | None = None
    ) -> list[Message]:
        """
        Apply *message*.

        Args:
            message: what `parse` returned.
            opened: the stream that `stream_needed` asked for, whose events go to ``handle``, or why
                it cannot be opened.  It is closed where the session has ended meanwhile.

        """
        self._opened = opened
        try:
            if message.error is not None:
                raise message.error
            answers = list(self._apply(message))
        except WLKError as error:
            answers = [_error(as_request_error(error), message.event_id)]
        unused, self._opened = self._opened, None
        if unused is not None and not isinstance(unused, WLKError):
            unused.close()
        return self._out(answers)

    def report(self, error: RequestError) -> list[Message]:
        """Return the message of an error that no message of the client caused."""
        return self._out([_error(error, None)])

    def handle(self, stream: ServedStream, events: Iterable[Event]) -> list[Message]:
        """Apply events of a stream that this object opened."""
        found = self._segments.find(stream)
        if found is None:
            return []  # it was cleared
        found.waiting += events
        answers: list[Message] = []
        while (segment := self._segments.first) is not None and segment.waiting:
            waiting, segment.waiting = segment.waiting, []
            for event in waiting:
                if segment.is_cleared and not segment.commits:
                    break
                answers += self._apply_speakers(event, segment)
                answers += self._apply_event(event, segment)
            answers += self._drop_finished(segment, waiting)
        return self._out(answers)

    def end(self) -> list[Message]:
        """
        End the audio, for the client or before a shutdown; may be called again.

        More messages come from ``handle``, unless the session is over.
        """
        self._was_ended = self._was_ended or not self.is_ending
        return self._out(self._end())

    def close(self) -> None:
        """Drop everything, as after a disconnect."""
        self.is_over = True
        self._segments.close()

    def _apply(self, message: ClientMessage) -> Iterator[Message]:
        kind, fields = message.kind, message.fields
        if kind == _END:  # also where it comes again after a resume, or the server has ended it
            yield from self._end()
            return
        if self.is_over or self.is_ending:
            if self._was_ended:
                return  # an error before the last words would end some clients
            raise RequestError("the session is over; connect again", code="session_expired")
        match kind:
            case "session.update":
                yield from self._update(fields.get("session"))
            case _ if kind == BETA_UPDATE:
                self._is_beta = True
                yield from self._update(from_beta_session(fields.get("session")))
            case _ if kind == APPEND:
                self._append(message.audio)
            case "input_audio_buffer.commit":
                self._check_commit()
                yield from self._commit()
            case "input_audio_buffer.clear":
                yield from self._clear()
                yield {"type": "input_audio_buffer.cleared"}
            case _ if kind == MARK and self._marks.is_enabled:
                self._open_segment().mark(fields["id"], self._seconds)
            case _:
                known = kind.startswith(_MEANINGLESS)
                remedy = f' without include: ["{MARKS}"]' if kind == MARK else ""
                raise RequestError(
                    f"a transcription session does not take {kind[:100]!r}{remedy}",
                    code="unsupported_event" if known else "invalid_event",
                    param="type",
                )

    def _append(self, audio: bytes) -> None:
        if audio:
            self._open_segment().stream.receive(audio)
            count = len(audio) // self._config.format.sample_bytes
            self.samples += count
            self._uncommitted += count

    def _update(self, session: object) -> Iterator[Message]:
        old = self._config
        new = update_config(old, session, self._card)
        if new.format != old.format and self.samples:
            raise RequestError(
                "the format can be changed before the first audio only; open another session",
                code="invalid_value",
                param="session.audio.input.format",
            )
        changes_stream = stream_config(old) != stream_config(new)
        if changes_stream and self._segments.open is not None:
            self._segments.check_count()  # before anything changes: the next audio needs one
        if old.turn_detection is None and new.turn_detection is not None and self._uncommitted:
            yield from self._commit()
        elif old.turn_detection is not None and new.turn_detection is None:
            self._uncommitted = 0  # the end of the stream completes its speech
        self._config = new
        self._takes_binary = True
        if changes_stream:
            self._segments.end_audio()  # the next audio opens another stream
        self._items.has_logprobs = LOGPROBS in new.include
        self._marks.is_enabled = MARKS in new.include
        yield self._session_message("session.updated")

    def _check_commit(self) -> None:
        """
        Refuse, as OpenAI does, a commit of too little audio: each costs a flush of the model.

        Clients that set marks end utterances of any length, as a stream of this machine does.
        """
        seconds = self._uncommitted / self._config.format.rate
        if seconds < _MIN_COMMIT_SECONDS and not (self._marks.is_enabled and self._uncommitted):
            raise RequestError(
                f"expected at least {_MIN_COMMIT_SECONDS * 1000:.0f} ms of audio before a commit, "
                f"got {seconds * 1000:.0f} ms; append more, nothing was dropped",
                code="input_audio_buffer_commit_empty",
            )

    def _commit(self) -> Iterator[Message]:
        segment = self._segments.last
        if segment is not None:
            segment.commit()
        seconds = self._take_uncommitted()
        if not self._segments.has_detection:
            yield from self._items.commit(seconds)
        elif segment is not None and not segment.is_vad:
            segment.late_commits.append(seconds)
        # Else the endpoint ends the item, because speech may end by itself before.
        if (
            segment is None
        ):  # a change of the configuration ended its stream, and all words have come
            yield from self._items.complete()
            yield from self._end_speakers()

    def _clear(self) -> Iterator[Message]:
        self._uncommitted = 0
        yield from self._answer_dropped(self._segments.clear())
        if not self._segments:
            self._items.clear()

    def _answer_dropped(self, marks: Iterable[Marked]) -> Iterator[Message]:
        for mark in marks:
            yield self._marks.marked(mark, (), 0.0)

    def _end(self) -> Iterator[Message]:
        self.is_ending = True
        self._segments.end_audio()
        if not self._segments and not self.is_over:
            yield from self._complete_uncommitted()
            yield from self._end_speakers()
            self.is_over = True

    def _open_segment(self) -> StreamSegment:
        """Return the segment that takes audio, or begin one with the stream of the message."""
        if (segment := self._segments.open) is not None:
            return segment
        self._segments.check_count()
        opened, self._opened = self._opened, None
        if isinstance(opened, WLKError):
            raise opened
        if opened is None:
            raise RuntimeError("a message came without the stream that it needs")
        self._speaker_delay = self._card.speaker_delay
        return self._segments.begin(opened, stream_config(self._config), offset=self._seconds)

    @property
    def _seconds(self) -> float:
        """The length of the audio that was appended."""
        return self.samples / self._config.format.rate

    def _drop_finished(self, segment: StreamSegment, events: Sequence[Event]) -> Iterator[Message]:
        """Go on with the next stream after the end of this one, or after its last commit."""
        has_ended = any(isinstance(event, End) for event in events)
        if not has_ended and not (segment.is_cleared and not segment.commits):
            return
        self._segments.finish(segment)
        if segment.is_cleared:
            yield from self._answer_dropped(segment.marks)
            self._items.clear()
        for seconds in self._segments.take_late_commits():
            yield from self._items.commit(seconds)
        if not self._segments and self.is_ending:
            self.is_over = True

    def _apply_event(self, event: Event, segment: StreamSegment) -> Iterator[Message]:
        match event:
            case SpeechStarted() if segment.is_vad:
                yield from self._items.start_speech(event.start + segment.offset)
            case Commit():
                tokens = segment.tokens(event.tokens)
                self._marks.extend(tokens)
                yield from self._items.extend(tokens, begins_stream=not segment.has_text)
                segment.has_text = True
            case HypothesisChange() if HYPOTHESIS in self._config.include:
                yield self._items.hypothesis(segment.tokens(event.transcript.tokens))
            case Marked():
                segment.pop_mark()
                hypothesis = segment.tokens(event.transcript.tokens)
                yield self._marks.marked(event, hypothesis, segment.offset)
            case Endpoint():
                yield from self._end_utterance(event, segment)
            case Failure() if event.is_final:
                self.has_failed = self.is_over = True
                yield from self._items.fail(as_request_error(event.error).record())
            case End():
                yield from self._end_segment(segment)

    def _apply_speakers(self, event: Event, segment: StreamSegment) -> Iterator[Message]:
        match event:
            case SpeakerTurn(span):
                yield from self._items.find_speaker(segment.span(span))
            case Endpoint():
                self._items.advance(event.time + segment.offset)
            case Failure(error=BackendError(retryable=False), is_final=False):
                self._speaker_delay = None  # an error event would end some clients
                yield from self._items.settle_speakers()
                yield self._session_message("session.updated")

    def _end_utterance(self, event: Endpoint, segment: StreamSegment) -> Iterator[Message]:
        is_commit = event.reason == "commit" or (event.reason == "end" and segment.commits > 0)
        segment.commits -= is_commit
        if segment.is_vad:
            waited = segment.silence_seconds if event.reason == "silence" else 0.0
            end = event.time + segment.offset
            yield from self._items.end_speech(end, end + waited)
        elif is_commit:
            yield from self._items.complete()

    def _end_segment(self, segment: StreamSegment) -> Iterator[Message]:
        if segment.commits and not self.has_failed:  # of audio without an utterance
            segment.commits = 0
            if segment.is_vad:
                yield from self._items.commit(0.0)
            yield from self._items.complete()
        if self.is_ending and segment is self._segments.last:
            yield from self._complete_uncommitted()
        yield from self._end_speakers()

    def _end_speakers(self) -> Iterator[Message]:
        """Send the segments of everything completed, because its diarizer has ended."""
        yield from self._items.settle_speakers()
        self._items.begin_speakers()

    def _complete_uncommitted(self) -> Iterator[Message]:
        if self._uncommitted and self._config.turn_detection is None and not self.has_failed:
            yield from self._items.commit(self._take_uncommitted())
            yield from self._items.complete()

    def _take_uncommitted(self) -> float:
        """Return the seconds of audio since the last commit and reset the counter."""
        samples, self._uncommitted = self._uncommitted, 0
        return samples / self._config.format.rate

    def _session_message(self, kind: str) -> Message:
        config = self._config.record()
        if self._card.speaker_delay is not None:
            delay = self._speaker_delay
            config["wlk"]["speakers"] = None if delay is None else {"seconds": delay}
        return {
            "type": kind,
            "session": {
                "id": self.session_id,
                "object": "realtime.transcription_session",
                "expires_at": self._expires_at,
                **config,
            },
        }

    def _out(self, messages: Iterable[Message]) -> list[Message]:
        """Return *messages* in the shape of the client, with their event ids."""
        return [
            {"event_id": f"event_{self.session_id}_{next(self._event_numbers)}", **message}
            for message in (to_beta_messages(messages) if self._is_beta else messages)
        ]


def _error(error: RequestError, event_id: str | None) -> Message:
    return {"type": "error", "error": {**error.record(), "event_id": event_id}}
