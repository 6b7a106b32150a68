"""Pauses of 0.05 s to a minute between words, on every backend that recognises digits."""

from __future__ import annotations

import os

import numpy as np
import pytest

from wlk_conformance.testing import connected_digits, partition, silence
from wlk_core import load_backend
from wlk_core.errors import BackendUnavailable
from wlk_core.processor import SAMPLE_RATE
from wlk_core.registry import Registry
from wlk_live import Session, SilenceSpan
from wlk_live.session import Commit, End
from wlk_live.vad import SilenceGate, SileroDetector

PAUSES = (0.05, 0.2, 0.5, 1.0, 2.0, 5.0, 20.0, 60.0)  # seconds
QUICK = "faster-whisper"  # the only backend without WLK_FULL=1
EDGE = 0.1  # seconds by which the edges of a pause may be off
FULL = bool(os.environ.get("WLK_FULL"))


def backends():
    """Return the installed backends with a digits checkpoint."""
    specs = [spec for spec in Registry().specs() if "digits" in spec.models]
    names = [spec.name for spec in specs if spec.name != "scripted"]  # it reads coded audio
    return names if FULL else [name for name in names if name == QUICK]


def material():
    """Return audio with four digits before each pause, its words, and the times of the pauses."""
    pieces, words, pauses, time = [], [], [], 0.0
    for seed, pause in enumerate(PAUSES):
        clip = connected_digits(4, seed=seed, gap=(0.25, 0.4))
        words += [word.text.strip() for word in clip.words]
        time += len(clip.audio) / SAMPLE_RATE
        pauses.append((time, time + pause))
        pieces += [clip.audio, silence(pause)]
        time += len(pieces[-1]) / SAMPLE_RATE
    return np.concatenate(pieces), words, pauses


def played(name, audio):
    """Return the tokens, the pauses and the End of a session that is fed in chunks of 0.1 s."""
    with load_backend(name, "digits") as backend:
        forces = "language-forcing" in Registry().spec(name).capabilities
        stream = backend.create_processor(language="en" if forces else None)
        session = Session(stream, gate=SilenceGate(SileroDetector()))
        events = [event for chunk in partition(audio, 0.1) for event in session.feed(chunk)]
        events += session.finish()
        stream.close()
    tokens = [token for event in events if isinstance(event, Commit) for token in event.tokens]
    spans = [event.silence for event in events if isinstance(event, SilenceSpan)]
    (end,) = [event for event in events if isinstance(event, End)]
    return tokens, spans, end


@pytest.mark.slow
@pytest.mark.parametrize("name", backends())
def test_every_word_comes_and_none_is_inside_a_pause(name):
    """Words come in order; pauses are detected to a tenth of a second, and the clock is exact."""
    audio, words, pauses = material()
    try:
        tokens, spans, session_end = played(name, audio)
    except BackendUnavailable as error:
        pytest.skip(str(error))

    assert [token.text.strip() for token in tokens] == words
    for start, end in pauses:
        inside = [t.text for t in tokens if t.end > start + EDGE and t.start < end - EDGE]
        assert inside == [], (start, end)
    removed = sum(span.duration for span in spans)
    decoded = session_end.stats.audio_seconds
    assert decoded + removed == pytest.approx(len(audio) / SAMPLE_RATE, abs=1e-6)
    assert session_end.audio_time == len(audio) / SAMPLE_RATE
