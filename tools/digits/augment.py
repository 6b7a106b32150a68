"""Degrade recordings as on the way to a recogniser: speed, rooms, bands, companding, noise."""

from __future__ import annotations

import numpy as np
from recordings import SAMPLE_RATE, Audio
from rng import happens
from scipy.fft import next_fast_len
from scipy.signal import fftconvolve, lfilter

_FADE_SAMPLES = 64


def change_speed(audio: Audio, rate: float) -> Audio:
    """Play faster (rate > 1, higher pitch and formants) or slower."""
    samples = max(int(len(audio) / rate), 16)
    return np.interp(np.arange(samples) * rate, np.arange(len(audio)), audio).astype(np.float32)


def fade(audio: Audio) -> Audio:
    """Fade both ends over 4 ms, so that a clip begins and ends without a click."""
    samples = min(_FADE_SAMPLES, len(audio) // 4)
    faded = audio.copy()
    faded[:samples] *= np.linspace(0, 1, samples, dtype=np.float32)
    faded[len(faded) - samples :] *= np.linspace(1, 0, samples, dtype=np.float32)
    return faded


def coloured_noise(samples: int, rng: np.random.Generator) -> Audio:
    """Return white, low-passed or slowly swelling noise of unit power."""
    noise = rng.standard_normal(samples).astype(np.float32)
    is_coloured, swells = happens(2 / 3, rng), happens(1 / 3, rng)
    if is_coloured:
        noise = lfilter([1.0], [1.0, -rng.uniform(0.3, 0.99)], noise).astype(np.float32)
    if swells:
        knots = np.arange(0, samples + SAMPLE_RATE, SAMPLE_RATE // 4)
        swell = np.abs(np.interp(np.arange(samples), knots, rng.standard_normal(len(knots))))
        noise *= (0.4 + 0.6 * swell).astype(np.float32)
    return noise / (noise.std() + np.float32(1e-6))


def add_noise(audio: Audio, decibels: float, rng: np.random.Generator) -> Audio:
    """Add noise to the audio at a signal-to-noise ratio in decibels."""
    power = float(np.sqrt(np.square(audio).mean() + 1e-9))
    return audio + coloured_noise(len(audio), rng) * np.float32(power * 10 ** (-decibels / 20))


def degrade(audio: Audio, rng: np.random.Generator) -> Audio:
    """Sometimes put the audio through a room, a narrow band, companding or a clipping input."""
    if happens(0.15, rng):
        audio = _reverberate(audio, rng)
    if happens(0.15, rng):
        audio = _limit_band(audio, rng.uniform(2800, 7600))
    if happens(0.08, rng):
        audio = _mu_law(audio)
    if happens(0.06, rng):
        limit = np.abs(audio).max() * rng.uniform(0.35, 0.8)
        audio = np.clip(audio, -limit, limit)
    return audio


def _reverberate(audio: Audio, rng: np.random.Generator) -> Audio:
    samples = int(rng.uniform(0.04, 0.25) * SAMPLE_RATE)
    tail = rng.standard_normal(samples) * np.exp(-np.linspace(0, 6.9, samples))
    tail *= rng.uniform(0.1, 0.5) / (np.linalg.norm(tail) + 1e-9)
    tail[0] += 1.0
    return fftconvolve(audio, tail)[: len(audio)].astype(np.float32)


def _limit_band(audio: Audio, hertz: float) -> Audio:
    """Remove what lies above a frequency, as lossy codecs do."""
    length = next_fast_len(len(audio), real=True)
    spectrum = np.fft.rfft(audio, length)
    frequencies = np.fft.rfftfreq(length, 1 / SAMPLE_RATE)
    spectrum *= 1 / (1 + np.exp(np.clip((frequencies - hertz) / 60, -40, 40)))
    return np.fft.irfft(spectrum, length)[: len(audio)].astype(np.float32)


def _mu_law(audio: Audio) -> Audio:
    """Apply 8-bit telephone companding."""
    peak = np.abs(audio).max() + 1e-6
    code = np.round(np.sign(audio) * np.log1p(255 * np.abs(audio) / peak) / np.log(256) * 127) / 127
    return (np.sign(code) * np.expm1(np.abs(code) * np.log(256)) / 255 * peak).astype(np.float32)
