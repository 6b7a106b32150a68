"""Run the annotators of a session, and keep their failures away from the transcript."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from wlk_core.errors import BackendError
from wlk_core.session.events import Failure, SpeakerTurn, Translation

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy as np
    from numpy.typing import NDArray

    from wlk_core.annotators import Diarizer, Translator, TurnDetector
    from wlk_core.session.events import Event
    from wlk_core.tokens import ASRToken

__all__ = ["Annotations"]

R = TypeVar("R")

_DIARIZER, _TRANSLATOR, _TURN_DETECTOR = "diarizer", "translator", "turn detector"


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
        parts = {_DIARIZER: diarizer, _TRANSLATOR: translator, _TURN_DETECTOR: turn_detector}
        self._parts: dict[str, Any] = {
            name: part for name, part in parts.items() if part is not None
        }
        self._failures: list[BackendError] = []

    @property
    def detects_turns(self) -> bool:
        """Whether there is a turn detector."""
        return _TURN_DETECTOR in self._parts

    def insert_audio(self, audio: NDArray[np.float32]) -> None:
        """Give audio to the diarizer and the turn detector."""
        for name in (_DIARIZER, _TURN_DETECTOR):
            self._call(name, lambda part: part.insert_audio_chunk(audio))

    def insert_silence(self, seconds: float) -> None:
        """Move the diarizer's clock over a pause."""
        self._call(_DIARIZER, lambda part: part.insert_silence(seconds))

    def insert_tokens(self, tokens: tuple[ASRToken, ...]) -> None:
        """Give committed tokens to the translator."""
        self._call(_TRANSLATOR, lambda part: part.insert_tokens(tokens))

    def events(self, audio_time: float, *, ends_utterance: bool, is_last: bool) -> list[Event]:
        """Return what the annotators found."""
        spans = self._call(_DIARIZER, lambda part: list(part.process_iter(is_last)))
        texts = self._call(
            _TRANSLATOR, lambda part: list(part.process_iter(is_last or ends_utterance))
        )
        failures, self._failures = self._failures, []
        return [
            *(SpeakerTurn(span, audio_time) for span in spans or ()),
            *(Translation(text, audio_time) for text in texts or ()),
            *(Failure(error, is_final=False, audio_time=audio_time) for error in failures),
        ]

    def is_turn_over(self, text: str, threshold: float) -> bool:
        """Return whether the turn detector regards the turn as over."""
        answer = self._call(_TURN_DETECTOR, lambda part: part.end_of_turn(text) >= threshold)
        return bool(answer)

    def end_turn(self) -> None:
        """Declare that another utterance begins."""
        self._call(_TURN_DETECTOR, lambda part: part.reset())

    def _call(self, name: str, call: Callable[[Any], R]) -> R | None:
        """Call an annotator; None where there is none any more, or the call fails."""
        if name not in self._parts:
            return None
        try:
            return call(self._parts[name])
        except Exception as error:  # noqa: BLE001 -- a plugin's code: reported as an event
            failure = BackendError(
                f"the {name} failed: {type(error).__name__}: {error}; it is switched off, the "
                "transcript goes on",
                retryable=False,
            )
            failure.__cause__ = error
            self._failures.append(failure)
            del self._parts[name]
            return None
