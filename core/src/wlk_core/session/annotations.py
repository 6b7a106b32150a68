"""Run the annotators of a session, and keep their failures away from the transcript."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from wlk_core.errors import BackendError
from wlk_core.processor import EPS
from wlk_core.session.events import Failure, SpeakerTurn, Translation

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    import numpy as np
    from numpy.typing import NDArray

    from wlk_core.annotators import Diarizer, Translator, TurnDetector
    from wlk_core.session.events import Event
    from wlk_core.tokens import ASRToken, SpeakerSpan, TranslatedText

__all__ = ["Annotations"]

A = TypeVar("A")
R = TypeVar("R")


class Annotations:
    """
    The diarizer, the translator and the turn detector of a session; each may be None.

    A call that fails becomes a `Failure` and switches its annotator off; the transcript goes on.
    """

    def __init__(
        self,
        diarizer: Diarizer | None,
        translator: Translator | None,
        turn_detector: TurnDetector | None,
    ) -> None:
        self._diarizer = _Annotator("diarizer", diarizer)
        self._translator = _Annotator("translator", translator)
        self._turn_detector = _Annotator("turn detector", turn_detector)

    @property
    def detects_turns(self) -> bool:
        """Whether there is a turn detector."""
        return self._turn_detector.part is not None

    def insert_audio(self, audio: NDArray[np.float32]) -> None:
        """Give audio to the diarizer and the turn detector."""
        self._diarizer.call(lambda part: part.insert_audio_chunk(audio))
        self._turn_detector.call(lambda part: part.insert_audio_chunk(audio))

    def insert_silence(self, seconds: float) -> None:
        """Move the diarizer's clock over a pause."""
        self._diarizer.call(lambda part: part.insert_silence(seconds))

    def insert_tokens(self, tokens: tuple[ASRToken, ...]) -> None:
        """Give committed tokens to the translator."""
        self._translator.call(lambda part: part.insert_tokens(tokens))

    def events(
        self, audio_time: float, clock: float, *, ends_utterance: bool, is_last: bool
    ) -> list[Event]:
        """Return what the annotators found; *clock* is the time of the audio they were given."""

        def spans(part: Diarizer) -> list[SpeakerSpan]:
            return _checked(part.process_iter(is_last), clock)

        def texts(part: Translator) -> list[TranslatedText]:
            return _checked(part.process_iter(is_last or ends_utterance), clock)

        found = self._diarizer.call(spans) or []
        translated = self._translator.call(texts) or []
        annotators = (self._diarizer, self._translator, self._turn_detector)
        failures = [error for annotator in annotators for error in annotator.take_failures()]
        return [
            *(SpeakerTurn(span, audio_time) for span in found),
            *(Translation(text, audio_time) for text in translated),
            *(Failure(error, is_final=False, audio_time=audio_time) for error in failures),
        ]

    def is_turn_over(self, text: str, threshold: float) -> bool:
        """Return whether the turn detector regards the turn as over."""

        def probability(part: TurnDetector) -> float:
            value = float(part.end_of_turn(text))
            if not 0 <= value <= 1:
                raise ValueError(f"expected a probability in [0, 1], got {value!r}")
            return value

        answer = self._turn_detector.call(probability)
        return answer is not None and answer >= threshold

    def end_turn(self) -> None:
        """Declare that another utterance begins."""
        self._turn_detector.call(lambda part: part.reset())


class _Annotator(Generic[A]):
    """One annotator; `part` is None once it is switched off."""

    def __init__(self, name: str, part: A | None) -> None:
        self.name = name
        self.part = part
        self._failures: list[BackendError] = []

    def call(self, call: Callable[[A], R]) -> R | None:
        """Make a call; None where there is no annotator any more, or the call fails."""
        if self.part is None:
            return None
        try:
            return call(self.part)
        except Exception as error:  # noqa: BLE001 -- a plugin's code: reported as an event
            failure = BackendError(
                f"the {self.name} failed: {type(error).__name__}: {error}; it is switched off, the "
                "transcript goes on",
                retryable=False,
            )
            failure.__cause__ = error
            self._failures.append(failure)
            self.part = None
            return None

    def take_failures(self) -> list[BackendError]:
        """Return the failures since the last call."""
        failures, self._failures = self._failures, []
        return failures


def _checked(items: Iterable[Any], clock: float) -> list[Any]:
    """Return annotations whose times are inside the audio."""
    results = list(items)
    for item in results:
        if not (math.isfinite(item.end) and 0 <= item.start <= item.end <= clock + EPS):
            raise ValueError(
                f"expected times from 0 to {clock:.2f} s, got {item.start} to {item.end}"
            )
    return results
