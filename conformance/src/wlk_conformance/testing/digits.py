"""Clips of connected digits in the project's own synthetic voices, with exact word times."""

from __future__ import annotations

from functools import lru_cache
import json
from pathlib import Path
from typing import TYPE_CHECKING

import attrs
import numpy as np

from wlk_core.processor import SAMPLE_RATE
from wlk_core.streaming.words import Word

if TYPE_CHECKING:
    from numpy.typing import NDArray

CLIPS = Path(__file__).parent / "clips"
#: The words of the clips, and of the scripted backend, each with the space before it.
DIGIT_WORDS = (
    " zero", " one", " two", " three", " four", " five", " six", " seven", " eight", " nine",
)  # fmt: skip
_CLOSE = 0.06  # seconds between the words of a burst
_FADE = 80  # samples (5 ms) of fade at either end of a word cut out of its clip


@attrs.frozen(eq=False)
class Clip:
    """Speech with known words: float32[n] at 16 kHz, and times in seconds from its start."""

    audio: NDArray[np.float32]
    words: tuple[Word, ...]

    @property
    def seconds(self) -> float:
        """The length of the audio."""
        return len(self.audio) / SAMPLE_RATE

    @property
    def text(self) -> str:
        """The words, joined."""
        return " ".join(word.text.strip() for word in self.words)


def clip_names() -> tuple[str, ...]:
    """Return the sorted names of the clips; "demo" is the recording of ``wlk-core demo``."""
    return tuple(sorted(path.stem for path in CLIPS.glob("*.json")))


def clip_path(name: str) -> Path:
    """Return the audio file of a clip."""
    return CLIPS / f"{name}.flac"


@lru_cache(maxsize=32)
def load_clip(name: str) -> Clip:
    """
    Return the clip *name*.

    Raises:
        FileNotFoundError: there is no such clip; see clip_names.

    """
    from wlk_frameworks.recordings import read_recording  # noqa: PLC0415 -- loads libsndfile

    description = json.loads(clip_path(name).with_suffix(".json").read_text(encoding="utf-8"))
    audio = read_recording(clip_path(name))
    audio.flags.writeable = False
    words = (
        Word(float(word["start"]), float(word["end"]), f" {word['text'].strip()}")
        for word in description["words"]
    )
    return Clip(audio, tuple(words))


def connected_digits(
    count: int,
    *,
    seed: int = 0,
    gap: tuple[float, float] = (0.05, 0.4),
    lead: float = 0.3,
    tail: float = 0.5,
    digits: tuple[int, ...] | None = None,
    burst: int = 1,
) -> Clip:
    """
    Return *count* digits spoken by one of the voices, with order and gaps drawn from *seed*.

    `gap` is the range of the pauses between words, `lead` and `tail` are the silence around them,
    in seconds.  `digits` fixes the words, and `burst` words follow each other closely before each
    gap.  Word times are exact.
    """
    rng = np.random.default_rng(seed)
    voices = _voices()
    voice = voices[sorted(voices)[int(rng.integers(len(voices)))]]
    pieces = [np.zeros(round(lead * SAMPLE_RATE), dtype=np.float32)]
    words: list[Word] = []
    position = len(pieces[0])
    for index in range(count):
        digit = int(rng.integers(10)) if digits is None else digits[index % len(digits)]
        spoken = voice[digit][int(rng.integers(len(voice[digit])))]
        drawn = rng.uniform(*gap) if (index + 1) % burst == 0 else _CLOSE
        pause = np.zeros(round(drawn * SAMPLE_RATE), dtype=np.float32)
        end = position + len(spoken)
        words.append(Word(position / SAMPLE_RATE, end / SAMPLE_RATE, DIGIT_WORDS[digit]))
        pieces += [spoken, pause]
        position = end + len(pause)
    pieces.append(np.zeros(round(tail * SAMPLE_RATE), dtype=np.float32))
    return Clip(np.concatenate(pieces), tuple(words))


@lru_cache(maxsize=1)
def _voices() -> dict[str, dict[int, list[NDArray[np.float32]]]]:
    """Return the spoken digits of every voice that speaks all ten, cut out of the clips."""
    spoken: dict[str, dict[int, list[NDArray[np.float32]]]] = {}
    for name in clip_names():
        voice = json.loads(clip_path(name).with_suffix(".json").read_text(encoding="utf-8"))
        clip = load_clip(name)
        for entry, word in zip(voice["words"], clip.words, strict=True):
            first, end = round(word.start * SAMPLE_RATE), round(word.end * SAMPLE_RATE)
            audio = clip.audio[first:end].copy()
            fade = np.linspace(0.0, 1.0, _FADE, dtype=np.float32)
            audio[:_FADE] *= fade
            audio[-_FADE:] *= fade[::-1]
            digit = DIGIT_WORDS.index(word.text)
            speaker = str(entry.get("voice", voice.get("voice", name)))
            spoken.setdefault(speaker, {}).setdefault(digit, []).append(audio)
    return {name: digits for name, digits in spoken.items() if len(digits) == len(DIGIT_WORDS)}
