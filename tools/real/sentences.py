"""
Synthesise each sentence of talks.txt alone, as a manifest for `wlk-bench agent`.

    python tools/real/sentences.py --kokoro DIR --output DIR [--aligner MODEL]

The first DIR is that of talks.py, which says where its files come from.  The other gets a 16 kHz
WAV file for each sentence, in 28 voices, and `manifest.jsonl` with its words, its voice and the
time at which it ends.  With MODEL, a folder with Whisper, it has the times of words too; see
word_times.py.  An interrupted run is continued.  The same packages give the same samples every
time.
"""

from __future__ import annotations

import argparse
from functools import partial
import json
from pathlib import Path
import re
from typing import TYPE_CHECKING

import numpy as np
from recordings import PEAK, noise, silence, write_recording
from scipy.signal import resample_poly
from talks import QUIET, SPEEDS, TEXTS, Kokoro

from wlk_core import SAMPLE_RATE
from wlk_live.audio import decode_file

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from numpy.typing import NDArray

    from wlk_core.plugins import Word

    Audio = NDArray[np.float32]

PAUSE = 0.2  # seconds without speech before and after a sentence


def sentences(voices: list[str]) -> Iterator[tuple[str, str, str, float]]:
    """Yield the name, words, voice and speed of each sentence."""
    texts = TEXTS.read_text(encoding="utf-8").splitlines()
    for number, (text, voice) in enumerate(zip(texts, voices, strict=False)):
        speed = np.random.default_rng(number).uniform(*SPEEDS)
        for index, sentence in enumerate(re.split(r"(?<=[.?!])\s+", text), 1):
            yield f"{number:02}-{voice}-{index}", sentence, voice, speed


def recording(speech: Audio) -> Audio:
    """Return *speech*, float32[n] at 24 kHz, at 16 kHz between pauses, with a trace of noise."""
    spoken = resample_poly(speech, 2, 3).astype(np.float32)
    spoken *= PEAK / np.abs(spoken).max()
    audio = np.concatenate([silence(PAUSE), spoken, silence(PAUSE)])
    return audio + 0.02 * noise(len(audio) / SAMPLE_RATE)


def end_of(audio: Audio) -> float:
    """Return the seconds after which a recording has only its trace of noise."""
    level = np.abs(audio)
    # Louder than the noise ever is: that of the pause before the speech, and half of it again.
    floor = max(QUIET, 1.5 * level[: round(PAUSE * SAMPLE_RATE)].max())
    return float((np.flatnonzero(level > floor)[-1] + 1) / SAMPLE_RATE)


def aligner_of(folder: Path | None) -> Callable[[Audio, str], Sequence[Word]]:
    """Return a function that finds the word times of a recording whose words are known."""
    if folder is None:
        return lambda _audio, _text: ()
    from faster_whisper import WhisperModel  # noqa: PLC0415 -- heavy
    from word_times import word_times  # noqa: PLC0415 -- as above

    from wlk_whisper.ctranslate2.checkpoint import check_files  # noqa: PLC0415 -- as above

    model = WhisperModel(str(folder), device="cpu", compute_type="float32", cpu_threads=1)
    return partial(word_times, model, lag_seconds=check_files(folder).lag_seconds)


def main() -> None:
    """Write the recordings and their manifest."""
    parser = argparse.ArgumentParser(description="sentences in many voices, with known ends")
    parser.add_argument("--kokoro", type=Path, required=True, help="the folder of talks.py")
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--aligner", type=Path, metavar="MODEL", help="for the times of words")
    arguments = parser.parse_args()
    align = aligner_of(arguments.aligner)
    kokoro = Kokoro(arguments.kokoro)
    lines = []
    for name, text, voice, speed in sentences([*kokoro.voices]):
        path = arguments.output / f"{name}.wav"
        if not path.with_suffix(".txt").exists():  # which is written last
            write_recording(path, recording(kokoro.speak(text, voice, speed)), text)
            print(name, flush=True)
        audio = np.concatenate(list(decode_file(path)))
        words = [[w.text.strip(), round(w.start, 3), round(w.end, 3)] for w in align(audio, text)]
        ends = [round(end_of(audio), 3)]
        entry = {"audio": path.name, "text": text, "speaker": voice, "ends": ends, "words": words}
        lines.append(json.dumps(entry, ensure_ascii=False) + "\n")
    (arguments.output / "manifest.jsonl").write_text("".join(lines), encoding="utf-8")
    print(f"{arguments.output / 'manifest.jsonl'}: {len(lines)} sentences")


if __name__ == "__main__":
    main()
