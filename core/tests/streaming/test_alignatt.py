"""AlignAtt: what is final by where the decoder attends."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
import pytest

from wlk_core.streaming import AlignAtt

POLICIES = st.builds(AlignAtt, border_frames=st.integers(0, 30), rewind_frames=st.integers(0, 60))
TOKENS = st.lists(st.integers(0, 200), max_size=12)


@pytest.mark.parametrize(
    ("frames", "final"),
    [((10, 40, 89), 3), ((10, 40, 90), 2), ((90, 40), 0), ((60, 39, 70), 1), ((60, 40, 70), 3)],
    ids=["before the border", "at the border", "behind one at the border", "astray", "jitter"],
)
def test_final_is_what_attends_neither_to_the_end_nor_far_back(frames, final):
    """The first token inside the border or too far back ends what is final."""
    policy = AlignAtt(border_frames=10, rewind_frames=20)

    assert final == policy.count_final(frames, frames=100)


def test_attention_is_compared_with_what_earlier_calls_committed():
    """A token that attends far before the last final one of an earlier call is not final."""
    policy = AlignAtt(border_frames=10, rewind_frames=20)

    assert 0 == policy.count_final([29], frames=100, last_frame=50)
    assert 1 == policy.count_final([30], frames=100, last_frame=50)


@given(POLICIES, TOKENS, st.integers(0, 220), st.integers(0, 200))
def test_no_final_token_attends_inside_the_border(policy, tokens, frames, last_frame):
    """While more audio may come, nothing final rests on the end of what is there."""
    count = policy.count_final(tokens, frames=frames, last_frame=last_frame)

    assert all(frame < frames - policy.border_frames for frame in tokens[:count])


@given(POLICIES, TOKENS, st.integers(0, 220), st.integers(0, 200))
def test_what_stops_the_policy_has_a_reason(policy, tokens, frames, last_frame):
    """The first token that is not final lies inside the border or too far back."""
    count = policy.count_final(tokens, frames=frames, last_frame=last_frame)
    farthest = max([last_frame, *(frame for frame in tokens[:count])])

    if count < len(tokens):
        frame = tokens[count]
        assert frame >= frames - policy.border_frames or frame < farthest - policy.rewind_frames


@given(POLICIES, TOKENS, st.integers(0, 220), st.integers(0, 200))
def test_the_last_call_commits_everything(policy, tokens, frames, last_frame):
    """No token waits for audio that will not come."""
    count = policy.count_final(tokens, frames=frames, last_frame=last_frame, is_last=True)

    assert len(tokens) == count


@given(POLICIES, TOKENS, st.integers(0, 220), st.integers(0, 12))
def test_what_follows_changes_nothing_before_it(policy, tokens, frames, kept):
    """A prefix of the tokens has the same final ones, as far as it goes."""
    count = policy.count_final(tokens, frames=frames)

    assert min(count, kept) == policy.count_final(tokens[:kept], frames=frames)


@given(POLICIES, TOKENS, st.integers(0, 220), st.integers(0, 12))
def test_one_call_decides_what_two_would(policy, tokens, frames, cut):
    """Tokens committed by an earlier call weigh as they would in this one (defect B02)."""
    whole = policy.count_final(tokens, frames=frames)
    cut = min(cut, whole)
    farthest = max([0, *(frame for frame in tokens[:cut])])

    assert whole - cut == policy.count_final(tokens[cut:], frames=frames, last_frame=farthest)


@given(POLICIES, TOKENS, st.integers(0, 220), st.integers(0, 200), st.integers(0, 10**6))
def test_where_the_run_began_changes_nothing(policy, tokens, frames, last_frame, shift):
    """Frames are compared with frames of the same run alone, however far it has come."""
    later = [frame + shift for frame in tokens]

    assert policy.count_final(tokens, frames=frames, last_frame=last_frame) == (
        policy.count_final(later, frames=frames + shift, last_frame=last_frame + shift)
    )


@given(POLICIES, TOKENS, st.integers(0, 220), st.integers(0, 50))
def test_more_audio_takes_nothing_back(policy, tokens, frames, more):
    """A token that is final is final with more audio too."""
    assert policy.count_final(tokens, frames=frames) <= (
        policy.count_final(tokens, frames=frames + more)
    )


@pytest.mark.parametrize("frames", [(-1, 0), (0, -1)])
def test_a_negative_number_of_frames_is_refused(frames):
    """A border before the end of the audio is no border."""
    with pytest.raises(ValueError, match="0 frames or more"):
        AlignAtt(border_frames=frames[0], rewind_frames=frames[1])
