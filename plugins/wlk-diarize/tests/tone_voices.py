"""Voices that are tones, and networks that recognise them, to test without models."""

from __future__ import annotations

import numpy as np

from wlk_core.plugins import SAMPLE_RATE
from wlk_diarize.engine.networks import FRAME_SAMPLES, LOCAL_SPEAKERS

HERTZ = 200  # from one voice to the next
VOICES = 12


def tone(voice, seconds, level=0.1):
    """Return *seconds* of a voice, a sine of its own frequency; voice None is silence."""
    times = np.arange(round(seconds * SAMPLE_RATE)) / SAMPLE_RATE
    hertz = 0 if voice is None else 400 + HERTZ * voice
    return (level * np.sin(2 * np.pi * hertz * times)).astype(np.float32)


def turns_of(spans):
    """Return (speaker, start, end) with contiguous spans joined."""
    turns = []
    for span in sorted(spans, key=lambda span: (span.start, span.end)):
        same = [turn for turn in turns if turn[0] == span.speaker]
        if same and span.start <= same[-1][2] + 1e-6:
            same[-1][2] = max(same[-1][2], span.end)
        else:
            turns.append([span.speaker, span.start, span.end])
    return turns


class ToneNetworks:
    """
    Detect which tones sound, and number the first three of each window in order of appearance.

    `seconds` has the seconds of audio of each call, so that tests can count the work.
    """

    def __init__(self):
        self.seconds = []

    def segment(self, audio):
        """Return the local speakers in each frame."""
        self.seconds.append(len(audio) / SAMPLE_RATE)
        frames = audio[: len(audio) // FRAME_SAMPLES * FRAME_SAMPLES].reshape(-1, FRAME_SAMPLES)
        sounding = self._powers(frames) > 0.02
        voices = sorted(np.flatnonzero(sounding.any(axis=0)), key=lambda v: sounding[:, v].argmax())
        active = np.zeros((len(frames), LOCAL_SPEAKERS), dtype=np.bool_)
        for local, voice in enumerate(voices[:LOCAL_SPEAKERS]):
            active[:, local] = sounding[:, voice]
        return active

    def embed(self, audio):
        """Return the amplitudes of the voices, with length 1."""
        self.seconds.append(len(audio) / SAMPLE_RATE)
        frames = audio[: len(audio) // FRAME_SAMPLES * FRAME_SAMPLES].reshape(-1, FRAME_SAMPLES)
        powers = self._powers(frames).sum(axis=0)
        return powers / np.linalg.norm(powers)

    def _powers(self, frames):
        """Return the amplitude of each voice in each frame."""
        times = np.arange(FRAME_SAMPLES) / SAMPLE_RATE
        waves = np.exp(-2j * np.pi * np.outer(times, 400 + HERTZ * np.arange(VOICES)))
        windowed = frames * np.hanning(FRAME_SAMPLES)
        return (np.abs(windowed @ waves) * 4 / FRAME_SAMPLES).astype(np.float32)
