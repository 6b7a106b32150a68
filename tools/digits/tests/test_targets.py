from __future__ import annotations

from mixing import Mixture, Word
import numpy as np
import pytest
from targets import POSITIONS_PER_SECOND, draw_target, word_look
from vocabulary import END_OF_TEXT, FIRST_TIMESTAMP, NO_TIMESTAMPS, START_OF_TRANSCRIPT, WORD_IDS

WORDS = (
    Word(digit=7, start=0.4, end=0.8),
    Word(digit=7, start=0.9, end=1.3),
    Word(digit=2, start=2.5, end=2.9),
)
MIXTURE = Mixture(audio=np.zeros(16_000 * 4, np.float32), words=WORDS)


def test_a_word_looks_most_at_its_own_middle() -> None:
    """The largest share lies inside the word, none before it or after the next onset."""
    look = word_look(WORDS[1], WORDS[2].start, 200)

    times = (np.arange(200) + 0.5) / POSITIONS_PER_SECOND
    assert look.sum() == pytest.approx(1.0)
    assert 1.0 < times[look.argmax()] < 1.2
    assert look[(times < 0.9) | (times > 2.5)].sum() == 0


def test_the_gap_before_an_onset_belongs_to_the_word_before() -> None:
    """Right before the next word the look is as strong as at the word's own edge."""
    look = word_look(WORDS[1], WORDS[2].start, 200)

    edge, near = look[int(0.92 * POSITIONS_PER_SECOND)], look[int(2.45 * POSITIONS_PER_SECOND)]
    assert near == pytest.approx(edge, rel=0.25)


@pytest.mark.parametrize("seed", range(12))
def test_the_text_is_the_words_in_order(seed: int) -> None:
    """Whatever else is written, the words after the start of the transcript are those spoken."""
    target = draw_target(MIXTURE, 200, np.random.default_rng(seed), with_timestamps=bool(seed % 2))

    text = target.tokens[target.first_row :]
    words = [WORD_IDS.index(token) for token in text if token in WORD_IDS]
    assert text[0] == START_OF_TRANSCRIPT
    assert text[-1] == END_OF_TEXT
    assert words == [7, 7, 2]


def test_every_word_stands_between_its_times() -> None:
    """With timestamps, each word is a segment of its own."""
    target = draw_target(MIXTURE, 200, np.random.default_rng(0), with_timestamps=True)

    text = target.tokens[target.first_row :]
    times = [(token - FIRST_TIMESTAMP) / 50 for token in text if token >= FIRST_TIMESTAMP]
    assert times == [0.4, 0.8, 0.9, 1.3, 2.5, 2.9]
    assert NO_TIMESTAMPS not in text


def test_audio_without_words_has_an_empty_text() -> None:
    """A mixture without words has no words, and the loss asks for the no-speech token."""
    target = draw_target(
        Mixture(audio=np.zeros(16_000, np.float32)),
        50,
        np.random.default_rng(0),
        with_timestamps=True,
    )

    assert target.is_empty
    assert not set(WORD_IDS) & set(target.tokens[target.first_row :])
