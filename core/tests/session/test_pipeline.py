"""Sessions: decoded audio in, events out."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from wlk_conformance.testing import silence
from wlk_core.session import Commit, End, HypothesisChange, SilenceSpan, transcribe_stream
from wlk_core.vad import SilenceGate


@pytest.fixture
def run(open_stream):
    """Return a function that gives the events of a session over audio."""

    def run(audio, **options):
        return list(transcribe_stream(open_stream(), [audio], **options))

    return run


def tokens_of(events):
    """Return the committed tokens."""
    return [token for event in events if isinstance(event, Commit) for token in event.tokens]


@pytest.mark.parametrize("chunk_seconds", [0.1, 1.0, 60.0])
def test_pauses_are_left_out_and_the_clock_stays(chunk_seconds, run, speech, words, detector):
    """After gated pauses the times are still those of the recording."""
    audio = np.concatenate((silence(3.0), speech, silence(7.0), speech, silence(4.0)))
    events = run(audio, chunk_seconds=chunk_seconds, gate=SilenceGate(detector))
    second = 10.0 + len(speech) / 16_000
    shifted = [w.start + 3.0 for w in words] + [w.start + second for w in words]
    spans = [event.silence for event in events if isinstance(event, SilenceSpan)]

    assert shifted == pytest.approx([t.start for t in tokens_of(events)])
    assert 3 == len(spans)
    assert len(audio) / 16_000 == pytest.approx(events[-1].audio_time)
    total = events[-1].stats.audio_seconds + sum(span.duration for span in spans)
    assert total == pytest.approx(events[-1].audio_time)


def test_a_session_ends_with_its_figures(run, speech, words):
    """End holds length, counters and emission latency."""
    end = run(speech)[-1]

    assert isinstance(end, End)
    assert len(words) == end.latency.words
    assert end.stats.encoder_frames > 0
    assert end.stats.state_bytes > 0


def test_the_hypothesis_is_reported_when_it_changes(run, speech):
    """Every change is reported once; the last hypothesis is empty."""
    changes = [event for event in run(speech) if isinstance(event, HypothesisChange)]
    texts = [change.transcript.text for change in changes]

    assert all(text != following for text, following in pairwise(texts))
    assert "" == texts[-1]
