"""Annotators whose answers are known: those of a script."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wlk_core.processor import SAMPLE_RATE, WorkCounters
from wlk_core.tokens import SpeakerSpan, TranslatedText

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from wlk_core.tokens import ASRToken

__all__ = ["ScriptedDiarizer", "ScriptedTranslator", "ScriptedTurnDetector"]


class _Scripted:
    """Counts calls of the model; those named in `fail_at`, counted from 1, raise RuntimeError."""

    def __init__(self, fail_at: Iterable[int] = ()) -> None:
        self._fail_at = frozenset(fail_at)
        self.calls = 0
        self.is_closed = False

    def _call_model(self) -> None:
        self.calls += 1
        if self.calls in self._fail_at:
            raise RuntimeError(f"model call {self.calls} was scripted to fail")

    def close(self) -> None:
        """Release everything; may be called again."""
        self.is_closed = True

    @property
    def stats(self) -> WorkCounters:
        """The calls so far."""
        return WorkCounters(decoder_forwards=self.calls)


class ScriptedDiarizer(_Scripted):
    """Return the spans of a script as soon as `max_delay` seconds of audio follow their end."""

    def __init__(
        self, script: Sequence[SpeakerSpan], *, max_delay: float = 1.0, fail_at: Iterable[int] = ()
    ) -> None:
        super().__init__(fail_at)
        self._waiting: list[SpeakerSpan]
        self._script = tuple(script)
        self.max_delay = max_delay
        self.reset()

    def insert_audio_chunk(self, audio: NDArray[np.float32]) -> None:
        """Append float32[n] at 16 kHz."""
        self._samples += len(audio)

    def insert_silence(self, seconds: float) -> None:
        """Move the clock over a pause."""
        self._silence += seconds

    def process_iter(self, is_last: bool = False) -> list[SpeakerSpan]:  # noqa: FBT001, FBT002 -- as OnlineProcessor
        """Return the spans that are certain by now."""
        clock = self._samples / SAMPLE_RATE + self._silence
        certain = [span for span in self._waiting if is_last or span.end + self.max_delay <= clock]
        if certain:
            self._call_model()
            self._waiting = [span for span in self._waiting if span not in certain]
        return [
            SpeakerSpan(span.speaker, min(span.start, clock), min(span.end, clock))
            for span in certain
        ]

    def reset(self) -> None:
        """Return to the beginning of the script."""
        self._samples = 0
        self._silence = 0.0
        self._waiting = list(self._script)


class ScriptedTranslator(_Scripted):
    """Return each utterance in upper case when it is over."""

    def __init__(self, *, fail_at: Iterable[int] = ()) -> None:
        super().__init__(fail_at)
        self._waiting: list[ASRToken] = []

    def insert_tokens(self, tokens: tuple[ASRToken, ...]) -> None:
        """Append committed tokens."""
        self._waiting += tokens

    def process_iter(self, is_last: bool = False) -> list[TranslatedText]:  # noqa: FBT001, FBT002 -- as OnlineProcessor
        """Return the translation of what waits, when the utterance is over."""
        if not (is_last and self._waiting):
            return []
        self._call_model()
        tokens, self._waiting = self._waiting, []
        text = "".join(token.text for token in tokens).upper()
        return [TranslatedText(text, tokens[0].start, tokens[-1].end, "upper")]

    def reset(self) -> None:
        """Forget the tokens."""
        self._waiting = []


class ScriptedTurnDetector(_Scripted):
    """Regard a turn as over when its text ends with one of `last_words`."""

    def __init__(self, last_words: Iterable[str], *, fail_at: Iterable[int] = ()) -> None:
        super().__init__(fail_at)
        self._last_words = tuple(last_words)
        self.seconds = 0.0  # of audio in this utterance

    def insert_audio_chunk(self, audio: NDArray[np.float32]) -> None:
        """Append float32[n] at 16 kHz."""
        self.seconds += len(audio) / SAMPLE_RATE

    def end_of_turn(self, text: str) -> float:
        """Return 1 for a turn that is over, else 0."""
        self._call_model()
        return float(text.rstrip().endswith(self._last_words))

    def reset(self) -> None:
        """Forget the audio."""
        self.seconds = 0.0
