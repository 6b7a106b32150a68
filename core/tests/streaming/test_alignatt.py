"""AlignAtt: which tokens are final, by the frames that the decoder attended to."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
import pytest

from wlk_core.streaming import AlignAtt

POLICIES = st.builds(AlignAtt, border_frames=st.integers(0, 30), rewind_frames=st.integers(0, 60))
FRAMES = st.lists(st.integers(0, 200), max_size=12)


@pytest.mark.parametrize(
    ("frames", "final"),
    [
        pytest.param((10, 40, 89), 3, id="before the border"),
        pytest.param((10, 40, 90), 2, id="at the border"),
        pytest.param((90, 40), 0, id="after one at the border"),
        pytest.param((60, 39, 70), 1, id="astray"),
        pytest.param((60, 45, 39), 2, id="astray in two jumps"),
        pytest.param((60, 40, 70), 3, id="jitter"),
    ],
)
def test_a_final_token_attends_neither_to_the_end_nor_far_back(frames, final):
    """The first token inside the border or too far back ends what is final."""
    policy = AlignAtt(border_frames=10, rewind_frames=20)

    assert final == policy.count_final(frames, frames=100)


def test_attention_is_compared_with_frames_of_earlier_calls():
    """A token that attends far before the last final one of an earlier call is not final."""
    policy = AlignAtt(border_frames=10, rewind_frames=20)

    assert 0 == policy.count_final([29], frames=100, last_frame=50)
    assert 1 == policy.count_final([30], frames=100, last_frame=50)


@given(POLICIES, FRAMES, st.integers(0, 220), st.integers(0, 200), st.integers(0, 10**6))
def test_the_final_tokens_are_those_before_the_first_that_may_change(
    policy, tokens, frames, last_frame, shift
):
    """The definition, one token at a time, wherever the utterance began."""

    def may_change(index):
        farthest = max([last_frame, *tokens[:index]])
        is_at_border = tokens[index] >= frames - policy.border_frames
        return is_at_border or tokens[index] < farthest - policy.rewind_frames

    changing = [index for index in range(len(tokens)) if may_change(index)]
    later = [frame + shift for frame in tokens]
    count = policy.count_final(later, frames=frames + shift, last_frame=last_frame + shift)

    assert min(changing, default=len(tokens)) == count


@given(POLICIES, FRAMES, st.integers(0, 220), st.integers(0, 200))
def test_the_last_call_commits_everything(policy, tokens, frames, last_frame):
    """No token waits for audio that will not come."""
    count = policy.count_final(tokens, frames=frames, last_frame=last_frame, is_last=True)

    assert len(tokens) == count
