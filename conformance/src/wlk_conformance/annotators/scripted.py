"""Annotators that read coded audio, so that what they find is known exactly."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs
import numpy as np

from wlk_conformance.testing import read_tokens
from wlk_core.processor import SAMPLE_RATE, WorkCounters
from wlk_core.tokens import SpeakerSpan

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

__all__ = ["CodedDiarizer", "CodedTurnDetector"]

_SPEAKERS = 2
_LAST_IDS = frozenset({10})  # the token that ends a turn


@attrs.define
class _Stretch:
    """Audio between two silences, and how many of its tokens were returned."""

    start: float
    audio: NDArray[np.float32] = attrs.field(factory=lambda: np.empty(0, np.float32))
    returned: int = 0


class CodedDiarizer:
    """
    Return a span for each token, `max_delay` seconds after it; its id decides who speaks.

    The calls of the model named in `fail_at`, counted from 1, raise RuntimeError.
    """

    max_delay = 1.0

    def __init__(self, fail_at: Iterable[int] = ()) -> None:
        self._fail_at = frozenset(fail_at)
        self.calls = 0
        self.reset()

    def reset(self) -> None:
        """Return to the state of a new diarizer."""
        self._stretches = [_Stretch(0.0)]
        self._clock = 0.0
        self._has_audio = False

    def insert_audio_chunk(self, audio: NDArray[np.float32]) -> None:
        """Append float32[n] at 16 kHz."""
        last = self._stretches[-1]
        last.audio = np.concatenate([last.audio, audio])
        self._clock += len(audio) / SAMPLE_RATE
        self._has_audio = True

    def insert_silence(self, seconds: float) -> None:
        """Move the clock over a pause."""
        self._clock += seconds
        self._stretches.append(_Stretch(self._clock))

    def process_iter(self, is_last: bool = False) -> list[SpeakerSpan]:  # noqa: FBT001, FBT002 -- as OnlineProcessor
        """Return the spans that are certain by now."""
        if not (self._has_audio or is_last):
            return []
        spans: list[SpeakerSpan] = []
        counts = [stretch.returned for stretch in self._stretches]
        for number, stretch in enumerate(self._stretches):
            tokens = self.tokens(stretch.audio)
            for token in tokens[stretch.returned :]:
                start = stretch.start + token.start / SAMPLE_RATE
                end = stretch.start + token.end / SAMPLE_RATE
                if not is_last and end + self.max_delay > self._clock:
                    break
                counts[number] += 1
                spans.append(SpeakerSpan(f"speaker {token.id % _SPEAKERS}", start, end))
        if spans:
            self._call_model()
        for stretch, count in zip(self._stretches, counts, strict=True):
            stretch.returned = count
        self._has_audio = False
        return spans

    tokens = staticmethod(read_tokens)

    def _call_model(self) -> None:
        self.calls += 1
        if self.calls in self._fail_at:
            raise RuntimeError(f"model call {self.calls} was scripted to fail")

    def close(self) -> None:
        """Release everything; may be called again."""
        self._stretches = [_Stretch(0.0)]

    @property
    def stats(self) -> WorkCounters:
        """The calls so far."""
        return WorkCounters(decoder_forwards=self.calls)


class CodedTurnDetector:
    """
    Regard a turn as over after the last token of a script, and more so where the text ends.

    The calls of the model named in `fail_at`, counted from 1, raise RuntimeError.
    """

    def __init__(self, fail_at: Iterable[int] = ()) -> None:
        self._fail_at = frozenset(fail_at)
        self.calls = 0
        self._audio: NDArray[np.float32] = np.empty(0, np.float32)

    def insert_audio_chunk(self, audio: NDArray[np.float32]) -> None:
        """Append float32[n] at 16 kHz."""
        self._audio = np.concatenate([self._audio, audio])

    def end_of_turn(self, text: str) -> float:
        """Return the probability in [0, 1] that the turn with this text is over."""
        self.calls += 1
        if self.calls in self._fail_at:
            raise RuntimeError(f"model call {self.calls} was scripted to fail")
        tokens = read_tokens(self._audio)
        is_over = bool(tokens) and tokens[-1].id in _LAST_IDS
        return 0.1 + 0.5 * is_over + 0.3 * text.endswith(".") + 0.001 * min(len(tokens), 99)

    def reset(self) -> None:
        """Forget the audio."""
        self._audio = np.empty(0, np.float32)

    def close(self) -> None:
        """Release everything; may be called again."""

    @property
    def stats(self) -> WorkCounters:
        """The calls so far."""
        return WorkCounters(decoder_forwards=self.calls)
