"""Whisper's features, tokens, targets, and a step of training."""

from __future__ import annotations

from typing import TYPE_CHECKING

from batches import draw_batch
from features import fit
from mixing import Mixer, Mixture, Word
import numpy as np
import pytest
from targets import POSITIONS_PER_SECOND, draw_target, word_look
from vocabulary import (
    COMPACT_SIZE,
    END_OF_TEXT,
    FIRST_TIMESTAMP,
    FULL_IDS,
    FULL_SIZE,
    NO_TIMESTAMPS,
    START_OF_TRANSCRIPT,
    WORD_IDS,
    compact,
    expand,
)

if TYPE_CHECKING:
    from recordings import Voice


WORDS = (
    Word(digit=7, start=0.4, end=0.8),
    Word(digit=7, start=0.9, end=1.3),
    Word(digit=2, start=2.5, end=2.9),
)
MIXTURE = Mixture(audio=np.zeros(16_000 * 4, np.float32), words=WORDS)


def test_every_compact_token_keeps_its_row_and_all_others_share_one() -> None:
    """Rows that were never trained all equal the last compact row, so they compress well."""
    full = expand(np.arange(COMPACT_SIZE + 1, dtype=np.float32)[:, None])

    assert full.shape == (FULL_SIZE, 1)
    assert [compact(token) for token in FULL_IDS] == full[list(FULL_IDS), 0].tolist()
    assert np.all(np.delete(full, FULL_IDS) == COMPACT_SIZE)


@pytest.mark.parametrize(("zero_padded", "value"), [(True, 0.0), (False, -1.0)])
def test_padding_is_that_of_the_engine(*, zero_padded: bool, value: float) -> None:
    """faster-whisper pads features with zeros, the others pad audio with silence."""
    loudest_at_zero = np.full((80, 10), -9.0, np.float32)
    loudest_at_zero[0, 0] = 0.0

    fitted = fit(loudest_at_zero, 30, zero_padded=zero_padded)

    assert fitted.shape == (80, 30)
    assert np.all(fitted[:, 10:] == value)
    assert fitted[0, 0] == 1.0


def test_a_word_looks_most_at_its_own_middle() -> None:
    """It looks neither before it nor beyond the next onset, and just before that as at its edge."""
    look = word_look(WORDS[1], WORDS[2].start, 200)

    times = (np.arange(200) + 0.5) / POSITIONS_PER_SECOND
    assert look.sum() == pytest.approx(1.0)
    assert 1.0 < times[look.argmax()] < 1.2
    assert look[(times < 0.9) | (times > 2.5)].sum() == 0
    edge, near = look[int(0.92 * POSITIONS_PER_SECOND)], look[int(2.45 * POSITIONS_PER_SECOND)]
    assert near == pytest.approx(edge, rel=0.25)


@pytest.mark.parametrize("seed", range(12))
def test_the_text_is_the_words_in_order(seed: int) -> None:
    """The words after the start of the transcript are those spoken, whatever else is written."""
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


@pytest.mark.parametrize("kind", ["timed", "untimed"])
def test_steps_lower_every_loss_they_are_taken_on(voice: Voice, kind: str) -> None:
    """Gradients reach the tokens, the attention and the digit head."""
    torch = pytest.importorskip("torch", reason="training needs torch")
    losses, model = pytest.importorskip("losses"), pytest.importorskip("model")
    torch.manual_seed(0)
    batch = draw_batch(Mixer(voices=[voice], rng=np.random.default_rng(3)), 2.0, 4)
    whisper = model.Whisper(model.Shape(width=32, heads=2, encoder_layers=1, decoder_layers=2))
    head = torch.nn.Linear(32, 11)
    optimizer = torch.optim.Adam([*whisper.parameters(), *head.parameters()], lr=3e-3)
    draft = getattr(batch, kind)
    history = []
    for _ in range(6):
        memory = whisper.encode(torch.from_numpy(batch.features))
        written = losses.measure(whisper, memory, draft)
        digits = losses.digit_loss(head, memory, batch.digits)
        history.append([loss.item() for loss in (written.tokens, written.look, digits)])
        optimizer.zero_grad()
        (written.total(losses.Weights()) + digits).backward()
        optimizer.step()

    assert all(last < first for first, last in zip(history[0], history[-1], strict=True))
