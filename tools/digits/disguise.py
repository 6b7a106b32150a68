"""Disguise voices: resynthesise recorded digits as if spoken by other people.

The WORLD vocoder (Morise, Yokomori and Ozawa 2016) takes each recording apart into pitch, spectral
envelope and breath, which are changed and put together again. A handful of recorded speakers thus
becomes a crowd, which a recogniser needs for speakers it was never trained on. The voices of
festival and Pico each come from one person, and are disguised too.

python tools/digits/disguise.py --recordings DIR --output FILE [--prompts DIR] [--voices FILE]
"""

from __future__ import annotations

import argparse
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from attrs import frozen
import numpy as np
from recordings import CLIP_PEAK, SAMPLE_RATE, Audio, Voice, load_recordings, trim
from rng import happens
from voices import load_voices

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from numpy.typing import NDArray

TAKES = 4  # of each digit, drawn anew for every disguise
PROMPT_DISGUISES = 30  # of each speaker of prompts: there is one take of each digit
PERSON_DISGUISES = 12  # of each voice of festival and Pico
_PERSONAL = ("festival", "pico")
FAINT_DECIBELS = -42.0  # for trimming: a consonant as faint as that may become loud in a disguise
_JOBS = 2
_LEAST = 1e-12  # lowest spectral power
_MARK = "~"  # between the name of a voice and the number of its disguise


@frozen(kw_only=True)
class Disguise:
    """What is changed of a voice; a ratio of 1.0 changes nothing.

    Attributes:
        pitch: ratio of fundamental frequencies.
        melody: ratio of the movements of the pitch around its mean; 0.0 is a monotone.
        low, high: ratio of formant frequencies below 1.5 kHz and above.
        tilt: coefficients of a cosine series, in nepers of power, laid over the spectrum.
        consonants: decibels by which unvoiced sounds are louder.
        breath: share of the way from the voice as it is to a whisper.
        tempo: ratios of speed at equal distances along the word.
    """

    pitch: float
    melody: float
    low: float
    high: float
    tilt: tuple[float, ...]
    consonants: float
    breath: float
    tempo: tuple[float, ...]


def draw_disguise(rng: np.random.Generator) -> Disguise:
    """Draw a disguise, as anybody from a child to a giant."""
    size = rng.uniform(-0.2, 0.22)
    return Disguise(
        pitch=float(np.exp(rng.normal(2.2 * size, 0.25))),
        melody=float(rng.uniform(0.3, 2.0)),
        low=float(np.exp(size + rng.normal(0, 0.06))),
        high=float(np.exp(size + rng.normal(0, 0.05))),
        tilt=tuple(float(rng.normal(0, 0.9 / order)) for order in range(1, 7)),
        consonants=float(np.clip(rng.normal(5, 8), -10, 22)),
        breath=float(rng.uniform(0, 0.5)) if happens(0.3, rng) else 0.0,
        tempo=tuple(float(np.exp(rate)) for rate in rng.normal(0, 0.22, 4)),
    )


def disguise(audio: Audio, change: Disguise) -> Audio:
    """Return a clip at 16 kHz disguised by *change*, whose tempo determines the length."""
    import pyworld  # noqa: PLC0415 - only this tool needs it, not those that read its file

    samples = audio.astype(np.float64)
    coarse, times = pyworld.dio(samples, SAMPLE_RATE)
    pitch = pyworld.stonemask(samples, coarse, times, SAMPLE_RATE)
    envelope = pyworld.cheaptrick(samples, pitch, times, SAMPLE_RATE)
    breath = pyworld.d4c(samples, pitch, times, SAMPLE_RATE)
    frames = _walk(len(times), change.tempo)
    envelope, breath = _along(envelope, frames), _along(breath, frames)
    voiced = pitch[np.round(frames).astype(int)]
    bins = _warp(envelope.shape[1], change.low, change.high)
    levels = _across(np.log(np.maximum(envelope, _LEAST)), bins) + _tilt(len(bins), change.tilt)
    levels += np.log(10) / 10 * change.consonants * _softly(voiced == 0)[:, None]
    breath = np.clip(_across(breath, bins), 0.0, 1.0)
    speech = pyworld.synthesize(
        _sing(voiced, change),
        np.ascontiguousarray(np.exp(levels)),
        np.ascontiguousarray(breath + (1 - breath) * change.breath),
        SAMPLE_RATE,
    ).astype(np.float32)
    return speech * np.float32(CLIP_PEAK / (np.abs(speech).max() + 1e-6))


def _sing(pitch: NDArray[np.float64], change: Disguise) -> NDArray[np.float64]:
    voiced = pitch > 0
    if not voiced.any():
        return pitch
    mean = np.exp(np.log(pitch[voiced]).mean())
    moved = np.clip(pitch / mean, 1e-3, None) ** change.melody * mean * change.pitch
    return np.where(voiced, np.clip(moved, 50.0, 600.0), 0.0)


def _softly(chosen: NDArray[np.bool_]) -> NDArray[np.float64]:
    """Return 1.0 for the frames chosen and 0.0 for others, with ramps of 25 ms between them."""
    ramp = np.hanning(7)[1:-1]
    padded = np.pad(chosen.astype(np.float64), len(ramp) // 2, mode="edge")
    return np.convolve(padded, ramp / ramp.sum(), "valid")


def _walk(frames: int, tempo: tuple[float, ...]) -> NDArray[np.float64]:
    """Return which input frame each output frame shows."""
    rates = np.interp(np.linspace(0, len(tempo) - 1, frames), np.arange(len(tempo)), tempo)
    reached = np.concatenate([[0.0], np.cumsum(1 / rates)])  # output time of each input frame
    return np.interp(np.arange(max(int(reached[-1]), 2)), reached, np.arange(frames + 1)).clip(
        0, frames - 1
    )


def _warp(bins: int, low: float, high: float) -> NDArray[np.float64]:
    """Return which frequency bin each bin takes its energy from: a line with a bend at 1.5 kHz."""
    bend = 1500.0 / (SAMPLE_RATE / 2) * (bins - 1)
    warped = [0.0, bend * low, bend * low + (bins - 1 - bend) * high]
    return np.interp(np.arange(bins), warped, [0.0, bend, bins - 1.0])


def _tilt(bins: int, coefficients: tuple[float, ...]) -> NDArray[np.float64]:
    angles = np.linspace(0, np.pi, bins)
    return sum(
        (size * np.cos(order * angles) for order, size in enumerate(coefficients, start=1)),
        np.zeros(bins),
    )


def _along(table: NDArray[np.float64], rows: NDArray[np.float64]) -> NDArray[np.float64]:
    """Interpolate between the rows of a table."""
    first = np.minimum(rows.astype(int), len(table) - 2)
    share = (rows - first)[:, None]
    return table[first] * (1 - share) + table[first + 1] * share


def _across(table: NDArray[np.float64], columns: NDArray[np.float64]) -> NDArray[np.float64]:
    return _along(table.T, columns).T


def load_disguised(path: Path, *, without: str | None = None) -> list[Voice]:
    """Load disguised voices, except those of the speaker *without*."""
    takes: dict[str, list[list[Audio]]] = {}
    with np.load(path) as stored:
        for name in stored.files:
            voice, digit, _ = name.split("/")
            if voice.split(_MARK)[0] != without:
                clip = stored[name].astype(np.float32) / np.iinfo(np.int16).max
                takes.setdefault(voice, [[] for _ in range(10)])[int(digit)].append(clip)
    return [
        Voice(name=name, takes=tuple(map(tuple, digits)), kind="disguised")
        for name, digits in takes.items()
    ]


def _disguised(voice: Voice, seed: int) -> Iterator[tuple[str, NDArray[np.int16]]]:
    rng = np.random.default_rng([seed, *voice.name.encode()])
    change = draw_disguise(rng)
    for digit, takes in enumerate(voice.takes):
        for take in rng.choice(len(takes), min(TAKES, len(takes)), replace=False):
            clip = trim(disguise(takes[take], change))
            name = f"{voice.name}{_MARK}{seed}/{digit}/{take}"
            yield name, np.round(clip * np.iinfo(np.int16).max).astype(np.int16)


def _all_disguised(job: tuple[Voice, int]) -> list[tuple[str, NDArray[np.int16]]]:
    return list(_disguised(*job))


def by_person(voices: Iterable[Voice]) -> Iterator[Voice]:
    """Collect the variants of each voice of festival or Pico as takes of one person."""
    people: dict[str, list[Voice]] = {}
    for voice in voices:
        engine, person, *_ = voice.name.split(":")
        if engine in _PERSONAL:
            people.setdefault(person, []).append(voice)
    for person, variants in people.items():
        takes = (tuple(voice.takes[digit][0] for voice in variants) for digit in range(10))
        yield Voice(name=person, takes=tuple(takes), kind="synthetic")


def main() -> None:
    """Disguise every speaker many times, without the held-out takes."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--recordings", type=Path, required=True)
    parser.add_argument("--prompts", type=Path, help="output of prompts.py")
    parser.add_argument("--voices", type=Path, help="output of voices.py")
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--disguises", type=int, default=50, help="number per recorded speaker")
    arguments = parser.parse_args()
    load = partial(load_recordings, held_out=False, decibels=FAINT_DECIBELS)
    crowd = [(voice, arguments.disguises) for voice in load(arguments.recordings)]
    if arguments.prompts:
        crowd += [(voice, PROMPT_DISGUISES) for voice in load(arguments.prompts)]
    if arguments.voices:
        people = by_person(load_voices(arguments.voices)[0])
        crowd += [(voice, PERSON_DISGUISES) for voice in people]
    jobs = [(voice, seed) for voice, times in crowd for seed in range(times)]
    with ProcessPoolExecutor(_JOBS) as pool:
        clips = [clip for clips in pool.map(_all_disguised, jobs) for clip in clips]
        np.savez_compressed(arguments.output, **dict(clips))


if __name__ == "__main__":
    main()
