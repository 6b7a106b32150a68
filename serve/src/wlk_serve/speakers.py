"""Who spoke the committed text: segments of one speaker each, sent when they are certain."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

import attrs

from wlk_core.processor import EPS
from wlk_core.session import Commit, SpeakerTurn, Timeline
from wlk_core.session.timeline import TextLine

if TYPE_CHECKING:
    from collections.abc import Sequence

    from wlk_core.tokens import ASRToken, SpeakerSpan

__all__ = ["SpeakerSegments"]


@attrs.define(eq=False)
class _Utterance:
    """Text that is labelled together; `is_over` once no more text comes."""

    name: str
    timeline: Timeline = attrs.field(factory=Timeline)
    is_over: bool = False


class SpeakerSegments:
    """
    Joins the text and the speakers of one stream, of which the speakers come later.

    A plain object; times are seconds on the clock of the session.  The segments of an utterance are
    returned once, together, when it is over and each of its words either lies inside a span, or
    has a speaker that no span can change any more.  Words that no span covers wait for a later
    speaker, or for the end, and then have none.

    Args:
        max_delay: how many seconds after its end a span comes at most.

    """

    def __init__(self, max_delay: float) -> None:
        self._max_delay = max_delay
        self._utterances: deque[_Utterance] = deque()
        self._spans: list[SpeakerSpan] = []  # those that may reach text to come
        self._clock = 0.0  # at least so much audio has reached the diarizer
        self._is_over = False

    def extend(self, name: str, tokens: Sequence[ASRToken]) -> tuple[ASRToken, ...]:
        """Append committed *tokens* to the utterance *name*; return them with known speakers."""
        if not tokens:
            return ()
        if not self._utterances or self._utterances[-1].name != name:
            self._utterances.append(_Utterance(name))
            for span in self._spans:
                self._utterances[-1].timeline.add(SpeakerTurn(span, self._clock))
        self.advance(max(token.start for token in tokens))
        timeline = self._utterances[-1].timeline
        timeline.add(Commit(tuple(tokens), self._clock))
        return tuple(timeline.tokens[-len(tokens) :])

    def labelled(self, name: str) -> tuple[ASRToken, ...] | None:
        """Return the tokens of the utterance *name* with known speakers; None without any text."""
        found = next((each for each in self._utterances if each.name == name), None)
        return None if found is None else tuple(found.timeline.tokens)

    def add_span(self, span: SpeakerSpan) -> None:
        """Apply what the diarizer found."""
        self.advance(span.end)
        self._spans.append(span)
        for utterance in self._utterances:
            utterance.timeline.add(SpeakerTurn(span, self._clock))

    def advance(self, time: float) -> None:
        """Declare that all audio before *time* has reached the diarizer."""
        self._clock = max(self._clock, time)

    def end(self, name: str) -> None:
        """Declare that no more text of the utterance *name* comes."""
        for utterance in self._utterances:
            utterance.is_over = utterance.is_over or utterance.name == name

    def discard(self) -> None:
        """Forget the text of utterances that are not over."""
        self._utterances = deque(each for each in self._utterances if each.is_over)

    def settle(self) -> None:
        """Declare that no more spans come: the diarizer ended, or is switched off."""
        self._is_over = True

    def begin(self) -> None:
        """Declare that another stream, with another diarizer, follows."""
        self._is_over = False
        self._spans.clear()

    def take(self) -> list[tuple[str, TextLine]]:
        """Return the segments that became certain, each after the name of its utterance."""
        taken: list[tuple[str, TextLine]] = []
        while self._utterances and self._utterances[0].is_over:
            utterance = self._utterances[0]
            if not self._is_over and not all(map(self._is_certain, utterance.timeline.tokens)):
                break
            self._utterances.popleft()
            lines = [line for line in utterance.timeline.lines if isinstance(line, TextLine)]
            taken += [(utterance.name, line) for line in lines]
            end = max(line.end for line in lines)
            self._spans = [span for span in self._spans if span.end > end - EPS]
        return taken

    def _is_certain(self, token: ASRToken) -> bool:
        if any(span.start <= token.start and token.end <= span.end for span in self._spans):
            return True
        if self._clock < token.end + self._max_delay:
            return False
        return token.speaker is not None or any(span.start >= token.end for span in self._spans)
