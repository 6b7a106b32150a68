"""The contract of a turn detector: a probability that the turn is over, whenever it is asked."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from wlk_conformance.annotators.suite import (
    AnnotatorRules,
    annotator_rule,
    check_failure,
    check_no_work,
)
from wlk_conformance.testing import load_clip, partition
from wlk_core.annotators import TurnDetector
from wlk_core.processor import SAMPLE_RATE

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from wlk_core.annotators import AnnotatorKind

__all__ = ["TurnDetectorConformance"]

_TEXTS = ("", "I would like", "I would like coffee.")
_TOLERANCE = 1e-3


class TurnDetectorConformance(AnnotatorRules[TurnDetector]):
    """
    The contract of a turn detector, as tests.

    A test module of the plugin contains::

        class TestSmartTurn(TurnDetectorConformance):
            annotator = "smart-turn"
    """

    kind: ClassVar[AnnotatorKind] = "turn-detector"

    def speech(self) -> NDArray[np.float32]:
        """Return speech of some seconds, float32[n] at 16 kHz."""
        return load_clip("demo").audio

    @annotator_rule("TURN-01")
    def test_the_answer_is_a_probability(self) -> None:
        """`end_of_turn` is in [0, 1] for any text and any audio, none and silence included."""
        silence = np.zeros(SAMPLE_RATE, np.float32)
        for audio in (None, silence, silence[:1], self._copy()):
            detector = self.open()
            if audio is not None:
                detector.insert_audio_chunk(audio)
            for text in _TEXTS:
                answer = detector.end_of_turn(text)
                assert 0 <= answer <= 1, f"expected a probability in [0, 1], got {answer!r}"

    @annotator_rule("TURN-02")
    def test_inserting_copies_and_runs_no_model(self) -> None:
        """`insert_audio_chunk` runs no model, changes no sample and keeps a copy."""
        detector = self.open()
        for chunk in partition(self._copy(), 0.5):
            samples = chunk.copy()
            insert = partial(detector.insert_audio_chunk, samples)
            check_no_work(detector, insert, "inserting audio")
            assert np.array_equal(chunk, samples), "the samples given were changed"
            samples[:] = 0.0

        _check_same(self._answers(self._copy()), _answers_of(detector), "memory that is reused")

    @annotator_rule("TURN-03")
    def test_asking_changes_nothing(self) -> None:
        """The same question has the same answer, and asking changes no later answer."""
        detector = self.open()
        detector.insert_audio_chunk(self._copy())
        _check_same(_answers_of(detector), _answers_of(detector), "asking again")
        probed, silent = self.open(), self.open()
        for chunk in partition(self._copy(), 1.0):
            for part in (probed, silent):
                part.insert_audio_chunk(chunk)
            probed.end_of_turn(_TEXTS[1])

        _check_same(_answers_of(silent), _answers_of(probed), "questions before")

    @annotator_rule("TURN-04")
    def test_the_cut_of_the_audio_changes_no_answer(self) -> None:
        """The same audio in other chunks has the same answers."""
        expected = self._answers(self._copy(), seconds=0.5)
        for seconds in (0.1, 3.1, 60.0):
            found = self._answers(self._copy(), seconds=seconds)
            _check_same(expected, found, f"chunks of {seconds} s")

    @annotator_rule("TURN-05")
    def test_a_reset_gives_a_new_detector(self) -> None:
        """After `reset` the answers are those of a new detector."""
        detector = self.open()
        detector.insert_audio_chunk(self._copy())
        detector.end_of_turn(_TEXTS[1])
        detector.reset()
        middle = self._copy()[2 * SAMPLE_RATE : 4 * SAMPLE_RATE]
        detector.insert_audio_chunk(middle)

        _check_same(self._answers(middle), _answers_of(detector), "a reset")

    @annotator_rule("TURN-06")
    def test_two_detectors_share_nothing(self) -> None:
        """Interleaved streams have the answers of single ones."""
        first, second = self.open(), self.open()
        for chunk in partition(self._copy(), 0.5):
            first.insert_audio_chunk(chunk)
            second.insert_audio_chunk(chunk[::-1].copy())
            second.end_of_turn(_TEXTS[2])

        found = _answers_of(first)  # before others are opened

        _check_same(self._answers(self._copy()), found, "another stream")

    @annotator_rule("TURN-07", kinds="F")
    def test_a_failure_changes_nothing(self) -> None:
        """A call whose model fails raises and changes nothing: made again, it answers."""
        sound, detector = self.open(), self.open_failing(1)
        for part in (sound, detector):
            part.insert_audio_chunk(self._copy())
        expected = sound.end_of_turn(_TEXTS[2])
        found = check_failure(lambda: detector.end_of_turn(_TEXTS[2]))
        assert isinstance(found, float | int)

        _check_same([expected], [float(found)], "a failure")

    @annotator_rule("TURN-08")
    def test_a_detector_is_closed_twice(self) -> None:
        """`close` may be called again."""
        self.close_twice()

    def _copy(self) -> NDArray[np.float32]:
        """Return the speech anew, because a faulty one may change its samples."""
        return self.speech().copy()

    def _answers(self, audio: NDArray[np.float32], *, seconds: float = 1.0) -> list[float]:
        detector = self.open()
        for chunk in partition(audio, seconds):
            detector.insert_audio_chunk(chunk)
        return _answers_of(detector)


def _answers_of(detector: TurnDetector) -> list[float]:
    return [float(detector.end_of_turn(text)) for text in _TEXTS]


def _check_same(expected: list[float], found: list[float], what: str) -> None:
    for text, a, b in zip(_TEXTS[-len(expected) :], expected, found, strict=True):
        assert abs(a - b) <= _TOLERANCE, f"{a:.3f} became {b:.3f} for {text!r} by {what}"
