"""An endpoint's verbose_json response: strict parsing, and words with times."""

from __future__ import annotations

import math
import reprlib
from typing import Any

import attrs

from wlk_core.plugins import Word
from wlk_core.untrusted import JSONLimitError, parse_limited_json
from wlk_whisper.openai_api.call_limits import MAX_ANSWER_BYTES
from wlk_whisper.openai_api.clean_text import clean
from wlk_whisper.openai_api.language_names import language_code
from wlk_whisper.openai_api.spelling import divide_text, with_leading_space
from wlk_whisper.openai_api.time_order import TimeOrderError, in_order

__all__ = ["ResponseError", "ResponseSegment", "ResponseWord", "TranscriptionResponse"]

NO_SPEECH_THRESHOLD = 0.9  # a segment whose probability of no speech is above it is dropped
MAX_QUOTED = 60  # characters of a response that an error message quotes
# No request has more than 30 s of audio, and Whisper emits at most 224 tokens for them.
MAX_AUDIO_SECONDS = 30.0
MAX_WORDS = 1000
MAX_CHARACTERS = 20_000  # of the text, of all segments and of all words


class ResponseError(ValueError):
    """
    The endpoint's response is not the requested one; the message quotes it.

    `is_damaged` is true where the response may have been cut off in transit.
    """

    def __init__(self, message: str, *, is_damaged: bool = False) -> None:
        super().__init__(message)
        self.is_damaged = is_damaged


@attrs.frozen(kw_only=True)
class ResponseWord:
    """A bare word and its times in seconds of the audio sent."""

    text: str
    start: float
    end: float


@attrs.frozen(kw_only=True)
class ResponseSegment:
    """A segment of text, its times in seconds and its probability of no speech."""

    text: str
    start: float
    end: float
    no_speech_prob: float = 0.0

    @property
    def is_speech(self) -> bool:
        """Whether the segment is kept."""
        return self.no_speech_prob <= NO_SPEECH_THRESHOLD


@attrs.frozen(kw_only=True)
class TranscriptionResponse:
    """
    A transcript with its times.

    `words` is None where the response has no list of words; `language` is a code, None where the
    response names no language of Whisper.
    """

    text: str = ""
    words: tuple[ResponseWord, ...] | None = None
    segments: tuple[ResponseSegment, ...] = ()
    language: str | None = None

    @classmethod
    def parse(
        cls,
        body: str,
        *,
        content_type: str = "application/json",
        audio_seconds: float = MAX_AUDIO_SECONDS,
    ) -> TranscriptionResponse:
        """
        Parse the body of a verbose_json response to *audio_seconds* of audio.

        Words are read from `words`, or from the segments, where some servers put them.  Text comes
        without control characters, and times in order and within the audio; see `clean` and
        `in_order`.

        Raises:
            ResponseError: the body is not such a response, or more than such audio can contain.

        """
        table = _parse_json(body, content_type)
        if not isinstance(table.get("text"), str):
            raise ResponseError(f"expected a JSON object with a text, got {_quote(body)}")
        text = _text(table, "text")
        rows = _rows(table, "segments")
        segments = tuple(
            ResponseSegment(
                text=_text(row, "text"),
                start=_seconds(row, "start"),
                end=_seconds(row, "end"),
                no_speech_prob=_probability(row.get("no_speech_prob")),
            )
            for row in rows
        )
        nested = [word for row in rows for word in _rows(row, "words")]
        has_words = table.get("words") is not None or any("words" in row for row in rows)
        words = tuple(
            ResponseWord(
                text=_text(row, "word"), start=_seconds(row, "start"), end=_seconds(row, "end")
            )
            for row in _rows(table, "words") or nested
        )
        _check_length("text", [text])
        _check_length("segments", [segment.text for segment in segments])
        _check_length("words", [word.text for word in words])
        try:
            segments = in_order(segments, audio_seconds=audio_seconds)
            words = in_order(words, audio_seconds=audio_seconds)
        except TimeOrderError as error:
            raise ResponseError(f"{error}; choose another server or model") from error
        language = table.get("language")
        return cls(
            text=text,
            words=words if has_words else None,
            segments=segments,
            language=language_code(language) if isinstance(language, str) else None,
        )

    def timed_words(self) -> tuple[Word, ...]:
        """
        Return the words of the transcript, spelled as in its text.

        Raises:
            ResponseError: the text contains speech, and its words have no times.

        """
        parts = self._parts()
        speech = "".join(part.text for part in parts if part.is_speech)
        if not speech:  # some servers give no word times for what is dropped here
            return ()
        if not self.words:
            if any(map(str.isalnum, speech)):
                raise ResponseError(
                    f"expected the times of the words (timestamp_granularities), got the text "
                    f"{_quote(speech.strip())} without `words`; choose a server and a model with "
                    "word times: --option base_url=URL --model NAME"
                )
            return ()
        pieces = divide_text(
            [word.text for word in self.words], "".join(part.text for part in parts)
        )
        if not pieces:  # the text has other words, and only these have times
            return tuple(
                Word(word.start, word.end, with_leading_space(word.text))
                for word in self.words
                if word.text.strip()
            )
        part_stops = iter(_part_stops(parts))
        stop, is_speech = next(part_stops)
        words: list[Word] = []
        for piece in pieces:
            while piece.position >= stop:
                stop, is_speech = next(part_stops)
            if is_speech:
                word = self.words[piece.index]
                words.append(Word(word.start, word.end, piece.text))
        return tuple(words)

    def timed_segments(self) -> tuple[Word, ...]:
        """
        Return each segment as one piece of text, for responses without word times.

        Raises:
            ResponseError: there is text without segments.

        """
        if any(map(str.isalnum, self.text)) and not self.segments:
            raise ResponseError(
                f"expected verbose_json with segments, got the text {_quote(self.text)} alone"
            )
        return tuple(
            Word(part.start, part.end, part.text)
            for part in self._parts()
            if part.text.strip() and part.is_speech
        )

    def _parts(self) -> tuple[ResponseSegment, ...]:
        """Return the segments with their spaces; the whole text where there are none."""
        parts = self.segments
        if not any(part.text.strip() for part in parts):
            parts = (ResponseSegment(text=self.text, start=0.0, end=0.0),)
        return tuple(
            part  # as Whisper wrote it
            if part.text[:1] == " "
            else attrs.evolve(part, text=with_leading_space(part.text))
            for part in parts
        )


def _part_stops(parts: tuple[ResponseSegment, ...]) -> list[tuple[int, bool]]:
    """Return where each part ends in the joined text, and whether it is speech."""
    stops: list[tuple[int, bool]] = []
    stop = 0
    for part in parts:
        stop += len(part.text)
        stops.append((stop, part.is_speech))
    return stops


def _parse_json(body: str, content_type: str) -> dict[str, Any]:
    if "html" in content_type or body.lstrip()[:1] == "<":
        raise ResponseError(
            f"expected JSON, got a page of HTML: {_quote(body)}; check that base_url is the part "
            "before /audio/transcriptions and that no proxy answers instead"
        )
    try:
        table = parse_limited_json(body.encode("utf-8", "replace"), max_bytes=MAX_ANSWER_BYTES)
    except JSONLimitError as error:
        raise ResponseError(
            f"expected verbose_json, got {error}; choose another server or model"
        ) from error
    except ValueError:
        raise ResponseError(
            f"expected JSON, got {_quote(body)}; no audio is lost, try again later", is_damaged=True
        ) from None
    if not isinstance(table, dict):
        raise ResponseError(f"expected a JSON object, got {_quote(body)}")
    return table


def _rows(table: dict[str, Any], name: str) -> list[dict[str, Any]]:
    rows = table.get(name)
    if rows is None:
        return []
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise ResponseError(f"expected {name} to be a list of objects, got {_shown(rows)}")
    return rows


def _check_length(name: str, texts: list[str]) -> None:
    """Refuse more than 30 s of audio can contain, because other steps take more than its bytes."""
    characters = sum(map(len, texts))
    if len(texts) > MAX_WORDS or characters > MAX_CHARACTERS:
        raise ResponseError(
            f"expected {name} of at most {MAX_WORDS} items and {MAX_CHARACTERS} characters, got "
            f"{len(texts)} and {characters}; choose another server or model"
        )


def _text(row: dict[str, Any], name: str) -> str:
    text = row.get(name)
    if not isinstance(text, str):
        raise ResponseError(f"expected {name} to be text, in {_shown(row)}")
    return clean(text)


def _seconds(row: dict[str, Any], name: str) -> float:
    value = row.get(name)
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise ResponseError(f"expected {name} in seconds, in {_shown(row)}")
    return max(0.0, float(value))


def _probability(value: object) -> float:
    """Return a probability; 0 for what is no number."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return 0.0
    return float(value) if math.isfinite(value) else 0.0


def _shown(value: object) -> str:
    """Return the beginning of a value of JSON, however large it is."""
    return _quote(reprlib.repr(value))


def _quote(text: str) -> str:
    """Return the beginning of *text* on one line, in quotes."""
    line = " ".join(text[: 10 * MAX_QUOTED].split())
    return repr(line if len(line) <= MAX_QUOTED else f"{line[:MAX_QUOTED]}...")
