"""Synthesisers: a speaker and text in, samples out."""

from __future__ import annotations

import io
from pathlib import Path
import subprocess
from tempfile import TemporaryDirectory
from threading import Lock

from attrs import frozen
import numpy as np
from recordings import Audio, read_wave, trim
from scipy.io import wavfile
from vocabulary import DIGITS

#: Festival's old voices read text in old encodings; by the beginning of their names.
_ENCODINGS = {"czech": "iso-8859-2", "hy": "iso-8859-15", "suo": "iso-8859-15"}
_PICO_RATE = 16_000
_PICO_EMPHASIS = 0.85  # its consonants are 40 dB below its vowels, people's 10 to 25
_PICO = Lock()  # the library keeps its state in globals


@frozen(kw_only=True)
class Speaker:
    """A synthesiser with its options.

    `pitch` and `speed` are in the synthesiser's own units; festival's voices have one pitch, and
    `pitch` distinguishes their spellings.  `words` are the ten digits as the voice must read them.
    """

    engine: str
    voice: str
    pitch: int
    speed: float
    words: tuple[str, ...] = DIGITS

    @property
    def name(self) -> str:
        """The speaker as one word."""
        return f"{self.engine}:{self.voice}:p{self.pitch}:s{self.speed:g}"


def render(speaker: Speaker, text: str) -> Audio:
    """Return *text* as spoken by *speaker*, float samples at 16 kHz.

    Raises:
        FileNotFoundError: the synthesiser is not installed.
        CalledProcessError: the synthesiser refused the voice.
        RuntimeError: Pico refused the voice.
    """
    speak = {
        "espeak-ng": _speak_espeak,
        "flite": _speak_flite,
        "festival": _speak_festival,
        "pico": _speak_pico,
    }
    return trim(read_wave(io.BytesIO(speak[speaker.engine](speaker, text))))


def _speak_espeak(speaker: Speaker, text: str) -> bytes:
    options = ["-v", speaker.voice, "-p", str(speaker.pitch), "-s", f"{speaker.speed:g}"]
    return _with_true_length(_run(["espeak-ng", *options, "--stdout", text]))


def _speak_flite(speaker: Speaker, text: str) -> bytes:
    pitch, stretch = f"int_f0_target_mean={speaker.pitch}", f"duration_stretch={speaker.speed:g}"
    options = ["-voice", speaker.voice, "--setf", pitch, "--setf", stretch]
    return _with_true_length(_run(["flite", *options, "-t", text, "-o", "/dev/stdout"]))


def _speak_festival(speaker: Speaker, text: str) -> bytes:
    encoding = _ENCODINGS.get(speaker.voice.split("_")[0], "utf-8")
    stretch = f"(Parameter.set 'Duration_Stretch {speaker.speed:g})"
    with TemporaryDirectory() as folder:  # festival reads and writes files only
        source, wave = Path(folder, "text"), Path(folder, "wave")
        source.write_bytes(text.encode(encoding))
        options = ["-eval", f"(voice_{speaker.voice})", "-eval", stretch]
        _run(["text2wave", *options, str(source), "-o", str(wave)])
        return wave.read_bytes()


def _speak_pico(speaker: Speaker, text: str) -> bytes:
    from ttspico import TtsEngine  # noqa: PLC0415 - pip compiles it, and only SVOX Pico needs it

    with _PICO:
        engine = TtsEngine(speaker.voice)
        engine.pitch, engine.rate = speaker.pitch, round(100 * speaker.speed)
        samples = np.frombuffer(engine.speak(text), dtype="<i2").astype(np.float32) / 2**15
    wave = io.BytesIO()
    wavfile.write(wave, _PICO_RATE, samples - np.float32(_PICO_EMPHASIS) * np.roll(samples, 1))
    return wave.getvalue()


def _run(command: list[str]) -> bytes:
    return subprocess.run(command, check=True, capture_output=True).stdout  # fixed program names


def _with_true_length(wave: bytes) -> bytes:
    """Repair a header written before the length was known."""
    data = wave.index(b"data")
    size = len(wave) - data - 8
    return (
        wave[:4]
        + (len(wave) - 8).to_bytes(4, "little")
        + wave[8 : data + 4]
        + size.to_bytes(4, "little")
        + wave[data + 8 :]
    )
