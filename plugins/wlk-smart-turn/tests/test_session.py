"""A session with the turn detector ends its turns sooner, and keeps every word."""

from __future__ import annotations

import numpy as np
import pytest

from wlk_conformance.scripted import ScriptedBackend
from wlk_conformance.testing import partition, silence
from wlk_conformance.testing.coded_audio import CodedToken, LoudIsSpeech, encode
from wlk_live.session import Commit, Endpoint, Failure, Session
from wlk_live.vad import SilenceGate

FIRST, SECOND = 4, 12  # words before and after the pause within the turn
PAUSE = 0.8  # seconds


@pytest.fixture
def turn():
    """Return a turn with a pause after two seconds, then silence; words take half a second."""
    first, second = (
        encode([CodedToken(1 + word % 10, 6 * word, 4) for word in range(count)])
        for count in (FIRST, SECOND)
    )
    return np.concatenate((first, silence(PAUSE), second, silence(3.0)))


def run(audio, turn_detector=None):
    """Return the words, the endpoints and the failures of a session."""
    session = Session(
        ScriptedBackend().create_processor(),
        gate=SilenceGate(LoudIsSpeech()),
        turn_detector=turn_detector,
    )
    events = [event for chunk in partition(audio, 0.1) for event in session.feed(chunk)]
    events += session.finish()
    words = [token.text for event in events if isinstance(event, Commit) for token in event.tokens]
    return words, *([e for e in events if isinstance(e, kind)] for kind in (Endpoint, Failure))


def test_a_turn_ends_sooner_than_by_silence_and_not_in_a_pause_inside_it(turn, load, model):
    """The model runs in the pause, and calls the turn unfinished."""
    detector = load(model)
    words, (end,), failures = run(turn, detector)
    by_silence, (late,), _ = run(turn)
    sound = len(turn) / 16_000 - 3.0

    assert (end.reason, late.reason, failures) == ("turn-detector", "silence", [])
    assert 0.4 <= end.audio_time - sound <= 0.6
    assert late.audio_time - sound >= 1.2
    assert by_silence == words
    assert len(words) == FIRST + SECOND
    assert detector.stats.encoder_frames >= 2 * 800


def test_a_model_that_fails_leaves_the_turn_to_silence(turn, load, model, monkeypatch):
    """The failure is one event, no word is lost, and the turn ends by silence."""
    detector = load(model)
    monkeypatch.setattr(detector, "_model", lambda _mel: 1 / 0)
    words, (end,), (failure,) = run(turn, detector)

    assert (end.reason, words) == ("silence", run(turn)[0])
    assert "the turn detector failed: ZeroDivisionError" in str(failure.error)
