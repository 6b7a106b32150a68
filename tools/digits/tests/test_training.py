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
    """Four windows of two seconds."""
    return draw_batch(Mixer(voices=[voice], rng=np.random.default_rng(3)), 2.0, 4)


def test_a_batch_has_the_shapes_it_says(batch: Batch) -> None:
    """Features have two frames per position, and every row has a token to predict or none."""
    size, positions = batch.digits.shape

    assert (size, positions) == (4, 100)
    assert batch.features.shape == (size, 80, 2 * positions)
    assert batch.looks.shape == (*batch.inputs.shape, positions)
    assert (batch.outputs != IGNORED).any(axis=1).all()


def test_a_step_lowers_every_loss_it_is_taken_on(batch: Batch) -> None:
    """Gradients reach the tokens, the attention and the digit head."""
    torch.manual_seed(0)
    whisper = model.Whisper(model.Shape(width=32, heads=2, encoder_layers=1, decoder_layers=2))
    head = torch.nn.Linear(32, 11)
    optimizer = torch.optim.Adam([*whisper.parameters(), *head.parameters()], lr=3e-3)
    before = losses.measure(whisper, head, batch)
    for _ in range(5):
        optimizer.zero_grad()
        losses.measure(whisper, head, batch).total(losses.Weights()).backward()
        optimizer.step()

    after = losses.measure(whisper, head, batch)

    assert after.tokens < before.tokens
    assert after.look < before.look
    assert after.digits < before.digits
