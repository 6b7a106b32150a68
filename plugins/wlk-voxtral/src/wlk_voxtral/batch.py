"""Steps of several streams in one pass of the network, with the outcome of each stream alone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, TypeVar

from wlk_voxtral.network import DecoderRow

if TYPE_CHECKING:
    from collections.abc import Sequence

    from wlk_core.streaming import SpeculativeDecoding
    from wlk_voxtral.network import Cache, ForwardPass, Network

__all__ = ["RowDecoder", "decode_rows"]

A = TypeVar("A")
K = TypeVar("K", bound="Cache")


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


def decode_rows(network: Network[Any, Any, K], rows: Sequence[RowDecoder[Any, K]]) -> None:
    """
    Decode all steps of each row, with the next positions of all rows in each pass.

    A prediction that is too close in a pass with other positions is recomputed alone.
    """
    while waiting := [row for row in rows if not row.decoding.is_complete]:
        together = [row for row in waiting if not row.decoding.is_alone]
        for group in (together, *([row] for row in waiting if row.decoding.is_alone)):
            if not group:
                continue
            inputs = [row.next_row() for row in group]
            is_wide = sum(len(row.token_ids) for row in inputs) > 1
            for row, forward in zip(group, network.forward_batch(inputs), strict=True):
                row.accept(forward, is_wide=is_wide)
