"""Measure trained weights of a Qwen3-ASR: word errors by length, word starts, false words.

python tools/digits/evaluate_qwen3.py --weights DIR --recordings DIR
"""

from __future__ import annotations

import argparse
from functools import partial
import json
from pathlib import Path
from typing import TYPE_CHECKING

from chance import happens
from mixing import Mixture, assemble
from model_qwen3 import load_model
from negatives import NEGATIVES
import numpy as np
from recognise_qwen3 import recognise
from recordings import SAMPLE_RATE, Voice, load_recordings
from scoring import Score
import torch

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from recognise_qwen3 import Recognised
    from recordings import Audio

LENGTHS = (6, 12, 25)  # words
HEADS = "2.0,2.1,3.0,3.1"
NOISE = 3e-4  # under everything, as in any recording


def draw_stream(voice: Voice, words: int, rng: np.random.Generator) -> Mixture:
    """Say random digits with a voice, a seventh of them twice in a row, over a trace of noise."""
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
    hear: Callable[[Audio], Recognised], voices: Sequence[Voice], words: int, streams: int
) -> dict[str, float]:
    """Score streams of a number of words; `start` is where the attention peaks."""
    rng = np.random.default_rng(words)
    score = Score()
    for index in range(streams):
        mixture = draw_stream(voices[index % len(voices)], words, rng)
        score.add(mixture.words, hear(mixture.audio).words)
    return score.summary()


def measure_negatives(hear: Callable[[Audio], Recognised], sounds: int) -> dict[str, int]:
    """Count the words heard in sounds without any, by kind."""
    counts = {}
    for name, make in NEGATIVES.items():
        rng = np.random.default_rng(len(name))
        counts[name] = 0
        for _ in range(sounds):
            sound = make(int(rng.uniform(1, 12) * SAMPLE_RATE), rng)
            counts[name] += len(hear(np.clip(sound, -1, 1).astype(np.float32)).words)
    return counts


def main() -> None:
    """Print a line for every test."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--weights", type=Path, required=True, help="what train_qwen3.py stored")
    parser.add_argument("--recordings", type=Path, required=True)
    parser.add_argument(
        "--speaker", help="this speaker alone, all recordings: one that was left out"
    )
    parser.add_argument("--streams", type=int, default=24, help="of each length")
    parser.add_argument("--sounds", type=int, default=6, help="of each kind without words")
    parser.add_argument("--heads", default=HEADS, help="layer.head,layer.head that place words")
    parser.add_argument("--json", type=Path, help="file to write the figures to")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    voices = load_recordings(arguments.recordings, held_out=True)
    if arguments.speaker:
        voices += load_recordings(arguments.recordings, held_out=False)
        voices = [voice for voice in voices if voice.name == arguments.speaker]
    model = load_model(arguments.weights).eval()
    heads = [tuple(map(int, one.split("."))) for one in arguments.heads.split(",")]
    results = {
        f"{words} words, {name}": measure_speech(
            partial(recognise, model, heads=heads, forced=forced), voices, words, arguments.streams
        )
        for words in LENGTHS
        for name, forced in (("English given", True), ("language asked", False))
    }
    for name, figures in results.items():
        print(f"{name:26}", " ".join(f"{key} {value:g}" for key, value in figures.items()))
    negatives = measure_negatives(partial(recognise, model, heads=heads), arguments.sounds)
    print("words heard in sounds without any:", negatives)
    if arguments.json:
        results["words heard in sounds without any"] = negatives
        arguments.json.write_text(json.dumps(results, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
