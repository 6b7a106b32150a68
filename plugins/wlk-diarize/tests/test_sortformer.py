"""Spans are computed from the probabilities of a network that distinguishes speakers."""

from __future__ import annotations

import numpy as np
import pytest
from tone_voices import turns_of

from wlk_core.plugins import SAMPLE_RATE
from wlk_diarize.engine.sortformer import FFT, HOP, LATENCIES, STACKED, SortformerDiarizer


class CodedNetwork:
    """A network that detects the speakers whose bits are set in the sample at a frame's time."""

    def score(self, audio, state, look_ahead):
        """Return the bits as probabilities."""
        count = (len(audio) - FFT // 2) // HOP if look_ahead == 0 else 1 + (len(audio) - FFT) // HOP
        codes = audio[FFT // 2 + HOP * np.arange(count)].astype(int)
        active = (codes[:, None] >> np.arange(8) & 1)[: count - look_ahead * STACKED]
        return active.astype(np.float32), state, count


@pytest.fixture(params=LATENCIES)
def diarizer(request):
    """Return a diarizer for each latency."""
    return SortformerDiarizer(CodedNetwork(), latency=request.param, threshold=0.5)


def talk(*parts):
    """Return the audio of (code, seconds) turns."""
    codes, seconds = np.transpose(parts)
    return np.repeat(codes.astype(np.float32), np.rint(seconds * SAMPLE_RATE).astype(int))


def test_speakers_are_numbered_as_they_come_and_overlap(diarizer):
    """Wherever chunks end, gaps of 0.3 s are part of a turn, and turns below 0.1 s are dropped."""
    parts = [(0, 0.2), (4, 3), (0, 0.3), (4, 1), (0, 0.4), (1, 0.09), (0, 2), (2, 1), (6, 1)]
    diarizer.insert_audio_chunk(talk(*parts))
    turns = turns_of(diarizer.process_iter(is_last=True))

    assert turns == [[0, 0.2, 4.5], [1, 6.99, 8.99], [0, 7.99, 8.99]]


def test_a_span_comes_within_the_delay_that_is_stated(diarizer):
    """Each part of a turn is returned once, and parts are contiguous."""
    audio, spans = talk((0, 0.5), (1, 7), (0, 1), (2, 0.5), (0, 15)), []
    for end in range(80, len(audio), 80):
        diarizer.insert_audio_chunk(audio[end - 80 : end])
        new = diarizer.process_iter()
        assert all(end / SAMPLE_RATE - span.end <= diarizer.max_delay for span in new)
        spans += new

    assert turns_of(spans) == [[0, 0.5, 7.5], [1, 8.5, 9.0]]
    assert diarizer.process_iter(is_last=True) == []


def test_a_pause_decides_what_is_before_it_and_moves_the_clock(diarizer):
    """Even after audio too short for a frame, no span crosses a pause, and labels stay."""
    diarizer.insert_audio_chunk(talk((8, 0.205)))
    diarizer.insert_silence(10)
    diarizer.insert_audio_chunk(talk((8, 0.005)))
    diarizer.insert_silence(0.1)
    diarizer.insert_audio_chunk(talk((9, 0.5)))
    turns = turns_of(diarizer.process_iter(is_last=True))

    assert turns == [[0, 0.0, 0.2], [1, 10.31, 10.81], [0, 10.31, 10.81]]
    diarizer.insert_audio_chunk(talk((0, 30)))
    assert diarizer.process_iter(is_last=True) == []
