"""Measure an exported checkpoint through faster-whisper in float32.

python tools/digits/evaluate_whisper.py --model DIR/ctranslate2 --recordings DIR
"""

from __future__ import annotations

import argparse
import contextlib
import json
from pathlib import Path
from typing import TYPE_CHECKING

from faster_whisper import WhisperModel
import faster_whisper.transcribe as engine
from features import FRAME_SECONDS
from lossy import CODECS, transcode
from mixing import Mixture, assemble
from negatives import NEGATIVES
import numpy as np
from recordings import SAMPLE_RATE, Audio, Voice, load_recordings
from rng import happens
from scoring import RecognisedWord, Score
from vocabulary import FIRST_TIMESTAMP

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from faster_whisper.transcribe import Segment
    from numpy.typing import NDArray

LENGTHS = (6, 12, 25, 30)  # words in a stream
CODED_WORDS = 12  # in a stream that goes through a codec
LONGEST_GAP = 0.6  # seconds between words
MANY_WORDS = 25  # from here on gaps are shorter, so that a stream fits into a window
STAMP_SECONDS = 0.02  # between timestamp tokens
NO_SPEECH = 0.9  # segments less likely to be speech than this are dropped
WINDOW_FRAMES = 3000
PADDING_FRAMES = 50  # kept after the audio in a fitted window
BUCKET_FRAMES = 100  # fitted windows are whole seconds


@contextlib.contextmanager
def fitted_windows() -> Iterator[None]:
    """Let faster-whisper encode windows that fit their audio in place of 30 s ones."""
    whole = engine.pad_or_trim

    def fit(features: NDArray[np.float32], length: int = WINDOW_FRAMES) -> NDArray[np.float32]:
        frames = features.shape[-1] + PADDING_FRAMES
        return whole(features, min(length, -(-frames // BUCKET_FRAMES) * BUCKET_FRAMES))

    engine.pad_or_trim = fit
    try:
        yield
    finally:
        engine.pad_or_trim = whole


def draw_stream(voice: Voice, words: int, rng: np.random.Generator) -> Mixture:
    """Speak random digits with a voice, a seventh of them twice in a row, with natural gaps."""
    digits: list[int] = []
    while len(digits) < words:
        repeats = bool(digits) and happens(0.15, rng)
        digits.append(digits[-1] if repeats else int(rng.integers(10)))
    longest = LONGEST_GAP if words < MANY_WORDS else LONGEST_GAP / 2
    gaps = rng.uniform(0.05, longest, words)
    clips = [(digit, voice.draw(digit, rng)) for digit in digits]
    return assemble(clips, list(gaps), lead=rng.uniform(0.1, 0.6), tail=0.5)


def transcribe(model: WhisperModel, audio: Audio, *, timestamps: bool) -> list[Segment]:
    """Return the segments that greedy decoding emits, without those that are likely no speech."""
    segments, _ = model.transcribe(
        audio,
        language="en",
        beam_size=1,
        temperature=0.0,
        word_timestamps=True,
        without_timestamps=not timestamps,
        condition_on_previous_text=False,
    )
    return [segment for segment in segments if segment.no_speech_prob <= NO_SPEECH]


def attended(segments: Sequence[Segment]) -> list[RecognisedWord]:
    """Return words with the times that the engine finds in the attention."""
    return [
        RecognisedWord(text=word.word.strip(), start=word.start, end=word.end)
        for segment in segments
        for word in segment.words or ()
    ]


def stamped(segments: Sequence[Segment]) -> list[RecognisedWord]:
    """Return words with the timestamps written around them."""
    words = []
    for segment in segments:
        window = segment.seek * FRAME_SECONDS
        times = [
            window + (token - FIRST_TIMESTAMP) * STAMP_SECONDS
            for token in segment.tokens
            if token >= FIRST_TIMESTAMP
        ]
        start, end = (times[0], times[-1]) if times else (segment.start, segment.end)
        words += [RecognisedWord(text=text, start=start, end=end) for text in segment.text.split()]
    return words


def measure_speech(
    model: WhisperModel, voices: Sequence[Voice], lengths: Sequence[int], streams: int
) -> dict[str, dict[str, float]]:
    """Score streams of every length, in padded and in fitted windows."""
    results = {}
    for words in lengths:
        rng = np.random.default_rng(words)
        mixtures = [draw_stream(voices[i % len(voices)], words, rng) for i in range(streams)]
        padded, fitted, stamps, untimed = Score(), Score(), Score(), Score()
        for mixture in mixtures:
            padded.add(mixture.words, attended(transcribe(model, mixture.audio, timestamps=True)))
            with fitted_windows():
                segments = transcribe(model, mixture.audio, timestamps=True)
                fitted.add(mixture.words, attended(segments))
                stamps.add(mixture.words, stamped(segments))
                segments = transcribe(model, mixture.audio, timestamps=False)
                untimed.add(mixture.words, attended(segments))
        results[f"{words} words, 30 s window"] = padded.summary()
        results[f"{words} words, fitted window"] = fitted.summary()
        results[f"{words} words, fitted window, times as written"] = stamps.summary()
        results[f"{words} words, fitted window, no timestamps"] = untimed.summary()
    return results


def measure_codecs(
    model: WhisperModel, voices: Sequence[Voice], streams: int
) -> dict[str, dict[str, float]]:
    """Score streams after every lossy codec at its lowest bit rate, in fitted windows."""
    rng = np.random.default_rng(CODED_WORDS)
    mixtures = [draw_stream(voices[i % len(voices)], CODED_WORDS, rng) for i in range(streams)]
    results = {}
    for codec in CODECS:
        bit_rate, score = min(codec.bit_rates), Score()
        for mixture in mixtures:
            audio = transcode(mixture.audio, codec, bit_rate)
            with fitted_windows():
                score.add(mixture.words, stamped(transcribe(model, audio, timestamps=True)))
        results[f"{codec.encoder}, {codec.rate} Hz, {bit_rate} bit/s"] = score.summary()
    return results


def measure_negatives(model: WhisperModel, sounds: int) -> dict[str, int]:
    """Count the words emitted for sounds without any, by kind."""
    counts = {}
    for name, make in NEGATIVES.items():
        rng = np.random.default_rng(len(name))
        counts[name] = 0
        for _ in range(sounds):
            sound = np.clip(make(int(rng.uniform(1, 12) * SAMPLE_RATE), rng), -1, 1).astype(
                np.float32
            )
            with fitted_windows():
                counts[name] += len(attended(transcribe(model, sound, timestamps=True)))
            counts[name] += len(attended(transcribe(model, sound, timestamps=True)))
    return counts


def main() -> None:
    """Print a line for every test."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", type=Path, required=True, help="CTranslate2 folder")
    parser.add_argument("--recordings", type=Path, required=True)
    parser.add_argument(
        "--speaker", help="this speaker alone, all recordings: one that was left out"
    )
    parser.add_argument("--words", type=int, nargs="+", default=LENGTHS, help="in a stream")
    parser.add_argument("--streams", type=int, default=24, help="of each length")
    parser.add_argument("--sounds", type=int, default=6, help="of each kind without words")
    parser.add_argument("--json", type=Path, help="file to write the figures to")
    arguments = parser.parse_args()
    model = WhisperModel(str(arguments.model), device="cpu", compute_type="float32", cpu_threads=1)
    voices = load_recordings(arguments.recordings, held_out=True)
    if arguments.speaker:
        voices += load_recordings(arguments.recordings, held_out=False)
        voices = [voice for voice in voices if voice.name == arguments.speaker]
    results = {
        "speech": measure_speech(model, voices, arguments.words, arguments.streams),
        f"{CODED_WORDS} words through codecs": measure_codecs(model, voices, arguments.streams),
        "words emitted for sounds without any": measure_negatives(model, arguments.sounds),
    }
    speech = results["speech"] | results[f"{CODED_WORDS} words through codecs"]
    for name, figures in speech.items():
        print(f"{name:45}", " ".join(f"{key} {value:g}" for key, value in figures.items()))
    print(results["words emitted for sounds without any"])
    if arguments.json:
        arguments.json.write_text(json.dumps(results, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
