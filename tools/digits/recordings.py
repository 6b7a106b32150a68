"""Load recordings of spoken digits as clips, trimmed, levelled and grouped by voice."""

from __future__ import annotations

from collections import defaultdict
import re
from typing import TYPE_CHECKING, Literal

from attrs import frozen
import numpy as np
from numpy.typing import NDArray
from scipy.io import wavfile
from scipy.signal import resample_poly

if TYPE_CHECKING:
    from pathlib import Path
    from typing import BinaryIO

Audio = NDArray[np.float32]

SAMPLE_RATE = 16_000
HELD_OUT_TAKES = 5  # recordings 0-4 of each digit and speaker are never trained on
TRIM_DECIBELS = -30.0  # relative to the loudest 30 ms; quieter audio at either end is not the word
CLIP_PEAK = 0.5
_NAME = re.compile(r"(?P<digit>\d)_(?P<speaker>[^_]+)_(?P<take>\d+)\.wav")
_FRAME_SAMPLES = SAMPLE_RATE // 100
_SMOOTHED_FRAMES = 3


@frozen(kw_only=True)
class Voice:
    """A speaker, with takes of each digit, trimmed to the word."""

    name: str
    takes: tuple[tuple[Audio, ...], ...]
    kind: Literal["recorded", "disguised", "synthetic"] = "recorded"

    def draw(self, digit: int, rng: np.random.Generator) -> Audio:
        """Return a random take of a digit."""
        takes = self.takes[digit]
        return takes[rng.integers(len(takes))]


def trim(audio: Audio, decibels: float = TRIM_DECIBELS) -> Audio:
    """Cut off both ends what is quieter than *decibels*, relative to the loudest part."""
    frames = len(audio) // _FRAME_SAMPLES
    if frames < _SMOOTHED_FRAMES:
        return audio
    energy = np.square(audio[: frames * _FRAME_SAMPLES].reshape(frames, _FRAME_SAMPLES)).mean(
        axis=1
    )
    energy = np.convolve(energy, np.full(_SMOOTHED_FRAMES, 1 / _SMOOTHED_FRAMES), "same")
    loud = np.flatnonzero(energy > energy.max() * 10 ** (decibels / 10))
    return audio[loud[0] * _FRAME_SAMPLES : (loud[-1] + 1) * _FRAME_SAMPLES]


def load_recordings(
    folder: Path,
    *,
    held_out: bool,
    without: str | None = None,
    decibels: float = TRIM_DECIBELS,
) -> list[Voice]:
    """Read `{digit}_{speaker}_{take}.wav` files into voices.

    Args:
        folder: where the recordings are.
        held_out: True for the takes that are never trained on, False for all the others.
        without: a speaker to leave out.
        decibels: level relative to the loudest part at which a word begins and ends, see `trim`.

    Raises:
        FileNotFoundError: the folder has no such recording.
    """
    takes: dict[str, list[list[Audio]]] = defaultdict(lambda: [[] for _ in range(10)])
    for path in sorted(folder.glob("*.wav")):
        name = _NAME.fullmatch(path.name)
        if name is None or name["speaker"] == without:
            continue
        if (int(name["take"]) < HELD_OUT_TAKES) is held_out:
            takes[name["speaker"]][int(name["digit"])].append(_read(path, decibels))
    if not takes:
        raise FileNotFoundError(
            f"expected {{digit}}_{{speaker}}_{{take}}.wav files in {folder}, found none to use"
        )
    return [
        Voice(name=speaker, takes=tuple(map(tuple, digits))) for speaker, digits in takes.items()
    ]


def read_wave(source: Path | BinaryIO) -> Audio:
    """Return the samples of a WAV file at 16 kHz, channels mixed.

    Raises:
        ValueError: it is not a WAV file, or its samples are of an unsupported kind.
    """
    rate, samples = wavfile.read(source)
    scale = {"int16": 2**15, "int32": 2**31, "float32": 1}.get(samples.dtype.name)
    if scale is None:
        raise ValueError(f"expected 16-bit, 32-bit or float samples, got {samples.dtype}")
    audio = samples.reshape(len(samples), -1).mean(axis=1) / scale
    common = np.gcd(SAMPLE_RATE, rate)
    return resample_poly(audio, SAMPLE_RATE // common, rate // common).astype(np.float32)


def _read(path: Path, decibels: float) -> Audio:
    clip = trim(read_wave(path), decibels)
    return clip * np.float32(CLIP_PEAK / (np.abs(clip).max() + 1e-6))
