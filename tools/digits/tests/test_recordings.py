from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from recordings import SAMPLE_RATE, load_recordings, trim
from scipy.io import wavfile
from sounds import tone

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Eight-kHz recordings of two speakers, takes 4 and 5 of each digit."""
    for speaker in ("anna", "bert"):
        for digit in range(10):
            for take in (4, 5):
                path = tmp_path / f"{digit}_{speaker}_{take}.wav"
                samples = tone(400, 0.25 + 0.05 * (take == 4))
                wavfile.write(path, 8000, np.round(samples * 32767).astype(np.int16))
    return tmp_path


def test_trimming_leaves_the_sound_alone() -> None:
    """Silence on both sides goes, the tone between stays."""
    sound = np.concatenate([np.zeros(3200), tone(440, 0.5), np.zeros(1600)]).astype(np.float32)

    assert len(trim(sound)) == pytest.approx(0.5 * SAMPLE_RATE, abs=0.02 * SAMPLE_RATE)


def test_held_out_takes_are_never_trained_on(folder: Path) -> None:
    """Takes 0-4 and the others never appear together."""
    trained = load_recordings(folder, held_out=False)
    held_out = load_recordings(folder, held_out=True)

    assert {len(digit) for voice in trained + held_out for digit in voice.takes} == {1}
    assert len(trained[0].takes[0][0]) < len(held_out[0].takes[0][0])


def test_a_speaker_can_be_left_out(folder: Path) -> None:
    """The voice that is measured does not take part."""
    voices = load_recordings(folder, held_out=False, without="anna")

    assert [voice.name for voice in voices] == ["bert"]


def test_a_folder_without_recordings_is_an_error(tmp_path: Path) -> None:
    """An empty folder is reported at once, with the folder's name."""
    with pytest.raises(FileNotFoundError, match=tmp_path.name):
        load_recordings(tmp_path, held_out=False)
