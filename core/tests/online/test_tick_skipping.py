"""A stream that skips ticks decodes at the latest tick only, and loses no word."""

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

    def run(*, is_skipping: bool) -> tuple[Any, str]:
        engine = coded_engine()
        stream = engine.stream(policy=policy)
        stream.skip_ticks(is_skipping=is_skipping)
        stream.insert_audio_chunk(talk)
        tokens = []
        while stream.has_backlog:
            tokens += stream.process_iter().committed
        tokens += stream.finish().committed
        return engine, "".join(token.text for token in tokens)

    every_tick, expected = run(is_skipping=False)
    latest_tick, text = run(is_skipping=True)

    assert text == expected
    assert latest_tick.calls < every_tick.calls / 3
    assert latest_tick.longest <= 28 * 16_000


def test_a_reset_ends_the_skipping(coded_engine: Any, speech: Any) -> None:
    """The next stream decodes at each of its ticks."""
    engines = [coded_engine() for _ in range(2)]
    for engine in engines:
        stream = engine.stream()
        if engine is engines[0]:
            stream.skip_ticks(is_skipping=True)
            stream.reset()
        stream.insert_audio_chunk(speech.audio)
        stream.finish()

    assert engines[0].calls == engines[1].calls
