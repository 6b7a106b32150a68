"""The items of a Realtime session: one per utterance, with text that grows by deltas."""

from __future__ import annotations

from collections import Counter, deque
from typing import TYPE_CHECKING, Any

import attrs

from wlk_live.records import round_seconds
from wlk_serve.words import (
    Deltas,
    SpeakerSegments,
    detected_languages,
    logprob_records,
    segment_record,
    word_records,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from wlk_core.tokens import ASRToken
    from wlk_serve.protocols import Message

_TRANSCRIPTION = "conversation.item.input_audio_transcription"


@attrs.define(kw_only=True)
class Item:
    """One utterance: its id for the client, and its words so far."""

    id: str
    has_speech_started: bool = False
    start: float = 0.0  #: session time of its first audio, in seconds
    seconds: float = 0.0  #: length of its audio
    tokens: list[ASRToken] = attrs.field(factory=list)
    deltas: Deltas = attrs.field(factory=Deltas)


class Conversation:
    """
    The items in order; the methods return messages that report what happened to them.

    Text belongs to the oldest item that is committed and not yet completed, else to the open one.

    Args:
        session_id: a part of all identifiers.
        speaker_delay: time in seconds until a speaker is known; None without a diarizer.

    """

    def __init__(self, session_id: str, *, speaker_delay: float | None = None) -> None:
        self._session_id = session_id
        self._counts: Counter[str] = Counter()  # of identifiers, by prefix
        self.speakers = None if speaker_delay is None else SpeakerSegments(speaker_delay)
        self._pending: deque[Item] = deque()  # committed and not yet completed
        self._open: Item | None = None
        self._previous_id: str | None = None
        self.has_logprobs = False

    def start_speech(self, start: float) -> Iterator[Message]:
        """Begin an item at session time *start*, in seconds."""
        item = self._open_item()
        item.has_speech_started, item.start = True, start
        yield {
            "type": "input_audio_buffer.speech_started",
            "item_id": item.id,
            "audio_start_ms": round(start * 1000),
        }

    def end_speech(self, end: float, detected: float) -> Iterator[Message]:
        """Complete the open item: its speech ended at *end*, which was noticed at *detected*."""
        item = self._open_item()
        if item.has_speech_started:
            item.seconds = max(0.0, end - item.start)
            yield {
                "type": "input_audio_buffer.speech_stopped",
                "item_id": item.id,
                "audio_end_ms": round(detected * 1000),
            }
        yield from self.commit(item.seconds)
        yield from self.complete()

    def extend(
        self, tokens: Sequence[ASRToken], *, begins_stream: bool = False
    ) -> Iterator[Message]:
        """Append committed *tokens*, which may begin a new stream."""
        item = self._speaking_item()
        if self.speakers is not None:
            tokens = self.speakers.extend(item.id, tokens)
        item.tokens += tokens
        if delta := item.deltas.add(tokens, begins_stream=begins_stream):
            yield self._message("delta", item, delta=delta, **self._details(tokens))

    def hypothesis(self, tokens: Sequence[ASRToken]) -> Message:
        """Return a message with text that may still change and that no delta contains yet."""
        return {
            "type": "wlk.hypothesis",
            "item_id": self._speaking_item().id,
            "text": "".join(token.text for token in tokens),
            "words": word_records(tokens),
        }

    def commit(self, seconds: float) -> Iterator[Message]:
        """Commit the open item, whose audio is *seconds* long; call `complete` later."""
        item, self._open = self._open_item(), None
        item.seconds = seconds
        self._pending.append(item)
        previous, self._previous_id = self._previous_id, item.id
        yield {
            "type": "input_audio_buffer.committed",
            "item_id": item.id,
            "previous_item_id": previous,
        }
        for kind in ("added", "done"):  # both at once: an item consists of its audio, not its words
            yield {
                "type": f"conversation.item.{kind}",
                "item": {
                    "id": item.id,
                    "object": "realtime.item",
                    "type": "message",
                    "status": "completed",
                    "role": "user",
                    "content": [{"type": "input_audio", "transcript": None}],
                },
                "previous_item_id": previous,
            }

    def complete(self) -> Iterator[Message]:
        """Complete the oldest committed item."""
        if not self._pending:
            return
        item = self._pending.popleft()
        tokens: Sequence[ASRToken] = item.tokens
        if self.speakers is not None:  # more speakers may be known by now
            tokens = self.speakers.labelled(item.id) or tokens
            self.speakers.end(item.id)
        languages = detected_languages(item.tokens)
        yield self._message(
            "completed",
            item,
            transcript=item.deltas.text,
            usage={"type": "duration", "seconds": round_seconds(item.seconds)},
            **self._details(tokens),
            **({"languages": languages} if languages else {}),
        )
        yield from self.segments()

    def fail(self, error: Message) -> Iterator[Message]:
        """Report the failure of every unfinished item, or of a new one if there is none."""
        items = [*self._pending]
        if self._open is not None or not items:
            items.append(self._open_item())
        self._pending.clear()
        self._open = None
        for item in items:
            yield self._message("failed", item, error=error)

    def clear(self) -> None:
        """Drop the open item."""
        self._open = None
        if self.speakers is not None:
            self.speakers.discard()

    def segments(self) -> Iterator[Message]:
        """Return messages with the speaker segments that have become certain."""
        if self.speakers is None:
            return
        for item_id, line in self.speakers.take():
            yield {
                "type": f"{_TRANSCRIPTION}.segment",
                "item_id": item_id,
                "content_index": 0,
                "id": self._new_id("seg"),
                **segment_record(line),
                "words": word_records(line.tokens),
            }

    def _new_id(self, prefix: str) -> str:
        self._counts[prefix] += 1
        return f"{prefix}_{self._session_id}_{self._counts[prefix]}"

    def _message(self, kind: str, item: Item, **fields: Any) -> Message:
        identity = {"item_id": item.id, "content_index": 0}
        return {"type": f"{_TRANSCRIPTION}.{kind}", **identity, **fields}

    def _details(self, tokens: Sequence[ASRToken]) -> Message:
        details: Message = {"words": word_records(tokens)}
        if tokens:
            details["start"] = round_seconds(min(token.start for token in tokens))
            details["end"] = round_seconds(max(token.end for token in tokens))
        if self.has_logprobs:
            details["logprobs"] = logprob_records(tokens)
        return details

    def _open_item(self) -> Item:
        if self._open is None:
            self._open = Item(id=self._new_id("item"))
        return self._open

    def _speaking_item(self) -> Item:
        return self._pending[0] if self._pending else self._open_item()
