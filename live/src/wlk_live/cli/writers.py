"""Write the events of a session as results in each format, and show them in a live view."""

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

from wlk_core.untrusted import ACTIVE, plain, printable
from wlk_live.captions.line_breaks import column_count
from wlk_live.captions.segments import (
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

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from wlk_core.processor import StreamStats
    from wlk_core.tokens import ASRToken, Silence, TranslatedText
    from wlk_live.captions.segments import Segment
    from wlk_live.config import Settings
    from wlk_live.microphone import Captured
    from wlk_live.session.events import Event


@attrs.define(kw_only=True)
class Outcome:
    """What is known of one recording's session, so far or at its end."""

    file: str  #: as the user named it
    settings: Settings
    language: str | None  #: the one requested, else the one detected for most words
    audio_time: float = 0.0  #: seconds of audio received so far, at the end the duration
    stats: StreamStats | None = None
    end: End | None = None
    has_words: bool = False
    incomplete: str | None = None  #: why it was not transcribed to its end, None if it was
    _languages: Counter[str] = attrs.field(factory=Counter)  # words by detected language
    started: float = attrs.field(factory=time.perf_counter)

    def add(self, event: Event) -> None:
        """Update the fields from an event."""
        self.audio_time = event.audio_time
        if isinstance(event, End):
            self.end, self.stats = event, event.stats
        for token in committed(event):
            self.has_words = True
            if token.detected_language:
                self._languages[token.detected_language] += 1
                self.language = self._languages.most_common(1)[0][0]

    def header(self) -> dict[str, Any]:
        """Return the fields that identify a result."""
        return {
            "file": self.file,
            "backend": self.settings.spec.name,
            "model": self.settings.model,
            "language": self.language,
            "duration": round_seconds(self.audio_time),
        }


def committed(event: Event) -> tuple[ASRToken, ...]:
    """Return the tokens of a commit, none for any other event."""
    return event.tokens if isinstance(event, Commit) else ()


@attrs.define
class Text:
    """Words as they are committed, one line per caption, each beginning with its speaker."""

    _builder: SegmentBuilder = attrs.field(factory=SegmentBuilder)
    _is_new_line: bool = True

    def push(self, event: Event) -> str:
        """Return the committed words."""
        return "".join(map(self._spaced, committed(event)))

    def flush(self, _outcome: Outcome) -> str:
        """Return the line break that ends the last line."""
        return "" if self._is_new_line else "\n"

    def _spaced(self, token: ASRToken) -> str:
        # A caption ends when the token after it comes.
        ends_line = self._builder.push(token) is not None and not self._is_new_line
        text = plain(token.text)
        if ends_line or self._is_new_line:
            text = text.lstrip()
            if text and token.speaker is not None:
                text = f"{plain(str(token.speaker))}: {text}"
            self._is_new_line = not text
        return f"\n{text}" if ends_line else text


# The header of each style and the function that formats a caption.
_CUES = {"text": ("", text_cue), "srt": ("", srt_cue), "vtt": (VTT_HEADER, vtt_cue)}


@attrs.define
class Captions:
    """Captions as they end, in plain text also at the end of an utterance; translations below."""

    _style: str
    _number: int = 0
    _builder: SegmentBuilder = attrs.field(factory=SegmentBuilder)
    _waiting: list[TranslatedText] = attrs.field(factory=list)
    _end: float = -1.0  # stream time of the end of the last caption

    def push(self, event: Event) -> str:
        """Return the captions that an event ended, and their translations so far."""
        text = "".join(self._caption(self._builder.push(token)) for token in committed(event))
        if isinstance(event, Endpoint) and event.reason != "end" and self._style == "text":
            text += self._caption(self._builder.flush())
        elif isinstance(event, Translation):
            self._waiting.append(event.text)
        return text + self._translated()

    def flush(self, outcome: Outcome) -> str:
        """Return the last caption and its translations; if there are no captions, the header."""
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
    """Each event as one line of JSON; the last is an "end" event with the session's statistics."""

    def push(self, event: Event) -> str:
        """Return the line of an event, "" for events that have none."""
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
        """Return the "end" event if the recording was transcribed to its end."""
        if outcome.end is None or outcome.incomplete is not None:
            return ""
        return _line(
            "end",
            outcome.audio_time,
            **outcome.header(),
            latency=outcome.end.latency and _rounded(outcome.end.latency),
            wall_seconds=round_seconds(time.perf_counter() - outcome.started),
            stats=_rounded(outcome.stats),
        )


@attrs.define
class Document:
    """The whole result at the end, with the speakers and translations known by then."""

    _style: str
    _separators: Iterator[str] | None = None  # precede the objects of a JSON array
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


#: `push` returns what can be written after an event, `flush` the rest, also after a failure.
Format: TypeAlias = Text | Captions | JSONLines | Document


def new_format(
    style: str,
    *,
    has_speakers: bool,
    has_translations: bool,
    in_lines: bool = False,
    separators: Iterator[str] | None = None,
) -> Format:
    """Return a format for one session; *in_lines* writes text as whole lines, not word by word."""
    if style == "jsonl":
        return JSONLines()
    # Both come after the words, and only plain text can add translations below them.
    if style == "json" or has_speakers or (has_translations and style != "text"):
        return Document(style, separators)
    return Text() if style == "text" and not (in_lines or has_translations) else Captions(style)


class LiveView:
    """The last line of a terminal, redrawn in place on standard error; nothing elsewhere."""

    def __init__(self) -> None:
        self.screen = sys.stdout  #: taken before what plugins print is redirected

    def begin(self, title: str, duration: float | None) -> None:
        """Begin another recording."""
        length = "" if duration is None else f" of {timedelta(seconds=int(duration))}"
        self._title, self._speaker = f"{length}  {title}", ""
        self._captions = SegmentBuilder()
        self._hypothesis = ""

    def show(self, event: Event) -> None:
        """Draw the position after an event and as many of the newest words as fit into the line."""
        for token in committed(event):
            self._captions.push(token)
            self._hypothesis = ""  # until the HypothesisChange with what is left of it
        if isinstance(event, HypothesisChange):
            self._hypothesis = plain(event.transcript.text)
        elif isinstance(event, Endpoint):
            self._captions.flush()  # the last line of the utterance has been printed
        elif isinstance(event, SpeakerTurn):
            self._speaker = f"  {event.span.speaker}"
        clock = timedelta(seconds=int(event.audio_time))
        position = printable(f"{clock}{self._title}{self._speaker}")
        room = shutil.get_terminal_size().columns - column_count(position) - 3
        words = f"{plain(self._captions.text)}{self._hypothesis}".lstrip()[-room:]
        while words and column_count(words) > room:  # some characters take two columns
            words = words[1:]
        final = max(0, len(words) - len(self._hypothesis))
        self.draw(f"{position}  {words[:final]}{click.style(words[final:], dim=True)}")

    def draw(self, text: str) -> None:
        """Draw a line in place of the last one."""
        if sys.stderr.isatty():  # the last \r puts what others print at the beginning of the line
            click.echo(f"\r\x1b[K{text}\r", nl=False, err=True)

    def hide(self) -> None:
        """Clear the line for text on the same terminal; the next event draws it again."""
        self.draw("")


class Output:
    """A result that is written to standard output above *view*, or to a file, device or pipe."""

    def __init__(self, form: Format, view: LiveView, path: Path | None = None) -> None:
        self._form, self._view, self._path = form, view, path
        self._stream = None if path else view.screen

    def add_audio(self, block: Captured) -> None:
        """Ignore audio."""

    def add_event(self, event: Event) -> None:
        """Write what an event adds."""
        if text := self._form.push(event):  # an existing file is kept until there are words
            self.write(text)

    def finish(self, outcome: Outcome) -> None:
        """Write the rest and close the file; called once, also after a failure."""
        if text := self._form.flush(outcome):
            self.write(text)
        if self._path and not self._stream and outcome.incomplete is None:
            self.write("")  # only a complete result without text empties an existing file
        self._close()

    def write(self, text: str) -> None:
        """Write and flush; OSError names the output."""
        if not self._path:
            self._view.hide()
        # A file is opened for its first text and flushed after each, so that `tail -f` shows it and
        # a kill does not lose it.  What is not valid Unicode is escaped as in JSON.
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
            with suppress(OSError):  # such as a full disk, which was reported
                self._stream.close()


class WavFile:
    """A wav file of the captured audio, mono at 16 bits; what was not captured is silence."""

    def __init__(self, path: Path, rate: int) -> None:
        self._path, self._rate = path, rate
        self._file = path.open("wb")
        self._wave = wave.open(self._file)  # noqa: SIM115 -- closed by `finish`
        self._wave.setparams((1, 2, rate, 0, "NONE", ""))

    def add_audio(self, block: Captured) -> None:
        """Append audio; the file is valid after each call.  OSError names the file."""
        try:
            for piece in block.pcm(self._rate):
                self._wave.writeframes(piece)
            self._file.flush()
        except (OSError, struct.error) as error:  # the header stores the length in 32 bits
            with suppress(OSError, struct.error):
                self.finish()  # what was written so far can still be played
            reason = getattr(error, "strerror", None) or "a wav file holds 4 GB"
            raise OSError(f"cannot write {self._path}: {reason}") from error

    def add_event(self, event: Event) -> None:
        """Ignore events."""

    def finish(self, _outcome: Outcome | None = None) -> None:
        """Close the file."""
        with self._file:
            self._wave.close()


def _line(event: str, audio_time: float, **fields: Any) -> str:
    record = {"event": event, "audio_time": round_seconds(audio_time)} | fields
    return _json_text(record) + "\n"


def _json_text(record: dict[str, Any], *, indent: int | None = None) -> str:
    # Terminal control characters are escaped in JSON too; line breaks in strings already are.
    text = json.dumps(record, ensure_ascii=False, indent=indent)
    return ACTIVE.sub(lambda c: c[0] if c[0] == "\n" else f"\\u{ord(c[0]):04x}", text)


def _rounded(record: Any) -> dict[str, Any]:
    fields = attrs.asdict(record).items()
    return {name: round(value, 4) if isinstance(value, float) else value for name, value in fields}
