"""Train a Whisper that hears English digits, on a CPU.

python tools/digits/train_whisper.py --recordings DIR --voices FILE --output FILE
"""

from __future__ import annotations

import argparse
import copy
from functools import partial
import logging
import math
from pathlib import Path
import time
from typing import TYPE_CHECKING

from attrs import define, frozen
from batches import FIRST_COURSE, Batch, draw_batch, draw_window, produce
from cast import load_mixer
from initialise import load_weights, prepare, save_weights
from losses import Weights, measure, measure_digits
from model import Shape, Whisper
import numpy as np
import torch
from torch import nn

if TYPE_CHECKING:
    from collections.abc import Iterable

    from mixing import Mixer

_log = logging.getLogger("train_whisper")

BATCH_SECONDS = 160.0  # of windows a step
AVERAGE_SHARE = 0.1  # weights are stored as an average over the last tenth of the steps so far
SAVE_SECONDS = 240.0
WARM_UP_STEPS = 50
REPORT_STEPS = 50


@frozen(kw_only=True)
class Plan:
    """How long and how hard to train."""

    seconds: float
    learning_rate: float
    from_scratch: bool
    dropout: float
    seed: int


@define
class Clock:
    """Progress from 0 to 1 through the time allowed."""

    seconds: float
    start: float
    done: float = 0.0

    def progress(self) -> float:
        """Share of the course that is over."""
        share = min((time.monotonic() - self.start) / self.seconds, 1.0)
        return self.done + (1 - self.done) * share


def draw_step(mixer: Mixer, clock: Clock, *, from_scratch: bool) -> Batch:
    """Draw the batch of a step; longer windows come in smaller batches."""
    seconds = draw_window(clock.progress(), mixer.rng, from_scratch=from_scratch)
    return draw_batch(mixer, seconds, min(max(round(BATCH_SECONDS / seconds), 6), 32))


def train(model: Whisper, batches: Iterable[Batch], plan: Plan, clock: Clock, output: Path) -> None:
    """Train until the time is over, storing averaged weights every few minutes."""
    digit_head = nn.Linear(model.shape.width, 11)
    optimizer = _optimizer(model, digit_head)
    average = copy.deepcopy(model).eval()
    seen: list[list[float]] = []
    saved = clock.start
    for step, batch in enumerate(batches, start=1):
        progress = clock.progress()
        early = plan.from_scratch and progress < FIRST_COURSE
        rate = (
            plan.learning_rate
            * min(1.0, step / WARM_UP_STEPS)
            * (0.03 + 0.97 * _cosine((progress - 0.1) / 0.9))
        )
        for group in optimizer.param_groups:
            group["lr"] = rate
        weights = Weights(digits=1.0 if early else 0.4)
        untimed_first = step % 2 == 0
        seen.append(
            _step(model, digit_head, optimizer, batch, weights, untimed_first=untimed_first)
        )
        _follow(average, model, 1 / (1 + AVERAGE_SHARE * step))
        if step % REPORT_STEPS == 0:
            means = " ".join(
                f"{name} {value:.3f}"
                for name, value in zip(
                    ("timed", "look", "untimed", "look", "digits"),
                    np.mean(seen, axis=0),
                    strict=True,
                )
            )
            _log.info(
                "%.0f s step %d rate %.5f %s", time.monotonic() - clock.start, step, rate, means
            )
            seen.clear()
        if progress >= 1.0 or time.monotonic() - saved > SAVE_SECONDS:
            saved = time.monotonic()
            save_weights(average, output)
        if progress >= 1.0:
            return


def _step(
    model: Whisper,
    digit_head: nn.Module,
    optimizer: torch.optim.Optimizer,
    batch: Batch,
    weights: Weights,
    *,
    untimed_first: bool,
) -> list[float]:
    """Learn a batch with timestamps and without, one by the whole model, then one by the decoder.

    The encoder costs several times what the decoder does: its states serve twice. Which text it
    learns from changes, or the other would suffer.
    """
    memory = model.encode(torch.from_numpy(batch.features), batch.offset)
    digits = measure_digits(digit_head, memory, batch)
    drafts = (batch.untimed, batch.timed) if untimed_first else (batch.timed, batch.untimed)
    whole = measure(model, memory, drafts[0])
    _descend(model, optimizer, whole.total(weights) + weights.digits * digits)
    alone = measure(model, memory.detach(), drafts[1])
    _descend(model, optimizer, alone.total(weights))
    timed, untimed = (alone, whole) if untimed_first else (whole, alone)
    losses = (timed.tokens, timed.look, untimed.tokens, untimed.look, digits)
    return [loss.item() for loss in losses]


def _descend(model: Whisper, optimizer: torch.optim.Optimizer, loss: torch.Tensor) -> None:
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()


def _cosine(progress: float) -> float:
    return 0.5 * (1 + math.cos(math.pi * max(progress, 0.0)))


def _optimizer(model: Whisper, digit_head: nn.Module) -> torch.optim.Optimizer:
    named = [*model.named_parameters(), *digit_head.named_parameters()]
    decayed = [weight for name, weight in named if weight.ndim > 1 and "embed" not in name]
    others = [weight for name, weight in named if not (weight.ndim > 1 and "embed" not in name)]
    groups = [{"params": decayed, "weight_decay": 0.05}, {"params": others, "weight_decay": 0.0}]
    return torch.optim.AdamW(groups, betas=(0.9, 0.98), eps=1e-8)


@torch.no_grad()
def _follow(average: Whisper, model: Whisper, share: float) -> None:
    for kept, current in zip(average.parameters(), model.parameters(), strict=True):
        kept.lerp_(current, share)


def main() -> None:
    """Read the arguments, start the process that draws batches, train."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--recordings", type=Path, required=True, help="folder of {digit}_{speaker}_{take}.wav"
    )
    parser.add_argument("--voices", type=Path, required=True, help="what voices.py made")
    parser.add_argument("--disguised", type=Path, help="what disguise.py made")
    parser.add_argument("--output", type=Path, required=True, help=".npz file to store weights in")
    parser.add_argument("--init", type=Path, help="weights to go on from, instead of from scratch")
    parser.add_argument(
        "--done",
        type=float,
        help="share of a course from scratch that --init has behind it: to take up a run",
    )
    parser.add_argument("--leave-out", metavar="SPEAKER", help="a speaker to keep for measuring")
    parser.add_argument("--minutes", type=float, default=90.0)
    parser.add_argument("--rate", type=float, default=2.2e-3, help="peak learning rate")
    parser.add_argument("--dropout", type=float, default=0.0)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    torch.set_num_threads(1)
    torch.set_flush_denormal(True)  # attention is full of numbers that next to nothing is left of
    torch.manual_seed(arguments.seed)
    plan = Plan(
        seconds=60 * arguments.minutes,
        learning_rate=arguments.rate,
        from_scratch=arguments.init is None or arguments.done is not None,
        dropout=arguments.dropout,
        seed=arguments.seed,
    )
    model = Whisper(Shape(), dropout=plan.dropout)
    if arguments.init is None:
        prepare(model)
    else:
        load_weights(model, arguments.init)
    clock = Clock(plan.seconds, time.monotonic(), arguments.done or 0.0)
    make_mixer = partial(
        load_mixer,
        arguments.recordings,
        arguments.voices,
        arguments.disguised,
        without=arguments.leave_out,
        seed=plan.seed,
    )
    batches = produce(make_mixer, partial(draw_step, clock=clock, from_scratch=plan.from_scratch))
    train(model, batches, plan, clock, arguments.output)


if __name__ == "__main__":
    main()
