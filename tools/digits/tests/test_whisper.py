"""Whisper's features, tokens, targets, and a step of training."""

from __future__ import annotations

from typing import TYPE_CHECKING

from batches import draw_batch
from features import fit
from mixing import Mixer
import numpy as np
import pytest
from vocabulary import (
    COMPACT_SIZE,
    FULL_IDS,
    FULL_SIZE,
    compact,
    expand,
)

if TYPE_CHECKING:
    from recordings import Voice


def test_every_compact_token_keeps_its_row_and_all_others_share_one() -> None:
    """Rows that were never trained all equal the last compact row, so they compress well."""
    full = expand(np.arange(COMPACT_SIZE + 1, dtype=np.float32)[:, None])

    assert full.shape == (FULL_SIZE, 1)
    assert full[list(FULL_IDS), 0].tolist() == [compact(token) for token in FULL_IDS]
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
