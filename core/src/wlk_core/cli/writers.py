"""Results in each format: text that grows with the events of a session, and sound."""

from __future__ import annotations

from collections import Counter
from contextlib import suppress
import itertools
import json
import time
from typing import TYPE_CHECKING, Any, TypeAlias
import wave

import attrs
import numpy as np

from wlk_core.segments import (
    VTT_HEADER,
    SegmentBuilder,
    round_seconds,
    segment_record,
    segments_from_tokens,
    silence_record,
    srt_cue,
    token_record,
    translation_record,
    vtt_cue,
)
from wlk_core.session import Commit, End, HypothesisChange, SilenceSpan, Timeline, Translation
from wlk_core.session.timeline import with_translations
from wlk_core.untrusted import ACTIVE, plain

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from numpy.typing import NDArray

    from wlk_core.cli.outputs import Output
    from wlk_core.config import Settings
    from wlk_core.microphone import Captured
    from wlk_core.processor import StreamStats
    from wlk_core.segments import Segment
    from wlk_core.session import LatencySummary
    from wlk_core.session.events import Event
    from wlk_core.tokens import ASRToken, Silence, TranslatedText

_CUES = {"srt": ("", srt_cue), "vtt": (VTT_HEADER, vtt_cue)}  # the header of a file, and its cues
_MAX_WAV_BYTES = 2**32 - 2**20  # sizes in the header have 32 bits
_FULL_SCALE = 32_768.0


@attrs.define(kw_only=True)
class Outcome:
    """What is known of one recording's session, so far or at its end."""

    file: str  #: as it was named
    settings: Settings
    language: str | None = attrs.field()  #: the language forced, else that of most words
    audio_time: float = 0.0  #: the audio received so far, at the end the duration
    stats: StreamStats | None = None
    latency: LatencySummary | None = None  #: emission latency, known at the end
    wall_seconds: float | None = None  #: how long it took, known at the end
    has_words: bool = False
    incomplete: str | None = None  #: why it was not transcribed to its end, None where it was
    _languages: Counter[str] = attrs.field(factory=Counter)  # words by the language detected
    _began: float = attrs.field(factory=time.perf_counter)

    @language.default
    def _forced(self) -> str | None:
        return self.settings.language

    def add(self, event: Event) -> None:
        """Update it from an event; the last one has the figures of the session."""
        self.audio_time = event.audio_time
        if isinstance(event, End):
            self.stats, self.latency = event.stats, event.latency
            self.wall_seconds = time.perf_counter() - self._began
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

    def figures(self) -> dict[str, Any]:
        """Return the counters, empty where they are not known."""
        return {} if self.stats is None else _rounded(self.stats)


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
        turns = self._builder.push(token) is not None and not self._is_new_line
        text = plain(token.text)
        if turns or self._is_new_line:
            text = text.lstrip()
            if text and token.speaker is not None:
                text = f"{plain(str(token.speaker))}: {text}"
            self._is_new_line = not text
        return f"\n{text}" if turns else text


@attrs.define
class Captions:
    """Captions as `cue` formats them, below `header`, each when it is complete."""

    _cue: Callable[[int, Segment], str]
    _header: str = ""
    _number: int = 0
    _builder: SegmentBuilder = attrs.field(factory=SegmentBuilder)

    def push(self, event: Event) -> str:
        """Return the captions that committed words ended."""
        return "".join(self._text(self._builder.push(token)) for token in committed(event))

    def flush(self, outcome: Outcome) -> str:
        """Return the last caption; without any, the header alone."""
        text = self._text(self._builder.flush())
        return text or (self._header if outcome.incomplete is None and not self._number else "")

    def _text(self, segment: Segment | None) -> str:
        if segment is None:
            return ""
        self._number += 1
        return (self._header if self._number == 1 else "") + self._cue(self._number, segment)


@attrs.define
class Bilingual:
    """Captions as lines of text, and below each its translations as they come."""

    _builder: SegmentBuilder = attrs.field(factory=SegmentBuilder)
    _waiting: list[TranslatedText] = attrs.field(factory=list)
    _end: float = -1.0  # of the last line

    def push(self, event: Event) -> str:
        """Return the captions that committed words ended, and what is translated of them."""
        lines = [self._line(self._builder.push(token)) for token in committed(event)]
        if isinstance(event, Translation):
            self._waiting.append(event.text)
        return "".join([*lines, self._due()])

    def flush(self, _outcome: Outcome) -> str:
        """Return the last caption, and all that waits."""
        return self._line(self._builder.flush()) + self._due()

    def _line(self, segment: Segment | None) -> str:
        if segment is None:
            return ""
        before, self._end = self._due(), segment.end
        speaker = "" if segment.speaker is None else f"{plain(str(segment.speaker))}: "
        return f"{before}{speaker}{plain(segment.text)}\n{self._due()}"

    def _due(self) -> str:
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
            return _line("silence", event.audio_time, **silence_record(event.silence))
        if isinstance(event, Translation):
            return _line("translation", event.audio_time, **translation_record(event.text))
        return ""

    def flush(self, outcome: Outcome) -> str:
        """Return the end, if the recording was transcribed to it."""
        if outcome.wall_seconds is None or outcome.incomplete is not None:
            return ""
        return _line(
            "end",
            outcome.audio_time,
            **outcome.header(),
            latency=None if outcome.latency is None else _rounded(outcome.latency),
            wall_seconds=round_seconds(outcome.wall_seconds),
            stats=outcome.figures(),
        )


@attrs.define
class Document:
    """The whole result at the end, with the speakers and translations that are known by then."""

    _style: str
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
        if self._style == "text":
            text = Bilingual() if translations else Text()
            for each in translations:
                text.push(Translation(each, 0.0))
            return text.push(Commit(tuple(tokens), 0.0)) + text.flush(outcome)
        record = {
            **outcome.header(),
            **({} if outcome.incomplete is None else {"incomplete": outcome.incomplete}),
            "text": "".join(token.text for token in tokens).strip(),
            "tokens": list(map(token_record, tokens)),
            "segments": list(map(segment_record, segments)),
            "silences": list(map(silence_record, self._silences)),
            "stats": outcome.figures(),
        }
        if translations:
            record["translations"] = list(map(translation_record, translations))
        return _json_text(record, indent=2) + "\n"


#: A format: what can be written after an event, and the rest in the end, also after a failure.
Format: TypeAlias = Text | Captions | Bilingual | JSONLines | Document


def new_format(
    style: str,
    *,
    by_line: bool = False,
    has_speakers: bool = False,
    has_translations: bool = False,
) -> Format:
    """Return a format for one session; `by_line` writes text when a caption is complete."""
    if style == "jsonl":
        return JSONLines()
    if style == "text" and has_translations and not has_speakers:
        return Bilingual()
    # Speakers come after the words, so that text with them is written at the end.
    if style == "json" or has_speakers or has_translations:
        return Document(style)
    if style == "text":
        return Captions(lambda _, segment: f"{plain(segment.text)}\n") if by_line else Text()
    header, cue = _CUES[style]
    return Captions(cue, header)


@attrs.define
class Writer:
    """Writes one session's result, in a format, to an output."""

    _format: Format
    _output: Output

    def hear(self, block: Captured) -> None:
        """Text holds no audio."""

    def write(self, event: Event) -> None:
        """Write what an event adds."""
        self._put(self._format.push(event))

    def finish(self, outcome: Outcome) -> None:
        """Write the rest; comes once, also after a failure."""
        self._put(self._format.flush(outcome))
        self._output.close(is_complete=outcome.incomplete is None)

    def _put(self, text: str) -> None:
        if text:  # a transcript that is replaced stays until the new one has words
            self._output.write(text)


class WavFile:
    """The captured audio, 16 bits in one channel; what was not captured is silence."""

    def __init__(self, path: Path, rate: int) -> None:
        self._path = path
        self._rate = rate
        self._bytes = 0
        self._file = open(path, "wb")  # noqa: PTH123, SIM115 -- closed by `finish`
        self._wave = wave.open(self._file)  # noqa: SIM115 -- as above
        self._wave.setparams((1, 2, rate, 0, "NONE", ""))

    def hear(self, block: Captured) -> None:
        """Append audio; the header is valid after each call.  OSError names the file."""
        samples = block.audio if isinstance(block.audio, bytes) else pcm16(block.audio)
        lost = 2 * round(block.lost_seconds * self._rate)
        self._bytes += lost + len(samples)
        if self._bytes > _MAX_WAV_BYTES:
            self.finish()
            raise OSError(f"{self._path} is full: a wav file holds 4 GB; the transcript goes on")
        try:
            for start in range(0, lost, 2 * self._rate):  # a machine may sleep for hours
                self._wave.writeframes(bytes(min(lost - start, 2 * self._rate)))
            self._wave.writeframes(samples)
            self._file.flush()
        except OSError as error:
            with suppress(OSError):
                self.finish()  # what was written so far can be played
            raise OSError(f"cannot write {self._path}: {error.strerror or error}") from error

    def write(self, event: Event) -> None:
        """Sound holds no text."""

    def finish(self, _outcome: Outcome | None = None) -> None:
        """Close the file."""
        self._wave.close()
        self._file.close()


def pcm16(audio: NDArray[np.float32]) -> bytes:
    """Return audio as int16 samples, little-endian."""
    scaled = np.clip(np.round(audio * _FULL_SCALE), -_FULL_SCALE, _FULL_SCALE - 1)
    return scaled.astype("<i2").tobytes()


#: What a run writes to.
Target: TypeAlias = Writer | WavFile


def _line(event: str, audio_time: float, **fields: Any) -> str:
    record = {"event": event, "audio_time": round_seconds(audio_time)} | fields
    return _json_text(record) + "\n"


def _json_text(record: dict[str, Any], *, indent: int | None = None) -> str:
    # Terminal control sequences are escapes in JSON as well.
    text = json.dumps(record, ensure_ascii=False, indent=indent)
    lines = text.split("\n")  # line breaks of JSON's own; those of strings are escapes already
    return "\n".join(ACTIVE.sub(lambda match: f"\\u{ord(match[0]):04x}", line) for line in lines)


def _rounded(record: Any) -> dict[str, Any]:
    fields = attrs.asdict(record).items()
    return {name: round(value, 4) if isinstance(value, float) else value for name, value in fields}
