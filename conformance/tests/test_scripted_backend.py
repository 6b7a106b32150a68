"""Properties of the scripted backend that the rules and sessions do not prove."""

from __future__ import annotations

import pytest

from wlk_conformance import EngineFaults
from wlk_conformance.interfaces import STAYS_UNDECIDED
from wlk_conformance.scripted import ScriptedBackend
from wlk_conformance.testing import CELL_SECONDS, CodedToken, StreamDriver, encode
from wlk_core import BackendError


def transcribe(audio):
    """Return the driver of a finished native stream of *audio*."""
    driver = StreamDriver(ScriptedBackend().create_processor(policy="native"))
    driver.feed(audio)
    driver.end()
    return driver


@pytest.mark.parametrize("call", range(1, 8))
def test_padding_that_failed_is_not_decoded(call):
    """A flush that fails in the middle of its padding leaves no pause in audio that follows."""
    audio = encode([CodedToken(3, 2, 6), CodedToken(4, 9, 6)])
    cut = round(5.5 * 1280)
    expected = transcribe(audio)
    backend = ScriptedBackend()
    driver = StreamDriver(backend.create_processor(policy="native"))
    driver.feed(audio[:cut])
    driver.drain()
    faults = EngineFaults.of(backend.engine_calls)
    faults.fail_before = frozenset({faults.count + call})
    with pytest.raises(BackendError):
        driver.finish()
    driver.insert(audio[cut:])
    driver.finish()

    assert driver.tokens == expected.tokens


def test_a_native_stream_has_a_fixed_delay():
    """A word is committed six cells after its end, and not a cell earlier."""
    audio = encode([CodedToken(3, 2, 3)], cells=20)
    driver = StreamDriver(ScriptedBackend().create_processor(policy="native"))
    driver.feed(audio, chunk_seconds=CELL_SECONDS)
    commit_times = [record.audio_time for record in driver.records if record.emission.committed]

    assert commit_times == pytest.approx([(5 + 6) * CELL_SECONDS])


def test_two_hypotheses_of_an_undecided_stream_never_agree():
    """An engine that stays undecided mistakes every second hypothesis of each stream."""
    backend = ScriptedBackend()
    backend.habits = frozenset({STAYS_UNDECIDED})
    first, second = (
        StreamDriver(backend.create_processor(policy="local-agreement", tick_seconds=2.0))
        for _ in range(2)
    )
    audio = encode([CodedToken(3, 2, 3)], cells=125)
    for start in range(0, len(audio), 16_000):
        for driver in (first, second):
            driver.feed(audio[start : start + 16_000])

    assert first.tokens == ()
    assert second.tokens == ()
