"""Write the events of a session as text, captions or JSON."""

from __future__ import annotations

from collections import Counter
from functools import partial
import json
import time
from typing import TYPE_CHECKING, Any, TypeAlias

import attrs

from wlk_core.processor import StreamStats
from wlk_core.untrusted import ACTIVE, plain
from wlk_live.captions.segments import (
    DEFAULT_LAYOUT,
    VTT_HEADER,
    SegmentBuilder,
    segments_from_tokens,
    srt_cue,
    text_cue,
    translated_tokens,
    vtt_cue,
)
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
    Endpoint,
    HypothesisChange,
    SilenceSpan,
    SpeakerTurn,
    Translation,
)
from wlk_live.session.timeline import Timeline, with_translations
from wlk_live.speakers import speaker_name

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    import re

    from wlk_core.tokens import ASRToken, Silence, TranslatedText
    from wlk_live.captions.segments import Layout, Segment
    from wlk_live.config import Settings
    from wlk_live.session.events import Event


@attrs.define(kw_only=True)
class Outcome:
    """What is known of one recording's session, so far or at its end."""

    file: str  #: as the user named it
    settings: Settings
    language: str | None  #: the one requested, else the one detected for most words
    audio_time: float = 0.0  #: seconds of audio received so far, at the end the duration
    stats: StreamStats = attrs.field(factory=StreamStats)
    end: End | None = None
    has_words: bool = False
    incomplete: str | None = None  #: why it was not transcribed to its end, None if it was
    _languages: Counter[str] = attrs.field(factory=Counter)  # words by detected language
    started: float = attrs.field(factory=time.perf_counter)

    def add(self, event: Event) -> None:
        """Update the fields from an event."""
        self.audio_time = max(self.audio_time, event.audio_time)  # channels follow each other
        if isinstance(event, End):
            self.end, self.stats = event, event.stats
        for token in committed(event):
            self.has_words = True
            if token.detected_language:
                self._languages[token.detected_language] += 1
                self.language = self._languages.most_common(1)[0][0]

    def header(self) -> dict[str, Any]:
        """Return the fields that identify a result."""
        header = {
            "file": self.file,
            "backend": self.settings.spec.name,
            "model": self.settings.model,
            "language": self.language,
            "duration": round_seconds(self.audio_time),
        }
        return header if self.incomplete is None else header | {"incomplete": self.incomplete}


def committed(event: Event) -> tuple[ASRToken, ...]:
    """Return the tokens of a commit, none for any other event."""
    return event.tokens if isinstance(event, Commit) else ()


@attrs.define
class Text:
    """Words as they are committed, in lines like captions, each beginning with its speaker."""

    _builder: SegmentBuilder = attrs.field(factory=partial(SegmentBuilder, is_shown=True))
    _is_new_line: bool = True

    def push(self, event: Event) -> str:
        """Return the committed words."""
        return "".join(self._spaced(token) for token in committed(event))

    def flush(self, _outcome: Outcome) -> str:
        """Return the line break that ends the last line."""
        return "" if self._is_new_line else "\n"

    def _spaced(self, token: ASRToken) -> str:
        # A caption ends when the token after it comes.
        ends_line = self._builder.push(token) is not None and not self._is_new_line
        text = plain(token.text)
        if ends_line or self._is_new_line:
            text = text.lstrip()
            if text:
                text = f"{self._builder.layout.voice(token.speaker)}{text}"
            self._is_new_line = not text
        return f"\n{text}" if ends_line else text


#: The header of each style and the function that formats a numbered caption.
CUES = {"text": ("", text_cue), "srt": ("", srt_cue), "vtt": (VTT_HEADER, vtt_cue)}


@attrs.define
class Captions:
    """Captions as they end, in plain text also at the end of an utterance; translations below."""

    _style: str
    _builder: SegmentBuilder
    _number: int = 0
    _waiting: list[TranslatedText] = attrs.field(factory=list)
    _end: float = -1.0  # stream time of the end of the last caption

    def push(self, event: Event) -> str:
        """Return the captions that an event ended, and their translations so far."""
        languages = self._builder.layout.languages
        tokens = () if languages == "translation" else committed(event)
        if isinstance(event, Translation) and languages == "translation":
            tokens = translated_tokens(event.text)
        elif isinstance(event, Translation) and languages == "both":
            self._waiting.append(event.text)
        text = "".join(self._caption(self._builder.push(token)) for token in tokens)
        # Somebody reads text while it is written: it waits for no further words.
        ends = Translation if languages == "translation" else Endpoint
        is_end = isinstance(event, Endpoint) and event.reason == "end"
        if isinstance(event, ends) and not is_end and self._style == "text":
            text += self._caption(self._builder.flush())
        return text + self._translated()

    def flush(self, outcome: Outcome) -> str:
        """Return the last caption and its translations; if there are no captions, the header."""
        text = self._caption(self._builder.flush()) + self._translated()
        is_empty = outcome.incomplete is None and not self._number
        return CUES[self._style][0] if is_empty else text

    def _caption(self, segment: Segment | None) -> str:
        if segment is None:
            return ""
        before, self._end = self._translated(), segment.end
        self._number += 1
        header, cue = CUES[self._style]
        text = cue(self._number, segment, self._builder.layout)
        return before + (header if self._number == 1 else "") + text

    def _translated(self) -> str:
        due = [text for text in self._waiting if text.start < self._end]
        self._waiting = self._waiting[len(due) :]
        return "".join(f"  {plain(text.text)}\n" for text in due)


@attrs.define
class JSONLines:
    """Each event as one line of JSON; the last is an "end" event with the session's statistics."""

    _speaker_names: Sequence[str] = ()

    def push(self, event: Event) -> str:
        """Return the line of an event, "" for events that have none."""
        if isinstance(event, SpeakerTurn):
            name = speaker_name(event.span.speaker, self._speaker_names)
            return json_text(event.to_dict() | {"speaker": name}) + "\n"
        if isinstance(event, Commit | HypothesisChange | SilenceSpan | Translation):
            return json_text(event.to_dict()) + "\n"
        return ""

    def flush(self, outcome: Outcome) -> str:
        """Return the "end" event if the recording was transcribed to its end."""
        if outcome.end is None or outcome.incomplete is not None:
            return ""
        latency = outcome.end.latency
        return _line(
            "end",
            outcome.audio_time,
            **outcome.header(),
            latency=None if latency is None else rounded(latency),
            wall_seconds=round_seconds(time.perf_counter() - outcome.started),
            stats=rounded(outcome.stats),
        )


@attrs.define
class JSONArray:
    """The array of several recordings' documents, written one by one."""

    _has_elements: bool = False

    def append(self, document: str) -> str:
        """Return a document as the next element, after what separates it from the last one."""
        separator = ",\n" if self._has_elements else "[\n"
        self._has_elements = True
        return separator + document

    def end(self) -> str:
        """Return the end of the array."""
        return "\n]\n" if self._has_elements else "[]\n"


@attrs.define
class Document:
    """The whole result at the end, with the speakers and translations known by then."""

    _style: str
    _layout: Layout
    _language: str | None
    _array: JSONArray | None = None
    _timeline: Timeline = attrs.field(factory=Timeline)
    _silences: list[Silence] = attrs.field(factory=list)

    def push(self, event: Event) -> str:
        """Collect an event; nothing is written before the end."""
        self._timeline.add(event)
        if isinstance(event, SilenceSpan):
            self._silences.append(event.silence)
        return ""

    def flush(self, outcome: Outcome) -> str:
        """Return the document, unless the recording failed before its first word."""
        if outcome.incomplete is not None and not outcome.has_words:
            return ""
        captions = captions_of(self._timeline, self._style, self._layout, self._language)
        if self._style in CUES:
            return rendered(captions, self._style, self._layout)
        tokens, translations = self._timeline.tokens, self._timeline.translations
        names = self._layout.speaker_names
        record = outcome.header() | {
            "text": "".join(token.text for token in tokens).strip(),
            "tokens": [token_record(token, names) for token in tokens],
            "segments": [segment_record(segment, names) for segment in captions],
            "silences": [span_record(silence) for silence in self._silences],
            "stats": rounded(outcome.stats),
        }
        if translations:
            record["translations"] = [translation_record(text) for text in translations]
        return document_text(record, self._array)


def captions_of(
    timeline: Timeline, style: str, layout: Layout, language: str | None
) -> list[Segment]:
    """Return the captions of a transcript in the languages of *style*, with their translations."""
    languages = layout.languages if style in CUES else "both"
    shown = timeline.translated_tokens if languages == "translation" else timeline.tokens
    below = timeline.translations if languages == "both" else ()
    return with_translations(segments_from_tokens(shown, layout, language=language), below)


def rendered(captions: Iterable[Segment], style: str, layout: Layout) -> str:
    """Return *captions* as text, srt or vtt."""
    header, cue = CUES[style]
    return header + "".join(cue(number, each, layout) for number, each in enumerate(captions, 1))


def document_text(record: dict[str, Any], array: JSONArray | None) -> str:
    """Return a document of JSON, as an element of *array* if there is one."""
    document = json_text(record, indent=2)
    return f"{document}\n" if array is None else array.append(document)


#: `push` returns what can be written after an event, `flush` the rest, also after a failure.
Format: TypeAlias = Text | Captions | JSONLines | Document


def new_format(
    style: str,
    *,
    has_speakers: bool,
    has_translations: bool,
    in_lines: bool = False,
    array: JSONArray | None = None,
    layout: Layout = DEFAULT_LAYOUT,
    language: str | None = None,
) -> Format:
    """
    Return a format for one session.

    *in_lines* writes text as whole lines, not word by word; *array* takes the documents of JSON;
    *language* is that of the speech, if the user named it.
    """
    if style == "jsonl":
        return JSONLines(layout.speaker_names)
    # Both come after the words, and only plain text can add translations below them.
    has_both = has_translations and layout.languages == "both"
    if style == "json" or has_speakers or (has_both and style != "text"):
        return Document(style, layout, language, array)
    is_speech = not has_translations or layout.languages == "speech"
    if style == "text" and not in_lines and is_speech:
        return Text(SegmentBuilder(layout=layout, language=language, is_shown=True))
    return Captions(style, SegmentBuilder(layout=layout, language=language))


def _line(event: str, audio_time: float, **fields: Any) -> str:
    record = {"event": event, "audio_time": round_seconds(audio_time)} | fields
    return json_text(record) + "\n"


def json_text(record: dict[str, Any], *, indent: int | None = None) -> str:
    """Return a record as JSON."""
    # Terminal control characters are escaped in JSON too; line breaks in strings already are.
    text = json.dumps(record, ensure_ascii=False, indent=indent)
    return ACTIVE.sub(_escaped_in_json, text)


def _escaped_in_json(match: re.Match[str]) -> str:
    character = match[0]
    return character if character == "\n" else f"\\u{ord(character):04x}"
