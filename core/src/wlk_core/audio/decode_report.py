"""Whether a recording was decoded whole, and the error to raise if it was not."""

from __future__ import annotations

from wlk_core.audio.gaps import JITTER_SECONDS, Piece
from wlk_core.audio.source import AudioSource, needs_a_file
from wlk_core.errors import AudioFormatError

__all__ = ["DecodeReport"]

_MISSING_SECONDS = 1.0  # a file this much shorter than its header promises is truncated


class DecodeReport:
    """Damage and length of a recording, collected while it is decoded."""

    def __init__(self) -> None:
        self.samples = 0
        self.decoded_until = 0.0
        self.last_packet_end = 0.0  # seconds, over all tracks
        self.damaged_at: float | None = None
        self.cause: Exception | None = None
        self.has_tags_within = False

    def add_damage(self, cause: Exception | None = None) -> None:
        """Record that decoding failed at `decoded_until`; the first damage is the one reported."""
        if self.damaged_at is None:
            self.damaged_at, self.cause = self.decoded_until, cause

    def has_gap_before(self, piece: Piece) -> bool:
        """Return whether sound is missing between the pieces so far and *piece*."""
        if self.samples == 0 or piece.start is None:
            return False
        return piece.start > self.decoded_until + JITTER_SECONDS

    def add(self, piece: Piece) -> None:
        """Record a decoded piece."""
        self.samples += len(piece.samples)
        if piece.start is not None:
            self.decoded_until = piece.start
        self.decoded_until += len(piece.samples) / piece.rate

    def raise_if_damaged(self, source: AudioSource) -> None:
        """
        Raise unless the recording was decoded whole.

        Raises:
            AudioFormatError: no samples, truncated or damaged.
            OSError: reading the file failed.

        """
        source.reader.raise_failure()
        if self.samples == 0 and source.format == "mov" and not source.reader.seekable():
            raise AudioFormatError(needs_a_file(source.name)) from self.cause
        if self.samples == 0:
            raise AudioFormatError(
                f"expected a recording, got no sound: {source.name!r} holds no audio samples that "
                "can be decoded; record or download it again"
            ) from self.cause
        # After tags or padding within an MP3, FFmpeg estimates its length from its bit rate.
        promised = None if self.has_tags_within else source.promised_end
        if promised is not None and self.last_packet_end < promised - _MISSING_SECONDS:
            raise AudioFormatError(
                f"expected {promised - source.origin:.1f} s according to the header of "
                f"{source.name!r}, got {self.last_packet_end - source.origin:.1f} s; "
                "it is truncated: copy or download it again"
            ) from self.cause
        if self.damaged_at is not None:
            raise AudioFormatError(
                f"expected sound throughout, got damaged data in {source.name!r} at "
                f"{max(0.0, self.damaged_at - source.origin):.1f} s; copy or download it again"
            ) from self.cause
