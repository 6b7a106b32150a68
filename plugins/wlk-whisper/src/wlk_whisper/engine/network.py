"""
The protocol by which decoding runs Whisper's layers on a framework, in passes.

An engine call is a generator: it yields an EncoderPass or a DecoderPass and is sent the output.
The same decoding code therefore runs alone, pass by pass, and together with the calls of other
streams, with their next passes batched as one.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, TypeVar

import attrs

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

T = TypeVar("T")

Passes: TypeAlias = Generator["EncoderPass | DecoderPass", Any, T]
"""An engine call that returns T: it yields passes and is sent their outputs."""

MEL_FRAMES_PER_ENCODER_FRAME = 2  # the stride of the encoder's second convolution: 20 ms


class ChoiceTooClose(Exception):  # noqa: N818 -- not an error: the call is repeated alone
    """Rounding in a batched pass may have decided a choice."""


@attrs.frozen(kw_only=True)
class Rounding:
    """How far the outputs of a batched pass may be from those of the same pass run alone."""

    margin: float = 0.0  #: lead that a choice needs, in logits
    #: Relative difference of an attention weight; 0 if times need no check.
    attention: float = 0.0

    def require_lead(self, lead: float, *, steps: int = 1) -> None:
        """
        Check that a choice leads the runner-up by more than rounding can account for.

        *lead* is in logits or log-probabilities, summed over *steps* tokens.

        Raises:
            ChoiceTooClose: a pass run alone may choose the runner-up.

        """
        if lead < self.margin * steps:
            raise ChoiceTooClose(f"a choice leads by {lead} only")


ALONE = Rounding()  #: of a pass that is not batched


@attrs.frozen(kw_only=True, eq=False)
class DecoderOutput:
    """
    The output of one forward pass of the decoder, on the host.

    Attributes:
        logits: float32[rows, kept, vocabulary], at the requested positions.
        cross_attention: float32[rows, heads, new, frames], the softmax weights of the alignment
            heads from every new position to the encoder frames; None unless requested.
        rounding: how far both may be from those of the same pass run alone.

    """

    logits: NDArray[np.float32]
    cross_attention: NDArray[np.float32] | None = None
    rounding: Rounding = ALONE


@attrs.frozen(kw_only=True, eq=False)
class CrossKeysValues:
    """
    The cross-attention keys and values of one window for each decoder layer, as framework arrays.

    They are computed along with the encoder output: every decoder over the window needs them.
    """

    frames: int
    cross_kv: tuple[tuple[Any, Any], ...]  #: each [rows, heads, frames, head size]


@attrs.frozen(kw_only=True, eq=False)
class EncoderPass:
    """The arguments of `Network.encode`."""

    features: NDArray[np.float32]
    is_padded: bool = False


@attrs.frozen(kw_only=True, eq=False)
class DecoderPass:
    """A decoder, and the arguments of its `forward`."""

    decoder: Any
    tokens: NDArray[np.int64]
    logits_to_keep: Sequence[int] = (-1,)
    output_attention: bool = False


class Decoder(Protocol):
    """
    A decoder over one encoder output, for one or more rows.

    Each has its own KV cache, because streams share the network, which never changes.
    """

    def forward(
        self,
        tokens: NDArray[np.int64],
        *,
        logits_to_keep: Sequence[int] = (-1,),
        output_attention: bool = False,
    ) -> DecoderOutput:
        """
        Append tokens, int64[rows, new], to the rows and run them; one transfer to the host.

        *logits_to_keep* are the indices of the new positions whose logits are returned.
        """
        ...

    def reorder_cache(self, rows: Sequence[int]) -> None:
        """Make new row i continue from old row ``rows[i]``; the number of rows may change."""
        ...


class Network(Protocol):
    """A loaded Whisper; any number of decoders may be open, in any thread."""

    n_mels: int  #: mel bands of a frame: 80, or 128 since large-v3
    n_vocab: int  #: rows of the logits; models with 51865 or more have language and task tokens
    n_text_ctx: int  #: positions of the decoder: 448
    #: The (layer, head) pairs of `DecoderOutput.cross_attention`, in that order.
    alignment_heads: tuple[tuple[int, int], ...]

    def encode(self, features: NDArray[np.float32], *, is_padded: bool = False) -> Any:
        """
        Encode float32[mels, frames], an even number of mel frames up to 3000.

        With *is_padded* the encoder output of silence is appended, up to 30 s.  The output is
        opaque to callers, which pass it to `new_decoder`.
        """
        ...

    def new_decoder(self, encoder_output: Any) -> Decoder:
        """Return a decoder of one row, without tokens, over an output of `encode`."""
        ...

    def new_batch(self) -> Any:
        """
        Return an object that batches the passes of several streams, for one run of engine calls.

        Its `encode(passes)` and `forward(passes)` return for each pass what `Network.encode` and
        `Decoder.forward` would return for it alone, up to the rounding that they state;
        `new_decoder` takes its encoder outputs.  None if the network cannot batch, or if its
        arithmetic is so coarse that rounding could decide most choices.
        """
        ...


def run_alone(network: Network, passes: Passes[T]) -> T:
    """Run an engine call pass by pass and return its answer."""
    output: Any = None
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


def run_together(network: Network, batch: Any, calls: Sequence[Callable[[], Passes[T]]]) -> list[T]:
    """
    Run engine calls, batching the next pass of each, and return their answers, each as if alone.

    Batched passes round differently from passes run alone.  A call in which rounding may have
    decided a choice (ChoiceTooClose) is repeated alone, from its start, so that no stream's
    transcript depends on other streams.  An exception of one call is raised for all of them: the
    caller repeats each alone.  Each of *calls* begins its engine call anew whenever it is called.
    """
    answers: dict[int, T] = {}
    running = {index: call() for index, call in enumerate(calls)}
    outputs: dict[int, Any] = dict.fromkeys(running)
    too_close: list[int] = []
    while running:
        encoders: dict[int, EncoderPass] = {}
        decoders: dict[int, DecoderPass] = {}
        for index, passes in list(running.items()):
            try:
                item = passes.send(outputs.pop(index))
            except StopIteration as end:
                answers[index] = end.value
            except ChoiceTooClose:
                too_close.append(index)
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
    for index in too_close:
        answers[index] = run_alone(network, calls[index]())
    return [answers[index] for index in range(len(calls))]
