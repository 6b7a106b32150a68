"""What the rules feed a backend: audio whose words are known as far as its model allows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, Protocol

import attrs
import numpy as np

from wlk_conformance.scripted.engine import DIGIT_WORDS
from wlk_conformance.seams import SupportsCodedAudio
from wlk_core import SAMPLE_RATE
from wlk_core.testing import (
    CELL_SECONDS,
    CodedToken,
    connected_digits,
    encode,
    noise,
    partition,
    script_words,
    silence,
    tone,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from wlk_core import Backend
    from wlk_core.streaming import Word

__all__ = [
    "CodedMaterial",
    "DigitMaterial",
    "Fed",
    "Material",
    "choose_material",
    "hiss",
    "pause",
    "tones",
]

WORD_CELLS = 3  # cells of 80 ms a coded word lasts: 0.24 s, a spoken digit


@attrs.frozen(kw_only=True, eq=False)
class Fed:
    """
    Audio, the words said in it (seconds from its start) and how to make it again.

    Where the model is unknown the words are what an English listener hears; whether the model
    hears them is not for a rule of the contract tier to say.
    """

    audio: NDArray[np.float32]
    words: tuple[Word, ...] = ()
    recipe: str

    @property
    def seconds(self) -> float:
        """The length of the audio."""
        return len(self.audio) / SAMPLE_RATE

    @property
    def text(self) -> str:
        """The words, joined and without the first one's space."""
        return "".join(word.text for word in self.words).lstrip()

    def chunks(self, seconds: float) -> list[NDArray[np.float32]]:
        """Return the audio in pieces of *seconds*."""
        return list(partition(self.audio, seconds))

    def cut(self, seconds: float) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Return the audio before and from *seconds*."""
        sample = round(seconds * SAMPLE_RATE)
        return self.audio[:sample], self.audio[sample:]


class Material(Protocol):
    """A source of speech that suits a model."""

    @property
    def kind(self) -> Literal["coded", "digits", "unknown"]:
        """Coded audio, digits for a model that knows them, or digits for any other."""
        ...

    @property
    def knows_words(self) -> bool:
        """Whether the model hears what is said: an empty transcript is then a failure."""
        ...

    def speech(
        self,
        count: int,
        *,
        seed: int = 0,
        gap: tuple[float, float] = (0.1, 0.3),
        lead: float = 0.2,
        tail: float = 0.3,
        digits: tuple[int, ...] | None = None,
    ) -> Fed:
        """Return *count* spoken digits, drawn from *seed* or given, and the pauses around them."""
        ...


@attrs.frozen
class CodedMaterial:
    """Coded audio: text and times are known exactly."""

    vocabulary: Sequence[str] = DIGIT_WORDS

    @property
    def kind(self) -> Literal["coded", "digits", "unknown"]:
        """Coded audio."""
        return "coded"

    @property
    def knows_words(self) -> bool:
        """A scripted engine hears everything."""
        return True

    def speech(
        self,
        count: int,
        *,
        seed: int = 0,
        gap: tuple[float, float] = (0.1, 0.3),
        lead: float = 0.2,
        tail: float = 0.3,
        digits: tuple[int, ...] | None = None,
    ) -> Fed:
        """Return coded words in whole cells."""
        rng = np.random.default_rng(seed)
        low, high = (round(seconds / CELL_SECONDS) for seconds in gap)
        cell = round(lead / CELL_SECONDS)
        tokens: list[CodedToken] = []
        for index in range(count):
            digit = int(rng.integers(10)) if digits is None else digits[index % len(digits)]
            tokens.append(CodedToken(digit % len(self.vocabulary) + 1, cell, WORD_CELLS))
            cell += WORD_CELLS + int(rng.integers(low, high + 1)) * (index < count - 1)
        return self.script(
            tokens,
            cells=cell + round(tail / CELL_SECONDS),
            recipe=f"coded digits: count={count} seed={seed} gap={gap} lead={lead} tail={tail}"
            + (f" digits={digits}" if digits else ""),
        )

    def script(
        self, tokens: Sequence[CodedToken], *, cells: int | None = None, recipe: str | None = None
    ) -> Fed:
        """Return exactly *tokens*."""
        places = ", ".join(f"{token.id}@{token.start}+{token.cells}" for token in tokens)
        return Fed(
            audio=encode(tokens, cells=cells),
            words=script_words(tokens, self.vocabulary),
            recipe=recipe or f"coded tokens id@cell+cells: {places}",
        )


@attrs.frozen
class DigitMaterial:
    """Spoken digits in the project's own synthetic voices."""

    kind: Literal["coded", "digits", "unknown"] = "digits"

    @property
    def knows_words(self) -> bool:
        """Only the digits checkpoints are sworn to hear digits."""
        return self.kind == "digits"

    def speech(
        self,
        count: int,
        *,
        seed: int = 0,
        gap: tuple[float, float] = (0.1, 0.3),
        lead: float = 0.2,
        tail: float = 0.3,
        digits: tuple[int, ...] | None = None,
    ) -> Fed:
        """Return connected digits over a trace of noise, as any recording has it."""
        clip = connected_digits(count, seed=seed, gap=gap, lead=lead, tail=tail, digits=digits)
        hiss = noise(clip.seconds, level=0.0005, seed=seed)[: len(clip.audio)]
        return Fed(
            audio=np.clip(clip.audio + hiss, -1.0, 1.0).astype(np.float32),
            words=clip.words,
            recipe=f"connected_digits({count}, seed={seed}, gap={gap}, lead={lead}, tail={tail}"
            + (f", digits={digits})" if digits else ")"),
        )


def choose_material(backend: Backend, model: str | None) -> Material:
    """Return coded audio for a scripted engine, and digits for any other model."""
    if isinstance(backend, SupportsCodedAudio):
        return CodedMaterial(vocabulary=backend.vocabulary)
    return DigitMaterial(kind="digits" if model == "digits" else "unknown")


def pause(seconds: float) -> Fed:
    """Return digital silence."""
    return Fed(audio=silence(seconds), recipe=f"{seconds} s of zeros")


def hiss(seconds: float, *, seed: int = 0, level: float = 0.01) -> Fed:
    """Return seeded white noise."""
    return Fed(
        audio=noise(seconds, seed=seed, level=level),
        recipe=f"noise({seconds}, seed={seed}, level={level})",
    )


def tones(seconds: float) -> Fed:
    """Return three pure tones one after the other: sound, and no word of any vocabulary."""
    third = seconds / 3
    pieces = [tone(third, hertz=hertz, level=0.05) for hertz in (220.0, 440.0, 1000.0)]
    return Fed(audio=np.concatenate(pieces), recipe=f"{seconds} s of tones at 220, 440, 1000 Hz")
