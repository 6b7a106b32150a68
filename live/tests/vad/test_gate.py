"""Passing speech on, and measuring the silence in between to the sample."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
import numpy as np
import pytest

from wlk_core import OptionError
from wlk_live.vad import GateParameters, SilenceEnded, SilenceGate, SilenceStarted, SpeechAudio

FRAME = 100  # samples; the lengths below are given in frames of the scripted detector
SECONDS = FRAME / 16_000


class ScriptedDetector:
    """A detector that takes a frame's first sample as its probability of speech."""

    frame_samples = FRAME

    def __call__(self, frame):
        """Return the first sample."""
        assert frame.shape == (FRAME,)
        return float(frame[0])


def parameters_of(*, pre_roll=4, rest=8):
    """Return parameters with lengths in frames; by default the hang-over is 6 frames."""
    return GateParameters(pre_roll=pre_roll * SECONDS, silence_seconds=(pre_roll + rest) * SECONDS)


def gate(**lengths):
    """Return a gate with lengths in frames."""
    return SilenceGate(ScriptedDetector(), parameters_of(**lengths))


def stream(script, tail=0):
    """Return audio whose frames have the probabilities of *script*."""
    return np.repeat(np.array([*script, 0.0], np.float32), FRAME)[: len(script) * FRAME + tail]


def events_of(audio, cuts=(), **lengths):
    """Push *audio* divided at *cuts* and return all events, with speech joined."""
    silence_gate = gate(**lengths)
    events = []
    for piece in np.split(audio, sorted(cuts)):
        events.extend(silence_gate.push(piece))
    events.extend(silence_gate.flush())
    joined = []
    for event in events:
        if isinstance(event, SpeechAudio) and joined and isinstance(joined[-1], SpeechAudio):
            before = joined.pop()
            assert event.start_sample == before.start_sample + len(before.samples)
            event = SpeechAudio(  # noqa: PLW2901 -- joined
                np.concatenate([before.samples, event.samples]), before.start_sample
            )
        joined.append(event)
    return joined


def outline(events):
    """Return the events with their boundaries in frames."""
    lines = []
    for event in events:
        match event:
            case SpeechAudio(samples, start):
                lines.append(("speech", start / FRAME, (start + len(samples)) / FRAME))
            case SilenceStarted(at):
                lines.append(("quiet", at / FRAME))
            case SilenceEnded(start, end):
                lines.append(("silence", start / FRAME, end / FRAME))
    return lines


SCRIPTS = st.lists(
    st.tuples(st.sampled_from([0.0, 0.2, 0.4, 0.9]), st.integers(1, 20)), max_size=12
).map(lambda runs: [probability for probability, count in runs for _ in range(count)])
LENGTHS = st.fixed_dictionaries(
    {
        "pre_roll": st.sampled_from([0, 1.5, 4]),
        "rest": st.sampled_from([0.001, 1.4, 2.04, 3, 8, 60]),
    }
)


def test_a_pause_is_removed_except_for_its_margins():
    """Hang-over and pre-roll belong to the speech; the rest is silence."""
    audio = stream([0] * 20 + [0.9] * 5 + [0] * 30 + [0.9] * 5)

    assert outline(events_of(audio)) == [
        ("silence", 0, 16),
        ("speech", 16, 31),
        ("quiet", 31),
        ("silence", 31, 51),
        ("speech", 51, 60),
    ]


def test_a_word_between_the_thresholds_continues_speech_but_does_not_begin_it():
    """The lower threshold applies during speech."""
    audio = stream([0.4] * 20 + [0.9] + [0.4] * 20)

    assert outline(events_of(audio)) == [("silence", 0, 16), ("speech", 16, 41)]


def test_speech_passes_at_once_and_a_silence_is_reported_when_it_is_certain():
    """Neither speech nor its hang-over is held back."""
    silence_gate = gate()
    pushed = [outline(silence_gate.push(stream([p]))) for p in [0.9] + [0] * 12]

    assert pushed[:7] == [[("speech", n, n + 1)] for n in range(7)]
    assert pushed[7:12] == [[]] * 5
    assert pushed[12] == [("quiet", 7)]


def test_a_word_in_a_tail_shorter_than_a_frame_is_passed_on():
    """The tail is padded only for the detector."""
    audio = np.concatenate([stream([0] * 50), np.full(30, 0.9, np.float32)])

    assert outline(events_of(audio)) == [("silence", 0, 46), ("speech", 46, 50.3)]


@settings(deadline=None, derandomize=True, max_examples=40)
@given(script=SCRIPTS, tail=st.integers(0, FRAME - 1), lengths=LENGTHS)
def test_speech_and_silence_add_up_to_the_stream(script, tail, lengths):
    """Every sample is either passed on unchanged or removed, once, without gap or overlap."""
    audio = stream(script, tail) + np.linspace(0, 1e-3, len(script) * FRAME + tail, dtype="f4")
    position, reported = 0, None
    for event in events_of(audio, **lengths):
        match event:
            case SpeechAudio(samples, start):
                assert reported is None
                assert start == position
                assert np.array_equal(samples, audio[start : start + len(samples)])
                position += len(samples)
            case SilenceStarted(at):
                assert at == position > 0
                reported = at
            case SilenceEnded(start, end):
                assert start == position == (reported or 0)
                shortest = parameters_of(**lengths).min_silence
                # Whether a silence is long enough is decided to the nearest frame.
                assert end - start >= max(1, round(shortest * 16_000) - FRAME // 2)
                position, reported = end, None

    assert position == len(audio)
    assert reported is None


@settings(deadline=None, derandomize=True, max_examples=40)
@given(
    script=SCRIPTS,
    tail=st.integers(0, FRAME - 1),
    lengths=LENGTHS,
    cuts=st.lists(st.integers(0, 8000), max_size=20),
)
def test_the_cut_of_the_stream_changes_nothing(script, tail, lengths, cuts):
    """Any sequence of pushes gives the same events as one push."""
    audio = stream(script, tail)

    expected = events_of(audio, **lengths)

    assert events_of(audio, cuts, **lengths) == expected


@settings(deadline=None, derandomize=True, max_examples=40)
@given(script=SCRIPTS, lengths=LENGTHS)
def test_no_speech_frame_is_removed_nor_its_margins(script, lengths):
    """Every frame detected as speech is passed on, with pre-roll and hang-over."""
    audio = stream(script)
    passed_on = np.zeros(len(audio), bool)
    for event in events_of(audio, **lengths):
        if isinstance(event, SpeechAudio):
            passed_on[event.start_sample : event.start_sample + len(event.samples)] = True

    # The silence is a whole number of frames, at least one, and longer than its margins.
    silence = max(1, int(lengths["pre_roll"] + lengths["rest"] + 0.5)) * FRAME
    hang_over = min(round(parameters_of(**lengths).hang_over * 16_000), silence - 1)
    pre_roll = min(round(lengths["pre_roll"] * FRAME), silence - hang_over - 1)
    for frame, probability in enumerate(script):
        if probability >= 0.5:
            start, end = frame * FRAME - pre_roll, (frame + 1) * FRAME + hang_over
            assert passed_on[max(0, start) : end].all()


def test_an_hour_of_silence_is_not_kept():
    """The audio held is bounded by the margins and the shortest silence, not by the push."""
    silence_gate = gate()
    silence_gate.push(stream([0] * 3000))

    assert len(silence_gate._audio) <= 7 * FRAME
    assert silence_gate._audio.base is None


@given(script=SCRIPTS, tail=st.integers(0, FRAME - 1), lengths=LENGTHS, at=st.integers(0, 60))
def test_an_utterance_that_the_caller_ends_is_passed_on_whole(script, tail, lengths, at):
    """After a cut no speech is held back, and no sample is passed on twice."""
    audio = stream(script, tail)
    first, second = audio[: at * FRAME + 7], audio[at * FRAME + 7 :]
    silence_gate = gate(**lengths)
    events = silence_gate.push(first)
    was_silent = silence_gate._state.name == "SILENCE"
    events += silence_gate.cut()
    passed_on = sum(len(event.samples) for event in events if isinstance(event, SpeechAudio))
    removed = sum(
        event.end_sample - event.start_sample for event in events if isinstance(event, SilenceEnded)
    )
    events += silence_gate.push(second) + silence_gate.flush()

    assert was_silent or passed_on + removed == len(first)
    position = 0
    for event in events:
        match event:
            case SpeechAudio(samples, start):
                assert start == position
                position += len(samples)
            case SilenceEnded(start, end):
                assert start == position
                position = end
    assert position == len(audio)


def test_a_caller_that_knows_the_turn_is_over_begins_the_silence():
    """The silence begins after the audio that was passed on, and ends like any other."""
    silence_gate = gate()
    events = silence_gate.push(stream([0.9] * 5 + [0] * 3))
    quiet = silence_gate.quiet_seconds
    ended = silence_gate.end_speech()
    events += ended + silence_gate.end_speech()
    events += silence_gate.push(stream([0] * 20 + [0.9] * 5))

    assert quiet == pytest.approx(3 * SECONDS)
    assert outline(ended) == [("quiet", 8)]
    assert silence_gate.quiet_seconds == 0
    assert outline(events) == [
        ("speech", 0, 8),
        ("quiet", 8),
        ("silence", 8, 24),
        ("speech", 24, 33),
    ]


@pytest.mark.parametrize("pre_roll", [0, 0.15, "all but 0.01"])
@pytest.mark.parametrize(
    ("length", "frames"), [(6.25, 6), (6.49, 6), (6.5, 7), (7, 7), (1.4, 1), (0.2, 1)]
)
def test_a_silence_is_certain_after_the_nearest_number_of_frames(length, frames, pre_roll):
    """0.2 s are 6.25 frames of 32 ms, and nobody waits for the rest of the seventh."""
    before = length - 0.01 if pre_roll == "all but 0.01" else pre_roll
    silence_gate = gate(pre_roll=before, rest=length - before)
    silence_gate.push(stream([0.9] * 3))
    pushed = [silence_gate.push(stream([0.0])) for _ in range(frames)]

    certain = [any(isinstance(each, SilenceStarted) for each in events) for events in pushed]
    assert certain == [False] * (frames - 1) + [True]


@pytest.mark.parametrize(
    ("silence_seconds", "hang_over"), [(1.2, 0.1), (0.6, 0.1), (0.4, 0.075), (0.3005, 0.000375)]
)
def test_the_hang_over_is_short_however_long_the_silence_is(silence_seconds, hang_over):
    """Three quarters of what the pre-roll leaves, but never more than 0.1 s."""
    parameters = GateParameters(silence_seconds=silence_seconds, pre_roll=0.3)
    parts = parameters.pre_roll + parameters.hang_over + parameters.min_silence

    assert parameters.hang_over == pytest.approx(hang_over)
    assert parts == pytest.approx(silence_seconds)


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"threshold": 1.5}, "from 0 to 1, got 1.5"),
        ({"pre_roll": -0.1}, "pre-roll of -0.1"),
        ({"silence_seconds": 0.4}, "a longer silence"),
        ({"silence_seconds": float("inf")}, "inf"),
    ],
)
def test_a_parameter_out_of_range_is_refused(options, match):
    """OptionError states the accepted range or the value."""
    with pytest.raises(OptionError, match=match):
        GateParameters(**options)
