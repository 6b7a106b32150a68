"""Measure an exported checkpoint through the plugin that streams it.

python tools/digits/evaluate_voxtral.py --backend voxtral-mlx --model DIR --recordings DIR
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING

from mixing import Mixture, assemble
from negatives import NEGATIVES
import numpy as np
from recordings import SAMPLE_RATE, Voice, load_recordings
from rng import happens
from scoring import RecognisedWord, Score

from wlk_core import load_backend

if TYPE_CHECKING:
    from collections.abc import Sequence

    from recordings import Audio

    from wlk_core import Backend

DELAYS_MS = (240, 480, 800)
WORDS = 12  # in a stream
LONG_MINUTES = 10.0
STEP_SECONDS = 0.08
NOISE = 3e-4  # under everything, as in any recording


def draw_stream(voice: Voice, words: int, rng: np.random.Generator, *, longest: float) -> Mixture:
    """Speak random digits with a voice, a seventh of them twice in a row, over a trace of noise."""
    digits: list[int] = []
    while len(digits) < words:
        repeats = bool(digits) and happens(0.15, rng)
        digits.append(digits[-1] if repeats else int(rng.integers(10)))
    clips = [(digit, voice.draw(digit, rng)) for digit in digits]
    gaps = list(rng.uniform(0.05, longest, words))
    mixture = assemble(clips, gaps, lead=rng.uniform(0.1, 0.6), tail=0.5)
    noise = NOISE * rng.standard_normal(len(mixture.audio)).astype(np.float32)
    return Mixture(audio=mixture.audio + noise, words=mixture.words)


def transcribe(backend: Backend, audio: Audio, **options: int) -> list[RecognisedWord]:
    """Return the words of a stream that receives all of the audio at once and is drained."""
    stream = backend.create_processor(**options)
    stream.insert_audio_chunk(audio)
    tokens, upto, before = [], -1.0, -2.0
    while upto > before:
        before = upto
        committed, upto = stream.process_iter()
        tokens += committed
    tokens += stream.finish().committed
    stream.close()
    return [
        RecognisedWord(text=token.text.strip(), start=token.start, end=token.end)
        for token in tokens
    ]


def measure_speech(
    backend: Backend, voices: Sequence[Voice], streams: int
) -> dict[str, dict[str, float]]:
    """Score streams at every delay; `within` is the share of words whose end is a step off."""
    results = {}
    for delay in DELAYS_MS:
        rng = np.random.default_rng(delay)
        score = Score()
        for index in range(streams):
            mixture = draw_stream(voices[index % len(voices)], WORDS, rng, longest=0.6)
            score.add(mixture.words, transcribe(backend, mixture.audio, delay_ms=delay))
        near = np.abs(score.ends) <= STEP_SECONDS
        results[f"{delay} ms"] = {**score.summary(), "within": round(100 * float(near.mean()), 1)}
    return results


def measure_long(backend: Backend, voices: Sequence[Voice], minutes: float) -> dict[str, float]:
    """Score one stream without a silence, in its first and its last quarter too."""
    rng = np.random.default_rng(1)
    parts = [draw_stream(voices[0], WORDS, rng, longest=1.0)]
    while sum(len(part.audio) for part in parts) < 60 * minutes * SAMPLE_RATE:
        parts.append(draw_stream(voices[len(parts) % len(voices)], WORDS, rng, longest=1.0))
    recognised = transcribe(backend, np.concatenate([part.audio for part in parts]))
    figures: dict[str, float] = {}
    offset = 0.0
    quarters = [Score() for _ in range(4)]
    for index, part in enumerate(parts):
        seconds = len(part.audio) / SAMPLE_RATE
        some = [
            RecognisedWord(text=word.text, start=word.start - offset, end=word.end - offset)
            for word in recognised
            if offset <= word.end - STEP_SECONDS / 2 < offset + seconds
        ]
        quarters[4 * index // len(parts)].add(part.words, some)
        offset += seconds
    for number, score in enumerate(quarters, start=1):
        figures[f"wer_quarter_{number}"] = round(score.error_rate, 2)
    return figures


def measure_negatives(backend: Backend, sounds: int) -> dict[str, int]:
    """Count the words emitted for sounds without any, by kind."""
    counts = {}
    for name, make in NEGATIVES.items():
        rng = np.random.default_rng(len(name))
        counts[name] = 0
        for _ in range(sounds):
            sound = make(int(rng.uniform(1, 12) * SAMPLE_RATE), rng)
            audio = np.clip(sound, -1, 1).astype(np.float32)
            counts[name] += len(transcribe(backend, audio))
    return counts


def main() -> None:
    """Print a line for every test."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--backend", default="voxtral-mlx", help="voxtral-mlx or voxtral-hf")
    parser.add_argument("--model", required=True, help="digits, or a folder of export_voxtral.py")
    parser.add_argument("--recordings", type=Path, required=True)
    parser.add_argument(
        "--speaker", help="this speaker alone, all recordings: one that was left out"
    )
    parser.add_argument("--streams", type=int, default=24, help="at each delay")
    parser.add_argument("--sounds", type=int, default=6, help="of each kind without words")
    parser.add_argument("--minutes", type=float, default=LONG_MINUTES, help="of the long stream")
    parser.add_argument("--json", type=Path, help="file to write the figures to")
    arguments = parser.parse_args()
    voices = load_recordings(arguments.recordings, held_out=True)
    if arguments.speaker:
        voices += load_recordings(arguments.recordings, held_out=False)
        voices = [voice for voice in voices if voice.name == arguments.speaker]
    with load_backend(arguments.backend, arguments.model) as backend:
        results = {
            "speech": measure_speech(backend, voices, arguments.streams),
            "one long stream": measure_long(backend, voices, arguments.minutes),
            "words emitted for sounds without any": measure_negatives(backend, arguments.sounds),
        }
    for name, figures in results["speech"].items():
        print(f"{name:10}", " ".join(f"{key} {value:g}" for key, value in figures.items()))
    print(results["one long stream"])
    print(results["words emitted for sounds without any"])
    if arguments.json:
        arguments.json.write_text(json.dumps(results, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
