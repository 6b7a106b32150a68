"""Write the channels of a recording as one transcript, in the order of time."""

from __future__ import annotations

from operator import itemgetter
import time
from typing import TYPE_CHECKING, Any

import attrs

from wlk_core.tokens import SpeakerSpan
from wlk_live.channels import channel_name, in_order
from wlk_live.cli.formats import CUES, captions_of, document_text, json_text, rendered
from wlk_live.records import (
    round_seconds,
    rounded,
    segment_record,
    span_record,
    token_record,
    translation_record,
)
from wlk_live.session import (
    Commit,
    End,
    HypothesisChange,
    SilenceSpan,
    SpeakerTurn,
    Translation,
)
from wlk_live.session.timeline import Timeline

if TYPE_CHECKING:
    from collections.abc import Iterable

    from wlk_live.captions.segments import Layout
    from wlk_live.cli.formats import JSONArray, Outcome
    from wlk_live.session.events import Event


@attrs.define
class _Channel:
    """The events of one channel; every word has the channel as its speaker."""

    number: int
    name: str
    events: list[Event] = attrs.field(factory=list)
    timeline: Timeline = attrs.field(factory=Timeline)
    end: End | None = None  # None if it was not transcribed to its end

    def add(self, event: Event) -> None:
        if isinstance(event, Commit):
            words = tuple(attrs.evolve(token, speaker=self.name) for token in event.tokens)
            event = attrs.evolve(event, tokens=words)
        elif isinstance(event, Translation):
            text = event.text  # captions of a translation have its speaker too
            span = SpeakerSpan(self.name, text.start, text.end)
            self.timeline.add(SpeakerTurn(span, event.audio_time))
        elif isinstance(event, End):
            self.end = event
        self.timeline.add(event)
        self.events.append(event)

    def record(self) -> dict[str, Any]:
        """Return what JSON has of each channel."""
        silences = [each.silence for each in self.events if isinstance(each, SilenceSpan)]
        return {
            "channel": self.number,
            "speaker": self.name,
            "text": "".join(token.text for token in self.timeline.tokens).strip(),
            "silences": [span_record(silence) for silence in silences],
            "stats": None if self.end is None else rounded(self.end.stats),
        }


@attrs.define
class Channels:
    """
    The whole result at the end, of channels whose events follow each other.

    A channel is the speaker of its words.  Captions of several channels follow each other by their
    start; each has the words of one channel, so they overlap where both are heard.
    """

    _style: str
    _layout: Layout
    _language: str | None
    _array: JSONArray | None = None
    _channels: list[_Channel] = attrs.field(factory=list)

    def push(self, event: Event) -> str:
        """Collect an event; nothing is written before the end."""
        if not self._channels or self._channels[-1].end is not None:
            number = len(self._channels)
            name = channel_name(number, self._layout.speaker_names)
            self._channels.append(_Channel(number, name))
        if self._style == "jsonl" or not isinstance(event, HypothesisChange):
            self._channels[-1].add(event)  # no other format has hypotheses
        return ""

    def flush(self, outcome: Outcome) -> str:
        """Return the result, unless the recording failed before its first word."""
        if self._style == "jsonl":
            return "".join(f"{json_text(record)}\n" for record in self._records(outcome))
        if outcome.incomplete is not None and not outcome.has_words:
            return ""
        captions = in_order(
            captions_of(channel.timeline, self._style, self._layout, self._language)
            for channel in self._channels
        )
        if self._style in CUES:
            return rendered([each for _, each in captions], self._style, self._layout)
        tokens = in_order(channel.timeline.tokens for channel in self._channels)
        translations = in_order(channel.timeline.translations for channel in self._channels)
        record = outcome.header() | {
            "text": " ".join(segment.text for _, segment in captions if segment.text),
            "tokens": _numbered((number, token_record(each)) for number, each in tokens),
            "segments": _numbered((number, segment_record(each)) for number, each in captions),
            "channels": [channel.record() for channel in self._channels],
        }
        if translations:
            record["translations"] = _numbered(
                (number, translation_record(each)) for number, each in translations
            )
        return document_text(record, self._array)

    def _records(self, outcome: Outcome) -> list[dict[str, Any]]:
        """Return the events of all channels, in the order of the audio that they had."""
        records = []
        for channel in self._channels:
            for event in channel.events:
                record = event.to_dict() | {"channel": channel.number}
                if isinstance(event, End) and outcome.incomplete is None:
                    seconds = round_seconds(time.perf_counter() - outcome.started)
                    records.append(record | outcome.header() | {"wall_seconds": seconds})
                elif isinstance(event, Commit | HypothesisChange | SilenceSpan | Translation):
                    records.append(record)
        return sorted(records, key=itemgetter("audio_time"))


def _numbered(records: Iterable[tuple[int, dict[str, Any]]]) -> list[dict[str, Any]]:
    return [record | {"channel": channel} for channel, record in records]
