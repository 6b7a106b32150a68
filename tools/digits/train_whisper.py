"""Train a Whisper that recognises English digits, on a CPU.

python tools/digits/train_whisper.py --recordings DIR --voices FILE --output FILE
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from batches import FIRST_COURSE, Batch, draw_batch, draw_window
from initialise import load_weights, prepare, save_weights
from losses import Weights, digit_loss, measure
from model import Shape, Whisper
import torch
from torch import nn
from training_loop import Clock, batches_of, begin, course_parser, descend, run

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from mixing import Mixer

BATCH_SECONDS = 160.0  # of windows a step


def draw_step(mixer: Mixer, clock: Clock) -> Batch:
    """Draw the batch of a step; longer windows come in smaller batches."""
    seconds = draw_window(clock.progress(), mixer.rng, from_scratch=clock.plan.from_scratch)
    return draw_batch(mixer, seconds, min(max(round(BATCH_SECONDS / seconds), 6), 32))


def train(model: Whisper, batches: Iterable[Batch], clock: Clock, output: Path) -> None:
    """Train until the time is over."""
    digit_head = nn.Linear(model.shape.width, 11)
    optimizer = _optimizer(model, digit_head)

    def learn(batch: Batch, step: int, progress: float) -> dict[str, float]:
        early = clock.plan.from_scratch and progress < FIRST_COURSE
        weights = Weights(digits=1.0 if early else 0.4)
        untimed_first = step % 2 == 0
        return _step(model, digit_head, optimizer, batch, weights, untimed_first=untimed_first)

    save = partial(save_weights, path=output)
    run(model, batches, clock, optimizer=optimizer, learn=learn, save=save)


def _step(
    model: Whisper,
    digit_head: nn.Module,
    optimizer: torch.optim.Optimizer,
    batch: Batch,
    weights: Weights,
    *,
    untimed_first: bool,
) -> dict[str, float]:
    """Learn a batch with and without timestamps, first the whole model, then the decoder alone.

    The encoder costs several times what the decoder does, so its states serve twice. The text that
    it learns from alternates, or the other one would suffer.
    """
    memory = model.encode(torch.from_numpy(batch.features), batch.offset)
    digits = digit_loss(digit_head, memory, batch.digits)
    drafts = (batch.untimed, batch.timed) if untimed_first else (batch.timed, batch.untimed)
    whole = measure(model, memory, drafts[0])
    descend(optimizer, whole.total(weights) + weights.digits * digits)
    alone = measure(model, memory.detach(), drafts[1])
    descend(optimizer, alone.total(weights))
    timed, untimed = (alone, whole) if untimed_first else (whole, alone)
    return {
        "timed": timed.tokens.item(),
        "look": timed.look.item(),
        "untimed": untimed.tokens.item(),
        "untimed look": untimed.look.item(),
        "digits": digits.item(),
    }


def _optimizer(model: Whisper, digit_head: nn.Module) -> torch.optim.Optimizer:
    named = [*model.named_parameters(), *digit_head.named_parameters()]
    decayed = [weight for name, weight in named if weight.ndim > 1 and "embed" not in name]
    others = [weight for name, weight in named if not (weight.ndim > 1 and "embed" not in name)]
    groups = [{"params": decayed, "weight_decay": 0.05}, {"params": others, "weight_decay": 0.0}]
    return torch.optim.AdamW(groups, betas=(0.9, 0.98), eps=1e-8)


def main() -> None:
    """Read the arguments, start the process that draws batches, and train."""
    parser = course_parser(__doc__, minutes=90.0, rate=2.2e-3)
    parser.add_argument("--dropout", type=float, default=0.0)
    arguments = parser.parse_args()
    clock = Clock(begin(arguments))
    model = Whisper(Shape(), dropout=arguments.dropout)
    if arguments.init is None:
        prepare(model)
    else:
        load_weights(model, arguments.init)
    batches = batches_of(arguments, partial(draw_step, clock=clock))
    train(model, batches, clock, arguments.output)


if __name__ == "__main__":
    main()
