"""
Deepgram's live transcription, ``/v1/listen``.

It follows the reference of Deepgram's API, and deepgram-sdk 7.17, listen/v1.
"""

from __future__ import annotations

from bisect import insort
from collections import deque
import math
from operator import attrgetter
from typing import TYPE_CHECKING, ClassVar

from wlk_live.session import (
    Commit,
    End,
    Endpoint,
    Failure,
    HypothesisChange,
    Marked,
    SpeakerTurn,
    SpeechStarted,
)
from wlk_live.session.timeline import with_speakers
from wlk_protocols.deepgram.messages import (
    SAMPLES,
    channel_record,
    message_type,
    metadata_fields,
    model_info,
    rounded,
)
from wlk_serve.protocols import DAMAGED_AUDIO, RequestError, WebmDecoder, as_request_error

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence

    from wlk_core.tokens import ASRToken, SpeakerSpan
    from wlk_live.session import Event
    from wlk_protocols.deepgram.query import ListenQuery
    from wlk_serve.protocols import Message, SegmentEnd, SessionAudio, SessionInfo

_MARK_SECONDS = 0.25  # of audio between two marks, while an utterance may be about to end
# The end of what a model has consumed, in which it may not have found a word yet that began there:
# the border of AlignAtt is 0.3 s.
_UNCERTAIN_SECONDS = 0.5


class ListenProtocol:
    """
    A `ClientProtocol` for one connection.

    Results with `is_final` follow each other without gaps, and their joined transcripts are the
    text.  Committed words become final only with the next words or the end of the utterance, so
    that the last words come with `speech_final` or `from_finalize`, where clients look for them.
    Interim results show them immediately.

    UtteranceEnd follows the final result with the last word before a gap of `utterance_end` seconds
    between words, by the clock of the decoded audio: a client can send faster than the model
    decodes, and may want no `speech_final`.

    A diarizer assigns speakers after words are committed, and no message can add them to a final
    result.  If speakers are requested, final results wait for them, except the one for a Finalize.
    """

    replaceable: ClassVar[Collection[str | None]] = ()

    def __init__(
        self, audio: SessionAudio, info: SessionInfo, query: ListenQuery, *, channel: int = 0
    ) -> None:
        self._audio = audio
        self._channel_index = [channel, query.channels if query.is_multichannel else 1]
        self._info = info
        self._query = query
        self._webm = WebmDecoder(samples=SAMPLES) if query.is_webm else None
        self._words: list[ASRToken] = []  # committed, but not in a final result yet
        self._start = 0.0  # of the next result, in seconds
        self._shown: Message = {}  # the channel of the last interim result
        self._last_word_end: float | None = None  # until UtteranceEnd reports it
        self._is_silent = False  # since the last pause
        self._last_mark = (0.0, 0.0)  # its time, and the audio that the gate had passed on
        self._finalizes = 0  # Finalize messages that have yet to be answered
        self._speakers: dict[int | str, int] = {}
        self._speaker_delay = info.card.speaker_delay if query.has_speakers else None
        self._spans: list[SpeakerSpan] = []  # by start; they end after the last final result
        self._waiting: deque[Event | SegmentEnd] = deque()  # for the speakers of earlier words
        self._marked = 0.0  # seconds of audio at the last mark that was requested
        self._decoded = 0.0  # seconds of audio at the last mark that was reached

    def begin(self) -> list[Message]:
        """Return nothing: Deepgram sends no message before the first result."""
        return []

    def receive(self, data: str | bytes) -> list[Message]:
        """Apply audio or a message from the client."""
        return list(self._append(data) if isinstance(data, bytes) else self._apply(data))

    def refuse(self, error: RequestError) -> list[Message]:
        """Return an error message; end the audio if no more of it can be decoded."""
        variant, text = str(error.code or "error").upper(), str(error)
        message = {"type": "Error", "description": text, "message": text, "variant": variant}
        return [message, *(self.end() if error.code == DAMAGED_AUDIO else [])]

    def handle(self, event: Event | SegmentEnd) -> Iterator[Message]:
        """Apply an event of the session, once the speakers of the words before it are known."""
        if isinstance(event, SpeakerTurn):
            insort(self._spans, event.span, key=attrgetter("start"))
        else:
            self._waiting.append(event)
        if isinstance(event, Marked):
            self._decoded = float(event.name)
        is_commit = isinstance(event, Endpoint) and event.reason == "commit"
        is_urgent = is_commit or isinstance(event, End | Failure)
        while self._waiting:
            if not (is_urgent or self._has_speakers()) and self._makes_final(self._waiting[0]):
                break
            yield from self._apply_event(self._waiting.popleft())
        self._request_mark()

    def _apply_event(self, event: Event | SegmentEnd) -> Iterator[Message]:
        match event:
            case SpeechStarted():
                yield from self._start_speech(event.start)
            case Commit():
                yield from self._add_words(event)
            case HypothesisChange():
                yield from self._interim(event.transcript.tokens)
            case Marked():
                yield from self._apply_mark(event)
            case Endpoint():
                yield from self._end_utterance(event)
            case Failure(is_final=True):
                yield from self.refuse(as_request_error(event.error))
            case End():
                yield from self._end_stream(event)

    def end(self) -> list[Message]:
        """End the audio; may be called again."""
        was_over = self._audio.is_over
        self._audio.end()
        return [] if self._audio.segments or was_over else [self._metadata()]

    def _start_speech(self, start: float) -> Iterator[Message]:
        yield from self._utterance_end(start)
        self._is_silent = False
        if self._query.has_speech_started:
            yield {
                "type": "SpeechStarted",
                "channel": self._channel_index[:1],
                "timestamp": rounded(start),
            }

    def _add_words(self, commit: Commit) -> Iterator[Message]:
        if self._words and self._has_speakers():
            yield self._final(max(token.end for token in self._words))
        for token in commit.tokens:
            yield from self._utterance_end(token.start)
            self._words.append(token)
            self._last_word_end = max(token.end, self._last_word_end or 0.0)
        yield from self._interim(())

    def _append(self, data: bytes) -> Iterator[Message]:
        if self._audio.is_ended:
            return
        if not data:  # how older clients close a stream
            yield from self.end()
            return
        if self._webm is None:
            self._audio.append(data)
            self._request_mark()
        else:
            self._audio.append_pieces(self._marked_pieces(self._webm.decode(data)))

    def _marked_pieces(self, pieces: Iterator[bytes]) -> Iterator[bytes]:
        """Yield *pieces*, and request a mark after the last one."""
        yield from pieces
        self._request_mark()

    def _apply(self, text: str) -> Iterator[Message]:
        match message_type(text):
            case "Configure":
                yield {
                    "type": "ConfigureFailure",
                    "request_id": self._info.id,
                    "code": "CONFIGURE_KEYTERMS_NOT_SUPPORTED",
                    "description": "expected all settings in the query; open a new connection",
                }
            case "KeepAlive":
                pass  # it has no audio, so no clock advances
            case "CloseStream":
                yield from self.end()
            case "Finalize" if not self._audio.is_ended:
                if self._audio.commit() is None:
                    yield self._final(self._start, from_finalize=True)
                else:
                    self._finalizes += 1
            case "Finalize":
                pass  # the end of the audio makes all words final anyway
            case _:
                raise RequestError(
                    f"expected audio, KeepAlive, Finalize or CloseStream, got {text[:100]!r}",
                    code="invalid_message",
                )

    def _has_speakers(self) -> bool:
        """Return whether the speakers of the committed words are known, or will stay unknown."""
        if self._speaker_delay is None or not self._words:
            return True
        last = self._words[-1]
        is_spoken = any(span.end > last.start for span in self._spans)
        return is_spoken or self._decoded >= last.end + self._speaker_delay

    def _makes_final(self, event: Event | SegmentEnd) -> bool:
        """Return whether *event* makes the committed words final."""
        match event:
            case Endpoint():
                return True
            case Marked():
                return self._is_utterance_over(self._quiet_until(event))
            case Commit(tokens) if tokens:
                return self._is_utterance_over(tokens[0].start)
            case SpeechStarted():
                return self._is_utterance_over(event.start)
        return False

    def _request_mark(self) -> None:
        """Request a mark if the audio so far may show that nobody speaks, or who spoke."""
        now, due = self._audio.seconds, math.inf
        # Without a mark, no event would report that the diarizer has found nobody by then.
        if self._waiting and self._words and self._speaker_delay is not None:
            due = self._words[-1].end + self._speaker_delay
        if self._last_word_end is not None and self._query.utterance_end is not None:
            due = min(due, self._last_word_end + self._query.utterance_end)
        is_new = self._marked < due or now >= self._marked + _MARK_SECONDS
        if due <= now and is_new and self._audio.open_segment is not None:
            self._marked = now
            self._audio.mark(str(now))

    def _apply_mark(self, mark: Marked) -> Iterator[Message]:
        until = self._quiet_until(mark)
        self._last_mark = float(mark.name), mark.stats.audio_seconds
        if not mark.transcript.tokens:  # words that may change are not final yet
            yield from self._utterance_end(until)

    def _quiet_until(self, mark: Marked) -> float:
        """
        Return the time before which no other word can begin, as far as *mark* shows.

        While somebody speaks, the model may not have recognised the latest words yet.  In silence
        the gate withholds the audio from the model.
        """
        time, (last, passed) = float(mark.name), self._last_mark
        is_withheld = time >= last + _MARK_SECONDS and mark.stats.audio_seconds == passed
        if self._is_silent or is_withheld:
            return time
        return mark.processed_up_to - _UNCERTAIN_SECONDS

    def _end_utterance(self, event: Endpoint) -> Iterator[Message]:
        self._is_silent = event.reason != "commit"
        is_finalize = event.reason == "commit" and self._finalizes > 0
        if is_finalize:
            self._finalizes -= 1
        if is_finalize or self._words or (event.reason == "silence" and self._query.ends_speech):
            yield self._final(
                event.time,
                from_finalize=is_finalize,
                speech_final=is_finalize or self._query.ends_speech,
            )

    def _end_stream(self, event: End) -> Iterator[Message]:
        if self._words:
            yield self._final(event.audio_time)
        yield from self._utterance_end(math.inf)
        if self._audio.is_ended and not self._audio.has_failed:
            yield self._metadata()

    def _is_utterance_over(self, until: float) -> bool:
        """Return whether the last utterance is over if no other word begins before *until*."""
        wait, end = self._query.utterance_end, self._last_word_end
        return wait is not None and end is not None and until >= end + wait

    def _utterance_end(self, until: float) -> Iterator[Message]:
        """Report the end of an utterance, after its words, if no word begins before *until*."""
        if not self._is_utterance_over(until):
            return
        end, self._last_word_end = self._last_word_end or 0.0, None
        if self._words:
            yield self._final(end)
        yield {
            "type": "UtteranceEnd",
            "channel": self._channel_index,
            "last_word_end": rounded(end),
        }

    def _interim(self, hypothesis: Iterable[ASRToken]) -> Iterator[Message]:
        tokens = [*self._words, *hypothesis]
        if not self._query.has_interims or not tokens:
            return
        shown = self._channel(tokens)
        if shown != self._shown:
            self._shown = shown
            end = max(self._start, self._decoded, *(token.end for token in tokens))
            yield self._results(shown, end, is_final=False)

    def _final(
        self, end: float, *, speech_final: bool = False, from_finalize: bool = False
    ) -> Message:
        tokens = self._words
        self._words = []
        self._shown = {}
        end = max(end, self._start, *(token.end for token in tokens), 0.0)
        results = self._results(
            self._channel(tokens),
            end,
            is_final=True,
            speech_final=speech_final,
            from_finalize=from_finalize,
        )
        self._start = end
        self._spans = [span for span in self._spans if span.end > end]
        return results

    def _results(
        self,
        channel: Message,
        end: float,
        *,
        is_final: bool,
        speech_final: bool = False,
        from_finalize: bool = False,
    ) -> Message:
        return {
            "type": "Results",
            "channel_index": self._channel_index,
            "start": rounded(self._start),
            "duration": rounded(end - self._start),
            "is_final": is_final,
            "speech_final": speech_final,
            "from_finalize": from_finalize,
            "channel": channel,
            "metadata": {
                "request_id": self._info.id,
                "model_uuid": self._info.card.name,
                "model_info": model_info(self._info.card),
            },
        }

    def _channel(self, tokens: Sequence[ASRToken]) -> Message:
        spoken = with_speakers(tokens, self._spans)
        return channel_record(spoken, self._speakers if self._query.has_speakers else None)

    def _metadata(self) -> Message:
        card, seconds = self._info.card, self._audio.seconds
        fields = metadata_fields(
            card, self._info.id, seconds, self._query.ignored, channels=self._query.channels
        )
        return {"type": "Metadata", **fields}
