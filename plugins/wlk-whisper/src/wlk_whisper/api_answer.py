"""What an endpoint answers (verbose_json), read strictly and turned into timed words."""

from __future__ import annotations

import json
import math
import re
from typing import Any

import attrs

from wlk_core.streaming import Word
from wlk_whisper.language_names import language_code
from wlk_whisper.spelling import spell, with_leading_space

__all__ = ["Answer", "AnswerError", "Segment", "Spoken"]

NO_SPEECH = 0.9  # probability of no speech above which a segment is dropped (scope A07)
SHOWN = 60  # characters of an answer that an error shows


class AnswerError(ValueError):
    """
    The endpoint answered, and not what was asked for; the message says what came.

    `is_damaged` is true where the answer may have been cut off on its way.
    """

    def __init__(self, message: str, *, is_damaged: bool = False) -> None:
        super().__init__(message)
        self.is_damaged = is_damaged


@attrs.frozen(kw_only=True)
class Spoken:
    """A bare word and its place in seconds of the audio sent."""

    text: str
    start: float
    end: float


@attrs.frozen(kw_only=True)
class Segment:
    """A stretch of text, its place in seconds and how likely it is none."""

    text: str
    start: float
    end: float
    no_speech: float = 0.0

    @property
    def is_speech(self) -> bool:
        """Whether it is kept."""
        return self.no_speech <= NO_SPEECH


@attrs.frozen(kw_only=True)
class Answer:
    """
    A transcript with the times that came with it.

    `words` is None where the endpoint gave none at all; `language` is a code, None where it named
    none that Whisper knows.
    """

    text: str = ""
    words: tuple[Spoken, ...] | None = None
    segments: tuple[Segment, ...] = ()
    language: str | None = None

    @classmethod
    def read(cls, body: str, *, content_type: str = "application/json") -> Answer:
        """
        Return what the body of a verbose_json answer says.

        Words are read from `words`, or from the segments, where some servers put them.

        Raises:
            AnswerError: it is no such answer.

        """
        given = _parsed(body, content_type)
        if not isinstance(given.get("text"), str):
            raise AnswerError(f"expected a JSON object with a text, got {_shown(body)}")
        text = _text(given, "text")
        rows = _rows(given, "segments")
        segments = tuple(
            Segment(
                text=_text(row, "text"),
                start=_seconds(row, "start"),
                end=_seconds(row, "end"),
                no_speech=_share(row.get("no_speech_prob")),
            )
            for row in rows
        )
        nested = [word for row in rows for word in _rows(row, "words")]
        has_words = given.get("words") is not None or any("words" in row for row in rows)
        spoken = tuple(
            Spoken(text=_text(row, "word"), start=_seconds(row, "start"), end=_seconds(row, "end"))
            for row in _rows(given, "words") or nested
        )
        language = given.get("language")
        return cls(
            text=text,
            words=spoken if has_words else None,
            segments=segments,
            language=language_code(language) if isinstance(language, str) else None,
        )

    def timed_words(self) -> tuple[Word, ...]:
        """
        Return the words of the transcript, spelt as its text spells them.

        Raises:
            AnswerError: there is text that is speech, and its words have no times.

        """
        parts = self._parts()
        said = "".join(part.text for part in parts if part.is_speech)
        if not said:  # what is dropped below needs no times, and some servers give it none
            return ()
        if not self.words:
            if any(map(str.isalnum, said)):
                raise AnswerError(
                    f"asked for the times of the words (timestamp_granularities), got the text "
                    f"{_shown(said.strip())} without `words`; choose a server and a model that "
                    "give them, with --option base_url=URL and --model NAME"
                )
            return ()
        spelt = spell([word.text for word in self.words], "".join(part.text for part in parts))
        if not spelt:  # the words are other ones than the text's: theirs are the times
            return tuple(
                Word(word.start, word.end, with_leading_space(word.text))
                for word in self.words
                if word.text.strip()
            )
        heard = iter(_ends(parts))
        behind, is_speech = next(heard)
        words: list[Word] = []
        for piece in spelt:
            while piece.position >= behind:
                behind, is_speech = next(heard)
            if is_speech:
                word = self.words[piece.index]
                words.append(Word(word.start, word.end, piece.text))
        return tuple(words)

    def timed_segments(self) -> tuple[Word, ...]:
        """
        Return each segment as one piece of text, where no times of words are to be had.

        Raises:
            AnswerError: there is text, and no segments.

        """
        if any(map(str.isalnum, self.text)) and not self.segments:
            raise AnswerError(
                f"expected verbose_json with segments, got the text {_shown(self.text)} alone"
            )
        return tuple(
            Word(part.start, part.end, part.text)
            for part in self._parts()
            if part.text.strip() and part.is_speech
        )

    def _parts(self) -> tuple[Segment, ...]:
        """Return the segments with their spaces; the text as one where there are none."""
        parts = self.segments
        if not any(part.text.strip() for part in parts):
            parts = (Segment(text=self.text, start=0.0, end=0.0),)
        return tuple(
            part  # as Whisper wrote it
            if part.text[:1] == " "
            else attrs.evolve(part, text=with_leading_space(part.text))
            for part in parts
        )


def _ends(parts: tuple[Segment, ...]) -> list[tuple[int, bool]]:
    """Return where each part ends in the joined text, and whether it is speech."""
    ends: list[tuple[int, bool]] = []
    place = 0
    for part in parts:
        place += len(part.text)
        ends.append((place, part.is_speech))
    return ends


def _parsed(body: str, content_type: str) -> dict[str, Any]:
    if "html" in content_type or body.lstrip()[:1] == "<":
        raise AnswerError(
            f"expected JSON, got a page of HTML: {_shown(body)}; see that base_url is the part "
            "before /audio/transcriptions and that no proxy answers in its place"
        )
    try:
        given = json.loads(body)
    except ValueError:
        raise AnswerError(
            f"expected JSON, got {_shown(body)}; nothing is lost, try again later", is_damaged=True
        ) from None
    if not isinstance(given, dict):
        raise AnswerError(f"expected a JSON object, got {_shown(body)}")
    return given


def _rows(given: dict[str, Any], name: str) -> list[dict[str, Any]]:
    rows = given.get(name)
    if rows is None:
        return []
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise AnswerError(f"expected {name} to be a list of objects, got {_shown(str(rows))}")
    return rows


def _text(row: dict[str, Any], name: str) -> str:
    text = row.get(name)
    if not isinstance(text, str):
        raise AnswerError(f"expected {name} to be text, in {_shown(str(row))}")
    text = text.replace("\ufffd", "")  # bytes of an unfinished character
    return re.sub(r"\s+", " ", text)


def _seconds(row: dict[str, Any], name: str) -> float:
    value = row.get(name)
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise AnswerError(f"expected {name} in seconds, in {_shown(str(row))}")
    return max(0.0, float(value))


def _share(value: object) -> float:
    return float(value) if isinstance(value, int | float) else 0.0


def _shown(text: str) -> str:
    """Return the beginning of *text* on one line, in quotes."""
    line = " ".join(text.split())
    return repr(line if len(line) <= SHOWN else f"{line[:SHOWN]}...")
