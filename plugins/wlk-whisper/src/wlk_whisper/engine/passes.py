"""
Engine calls as generators of passes, which run alone or with those of other streams.

An engine call yields an EncoderPass or a DecoderPass and is sent the output.  The same decoding
code therefore serves both: `run_alone` runs each pass at once, `run_together` runs the next passes
of several calls in one pass of the network.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from wlk_whisper.engine.network import ChoiceTooClose, DecoderPass, EncoderPass

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from wlk_whisper.engine.network import Batch, DecoderOutput, EncoderOutput, Network

__all__ = ["Passes", "run", "run_alone", "run_together"]

T = TypeVar("T")

Passes: TypeAlias = Generator["EncoderPass | DecoderPass", Any, T]
"""An engine call that returns T: it yields passes and is sent their outputs."""


def run(network: Network, calls: Sequence[Callable[[], Passes[T]]]) -> list[T]:
    """Return the answers of *calls*, together where the network can and there are several."""
    if len(calls) > 1 and (batch := network.new_batch()):
        return run_together(network, batch, calls)
    return [run_alone(network, call()) for call in calls]


def run_alone(network: Network, passes: Passes[T]) -> T:
    """Return the answer of an engine call whose passes run one by one."""
    output: EncoderOutput | DecoderOutput | None = None
    while True:
        try:
            item = passes.send(output)
        except StopIteration as end:
            answer: T = end.value
            return answer
        if isinstance(item, EncoderPass):
            output = network.encode(item.features, is_padded=item.is_padded)
        else:
            output = item.decoder.forward(
                item.tokens,
                logits_to_keep=item.logits_to_keep,
                output_attention=item.output_attention,
            )


def run_together(
    network: Network, batch: Batch, calls: Sequence[Callable[[], Passes[T]]]
) -> list[T]:
    """
    Return the answers of engine calls whose next passes run together, each as alone.

    Common passes round differently from passes alone.  A call in which rounding could decide a
    choice (ChoiceTooClose) is repeated alone, from its start, so that no stream's transcript
    depends on the others.  What a call raises is raised for all: repeat each of them alone.

    Args:
        network: runs the passes of repeated calls.
        batch: runs the common passes.
        calls: functions that begin an engine call, again each time.

    """
    answers: dict[int, T] = {}
    running = {index: call() for index, call in enumerate(calls)}
    outputs: dict[int, EncoderOutput | DecoderOutput | None] = dict.fromkeys(running)
    close: list[int] = []
    while running:
        encoders: dict[int, EncoderPass] = {}
        decoders: dict[int, DecoderPass] = {}
        for index, passes in list(running.items()):
            try:
                item = passes.send(outputs.pop(index))
            except StopIteration as end:
                answers[index] = end.value
            except ChoiceTooClose:
                close.append(index)
            else:
                if isinstance(item, EncoderPass):
                    encoders[index] = item
                else:
                    decoders[index] = item
                continue
            del running[index]
        if encoders:
            outputs |= dict(zip(encoders, batch.encode(list(encoders.values())), strict=True))
        if decoders:
            outputs |= dict(zip(decoders, batch.forward(list(decoders.values())), strict=True))
    for index in close:
        answers[index] = run_alone(network, calls[index]())
    return [answers[index] for index in range(len(calls))]
