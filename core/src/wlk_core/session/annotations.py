"""Run the annotators of a session, and keep their failures away from the transcript."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from wlk_core.errors import BackendError
from wlk_core.processor import EPS
from wlk_core.session.calls import MAX_ATTEMPTS
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

    A call that fails becomes a `Failure` and is made again with the next one.  After the last
    attempt in a row the annotator is switched off, and the transcript goes on without it.
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
        self._failures: list[BackendError] = []

    @property
    def detects_turns(self) -> bool:
        """Whether there is a turn detector."""
        return self._turn_detector.part is not None

    def insert_audio(self, audio: NDArray[np.float32]) -> None:
        """Give audio to the diarizer and the turn detector."""
        for annotator in (self._diarizer, self._turn_detector):
            annotator.insert(lambda part: part.insert_audio_chunk(audio), self._failures)

    def insert_silence(self, seconds: float) -> None:
        """Move the diarizer's clock over a pause."""
        self._diarizer.insert(lambda part: part.insert_silence(seconds), self._failures)

    def insert_tokens(self, tokens: tuple[ASRToken, ...]) -> None:
        """Give committed tokens to the translator."""
        self._translator.insert(lambda part: part.insert_tokens(tokens), self._failures)

    def events(
        self, audio_time: float, clock: float, *, ends_utterance: bool, is_last: bool
    ) -> list[Event]:
        """Return what the annotators found; *clock* is the time of the audio they were given."""

        def spans(part: Diarizer) -> list[SpeakerSpan]:
            return _checked(part.process_iter(is_last), clock)

        def texts(part: Translator) -> list[TranslatedText]:
            return _checked(part.process_iter(is_last or ends_utterance), clock)

        found = self._diarizer.call(spans, self._failures) or []
        translated = self._translator.call(texts, self._failures) or []
        return [
            *(SpeakerTurn(span, audio_time) for span in found),
            *(Translation(text, audio_time) for text in translated),
            *self.failures(audio_time),
        ]

    def is_turn_over(self, text: str, threshold: float) -> bool:
        """Return whether the turn detector regards the turn as over."""

        def probability(part: TurnDetector) -> float:
            value = float(part.end_of_turn(text))
            if not 0 <= value <= 1:
                raise ValueError(f"expected a probability in [0, 1], got {value!r}")
            return value

        answer = self._turn_detector.call(probability, self._failures)
        return answer is not None and answer >= threshold

    def end_turn(self) -> None:
        """Declare that another utterance begins."""
        self._turn_detector.call(lambda part: part.reset(), self._failures)

    def failures(self, audio_time: float) -> list[Event]:
        """Return the failures since the last call."""
        failures, self._failures = self._failures, []
        return [Failure(error, is_final=False, audio_time=audio_time) for error in failures]


class _Annotator(Generic[A]):
    """One annotator and its failures in a row; `part` is None once it is switched off."""

    def __init__(self, name: str, part: A | None) -> None:
        self.name = name
        self.part = part
        self._failed = 0

    def call(self, call: Callable[[A], R], failures: list[BackendError]) -> R | None:
        """Make a call; append what it raises to *failures* and return None then."""
        if self.part is None:
            return None
        try:
            result = call(self.part)
        except Exception as error:  # noqa: BLE001 -- a plugin's code: reported as an event
            failures.append(self._failure(error))
            return None
        if result is not None and not (isinstance(result, list) and not result):
            self._failed = 0  # a call without a result may have run no model
        return result

    def insert(self, call: Callable[[A], None], failures: list[BackendError]) -> None:
        """Pass input on; a failure switches the annotator off, because input would be missing."""
        attempts, self._failed = self._failed, MAX_ATTEMPTS
        if self.part is not None:
            self.call(call, failures)
        self._failed = attempts

    def _failure(self, error: Exception) -> BackendError:
        self._failed += 1
        is_off = self._failed >= MAX_ATTEMPTS
        effect = "it is switched off, the transcript goes on" if is_off else "it is called again"
        failure = BackendError(
            f"the {self.name} failed: {type(error).__name__}: {error}; {effect}",
            retryable=not is_off,
        )
        failure.__cause__ = error
        if is_off:
            self.part = None
        return failure


def _checked(items: Iterable[Any], clock: float) -> list[Any]:
    """Return annotations whose times are inside the audio."""
    results = list(items)
    for item in results:
        if not (math.isfinite(item.end) and 0 <= item.start <= item.end <= clock + EPS):
            raise ValueError(
                f"expected times from 0 to {clock:.2f} s, got {item.start} to {item.end}"
            )
    return results
