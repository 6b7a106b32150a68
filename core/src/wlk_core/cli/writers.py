"""What the events of a session become: results in each format, their files, and the live view."""

from __future__ import annotations

from collections import Counter
from contextlib import suppress
from datetime import timedelta
import itertools
import json
import shutil
import struct
import sys
import time
from typing import TYPE_CHECKING, Any, TypeAlias
import wave

import attrs
import click

from wlk_core._line_breaks import column_count
from wlk_core.segments import (
    VTT_HEADER,
    SegmentBuilder,
    round_seconds,
    segment_record,
    segments_from_tokens,
    span_record,
    srt_cue,
    text_cue,
    token_record,
    translation_record,
    vtt_cue,
)
from wlk_core.session import (
    Commit,
    End,
    Endpoint,
    HypothesisChange,
    SilenceSpan,
    SpeakerTurn,
    Translation,
)
from wlk_core.session.timeline import Timeline, with_translations
from wlk_core.untrusted import ACTIVE, plain, printable

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from wlk_core.config import Settings
    from wlk_core.microphone import Captured
    from wlk_core.processor import StreamStats
    from wlk_core.segments import Segment
    from wlk_core.session.events import Event
    from wlk_core.tokens import ASRToken, Silence, TranslatedText


@attrs.define(kw_only=True)
class Outcome:
    """What is known of one recording's session, so far or at its end."""

    file: str  #: as it was named
    settings: Settings
    language: str | None  #: the language forced, else that of most words
    audio_time: float = 0.0  #: the audio received so far, at the end the duration
    stats: StreamStats | None = None
    end: End | None = None
    has_words: bool = False
    incomplete: str | None = None  #: why it was not transcribed to its end, None where it was
    _languages: Counter[str] = attrs.field(factory=Counter)  # words by the language detected
    began: float = attrs.field(factory=time.perf_counter)

    def add(self, event: Event) -> None:
        """Update it from an event; the last one has the figures of the session."""
        self.audio_time = event.audio_time
        if isinstance(event, End):
            self.end, self.stats = event, event.stats
        for token in committed(event):
            self.has_words = True
            if token.detected_language:
                self._languages[token.detected_language] += 1
                self.language = self._languages.most_common(1)[0][0]

    def header(self) -> dict[str, Any]:
        """Return the fields that name a result."""
        return {
            "file": self.file,
            "backend": self.settings.spec.name,
            "model": self.settings.model,
            "language": self.language,
            "duration": round_seconds(self.audio_time),
        }


def committed(event: Event) -> tuple[ASRToken, ...]:
    """Return the tokens of a commit, none of another event."""
    return event.tokens if isinstance(event, Commit) else ()


@attrs.define
class Text:
    """Words as they are committed, a line for each caption, which begins with its speaker."""

    _builder: SegmentBuilder = attrs.field(factory=SegmentBuilder)
    _is_new_line: bool = True

    def push(self, event: Event) -> str:
        """Return the committed words."""
        return "".join(map(self._spaced, committed(event)))

    def flush(self, _outcome: Outcome) -> str:
        """Return the end of the last line."""
        return "" if self._is_new_line else "\n"

    def _spaced(self, token: ASRToken) -> str:
        # The token after a caption tells that it has ended.
        turns = self._builder.push(token) is not None and not self._is_new_line
        text = plain(token.text)
        if turns or self._is_new_line:
            text = text.lstrip()
            if text and token.speaker is not None:
                text = f"{plain(str(token.speaker))}: {text}"
            self._is_new_line = not text
        return f"\n{text}" if turns else text


_CUES = {"text": ("", text_cue), "srt": ("", srt_cue), "vtt": (VTT_HEADER, vtt_cue)}  # and headers


@attrs.define
class Captions:
    """Captions as they end, those of text with an utterance too; translations stand below."""

    _style: str
    _number: int = 0
    _builder: SegmentBuilder = attrs.field(factory=SegmentBuilder)
    _waiting: list[TranslatedText] = attrs.field(factory=list)
    _end: float = -1.0  # of the last caption

    def push(self, event: Event) -> str:
        """Return the captions that an event ended, and what is translated of them."""
        text = "".join(self._caption(self._builder.push(token)) for token in committed(event))
        if isinstance(event, Endpoint) and event.reason != "end" and self._style == "text":
            text += self._caption(self._builder.flush())
        elif isinstance(event, Translation):
            self._waiting.append(event.text)
        return text + self._translated()

    def flush(self, outcome: Outcome) -> str:
        """Return the last caption, and all that waits; without any, the header alone."""
        text = self._caption(self._builder.flush()) + self._translated()
        is_empty = outcome.incomplete is None and not self._number
        return _CUES[self._style][0] if is_empty else text

    def _caption(self, segment: Segment | None) -> str:
        if segment is None:
            return ""
        before, self._end = self._translated(), segment.end
        self._number += 1
        header, cue = _CUES[self._style]
        return before + (header if self._number == 1 else "") + cue(self._number, segment)

    def _translated(self) -> str:
        due = [text for text in self._waiting if text.start < self._end]
        self._waiting = self._waiting[len(due) :]
        return "".join(f"  {plain(text.text)}\n" for text in due)


class JSONLines:
    """Each event as one line of JSON, an "end" event with the figures of the session last."""

    def push(self, event: Event) -> str:
        """Return the line of an event that has one."""
        if isinstance(event, Commit):
            return _line("commit", event.audio_time, tokens=list(map(token_record, event.tokens)))
        if isinstance(event, HypothesisChange):
            text, tokens = event.transcript.text, list(map(token_record, event.transcript.tokens))
            return _line("hypothesis", event.audio_time, text=text, tokens=tokens)
        if isinstance(event, SilenceSpan):
            return _line("silence", event.audio_time, **span_record(event.silence))
        if isinstance(event, Translation):
            return _line("translation", event.audio_time, **translation_record(event.text))
        return ""

    def flush(self, outcome: Outcome) -> str:
        """Return the end, if the recording was transcribed to it."""
        if outcome.end is None or outcome.incomplete is not None:
            return ""
        return _line(
            "end",
            outcome.audio_time,
            **outcome.header(),
            latency=outcome.end.latency and _rounded(outcome.end.latency),
            wall_seconds=round_seconds(time.perf_counter() - outcome.began),
            stats=_rounded(outcome.stats),
        )


@attrs.define
class Document:
    """The whole result at the end, with the speakers and translations that are known by then."""

    _style: str
    _separators: Iterator[str] | None = None  # what stands before each object of an array
    _timeline: Timeline = attrs.field(factory=Timeline)
    _silences: list[Silence] = attrs.field(factory=list)

    def push(self, event: Event) -> str:
        """Return nothing yet."""
        self._timeline.add(event)
        if isinstance(event, SilenceSpan):
            self._silences.append(event.silence)
        return ""

    def flush(self, outcome: Outcome) -> str:
        """Return the document, unless there are no words because of a failure."""
        if outcome.incomplete is not None and not outcome.has_words:
            return ""
        tokens, translations = self._timeline.tokens, self._timeline.translations
        segments = with_translations(segments_from_tokens(tokens), translations)
        if self._style in _CUES:
            header, cue = _CUES[self._style]
            return header + "".join(map(cue, itertools.count(1), segments))
        record = {
            **outcome.header(),
            **({} if outcome.incomplete is None else {"incomplete": outcome.incomplete}),
            "text": "".join(token.text for token in tokens).strip(),
            "tokens": list(map(token_record, tokens)),
            "segments": list(map(segment_record, segments)),
            "silences": list(map(span_record, self._silences)),
            "stats": _rounded(outcome.stats),
        }
        if translations:
            record["translations"] = list(map(translation_record, translations))
        text = _json_text(record, indent=2)
        return f"{text}\n" if self._separators is None else next(self._separators) + text


#: A format: what can be written after an event, and the rest in the end, also after a failure.
Format: TypeAlias = Text | Captions | JSONLines | Document


def new_format(
    style: str,
    *,
    has_speakers: bool,
    has_translations: bool,
    in_lines: bool = False,
    separators: Iterator[str] | None = None,
) -> Format:
    """Return a format for one session; text comes in whole lines where the live view has words."""
    if style == "jsonl":
        return JSONLines()
    # Both come after the words, and text alone can have translations below them.
    if style == "json" or has_speakers or (has_translations and style != "text"):
        return Document(style, separators)
    return Text() if style == "text" and not (in_lines or has_translations) else Captions(style)


class LiveView:
    """The last line of a terminal, redrawn in place on standard error; nothing elsewhere."""

    def __init__(self) -> None:
        self.screen = sys.stdout  #: as it is now, before prints of plugins are redirected

    def begin(self, title: str, duration: float | None) -> None:
        """Begin another recording."""
        length = "" if duration is None else f" of {timedelta(seconds=int(duration))}"
        self._title, self._speaker = f"{length}  {title}", ""
        self._captions = SegmentBuilder()
        self._hypothesis = ""

    def show(self, event: Event) -> None:
        """Draw an event: the position, and as many of the newest words as fit into a line."""
        for token in committed(event):
            self._captions.push(token)
            self._hypothesis = ""  # until the event with what is left of it
        if isinstance(event, HypothesisChange):
            self._hypothesis = plain(event.transcript.text)
        elif isinstance(event, Endpoint):
            self._captions.flush()  # its last line is printed
        elif isinstance(event, SpeakerTurn):
            self._speaker = f"  {event.span.speaker}"
        clock = timedelta(seconds=int(event.audio_time))
        position = printable(f"{clock}{self._title}{self._speaker}")
        room = shutil.get_terminal_size().columns - column_count(position) - 3
        words = f"{plain(self._captions.text)}{self._hypothesis}".lstrip()[-room:]
        while words and column_count(words) > room:  # some characters are wide
            words = words[1:]
        final = max(0, len(words) - len(self._hypothesis))
        self.draw(f"{position}  {words[:final]}{click.style(words[final:], dim=True)}")

    def draw(self, text: str) -> None:
        """Draw a line in place of the last one."""
        if sys.stderr.isatty():  # \r: what others print stands at the beginning of the line
            click.echo(f"\r\x1b[K{text}\r", nl=False, err=True)

    def hide(self) -> None:
        """Clear the line for text on the same terminal; the next event draws again."""
        self.draw("")


class Output:
    """A result on standard output above *view*, or in a file, device or pipe to be followed."""

    def __init__(self, form: Format, view: LiveView, path: Path | None = None) -> None:
        self._form, self._view, self._path = form, view, path
        self._stream = None if path else view.screen

    def hear(self, block: Captured) -> None:
        """Text has no sound."""

    def add(self, event: Event) -> None:
        """Write what an event adds."""
        if text := self._form.push(event):  # what is replaced stays until there are words
            self.write(text)

    def finish(self, outcome: Outcome) -> None:
        """Write the rest and close a file; comes once, also after a failure."""
        if text := self._form.flush(outcome):
            self.write(text)
        if self._path and not self._stream and outcome.incomplete is None:
            self.write("")  # only a complete result without text empties what was there before
        self._close()

    def write(self, text: str) -> None:
        """Write and flush; OSError names the output."""
        if not self._path:
            self._view.hide()
        # A file is opened with its first text and flushed after each: `tail -f` and a power cut
        # find all that was written.  Of what is not Unicode, such as a file name, the escape is
        # what JSON has too.
        try:
            if self._path and not self._stream:
                self._stream = self._path.open("w", encoding="utf-8", errors="backslashreplace")
            if self._stream:
                self._stream.write(text)
                self._stream.flush()
        except OSError as error:
            if self._path is None and isinstance(error, BrokenPipeError):
                raise
            self._close()
            name = self._path or "standard output"
            raise OSError(f"cannot write {name}: {error.strerror or error}") from error

    def _close(self) -> None:
        if self._path and self._stream:
            with suppress(OSError):  # of a disk that is full; the failure was reported
                self._stream.close()


class WavFile:
    """The captured audio, 16 bits in one channel; what was not captured is silence."""

    def __init__(self, path: Path, rate: int) -> None:
        self._path, self._rate = path, rate
        self._file = path.open("wb")
        self._wave = wave.open(self._file)  # noqa: SIM115 -- closed by `finish`
        self._wave.setparams((1, 2, rate, 0, "NONE", ""))

    def hear(self, block: Captured) -> None:
        """Append audio; the file is whole after each call.  OSError names it."""
        try:
            for piece in block.pcm(self._rate):
                self._wave.writeframes(piece)
            self._file.flush()
        except (OSError, struct.error) as error:  # the length in the header has 32 bits
            with suppress(OSError, struct.error):
                self.finish()  # what was written so far can be played
            reason = getattr(error, "strerror", None) or "a wav file holds 4 GB"
            raise OSError(f"cannot write {self._path}: {reason}") from error

    def add(self, event: Event) -> None:
        """Sound has no text."""

    def finish(self, _outcome: Outcome | None = None) -> None:
        """Close the file."""
        with self._file:
            self._wave.close()


def _line(event: str, audio_time: float, **fields: Any) -> str:
    record = {"event": event, "audio_time": round_seconds(audio_time)} | fields
    return _json_text(record) + "\n"


def _json_text(record: dict[str, Any], *, indent: int | None = None) -> str:
    # Terminal control sequences are escapes in JSON as well; line breaks in strings already are.
    text = json.dumps(record, ensure_ascii=False, indent=indent)
    return ACTIVE.sub(lambda c: c[0] if c[0] == "\n" else f"\\u{ord(c[0]):04x}", text)


def _rounded(record: Any) -> dict[str, Any]:
    fields = attrs.asdict(record).items()
    return {name: round(value, 4) if isinstance(value, float) else value for name, value in fields}
