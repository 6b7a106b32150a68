"""Qwen3-ASR's features, tokens and targets: all that training needs except a framework."""

from __future__ import annotations

from batches_qwen3 import IGNORED, NOTHING, cut_first_word, make_draft, mark_audio, word_look
from features_qwen3 import count_tokens, token_spans
from hypothesis import given
from hypothesis import strategies as st
from mixing import Mixture, Word
import numpy as np
import pytest
from vocabulary import DIGITS
from vocabulary_qwen3 import END, FULL_IDS, IDS, OTHER, PAD

SAMPLE_RATE = 16_000
SPELLED = {number: text for text, number in IDS.items()}


def spoken(*words: tuple[int, float, float], seconds: float = 4.0) -> Mixture:
    """Return silence that is labelled with digits."""
    return Mixture(
        audio=np.zeros(int(seconds * SAMPLE_RATE), np.float32),
        words=tuple(Word(digit=digit, start=start, end=end) for digit, start, end in words),
    )


def spell(ids: tuple[int, ...]) -> str:
    """Return compact ids as text, without those of audio."""
    tokens = [SPELLED[FULL_IDS[number]] for number in ids if number not in (PAD, OTHER)]
    return "".join(tokens).replace("Ġ", " ").replace("Ċ", "\n")


@given(st.integers(1, 3000))
def test_embeddings_cover_the_frames_without_gaps(frames: int) -> None:
    """There are thirteen a second, of 80 ms each except the last one of a second."""
    spans = token_spans(frames)

    assert count_tokens(frames) == len(spans)
    assert 0 == spans[0, 0]
    assert frames / 100 == spans[-1, 1]
    np.testing.assert_array_equal(spans[1:, 0], spans[:-1, 1])
    assert (np.diff(spans) <= 0.08 + 1e-9).all()
    assert (spans[13::13, 0] == np.arange(1, len(spans[13::13]) + 1)).all()


@given(
    digits=st.lists(st.integers(0, 9), max_size=8),
    seed=st.integers(0, 2**32 - 1),
    is_first_given=st.booleans(),
)
def test_targets_follow_the_prompt(digits: list[int], seed: int, *, is_first_given: bool) -> None:
    """They are the text and its end, and the header before it unless that is given."""
    mixture = spoken(
        *((digit, 0.4 * index, 0.4 * index + 0.3) for index, digit in enumerate(digits))
    )
    draft = make_draft(mixture, 50, np.random.default_rng(seed), is_first_given=is_first_given)
    targets = [index for index, output in enumerate(draft.outputs) if output != IGNORED]
    outputs = [draft.outputs[index] for index in targets]

    assert len(draft.ids) == len(draft.outputs)
    assert outputs == [draft.ids[index + 1] for index in targets]
    assert END == outputs[-1] == draft.ids[-1]
    assert (PAD,) * 50 == draft.ids[draft.first_audio : draft.first_audio + 50]
    text = spell(draft.ids[draft.first_word + 1 : -1])
    assert " ".join(DIGITS[digit] for digit in digits) == text.strip()
    head = spell(draft.ids[draft.first_word - 2 : draft.first_word + 1])
    assert head.startswith("language ")
    if targets[0] < draft.first_word:  # the header is a target too
        name = "English" if digits else "None"
        assert f"language {name}<asr_text>" == head == spell(tuple(outputs[:3]))
    elif not digits:
        assert "None" not in head
    assert (draft.first_word in targets) is not (is_first_given and len(digits) > 1)
    assert draft.first_word not in targets or not text.startswith(" ")


@given(st.floats(0.01, 0.99))
def test_a_buffer_that_begins_inside_a_word_keeps_it_if_it_keeps_its_middle(share: float) -> None:
    """All other words move forward by what is cut off."""
    mixture = spoken((3, 1.0, 1.5), (4, 2.0, 2.4))
    rest = cut_first_word(mixture, share)
    cut = 1.0 + 0.5 * share

    assert ([3, 4] if share <= 0.5 else [4]) == [word.digit for word in rest.words]
    assert 2.4 - cut == pytest.approx(rest.words[-1].end)
    assert all(0 <= word.start < word.end for word in rest.words)
    assert len(mixture.audio) - int(cut * SAMPLE_RATE) == len(rest.audio)


def test_audio_is_marked_with_the_words_so_far() -> None:
    """Marks are the digit, the latest one from its middle until just after it, and the count."""
    marks = mark_audio(spoken((7, 0.16, 0.48), (7, 1.0, 1.4)).words, token_spans(200))

    assert [10, 10, 7, 7, 7, 7, 10] == marks.digits[:7].tolist()
    assert [10, 10, 10, 7, 7, 7, 7, 7, 10] == marks.latest[:9].tolist()
    assert [0, 0, 0, 1, 1] == marks.counts[:5].tolist()
    assert 2 == marks.counts[-1]
    assert NOTHING == marks.digits[-1]


@given(st.floats(0, 2.8), st.floats(0.001, 1.1))
def test_rows_look_at_their_word_and_most_at_its_first_half(start: float, length: float) -> None:
    """The target is a distribution over the embeddings of the word, however short it is."""
    word = Word(digit=3, start=start, end=start + length)
    spans = token_spans(400)
    look = word_look(word, spans)

    assert pytest.approx(1, abs=1e-5) == look.sum()
    overlaps = (spans[:, 1] > start) & (spans[:, 0] < start + length)
    assert (look[~overlaps] == 0).all() or length < 0.08
    assert spans[look.argmax(), 0] <= start + length / 2 + 0.08
