"""Call the diarizer, translator and turn detector of a session, and switch off one that fails."""

from __future__ import annotations

import math
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any, TypeVar

from wlk_core.errors import BackendError
from wlk_core.tokens import SpeakerSpan, TranslatedText
from wlk_core.untrusted import shown

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    import numpy as np
    from numpy.typing import NDArray

    from wlk_core.annotators import Diarizer, Translator, TurnDetector
    from wlk_core.tokens import ASRToken

P = TypeVar("P")
R = TypeVar("R")
T = TypeVar("T", SpeakerSpan, TranslatedText)

_DIARIZER, _TRANSLATOR, _TURN_DETECTOR = "diarizer", "translator", "turn detector"


class Annotators:
    """
    The annotators of one session, any of which may be absent.

    One that raises, or returns what its contract excludes, is switched off for the rest of the
    session, because its clock no longer matches the stream's.  `report_failure` is then called with
    the error and its kind.
    """

    def __init__(
        self,
        diarizer: Diarizer | None,
        translator: Translator | None,
        turn_detector: TurnDetector | None,
    ) -> None:
        kinds = {_DIARIZER: diarizer, _TRANSLATOR: translator, _TURN_DETECTOR: turn_detector}
        #: Those that are present and have not failed, by kind.
        self.running: dict[str, Any] = {
            kind: annotator for kind, annotator in kinds.items() if annotator is not None
        }
        self.report_failure: Callable[[BackendError, str], None] = lambda _error, _kind: None

    @property
    def has_translator(self) -> bool:
        """Whether committed text is translated."""
        return _TRANSLATOR in self.running

    @property
    def has_turn_detector(self) -> bool:
        """Whether a pause can end a turn."""
        return _TURN_DETECTOR in self.running

    def insert_audio(self, audio: NDArray[np.float32]) -> None:
        """Append audio that the processor was given."""
        self._call(_DIARIZER, lambda diarizer: diarizer.insert_audio_chunk(audio))
        self._call(_TURN_DETECTOR, lambda detector: detector.insert_audio_chunk(audio))

    def insert_silence(self, seconds: float) -> None:
        """Advance the clock of the diarizer."""
        self._call(_DIARIZER, lambda diarizer: diarizer.insert_silence(seconds))

    def insert_tokens(self, tokens: tuple[ASRToken, ...]) -> None:
        """Append committed tokens for translation."""
        self._call(_TRANSLATOR, lambda translator: translator.insert_tokens(tokens))

    def end_of_turn(self, text: str) -> float | None:
        """Return the probability that the turn with this text is over, None if unknown."""
        return self._call(_TURN_DETECTOR, lambda detector: _probability(detector.end_of_turn(text)))

    def end_utterance(self) -> None:
        """Let the turn detector begin another turn."""
        self._call(_TURN_DETECTOR, lambda detector: detector.reset())

    def speaker_spans(self, *, is_last: bool) -> list[SpeakerSpan]:
        """Return the spans that became certain, with *is_last* all that remain."""
        spans = self._call(_DIARIZER, lambda each: _timed(each.process_iter(is_last), SpeakerSpan))
        return [] if spans is None else spans

    def translations(self, *, ends_utterance: bool, is_last: bool) -> list[TranslatedText]:
        """Return the translations that are done; only with *is_last* wait for the others."""

        def translate(translator: Translator) -> list[TranslatedText]:
            found = translator.finish() if is_last else translator.process_iter(ends_utterance)
            return _timed(found, TranslatedText)

        translations = self._call(_TRANSLATOR, translate)
        return [] if translations is None else translations

    def _call(self, kind: str, call: Callable[[Any], R]) -> R | None:
        """Call an annotator; return None if it is absent or fails."""
        if kind not in self.running:
            return None

        def switch_off(error: BackendError) -> None:
            del self.running[kind]
            self.report_failure(error, kind)

        return call_plugin(kind, self.running[kind], call, switch_off)


def call_plugin(
    kind: str, plugin: P, call: Callable[[P], R], switch_off: Callable[[BackendError], None]
) -> R | None:
    """Return what *call* returns; if it raises, pass the failure to *switch_off*, return None."""
    try:
        return call(plugin)
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:  # noqa: BLE001 -- a plugin's; a Rust panic is a BaseException
        failure = BackendError(
            f"the {kind} failed: {type(error).__name__}: {error}; it is switched off, and the "
            "transcript continues",
            retryable=False,
        )
        failure.__cause__ = error
        switch_off(failure)
        return None


def _probability(value: object) -> float:
    probability = float(value)  # type: ignore[arg-type]  # raises TypeError unless it is a number
    if not 0 <= probability <= 1:
        raise ValueError(f"expected a probability from 0 to 1, got {shown(value)}")
    return probability


def _timed(found: Iterable[object], kind: type[T]) -> list[T]:
    """Return the spans or translations in *found*; raise TypeError for anything else among them."""
    items: list[T] = []
    for item in found:
        if not isinstance(item, kind) or not _is_complete(item):
            raise TypeError(f"expected a {kind.__name__} with its times, got {shown(item)}")
        items.append(item)
    return items


def _is_complete(item: SpeakerSpan | TranslatedText) -> bool:
    times: tuple[object, ...] = (item.start, item.end)  # a plugin's, of any type
    if not all(isinstance(time, Real) and math.isfinite(time) for time in times):
        return False
    if isinstance(item, TranslatedText):
        return item.start <= item.end and isinstance(item.text, str)
    return item.start <= item.end and isinstance(item.speaker, Integral | str)
