"""The Network protocol: how decoding calls the framework that runs Whisper's layers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

import attrs

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray

__all__ = ["MEL_FRAMES_PER_ENCODER_FRAME", "Decoder", "DecoderOutput", "EncoderOutput", "Network"]

MEL_FRAMES_PER_ENCODER_FRAME = 2  # the stride of the encoder's second convolution: 20 ms


class EncoderOutput(Protocol):
    """The encoder output of one stretch of audio; only its length is public."""

    @property
    def frames(self) -> int:
        """Encoder frames, 20 ms each."""
        ...


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


class Decoder(Protocol):
    """
    The decoder over one encoder output, for one or several rows side by side.

    Each object has its own KV cache, because the network is shared by streams and never changes.
    """

    def forward(
        self,
        tokens: NDArray[np.int64],
        *,
        logits_to_keep: Sequence[int] = (-1,),
        output_attention: bool = False,
    ) -> DecoderOutput:
        """
        Append int64[rows, new] to the rows and run them; one transfer to the host.

        Args:
            tokens: at least one new token for each row, the same number for all rows.
            logits_to_keep: indices of the new positions whose logits are returned.
            output_attention: whether the cross attention is returned.

        """
        ...

    def reorder_cache(self, rows: Sequence[int]) -> None:
        """Make new row i continue from old row ``rows[i]``; the number of rows may change."""
        ...


class Network(Protocol):
    """A loaded Whisper; any number of decoders may be open, in any thread."""

    @property
    def n_mels(self) -> int:
        """Mel bands of a frame: 80, or 128 since large-v3."""
        ...

    @property
    def n_vocab(self) -> int:
        """Rows of the logits; models with 51865 or more have language and task tokens."""
        ...

    @property
    def n_text_ctx(self) -> int:
        """Positions of the decoder: 448."""
        ...

    @property
    def alignment_heads(self) -> tuple[tuple[int, int], ...]:
        """The (layer, head) pairs of `DecoderOutput.cross_attention`, in that order."""
        ...

    def encode(self, features: NDArray[np.float32]) -> EncoderOutput:
        """Encode float32[mels, frames], an even number of mel frames up to 3000, unpadded."""
        ...

    def new_decoder(self, encoder_output: Any) -> Decoder:
        """Return a decoder of one row without tokens over an output of `encode`."""
        ...
