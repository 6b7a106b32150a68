"""Hold back lines on a terminal until their speakers are known."""

from __future__ import annotations

from bisect import insort_right
from collections import deque
import math
from operator import attrgetter
from typing import TYPE_CHECKING

import attrs

from wlk_core.processor import EPS
from wlk_live.session import Commit, Endpoint, Failure, SpeakerTurn, Translation
from wlk_live.session.timeline import with_speakers

if TYPE_CHECKING:
    from wlk_core.tokens import ASRToken, SpeakerSpan
    from wlk_live.cli.formats import Format, Outcome
    from wlk_live.session.events import Event

# A diarizer counts its delay in the audio that it gets, and the gate holds back the audio of a
# pause until it knows how long the pause is: 3.6 s is the most that was measured for 2.5 s.
_GATE_SECONDS = 2.0


@attrs.define
class LateSpeakers:
    """
    Hold the words back from another format until their speakers are known.

    A word without a speaker waits for the longest delay of the diarizer, in seconds, and no longer:
    a diarizer that reports a turn when it is over must not hold back what is said in it.
    """

    _form: Format
    _max_delay: float
    _waiting: deque[Event] = attrs.field(factory=deque)
    _spans: list[SpeakerSpan] = attrs.field(factory=list)  # sorted by start

    def push(self, event: Event) -> str:
        """Return the text of the words whose speakers an event made known."""
        if isinstance(event, Commit):
            words = (attrs.evolve(event, tokens=(token,)) for token in event.tokens)
            self._waiting.extend(words)
        elif isinstance(event, Endpoint | Translation):
            self._waiting.append(event)
        elif isinstance(event, SpeakerTurn):
            insort_right(self._spans, event.span, key=attrgetter("start"))
        elif isinstance(event, Failure) and event.annotator == "diarizer":
            self._max_delay = -math.inf  # nothing more will become known
            return self._release_all()
        text = ""
        while self._waiting and self._is_certain(self._waiting[0], event.audio_time):
            text += self._release()
        return text

    def flush(self, outcome: Outcome) -> str:
        """Return the rest, with the speakers known by now."""
        return self._release_all() + self._form.flush(outcome)

    def _release_all(self) -> str:
        text = ""
        while self._waiting:
            text += self._release()
        return text

    def _release(self) -> str:
        event = self._waiting.popleft()
        if isinstance(event, Commit):
            event = attrs.evolve(event, tokens=tuple(with_speakers(event.tokens, self._spans)))
            start = event.tokens[0].start
            self._spans = [span for span in self._spans if span.end > start]
        return self._form.push(event)

    def _is_certain(self, event: Event, audio_time: float) -> bool:
        if not isinstance(event, Commit):
            return True  # what comes before it is written
        (token,) = event.tokens
        is_old = audio_time > token.end + self._max_delay + _GATE_SECONDS
        return is_old or self._is_covered(token)

    def _is_covered(self, token: ASRToken) -> bool:
        point = token.start
        for span in self._spans:
            if span.start <= point + EPS:
                point = max(point, span.end)
        return point >= token.end - EPS
