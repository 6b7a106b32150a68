"""The detector gives the right audio to its model, and scales its probability."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest

from wlk_smart_turn.engine.detector import SmartTurnDetector
from wlk_smart_turn.engine.model import TURN_SAMPLES, features


class Model:
    """Return `probability`, and record the features."""

    def __init__(self, probability=0.5):
        self.probability = probability
        self.features = []

    def __call__(self, mel):
        """Record the features, and return the probability."""
        self.features.append(mel)
        return self.probability


def features_given(*pieces):
    """Return the features that the model gets after these chunks of audio."""
    model = Model()
    detector = SmartTurnDetector(model, threshold=0.95)
    for piece in pieces:
        detector.insert_audio_chunk(piece)
    detector.end_of_turn("")
    return model.features[0]


def test_the_model_is_given_the_last_eight_seconds(noise):
    """Chunk sizes make no difference, even chunks longer than that."""
    expected = features(noise[-TURN_SAMPLES:])

    assert np.array_equal(expected, features_given(noise))
    assert np.array_equal(expected, features_given(*np.array_split(noise, 47)))


def test_a_short_turn_follows_zeros(noise):
    """A turn shorter than eight seconds is padded in front, as in the training of the model."""
    audio = np.concatenate((np.zeros(TURN_SAMPLES - 24_000, dtype=np.float32), noise[:24_000]))

    assert np.array_equal(features(audio), features_given(*np.array_split(noise[:24_000], 7)))


def test_a_turn_knows_nothing_of_the_one_before(noise):
    """A session resets the detector after each utterance."""
    model = Model()
    detector = SmartTurnDetector(model, threshold=0.95)
    detector.insert_audio_chunk(noise)
    detector.reset()
    detector.insert_audio_chunk(noise[:24_000])
    detector.end_of_turn("")

    assert np.array_equal(features_given(noise[:24_000]), model.features[0])


@pytest.mark.parametrize(
    ("probability", "expected"), [(0.0, 0.0), (0.9, 0.321), (0.95, 0.5), (0.99, 0.839), (1.0, 1.0)]
)
def test_the_threshold_is_the_half_that_a_session_takes_for_the_end(probability, expected):
    """The text makes no difference."""
    detector = SmartTurnDetector(Model(probability), threshold=0.95)

    assert detector.end_of_turn("and") == pytest.approx(expected, abs=0.001)
    assert detector.end_of_turn("The end.") == pytest.approx(expected, abs=0.001)


def test_work_is_counted_by_the_question(noise):
    """Inserting audio does not count."""
    detector = SmartTurnDetector(Model(), threshold=0.95)
    detector.insert_audio_chunk(noise)
    before = detector.stats.encoder_frames
    for _ in range(3):
        detector.end_of_turn("")

    assert (before, detector.stats.encoder_frames) == (0, 2400)


@pytest.mark.slow
def test_an_hour_of_audio_takes_no_new_memory(noise):
    """Neither audio nor answers accumulate, in one turn or many."""
    detector = SmartTurnDetector(Model(), threshold=0.95)
    detector.insert_audio_chunk(noise)
    tracemalloc.start()
    try:
        for second in range(3600):
            detector.insert_audio_chunk(noise[:16_000])
            if second % 60 == 0:
                detector.reset()
        held, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert held < 10_000
