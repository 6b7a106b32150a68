"""OpenAI Realtime transcription: messages of a client in, messages of the server out."""

from __future__ import annotations

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
from wlk_serve.realtime.beta import BETA_UPDATE, from_beta_session, to_beta_messages
from wlk_serve.realtime.config import (
    HYPOTHESIS,
    LOGPROBS,
    RealtimeConfig,
    default_config,
    update_config,
)
from wlk_serve.realtime.items import Conversation
from wlk_serve.realtime.marks import MARK, MARKS, Marks, check_name
from wlk_serve.realtime.messages import (
    check_samples,
    decode_audio,
    message_type,
    parse_message,
)
from wlk_serve.realtime.segments import Runs, stream_config

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from wlk_serve.models.card import ModelCard
    from wlk_serve.realtime.segments import Run
    from wlk_serve.realtime.streams import AudioStream, OpenStream

__all__ = ["Message", "RealtimeProtocol"]

Message: TypeAlias = "dict[str, Any]"
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
        self._runs = Runs(open_stream)
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
        found = self._runs.find(stream)
        if found is None:
            return []  # it was cleared
        found.waiting += events
        answers: list[Message] = []
        while (run := self._runs.first) is not None and run.waiting:
            waiting, run.waiting = run.waiting, []
            for event in waiting:
                if run.is_cleared and not run.commits:
                    break
                answers += self._apply_speakers(event, run)
                answers += self._apply_event(event, run)
            answers += self._drop_finished(run, waiting)
        return self._out(answers)

    def end(self) -> list[Message]:
        """
        End the audio, for the client or before a shutdown; may be called again.

        More messages come from ``handle``, unless the session is over.
        """
        return self._out(self._end())

    def close(self) -> None:
        """Drop everything, as after a disconnect."""
        self.is_over = True
        self._runs.close()

    def _apply(self, message: Message) -> Iterator[Message]:
        kind = message_type(message)
        if kind == _END:  # also where it comes again after a resume, or the server has ended it
            yield from self._end()
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
                yield from self._clear()
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
        changes_stream = stream_config(old) != stream_config(new)
        if changes_stream and self._runs.open_run is not None:
            self._runs.check_count()  # before anything changes: the next audio needs another one
        if old.turn_detection is None and new.turn_detection is not None and self._uncommitted:
            yield from self._commit()
        elif old.turn_detection is not None and new.turn_detection is None:
            self._uncommitted = 0  # the end of the stream completes its speech
        self._config = new
        self._takes_binary = True
        if changes_stream:
            self._runs.end_audio()  # the next audio opens another stream
        self._items.has_logprobs = LOGPROBS in new.include
        self._marks.is_enabled = MARKS in new.include
        yield self._session_message("session.updated")

    def _append(self, data: bytes) -> None:
        if not data:
            return
        self._open_run().stream.receive(data)
        count = len(data) // self._config.format.sample_bytes
        self.samples += count
        self._uncommitted += count

    def _commit(self) -> Iterator[Message]:
        if not self._uncommitted:
            raise RequestError(
                "the input audio buffer is empty; append audio before a commit",
                code="input_audio_buffer_commit_empty",
            )
        run = self._runs.last
        if run is not None:
            run.commit()
        seconds = self._take_uncommitted()
        if not self._runs.has_detection:
            yield from self._items.commit(seconds)
        elif run is not None and not run.is_vad:
            run.late_commits.append(seconds)
        # Else the endpoint ends the item, because speech may end by itself before.
        if run is None:  # a change of the configuration ended its stream, and all words have come
            yield from self._items.complete()
            yield from self._end_speakers()

    def _mark(self, name: object) -> None:
        checked = check_name(name)
        self._open_run().mark(checked, self._seconds)

    def _clear(self) -> Iterator[Message]:
        self._uncommitted = 0
        yield from self._drop_marks(self._runs.clear())
        if not self._runs:
            self._items.clear()

    def _drop_marks(self, marks: Iterable[Marked]) -> Iterator[Message]:
        for mark in marks:
            yield self._marks.marked(mark, (), 0.0)

    def _end(self) -> Iterator[Message]:
        self.is_ending = True
        self._runs.end_audio()
        if not self._runs and not self.is_over:
            yield from self._complete_uncommitted()
            yield from self._end_speakers()
            self.is_over = True

    def _open_run(self) -> Run:
        """Return the run that takes audio; opens one if needed."""
        run = self._runs.open_run
        if run is None:
            run = self._runs.open(stream_config(self._config), offset=self._seconds)
            self._speaker_delay = self._card.speaker_delay
        return run

    @property
    def _seconds(self) -> float:
        """The length of the audio that was appended."""
        return self.samples / self._config.format.rate

    def _drop_finished(self, run: Run, events: Sequence[Event]) -> Iterator[Message]:
        """Go on with the next stream after the end of this one, or after its last commit."""
        has_ended = any(isinstance(event, End) for event in events)
        if not has_ended and not (run.is_cleared and not run.commits):
            return
        self._runs.finish(run)
        if run.is_cleared:
            yield from self._drop_marks(run.marks)
            self._items.clear()
        for seconds in self._runs.take_late_commits():
            yield from self._items.commit(seconds)
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
                run.pop_mark()
                hypothesis = run.tokens(event.transcript.tokens)
                yield self._marks.marked(event, hypothesis, run.offset)
            case Endpoint():
                yield from self._end_utterance(event, run)
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

    def _end_utterance(self, event: Endpoint, run: Run) -> Iterator[Message]:
        is_commit = event.reason == "commit" or (event.reason == "end" and run.commits > 0)
        run.commits -= is_commit
        if run.is_vad:
            waited = run.silence_seconds if event.reason == "silence" else 0.0
            end = event.time + run.offset
            yield from self._items.end_speech(end, end + waited)
        elif is_commit:
            yield from self._items.complete()

    def _end_run(self, run: Run) -> Iterator[Message]:
        if run.commits and not self.has_failed:  # of audio without an utterance
            run.commits = 0
            if run.is_vad:
                yield from self._items.commit(0.0)
            yield from self._items.complete()
        if self.is_ending and run is self._runs.last:
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
        return [
            {"event_id": f"event_{self.session_id}_{next(self._event_numbers)}", **message}
            for message in (to_beta_messages(messages) if self._is_beta else messages)
        ]


def _error(error: RequestError, event_id: str | None) -> Message:
    return {"type": "error", "error": {**error.record(), "event_id": event_id}}
