"""Audio for the rules: speech that suits the model, and noise."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Literal

import attrs
import numpy as np

from wlk_conformance.compare import words_of
from wlk_conformance.scripted import DIGIT_WORDS
from wlk_conformance.testing import (
    CELL_SECONDS,
    CodedToken,
    connected_digits,
    encode,
    noise,
    partition,
    script_words,
    silence,
)
from wlk_core import SAMPLE_RATE
from wlk_core.errors import OptionError
from wlk_core.streaming import Word
from wlk_frameworks.recordings import read_recording

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from numpy.typing import NDArray

#: Coded audio, digits, recordings, or digits that the model may not recognise.
Kind = Literal["coded", "digits", "open", "unknown"]
AUDIO = (".wav", ".flac")  # formats of recordings
WORD_CELLS = 3  # cells of 80 ms in a coded word: 0.24 s, as long as a spoken digit
TRACE = 0.0005  # standard deviation of the noise under spoken digits, as in any recording


@attrs.frozen(kw_only=True, eq=False)
class Stimulus:
    """
    Audio, the words spoken in it (times from its start) and a recipe that makes it again.

    A recording of open words is one `Word` with all of its text, because the times of the single
    words are unknown.
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
        """The words, joined, without a leading space."""
        return "".join(word.text for word in self.words).lstrip()

    @property
    def spoken(self) -> list[str]:
        """The words without case and punctuation."""
        return words_of(self.words)

    def chunks(self, seconds: float) -> list[NDArray[np.float32]]:
        """Return the audio in pieces of *seconds*."""
        return list(partition(self.audio, seconds))

    def scaled(self, peak: float) -> Stimulus:
        """Return the same audio at another level, with the loudest sample at *peak*."""
        loudest = max(1e-6, float(np.abs(self.audio).max(initial=0.0)))
        audio = self.audio * np.float32(peak / loudest)
        return attrs.evolve(self, audio=audio, recipe=f"{self.recipe}, with a peak of {peak:g}")

    def with_zeros(self) -> Stimulus:
        """Return the same words with digital silence around them."""
        audio = np.zeros_like(self.audio)
        for word in self.words:
            span = slice(round(word.start * SAMPLE_RATE), round(word.end * SAMPLE_RATE))
            audio[span] = self.audio[span]
        return attrs.evolve(self, audio=audio, recipe=f"{self.recipe}, zeros around the words")

    def cut(self, seconds: float) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Return the audio before and after *seconds*."""
        sample = round(seconds * SAMPLE_RATE)
        return self.audio[:sample], self.audio[sample:]


@attrs.frozen(kw_only=True)
class Manner:
    """
    How words are spoken: pauses between them and silence around them, in seconds.

    `burst` words follow each other closely before each gap.
    """

    seed: int = 0
    gap: tuple[float, float] = (0.1, 0.3)
    lead: float = 0.2
    tail: float = 0.3
    digits: tuple[int, ...] | None = None
    burst: int = 1

    def __str__(self) -> str:
        digits = f", digits={self.digits}" if self.digits else ""
        burst = f", burst={self.burst}" if self.burst > 1 else ""
        around = f"lead={self.lead}, tail={self.tail}"
        return f"seed={self.seed}, gap={self.gap}, {around}{digits}{burst}"


@attrs.frozen
class CodedSpeech:
    """Coded audio: text and times are known exactly, and a scripted engine recognises all of it."""

    kind: ClassVar[Kind] = "coded"
    vocabulary: Sequence[str] = DIGIT_WORDS

    def speech(self, count: int, **how: Any) -> Stimulus:
        """Return coded words in whole cells; see Manner."""
        manner = Manner(**how)
        rng = np.random.default_rng(manner.seed)
        low, high = (round(seconds / CELL_SECONDS) for seconds in manner.gap)
        digits = manner.digits
        cell = round(manner.lead / CELL_SECONDS)
        tokens: list[CodedToken] = []
        for index in range(count):
            digit = int(rng.integers(10)) if digits is None else digits[index % len(digits)]
            tokens.append(CodedToken(digit % len(self.vocabulary) + 1, cell, WORD_CELLS))
            gap = int(rng.integers(low, high + 1)) if (index + 1) % manner.burst == 0 else 0
            is_last = index == count - 1
            cell += WORD_CELLS if is_last else WORD_CELLS + gap
        return self.script(
            tokens,
            cells=cell + round(manner.tail / CELL_SECONDS),
            recipe=f"CodedSpeech().speech({count}, {manner})",
        )

    def script(
        self, tokens: Sequence[CodedToken], *, cells: int | None = None, recipe: str | None = None
    ) -> Stimulus:
        """Return the audio of exactly *tokens*."""
        listed = ", ".join(f"{token.id}@{token.start}+{token.cells}" for token in tokens)
        return Stimulus(
            audio=encode(tokens, cells=cells),
            words=script_words(tokens, self.vocabulary),
            recipe=recipe or f"coded tokens id@cell+cells: {listed}",
        )


@attrs.frozen
class DigitSpeech:
    """Spoken digits in the project's own synthetic voices."""

    kind: Kind = "digits"

    def speech(self, count: int, **how: Any) -> Stimulus:
        """Return connected digits over a trace of noise; see Manner."""
        manner = Manner(**how)
        clip = connected_digits(count, **attrs.asdict(manner))
        trace = noise(clip.seconds, level=TRACE, seed=manner.seed)[: len(clip.audio)]
        return Stimulus(
            audio=np.clip(clip.audio + trace, -1.0, 1.0).astype(np.float32),
            words=clip.words,
            recipe=f"connected_digits({count}, {manner})",
        )


@attrs.frozen
class OpenSpeech:
    """Recordings of whole sentences, sorted by their number of words."""

    kind: ClassVar[Kind] = "open"
    recordings: tuple[Stimulus, ...]

    @classmethod
    def read(cls, folder: Path) -> OpenSpeech:
        """
        Return the recordings of *folder*: WAV or FLAC files, each with a .txt of its words.

        Raises:
            OptionError: there are none.

        """
        recordings = []
        for path in sorted(path for end in AUDIO for path in folder.glob(f"*{end}")):
            script = path.with_suffix(".txt")
            if script.exists() and (text := script.read_text(encoding="utf-8").strip()):
                audio = read_recording(path)
                words = (Word(0.0, len(audio) / SAMPLE_RATE, f" {text}"),)
                recordings.append(Stimulus(audio=audio, words=words, recipe=path.name))
        if not recordings:
            raise OptionError(
                f"{folder} contains no recordings; expected .wav or .flac files, each with a .txt "
                "of its words"
            )
        return cls(tuple(sorted(recordings, key=lambda recording: len(recording.spoken))))

    def speech(self, count: int, **how: Any) -> Stimulus:
        """
        Return whole recordings with at least *count* words in all, two or more if *count* >= 4.

        None has more than *count* words, except the shortest.  `digits` are positions.
        """
        manner = Manner(**how)
        rng = np.random.default_rng(manner.seed)
        fitting = sum(len(each.spoken) <= count for each in self.recordings)
        drawn = rng.permutation(max(1, fitting))
        chosen = [self.recordings[digit % len(self.recordings)] for digit in manner.digits or ()]
        while sum(len(each.spoken) for each in chosen) < count or len(chosen) < min(count // 2, 2):
            chosen.append(self.recordings[drawn[len(chosen) % len(drawn)]])
        pieces = [silence(manner.lead)]
        words: list[Word] = []
        end = manner.lead
        for recording in chosen:
            (word,) = recording.words
            words.append(word.shifted(end))
            pieces += [recording.audio, silence(rng.uniform(*manner.gap))]
            end = sum(map(len, pieces)) / SAMPLE_RATE
        audio = np.concatenate([*pieces[:-1], silence(manner.tail)])
        names = ", ".join(recording.recipe for recording in chosen)
        return Stimulus(
            audio=audio + noise(len(audio) / SAMPLE_RATE, level=TRACE, seed=manner.seed),
            words=tuple(words),
            recipe=f"{names} with {manner}",
        )


def sustained(stimulus: Stimulus, seconds: float) -> Stimulus:
    """Return the loudest tenth of a second of *stimulus*, back and forth for *seconds*."""
    audio, size = stimulus.audio, SAMPLE_RATE // 10
    energy = np.convolve(np.square(audio), np.ones(size), mode="valid")
    piece = audio[(first := int(energy.argmax())) : first + size]
    both = np.concatenate([piece, piece[::-1]])  # without a step where it repeats
    return Stimulus(
        audio=np.resize(both, round(seconds * SAMPLE_RATE)),
        recipe=f"the loudest 0.1 s of {stimulus.recipe}, back and forth for {seconds:g} s",
    )


def joined(stimuli: Sequence[Stimulus]) -> Stimulus:
    """Return *stimuli* one after another."""
    words: list[Word] = []
    seconds = 0.0
    for stimulus in stimuli:
        words += [word.shifted(seconds) for word in stimulus.words]
        seconds += stimulus.seconds
    return Stimulus(
        audio=np.concatenate([stimulus.audio for stimulus in stimuli]),
        words=tuple(words),
        recipe=", then ".join(stimulus.recipe for stimulus in stimuli),
    )


SpeechSource = CodedSpeech | DigitSpeech | OpenSpeech  #: the one that suits a model


def bad_audio(samples: int = 1600) -> dict[str, Any]:
    """Return audio that a stream must refuse, keyed by what is wrong with it."""
    good = np.full(samples, 0.125, dtype=np.float32)
    types = ("int8", "int16", "int32", "uint8", "float16", "float64", "complex64", "bool", ">f4")
    bad: dict[str, Any] = {f"samples of type {name}": good.astype(name) for name in types}
    for value in (np.nan, np.inf, -np.inf):
        for where, place in (("start", 0), ("middle", samples // 2), ("end", -1)):
            bad[f"{value} at the {where}"] = audio = good.copy()
            audio[place] = value
    return {
        **bad,
        "two channels": np.stack([good, good]),
        "two columns": np.stack([good, good], axis=1),
        "one row": good[None],
        "one column": good[:, None],
        "int16 without samples": good[:0].astype(np.int16),
        "two columns without samples": np.stack([good[:0], good[:0]], axis=1),
        "a number": good[0],
        "a list": good.tolist(),
        "bytes": good.tobytes(),
        "samples of 1e30": np.full_like(good, 1e30),
        "samples of -1e30": np.full_like(good, -1e30),
        "integers that were not scaled": (np.arange(samples) % 2000 - 1000).astype(np.float32),
    }


def white_noise(seconds: float, *, seed: int = 0, level: float = 0.01) -> Stimulus:
    """Return seeded white noise."""
    return Stimulus(
        audio=noise(seconds, seed=seed, level=level),
        recipe=f"noise({seconds}, seed={seed}, level={level})",
    )
