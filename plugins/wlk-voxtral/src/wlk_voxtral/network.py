"""The interface of a Voxtral network: forward passes over the steps of one or several streams."""

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
    """Tensors of a stream between two calls: a value, never changed in place."""

    @property
    def nbytes(self) -> int:
        """Bytes held on any device."""
        ...


class ForwardPass(Protocol):
    """The outcome of one forward pass of the decoder over several positions."""

    @property
    def predictions(self) -> Sequence[TokenPrediction]:
        """The most probable id after each position, end of text excepted."""
        ...

    @property
    def kv_cache(self) -> Any:
        """The KV cache after all positions."""
        ...

    def truncated(self, count: int) -> Any:
        """Return the KV cache after the first *count* positions, 0 < count."""
        ...


@attrs.frozen(kw_only=True, eq=False)
class EncoderRow:
    """
    The next steps of one stream for the encoder.

    Attributes:
        mel: float32[8 n, mels], n steps.
        cache: what the last pass returned; None at the start of an utterance.
        delay_steps: how many steps the text comes after its audio.

    """

    mel: NDArray[np.float32]
    cache: Any
    delay_steps: int

    @property
    def steps(self) -> int:
        """The number of steps of the mel frames."""
        return len(self.mel) // STEP_FRAMES


@attrs.frozen(kw_only=True, eq=False)
class DecoderRow:
    """
    The next positions of one stream for the decoder.

    Attributes:
        token_ids: one for each step of *audio* from *first* on.
        audio: the embeddings that the encoder returned.
        first: the first of their steps.
        kv_cache: the one in front of them; None at the start of an utterance.
        position: the number of the first of them in the utterance.

    """

    token_ids: Sequence[int]
    audio: Any
    first: int
    kv_cache: Any
    position: int


class Network(Protocol):
    """
    A loaded model on its framework: weights and forward passes, nothing of a stream.

    Any stands for tensors of the framework: the audio embeddings of a call, and caches.

    The answer of each row is that of the row alone, up to rounding.  The encoder may return lazy
    tensors.  After a decoder pass over its audio embeddings all caches are computed, because the
    next call of a stream may come from another thread.
    """

    @property
    def min_margin(self) -> float:
        """Logits by which a prediction of a pass over several positions must lead to be final."""
        ...

    def running(self) -> AbstractContextManager[None]:
        """Prepare the calling thread for the methods below, and wait for the device."""
        ...

    def encode_batch(self, rows: Sequence[EncoderRow]) -> Sequence[tuple[Any, Cache]]:
        """Return audio embeddings and the encoder's new cache of each row."""
        ...

    def forward_batch(self, rows: Sequence[DecoderRow]) -> Sequence[ForwardPass]:
        """Run the decoder over the positions of each row, in one pass where it can."""
        ...
