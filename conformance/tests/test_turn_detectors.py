"""The contract of turn detectors: a sound one keeps it, and each faulty one breaks its rule."""

from __future__ import annotations

from faulty_annotators import (
    ChangesSamples,
    DeletesAtClose,
    OpensPartOnSpeech,
    RunsModelAtInsert,
    broken_by,
    each_faulty,
    rules_of,
)
import numpy as np

from wlk_conformance.annotators import TurnDetectorConformance
from wlk_conformance.testing.annotators import CodedTurnDetector


class TestCodedTurnDetector(OpensPartOnSpeech, TurnDetectorConformance):
    """The sound turn detector keeps every rule."""

    part = CodedTurnDetector


class Logits(CodedTurnDetector):
    """Returns logits."""

    def end_of_turn(self, text):
        """Return a number beyond 1."""
        return 8.0 * super().end_of_turn(text) - 4.0


class NeedsAudio(CodedTurnDetector):
    """Divides by the length of the audio."""

    def end_of_turn(self, text):
        """Return NaN without audio."""
        return super().end_of_turn(text) if self._audio.any() else float("nan")


class NeedsText(CodedTurnDetector):
    """Looks at the last character."""

    def end_of_turn(self, text):
        """Raise without a text."""
        assert text[-1]
        return super().end_of_turn(text)


class Eager(RunsModelAtInsert, CodedTurnDetector):
    """Runs its model while audio is inserted."""


class Borrowing(CodedTurnDetector):
    """Keeps the memory of the caller."""

    def __init__(self, fail_at=()):
        super().__init__(fail_at)
        self.chunks = []

    def insert_audio_chunk(self, audio):
        """Keep the array itself."""
        self.chunks.append(audio)

    def end_of_turn(self, text):
        """Read the arrays of the caller."""
        self._audio = np.concatenate([np.empty(0, np.float32), *self.chunks])
        return super().end_of_turn(text)

    def reset(self):
        """Forget the chunks."""
        super().reset()
        self.chunks = []


class InPlace(ChangesSamples, CodedTurnDetector):
    """Normalises the samples of the caller."""


class Impatient(CodedTurnDetector):
    """Becomes surer each time it is asked."""

    def end_of_turn(self, text):
        """Count the questions."""
        return min(1.0, super().end_of_turn(text) + 0.01 * self.calls)


class Consuming(CodedTurnDetector):
    """Takes the audio that it was asked about."""

    def end_of_turn(self, text):
        """Keep the last second."""
        answer = super().end_of_turn(text)
        self._audio = self._audio[-16_000:]
        return answer


class LastChunk(CodedTurnDetector):
    """Looks at the last chunk."""

    def insert_audio_chunk(self, audio):
        """Keep it alone."""
        self._audio = audio.copy()


class KeepsItsAudio(CodedTurnDetector):
    """Does not reset."""

    def reset(self):
        """Do nothing."""


class Sharing(CodedTurnDetector):
    """Keeps its audio on the class."""

    last = None

    def insert_audio_chunk(self, audio):
        """Remember who was given audio."""
        super().insert_audio_chunk(audio)
        Sharing.last = self

    def end_of_turn(self, text):
        """Answer for the one that was given audio last."""
        if Sharing.last is not None:
            self._audio = Sharing.last._audio
        return super().end_of_turn(text)


class LosesAudio(CodedTurnDetector):
    """Takes the audio before the model fails."""

    def end_of_turn(self, text):
        """Drop what was inserted."""
        try:
            return super().end_of_turn(text)
        except RuntimeError:
            self._audio = self._audio[:0]
            raise


class Hiding(CodedTurnDetector):
    """Answers 0 where its model fails."""

    def end_of_turn(self, text):
        """Hide the failure."""
        try:
            return super().end_of_turn(text)
        except RuntimeError:
            return 0.0


class ClosesOnce(DeletesAtClose, CodedTurnDetector):
    """Cannot be closed twice."""


FAULTY = [
    (Logits, "TURN-01"), (NeedsAudio, "TURN-01"), (NeedsText, "TURN-01"), (Eager, "TURN-02"),
    (Borrowing, "TURN-02"), (InPlace, "TURN-02"), (Impatient, "TURN-03"), (Consuming, "TURN-03"),
    (LastChunk, "TURN-04"), (KeepsItsAudio, "TURN-05"), (Sharing, "TURN-06"),
    (LosesAudio, "TURN-07"), (Hiding, "TURN-07"), (ClosesOnce, "TURN-08"),
]  # fmt: skip


@each_faulty(FAULTY)
def test_a_faulty_turn_detector_breaks_its_rule(part, rule):
    """The suite detects every one of them under its id."""
    broken = broken_by(TestCodedTurnDetector, part)

    assert rule in broken, broken


def test_every_rule_is_broken_by_a_faulty_turn_detector():
    """A rule that no turn detector can break is no rule."""
    assert rules_of(TurnDetectorConformance) == {rule for _, rule in FAULTY}
