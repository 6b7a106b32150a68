"""Measure a digits checkpoint through the backend that streams it, in float32.

    python tools/digits/evaluate.py --backend faster-whisper --recordings DIR
    python tools/digits/evaluate.py --backend qwen3-simul --model DIR --recordings DIR \
        --way policy=alignatt,language=en --way policy=alignatt
    python tools/digits/evaluate.py --backend voxtral-hf --recordings DIR \
        --way delay_ms=240 --way delay_ms=480

It prints word errors and errors of word times by the number of words in a stream and after every
lossy codec, and counts the words emitted for sounds without any.  `wlk-bench run` measures long
streams.
"""

from __future__ import annotations

import argparse
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from attrs import Factory, define
from lossy import CODECS, transcode
from mixing import Mixture, assemble
from negatives import NEGATIVES
import numpy as np
from recordings import SAMPLE_RATE, Voice, load_recordings
from rng import happens
from vocabulary import DIGITS

from wlk_conformance.compare import align, word_errors
from wlk_core import load_backend

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from mixing import Word
    from recordings import Audio

    from wlk_core import ASRToken, Backend

    Recogniser = Callable[[Audio], Sequence[ASRToken]]

LENGTHS = (6, 12, 25)  # words in a stream
CODED_WORDS = 12  # in a stream that goes through a codec
CHUNK_SAMPLES = SAMPLE_RATE // 4
NOISE = 3e-4  # under everything, as in any recording


@define
class Score:
    """Counts of a test, and signed errors of times in seconds."""

    words: int = 0
    errors: int = 0
    starts: list[float] = Factory(list)
    ends: list[float] = Factory(list)

    def add(self, words: Sequence[Word], tokens: Sequence[ASRToken]) -> None:
        """Count the result of a stream."""
        reference = [DIGITS[word.digit] for word in words]
        hypothesis = [token.text.strip() for token in tokens]
        self.words += len(words)
        self.errors += word_errors(reference, hypothesis)
        for index, other in align(reference, hypothesis):
            self.starts.append(tokens[other].start - words[index].start)
            self.ends.append(tokens[other].end - words[index].end)

    def summary(self) -> dict[str, float]:
        """Return the figures of a line, in percent and milliseconds."""
        figures = {"words": self.words, "wer": round(100 * self.errors / max(self.words, 1), 2)}
        for name, errors in (("start", self.starts), ("end", self.ends)):
            if errors:
                signed = 1000 * np.asarray(errors)
                figures[f"{name}_median"] = round(float(np.median(np.abs(signed))))
                figures[f"{name}_p90"] = round(float(np.percentile(np.abs(signed), 90)))
                figures[f"{name}_bias"] = round(float(np.median(signed)))
        return figures


def draw_stream(
    voices: Sequence[Voice], index: int, words: int, rng: np.random.Generator
) -> Mixture:
    """Speak random digits, a seventh of them twice in a row, over a trace of noise."""
    voice = voices[index % len(voices)]
    digits: list[int] = []
    while len(digits) < words:
        repeats = bool(digits) and happens(0.15, rng)
        digits.append(digits[-1] if repeats else int(rng.integers(10)))
    clips = [(digit, voice.draw(digit, rng)) for digit in digits]
    gaps = list(rng.uniform(0.05, 0.6, words))
    mixture = assemble(clips, gaps, lead=rng.uniform(0.1, 0.6), tail=0.5)
    noise = NOISE * rng.standard_normal(len(mixture.audio)).astype(np.float32)
    return Mixture(audio=mixture.audio + noise, words=mixture.words)


def transcribe(backend: Backend, audio: Audio, **options: Any) -> list[ASRToken]:
    """Stream *audio* in chunks of a quarter of a second and return its words."""
    stream = backend.create_processor(**options)
    tokens: list[ASRToken] = []
    for first in range(0, len(audio), CHUNK_SAMPLES):
        stream.insert_audio_chunk(audio[first : first + CHUNK_SAMPLES])
        tokens += stream.process_iter().committed
    tokens += stream.finish().committed
    stream.close()
    return tokens


def options_of(backend: Backend, way: str) -> dict[str, Any]:
    """Return the stream options in *way*, KEY=VALUE,..."""
    pairs = dict(pair.split("=", 1) for pair in way.split(","))
    language = pairs.pop("language", None)
    options = dict(backend.spec.split_options(pairs).stream)
    if language:
        options["language"] = language
    return options


def measure_speech(
    recogniser: Recogniser, voices: Sequence[Voice], words: int, streams: int
) -> dict[str, float]:
    """Score streams of *words* words each."""
    rng, score = np.random.default_rng(words), Score()
    for index in range(streams):
        mixture = draw_stream(voices, index, words, rng)
        score.add(mixture.words, recogniser(mixture.audio))
    return score.summary()


def measure_codecs(
    recogniser: Recogniser, voices: Sequence[Voice], streams: int
) -> dict[str, dict[str, float]]:
    """Score streams after every lossy codec at its lowest bit rate."""
    rng = np.random.default_rng(CODED_WORDS)
    mixtures = [draw_stream(voices, index, CODED_WORDS, rng) for index in range(streams)]
    results = {}
    for codec in CODECS:
        bit_rate, score = min(codec.bit_rates), Score()
        for mixture in mixtures:
            score.add(mixture.words, recogniser(transcode(mixture.audio, codec, bit_rate)))
        results[f"{codec.encoder}, {codec.rate} Hz, {bit_rate} bit/s"] = score.summary()
    return results


def measure_negatives(recogniser: Recogniser, sounds: int) -> dict[str, int]:
    """Count the words emitted for sounds without any, by kind."""
    counts = {}
    for name, make in NEGATIVES.items():
        rng = np.random.default_rng(len(name))
        counts[name] = 0
        for _ in range(sounds):
            sound = make(int(rng.uniform(1, 12) * SAMPLE_RATE), rng)
            counts[name] += len(recogniser(np.clip(sound, -1, 1).astype(np.float32)))
    return counts


def main() -> None:
    """Print a line for every test."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--backend", required=True)
    parser.add_argument("--model", default="digits", help="digits, or a folder of an export script")
    parser.add_argument("--way", action="append", metavar="KEY=VALUE,...",
                        help="options of streams, language=CODE too; may be repeated")  # fmt: skip
    parser.add_argument("--recordings", type=Path, required=True)
    parser.add_argument("--speaker", help="use all recordings of this left-out speaker only")
    parser.add_argument("--words", type=int, nargs="+", default=LENGTHS, help="words in a stream")
    parser.add_argument("--streams", type=int, default=24, help="streams of each length")
    parser.add_argument("--sounds", type=int, default=6, help="sounds of each kind without words")
    arguments = parser.parse_args()
    voices = load_recordings(arguments.recordings, held_out=True)
    if arguments.speaker:
        voices += load_recordings(arguments.recordings, held_out=False)
        voices = [voice for voice in voices if voice.name == arguments.speaker]

    def report(name: str, figures: dict[str, Any]) -> None:
        print(f"{name:45}", " ".join(f"{key} {value:g}" for key, value in figures.items()))

    with load_backend(arguments.backend, arguments.model) as backend:
        ways = {
            way: partial(transcribe, backend, **options_of(backend, way))
            for way in arguments.way or ["language=en"]
        }
        for way, recogniser in ways.items():
            for words in arguments.words:
                figures = measure_speech(recogniser, voices, words, arguments.streams)
                report(f"{words} words, {way}", figures)
        first = next(iter(ways.values()))
        for name, figures in measure_codecs(first, voices, arguments.streams).items():
            report(name, figures)
        report("words emitted for sounds without any", measure_negatives(first, arguments.sounds))


if __name__ == "__main__":
    main()
