"""Sessions over an engine that reads coded audio, and a speech detector for such audio."""

from __future__ import annotations

from pathlib import Path
import sys

import numpy as np
import pytest

from wlk_conformance.testing import partition, silence
from wlk_conformance.testing.coded_audio import LoudIsSpeech
from wlk_live.session import Session
from wlk_live.vad import SilenceGate

sys.path.insert(0, str(Path(__file__).parent))  # for `session_events`


@pytest.fixture
def detector():
    """Return a speech detector for coded audio."""
    return LoudIsSpeech()


@pytest.fixture
def talk(speech):
    """Return two utterances of ten seconds, with pauses before, between and after them."""
    return np.concatenate((silence(3.0), speech, silence(7.0), speech, silence(4.0)))


@pytest.fixture
def open_session(open_coded, detector):
    """Return a function that opens a session over coded audio, by default with a gate."""

    def open_session(*, fail_at=(), gated=True, **options):
        gate = SilenceGate(detector) if gated else None
        options = {"encoding": "f32le"} | options
        return Session(open_coded(fail_at), gate=gate, **options)

    return open_session


@pytest.fixture
def run(open_coded, detector):
    """Return a function that feeds a session in chunks and returns its events."""

    def run(audio, *, chunk_seconds=0.5, **annotators):
        session = Session(open_coded(), gate=SilenceGate(detector), **annotators)
        chunks = partition(audio, chunk_seconds)
        events = [event for chunk in chunks for event in session.feed(chunk)]
        return events + session.finish()

    return run
