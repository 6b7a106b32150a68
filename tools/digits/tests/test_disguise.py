from __future__ import annotations

from typing import TYPE_CHECKING

from attrs import evolve
from disguise import Disguise, by_person, disguise, load_disguised
from mixing import Mixer
import numpy as np
import pytest
from recordings import SAMPLE_RATE, Audio, Voice

if TYPE_CHECKING:
    from pathlib import Path

NOTHING = Disguise(
    pitch=1.0,
    melody=1.0,
    low=1.0,
    high=1.0,
    tilt=(),
    consonants=0.0,
    breath=0.0,
    tempo=(1.0, 1.0),
)


def _hum(hertz: float) -> Audio:
    """Half a second of a buzzing voice: twenty harmonics that fall off."""
    times = np.arange(SAMPLE_RATE // 2) / SAMPLE_RATE
    waves = [np.sin(2 * np.pi * hertz * order * times) / order for order in range(1, 21)]
    return (0.2 * np.sum(waves, axis=0)).astype(np.float32)


def _pitch(audio: Audio) -> float:
    """Distance of the first peak of the autocorrelation, as a frequency."""
    middle = audio[len(audio) // 4 : 3 * len(audio) // 4]
    alike = np.correlate(middle, middle, "full")[len(middle) - 1 :]
    least = SAMPLE_RATE // 400
    return SAMPLE_RATE / (least + int(np.argmax(alike[least : SAMPLE_RATE // 60])))


@pytest.mark.parametrize("ratio", [0.8, 1.0, 1.5])
def test_a_disguise_moves_the_pitch_and_keeps_the_length(ratio: float) -> None:
    """A hum of 130 Hz comes back at the pitch asked for, as long as it was."""
    pytest.importorskip("pyworld", reason="pip install pyworld")
    change = evolve(NOTHING, pitch=ratio)

    voiced = disguise(_hum(130.0), change)

    assert _pitch(voiced) == pytest.approx(130.0 * ratio, rel=0.05)
    assert len(voiced) == pytest.approx(SAMPLE_RATE / 2, abs=0.01 * SAMPLE_RATE)


def test_a_slower_tempo_makes_a_longer_clip() -> None:
    """At half the speed the clip is twice as long."""
    pytest.importorskip("pyworld", reason="pip install pyworld")
    change = evolve(NOTHING, tempo=(0.5, 0.5))

    assert len(disguise(_hum(130.0), change)) == pytest.approx(SAMPLE_RATE, rel=0.03)


def test_a_speaker_who_is_left_out_has_no_disguise_either(tmp_path: Path) -> None:
    """Every disguise of a speaker is left out too, and the others stay."""
    clip = np.full(800, 1000, np.int16)
    names = [f"{voice}/{digit}/7" for voice in ("ann~0", "ann~1", "bob~0") for digit in range(10)]
    np.savez(tmp_path / "disguised.npz", **dict.fromkeys(names, clip))

    voices = load_disguised(tmp_path / "disguised.npz", without="ann")

    assert [voice.name for voice in voices] == ["bob~0"]
    assert voices[0].kind == "disguised"
    assert len(load_disguised(tmp_path / "disguised.npz")) == 3


def test_one_voice_at_several_speeds_is_takes_of_one_person(voice: Voice) -> None:
    """A speaker is disguised once, not once for each speed; others are left alone."""
    names = ("festival:lp:p0:s0.8", "festival:lp:p0:s1", "pico:de-DE:p78:s1", "flite:slt:p150:s1")
    voices = [Voice(name=name, takes=voice.takes, kind="synthetic") for name in names]

    people = {person.name: person for person in by_person(voices)}

    assert list(people) == ["lp", "de-DE"]
    assert len(people["lp"].takes[3]) == 2


def test_each_kind_of_voice_is_picked_as_often_as_asked(voice: Voice) -> None:
    """Half of them synthetic, a fifth disguised, the rest as recorded."""
    voices = [
        Voice(name=kind, takes=voice.takes, kind=kind)
        for kind in ("recorded", "disguised", "synthetic")
    ]
    mixer = Mixer(voices=voices, rng=np.random.default_rng(2))

    picked = [mixer.pick().name for _ in range(2000)]

    assert picked.count("synthetic") / 2000 == pytest.approx(0.5, abs=0.04)
    assert picked.count("disguised") / 2000 == pytest.approx(0.2, abs=0.04)
