"""Recordings generated for the tests, with clicks at known times."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import av
import numpy as np
import pytest

_CLICK_TIMES = (0.5, 1.25, 2.0)
_SECONDS = 2.5


def _clicks(rate):
    """Return float32 samples with soft 1 kHz bursts of 20 ms that begin at _CLICK_TIMES."""
    samples = np.zeros(round(_SECONDS * rate), np.float32)
    time = np.arange(round(0.02 * rate)) / rate
    burst = 0.8 * np.sin(2 * np.pi * 1000 * time) * np.hanning(len(time))
    for start in _CLICK_TIMES:
        first = round(start * rate)
        samples[first : first + len(burst)] += burst
    return samples


def _click_errors(audio, times=_CLICK_TIMES):
    """Return by how many seconds the middle of each burst in 16 kHz *audio* is off."""
    errors = []
    for start in times:
        first = max(0, round((start - 0.1) * 16_000))
        energy = np.square(audio[first : first + 3520], dtype=np.float64)
        middle = float(energy @ np.arange(first, first + len(energy)) / energy.sum())
        errors.append(middle / 16_000 - 0.01 - start)
    return errors


def _write(
    path, samples, *, rate, codec, channels=1, fmt=None, first_time=0.0, hole=None, **options
):
    """Encode float32[n] *samples*, the same on all channels, into *path*."""
    layout = {1: "mono", 2: "stereo"}[channels]
    with av.open(str(path), "w", format=fmt, options=options) as container:
        stream = container.add_stream(codec, rate=rate, layout=layout)
        if codec == "vorbis":
            stream.codec_context.options = {"strict": "-2"}
        stream.codec_context.open()
        size = stream.codec_context.frame_size or 1024
        sample_format = stream.codec_context.format.name
        packed = av.AudioResampler(format=sample_format, layout=layout, rate=rate)
        for start in range(0, len(samples), size):
            if hole and hole[0] * rate <= start < hole[1] * rate:
                continue
            piece = np.repeat(samples[None, start : start + size], channels, axis=0)
            frame = av.AudioFrame.from_ndarray(piece, format="fltp", layout=layout)
            frame.sample_rate = rate
            frame.time_base = Fraction(1, rate)
            frame.pts = start + round(first_time * rate)
            for converted in packed.resample(frame):
                container.mux(stream.encode(converted))
        container.mux(stream.encode(None))
    return Path(path)


@pytest.fixture
def recording(tmp_path):
    """Return a function that writes a recording of clicks and returns its path."""

    def make(name, *, rate=16_000, codec="pcm_s16le", samples=None, **options):
        samples = _clicks(rate) if samples is None else samples
        return _write(tmp_path / name, samples, rate=rate, codec=codec, **options)

    return make


@pytest.fixture
def click_errors():
    """Return a function that returns the error in seconds of each click in 16 kHz audio."""
    return _click_errors
