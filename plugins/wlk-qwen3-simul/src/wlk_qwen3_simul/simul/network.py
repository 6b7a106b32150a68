"""The seam between what is decoded and the framework that runs Qwen3-ASR's layers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

import attrs

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray

__all__ = ["Encoded", "Looked", "Memory", "Network", "Part", "Stem"]


class Stem(Protocol):
    """What the convolutions made of one second; opaque. Compared by identity."""

    @property
    def nbytes(self) -> int:
        """Bytes it holds."""
        ...


class Encoded(Protocol):
    """What the encoder made of one window; opaque but for its length. Compared by identity."""

    @property
    def tokens(self) -> int:
        """Audio tokens of the window."""
        ...

    @property
    def nbytes(self) -> int:
        """Bytes it holds."""
        ...


Part = Any  #: of what the decoder is given: an Encoded, or token ids as a sequence of int


@attrs.frozen(kw_only=True, eq=False)
class Looked:
    """
    What the last positions of one pass gave, on the host after one transfer.

    Attributes:
        ids: int64[rows], the likeliest token behind each position.
        log_probs: float32[rows], how likely it is.
        attention: float32[rows, audio], how the alignment heads shared their attention to the audio
            out among its tokens: a softmax over the audio alone, averaged over the heads.
        heed: float32[rows], the share of their attention that went to the audio at all.

    """

    ids: NDArray[np.int64]
    log_probs: NDArray[np.float32]
    attention: NDArray[np.float32]
    heed: NDArray[np.float32]


class Memory(Protocol):
    """The keys and values of one stream; they live here and nowhere else."""

    @property
    def length(self) -> int:
        """Positions held."""
        ...

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        ...

    def keep(self, length: int) -> None:
        """Forget all but the first *length* positions."""
        ...


class Network(Protocol):
    """A loaded Qwen3-ASR; any number of memories may be open, from any thread."""

    @property
    def mels(self) -> int:
        """Mel bands of a frame: 128."""
        ...

    @property
    def window_frames(self) -> int:
        """Mel frames of a window, which sees nothing beyond itself: 800."""
        ...

    @property
    def vocabulary(self) -> int:
        """Rows of the embedding."""
        ...

    def convolve(self, features: NDArray[np.float32]) -> Stem:
        """Convolve float32[mels, frames], normalised: one second, or the beginning of one."""
        ...

    def encode(self, stems: Sequence[Any]) -> Encoded:
        """Encode the seconds of one window, or of the beginning of one; the last may be short."""
        ...

    def open(self) -> Memory:
        """Return a memory without positions."""
        ...

    def extend(
        self, memory: Any, parts: Sequence[Part], *, rows: int, audio: tuple[int, int]
    ) -> Looked:
        """
        Run *parts* behind what *memory* holds, which then holds them too.

        Args:
            memory: as `open` returned it.  A pass that fails leaves it unusable.
            parts: at least *rows* positions; the last *rows* of them are ids.
            rows: how many positions at the end are told of, at least one.
            audio: the first audio token among all positions, and behind the last.

        """
        ...
