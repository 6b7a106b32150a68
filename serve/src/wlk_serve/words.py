"""Write words and speakers as the protocols do, and divide text into one-speaker segments."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from wlk_core.processor import EPS
from wlk_core.streaming.words import joined
from wlk_live.records import round_seconds
from wlk_live.session import Commit, SpeakerTurn, Timeline
from wlk_live.session.timeline import TextLine
from wlk_live.speakers import speaker_name

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from wlk_core.tokens import ASRToken, SpeakerSpan

_UNKNOWN_SPEAKER = "unknown"  # OpenAI's segments always name a speaker
_LEAST_PROBABILITY = 1e-10  # JSON has no infinity


class Deltas:
    """
    Text that grows by deltas; joined, the deltas are the text.

    Leading white space is left out, and trailing white space is held back until a word follows.
    """

    def __init__(self) -> None:
        self.text = ""
        self._held = ""

    def add(self, tokens: Iterable[ASRToken], *, begins_stream: bool = False) -> str:
        """Append *tokens* and return the delta, which may be empty."""
        text = "".join(token.text for token in tokens)
        if begins_stream:  # the first word of a stream need not begin with a space
            text = joined(self.text + self._held, text)
        text = self._held + text if self.text else text.lstrip()
        delta = text.rstrip()
        self._held = text[len(delta) :]
        self.text += delta
        return delta


def word_records(tokens: Iterable[ASRToken]) -> list[dict[str, Any]]:
    """
    Return word, start, end and confidence of each token, and its speaker if it has one.

    A word that a text filter wrote has the records of the `spoken` words too.
    """
    records = []
    for token in tokens:
        record: dict[str, Any] = {
            "word": token.text.strip(),
            "start": round_seconds(token.start),
            "end": round_seconds(token.end),
            "confidence": None if token.probability is None else round(token.probability, 4),
        }
        if token.speaker is not None:
            record["speaker"] = speaker_name(token.speaker)
        if token.spoken:
            record["spoken"] = word_records(token.spoken)
        records.append(record)
    return records


def segment_record(line: TextLine) -> dict[str, Any]:
    """Return start, end, text and speaker of a line, which has one speaker."""
    return {
        "start": round_seconds(line.start),
        "end": round_seconds(line.end),
        "text": line.text,
        "speaker": _UNKNOWN_SPEAKER if line.speaker is None else speaker_name(line.speaker),
    }


def logprob_records(tokens: Iterable[ASRToken]) -> list[dict[str, Any]] | None:
    """Return token, logprob and bytes of each token; None if one has no probability."""
    records = []
    for token in tokens:
        if token.probability is None:
            return None
        records.append(
            {
                "token": token.text,
                "logprob": round(math.log(max(token.probability, _LEAST_PROBABILITY)), 6),
                "bytes": list(token.text.encode("utf-8", "replace")),
            }
        )
    return records


def detected_languages(tokens: Iterable[ASRToken]) -> list[dict[str, str]]:
    """Return the codes of the detected languages, each once, in the order of detection."""
    codes = dict.fromkeys(token.detected_language for token in tokens if token.detected_language)
    return [{"code": code} for code in codes]


class SpeakerSegments:
    """
    Combines the text of one stream with its speakers, which become known later than the words.

    A plain object; times are seconds on the session's clock.  The segments of an utterance are
    returned once, together, when the utterance is over and each of its words either lies inside a
    span, or has a speaker that no later span can change.  Words that no span covers wait for a
    later speaker; at the end of the audio those that still wait get no speaker.

    Args:
        max_delay: the longest time in seconds between the end of a span and its arrival.

    """

    def __init__(self, max_delay: float) -> None:
        self._max_delay = max_delay
        self._utterances: dict[str, Timeline] = {}  # by name; their words are labelled together
        self._over: set[str] = set()  # names of utterances that get no more text
        self._spans: list[SpeakerSpan] = []  # those that later text may still overlap
        self._clock = 0.0  # all audio before this time has reached the diarizer
        self._is_over = False

    def extend(self, name: str, tokens: Sequence[ASRToken]) -> tuple[ASRToken, ...]:
        """Append committed *tokens* to the utterance *name*; return them with known speakers."""
        if not tokens:
            return ()
        if name not in self._utterances:
            self._utterances[name] = Timeline()
            for span in self._spans:
                self._utterances[name].add(SpeakerTurn(span, self._clock))
        self.advance(max(token.start for token in tokens))
        timeline = self._utterances[name]
        timeline.add(Commit(tuple(tokens), self._clock))
        return tuple(timeline.tokens[-len(tokens) :])

    def labelled(self, name: str) -> tuple[ASRToken, ...] | None:
        """Return the tokens of the utterance *name* with known speakers; None if it has no text."""
        return tuple(self._utterances[name].tokens) if name in self._utterances else None

    def add_span(self, span: SpeakerSpan) -> None:
        """Label the words in a *span* that the diarizer found."""
        self.advance(span.end)
        self._spans.append(span)
        for timeline in self._utterances.values():
            timeline.add(SpeakerTurn(span, self._clock))

    def advance(self, time: float) -> None:
        """Declare that all audio before *time* has reached the diarizer."""
        self._clock = max(self._clock, time)

    def end(self, name: str) -> None:
        """Declare that the utterance *name* gets no more text."""
        if name in self._utterances:
            self._over.add(name)

    def discard(self) -> None:
        """Drop the text of utterances that are not over."""
        for name in self._utterances.keys() - self._over:
            del self._utterances[name]

    def settle(self) -> None:
        """Declare that no more spans come: the diarizer has ended or is switched off."""
        self._is_over = True

    def begin(self) -> None:
        """Declare that another stream, with another diarizer, follows."""
        self._is_over = False
        self._spans.clear()

    def take(self) -> list[tuple[str, TextLine]]:
        """Return the segments that have become certain, each with the name of its utterance."""
        taken: list[tuple[str, TextLine]] = []
        for name, timeline in list(self._utterances.items()):
            if name not in self._over:
                break
            if not self._is_over and not all(map(self._is_certain, timeline.tokens)):
                break
            del self._utterances[name]
            self._over.remove(name)
            lines = [line for line in timeline.lines if isinstance(line, TextLine)]
            taken += [(name, line) for line in lines]
            end = max(line.end for line in lines)
            self._spans = [span for span in self._spans if span.end > end - EPS]
        return taken

    def _is_certain(self, token: ASRToken) -> bool:
        if any(span.start <= token.start and token.end <= span.end for span in self._spans):
            return True
        if self._clock < token.end + self._max_delay:
            return False
        return token.speaker is not None or any(span.start >= token.end for span in self._spans)
