"""
Engine calls as generators of passes, which run alone or with those of other streams.

An engine call yields what it wants the network to run and is sent the output.  So one text of the
decoding serves both: `run_alone` makes each pass at once, `run_together` makes the next passes of
several calls in one pass of the network.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import TYPE_CHECKING, Any, Generic, TypeAlias, TypeVar

import attrs

from wlk_whisper.engine.network import BatchNetwork, ChoiceTooClose

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from wlk_whisper.engine.network import Batch, Decoder, DecoderOutput, EncoderOutput, Network

__all__ = [
    "DecoderPass",
    "EncoderPass",
    "Passes",
    "decoder_pass",
    "encoder_pass",
    "run",
    "run_alone",
    "run_together",
]

D = TypeVar("D")
T = TypeVar("T")


@attrs.frozen(kw_only=True, eq=False)
class EncoderPass:
    """The arguments of `Network.encode`."""

    features: NDArray[np.float32]
    is_padded: bool = False


@attrs.frozen(kw_only=True, eq=False)
class DecoderPass(Generic[D]):
    """A decoder, and the arguments of its `forward`."""

    decoder: D
    tokens: NDArray[np.int64]
    logits_to_keep: Sequence[int] = (-1,)
    output_attention: bool = False


Passes: TypeAlias = Generator["EncoderPass | DecoderPass[Decoder]", Any, T]
"""An engine call that returns T: it yields passes and is sent their outputs."""


def encoder_pass(
    features: NDArray[np.float32], *, is_padded: bool = False
) -> Passes[EncoderOutput]:
    """Return the output of `Network.encode`."""
    output: EncoderOutput = yield EncoderPass(features=features, is_padded=is_padded)
    return output


def decoder_pass(
    decoder: Decoder,
    tokens: NDArray[np.int64],
    *,
    logits_to_keep: Sequence[int] = (-1,),
    output_attention: bool = False,
) -> Passes[DecoderOutput]:
    """Return the output of `Decoder.forward`."""
    output: DecoderOutput = yield DecoderPass(
        decoder=decoder,
        tokens=tokens,
        logits_to_keep=logits_to_keep,
        output_attention=output_attention,
    )
    return output


def run(network: Network, calls: Sequence[Callable[[], Passes[T]]]) -> list[T]:
    """Return the answers of *calls*, together where the network can and there are several."""
    if len(calls) > 1 and isinstance(network, BatchNetwork) and (batch := network.new_batch()):
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

    A call whose choice is too close for the rounding of common passes is made again alone, from its
    start.  What a call raises is raised for all: make each of them again alone.

    Args:
        network: runs the passes of a call that is made again.
        batch: runs the common passes.
        calls: functions that begin an engine call, at any time anew.

    """
    answers: dict[int, T] = {}
    running = {index: call() for index, call in enumerate(calls)}
    outputs: dict[int, EncoderOutput | DecoderOutput | None] = dict.fromkeys(running)
    close: list[int] = []
    while running:
        encoders: dict[int, EncoderPass] = {}
        decoders: dict[int, DecoderPass[Decoder]] = {}
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
