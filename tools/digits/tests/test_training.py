from __future__ import annotations

from typing import TYPE_CHECKING

from batches import IGNORED, Batch, draw_batch
from mixing import Mixer
import numpy as np
import pytest

if TYPE_CHECKING:
    from recordings import Voice

torch = pytest.importorskip("torch", reason="training needs torch: pip install -r requirements.txt")
losses = pytest.importorskip("losses")
model = pytest.importorskip("model")


@pytest.fixture
def batch(voice: Voice) -> Batch:
    """Return four windows of two seconds."""
    return draw_batch(Mixer(voices=[voice], rng=np.random.default_rng(3)), 2.0, 4)


def test_a_batch_has_the_declared_shapes(batch: Batch) -> None:
    """Features have two frames per position, and every text has tokens to predict."""
    size, positions = batch.digits.shape

    assert (size, positions) == (4, 100)
    assert batch.features.shape == (size, 80, 2 * positions)
    for draft in (batch.timed, batch.untimed):
        assert draft.looks.shape == (*draft.inputs.shape, positions)
        assert (draft.outputs != IGNORED).any(axis=1).all()


@pytest.mark.parametrize("kind", ["timed", "untimed"])
def test_steps_lower_every_loss_they_are_taken_on(batch: Batch, kind: str) -> None:
    """Gradients reach the tokens, the attention and the digit head."""
    torch.manual_seed(0)
    whisper = model.Whisper(model.Shape(width=32, heads=2, encoder_layers=1, decoder_layers=2))
    head = torch.nn.Linear(32, 11)
    optimizer = torch.optim.Adam([*whisper.parameters(), *head.parameters()], lr=3e-3)
    draft = getattr(batch, kind)
    history = []
    for _ in range(6):
        memory = whisper.encode(torch.from_numpy(batch.features))
        written = losses.measure(whisper, memory, draft)
        digits = losses.measure_digits(head, memory, batch)
        history.append([loss.item() for loss in (written.tokens, written.look, digits)])
        optimizer.zero_grad()
        (written.total(losses.Weights()) + digits).backward()
        optimizer.step()

    assert all(last < first for first, last in zip(history[0], history[-1], strict=True))
