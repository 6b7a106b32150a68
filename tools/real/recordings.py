"""
Create a folder of recordings with their words: people, synthesisers, and poor conditions.

    python tools/real/recordings.py --packages SITE --output DIR [RECORDING ...]

SITE is the folder into which pip installed requirements.txt, and a RECORDING is a file with a .txt
of its words beside it, or a folder of such files.  DIR gets 16 kHz WAV files with a .txt each:

    clean/      people and flite, one or more sentences in each file
    conditions/ some of these in noise, over music, by telephone, from across a room, or fast
    wordless/   silence, noise, music and breathing, with empty .txt files
    languages/  a sentence by espeak-ng in each of several languages, named by its code

The same programs give the same samples every time.
"""

from __future__ import annotations

import argparse
from pathlib import Path
import shutil
import subprocess
from tempfile import TemporaryDirectory
import tomllib
from typing import TYPE_CHECKING
import wave

import numpy as np
from scipy.signal import butter, fftconvolve, resample_poly, sosfilt

from wlk_core import SAMPLE_RATE
from wlk_live.audio import decode_file

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from numpy.typing import NDArray

    Audio = NDArray[np.float32]

TEXTS = Path(__file__).with_name("texts.toml")
PEAK = 0.6  # peak level of a recording
PAUSE = 0.3  # seconds of silence before and after synthesised speech
FAST = 0.7  # flite's duration_stretch for fast speech
NOISE = 15.0  # decibels by which speech is louder than noise or music
REVERBERATION = 0.5  # seconds until the sound of a room is 60 dB quieter
DIRECT = 1.0  # level of the direct sound, relative to that of the room
SECONDS = 20.0  # length of audio without words
BREATH = 4.0  # seconds from one breath to the next
MU = 255  # parameter of the companding of telephones (ITU-T G.711)
CHORDS = ((220.0, 277.2, 329.6), (196.0, 246.9, 293.7), (174.6, 220.0, 261.6))  # hertz
CHORD_SECONDS = 1.5


def noise(seconds: float) -> Audio:
    """Return pink noise: its power falls by 3 dB per octave, like the noise of rooms."""
    count = round(seconds * SAMPLE_RATE)
    spectrum = np.fft.rfft(np.random.default_rng(1).standard_normal(count))
    spectrum /= np.sqrt(np.maximum(np.fft.rfftfreq(count, 1 / SAMPLE_RATE), 20.0))
    return _scaled(np.fft.irfft(spectrum, count), 0.05)


def music(seconds: float) -> Audio:
    """Return fading chords of three notes with overtones."""
    times = np.arange(round(seconds * SAMPLE_RATE)) / SAMPLE_RATE
    turn, since = np.divmod(times, CHORD_SECONDS)
    notes = np.asarray(CHORDS)[turn.astype(int) % len(CHORDS)]
    phases = 2 * np.pi * notes * times[:, None]
    tones = sum(np.sin(order * phases) / order**2 for order in range(1, 5))
    return _scaled(np.sum(tones, axis=1) * np.exp(-since), 0.1)


def breathing(seconds: float) -> Audio:
    """Return wide-band noise that swells and fades."""
    times = np.arange(round(seconds * SAMPLE_RATE)) / SAMPLE_RATE
    band = butter(2, (400, 3000), "bandpass", fs=SAMPLE_RATE, output="sos")
    air = sosfilt(band, np.random.default_rng(2).standard_normal(len(times)))
    return _scaled(air * np.maximum(0.0, np.sin(2 * np.pi * times / BREATH)) ** 2, 0.02)


def silence(seconds: float) -> Audio:
    """Return zeros."""
    return np.zeros(round(seconds * SAMPLE_RATE), np.float32)


def by_telephone(speech: Audio) -> Audio:
    """Return *speech* limited to 300 to 3400 Hz, sampled at 8 kHz with eight bits."""
    band = butter(4, (300, 3400), "bandpass", fs=SAMPLE_RATE, output="sos")
    narrow = resample_poly(sosfilt(band, speech), 1, 2)
    companded = np.sign(narrow) * np.log1p(MU * np.abs(narrow)) / np.log1p(MU)
    coarse = np.round(companded * 127) / 127
    return resample_poly(np.sign(coarse) * np.expm1(np.abs(coarse) * np.log1p(MU)) / MU, 2, 1)


def from_afar(speech: Audio) -> Audio:
    """Return *speech* in a room, whose sound is exponentially decaying noise (Moorer 1979)."""
    times = np.arange(round(REVERBERATION * SAMPLE_RATE)) / SAMPLE_RATE
    room = np.random.default_rng(3).standard_normal(len(times)) * 10 ** (-3 * times / REVERBERATION)
    room /= np.sqrt(np.square(room).sum())
    room[0] += DIRECT
    return fftconvolve(speech, room)[: len(speech)]


def over(speech: Audio, background: Audio) -> Audio:
    """Return *speech* mixed with *background*, which is NOISE decibels quieter."""
    level = np.sqrt(np.square(speech).mean()) * 10 ** (-NOISE / 20)
    return speech + _scaled(background, level)


CONDITIONS = {
    "noise": lambda speech: over(speech, noise(len(speech) / SAMPLE_RATE)),
    "music": lambda speech: over(speech, music(len(speech) / SAMPLE_RATE)),
    "telephone": by_telephone,
    "far": from_afar,
}
WORDLESS = {"silence": silence, "noise": noise, "music": music, "breathing": breathing}


def write_recording(path: Path, audio: Audio, text: str) -> None:
    """Write *audio*, float32[n] at 16 kHz, to *path*, and *text* to the .txt beside it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with wave.open(str(path), "wb") as file:
        file.setparams((1, 2, SAMPLE_RATE, 0, "NONE", ""))
        file.writeframes((np.clip(audio, -1.0, 1.0) * 32_767).astype("<i2").tobytes())
    path.with_suffix(".txt").write_text(" ".join(text.split()) + "\n", encoding="utf-8")


def spoken(*command: str) -> Audio:
    """Return the speech that *command*, completed by a file name, writes; with a trace of noise."""
    with TemporaryDirectory() as folder:
        path = str(Path(folder) / "speech.wav")
        subprocess.run([*command, path], check=True, capture_output=True)
        speech = np.concatenate(list(decode_file(path)))
    quiet = silence(PAUSE)
    padded = np.concatenate([quiet, speech * (PEAK / np.abs(speech).max()), quiet])
    return (padded + noise(len(padded) / SAMPLE_RATE) * 0.01).astype(np.float32)


def _scaled(audio: NDArray[np.floating], level: float) -> Audio:
    """Return *audio* with a root mean square of *level*."""
    return (audio * (level / np.sqrt(np.square(audio).mean()))).astype(np.float32)


def _recorded(packages: Path, sources: Iterable[Path]) -> Iterator[tuple[str, Audio, str]]:
    """Yield the name, audio and words of every recording of a person."""
    texts = tomllib.loads(TEXTS.read_text(encoding="utf-8"))["assets"]
    files = {packages / f"moonshine_voice/assets/{name}.wav": text for name, text in texts.items()}
    for source in sources:
        for path in sorted(source.glob("*.txt")) if source.is_dir() else [source]:
            audio = next(
                path.with_suffix(end) for end in (".wav", ".flac") if path.with_suffix(end).exists()
            )
            files[audio] = path.with_suffix(".txt").read_text(encoding="utf-8")
    for path, text in files.items():
        yield path.stem, np.concatenate(list(decode_file(path))), text


def make(packages: Path, output: Path, sources: Iterable[Path]) -> None:
    """Write all recordings to *output*, without those of synthesisers that are not installed."""
    texts = tomllib.loads(TEXTS.read_text(encoding="utf-8"))
    chosen = {}
    for name, audio, text in _recorded(packages, sources):
        write_recording(output / f"clean/{name}.wav", audio, text)
        chosen[name] = (audio, text)
    degraded = {"beckett": chosen["beckett"]}
    if shutil.which("flite") is None:
        print("no flite on the PATH: synthetic English is left out")
    else:
        for voice, sentences in texts["voices"].items():
            flite = ("flite", "-voice", voice)
            for number, text in enumerate(sentences, 1):
                audio = spoken(*flite, "-t", text, "-o")
                write_recording(output / f"clean/{voice}_{number}.wav", audio, text)
            degraded[voice] = (audio, text)
            fast = spoken(*flite, "--setf", f"duration_stretch={FAST}", "-t", text, "-o")
            write_recording(output / f"conditions/fast-{voice}.wav", fast, text)
    for name, (audio, text) in degraded.items():
        for condition, change in CONDITIONS.items():
            write_recording(output / f"conditions/{condition}-{name}.wav", change(audio), text)
    for name, signal in WORDLESS.items():
        write_recording(output / f"wordless/{name}.wav", signal(SECONDS), "")
    if shutil.which("espeak-ng") is None:
        print("no espeak-ng on the PATH: other languages are left out")
        return
    for language, text in texts["languages"].items():
        audio = spoken("espeak-ng", "-v", language, "-s", "140", text, "-w")
        write_recording(output / f"languages/{language}.wav", audio, text)


def main() -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0].strip())
    parser.add_argument("--packages", type=Path, required=True, help="where pip installed them")
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("recordings", type=Path, nargs="*", metavar="RECORDING")
    arguments = parser.parse_args()
    make(arguments.packages, arguments.output, arguments.recordings)


if __name__ == "__main__":
    main()
