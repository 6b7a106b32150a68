"""Tokens, mel frames and seconds count against one another exactly."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
import pytest

from wlk_qwen3_simul.audio.frames import FRAME_SAMPLES, RATE, token_count, token_frame


@pytest.mark.parametrize(
    ("frames", "tokens"), [(1, 1), (8, 1), (9, 2), (99, 13), (100, 13), (101, 14), (800, 104)]
)
def test_a_second_has_thirteen_tokens_and_a_rest_one_for_every_80_ms(frames, tokens):
    """The last token of a second stands for half a stride."""
    assert tokens == token_count(frames)


@given(st.integers(0, 10_000))
def test_a_token_begins_where_its_second_and_its_stride_say(token):
    """The place is exact, not a share of the audio: it does not move when more audio comes."""
    seconds = token_frame(token) * FRAME_SAMPLES / RATE

    assert seconds == pytest.approx(token // 13 + 0.08 * (token % 13))


@given(st.integers(1, 5000))
def test_every_token_begins_within_the_frames_it_was_made_of(frames):
    """No token lies behind the audio."""
    last = token_count(frames) - 1

    assert token_frame(last) * FRAME_SAMPLES < frames * 160
