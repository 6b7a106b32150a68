"""An engine that ends a text early loses no word of a stream that decodes its audio again."""

from __future__ import annotations

from functools import partial

import pytest

from wlk_conformance import EngineFaults
from wlk_conformance.testing import StreamDriver
from wlk_core.plugins import (
    AlignAttRecognizer,
    EngineCalls,
    LocalAgreementRecognizer,
    OnlineStream,
)
from wlk_core.streaming import AlignAtt

FRAME = 320
BUFFER_SECONDS = 4.0  # so short that the buffer is cut several times


def recognizer(policy, engine, calls):
    """Return a function that makes a recognizer with a short buffer."""
    if policy == "local-agreement":
        transcribe = calls.wrap(engine.transcribe)
        return partial(LocalAgreementRecognizer, transcribe, buffer_seconds=BUFFER_SECONDS)
    return partial(
        AlignAttRecognizer,
        calls.wrap(engine.decode),
        policy=AlignAtt(border_frames=8, rewind_frames=25),
        frame_samples=FRAME,
        buffer_seconds=BUFFER_SECONDS,
    )


@pytest.mark.parametrize("policy", ["local-agreement", "alignatt"])
@pytest.mark.parametrize("share", [0.0, 0.5])
@pytest.mark.parametrize("call", range(1, 16))
def test_an_answer_cut_short_loses_no_word(speech, engine, policy, share, call):
    """The audio whose text was cut is decoded again, also where the buffer is cut then."""
    calls = EngineCalls()
    faults = EngineFaults(calls)
    faults.cut_short = {call: share}
    driver = StreamDriver(OnlineStream(recognizer(policy, engine, calls)))
    driver.feed(speech.audio)
    driver.finish()

    assert 1 == faults.cut_count
    assert speech.text == driver.text


@pytest.mark.parametrize("policy", ["local-agreement", "alignatt"])
def test_an_engine_without_any_text_moves_the_clock(speech, engine, policy):
    """A stream whose every answer is empty commits nothing and ends with its audio."""
    calls = EngineCalls()
    faults = EngineFaults(calls)
    faults.cut_short = dict.fromkeys(range(1, 100), 0.0)
    driver = StreamDriver(OnlineStream(recognizer(policy, engine, calls)))
    driver.feed(speech.audio)
    driver.finish()

    assert "" == driver.text
    assert len(speech.audio) / 16_000 == driver.processed_up_to
