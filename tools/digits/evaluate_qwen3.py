"""Measure a Qwen3-ASR: word errors by length, word starts, words emitted where there are none.

    python tools/digits/evaluate_qwen3.py --weights DIR --recordings DIR
    python tools/digits/evaluate_qwen3.py --model DIR --recordings DIR

Trained weights are measured whole, an exported checkpoint through the plugin that streams it.
"""

from __future__ import annotations

import argparse
from contextlib import contextmanager
from functools import partial
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mixing import Mixture, assemble
from negatives import NEGATIVES
import numpy as np
from recordings import SAMPLE_RATE, Voice, load_recordings
from rng import happens
from scoring import RecognisedWord, Score

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from recordings import Audio

    Recogniser = Callable[[Audio], Sequence[RecognisedWord]]

LENGTHS = (6, 12, 25)  # words
CHUNK_SAMPLES = SAMPLE_RATE // 4
HEADS = "2.0,2.1,3.0,3.1"
NOISE = 3e-4  # under everything, as in any recording


def draw_stream(voice: Voice, words: int, rng: np.random.Generator) -> Mixture:
    """Speak random digits with a voice, a seventh of them twice in a row, over a trace of noise."""
    digits: list[int] = []
    while len(digits) < words:
        repeats = bool(digits) and happens(0.15, rng)
        digits.append(digits[-1] if repeats else int(rng.integers(10)))
    clips = [(digit, voice.draw(digit, rng)) for digit in digits]
    gaps = list(rng.uniform(0.05, 0.6, words))
    mixture = assemble(clips, gaps, lead=rng.uniform(0.1, 0.6), tail=0.5)
    noise = NOISE * rng.standard_normal(len(mixture.audio)).astype(np.float32)
    return Mixture(audio=mixture.audio + noise, words=mixture.words)


def measure_speech(
    recogniser: Recogniser, voices: Sequence[Voice], words: int, streams: int
) -> dict[str, float]:
    """Score streams of a number of words."""
    rng = np.random.default_rng(words)
    score = Score()
    for index in range(streams):
        mixture = draw_stream(voices[index % len(voices)], words, rng)
        score.add(mixture.words, recogniser(mixture.audio))
    return score.summary()


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


@contextmanager
def trained(weights: Path, heads: str) -> Iterator[Mapping[str, Recogniser]]:
    """Yield recognisers of a whole stream at once; words lie where some heads attend most."""
    from model_qwen3 import load_model  # noqa: PLC0415 - brings torch
    from recognise_qwen3 import recognise  # noqa: PLC0415 - as above
    import torch  # noqa: PLC0415 - as above

    torch.set_num_threads(1)
    model = load_model(weights).eval()
    pairs = [tuple(map(int, pair.split("."))) for pair in heads.split(",")]
    yield {
        name: partial(recognise, model, heads=pairs, forced=forced)
        for name, forced in (("English given", True), ("language detected", False))
    }


@contextmanager
def streamed(name: str, model: str) -> Iterator[Mapping[str, Recogniser]]:
    """Yield ways to stream through a backend, a quarter of a second at a time."""
    from wlk_core import load_backend  # noqa: PLC0415 - trained weights do without

    with load_backend(name, model) as backend:
        yield {
            f"{policy}, {language or 'detected'}": partial(
                _stream, backend, policy=policy, language=language
            )
            for policy, language in (
                ("alignatt", "en"),
                ("alignatt", None),
                ("local-agreement", "en"),
            )
        }


def _stream(backend: Any, audio: Audio, **options: str | None) -> list[RecognisedWord]:
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


def main() -> None:
    """Print a line for every test."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--weights", type=Path, help="what train_qwen3.py stored")
    what.add_argument("--model", help="digits, or a directory of export_qwen3.py")
    parser.add_argument("--backend", default="qwen3-simul", help="qwen3-simul or qwen3-mlx-simul")
    parser.add_argument("--recordings", type=Path, required=True)
    parser.add_argument(
        "--speaker", help="this speaker alone, all recordings: one that was left out"
    )
    parser.add_argument("--streams", type=int, default=24, help="of each length")
    parser.add_argument("--sounds", type=int, default=6, help="of each kind without words")
    parser.add_argument("--heads", default=HEADS, help="with --weights: what places words")
    parser.add_argument("--json", type=Path, help="file to write the figures to")
    arguments = parser.parse_args()
    voices = load_recordings(arguments.recordings, held_out=True)
    if arguments.speaker:
        voices += load_recordings(arguments.recordings, held_out=False)
        voices = [voice for voice in voices if voice.name == arguments.speaker]
    opened = (
        trained(arguments.weights, arguments.heads)
        if arguments.weights
        else streamed(arguments.backend, arguments.model)
    )
    results: dict[str, Any] = {}
    with opened as ways:
        for words in LENGTHS:
            for name, recogniser in ways.items():
                figures = measure_speech(recogniser, voices, words, arguments.streams)
                results[f"{words} words, {name}"] = figures
                report = " ".join(f"{key} {value:g}" for key, value in figures.items())
                print(f"{words:2} words, {name:20}", report, flush=True)
        negatives = measure_negatives(next(iter(ways.values())), arguments.sounds)
    print("words emitted for sounds without any:", negatives)
    if arguments.json:
        results["words emitted for sounds without any"] = negatives
        arguments.json.write_text(json.dumps(results, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
