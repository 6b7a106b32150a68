"""Whether a recording was decoded whole, and the error to raise if it was not."""

from __future__ import annotations

import logging

from wlk_core.audio.gaps import JITTER_SECONDS, Piece
from wlk_core.audio.source import AudioSource, needs_a_file
from wlk_core.errors import AudioFormatError

__all__ = ["DecodeReport"]

logger = logging.getLogger("wlk_core.audio")

_MISSING_SECONDS = 1.0  # a file this much shorter than its header promises is truncated


class DecodeReport:
    """
    Damage and length of a recording, collected while it is decoded.

    `began` is the time of its beginning in seconds, for a link of a chained file.
    """

    def __init__(self, *, began: float = 0.0) -> None:
        self._began = began
        self._has_checked_damage = False
        self.samples = 0
        self.decoded_until = 0.0
        self.last_packet_end = 0.0  # seconds, over all tracks
        self.damaged_at: float | None = None
        self.cause: Exception | None = None
        self.has_tags_within = False
        self.follows_damage = False  # whether the next piece does

    def add_damage(self, cause: Exception | None = None) -> None:
        """Record that decoding failed at `decoded_until`; the first damage is the one reported."""
        self.follows_damage = True
        if self.damaged_at is None:
            self.damaged_at, self.cause = self.decoded_until, cause

    def add_checked_damage(self, source: AudioSource, position: int | None = None) -> None:
        """Record damage that the check of the bytes found before *position*, or anywhere."""
        damaged = None if source.check is None else source.check.damaged_position
        if damaged is None or self._has_checked_damage:
            return
        if position is None or position >= damaged:
            self._has_checked_damage = True
            self.add_damage()

    def is_sound_lost_before(self, piece: Piece, source: AudioSource) -> bool:
        """Return whether sound is missing between the pieces so far and *piece*."""
        if self.samples == 0 or piece.start is None:
            return False
        return JITTER_SECONDS < piece.start - self.decoded_until <= source.longest_lost_sound

    def add(self, piece: Piece) -> None:
        """Record a decoded piece."""
        self.follows_damage = False
        self.samples += len(piece.samples)
        if piece.start is not None:
            self.decoded_until = piece.start
        self.decoded_until += len(piece.samples) / piece.rate

    def close(self, source: AudioSource) -> None:
        """
        Raise unless the recording was decoded whole; log a warning if it may have been longer.

        Raises:
            AudioFormatError: no samples, truncated or damaged.
            OSError: reading the file failed.

        """
        source.reader.raise_failure()
        self.add_checked_damage(source)
        if self.samples == 0 and self.damaged_at is None and self._began > 0:
            return  # an empty link of a chained file
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
                f"{self._began + max(0.0, self.damaged_at - source.origin):.1f} s; "
                "copy or download it again"
            ) from self.cause
        if source.check is not None and source.check.is_cut:
            logger.warning(
                "%r ends in the middle, at %.1f s; if it was longer, copy or download it again",
                source.name,
                self._began + self.decoded_until - source.origin,
            )
