"""OpenAI Realtime transcription: messages of a client in, messages of the server out."""

from __future__ import annotations

from collections import deque
import itertools
from typing import TYPE_CHECKING, Any, TypeAlias

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
from wlk_serve.errors import RequestError, as_request_error
from wlk_serve.protocols.realtime_beta import BETA_UPDATE, from_beta_session, to_beta_message
from wlk_serve.protocols.realtime_config import (
    HYPOTHESIS,
    LOGPROBS,
    RealtimeConfig,
    default_config,
    update_config,
)
from wlk_serve.protocols.realtime_input import (
    check_samples,
    decode_audio,
    message_type,
    parse_message,
)
from wlk_serve.protocols.realtime_items import Conversation
from wlk_serve.protocols.realtime_marks import MARK, MARKS, Marks
from wlk_serve.protocols.realtime_run import Run, stream_config

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from wlk_serve.model_card import ModelCard
    from wlk_serve.protocols.streams import AudioStream, OpenStream

__all__ = ["Message", "RealtimeProtocol"]

Message: TypeAlias = "dict[str, Any]"
_MOST_NAME_CHARACTERS = 200
_END = "wlk.end"  # the client's event that no more audio comes
_MEANINGLESS = ("conversation.item.", "response.", "output_audio_buffer.")  # in a transcription


class RealtimeProtocol:
    """
    One Realtime session, without sockets, threads and clocks.

    ``begin``, ``receive`` and ``handle`` return the messages to send, in their order.  Nothing that
    a client sends makes them raise.  Items are completed in their order, one at a time.

    Args:
        card: the model that is served.
        open_stream: opens a stream of the core; its events go to ``handle``.  A StreamNotOpen
            passes through ``receive``, which then gets the same message again.
        new_id: returns an identifier with a prefix, such as "item_0123".
        expires_at: seconds of the epoch at which the server ends the session.
        config: the configuration at the beginning, None for the default.
        is_beta: whether messages have the beta shape; an update of that shape sets it too.

    """

    def __init__(
        self,
        card: ModelCard,
        open_stream: OpenStream,
        *,
        new_id: Callable[[str], str],
        expires_at: int = 0,
        is_beta: bool = False,
        config: RealtimeConfig | None = None,
    ) -> None:
        self._card = card
        self._open_stream = open_stream
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
        self._runs: deque[Run] = deque()  # the last one receives the audio
        self._takes_binary = False  # since the first update, which sets the format
        self.samples = 0  #: appended
        self._uncommitted = 0  # samples since the last commit
        self.is_ending = False  #: whether no more audio is taken
        self.is_over = False  #: whether the session has ended or failed: nothing will come
        self.has_failed = False  #: whether an engine failure ended it

    @property
    def rate(self) -> int:
        """Samples a second of the audio that the client appends."""
        return self._config.format.rate

    def begin(self) -> list[Message]:
        """Return the first messages of a connection."""
        return self._out([self._session_message("session.created")])

    def receive(self, text: str | bytes) -> list[Message]:
        """Apply a message of the client; bytes are audio, after the first update of the session."""
        event_id: str | None = None
        try:
            if isinstance(text, bytes):
                self._apply_binary(text)
                return []
            message = parse_message(text)
            event_id = message.get("event_id") if isinstance(message.get("event_id"), str) else None
            answers = list(self._apply(message))
        except WLKError as error:
            answers = [_error(as_request_error(error), event_id)]
        return self._out(answers)

    def report(self, error: RequestError) -> list[Message]:
        """Return the message of an error that no message of the client caused."""
        return self._out([_error(error, None)])

    def handle(self, stream: AudioStream, events: Iterable[Event]) -> list[Message]:
        """Apply events of a stream that this object opened."""
        run = next((run for run in self._runs if run.stream is stream), None)
        if run is None:
            return []  # it was cleared
        run.waiting += events
        answers: list[Message] = []
        while self._runs and self._runs[0].waiting:
            run = self._runs[0]
            waiting, run.waiting = run.waiting, []
            for event in waiting:
                if run.is_cleared and not run.commits:
                    break
                answers += self._apply_speakers(event, run)
                answers += self._apply_event(event, run)
            self._drop_finished(run, waiting)
        return self._out(answers)

    def end(self) -> None:
        """
        End the audio, for the client or before a shutdown; may be called again.

        The last messages come from ``handle``.
        """
        self.is_ending = True
        self._end_audio()
        self.is_over = not self._runs

    def close(self) -> None:
        """Drop everything, as after a disconnect."""
        self.is_over = True
        for run in self._runs:
            run.stream.close()
        self._runs.clear()

    def _apply(self, message: Message) -> Iterator[Message]:
        kind = message_type(message)
        if kind == _END:  # also where it comes again after a resume, or the server has ended it
            self.end()
            return
        self._check_open()
        match kind:
            case "session.update":
                yield from self._update(message.get("session"))
            case _ if kind == BETA_UPDATE:
                self._is_beta = True
                yield from self._update(from_beta_session(message.get("session")))
            case "input_audio_buffer.append":
                self._append(decode_audio(message.get("audio"), self._config.format))
            case "input_audio_buffer.commit":
                yield from self._commit()
            case "input_audio_buffer.clear":
                self._clear()
                yield {"type": "input_audio_buffer.cleared"}
            case _ if kind == MARK and self._marks.is_enabled:
                self._mark(message.get("id"))
            case _:
                known = kind.startswith(_MEANINGLESS)
                remedy = f' without include: ["{MARKS}"]' if kind == MARK else ""
                raise RequestError(
                    f"a transcription session does not take {kind[:100]!r}{remedy}",
                    code="unsupported_event" if known else "invalid_event",
                    param="type",
                )

    def _apply_binary(self, data: bytes) -> None:
        if not self._takes_binary:
            raise RequestError(
                "expected a text message; binary audio is taken after a session.update",
                code="invalid_event",
            )
        self._check_open()
        check_samples(data, self._config.format)
        self._append(data)

    def _check_open(self) -> None:
        if self.is_over or self.is_ending:
            raise RequestError("the session is over; connect again", code="session_expired")

    def _update(self, session: object) -> Iterator[Message]:
        old = self._config
        new = update_config(old, session, self._card)
        if new.format != old.format and self.samples:
            raise RequestError(
                "the format can be changed before the first audio only; open another session",
                code="invalid_value",
                param="session.audio.input.format",
            )
        changes_mode = (old.turn_detection is None) != (new.turn_detection is None)
        if changes_mode and self._uncommitted:
            yield from self._commit()
        self._config = new
        self._takes_binary = True
        if stream_config(old) != stream_config(new):
            self._end_audio()  # the next audio opens another stream
        self._items.has_logprobs = LOGPROBS in new.include
        self._marks.is_enabled = MARKS in new.include
        yield self._session_message("session.updated")

    def _append(self, data: bytes) -> None:
        if not data:
            return
        if not self._runs or not self._runs[-1].takes_audio:
            self._open()
        self._runs[-1].stream.receive(data)
        count = len(data) // self._config.format.sample_bytes
        self.samples += count
        self._uncommitted += count

    def _commit(self) -> Iterator[Message]:
        if not self._uncommitted:
            raise RequestError(
                "the input audio buffer is empty; append audio before a commit",
                code="input_audio_buffer_commit_empty",
            )
        run = self._runs[-1]
        run.stream.commit()
        run.commits += 1
        seconds = self._take_uncommitted()
        if not run.is_vad:  # else the endpoint ends the item: speech may end by itself before
            yield from self._items.commit(seconds)

    def _mark(self, name: object) -> None:
        if not isinstance(name, str) or len(name) > _MOST_NAME_CHARACTERS:
            raise RequestError(
                f"expected `id` as a text of up to {_MOST_NAME_CHARACTERS} characters",
                code="invalid_type",
                param="id",
            )
        if not self._runs or not self._runs[-1].takes_audio:
            self._open()
        self._runs[-1].stream.mark(name)

    def _clear(self) -> None:
        self._uncommitted = 0
        for run in list(self._runs):
            run.is_cleared, run.takes_audio = True, False
            if not run.commits:
                run.stream.close()
                self._runs.remove(run)
        if not self._runs:
            self._items.clear()

    def _end_audio(self) -> None:
        if self._runs and self._runs[-1].takes_audio:
            self._runs[-1].takes_audio = False
            self._runs[-1].stream.end_audio()

    def _open(self) -> None:
        config = stream_config(self._config)
        offset = self.samples / self._config.format.rate
        stream = self._open_stream(config)
        self._speaker_delay = self._card.speaker_delay
        self._runs.append(Run.of(stream, config, offset=offset))

    def _drop_finished(self, run: Run, events: Sequence[Event]) -> None:
        """Go on with the next stream after the end of this one, or after its last commit."""
        has_ended = any(isinstance(event, End) for event in events)
        if not has_ended and not (run.is_cleared and not run.commits):
            return
        run.stream.close()
        self._runs.remove(run)
        if run.is_cleared:
            self._items.clear()
        if not self._runs and self.is_ending:
            self.is_over = True

    def _apply_event(self, event: Event, run: Run) -> Iterator[Message]:
        match event:
            case SpeechStarted() if run.is_vad:
                yield from self._items.start_speech(event.start + run.offset)
            case Commit():
                tokens = run.tokens(event.tokens)
                self._marks.extend(tokens)
                yield from self._items.extend(tokens)
            case HypothesisChange() if HYPOTHESIS in self._config.include:
                yield self._items.hypothesis(run.tokens(event.transcript.tokens))
            case Marked():
                hypothesis = run.tokens(event.transcript.tokens)
                yield self._marks.marked(event, hypothesis, run.offset)
            case Endpoint():
                is_commit = event.reason == "commit"
                run.commits -= is_commit
                if run.is_vad:
                    waited = run.silence_seconds if event.reason == "silence" else 0.0
                    end = event.time + run.offset
                    yield from self._items.end_speech(end, end + waited)
                elif is_commit:
                    yield from self._items.complete()
            case Failure() if event.is_final:
                self.has_failed = self.is_over = True
                yield from self._items.fail(as_request_error(event.error).record())
            case End():
                yield from self._end_run(run)

    def _apply_speakers(self, event: Event, run: Run) -> Iterator[Message]:
        match event:
            case SpeakerTurn(span):
                yield from self._items.find_speaker(run.span(span))
            case Endpoint():
                self._items.advance(event.time + run.offset)
            case Failure(error=BackendError(retryable=False), is_final=False):
                self._speaker_delay = None  # an error event would end some clients
                yield from self._items.settle_speakers()
                yield self._session_message("session.updated")

    def _end_run(self, run: Run) -> Iterator[Message]:
        if self.is_ending and run is self._runs[-1] and not run.is_vad:
            yield from self._complete_uncommitted()
        yield from self._items.settle_speakers()
        self._items.begin_speakers()

    def _complete_uncommitted(self) -> Iterator[Message]:
        if self._uncommitted and not self.has_failed:
            yield from self._items.commit(self._take_uncommitted())
            yield from self._items.complete()

    def _take_uncommitted(self) -> float:
        """Return the seconds of audio since the last commit and count anew."""
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
        shaped = [to_beta_message(message) if self._is_beta else message for message in messages]
        return [
            {"event_id": f"event_{self.session_id}_{next(self._event_numbers)}", **message}
            for message in shaped
        ]


def _error(error: RequestError, event_id: str | None) -> Message:
    return {"type": "error", "error": {**error.record(), "event_id": event_id}}
