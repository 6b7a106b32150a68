"""Sounds without words, for which a recogniser must emit nothing."""

from __future__ import annotations

from augment import coloured_noise
import numpy as np
from recordings import SAMPLE_RATE, Audio
from rng import happens
from scipy.fft import next_fast_len
from scipy.signal import lfilter


def draw_negative(samples: int, rng: np.random.Generator) -> Audio:
    """Return a random kind of sound at a random level, sometimes with a second one under it."""
    kinds = list(NEGATIVES.values())
    sound = kinds[rng.integers(len(kinds))](samples, rng)
    if happens(0.2, rng):
        sound = sound + 0.3 * kinds[rng.integers(len(kinds))](samples, rng)
    return np.clip(sound, -1, 1).astype(np.float32)


def _level(sound: Audio, rng: np.random.Generator, low: float = -60, high: float = -12) -> Audio:
    """Scale to a random level in decibels of full scale."""
    return sound * (10 ** (rng.uniform(low, high) / 20) / (np.sqrt(np.square(sound).mean()) + 1e-9))


def _silence(samples: int, rng: np.random.Generator) -> Audio:
    return (
        np.zeros(samples)
        if happens(0.6, rng)
        else rng.standard_normal(samples) * 10 ** rng.uniform(-5, -3.5)
    )


def _white(samples: int, rng: np.random.Generator) -> Audio:
    return _level(rng.standard_normal(samples), rng)


def _coloured(samples: int, rng: np.random.Generator) -> Audio:
    return _level(coloured_noise(samples, rng), rng)


def _pink(samples: int, rng: np.random.Generator) -> Audio:
    length = next_fast_len(samples, real=True)
    spectrum = np.fft.rfft(rng.standard_normal(length))
    spectrum /= np.maximum(np.arange(len(spectrum)), 1) ** rng.uniform(0.3, 1.0)
    return _level(np.fft.irfft(spectrum, length)[:samples], rng)


def _chord(samples: int, rng: np.random.Generator) -> Audio:
    """One to five steady tones, with overtones, sometimes switched on and off."""
    time = np.arange(samples) / SAMPLE_RATE
    sound = np.zeros(samples)
    for _ in range(rng.integers(1, 6)):
        hertz = np.exp(rng.uniform(np.log(60), np.log(5000)))
        for overtone in range(1, int(rng.integers(2, 7))):
            if overtone * hertz < SAMPLE_RATE / 2:
                sound += (
                    np.sin(2 * np.pi * (overtone * hertz * time + rng.random())) / overtone**1.5
                )
    return _level(sound * _gate(samples, rng), rng)


def _sweep(samples: int, rng: np.random.Generator) -> Audio:
    seconds = samples / SAMPLE_RATE
    turns = max(2, int(seconds / rng.uniform(0.5, 10)) + 1)
    hertz = np.exp(rng.uniform(np.log(80), np.log(7000), turns))
    track = np.interp(np.arange(samples), np.linspace(0, samples, turns), hertz)
    return _level(np.sin(2 * np.pi * np.cumsum(track) / SAMPLE_RATE) * _gate(samples, rng), rng)


def _hum(samples: int, rng: np.random.Generator) -> Audio:
    time = np.arange(samples) / SAMPLE_RATE
    mains = rng.choice([50, 60])
    sound = sum(
        rng.random() * np.sin(2 * np.pi * (mains * k * time + rng.random())) for k in range(1, 9)
    )
    return _level(sound + 0.05 * rng.standard_normal(samples), rng, -50, -15)


def _clicks(samples: int, rng: np.random.Generator) -> Audio:
    """Clicks, knocks and taps: impulses through a decaying resonance."""
    sound = (rng.random(samples) < rng.uniform(0.5, 12) / SAMPLE_RATE) * rng.uniform(-1, 1, samples)
    if happens(0.6, rng):
        radius, angle = rng.uniform(0.8, 0.995), rng.uniform(0.03, 1.5)
        sound = lfilter([1.0], [1.0, -2 * radius * np.cos(angle), radius**2], sound)
    return sound * (rng.uniform(0.05, 0.9) / (np.abs(sound).max() + 1e-6))


def _bursts(samples: int, rng: np.random.Generator) -> Audio:
    """Breath, rustle and thumps: shaped noise that comes and goes."""
    return _level(coloured_noise(samples, rng) * _gate(samples, rng, always=True), rng, -50, -15)


def _melody(samples: int, rng: np.random.Generator) -> Audio:
    """Plucked notes one after another."""
    sound = np.zeros(samples)
    start = 0
    while start < samples:
        length = int(rng.uniform(0.1, 0.6) * SAMPLE_RATE)
        time = np.arange(min(length, samples - start)) / SAMPLE_RATE
        hertz = 110 * 2 ** (rng.integers(0, 36) / 12)
        note = sum(np.sin(2 * np.pi * hertz * k * time) / k**1.2 for k in range(1, 6))
        sound[start : start + len(time)] += note * np.exp(-time * rng.uniform(2, 12))
        start += length
    return _level(sound, rng, -45, -12)


def _gate(samples: int, rng: np.random.Generator, *, always: bool = False) -> Audio:
    """Return a smooth envelope that opens and closes, or a flat one."""
    if not always and happens(0.5, rng):
        return np.ones(samples)
    knots = max(3, int(samples / SAMPLE_RATE * rng.uniform(1, 8)))
    levels = rng.integers(0, 2, knots) * rng.uniform(0.2, 1, knots)
    return np.interp(np.arange(samples), np.linspace(0, samples, knots), levels)


#: The generator of each kind of sound, by its name.
NEGATIVES = {
    "silence": _silence,
    "white": _white,
    "coloured": _coloured,
    "pink": _pink,
    "chord": _chord,
    "sweep": _sweep,
    "hum": _hum,
    "clicks": _clicks,
    "bursts": _bursts,
    "melody": _melody,
}
