"""AlignAtt: which tokens are final, by the frames that the decoder attended to."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from wlk_core.streaming import AlignAtt

POLICIES = st.builds(AlignAtt, border_frames=st.integers(0, 30), rewind_frames=st.integers(0, 60))
FRAMES = st.lists(st.integers(0, 200), max_size=12)


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
