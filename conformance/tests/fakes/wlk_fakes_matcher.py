"""A mediocre recogniser of spoken digits, as an author might write it, and its faulty variants."""

from __future__ import annotations

from functools import lru_cache, partial
import hashlib
from itertools import pairwise

import attrs
import numpy as np

from wlk_conformance.testing import clip_names, load_clip
from wlk_core.plugins import (
    SAMPLE_RATE,
    Hypothesis,
    LoadedBackend,
    LocalAgreementRecognizer,
    ModelNotFoundError,
    Word,
)

HOP, WINDOW = 160, 400  # samples, 10 and 25 ms
BANDS, FRAMES = 24, 16  # of a template
LOUD = 0.02  # amplitude of a frame that belongs to a word
ERRORS = 0.15  # share of the words that are dropped or replaced, drawn from their audio
DROPPED = 0.3  # share of these that are dropped
CLOSURE = 16  # frames that a word may be silent, as before the release of a stop
LONGEST = 110  # frames of a word
NAMES = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")


def joined(words):
    """Return the words without their leading space."""
    return [attrs.evolve(word, text=word.text.strip()) for word in words]


def hello(words):
    """Return hello for every word."""
    return [attrs.evolve(word, text=" hello") for word in words]


def every_second(words):
    """Return every second word."""
    return words[::2]


def late(words):
    """Return the words 0.2 s later."""
    return [word.shifted(0.2) for word in words]


def in_frames(words):
    """Return the words with times in frames instead of seconds."""
    return [attrs.evolve(word, start=100 * word.start, end=100 * word.end) for word in words]


FAULTS = {"joined": joined, "hello": hello, "every-second": every_second, "late": late}
FAULTS |= {"in-frames": in_frames, "sound": list}


def load(spec, model):
    """Load the variant that the name of *spec* ends in."""
    if model != "small":
        raise ModelNotFoundError(f"{spec.name} has no model {model!r}; use: --model small")
    variant = spec.name.removeprefix("matcher-").removeprefix("undeclared-")
    engine = partial(transcribe, FAULTS[variant])
    return LoadedBackend(spec, engine, open_stream=open_stream, warmup=warmup)


def open_stream(engine, config, calls):
    """Return a function that creates a recognizer."""
    return partial(LocalAgreementRecognizer, calls.wrap(engine), language=config.language)


def warmup(engine, calls):
    """Transcribe a second of silence."""
    calls.wrap(engine)(np.zeros(SAMPLE_RATE, dtype=np.float32), prompt="", language=None)


def transcribe(fault, audio, *, prompt, language):
    """Return the words of *audio*, changed by *fault*."""
    del prompt
    words = _best_words(audio, _islands(audio))
    return Hypothesis(words=tuple(fault(words)), language=language)


def _islands(audio):
    """Return the [start, end] of each stretch of loud frames, in frames."""
    padded = np.concatenate([audio, np.zeros(-len(audio) % HOP, dtype=np.float32)])
    is_loud = np.abs(padded.reshape(-1, HOP)).max(axis=1) > LOUD
    islands = []
    for start, end in np.flatnonzero(np.diff(is_loud, prepend=False, append=False)).reshape(-1, 2):
        if islands and start - islands[-1][1] < 4:
            islands[-1][1] = int(end)
        else:
            islands.append([int(start), int(end)])
    return islands


def _best_words(audio, islands):
    """Return the words of the cheapest way to form words of neighbouring islands."""
    best = [(0.0, [])]
    for end in range(1, len(islands) + 1):
        options = [(best[-1][0] + 9.0, best[-1][1])]  # an island that is not a word
        for first in range(max(0, end - 4), end):
            group = islands[first:end]
            gaps = [b[0] - a[1] for a, b in pairwise(group)]
            if group[-1][1] - group[0][0] <= LONGEST and max(gaps, default=0) <= CLOSURE:
                cost, words = _match(audio, group[0][0] * HOP, group[-1][1] * HOP)
                options.append((best[first][0] + cost, best[first][1] + words))
        best.append(min(options, key=lambda option: option[0]))
    return best[-1][1]


def _match(audio, start, end):
    """Return the cost of these samples as a word, and the word unless they are too short."""
    piece = audio[start:end]
    seconds = (end - start) / SAMPLE_RATE
    if seconds < 0.05:
        return 0.2, []
    features, texts = _templates()
    distances = np.square(features - _spectrum(piece)).mean(axis=1)
    text = texts[int(distances.argmin())]
    seed = hashlib.blake2b(np.round(piece[800:-800] * 99).tobytes(), digest_size=8).digest()
    rng = np.random.default_rng(int.from_bytes(seed, "big"))
    cost = float(distances.min()) * seconds + 0.1
    if rng.random() < ERRORS:
        if rng.random() < DROPPED:
            return cost, []
        text = NAMES[int(rng.integers(10))]
    return cost, [Word(start / SAMPLE_RATE, end / SAMPLE_RATE, f" {text}")]


@lru_cache(maxsize=1)
def _templates():
    """Return the spectra of the spoken digits that ship with wlk-core, and their texts."""
    spectra, texts = [], []
    for name in clip_names():
        clip = load_clip(name)
        for word in clip.words:
            audio = clip.audio[round(word.start * SAMPLE_RATE) : round(word.end * SAMPLE_RATE)]
            is_loud = np.abs(audio) > LOUD
            first, last = int(is_loud.argmax()), len(audio) - int(is_loud[::-1].argmax())
            spectra.append(_spectrum(audio[first // HOP * HOP : last]))
            texts.append(word.text.strip())
    return np.array(spectra), texts


def _spectrum(audio):
    """Return the log power of BANDS bands in FRAMES frames, without its mean."""
    padded = np.concatenate([audio, np.zeros(WINDOW, dtype=np.float32)])
    frames = np.lib.stride_tricks.sliding_window_view(padded, WINDOW)[: max(1, len(audio)) : HOP]
    power = np.abs(np.fft.rfft(frames * np.hanning(WINDOW))) ** 2
    edges = np.unique(np.geomspace(2, power.shape[1], BANDS + 1).astype(int))
    bands = np.log(np.add.reduceat(power, edges[:-1], axis=1) + 1e-4)
    positions = np.linspace(0, len(bands) - 1, FRAMES)
    low = positions.astype(int)
    high = np.minimum(low + 1, len(bands) - 1)
    resampled = bands[low] + (bands[high] - bands[low]) * (positions - low)[:, None]
    return (resampled - resampled.mean()).ravel()
