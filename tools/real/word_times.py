"""
Write a manifest with word times for wlk-bench, from recordings whose text is known.

    python tools/real/word_times.py FOLDER --model DIRECTORY --output FOLDER/manifest.jsonl

FOLDER has the text of each recording in a .txt file with the same stem.  The times come from
Whisper's cross attention for the known text (forced alignment), without the silence around words.
With Whisper base they were compared with 421 words of flite, whose true times are known: the median
error of starts is 0.05 s (0.18 s at p95), on average 0.04 s early, and that of ends 0.06 s (0.23 s
at p95), on average 0.07 s early; at punctuation, where there are pauses, 0.015 s (0.11 s at p95).
Do not measure the model that made the alignment: a model agrees with its own alignment.
"""

from __future__ import annotations

import argparse
import json
import os
from pathlib import Path
from typing import TYPE_CHECKING

import attrs
from faster_whisper import WhisperModel
from faster_whisper.audio import pad_or_trim
from faster_whisper.tokenizer import Tokenizer
import numpy as np

from wlk_bench.metrics.alignment import align_words
from wlk_core.plugins import SAMPLE_RATE, Word
from wlk_frameworks.features import FRAME_SAMPLES, background_level, loud_frames, loudness
from wlk_live.audio.decode import decode_file
from wlk_whisper.ctranslate2.checkpoint import check_files
from wlk_whisper.engine.words import tighten_to_speech

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

LONGEST_PIECE = 28.0  # seconds; Whisper's window is 30
SHORTEST_PIECE = 8.0  # seconds, so that a piece ends at a long pause instead of the first one
SUFFIXES = (".wav", ".flac")


@attrs.frozen
class Piece:
    """A stretch of a recording between two pauses, and the words spoken in it."""

    start: float
    end: float
    words: Sequence[str]


def word_times(
    model: WhisperModel,
    audio: NDArray[np.float32],
    text: str,
    language: str = "en",
    *,
    lag_seconds: float = 0.0,
) -> tuple[Word, ...]:
    """
    Return the words of *text*, split at white space, with their times in *audio*, float32[n].

    `lag_seconds` is how long after the sound the model moves on to the next word.
    """
    tokenizer = Tokenizer(
        model.hf_tokenizer, model.model.is_multilingual, task="transcribe", language=language
    )
    words = text.split()
    return tuple(
        word.shifted(piece.start)
        for piece in pieces(model, audio, words, language)
        for word in aligned(
            model,
            tokenizer,
            audio[round(piece.start * SAMPLE_RATE) : round(piece.end * SAMPLE_RATE)],
            piece.words,
            lag_seconds,
        )
    )


def pieces(
    model: WhisperModel, audio: NDArray[np.float32], words: Sequence[str], language: str
) -> Iterator[Piece]:
    """Yield pieces of at most LONGEST_PIECE, cut in pauses between words that were recognised."""
    seconds = len(audio) / SAMPLE_RATE
    start, first = 0.0, 0
    pauses = _pauses(model, audio, words, language) if seconds > LONGEST_PIECE else []
    while seconds - start > LONGEST_PIECE:
        choices = [p for p in pauses if SHORTEST_PIECE <= p[1] - start <= LONGEST_PIECE]
        if not choices:
            raise SystemExit(
                f"expected a pause with known words in {start:.1f} s to {start + LONGEST_PIECE:.1f}"
                " s, got none; correct the text, or take a larger model"
            )
        _, time, index = max(choices)
        yield Piece(start, time, words[first:index])
        start, first = time, index
    yield Piece(start, seconds, words[first:])


def _pauses(
    model: WhisperModel, audio: NDArray[np.float32], words: Sequence[str], language: str
) -> list[tuple[float, float, int]]:
    """Return pauses between recognised words: length, middle, index of the word that follows."""
    segments, _ = model.transcribe(
        audio,
        language=language,
        beam_size=1,
        condition_on_previous_text=False,
        word_timestamps=True,
    )
    timed = tighten_to_speech(
        [Word(w.start, w.end, w.word) for segment in segments for w in segment.words], audio
    )
    partner = dict(align_words(words, [word.text for word in timed]).equal)
    return [
        (timed[j].start - timed[j - 1].end, (timed[j].start + timed[j - 1].end) / 2, index)
        for index, j in partner.items()
        if j and partner.get(index - 1) == j - 1
    ]


def aligned(
    model: WhisperModel,
    tokenizer: Tokenizer,
    audio: NDArray[np.float32],
    words: Sequence[str],
    lag_seconds: float,
) -> tuple[Word, ...]:
    """Return *words* with their times in *audio*, float32[n] of at most 30 s."""
    # Attention to the first word starts with the audio, so leading silence is cut.
    decibels = loudness(audio)
    loud = np.flatnonzero(loud_frames(decibels, background=background_level(decibels)))
    first = int(loud[0]) * FRAME_SAMPLES
    audio = audio[first : (int(loud[-1]) + 1) * FRAME_SAMPLES]
    features = model.feature_extractor(audio)
    tokens = tokenizer.encode(" " + " ".join(words))
    frames = min(features.shape[-1] - 1, len(audio) // model.feature_extractor.hop_length)
    encoded = model.encode(pad_or_trim(features[..., :frames]))
    times: list[Word] = []
    for part in model.find_alignment(tokenizer, [tokens], encoded, frames)[0]:
        # The tokenizer separates punctuation; only a word of the text begins with a space.
        if times and not part["word"].startswith(" "):
            times[-1] = attrs.evolve(
                times[-1], end=float(part["end"]), text=times[-1].text + part["word"]
            )
        else:
            times.append(Word(float(part["start"]), float(part["end"]), part["word"]))
    if [word.text.strip() for word in times] != list(words):
        raise SystemExit(f"the model's tokenizer changes the text {' '.join(words)!r}")
    times = [
        attrs.evolve(
            word, start=max(0.0, word.start - lag_seconds), end=max(0.0, word.end - lag_seconds)
        )
        for word in times
    ]
    return tuple(word.shifted(first / SAMPLE_RATE) for word in tighten_to_speech(times, audio))


def main() -> None:
    """Align every recording of a folder and write the manifest."""
    parser = argparse.ArgumentParser(description="word times of recordings with known text")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--model", required=True, type=Path, help="a directory")
    parser.add_argument("--output", type=Path, required=True, help="the manifest, JSON lines")
    arguments = parser.parse_args()
    lag = check_files(arguments.model).lag_seconds
    model = WhisperModel(str(arguments.model), device="cpu", compute_type="float32", cpu_threads=1)
    lines: list[str] = []
    for path in sorted(p for p in arguments.folder.iterdir() if p.suffix in SUFFIXES):
        text = " ".join(path.with_suffix(".txt").read_text(encoding="utf-8").split())
        words = word_times(model, np.concatenate(list(decode_file(path))), text, lag_seconds=lag)
        entry = {
            "audio": os.path.relpath(path, arguments.output.parent),
            "text": text,
            "words": [[w.text.strip(), round(w.start, 3), round(w.end, 3)] for w in words],
        }
        lines.append(json.dumps(entry, ensure_ascii=False) + "\n")
        print(f"{path.name}: {len(words)} words", flush=True)
    arguments.output.write_text("".join(lines), encoding="utf-8")


if __name__ == "__main__":
    main()
