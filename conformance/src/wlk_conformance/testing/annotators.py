"""A diarizer that returns the spans of a script."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wlk_core.processor import SAMPLE_RATE, WorkCounters
from wlk_core.tokens import SpeakerSpan

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import numpy as np
    from numpy.typing import NDArray


class ScriptedDiarizer:
    """
    Return the spans of a script as soon as `max_delay` seconds of audio follow their end.

    The model calls in `fail_at`, counted from 1, raise RuntimeError.
    """

    def __init__(
        self, script: Sequence[SpeakerSpan], *, max_delay: float = 1.0, fail_at: Iterable[int] = ()
    ) -> None:
        self._waiting: list[SpeakerSpan]
        self._script = tuple(script)
        self._fail_at = frozenset(fail_at)
        self.max_delay = max_delay
        self.calls = 0
        self.is_closed = False
        self.reset()

    def insert_audio_chunk(self, audio: NDArray[np.float32]) -> None:
        """Append float32[n] at 16 kHz."""
        self._samples += len(audio)

    def insert_silence(self, seconds: float) -> None:
        """Move the clock over a pause."""
        self._silence += seconds

    def process_iter(self, is_last: bool = False) -> list[SpeakerSpan]:  # noqa: FBT001, FBT002 -- as OnlineProcessor
        """Return the spans that are certain."""
        clock = self._samples / SAMPLE_RATE + self._silence
        certain = [span for span in self._waiting if is_last or span.end + self.max_delay <= clock]
        if certain:
            self.calls += 1
            if self.calls in self._fail_at:
                raise RuntimeError(f"model call {self.calls} was scripted to fail")
            self._waiting = [span for span in self._waiting if span not in certain]
        cut = ((span.speaker, min(span.start, clock), min(span.end, clock)) for span in certain)
        return [SpeakerSpan(*span) for span in cut]

    def reset(self) -> None:
        """Restart the script."""
        self._samples = 0
        self._silence = 0.0
        self._waiting = list(self._script)

    def close(self) -> None:
        """Release everything; may be called again."""
        self.is_closed = True

    @property
    def stats(self) -> WorkCounters:
        """The calls so far."""
        return WorkCounters(decoder_forwards=self.calls)
