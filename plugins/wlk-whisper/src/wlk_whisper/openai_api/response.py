"""Parse verbose_json responses into timed words, spelled as in the text of the response."""

from __future__ import annotations

from bisect import bisect
from collections import Counter
from difflib import Match, SequenceMatcher
from itertools import accumulate, pairwise
import re
from typing import TYPE_CHECKING, Annotated
import unicodedata

from pydantic import AfterValidator, AliasChoices, BaseModel, Field, ValidationError

from wlk_core.languages import find_language
from wlk_core.plugins import Word
from wlk_core.streaming import needs_space
from wlk_whisper.models import LANGUAGES

if TYPE_CHECKING:
    from collections.abc import Sequence

NO_SPEECH_THRESHOLD = 0.9  # a segment with a higher probability of no speech is dropped ...
# ... and by the rule of openai/whisper a less likely one whose text is unlikely, too.
UNLIKELY_NO_SPEECH, UNLIKELY_LOGPROB = 0.6, -1.0
MAX_QUOTED = 60  # characters of a response that an error message quotes
# No request has more than 30 s of audio: a thousand words in JSON, each of them twice, are 200 KB.
MAX_CHARACTERS = 1 << 20
WINDOW_SECONDS = 30.0  # Whisper pads audio to its window, so times may lie that far beyond the end
ORDER_SECONDS = 1.0  # times jitter by a few tenths of a second; a word lasts less than a second

OPENING = frozenset("\"'“‘«¿¡")  # noqa: RUF001 -- marks before a word, beside categories Ps and Pi

# Pairs of equal letters up to which two texts that differ are matched.  Transcripts of 30 s have
# 30,000; 50,000 take two seconds on a busy processor, and time grows faster than their number.
MAX_PAIRS = 50_000

# Names of openai/whisper (TO_LANGUAGE_CODE) and a code of ISO 639-1 that the core's list lacks.
ALIASES = {
    "castilian": "es", "flemish": "nl", "haitian": "ht", "jv": "jw", "letzeburgesch": "lb",
    "mandarin": "zh", "moldavian": "ro", "moldovan": "ro", "myanmar": "my", "panjabi": "pa",
    "pushto": "ps", "sinhalese": "si", "valencian": "ca",
}  # fmt: skip


class ResponseError(ValueError):
    """
    The server's response is not as requested; the message quotes it.

    `is_damaged` is true if the response may have been cut off in transit.
    """

    def __init__(self, message: str, *, is_damaged: bool = False) -> None:
        super().__init__(message)
        self.is_damaged = is_damaged


def language_code(name: str | None) -> str | None:
    """
    Return Whisper's code for a language that a server names in English or by a code.

    >>> language_code("English"), language_code("de"), language_code("klingon")
    ('en', 'de', None)
    """
    key = (name or "").strip().casefold()
    code = find_language(ALIASES.get(key, key), LANGUAGES)
    return code if code in LANGUAGES else None


def _clean(text: str) -> str:
    """Replace each run of white space, control and incomplete characters in *text* by a space."""
    return re.sub("[\\s\x00-\x1f\x7f-\x9f\ufffd]+", " ", text)


_Text = Annotated[str, AfterValidator(_clean)]
_Seconds = Annotated[float, Field(allow_inf_nan=False)]


class TimedText(BaseModel, frozen=True):
    """A word without punctuation or a segment of text; times are in seconds of the audio sent."""

    text: _Text = Field(validation_alias=AliasChoices("word", "text"))
    start: _Seconds
    end: _Seconds
    no_speech_prob: float | None = None
    avg_logprob: float | None = None
    words: tuple[TimedText, ...] | None = None

    @property
    def is_speech(self) -> bool:
        """Whether the segment is kept: it is not likely that nobody speaks in it."""
        is_unlikely = (self.avg_logprob or 0.0) < UNLIKELY_LOGPROB
        threshold = UNLIKELY_NO_SPEECH if is_unlikely else NO_SPEECH_THRESHOLD
        return not (self.no_speech_prob or 0.0) > threshold


class TranscriptionResponse(BaseModel, frozen=True):
    """A transcript with its times; `language` is a code, None for a language unknown to Whisper."""

    text: _Text
    words: tuple[TimedText, ...] | None = None
    segments: tuple[TimedText, ...] | None = None
    language: Annotated[str | None, AfterValidator(language_code)] = None

    @classmethod
    def parse(cls, body: str, *, audio_seconds: float) -> TranscriptionResponse:
        """
        Parse the body of a verbose_json response to *audio_seconds* of audio.

        Words are read from `words`, or from the segments, where some servers put them.  The times
        of the result are in order and within the audio; see `in_order`.

        Raises:
            ResponseError: the body is not such a response.

        """
        if len(body) > MAX_CHARACTERS or body.lstrip()[:1] == "<":
            found = "a page of HTML" if len(body) <= MAX_CHARACTERS else f"{len(body)} characters"
            raise ResponseError(
                f"expected verbose_json, got {found}: {_quote(body)}; check that base_url is the "
                "part before /audio/transcriptions and that no proxy answers instead"
            )
        try:
            response = cls.model_validate_json(body)
        except ValidationError as error:
            fault = error.errors()[0]
            where = ".".join(map(str, fault["loc"])) or "JSON"
            raise ResponseError(
                f"expected verbose_json, got {_quote(body)} ({where}: {fault['msg']}); choose "
                "another server or model with --option base_url=URL or --model NAME",
                is_damaged=fault["type"] == "json_invalid",
            ) from None
        segments = in_order(response.segments or (), audio_seconds=audio_seconds)
        nested = tuple(word for segment in segments for word in segment.words or ())
        words = in_order(response.words or nested, audio_seconds=audio_seconds)
        return response.model_copy(update={"segments": segments, "words": words})

    def timed_words(self) -> tuple[Word, ...]:
        """
        Return the words of the transcript, spelled as in its text.

        Raises:
            ResponseError: the text contains speech, but its words have no times.

        """
        parts = self._parts()
        speech = "".join(part.text for part in parts if part.is_speech)
        if not speech:  # some servers give no word times for what is dropped here
            return ()
        words = self.words or ()
        if not words and any(map(str.isalnum, speech)):
            raise ResponseError(
                "expected the times of the words (timestamp_granularities), got the text "
                f"{_quote(speech)} without `words`; choose a server and a model with "
                "word times: --option base_url=URL --model NAME"
            )
        pieces = divide_text([word.text for word in words], "".join(part.text for part in parts))
        if not pieces:  # the text has other words, without times
            return tuple(
                Word(word.start, word.end, with_leading_space(word.text))
                for word in words
                if word.text.strip()
            )
        stops = list(accumulate(len(part.text) for part in parts))
        return tuple(
            Word(words[index].start, words[index].end, text)
            for index, position, text in pieces
            if parts[bisect(stops, position)].is_speech
        )

    def timed_segments(self) -> tuple[Word, ...]:
        """
        Return each segment as one piece of text, for responses without word times.

        Raises:
            ResponseError: the response has text but no segments.

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

    def _parts(self) -> list[TimedText]:
        """Return the segments with leading spaces, or the whole text if they are empty."""
        parts = self.segments or ()
        if not any(part.text.strip() for part in parts):
            parts = (TimedText(text=self.text, start=0.0, end=0.0),)
        return [part.model_copy(update={"text": with_leading_space(part.text)}) for part in parts]


def in_order(spans: tuple[TimedText, ...], *, audio_seconds: float) -> tuple[TimedText, ...]:
    """
    Return *spans* with starts that never go back, all times within the audio.

    A time before or after the audio becomes the audio's start or end.  A span that ends before it
    starts gets no length.  A span that starts before the previous one starts where that ends.

    Raises:
        ResponseError: a time lies more than WINDOW_SECONDS after the audio, or a start more than
            ORDER_SECONDS before the previous one: no repair would be right.

    """
    ordered: list[TimedText] = []
    previous_start = previous_end = 0.0
    for span in spans:
        start = max(0.0, span.start)
        is_late = max(start, span.end) > audio_seconds + WINDOW_SECONDS
        if is_late or start < previous_start - ORDER_SECONDS:
            raise ResponseError(
                f"expected times in order within the {audio_seconds:.1f} s sent, got {start:g} to "
                f"{span.end:g} s after {previous_start:g} s; choose another server or model"
            )
        start = min(start if start >= previous_start else previous_end, audio_seconds)
        end = min(max(start, span.end), audio_seconds)
        ordered.append(span.model_copy(update={"start": start, "end": end}))
        previous_start, previous_end = start, end
    return tuple(ordered)


def _quote(text: str) -> str:
    """Return the beginning of *text* on one line, in quotes."""
    line = " ".join(text[: 10 * MAX_QUOTED].split())
    return repr(line if len(line) <= MAX_QUOTED else f"{line[:MAX_QUOTED]}...")


def divide_text(words: Sequence[str], text: str) -> tuple[tuple[int, int, str], ...]:
    """
    Divide *text* among *words*, which have its letters without spaces or punctuation.

    A piece is the index of a word, the position of the word's first letter in the text, and the
    word as the text spells it.  The pieces joined are the text.  There are none if the text has
    none of the words, or if both differ and are longer than 30 s of speech can be.  A letter that
    no word has goes to the word it is written together with, else to the previous word.  A word
    that the text does not contain is left out.
    """
    in_text, positions = _letters(text)
    in_words, indices = _letters(words)
    counts = Counter(in_words)
    owners: dict[int, int] = {}  # position of a letter to the index of the word that has it
    if in_text == in_words:  # nearly always
        blocks = [Match(0, 0, len(in_text))]
    elif sum(counts[letter] for letter in in_text) > MAX_PAIRS:
        return ()
    else:
        blocks = SequenceMatcher(None, in_text, in_words, autojunk=False).get_matching_blocks()
    for text_index, word_index, length in blocks:
        for offset in range(length):
            owners.setdefault(positions[text_index + offset], indices[word_index + offset])
    if not owners:
        return ()
    first: dict[int, int] = {}
    last: dict[int, int] = {}
    for position, index in owners.items():
        first.setdefault(index, position)
        last[index] = position
    inner = [_boundary(text, last[left] + 1, first[right]) for left, right in pairwise(first)]
    borders = pairwise([0, *inner, len(text)])
    return tuple(
        (index, position, text[start:end])
        for (index, position), (start, end) in zip(first.items(), borders, strict=True)
    )


def with_leading_space(text: str) -> str:
    """
    Return *text* with the space that Whisper writes before it and that servers strip.

    There is none if the script takes no spaces or the text begins with closing punctuation.
    """
    text = text.rstrip()
    if not text or text[0] == " ":
        return text
    letter = next(filter(_is_letter, text), text[0])
    is_spaced = needs_space("a", letter) and (_opens(text[0]) or needs_space("a", text))
    return f" {text}" if is_spaced else text


def _letters(units: Sequence[str]) -> tuple[list[str], list[int]]:
    """Return the letters of *units*, case-folded, and for each the index of its unit."""
    letters = [
        (character, index)
        for index, unit in enumerate(units)
        for letter in filter(_is_letter, unit)
        for character in letter.casefold()
    ]
    return [character for character, _ in letters], [index for _, index in letters]


def _boundary(text: str, start: int, end: int) -> int:
    """Return where the word whose first letter is at *end* begins, not before *start*."""
    for index in reversed(range(start, end)):
        if text[index].isspace():
            return index
    while end > start and _opens(text[end - 1]):
        end -= 1
    return end


def _opens(character: str) -> bool:
    return character in OPENING or unicodedata.category(character) in ("Ps", "Pi")


def _is_letter(character: str) -> bool:
    return unicodedata.category(character)[0] in "LMN"
