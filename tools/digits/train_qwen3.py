"""Train a Qwen3-ASR that recognises English digits, on a CPU.

python tools/digits/train_qwen3.py --recordings DIR --voices FILE --disguised FILE --output DIR
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from batches_qwen3 import TextBatch, draw_text_batch
from losses_qwen3 import Hints, measure
from model_qwen3 import Qwen3Shape, build_model, load_model, save_model
from rng import happens
import torch
from torch import nn
from training_loop import Clock, batches_of, begin, course_parser, run

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from mixing import Mixer
    from transformers import Qwen3ASRForConditionalGeneration

BATCH_SECONDS = 40.0  # of audio a step
SHORT_UNTIL = 0.35  # share of a course from scratch that sees short buffers only
LONG_FROM = 0.6  # and share after which buffers longer than two windows come
HINTS_AFTER = 0.3  # weight of the hints once the short buffers are over


def draw_step(mixer: Mixer, clock: Clock) -> TextBatch:
    """Draw the batch of a step: short buffers first, later as long as streams keep them."""
    rng = mixer.rng
    progress = clock.progress() if clock.plan.from_scratch else 1.0
    if progress < SHORT_UNTIL:
        seconds = rng.uniform(2, 5)
    elif progress < LONG_FROM:
        seconds = rng.uniform(2, 10)
    elif happens(0.25, rng):
        seconds = rng.uniform(14, 26)
    else:
        seconds = rng.uniform(1.5, 14)
    return draw_text_batch(mixer, seconds, max(round(BATCH_SECONDS / seconds), 2))


def train(
    model: Qwen3ASRForConditionalGeneration,
    batches: Iterable[TextBatch],
    clock: Clock,
    output: Path,
) -> None:
    """Train until the time is over."""
    hints = Hints(model.config.audio_config.output_dim, model.config.text_config.hidden_size)
    parameters = [*model.parameters(), *hints.parameters()]
    optimizer = torch.optim.AdamW(parameters, betas=(0.9, 0.98), weight_decay=0.02)
    model.train()

    def learn(batch: TextBatch, _: int, progress: float) -> dict[str, float]:
        losses = measure(model, hints, batch)
        early = clock.plan.from_scratch and progress < SHORT_UNTIL
        optimizer.zero_grad()
        losses.total(1.0 if early else HINTS_AFTER).backward()
        nn.utils.clip_grad_norm_(parameters, 1.0)
        optimizer.step()
        return losses.figures()

    save = partial(save_model, folder=output)
    run(model, batches, clock, optimizer=optimizer, learn=learn, save=save)


def main() -> None:
    """Read the arguments, start the process that draws batches, train."""
    arguments = course_parser(__doc__, minutes=40.0, rate=2e-3).parse_args()
    clock = Clock(begin(arguments))
    model = load_model(arguments.init) if arguments.init else build_model(Qwen3Shape())
    batches = batches_of(arguments, partial(draw_step, clock=clock))
    train(model, batches, clock, arguments.output)


if __name__ == "__main__":
    main()
