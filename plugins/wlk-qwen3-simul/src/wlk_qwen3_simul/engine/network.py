"""The interface of a loaded Qwen3-ASR, whatever framework runs its layers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

import attrs
import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray


@attrs.frozen(eq=False)
class EncodedWindow:
    """
    The encoder's output for one window, compared by identity.

    `embeddings` is an array of the framework, [audio tokens, width].
    """

    embeddings: Any

    @property
    def tokens(self) -> int:
        """Audio tokens of the window."""
        return int(self.embeddings.shape[0])

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        return int(self.embeddings.nbytes)

    def without_first(self, tokens: int) -> EncodedWindow:
        """Return a new window without the first *tokens* audio tokens."""
        return EncodedWindow(self.embeddings[tokens:])


class KVCache(Protocol):
    """The decoder's keys and values of one stream."""

    @property
    def length(self) -> int:
        """Positions held."""
        ...

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        ...

    def truncate(self, length: int) -> None:
        """Drop all but the first *length* positions."""
        ...


@attrs.frozen(kw_only=True, eq=False)
class DecoderOutput:
    """
    The decoder's output at the last positions of one forward, transferred to the host.

    Attributes:
        ids: int64[rows], the likeliest next token at each position.
        logprobs: float32[rows], the logprob of that token.
        attention: float32[rows, audio], the attention of the alignment heads to each audio token:
            a softmax over the audio alone, averaged over the heads.
        audio_attention_mass: float32[rows], the share of their attention that went to the audio.

    """

    ids: NDArray[np.int64]
    logprobs: NDArray[np.float32]
    attention: NDArray[np.float32]
    audio_attention_mass: NDArray[np.float32]

    @classmethod
    def from_packed(cls, packed: NDArray[np.float32]) -> DecoderOutput:
        """
        Unpack float32[rows, 3 + audio], which was copied to the host in one transfer.

        The columns are id, logprob, mass and attention; ids below 2**24 are exact in float32.
        """
        return cls(
            ids=packed[:, 0].astype(np.int64),
            logprobs=packed[:, 1],
            audio_attention_mass=packed[:, 2],
            attention=packed[:, 3:],
        )


class Network(Protocol):
    """
    A loaded Qwen3-ASR, shared by all streams and called from any thread.

    Any stands for types of the framework: the convolved output of a second, which has `nbytes` and
    is compared by identity, and the KV cache, which is a KVCache.
    """

    mel_bands: int  #: bands of a mel frame: 128 in the published models
    window_frames: int  #: mel frames of a window, beyond which the encoder does not attend: 800
    vocabulary_size: int  #: rows of the token embedding

    def convolve(self, features: NDArray[np.float32]) -> Any:
        """Convolve float32[mel_bands, frames], normalised: one second, or the start of one."""
        ...

    def encode(self, seconds: Sequence[Any]) -> EncodedWindow:
        """Encode the seconds of one window, or of the start of one; the last may be short."""
        ...

    def new_kv_cache(self) -> Any:
        """Return an empty KV cache."""
        ...

    def forward(
        self,
        kv_cache: Any,
        parts: Sequence[EncodedWindow | Sequence[int]],
        *,
        rows: int,
        audio: tuple[int, int],
        among: Sequence[int] = (),
    ) -> DecoderOutput:
        """
        Run the decoder over *parts* after the positions of *kv_cache*, and append them to it.

        Args:
            kv_cache: from `new_kv_cache`; it must not be used again after a forward that fails.
            parts: encoded windows and token ids in order, at least *rows* positions in all; the
                last *rows* positions are token ids.
            rows: number of last positions whose output is returned, at least one.
            audio: the positions of the audio tokens, as (start, end).
            among: ids among which the likeliest is returned; empty for the whole vocabulary.

        """
        ...


def heads_by_layer(pairs: Sequence[tuple[int, int]]) -> dict[int, list[int]]:
    """Return the heads of each layer that has any; *pairs* are (layer, head)."""
    heads: dict[int, list[int]] = {}
    for layer, head in pairs:
        heads.setdefault(layer, []).append(head)
    return heads
