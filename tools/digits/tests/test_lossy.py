from __future__ import annotations

from typing import TYPE_CHECKING

from lossy import CODECS, Codec, transcode
from mixing import Mixer
import numpy as np
import pytest
from recordings import SAMPLE_RATE
from sounds import tone

if TYPE_CHECKING:
    from recordings import Voice

ROUND_TRIPS = [
    pytest.param(codec, bit_rate, id=f"{codec.encoder} {codec.rate} Hz {bit_rate} bit/s")
    for codec in CODECS
    for bit_rate in codec.bit_rates
]


@pytest.mark.parametrize(("codec", "bit_rate"), ROUND_TRIPS)
def test_a_round_trip_leaves_every_sound_where_it_was(codec: Codec, bit_rate: int) -> None:
    """A tone between silences comes back as long as it went, its edges within 20 ms."""
    silence = np.zeros(SAMPLE_RATE // 2, np.float32)
    sent = np.concatenate([silence, tone(700, 0.5), silence])

    received = transcode(sent, codec, bit_rate)

    power = np.square(received).reshape(-1, SAMPLE_RATE // 100).mean(axis=1)
    loud = np.flatnonzero(power > power.max() / 4)
    assert received.dtype == np.float32
    assert len(received) == len(sent)
    assert loud[0] == pytest.approx(50, abs=2)
    assert loud[-1] == pytest.approx(99, abs=2)


@pytest.mark.parametrize(("codec", "bit_rate"), ROUND_TRIPS)
@pytest.mark.parametrize("samples", [800, 1601])
def test_the_shortest_mixtures_survive(codec: Codec, bit_rate: int, samples: int) -> None:
    """Audio shorter than the frames of a codec, and silence, come back finite and as long."""
    for sent in (np.zeros(samples, np.float32), tone(500, 1.0)[:samples]):
        received = transcode(sent, codec, bit_rate)

        assert len(received) == samples
        assert np.isfinite(received).all()


def test_words_of_an_encoded_mixture_are_those_of_the_clean_one(voice: Voice) -> None:
    """A codec changes what a mixture sounds like, not the words in it or how long it is."""
    clean, encoded = (
        Mixer(voices=[voice], rng=np.random.default_rng(4), codec_share=share).draw(3.0)
        for share in (0.0, 1.0)
    )

    assert clean.words == encoded.words
    assert len(clean.audio) == len(encoded.audio)
    assert not np.array_equal(clean.audio, encoded.audio)
    assert np.abs(encoded.audio).max() <= 1
