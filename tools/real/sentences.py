"""
Synthesise each sentence of talks.txt alone, as a manifest for `wlk-bench agent`.

    python tools/real/sentences.py --kokoro DIR --output DIR

The first DIR is that of talks.py, which says where its files come from.  The other gets a 16 kHz
WAV file for each sentence, in 28 voices, and `manifest.jsonl` with its words, its voice and the
time at which it ends.  An interrupted run is continued.  The same packages give the same samples
every time.
"""

from __future__ import annotations

import argparse
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
    from collections.abc import Iterator

    from numpy.typing import NDArray

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
    audio = np.concatenate([silence(PAUSE), spoken * (PEAK / np.abs(spoken).max())])
    audio = np.concatenate([audio, silence(PAUSE)])
    return audio + 0.02 * noise(len(audio) / SAMPLE_RATE)


def end_of(audio: Audio) -> float:
    """Return the seconds after which a recording has only its trace of noise."""
    level = np.abs(audio)
    # Louder than the noise ever is: that of the pause before the speech, and half of it again.
    floor = max(QUIET, 1.5 * level[: round(PAUSE * SAMPLE_RATE)].max())
    return float((np.flatnonzero(level > floor)[-1] + 1) / SAMPLE_RATE)


def main() -> None:
    """Write the recordings and their manifest."""
    parser = argparse.ArgumentParser(description="sentences in many voices, with known ends")
    parser.add_argument("--kokoro", type=Path, required=True, help="the folder of talks.py")
    parser.add_argument("--output", type=Path, required=True)
    arguments = parser.parse_args()
    kokoro = Kokoro(arguments.kokoro)
    lines = []
    for name, text, voice, speed in sentences([*kokoro.voices]):
        path = arguments.output / f"{name}.wav"
        if not path.with_suffix(".txt").exists():  # which is written last
            write_recording(path, recording(kokoro.speak(text, voice, speed)), text)
            print(name, flush=True)
        end = end_of(np.concatenate(list(decode_file(path))))
        entry = {"audio": path.name, "text": text, "speaker": voice, "ends": [round(end, 3)]}
        lines.append(json.dumps(entry, ensure_ascii=False) + "\n")
    (arguments.output / "manifest.jsonl").write_text("".join(lines), encoding="utf-8")
    print(f"{arguments.output / 'manifest.jsonl'}: {len(lines)} sentences")


if __name__ == "__main__":
    main()
