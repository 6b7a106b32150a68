"""Train a Voxtral Realtime that hears English digits, on a CPU.

python tools/digits/train_voxtral.py --recordings DIR --voices FILE --output DIR
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
from batches_voxtral import NOTHING, StreamBatch, draw_stream_batch
from cast import load_mixer
from chance import happens
from model_voxtral import VoxtralShape, build_model, load_model, save_model
import numpy as np
from tekken_voxtral import PAD_ID, SPECIALS
import torch
from torch import nn
from torch.nn import functional

if TYPE_CHECKING:
    from collections.abc import Iterable
    from multiprocessing.sharedctypes import Synchronized

    from mixing import Mixer
    from transformers import VoxtralRealtimeForConditionalGeneration

_log = logging.getLogger("train_voxtral")

BATCH_SECONDS = 40.0  # of audio a step
PAD_WEIGHT = 0.2  # of the steps in which nothing is said: they are nine tenths of all
AVERAGE_SHARE = 0.1  # weights are stored as an average over the last tenth of the steps so far
SAVE_SECONDS = 240.0
WARM_UP_STEPS = 50
REPORT_STEPS = 50
LONG_FROM = 0.6  # share of a course after which streams longer than both windows come


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
    shared: Synchronized[float] = field(factory=partial(multiprocessing.Value, "d", 0.0))

    def tick(self) -> float:
        """Bring the progress up to date and return it."""
        self.shared.value = min(time.process_time() / self.seconds, 1.0)
        return self.shared.value

    def progress(self) -> float:
        """Share of the course that is over."""
        return self.shared.value


def draw_step(mixer: Mixer, clock: Clock, *, from_scratch: bool) -> StreamBatch:
    """Draw the batch of a step: short streams first, later some that outlast both windows."""
    rng = mixer.rng
    is_late = not from_scratch or clock.progress() > LONG_FROM
    if is_late and happens(0.3, rng):
        seconds = rng.uniform(9, 18)
    else:
        seconds = rng.uniform(2.5, 9 if is_late else 5)
    return draw_stream_batch(mixer, seconds, max(round(BATCH_SECONDS / seconds), 2))


def measure(
    model: VoxtralRealtimeForConditionalGeneration, digit_head: nn.Module, batch: StreamBatch
) -> tuple[torch.Tensor, torch.Tensor, float]:
    """Return the loss of the tokens, that of the digits in the audio, and how many words are right.

    Without the second one the decoder learns when words end and never which they are.
    """
    ids = torch.from_numpy(batch.ids)
    heard = model.model(
        input_ids=ids,
        input_features=torch.from_numpy(batch.features),
        num_delay_tokens=batch.delay,
        use_cache=False,
    )
    states = heard.last_hidden_state[:, batch.prompt - 1 : -1]
    logits = model.lm_head(states).flatten(0, 1)
    wanted = ids[:, batch.prompt :].flatten()
    weight = torch.ones(logits.shape[-1])
    weight[PAD_ID] = PAD_WEIGHT
    tokens = functional.cross_entropy(logits, wanted, weight=weight, label_smoothing=0.01)
    guesses = digit_head(heard.audio_hidden_states).flatten(0, 1)
    digits = functional.cross_entropy(guesses, torch.from_numpy(batch.digits).flatten())
    is_text = wanted >= SPECIALS
    right = (logits.argmax(-1) == wanted)[is_text].float().mean().item() if is_text.any() else 1.0
    return tokens, digits, right


def train(
    model: VoxtralRealtimeForConditionalGeneration,
    batches: Iterable[StreamBatch],
    plan: Plan,
    clock: Clock,
    output: Path,
) -> None:
    """Train until the time is over, storing averaged weights every few minutes."""
    digit_head = nn.Linear(model.config.text_config.hidden_size, NOTHING + 1)
    parameters = [*model.parameters(), *digit_head.parameters()]
    optimizer = torch.optim.AdamW(parameters, betas=(0.9, 0.98), weight_decay=0.02)
    average = copy.deepcopy(model).eval()
    model.train()
    seen: list[tuple[float, float, float]] = []
    saved = time.monotonic()
    for step, batch in enumerate(batches, start=1):
        progress = clock.tick()
        rate = plan.learning_rate * min(1.0, step / WARM_UP_STEPS)
        for group in optimizer.param_groups:
            group["lr"] = rate * (0.02 + 0.98 * _cosine((progress - 0.1) / 0.9))
        tokens, digits, right = measure(model, digit_head, batch)
        early = plan.from_scratch and progress < LONG_FROM
        optimizer.zero_grad()
        (tokens + (1.0 if early else 0.3) * digits).backward()
        nn.utils.clip_grad_norm_(parameters, 1.0)
        optimizer.step()
        _follow(average, model, 1 / (1 + AVERAGE_SHARE * step))
        seen.append((tokens.item(), digits.item(), right))
        if step % REPORT_STEPS == 0:
            figures = " ".join(
                f"{name} {value:.3f}"
                for name, value in zip(
                    ("tokens", "digits", "right"), np.mean(seen, axis=0), strict=True
                )
            )
            _log.info("%.0f s step %d %s", time.process_time(), step, figures)
            seen.clear()
        if progress >= 1.0 or time.monotonic() - saved > SAVE_SECONDS:
            saved = time.monotonic()
            save_model(average, output)
        if progress >= 1.0:
            return


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
    parser.add_argument("--leave-out", metavar="SPEAKER", help="a speaker to keep for measuring")
    parser.add_argument("--minutes", type=float, default=60.0, help="of processor time")
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
        from_scratch=arguments.init is None,
    )
    model = build_model(VoxtralShape()) if plan.from_scratch else load_model(arguments.init)
    clock = Clock(plan.seconds)
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
