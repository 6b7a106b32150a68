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
    [((10, 40, 89), 3), ((10, 40, 90), 2), ((90, 40), 0), ((60, 39, 70), 1), ((60, 40, 70), 3)],
    ids=["before the border", "at the border", "after one at the border", "astray", "jitter"],
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


@given(POLICIES, FRAMES, st.integers(0, 220), st.integers(0, 200))
def test_no_final_token_attends_inside_the_border(policy, tokens, frames, last_frame):
    """While more audio may come, no final token attends to the end of the audio."""
    count = policy.count_final(tokens, frames=frames, last_frame=last_frame)

    assert all(frame < frames - policy.border_frames for frame in tokens[:count])


@given(POLICIES, FRAMES, st.integers(0, 220), st.integers(-40, 39), FRAMES)
def test_a_token_at_the_border_or_far_back_ends_what_is_final(
    policy, final, last_frame, distance, following
):
    """Tokens before such a token are final; it and the tokens after it are not."""
    final = sorted(frame + last_frame for frame in final)
    farthest = max([last_frame, *final])
    frames = farthest + policy.border_frames + 1
    at_border, astray = frames - policy.border_frames, farthest - policy.rewind_frames
    stopping = (at_border if distance >= 0 else astray) + distance
    tokens = [*final, stopping, *following]

    assert len(final) == policy.count_final(tokens, frames=frames, last_frame=last_frame)


@given(POLICIES, FRAMES, st.integers(0, 200), st.data())
def test_a_token_between_the_two_limits_is_final(policy, tokens, last_frame, data):
    """A token that attends before the border and not far back is final."""
    frames = 240 + policy.border_frames
    tokens = tokens[: policy.count_final(tokens, frames=frames, last_frame=last_frame)]
    farthest = max([last_frame, *tokens])
    frame = data.draw(st.integers(farthest - policy.rewind_frames, 239))

    assert len(tokens) + 1 == policy.count_final(
        [*tokens, frame], frames=frames, last_frame=last_frame
    )


@given(POLICIES, FRAMES, st.integers(0, 220), st.integers(0, 200))
def test_the_last_call_commits_everything(policy, tokens, frames, last_frame):
    """No token waits for audio that will not come."""
    count = policy.count_final(tokens, frames=frames, last_frame=last_frame, is_last=True)

    assert len(tokens) == count


@given(POLICIES, FRAMES, st.integers(0, 220), st.integers(0, 12))
def test_later_tokens_change_nothing_before_them(policy, tokens, frames, length):
    """A prefix of the tokens has the same final tokens, as far as it goes."""
    count = policy.count_final(tokens, frames=frames)

    assert min(count, length) == policy.count_final(tokens[:length], frames=frames)


@given(POLICIES, FRAMES, st.integers(0, 220), st.integers(0, 12))
def test_two_calls_decide_what_a_single_call_would(policy, tokens, frames, cut):
    """Tokens committed by an earlier call count as they would in this call."""
    whole = policy.count_final(tokens, frames=frames)
    cut = min(cut, whole)
    farthest = max([0, *tokens[:cut]])

    assert whole - cut == policy.count_final(tokens[cut:], frames=frames, last_frame=farthest)


@given(POLICIES, FRAMES, st.integers(0, 220), st.integers(0, 200), st.integers(0, 10**6))
def test_where_the_utterance_began_changes_nothing(policy, tokens, frames, last_frame, shift):
    """Frames are compared with frames of the same utterance alone, however long it is."""
    later = [frame + shift for frame in tokens]

    assert policy.count_final(tokens, frames=frames, last_frame=last_frame) == (
        policy.count_final(later, frames=frames + shift, last_frame=last_frame + shift)
    )


@given(POLICIES, FRAMES, st.integers(0, 220), st.integers(0, 50))
def test_more_audio_takes_nothing_back(policy, tokens, frames, more):
    """A token that is final is final with more audio too."""
    assert policy.count_final(tokens, frames=frames) <= (
        policy.count_final(tokens, frames=frames + more)
    )


@pytest.mark.parametrize("frames", [(-1, 0), (0, -1)])
def test_a_negative_number_of_frames_is_refused(frames):
    """A border and a rewind of less than no frames raise ValueError."""
    with pytest.raises(ValueError, match="0 frames or more"):
        AlignAtt(border_frames=frames[0], rewind_frames=frames[1])
