"""A course of training: its arguments, its clock, its learning rate and the weights it stores."""

from __future__ import annotations

import argparse
import copy
from functools import partial
import logging
import math
import multiprocessing
from pathlib import Path
import time
from typing import TYPE_CHECKING, Any

from attrs import field, frozen
from batches import produce
from disguise import load_disguised
from mixing import Mixer
import numpy as np
from recordings import load_recordings
import torch
from torch import nn
from voices import load_voices

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from multiprocessing.sharedctypes import Synchronized

_log = logging.getLogger("training")

AVERAGE_SHARE = 0.1  # weights are stored as an average over the last tenth of the steps so far
SAVE_SECONDS = 240.0
WARM_UP_STEPS = 50
REPORT_STEPS = 50
WARM_UP_SHARE = 0.1  # share of a course at the full rate, before it begins to fall
LEAST_RATE = 0.02  # final rate, as a share of the peak
HINTS_AFTER = 0.3  # weight of classifiers for training alone, after the early part of a course


@frozen(kw_only=True)
class Plan:
    """How long and how hard to train.

    Attributes:
        seconds: of processor time.
        learning_rate: at its peak.
        done: share of the course that was completed earlier; 0.0 for a new one.
        from_scratch: whether the course began from scratch, even if it is resumed here.
    """

    seconds: float
    learning_rate: float
    done: float
    from_scratch: bool


@frozen
class Clock:
    """
    Progress from 0 to 1 through the processor time allowed, shared with the process that draws.

    In processor time a course has the same number of steps, however busy the machine.
    """

    plan: Plan
    shared: Synchronized[float] = field(factory=partial(multiprocessing.Value, "d", 0.0))

    def tick(self) -> float:
        """Bring the progress up to date and return it."""
        share = time.process_time() / self.plan.seconds
        self.shared.value = min(self.plan.done + (1 - self.plan.done) * share, 1.0)
        return self.shared.value

    def progress(self) -> float:
        """Return the share of the course that is over."""
        return self.shared.value


def course_parser(description: str | None, *, minutes: float, rate: float) -> Any:
    """Return a parser of the arguments that every training takes."""
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--recordings", type=Path, required=True, help="folder of {digit}_{speaker}_{take}.wav"
    )
    parser.add_argument("--voices", type=Path, required=True, help="output of voices.py")
    parser.add_argument("--disguised", type=Path, help="output of disguise.py")
    parser.add_argument("--output", type=Path, required=True, help="where to store weights")
    parser.add_argument("--init", type=Path, help="weights to continue from")
    parser.add_argument(
        "--done", type=float, help="with --init: completed share of a course from scratch"
    )
    parser.add_argument("--leave-out", metavar="SPEAKER", help="a speaker to keep for measuring")
    parser.add_argument("--minutes", type=float, default=minutes, help="of processor time")
    parser.add_argument("--rate", type=float, default=rate, help="peak learning rate")
    parser.add_argument("--seed", type=int, default=0)
    return parser


def begin(arguments: argparse.Namespace) -> Plan:
    """Set torch up for one core and return the plan of the training."""
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    torch.set_num_threads(1)
    torch.set_flush_denormal(True)  # attention is full of denormal numbers, which are slow
    torch.manual_seed(arguments.seed)
    return Plan(
        seconds=60 * arguments.minutes,
        learning_rate=arguments.rate,
        done=arguments.done or 0.0,
        from_scratch=arguments.init is None or arguments.done is not None,
    )


def batches_of(arguments: argparse.Namespace, draw: Callable[[Mixer], Any]) -> Iterator[Any]:
    """Yield batches drawn in another process from all speakers but the one left out."""
    return produce(partial(_load_mixer, arguments), draw)


def _load_mixer(arguments: argparse.Namespace) -> Mixer:
    """Return the recorded, disguised and synthetic voices, without the one that is left out."""
    without = arguments.leave_out
    voices, others = load_voices(arguments.voices)
    voices += load_recordings(arguments.recordings, held_out=False, without=without)
    if arguments.disguised is not None:
        voices += load_disguised(arguments.disguised, without=without)
    return Mixer(voices=voices, others=others, rng=np.random.default_rng(arguments.seed))


def rate_at(plan: Plan, progress: float, step: int) -> float:
    """Return the learning rate of a step: a short rise, a plateau, then half a cosine."""
    falling = max((progress - WARM_UP_SHARE) / (1 - WARM_UP_SHARE), 0.0)
    share = 0.5 * (1 + math.cos(math.pi * falling))
    warm = min(1.0, step / WARM_UP_STEPS)
    return plan.learning_rate * warm * (LEAST_RATE + (1 - LEAST_RATE) * share)


def run(
    model: nn.Module,
    batches: Iterable[Any],
    clock: Clock,
    *,
    optimizer: torch.optim.Optimizer,
    learn: Callable[[Any, int, float], dict[str, float]],
    save: Callable[[Any], None],
) -> None:
    """Train until the time is over, storing averaged weights every few minutes.

    Args:
        model: the model to train.
        batches: its training data.
        clock: reports when the time is over.
        optimizer: whose rate is set at every step.
        learn: takes a batch, the number of the step and the progress, learns from the batch and
            returns figures to report.
        save: stores a model.
    """
    average = copy.deepcopy(model).eval()
    seen: list[dict[str, float]] = []
    saved = time.monotonic()
    for step, batch in enumerate(batches, start=1):
        progress = clock.tick()
        rate = rate_at(clock.plan, progress, step)
        for group in optimizer.param_groups:
            group["lr"] = rate
        seen.append(learn(batch, step, progress))
        _follow(average, model, 1 / (1 + AVERAGE_SHARE * step))
        if step % REPORT_STEPS == 0:
            means = {name: float(np.mean([figures[name] for figures in seen])) for name in seen[0]}
            report = " ".join(f"{name} {value:.3f}" for name, value in means.items())
            _log.info("%.0f s step %d rate %.5f %s", time.process_time(), step, rate, report)
            seen.clear()
        if progress >= 1.0 or time.monotonic() - saved > SAVE_SECONDS:
            saved = time.monotonic()
            save(average)
        if progress >= 1.0:
            return


def train(
    model: nn.Module,
    hints: nn.Module,
    batches: Iterable[Any],
    clock: Clock,
    output: Path,
    *,
    measure: Callable[[nn.Module, nn.Module, Any, float], tuple[torch.Tensor, dict[str, float]]],
    early: float,
) -> None:
    """Train a model of transformers, and the classifiers (*hints*) that only its training needs.

    *measure* returns the loss and figures of a batch. Its last argument is the weight of the
    classifiers, which is 1.0 for the *early* share of a course from scratch.
    """
    parameters = [*model.parameters(), *hints.parameters()]
    optimizer = torch.optim.AdamW(parameters, betas=(0.9, 0.98), weight_decay=0.02)
    model.train()

    def learn(batch: Any, _step: int, progress: float) -> dict[str, float]:
        is_early = clock.plan.from_scratch and progress < early
        loss, figures = measure(model, hints, batch, 1.0 if is_early else HINTS_AFTER)
        descend(optimizer, loss)
        return figures

    def save(average: Any) -> None:
        average.save_pretrained(output)

    run(model, batches, clock, optimizer=optimizer, learn=learn, save=save)


def descend(optimizer: torch.optim.Optimizer, loss: torch.Tensor) -> None:
    """Take a step down the gradient, whose norm is at most 1."""
    optimizer.zero_grad()
    loss.backward()
    parameters = [weight for group in optimizer.param_groups for weight in group["params"]]
    nn.utils.clip_grad_norm_(parameters, 1.0)
    optimizer.step()


@torch.no_grad()
def _follow(average: nn.Module, model: nn.Module, share: float) -> None:
    for kept, current in zip(average.parameters(), model.parameters(), strict=True):
        kept.lerp_(current, share)
