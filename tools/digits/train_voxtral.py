"""Train a Voxtral Realtime that recognises English digits, on a CPU.

python tools/digits/train_voxtral.py --recordings DIR --voices FILE --output DIR
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from batches_voxtral import NOTHING, PAD_ID, SPECIALS, StreamBatch, draw_stream_batch
from losses import digit_loss
from model_voxtral import VoxtralShape, build_model, load_model
from rng import happens
import torch
from torch import nn
from torch.nn import functional
from training_loop import Clock, batches_of, begin, course_parser, train

if TYPE_CHECKING:
    from mixing import Mixer
    from transformers import VoxtralRealtimeForConditionalGeneration

BATCH_SECONDS = 40.0  # of audio a step
PAD_WEIGHT = 0.2  # loss weight of steps without text, which are nine tenths of all steps
LONG_FROM = 0.6  # share of a course after which some streams exceed both attention windows


def draw_step(mixer: Mixer, clock: Clock) -> StreamBatch:
    """Draw the batch of a step: short streams first, later some that exceed both windows."""
    rng = mixer.rng
    is_late = not clock.plan.from_scratch or clock.progress() > LONG_FROM
    if is_late and happens(0.3, rng):
        seconds = rng.uniform(9, 18)
    else:
        seconds = rng.uniform(2.5, 9 if is_late else 5)
    return draw_stream_batch(mixer, seconds, max(round(BATCH_SECONDS / seconds), 2))


def measure(
    model: VoxtralRealtimeForConditionalGeneration,
    digit_head: nn.Module,
    batch: StreamBatch,
    weight_of_digits: float,
) -> tuple[torch.Tensor, dict[str, float]]:
    """Return the loss of the tokens and of the digits in the audio, and figures to report.

    Without the loss of the digits, the decoder learns when words end but never which they are.
    """
    ids = torch.from_numpy(batch.ids)
    output = model.model(
        input_ids=ids,
        input_features=torch.from_numpy(batch.features),
        num_delay_tokens=batch.delay,
        use_cache=False,
    )
    states = output.last_hidden_state[:, batch.prompt - 1 : -1]
    logits = model.lm_head(states).flatten(0, 1)
    targets = ids[:, batch.prompt :].flatten()
    weight = torch.ones(logits.shape[-1])
    weight[PAD_ID] = PAD_WEIGHT
    tokens = functional.cross_entropy(logits, targets, weight=weight, label_smoothing=0.01)
    digits = digit_loss(digit_head, output.audio_hidden_states, batch.digits)
    is_text = targets >= SPECIALS
    right = (logits.argmax(-1) == targets)[is_text].float().mean().item() if is_text.any() else 1.0
    figures = {"tokens": tokens.item(), "digits": digits.item(), "right": right}
    return tokens + weight_of_digits * digits, figures


def main() -> None:
    """Read the arguments, start the process that draws batches, and train."""
    arguments = course_parser(__doc__, minutes=60.0, rate=2e-3).parse_args()
    clock = Clock(begin(arguments))
    model = load_model(arguments.init) if arguments.init else build_model(VoxtralShape())
    head = nn.Linear(model.config.text_config.hidden_size, NOTHING + 1)
    batches = batches_of(arguments, partial(draw_step, clock=clock))
    train(model, head, batches, clock, arguments.output, measure=measure, early=LONG_FROM)


if __name__ == "__main__":
    main()
