"""Arrange the events of a session into lines of text and pauses, for captions and transcripts."""

from __future__ import annotations

from bisect import bisect_right, insort_right
from itertools import accumulate
from operator import attrgetter
from typing import TYPE_CHECKING, TypeAlias, TypeVar

import attrs

from wlk_core.processor import EPS
from wlk_core.tokens import ASRToken, Silence
from wlk_live.captions.segments import Segment, SegmentBuilder, translated_tokens
from wlk_live.session.events import Commit, SilenceSpan, SpeakerTurn, Translation

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from wlk_core.tokens import SpeakerSpan, TranslatedText
    from wlk_live.session.events import Event

_MIN_SECONDS = 1e-3  # assumed for a token without length, so that it overlaps a speaker
_EARLY_SECONDS = 0.5  # engines can place the first word of a turn this long before its sound


@attrs.frozen(kw_only=True)
class TextLine:
    """Consecutive tokens of one speaker, as long as a caption, and their joined translations."""

    tokens: tuple[ASRToken, ...]
    translation: str | None = None

    @property
    def start(self) -> float:
        """Stream time of the first token, in seconds."""
        return self.tokens[0].start

    @property
    def end(self) -> float:
        """Stream time at which the last token ends, in seconds."""
        return max(token.end for token in self.tokens)

    @property
    def text(self) -> str:
        """The text without surrounding white space."""
        return "".join(token.text for token in self.tokens).strip()

    @property
    def speaker(self) -> int | str | None:
        """The speaker of all tokens, None if unknown."""
        return self.tokens[0].speaker


Line: TypeAlias = TextLine | Silence
T = TypeVar("T", TextLine, Segment)


class Timeline:
    """
    Arrange the events of a session into lines, ordered by time.

    * A text line ends where a caption ends (`SegmentBuilder`), at a pause and at another speaker.
    * Adjacent pauses are merged.
    * A token belongs to the speaker whose spans overlap it longest, else to one who begins within
      half a second.  A late span relabels earlier tokens; it neither drops nor duplicates any.
    * A translation belongs to the text line in which it begins.
    """

    def __init__(self) -> None:
        self._tokens: list[ASRToken] = []  # as they were committed
        self._pauses: list[Silence] = []
        self._spans: list[SpeakerSpan] = []  # sorted by start
        self.translations: list[TranslatedText] = []  #: all so far, sorted by start

    def add(self, event: Event) -> None:
        """Apply an event."""
        match event:
            case Commit(tokens):
                self._tokens += tokens
            case SilenceSpan(pause):
                last = self._pauses[-1] if self._pauses else None
                if last is not None and pause.start <= last.end + EPS:
                    self._pauses[-1] = Silence(last.start, max(last.end, pause.end))
                else:
                    self._pauses.append(pause)
            case SpeakerTurn(span):
                insort_right(self._spans, span, key=attrgetter("start"))
            case Translation(text) if text.text.strip():
                insort_right(self.translations, text, key=attrgetter("start"))

    @property
    def tokens(self) -> list[ASRToken]:
        """All tokens so far, with the speakers known by now."""
        return with_speakers(self._tokens, self._spans)

    @property
    def translated_tokens(self) -> list[ASRToken]:
        """The words of all translations so far, each with the speaker of most of its time."""
        wholes = [ASRToken(each.start, each.end, each.text) for each in self.translations]
        labelled = with_speakers(wholes, self._spans)
        return [
            token
            for text, whole in zip(self.translations, labelled, strict=True)
            for token in translated_tokens(text, whole.speaker)
        ]

    @property
    def lines(self) -> tuple[Line, ...]:
        """All lines so far, rebuilt from all events."""
        lines = list(self._untranslated())
        text_lines = [line for line in lines if isinstance(line, TextLine)]
        places = [place for place, line in enumerate(lines) if isinstance(line, TextLine)]
        translated = with_translations(text_lines, self.translations)
        for place, line in zip(places, translated, strict=True):
            lines[place] = line
        return tuple(lines)

    def _untranslated(self) -> Iterator[Line]:
        builder, pauses = SegmentBuilder(), self._pauses
        for token in self.tokens:
            count = bisect_right(pauses, token.start + EPS, key=attrgetter("end"))
            earlier, pauses = pauses[:count], pauses[count:]
            if ended := builder.flush() if earlier else None:
                yield TextLine(tokens=ended.tokens)
            yield from earlier
            if ended := builder.push(token):
                yield TextLine(tokens=ended.tokens)
        if last := builder.flush():
            yield TextLine(tokens=last.tokens)
        yield from pauses


def with_translations(lines: Sequence[T], translations: Iterable[TranslatedText]) -> list[T]:
    """Return *lines*, sorted by start, each joined with the *translations* that begin in it."""
    translated = list(lines)
    if not translated:
        return []
    starts = [line.start - EPS for line in translated]
    for translation in translations:
        index = max(0, bisect_right(starts, translation.start) - 1)
        before, text = translated[index].translation, translation.text.strip()
        joined = f"{before} {text}" if before and text else before or text
        translated[index] = attrs.evolve(translated[index], translation=joined)
    return translated


def with_speakers(tokens: Iterable[ASRToken], spans: Sequence[SpeakerSpan]) -> list[ASRToken]:
    """
    Return *tokens* with the speakers whose *spans*, sorted by start, overlap them longest.

    A token outside all spans belongs to the speaker who begins within half a second after it.
    """
    # The latest end up to each span: these are sorted, so the spans after a time can be bisected.
    ends = list(accumulate((span.end for span in spans), max))
    labelled = []
    for token in tokens:
        start, end = token.start, max(token.end, token.start + _MIN_SECONDS)
        seconds: dict[int | str, float] = {}
        for span in spans[bisect_right(ends, start) :]:
            if span.start >= end:
                is_early = span.start - end < _EARLY_SECONDS
                if is_early and not seconds and token.speaker is None:
                    seconds[span.speaker] = 0.0
                break
            overlap = min(end, span.end) - max(start, span.start)
            if overlap > 0:
                seconds[span.speaker] = seconds.get(span.speaker, 0.0) + overlap
        speaker = max(seconds, key=seconds.__getitem__) if seconds else token.speaker
        labelled.append(attrs.evolve(token, speaker=speaker))
    return labelled
