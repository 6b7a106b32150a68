"""The interface of a Voxtral network: forward passes over the steps of one or more streams."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

import attrs

from wlk_voxtral.tokenizer import STEP_FRAMES

if TYPE_CHECKING:
    from collections.abc import Sequence
    from contextlib import AbstractContextManager

    import numpy as np
    from numpy.typing import NDArray

    from wlk_voxtral.speculative import TokenPrediction


class Cache(Protocol):
    """Tensors that a stream keeps between two calls; passes leave their contents as they are."""

    @property
    def nbytes(self) -> int:
        """Bytes held on any device."""
        ...


class ForwardPass(Protocol):
    """The outcome of one forward pass of the decoder over several positions."""

    @property
    def predictions(self) -> Sequence[TokenPrediction]:
        """The most probable id after each position, other than end of text."""
        ...

    @property
    def kv_cache(self) -> Any:
        """The KV cache after all positions."""
        ...

    def truncated(self, count: int) -> Any:
        """Return the KV cache after the first *count* positions, 0 < count, to use instead."""
        ...


@attrs.frozen(kw_only=True, eq=False)
class EncoderRow:
    """
    The next steps of one stream for the encoder.

    Attributes:
        mel: float32[8 n, mels], the mel frames of n steps.
        cache: the cache returned by the last pass; None at the start of an utterance.
        delay_steps: number of steps between audio and its text.

    """

    mel: NDArray[np.float32]
    cache: Any
    delay_steps: int

    @property
    def steps(self) -> int:
        """The number of steps."""
        return len(self.mel) // STEP_FRAMES


@attrs.frozen(kw_only=True, eq=False)
class DecoderRow:
    """
    The next positions of one stream for the decoder.

    Attributes:
        token_ids: one id per step of *audio*, from step *first* on.
        audio: the audio embeddings that the encoder returned.
        first: index of the first step in *audio*.
        kv_cache: the KV cache before that step; None at the start of an utterance.
        position: position of that step in the utterance.

    """

    token_ids: Sequence[int]
    audio: Any
    first: int
    kv_cache: Any
    position: int


class Network(Protocol):
    """
    A loaded model on its framework: weights and forward passes, without state of a stream.

    Any stands for tensors of the framework: the audio embeddings of a call, and caches.

    The result for each row is that of the row alone, up to rounding.  The encoder may return lazy
    tensors.  After a decoder pass over its audio embeddings all caches are computed, because the
    next call of a stream may come from another thread.
    """

    @property
    def min_margin(self) -> float:
        """Margin in logits that a prediction of a pass over several positions needs to be kept."""
        ...

    def running(self) -> AbstractContextManager[None]:
        """Wait for the device, and hold it for calls of the methods below in this thread."""
        ...

    def encode_batch(self, rows: Sequence[EncoderRow]) -> Sequence[tuple[Any, Cache]]:
        """Return the audio embeddings and the new encoder cache of each row."""
        ...

    def forward_batch(self, rows: Sequence[DecoderRow]) -> Sequence[ForwardPass]:
        """Run the decoder over the positions of each row, in one pass if possible."""
        ...
