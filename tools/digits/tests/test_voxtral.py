"""The streaming format of Voxtral Realtime: tokens, targets, features, and a step of training."""

from __future__ import annotations

from typing import TYPE_CHECKING

from batches_voxtral import NOTHING, TEKKEN, draw_stream_batch, stream_ids
from mixing import Mixer, Mixture, Word
import numpy as np
import pytest
from vocabulary import DIGITS

from wlk_voxtral.detokenizer import StreamingDetokenizer
from wlk_voxtral.speculative import TokenPrediction
from wlk_voxtral.tokenizer import TekkenTokenizer

if TYPE_CHECKING:
    from recordings import Voice

SAMPLE_RATE = 16_000


@pytest.fixture
def tekken() -> TekkenTokenizer:
    """Return the tokenizer as streams read it."""
    return TekkenTokenizer.from_table(TEKKEN)


def mixture(*words: tuple[int, float, float], seconds: float = 4.0) -> Mixture:
    """Return silence in which digits are labelled."""
    return Mixture(
        audio=np.zeros(int(seconds * SAMPLE_RATE), np.float32),
        words=tuple(Word(digit=digit, start=start, end=end) for digit, start, end in words),
    )


@pytest.mark.parametrize("delay", [3, 6, 10])
@pytest.mark.parametrize("pad", [8, 32])
def test_what_is_written_is_read_back_with_its_times(
    tekken: TekkenTokenizer, delay: int, pad: int
) -> None:
    """A stream turns the targets into the words, each with an end at most a step late."""
    spoken = mixture((0, 0.2, 0.61), (7, 0.9, 1.36), (1, 1.5, 1.92), (8, 3.7, 4.0))
    ids = stream_ids(spoken, pad + 50 + delay + 11, delay, pad)
    text = StreamingDetokenizer(tekken)
    recognised = [
        word for token in ids[1 + pad + delay :] if (word := text.push(TokenPrediction(int(token))))
    ]

    assert [word.text for word in recognised] == [f" {DIGITS[word.digit]}" for word in spoken.words]
    for reference, word in zip(spoken.words, recognised, strict=True):
        assert -1e-9 <= word.end - reference.end < 0.08 + 1e-9


@pytest.mark.slow
def test_steps_lower_both_losses(voice: Voice) -> None:
    """Gradients reach the tokens and the digits in the audio."""
    torch = pytest.importorskip("torch", reason="training needs torch")
    pytest.importorskip("transformers", reason="the architecture is transformers'")
    train = pytest.importorskip("train_voxtral")
    model_voxtral = pytest.importorskip("model_voxtral")
    torch.manual_seed(0)
    batch = draw_stream_batch(Mixer(voices=[voice], rng=np.random.default_rng(3)), 2.0, 3)
    shape = model_voxtral.VoxtralShape(width=32, hidden=64, encoder_layers=1, decoder_layers=1)
    model = model_voxtral.build_model(shape).train()
    head = torch.nn.Linear(32, NOTHING + 1)
    optimizer = torch.optim.Adam([*model.parameters(), *head.parameters()], lr=3e-3)
    history = []
    for _ in range(8):
        loss, figures = train.measure(model, head, batch, 1.0)
        history.append((figures["tokens"], figures["digits"]))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    assert all(last < first for first, last in zip(history[0], history[-1], strict=True))
