"""The diarizer finds turns, pauses and overlaps, and keeps its limits."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from tone_voices import tone, turns_of

from wlk_core.plugins import SAMPLE_RATE
from wlk_diarize.engine.diarizer import ClusteringDiarizer

TALK = ((0, 3.0), (None, 0.5), (1, 3.0), (0, 2.0), (None, 0.2), (2, 2.5), (1, 4.0))
HOP = 1.0125  # seconds from one decision to the next


def audio_of(turns):
    """Return the audio of (voice, seconds) turns."""
    return np.concatenate([tone(voice, seconds) for voice, seconds in turns])


def diarize(diarizer, audio, *, chunk_seconds=0.5):
    """Return all spans of *audio*, and the time at which each was returned."""
    spans, clocks = [], []
    step = round(chunk_seconds * SAMPLE_RATE)
    for start in range(0, len(audio), step):
        diarizer.insert_audio_chunk(audio[start : start + step])
        new = diarizer.process_iter()
        spans += new
        clocks += [min(start + step, len(audio)) / SAMPLE_RATE] * len(new)
    last = diarizer.process_iter(is_last=True)
    return spans + last, clocks + [len(audio) / SAMPLE_RATE] * len(last)


def test_speakers_who_take_turns_are_found_and_found_again(diarizer):
    """Each turn has the number of its voice, in order of appearance."""
    turns = turns_of(diarize(diarizer, audio_of(TALK))[0])

    assert [speaker for speaker, _, _ in turns] == [0, 1, 0, 2, 1]
    bounds = [0.0, 3.0, 3.5, 6.5, 6.5, 8.5, 8.7, 11.2, 11.2, 15.2]
    assert [time for turn in turns for time in turn[1:]] == pytest.approx(bounds, abs=0.05)


@pytest.mark.parametrize("chunk_seconds", [0.08, 1.0, 60.0])
def test_the_cut_of_the_audio_changes_nothing(chunk_seconds, networks):
    """Decisions lie on a fixed sample grid."""
    audio = audio_of(TALK)
    expected, _ = diarize(ClusteringDiarizer(networks, max_speakers=8), audio)
    spans, _ = diarize(
        ClusteringDiarizer(networks, max_speakers=8), audio, chunk_seconds=chunk_seconds
    )

    assert spans == expected


def test_a_span_comes_within_the_delay_that_is_stated(diarizer):
    """The delay is at most the lookahead, a hop, and the chunk of the caller."""
    spans, clocks = diarize(diarizer, audio_of(TALK), chunk_seconds=0.1)

    assert diarizer.max_delay == pytest.approx(2.53, abs=0.01)
    assert max(clock - span.end for span, clock in zip(spans, clocks, strict=True)) <= (
        diarizer.max_delay + 0.1
    )


def test_what_was_returned_is_never_returned_again(diarizer):
    """The spans of a speaker do not overlap."""
    spans, _ = diarize(diarizer, audio_of(TALK))
    for speaker in (0, 1, 2):
        own = [span for span in spans if span.speaker == speaker]
        assert own == sorted(own, key=lambda span: span.start)
        assert all(before.end <= after.start for before, after in pairwise(own))
    assert diarizer.process_iter(is_last=True) == []


def test_a_pause_decides_what_was_said_before_it_and_moves_the_clock(diarizer):
    """A pause needs no lookahead, and no span crosses it."""
    diarizer.insert_audio_chunk(tone(0, 1.2))
    assert diarizer.process_iter() == []
    diarizer.insert_silence(30.0)
    first = turns_of(diarizer.process_iter())
    diarizer.insert_audio_chunk(tone(0, 1.2))
    diarizer.insert_silence(5)
    second = turns_of(diarizer.process_iter())

    assert first == [[0, 0.0, pytest.approx(1.2, abs=0.02)]]
    assert second == [[0, pytest.approx(31.2, abs=0.02), pytest.approx(32.4, abs=0.02)]]


def test_a_pause_after_next_to_no_audio_keeps_the_clock(diarizer):
    """Audio too short for a label is left out, and does not shift the clock."""
    diarizer.insert_audio_chunk(tone(0, 0.1))
    diarizer.insert_silence(10.0)
    diarizer.insert_audio_chunk(tone(0, 2.0))
    (turn,) = turns_of(diarizer.process_iter(is_last=True))

    assert turn == [0, pytest.approx(10.1, abs=0.05), pytest.approx(12.1, abs=0.02)]


def test_two_who_speak_at_once_have_spans_that_overlap(diarizer):
    """Overlapping speech is attributed to both, and changes the mean of neither."""
    audio = audio_of([(0, 4.0), (1, 4.0)])
    audio = np.concatenate((audio, tone(0, 1.0) + tone(1, 1.0), tone(1, 2.0)))
    turns = turns_of(diarize(diarizer, audio)[0])

    assert [speaker for speaker, _, _ in turns] == [0, 1, 0]
    assert turns[2][1:] == pytest.approx([8.0, 9.0], abs=0.05)
    assert turns[1][2] == pytest.approx(11.0, abs=0.05)


def test_a_short_word_makes_no_new_speaker(diarizer):
    """Half a second of speech is too little to begin a new speaker."""
    spans, _ = diarize(diarizer, audio_of([(0, 3.0), (None, 0.4), (1, 0.5), (None, 0.4), (0, 3.0)]))

    assert {span.speaker for span in spans} == {0}


def test_eight_speakers_keep_their_numbers(diarizer):
    """This holds even after all of them were silent for longer than the window."""
    spans, _ = diarize(diarizer, audio_of([(voice, 5.0) for voice in (*range(8), *range(8))]))

    assert [speaker for speaker, _, _ in turns_of(spans)] == [*range(8), *range(8)]


def test_a_speaker_beyond_the_limit_is_given_to_the_nearest(networks):
    """No new label is added."""
    diarizer = ClusteringDiarizer(networks, max_speakers=2)
    spans, _ = diarize(diarizer, audio_of([(0, 3.0), (1, 3.0), (2, 3.0)]))

    assert {span.speaker for span in spans} == {0, 1}
    assert sum(span.end - span.start for span in spans) == pytest.approx(9.0, abs=0.1)


def test_silence_has_no_speaker(diarizer):
    """Noise that the networks do not call speech has no spans."""
    assert diarize(diarizer, audio_of([(None, 8.0)]))[0] == []


def test_a_reset_diarizer_is_a_new_one(diarizer):
    """Numbers and the clock restart."""
    audio = audio_of(TALK)
    first, _ = diarize(diarizer, audio)
    frames = diarizer.stats.encoder_frames
    diarizer.reset()

    assert first == diarize(diarizer, audio)[0]
    assert diarizer.stats.encoder_frames == frames
    diarizer.close()
    diarizer.close()


def test_inserting_runs_no_model_and_keeps_a_copy(diarizer, networks):
    """The caller can reuse its array."""
    audio = tone(0, 5.0)
    diarizer.insert_audio_chunk(audio)
    audio[:] = 0

    assert networks.seconds == []
    assert turns_of(diarizer.process_iter(is_last=True)) == [[0, 0.0, pytest.approx(5.0, abs=0.02)]]


def test_work_and_state_are_those_of_ten_seconds(diarizer, networks):
    """Every minute costs the same, and no audio older than a window is kept."""
    work, kept = [], []
    for _ in range(4):
        networks.seconds.clear()
        for chunk in np.array_split(audio_of([(0, 15.0), (1, 15.0)] * 2), 60):
            diarizer.insert_audio_chunk(chunk)
            diarizer.process_iter()
        work.append(sum(networks.seconds))
        kept.append(len(diarizer._audio) + diarizer._past.size)

    assert work[1] == pytest.approx(work[3], rel=0.05)
    assert kept[1] == kept[3] <= 10 * SAMPLE_RATE + 8 * 592
    assert work[3] == pytest.approx(60 / HOP * 10, rel=0.3)
