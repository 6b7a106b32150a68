"""The protocol by which decoding runs Whisper's layers on a framework."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

import attrs

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray

MEL_FRAMES_PER_ENCODER_FRAME = 2  # the stride of the encoder's second convolution: 20 ms


@attrs.frozen(kw_only=True, eq=False)
class DecoderOutput:
    """
    The output of one forward pass of the decoder, on the host.

    Attributes:
        logits: float32[rows, kept, vocabulary], at the requested positions.
        cross_attention: float32[rows, heads, new, frames], the softmax weights of the alignment
            heads from every new position to the encoder frames; None unless requested.

    """

    logits: NDArray[np.float32]
    cross_attention: NDArray[np.float32] | None = None


@attrs.frozen(kw_only=True, eq=False)
class CrossKeysValues:
    """
    The cross-attention keys and values of one window for each decoder layer, as framework arrays.

    They are computed along with the encoder output: every decoder over the window needs them.
    """

    frames: int
    cross_kv: tuple[tuple[Any, Any], ...]  #: each [rows, heads, frames, head size]


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

    def encode(self, features: NDArray[np.float32], *, silence_stride: int = 0) -> Any:
        """
        Encode float32[mels, frames], an even number of mel frames up to 3000.

        Every *silence_stride*-th frame of the encoder output of silence follows, up to 30 s, or
        none if that is 0.  The output is opaque to callers, which pass it to `new_decoder`.
        """
        ...

    def new_decoder(self, encoder_output: Any) -> Decoder:
        """Return a decoder of one row, without tokens, over an output of `encode`."""
        ...
