"""The losses of training a Qwen3-ASR: text, attention and the digits in the audio."""

from __future__ import annotations

from typing import TYPE_CHECKING

from batches_qwen3 import MOST_WORDS, NOTHING
import torch
from torch import Tensor, nn
from torch.nn import functional
from vocabulary_qwen3 import LOG_UNUSED, PAD, WORDS

if TYPE_CHECKING:
    from batches_qwen3 import TextBatch
    from transformers import Qwen3ASRForConditionalGeneration

#: Layers, counted from the last, and heads that are trained to attend to the next word.
LOOKING_HEADS = ((-2, 0), (-2, 1), (-1, 0), (-1, 1))
_HALFWAY = 2  # layers of the decoder after which audio positions predict their digits
_IGNORED = -100
_SMOOTHING = 0.01


class Hints(nn.Module):
    """
    Classifiers that only training needs.

    Unless it predicts the digit at each audio position and the number of words so far, a decoder
    learns how digits are written and not which are spoken; a row needs both to find its word.
    """

    def __init__(self, width: int, decoder_width: int) -> None:
        super().__init__()
        self.digits = nn.Linear(width, NOTHING + 1)
        self.latest = nn.Linear(decoder_width, NOTHING + 1)
        self.counts = nn.Linear(decoder_width, MOST_WORDS + 1)


def measure(
    model: Qwen3ASRForConditionalGeneration, hints: Hints, batch: TextBatch, weight_of_hints: float
) -> tuple[Tensor, dict[str, float]]:
    """Return the loss of a batch, and figures to report.

    *weight_of_hints* scales the losses of the hints. The figure "right" is the share of words that
    were predicted correctly.
    """
    ids = torch.from_numpy(batch.ids)
    output = model.model(
        input_ids=ids,
        input_features=torch.from_numpy(batch.features),
        input_features_mask=torch.from_numpy(batch.mask),
        use_cache=False,
        output_attentions=True,
        output_hidden_states=True,
    )
    outputs = torch.from_numpy(batch.outputs)
    is_target = outputs != _IGNORED
    logits = model.lm_head(output.last_hidden_state[is_target])
    logits = torch.cat([logits[:, :-1], logits[:, -1:] + LOG_UNUSED], dim=-1)
    targets = outputs[is_target]
    halfway = output.hidden_states[_HALFWAY][ids == PAD]
    is_word = targets <= 2 * max(WORDS) + 1
    right = (logits.argmax(-1) == targets)[is_word].float()
    text, look = _smooth(logits, targets), _divergence(output.attentions, batch)
    digits = _classify(hints.digits(output.audio_hidden_states), batch.audio.digits)
    latest = _classify(hints.latest(halfway), batch.audio.latest)
    counts = _classify(hints.counts(halfway), batch.audio.counts)
    losses = {"text": text, "look": look, "digits": digits, "latest": latest, "counts": counts}
    figures = {name: loss.item() for name, loss in losses.items()}
    figures["right"] = right.mean().item() if len(right) else 1.0
    total = text + 0.3 * look + weight_of_hints * (0.5 * digits + 0.5 * latest + 0.25 * counts)
    return total, figures


def _smooth(logits: Tensor, targets: Tensor) -> Tensor:
    """Return the cross-entropy, smoothed over the tokens that are in use."""
    log_probabilities = torch.log_softmax(logits, dim=-1)
    surprise = -log_probabilities.gather(1, targets[:, None]).mean()
    return (1 - _SMOOTHING) * surprise - _SMOOTHING * log_probabilities[:, :-1].mean()


def _classify(guesses: Tensor, classes: object) -> Tensor:
    return functional.cross_entropy(guesses, torch.as_tensor(classes))


def _divergence(attentions: tuple[Tensor, ...], batch: TextBatch) -> Tensor:
    """Return how far the attention of the trained heads is from where the rows should look."""
    looks = torch.from_numpy(batch.looks)
    if not len(looks):
        return attentions[0].new_zeros(())
    numbers, rows = torch.from_numpy(batch.look_rows).T
    entropy = -(looks * (looks + 1e-9).log()).sum(-1)
    losses = []
    for layer, head in LOOKING_HEADS:
        attention = attentions[layer][numbers, head, rows]
        losses.append(-(looks * (attention + 1e-9).log()).sum(-1) - entropy)
    return torch.stack(losses).mean()
