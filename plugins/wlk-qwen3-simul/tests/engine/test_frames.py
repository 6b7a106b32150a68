"""Tokens, mel frames and seconds convert into one another exactly."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
import pytest

from wlk_qwen3_simul.engine.frames import FRAME_SECONDS, frame_of_token, token_count


@pytest.mark.parametrize(
    ("frames", "tokens"), [(1, 1), (8, 1), (9, 2), (99, 13), (100, 13), (101, 14), (800, 104)]
)
def test_a_second_has_thirteen_tokens_and_a_rest_one_for_every_80_ms(frames, tokens):
    """The last token of a second stands for half a stride."""
    assert tokens == token_count(frames)


@given(st.integers(0, 10_000))
def test_a_token_begins_where_its_second_and_its_stride_put_it(token):
    """The time is exact, not a share of the audio: it does not move when more audio comes."""
    seconds = frame_of_token(token) * FRAME_SECONDS

    assert seconds == pytest.approx(token // 13 + 0.08 * (token % 13))
