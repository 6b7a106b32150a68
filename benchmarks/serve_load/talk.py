"""The speech of a session: utterances of digits with known words, and the times of its results."""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING

import attrs
import numpy as np

from wlk_conformance.testing import connected_digits
from wlk_core.processor import SAMPLE_RATE

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from wlk_conformance.testing import Clip

_WORDS = 6  # words in an utterance: about four seconds
_TAIL = 1.5  # seconds of silence after an utterance, longer than any server waits for more speech


@attrs.frozen
class Utterance:
    """The true times of an utterance's last word, in seconds: from `last_start` to `end`."""

    last_start: float
    end: float


@attrs.frozen(eq=False)
class Talk:
    """The audio of a session, float32[n] at 16 kHz, and what is spoken in it."""

    audio: NDArray[np.float32]
    utterances: tuple[Utterance, ...]
    words: tuple[str, ...]

    @property
    def pcm(self) -> bytes:
        """The audio as 16-bit samples."""
        return (np.clip(self.audio, -1, 1) * 32_767).astype("<i2").tobytes()


@attrs.define
class Report:
    """What a session received; times are seconds since the stream began, in real time."""

    text: str = ""
    finals: list[tuple[float, float]] = attrs.field(factory=list)  # arrival, end of final text
    commits: list[float] = attrs.field(factory=list)  # when the client ended each utterance
    lateness: list[float] = attrs.field(factory=list)  # how late each chunk was sent

    def delays(self, talk: Talk) -> list[float]:
        """
        Return seconds from the end of each utterance to the final text that contains all of it.

        If the client ended the utterances itself, they count from its commits.  An utterance whose
        text never became final has infinity.
        """
        delays = []
        for number, utterance in enumerate(talk.utterances):
            middle = (utterance.last_start + utterance.end) / 2
            arrivals = [arrival for arrival, end in self.finals if end >= middle]
            since = self.commits[number] if self.commits else utterance.end
            delays.append(min(arrivals, default=np.inf) - since)
        return delays


def talk_of(seconds: float, session: int) -> Talk:
    """Return as many whole utterances as fit into *seconds*, different ones for each session."""
    parts: list[Clip] = []
    utterances: list[Utterance] = []
    words: list[str] = []
    first = 0
    for number in count():
        seed = 1000 * session + number
        clip = connected_digits(_WORDS, seed=seed, gap=(0.05, 0.4), lead=0.2, tail=_TAIL)
        if first + len(clip.audio) > seconds * SAMPLE_RATE and parts:
            break
        shift, last = first / SAMPLE_RATE, clip.words[-1]
        utterances.append(Utterance(last.start + shift, last.end + shift))
        words += [word.text.strip() for word in clip.words]
        parts.append(clip)
        first += len(clip.audio)
    audio = np.concatenate([clip.audio for clip in parts])
    return Talk(audio, tuple(utterances), tuple(words))
