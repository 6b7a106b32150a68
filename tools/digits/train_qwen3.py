"""Train a Qwen3-ASR that recognises English digits, on a CPU.

python tools/digits/train_qwen3.py --recordings DIR --voices FILE --disguised FILE --output DIR
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from batches_qwen3 import TextBatch, draw_text_batch
from losses_qwen3 import Hints, measure
from model_qwen3 import Qwen3Shape, build_model, load_model
from rng import happens
from training_loop import Clock, batches_of, begin, course_parser, train

if TYPE_CHECKING:
    from mixing import Mixer

BATCH_SECONDS = 40.0  # of audio a step
SHORT_UNTIL = 0.35  # share of a course from scratch that sees short buffers only
LONG_FROM = 0.6  # share after which some buffers are longer than two windows


def draw_step(mixer: Mixer, clock: Clock) -> TextBatch:
    """Draw the batch of a step: short buffers first, later as long as those of streams."""
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


def main() -> None:
    """Read the arguments, start the process that draws batches, and train."""
    arguments = course_parser(__doc__, minutes=40.0, rate=2e-3).parse_args()
    clock = Clock(begin(arguments))
    model = load_model(arguments.init) if arguments.init else build_model(Qwen3Shape())
    hints = Hints(model.config.audio_config.output_dim, model.config.text_config.hidden_size)
    batches = batches_of(arguments, partial(draw_step, clock=clock))
    train(model, hints, batches, clock, arguments.output, measure=measure, early=SHORT_UNTIL)


if __name__ == "__main__":
    main()
