"""A stream that catches up decodes at the latest tick only, and loses no word."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest


@pytest.mark.parametrize("policy", ["local-agreement", "alignatt"])
def test_no_word_is_lost_and_far_less_is_decoded(
    policy: str, coded_engine: Any, speech: Any
) -> None:
    """All audio is decoded at fewer ticks, in calls of accepted length."""
    talk = np.concatenate(8 * [speech.audio])

    def run(*, catches_up: bool) -> tuple[Any, str]:
        engine = coded_engine()
        stream = engine.stream(policy=policy)
        if catches_up:
            stream.begin_catch_up()
        stream.insert_audio_chunk(talk)
        tokens = []
        while stream.has_backlog:
            tokens += stream.process_iter().committed
        tokens += stream.finish().committed
        return engine, "".join(token.text for token in tokens)

    every_tick, expected = run(catches_up=False)
    latest_tick, text = run(catches_up=True)

    assert text == expected
    assert latest_tick.calls < every_tick.calls / 3
    assert latest_tick.longest <= 28 * 16_000


def test_every_tick_is_decoded_again_afterwards(coded_engine: Any, speech: Any) -> None:
    """A stream that caught up goes on as one that never was late."""
    engine = coded_engine()
    stream = engine.stream()
    stream.begin_catch_up()
    stream.end_catch_up()
    stream.insert_audio_chunk(speech.audio)
    stream.finish()

    assert engine.calls == 16


def test_a_reset_ends_it(coded_engine: Any, speech: Any) -> None:
    """The next stream decodes at each of its ticks."""
    engines = [coded_engine() for _ in range(2)]
    for engine in engines:
        stream = engine.stream()
        if engine is engines[0]:
            stream.begin_catch_up()
            stream.reset()
        stream.insert_audio_chunk(speech.audio)
        stream.finish()

    assert engines[0].calls == engines[1].calls
