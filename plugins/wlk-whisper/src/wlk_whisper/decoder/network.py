"""The seam between Whisper's decoding and the framework that runs its layers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

import attrs

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray

__all__ = ["Encoded", "Forward", "Network", "Run"]

POSITION_FRAMES = 2  # mel frames to one encoder position: 20 ms


class Encoded(Protocol):
    """What the encoder made of one stretch of audio; opaque but for its length."""

    @property
    def positions(self) -> int:
        """Encoder positions, 20 ms each."""
        ...


@attrs.frozen(kw_only=True, eq=False)
class Forward:
    """
    What one run of the decoder's layers gave, on the host.

    Attributes:
        logits: float32[rows, kept, vocabulary], at the positions asked for.
        attention: float32[rows, heads, new, positions], the softmax weights with which the
            alignment heads looked at the encoder's positions from every new one; None where it
            was not asked for.

    """

    logits: NDArray[np.float32]
    attention: NDArray[np.float32] | None = None


class Run(Protocol):
    """
    The decoder over one encoded stretch, for one or several rows side by side.

    Its caches live here and nowhere else: the network is shared by streams and never changed.
    """

    def forward(
        self, tokens: NDArray[np.int64], *, keep: Sequence[int] = (-1,), attend: bool = False
    ) -> Forward:
        """
        Run int64[rows, new] behind what each row has so far; one transfer to the host.

        Args:
            tokens: at least one new token a row, as many for all.
            keep: at which of the new positions logits are wanted, as indices into them.
            attend: whether the attention is wanted.

        """
        ...

    def reorder(self, rows: Sequence[int]) -> None:
        """Let row i go on from what row ``rows[i]`` was; there may be more or fewer than before."""
        ...


class Network(Protocol):
    """A loaded Whisper; any number of runs may be open, from any thread."""

    @property
    def mels(self) -> int:
        """Mel bands of a frame: 80, or 128 from large-v3 on."""
        ...

    @property
    def vocabulary(self) -> int:
        """Rows of the logits; 51865 and more have language and task tokens."""
        ...

    @property
    def text_positions(self) -> int:
        """Positions the decoder has room for: 448."""
        ...

    @property
    def alignment_heads(self) -> tuple[tuple[int, int], ...]:
        """The (layer, head) pairs that `Forward.attention` holds, in that order."""
        ...

    def encode(self, features: NDArray[np.float32]) -> Encoded:
        """Encode float32[mels, frames], an even number of frames up to 3000, not padded further."""
        ...

    def begin(self, encoded: Any) -> Run:
        """Return a run of one row that has no token yet over what `encode` returned."""
        ...
