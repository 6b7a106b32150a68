from __future__ import annotations

import wave

import pytest

from wlk_conformance.stimuli import OpenSpeech
from wlk_conformance.testing import tone
from wlk_core.errors import OptionError


@pytest.fixture
def recordings(tmp_path):
    """Return a folder with three recordings, a second for each of their words."""
    for text in ("Good morning.", "It's a cold day", "The boats, which are old, have come back!"):
        with wave.open(str(tmp_path / f"{len(text)}.wav"), "wb") as file:
            file.setparams((1, 2, 16_000, 0, "NONE", ""))
            file.writeframes((tone(len(text.split())) * 32_767).astype("<i2").tobytes())
        (tmp_path / f"{len(text)}.txt").write_text(text + "\n", encoding="utf-8")
    return tmp_path


def test_open_words_are_whole_recordings(recordings):
    """As many are joined as the words need, none longer than that; each has one Word."""
    stimulus = OpenSpeech.read(recordings).speech(5, seed=1, gap=(0.5, 0.5), lead=0.25, tail=1.0)
    first, second = stimulus.words

    assert sorted(stimulus.spoken) == sorted(["good", "morning", "it", "s", "a", "cold", "day"])
    assert (first.start, second.start) == (0.25, first.end + 0.5)
    assert stimulus.seconds == pytest.approx(second.end + 1.0)


def test_the_shortest_recording_is_used_where_all_are_too_long(recordings):
    """A request for one word gets the shortest recording, and positions choose exactly."""
    source = OpenSpeech.read(recordings)

    assert source.speech(1).spoken == ["good", "morning"]
    assert source.speech(2, digits=(0, 3)).spoken == ["good", "morning"] * 2


def test_a_folder_without_recordings_is_refused(tmp_path):
    """A sound file without its words is not a recording."""
    (tmp_path / "silent.wav").write_bytes(b"")

    with pytest.raises(OptionError, match="contains no recordings"):
        OpenSpeech.read(tmp_path)
