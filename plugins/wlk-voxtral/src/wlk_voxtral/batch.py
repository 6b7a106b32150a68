"""Steps of several streams in one pass of the network, with the outcome of each stream alone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, Protocol, TypeVar, runtime_checkable

import attrs

from wlk_voxtral.step import STEP_FRAMES

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray

    from wlk_core.streaming import SpeculativeDecoding
    from wlk_voxtral.engine import Cache, ForwardPass, Network

__all__ = ["BatchNetwork", "DecoderRow", "EncoderRow", "RowDecoder", "decode_rows", "encode_rows"]

A = TypeVar("A")
E = TypeVar("E", bound="Cache")
K = TypeVar("K", bound="Cache")


@attrs.frozen(kw_only=True, eq=False)
class EncoderRow(Generic[E]):
    """The arguments of `Network.encode` for one stream."""

    mel: NDArray[np.float32]
    cache: E | None
    delay_steps: int

    @property
    def steps(self) -> int:
        """The number of steps of the mel frames."""
        return len(self.mel) // STEP_FRAMES


@attrs.frozen(kw_only=True, eq=False)
class DecoderRow(Generic[A, K]):
    """The arguments of `Network.forward` for one stream."""

    token_ids: Sequence[int]
    audio: A
    first: int
    kv_cache: K | None
    position: int


@runtime_checkable
class BatchNetwork(Protocol[A, E, K]):
    """
    A Network that can also run several streams in one pass.

    The answer of each row is that of `encode` or `forward` for it alone, up to rounding.
    """

    def encode_batch(self, rows: Sequence[EncoderRow[E]]) -> Sequence[tuple[A, E]]:
        """Return what `encode` returns for each row."""
        ...

    def forward_batch(self, rows: Sequence[DecoderRow[A, K]]) -> Sequence[ForwardPass[K]]:
        """Return what `forward` returns for each row."""
        ...


class RowDecoder(Generic[A, K]):
    """The decoder over the steps of one call of a stream, between two passes of the network."""

    def __init__(
        self, audio: A, kv_cache: K | None, *, position: int, decoding: SpeculativeDecoding
    ) -> None:
        self._audio = audio
        self._position = position
        self._kept = 0  # steps of this call in the KV cache
        self.decoding = decoding
        self.kv_cache = kv_cache
        self.passes = self.positions = 0

    def next_row(self) -> DecoderRow[A, K]:
        """Return the arguments of the next pass."""
        return DecoderRow(
            token_ids=self.decoding.next_ids(),
            audio=self._audio,
            first=self._kept,
            kv_cache=self.kv_cache,
            position=self._position + self._kept,
        )

    def accept(self, forward: ForwardPass[K], *, is_wide: bool) -> None:
        """Take the outcome of the row; see SpeculativeDecoding."""
        width = len(forward.predictions)
        kept = self.decoding.accept(forward.predictions, is_wide=is_wide)
        self.kv_cache = forward.kv_cache if kept == width else forward.truncated(kept)
        self._kept += kept
        self.passes += 1
        self.positions += width


def encode_rows(network: Network[A, E, K], rows: Sequence[EncoderRow[E]]) -> Sequence[tuple[A, E]]:
    """Encode the next steps of each row, in one pass where the network can."""
    if len(rows) > 1 and isinstance(network, BatchNetwork):
        return network.encode_batch(rows)
    return [network.encode(row.mel, row.cache, delay_steps=row.delay_steps) for row in rows]


def decode_rows(network: Network[A, E, K], rows: Sequence[RowDecoder[A, K]]) -> None:
    """
    Decode all steps of each row, with the next positions of all rows in each pass.

    A prediction that is too close in a pass with other positions is recomputed alone.
    """
    while waiting := [row for row in rows if not row.decoding.is_complete]:
        together = [row for row in waiting if not row.decoding.is_alone]
        for group in (together, *([row] for row in waiting if row.decoding.is_alone)):
            if group:
                _run_pass(network, group)


def _run_pass(network: Network[A, E, K], group: Sequence[RowDecoder[A, K]]) -> None:
    rows = [row.next_row() for row in group]
    is_wide = sum(len(row.token_ids) for row in rows) > 1
    forwards: Sequence[ForwardPass[K]]
    if len(rows) > 1 and isinstance(network, BatchNetwork):
        forwards = network.forward_batch(rows)
    else:
        forwards = [
            network.forward(
                row.token_ids,
                row.audio,
                first=row.first,
                kv_cache=row.kv_cache,
                position=row.position,
            )
            for row in rows
        ]
    for decoder, forward in zip(group, forwards, strict=True):
        decoder.accept(forward, is_wide=is_wide)
