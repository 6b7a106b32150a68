"""What is held out of training, and the times of words in mixtures."""

from __future__ import annotations

from typing import TYPE_CHECKING

from disguise import load_disguised
from mixing import assemble
import numpy as np
import pytest
from recordings import SAMPLE_RATE, load_recordings
from scipy.io import wavfile

from .conftest import tone

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return recordings of two speakers at 8 kHz, takes 4 and 5 of each digit."""
    for speaker in ("anna", "bert"):
        for digit in range(10):
            for take in (4, 5):
                path = tmp_path / f"{digit}_{speaker}_{take}.wav"
                samples = tone(400, 0.3 if take == 4 else 0.25)
                wavfile.write(path, 8000, np.round(samples * 32767).astype(np.int16))
    return tmp_path


def test_held_out_takes_and_speakers_who_are_left_out_are_never_trained_on(folder: Path) -> None:
    """Takes 0-4 and the others never appear together."""
    trained = load_recordings(folder, held_out=False, without="anna")
    held_out = load_recordings(folder, held_out=True)

    assert [voice.name for voice in trained] == ["bert"]
    assert {len(digit) for voice in trained + held_out for digit in voice.takes} == {1}
    assert len(trained[0].takes[0][0]) < len(held_out[0].takes[0][0])


def test_a_speaker_who_is_left_out_has_no_disguise_either(tmp_path: Path) -> None:
    """Every disguise of a speaker is left out too, and the others stay."""
    clip = np.full(800, 1000, np.int16)
    names = [f"{voice}/{digit}/7" for voice in ("ann~0", "ann~1", "bob~0") for digit in range(10)]
    np.savez(tmp_path / "disguised.npz", **dict.fromkeys(names, clip))

    voices = load_disguised(tmp_path / "disguised.npz", without="ann")

    assert [voice.name for voice in voices] == ["bob~0"]
    assert voices[0].kind == "disguised"
    assert len(load_disguised(tmp_path / "disguised.npz")) == 3


def test_clips_lie_at_the_times_of_their_words() -> None:
    """Between the start and the end of a word is its clip, and elsewhere silence."""
    mixture = assemble([(3, tone(400, 0.3)), (3, tone(400, 0.2))], [0.5, 9.0], lead=0.25, tail=0.75)

    times = [(word.digit, word.start, word.end) for word in mixture.words]
    is_loud = np.abs(mixture.audio).reshape(-1, SAMPLE_RATE // 100).max(axis=1) > 0
    assert times == [(3, 0.25, 0.55), (3, 1.05, 1.25)]
    assert np.flatnonzero(is_loud).tolist() == [*range(25, 55), *range(105, 125)]
    assert len(mixture.audio) == 2.0 * SAMPLE_RATE
