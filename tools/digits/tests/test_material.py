"""What every model is trained on: recordings, voices, codecs and mixtures."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

from accents import ACCENTS, OTHER_SPELLINGS
from disguise import load_disguised
from lossy import CODECS, Codec, transcode
from mixing import Mixer, assemble
import numpy as np
from prompts import collect
import pytest
from recordings import SAMPLE_RATE, load_recordings
from scipy.io import wavfile
from vocabulary import DIGITS
from voices import training_speakers

from .conftest import tone

if TYPE_CHECKING:
    from pathlib import Path

    from recordings import Voice


ROUND_TRIPS = [
    pytest.param(codec, bit_rate, id=f"{codec.encoder} {codec.rate} Hz {bit_rate} bit/s")
    for codec in CODECS
    for bit_rate in codec.bit_rates
]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return recordings of two speakers at 8 kHz, takes 4 and 5 of each digit."""
    for speaker in ("anna", "bert"):
        for digit in range(10):
            for take in (4, 5):
                path = tmp_path / f"{digit}_{speaker}_{take}.wav"
                samples = tone(400, 0.25 + 0.05 * (take == 4))
                wavfile.write(path, 8000, np.round(samples * 32767).astype(np.int16))
    return tmp_path


def test_held_out_takes_and_speakers_who_are_left_out_are_never_trained_on(folder: Path) -> None:
    """Takes 0-4 and the others never appear together."""
    trained = load_recordings(folder, held_out=False, without="anna")
    held_out = load_recordings(folder, held_out=True)

    assert [voice.name for voice in trained] == ["bert"]
    assert {len(digit) for voice in trained + held_out for digit in voice.takes} == {1}
    assert len(trained[0].takes[0][0]) < len(held_out[0].takes[0][0])


def test_a_folder_without_recordings_is_an_error(tmp_path: Path) -> None:
    """An empty folder is reported at once, with the folder's name."""
    with pytest.raises(FileNotFoundError, match=tmp_path.name):
        load_recordings(tmp_path, held_out=False)


def test_prompts_become_recordings_to_train_on(tmp_path: Path) -> None:
    """Eight bits or sixteen: two speakers speak ten digits, and silence stays silence."""
    hum = np.sin(np.arange(2400) / 8000 * 2 * np.pi * 200)
    hum[:800] = 0
    (tmp_path / "asterisk/digits").mkdir(parents=True)
    for digit in range(10):
        folder = tmp_path / f"captcha/{digit}"
        folder.mkdir(parents=True)
        wavfile.write(folder / "default.wav", 8000, (hum * 100 + 128).astype(np.uint8))
        path = tmp_path / f"asterisk/digits/{digit}.wav"
        wavfile.write(path, 8000, (hum * 9000).astype(np.int16))

    written = list(collect(tmp_path / "asterisk", tmp_path / "captcha", tmp_path / "prompts"))
    voices = load_recordings(tmp_path / "prompts", held_out=False)

    assert len(written) == 20
    assert sorted(voice.name for voice in voices) == ["allison", "captcha"]
    lengths = {len(take) / 16_000 for voice in voices for (take,) in voice.takes}
    assert all(0.19 < length < 0.23 for length in lengths)


def test_a_speaker_who_is_left_out_has_no_disguise_either(tmp_path: Path) -> None:
    """Every disguise of a speaker is left out too, and the others stay."""
    clip = np.full(800, 1000, np.int16)
    names = [f"{voice}/{digit}/7" for voice in ("ann~0", "ann~1", "bob~0") for digit in range(10)]
    np.savez(tmp_path / "disguised.npz", **dict.fromkeys(names, clip))

    voices = load_disguised(tmp_path / "disguised.npz", without="ann")

    assert [voice.name for voice in voices] == ["bob~0"]
    assert voices[0].kind == "disguised"
    assert len(load_disguised(tmp_path / "disguised.npz")) == 3


def test_no_two_synthetic_speakers_are_the_same() -> None:
    """Voices are kept by the names of their speakers."""
    names = [speaker.name for speaker in training_speakers()]

    assert len(set(names)) == len(names)


def test_an_accent_spells_all_ten_digits() -> None:
    """A missing word would shift all that follow it."""
    spellings = [*ACCENTS.values(), *OTHER_SPELLINGS.values()]

    assert {len(DIGITS)} == {len(spelling.split()) for spelling in spellings}


@pytest.mark.parametrize(("codec", "bit_rate"), ROUND_TRIPS)
def test_a_round_trip_leaves_every_sound_where_it_was(codec: Codec, bit_rate: int) -> None:
    """Audio keeps its length, and the edges of a tone between silences move by at most 20 ms."""
    silence = np.zeros(SAMPLE_RATE // 2, np.float32)
    sent = np.concatenate([silence, tone(700, 0.5), silence])

    received = transcode(sent, codec, bit_rate)

    power = np.square(received).reshape(-1, SAMPLE_RATE // 100).mean(axis=1)
    loud = np.flatnonzero(power > power.max() / 4)
    assert received.dtype == np.float32
    assert len(received) == len(sent)
    assert loud[0] == pytest.approx(50, abs=2)
    assert loud[-1] == pytest.approx(99, abs=2)


def test_clips_lie_at_the_times_of_their_words() -> None:
    """Between the start and the end of a word is its clip, and elsewhere silence."""
    mixture = assemble([(3, tone(400, 0.3)), (3, tone(400, 0.2))], [0.5, 9.0], lead=0.25, tail=0.75)

    times = [(word.digit, word.start, word.end) for word in mixture.words]
    is_loud = np.abs(mixture.audio).reshape(-1, SAMPLE_RATE // 100).max(axis=1) > 0
    assert times == [(3, 0.25, 0.55), (3, 1.05, 1.25)]
    assert np.flatnonzero(is_loud).tolist() == [*range(25, 55), *range(105, 125)]
    assert len(mixture.audio) == 2.0 * SAMPLE_RATE


@pytest.mark.parametrize("seed", range(8))
def test_drawn_words_lie_in_their_audio_one_after_another(voice: Voice, seed: int) -> None:
    """However a mixture was cut, its words are in order, inside it and not empty."""
    mixer = Mixer(voices=[voice], rng=np.random.default_rng(seed))
    for seconds in (0.5, 2.0, 7.0):
        mixture = mixer.draw(seconds)

        length = len(mixture.audio) / SAMPLE_RATE
        assert length <= seconds
        assert all(0 <= word.start < word.end <= length + 1e-9 for word in mixture.words)
        assert all(word.end <= after.start for word, after in pairwise(mixture.words))
