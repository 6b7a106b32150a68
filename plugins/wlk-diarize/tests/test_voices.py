"""Enrolled speakers are labelled with their names, strangers are not."""

from __future__ import annotations

import wave

import numpy as np
import pytest
from test_diarizer import audio_of, diarize
from tone_voices import tone, turns_of

from wlk_core.plugins import OptionError
from wlk_diarize.backend import enroll
from wlk_diarize.engine.diarizer import ClusteringDiarizer


@pytest.fixture
def folder(tmp_path):
    """Return a folder with recordings of Ann, voice 3, and Bo, voice 5."""
    record(tmp_path / "ann.wav", audio_of([(None, 1.0), (3, 12.0)]))
    record(tmp_path / "bo.wav", tone(5, 4.0))
    return tmp_path


def record(path, audio):
    """Write a recording."""
    with wave.open(str(path), "wb") as file:
        file.setparams((1, 2, 16_000, 0, "NONE", ""))
        file.writeframes((audio * 32_767).astype("<i2").tobytes())


def test_speakers_who_are_enrolled_have_their_names(networks, folder):
    """They have names from their first span on; others are numbered in order of appearance."""
    diarizer = ClusteringDiarizer(networks, max_speakers=8, voices=enroll(networks, folder))
    talk = [(1, 3.0), (5, 3.0), (3, 3.0), (0, 3.0), (1, 3.0), (3, 2.0)]
    turns = turns_of(diarize(diarizer, audio_of(talk))[0])

    assert [speaker for speaker, _, _ in turns] == [0, "bo", "ann", 1, 0, "ann"]


def test_a_stranger_is_never_the_nearest_of_the_enrolled(networks, folder):
    """A word too short to begin a new speaker is not attributed to an enrolled one either."""
    diarizer = ClusteringDiarizer(networks, max_speakers=1, voices=enroll(networks, folder))
    spans, _ = diarize(diarizer, audio_of([(0, 0.6), (None, 1.0), (3, 3.0), (1, 3.0)]))

    assert [speaker for speaker, _, _ in turns_of(spans)] == [0, "ann", 0]


def test_a_voice_needs_two_seconds_of_speech(networks, folder):
    """Silence does not count."""
    record(folder / "cy.wav", audio_of([(None, 4.0), (1, 1.0)]))
    with pytest.raises(OptionError, match=r"cy.wav has 1.0 s of speech of one speaker; record 2 s"):
        enroll(networks, folder)


def test_a_folder_without_recordings_is_refused(networks, tmp_path):
    """The message says what the folder should contain."""
    with pytest.raises(OptionError, match=r"folder of recordings NAME.wav"):
        enroll(networks, tmp_path / "none")


def test_the_recordings_are_not_changed_by_a_stream(networks, folder):
    """Streams share the embeddings of recordings."""
    voices = enroll(networks, folder)
    before = [voice.embedding.copy() for voice in voices]
    diarize(ClusteringDiarizer(networks, max_speakers=8, voices=voices), audio_of([(3, 9.0)]))

    assert all(map(np.array_equal, before, [voice.embedding for voice in voices]))
