"""Measure a digits checkpoint through the backend that streams it, in float32.

    python tools/digits/evaluate.py --backend faster-whisper --recordings DIR
    python tools/digits/evaluate.py --backend qwen3-simul --model DIR --recordings DIR \
        --way policy=alignatt,language=en --way policy=alignatt
    python tools/digits/evaluate.py --backend voxtral-hf --recordings DIR --minutes 10 \
        --way delay_ms=240 --way delay_ms=480

It prints word errors and errors of word times by the number of words in a stream, after every lossy
codec and over one long stream, and counts the words emitted for sounds without any.
"""

from __future__ import annotations

import argparse
from functools import partial
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lossy import CODECS, transcode
from mixing import Mixture, assemble
from negatives import NEGATIVES
import numpy as np
from recordings import SAMPLE_RATE, Voice, load_recordings
from rng import happens
from scoring import RecognisedWord, Score

from wlk_core import load_backend
from wlk_core.option_values import split_options

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from recordings import Audio

    from wlk_core import Backend

    Recogniser = Callable[[Audio], Sequence[RecognisedWord]]

LENGTHS = (6, 12, 25)  # words in a stream
CODED_WORDS = 12  # in a stream that goes through a codec, and in a part of the long one
CHUNK_SAMPLES = SAMPLE_RATE // 4
NOISE = 3e-4  # under everything, as in any recording


def draw_stream(
    voices: Sequence[Voice], index: int, words: int, rng: np.random.Generator, longest: float = 0.6
) -> Mixture:
    """Speak random digits, a seventh of them twice in a row, over a trace of noise."""
    voice = voices[index % len(voices)]
    digits: list[int] = []
    while len(digits) < words:
        repeats = bool(digits) and happens(0.15, rng)
        digits.append(digits[-1] if repeats else int(rng.integers(10)))
    clips = [(digit, voice.draw(digit, rng)) for digit in digits]
    gaps = list(rng.uniform(0.05, longest, words))
    mixture = assemble(clips, gaps, lead=rng.uniform(0.1, 0.6), tail=0.5)
    noise = NOISE * rng.standard_normal(len(mixture.audio)).astype(np.float32)
    return Mixture(audio=mixture.audio + noise, words=mixture.words)


def transcribe(backend: Backend, audio: Audio, **options: Any) -> list[RecognisedWord]:
    """Return the words of a stream in chunks of a quarter of a second."""
    stream = backend.create_processor(**options)
    tokens = []
    for first in range(0, len(audio), CHUNK_SAMPLES):
        stream.insert_audio_chunk(audio[first : first + CHUNK_SAMPLES])
        tokens += stream.process_iter().committed
    tokens += stream.finish().committed
    stream.close()
    return [
        RecognisedWord(text=token.text.strip(), start=token.start, end=token.end)
        for token in tokens
    ]


def options_of(backend: Backend, way: str) -> dict[str, Any]:
    """Return the options of streams that KEY=VALUE,... stands for."""
    pairs = dict(pair.split("=", 1) for pair in way.split(","))
    language = pairs.pop("language", None)
    options = split_options(backend.spec, pairs).stream
    return {**options, **({"language": language} if language else {})}


def measure_speech(
    recogniser: Recogniser, voices: Sequence[Voice], words: int, streams: int
) -> dict[str, float]:
    """Score streams of a number of words."""
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


def measure_long(
    recogniser: Recogniser, voices: Sequence[Voice], minutes: float
) -> dict[str, dict[str, float]]:
    """Score the quarters of one stream that has no silence to end an utterance."""
    rng = np.random.default_rng(1)
    parts = [draw_stream(voices, 0, CODED_WORDS, rng, 1.0)]
    while sum(len(part.audio) for part in parts) < 60 * minutes * SAMPLE_RATE:
        parts.append(draw_stream(voices, len(parts), CODED_WORDS, rng, 1.0))
    recognised = recogniser(np.concatenate([part.audio for part in parts]))
    quarters, offset = [Score() for _ in range(4)], 0.0
    for index, part in enumerate(parts):
        end = offset + len(part.audio) / SAMPLE_RATE
        own = [
            RecognisedWord(text=word.text, start=word.start - offset, end=word.end - offset)
            for word in recognised
            if offset <= word.start < end
        ]
        quarters[4 * index // len(parts)].add(part.words, own)
        offset = end
    return {f"quarter {number}": each.summary() for number, each in enumerate(quarters, start=1)}


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
    parser.add_argument("--speaker", help="this one alone, all recordings: one that was left out")
    parser.add_argument("--words", type=int, nargs="+", default=LENGTHS, help="in a stream")
    parser.add_argument("--streams", type=int, default=24, help="of each length")
    parser.add_argument("--sounds", type=int, default=6, help="of each kind without words")
    parser.add_argument("--minutes", type=float, default=0.0, help="of one long stream")
    parser.add_argument("--json", type=Path, help="file to write the figures to")
    arguments = parser.parse_args()
    voices = load_recordings(arguments.recordings, held_out=True)
    if arguments.speaker:
        voices += load_recordings(arguments.recordings, held_out=False)
        voices = [voice for voice in voices if voice.name == arguments.speaker]
    results: dict[str, Any] = {}

    def report(name: str, figures: dict[str, Any]) -> None:
        results[name] = figures
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
        if arguments.minutes:
            for name, figures in measure_long(first, voices, arguments.minutes).items():
                report(name, figures)
        report("words emitted for sounds without any", measure_negatives(first, arguments.sounds))
    if arguments.json:
        arguments.json.write_text(json.dumps(results, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
