"""Train a Qwen3-ASR that hears English digits, on a CPU.

python tools/digits/train_qwen3.py --recordings DIR --voices FILE --disguised FILE --output DIR
"""

from __future__ import annotations

import argparse
import copy
from functools import partial
import logging
import math
import multiprocessing
from pathlib import Path
import time
from typing import TYPE_CHECKING

from attrs import field, frozen
from batches import produce
from batches_qwen3 import TextBatch, draw_text_batch
from cast import load_mixer
from chance import happens
from losses_qwen3 import Hints, measure
from model_qwen3 import Qwen3Shape, build_model, load_model, save_model
import numpy as np
import torch
from torch import nn

if TYPE_CHECKING:
    from collections.abc import Iterable
    from multiprocessing.sharedctypes import Synchronized

    from mixing import Mixer
    from transformers import Qwen3ASRForConditionalGeneration

_log = logging.getLogger("train_qwen3")

BATCH_SECONDS = 40.0  # of audio a step
AVERAGE_SHARE = 0.1  # weights are stored as an average over the last tenth of the steps so far
SAVE_SECONDS = 240.0
WARM_UP_STEPS = 50
REPORT_STEPS = 50
SHORT_UNTIL = 0.35  # share of a course from scratch that sees short buffers only
LONG_FROM = 0.6  # and share after which buffers longer than two windows come
HINTS_AFTER = 0.3  # weight of the hints once the short buffers are over


@frozen(kw_only=True)
class Plan:
    """How long and how hard to train."""

    seconds: float
    learning_rate: float
    from_scratch: bool


@frozen
class Clock:
    """
    Progress from 0 to 1 through the processor time allowed, seen by the process that draws too.

    Processor time, because a course is as long as its steps are many, however busy the machine.
    """

    seconds: float
    done: float = 0.0  #: share of the course that was over at the start
    shared: Synchronized[float] = field(factory=partial(multiprocessing.Value, "d", 0.0))

    def tick(self) -> float:
        """Bring the progress up to date and return it."""
        share = time.process_time() / self.seconds
        self.shared.value = min(self.done + (1 - self.done) * share, 1.0)
        return self.shared.value

    def progress(self) -> float:
        """Share of the course that is over."""
        return self.shared.value


def draw_step(mixer: Mixer, clock: Clock, *, from_scratch: bool) -> TextBatch:
    """Draw the batch of a step: short buffers first, later as long as streams keep them."""
    rng = mixer.rng
    progress = clock.progress() if from_scratch else 1.0
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
    plan: Plan,
    clock: Clock,
    output: Path,
) -> None:
    """Train until the time is over, storing averaged weights every few minutes."""
    hints = Hints(model.config.audio_config.output_dim, model.config.text_config.hidden_size)
    parameters = [*model.parameters(), *hints.parameters()]
    optimizer = torch.optim.AdamW(parameters, betas=(0.9, 0.98), weight_decay=0.02)
    average = copy.deepcopy(model).eval()
    model.train()
    seen: list[dict[str, float]] = []
    saved = time.monotonic()
    for step, batch in enumerate(batches, start=1):
        progress = clock.tick()
        rate = plan.learning_rate * min(1.0, step / WARM_UP_STEPS)
        for group in optimizer.param_groups:
            group["lr"] = rate * (0.02 + 0.98 * _cosine((progress - 0.1) / 0.9))
        losses = measure(model, hints, batch)
        early = plan.from_scratch and progress < SHORT_UNTIL
        optimizer.zero_grad()
        losses.total(1.0 if early else HINTS_AFTER).backward()
        nn.utils.clip_grad_norm_(parameters, 1.0)
        optimizer.step()
        _follow(average, model, 1 / (1 + AVERAGE_SHARE * step))
        seen.append(losses.figures())
        if step % REPORT_STEPS == 0:
            _log.info("%.0f s step %d %s", time.process_time(), step, _means(seen))
            seen.clear()
        if progress >= 1.0 or time.monotonic() - saved > SAVE_SECONDS:
            saved = time.monotonic()
            save_model(average, output)
        if progress >= 1.0:
            return


def _means(seen: list[dict[str, float]]) -> str:
    means = {name: float(np.mean([one[name] for one in seen])) for name in seen[0]}
    return " ".join(f"{name} {value:.3f}" for name, value in means.items())


def _cosine(progress: float) -> float:
    return 0.5 * (1 + math.cos(math.pi * max(progress, 0.0)))


@torch.no_grad()
def _follow(average: nn.Module, model: nn.Module, share: float) -> None:
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
    parser.add_argument("--output", type=Path, required=True, help="folder to store weights in")
    parser.add_argument("--init", type=Path, help="folder to go on from, instead of from scratch")
    parser.add_argument(
        "--done", type=float, help="with --init: share of a course from scratch that was over"
    )
    parser.add_argument("--leave-out", metavar="SPEAKER", help="a speaker to keep for measuring")
    parser.add_argument("--minutes", type=float, default=40.0, help="of processor time")
    parser.add_argument("--rate", type=float, default=2e-3, help="peak learning rate")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    torch.set_num_threads(1)
    torch.set_flush_denormal(True)
    torch.manual_seed(arguments.seed)
    plan = Plan(
        seconds=60 * arguments.minutes,
        learning_rate=arguments.rate,
        from_scratch=arguments.init is None or arguments.done is not None,
    )
    model = load_model(arguments.init) if arguments.init else build_model(Qwen3Shape())
    clock = Clock(plan.seconds, arguments.done or 0.0)
    make_mixer = partial(
        load_mixer,
        arguments.recordings,
        arguments.voices,
        arguments.disguised,
        without=arguments.leave_out,
        seed=arguments.seed,
    )
    batches = produce(make_mixer, partial(draw_step, clock=clock, from_scratch=plan.from_scratch))
    train(model, batches, plan, clock, arguments.output)


if __name__ == "__main__":
    main()
