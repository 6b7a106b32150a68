"""AlignAtt waits longer for words of which the decoder is not sure."""

from __future__ import annotations

import pytest

from wlk_core.plugins import AlignedWord
from wlk_whisper.engine.policy import PatientAlignAtt

POLICY = PatientAlignAtt(border_frames=15, rewind_frames=200, unsure_border_frames=75)


def words(*probabilities):
    """Return words of half a second each, with these probabilities."""
    return [
        AlignedWord(0.5 * index, 0.5 * index + 0.5, " w", probability, frames=(25 * index + 24,))
        for index, probability in enumerate(probabilities)
    ]


@pytest.mark.parametrize(
    ("probabilities", "count"),
    [
        ((0.9, 0.9, 0.9, 0.9), 3),
        ((0.9, 0.9, 0.3, 0.9), 2),
        ((0.9, 0.3, 0.9, 0.9), 1),
        ((0.3, 0.9, 0.9, 0.9), 1),
        ((None, None, None, None), 3),
    ],
)
def test_an_unsure_word_and_those_after_it_wait_for_more_audio(probabilities, count):
    """Of two seconds, words in the last 0.3 are not final, and unsure ones in the last 1.5."""
    assert POLICY.count_final(words(*probabilities), frames=100) == count


def test_a_border_that_a_user_widened_holds_for_unsure_words_too():
    """The wider of the two borders counts."""
    policy = PatientAlignAtt(border_frames=90, rewind_frames=200, unsure_border_frames=75)

    assert policy.count_final(words(0.3, 0.9), frames=100) == 0
