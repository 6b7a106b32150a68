"""Whether a recording was heard whole, and what to say if not."""

from __future__ import annotations

from wlk_core.audio.placement import JITTER_SECONDS, Piece
from wlk_core.audio.source import AudioSource, needs_a_file
from wlk_core.errors import AudioFormatError

__all__ = ["Findings"]

_MISSING_SECONDS = 1.0  # a file this much shorter than its header says is truncated


class Findings:
    """What was noticed while decoding, for the verdict at the end."""

    def __init__(self) -> None:
        self.samples = 0
        self.decoded_until = 0.0
        self.reached = 0.0  # end of the last packet of any track
        self.damaged_at: float | None = None
        self.cause: Exception | None = None
        self.has_tags_within = False

    def damage(self, cause: Exception | None = None) -> None:
        """Note that nothing could be decoded behind what was; the first time counts."""
        if self.damaged_at is None:
            self.damaged_at, self.cause = self.decoded_until, cause

    def precede(self, piece: Piece) -> bool:
        """Say whether there is a hole between what was decoded and the piece."""
        if self.samples == 0 or piece.start is None:
            return False
        return piece.start > self.decoded_until + JITTER_SECONDS

    def hear(self, piece: Piece) -> None:
        """Note what was decoded."""
        self.samples += len(piece.samples)
        if piece.start is not None:
            self.decoded_until = piece.start
        self.decoded_until += len(piece.samples) / piece.rate

    def judge(self, source: AudioSource) -> None:
        """Raise what keeps the recording from having been heard whole."""
        source.reader.raise_failure()
        if self.samples == 0 and source.format == "mov" and not source.reader.seekable():
            raise AudioFormatError(needs_a_file(source.name)) from self.cause
        if self.samples == 0:
            raise AudioFormatError(
                f"expected a recording, got no sound: {source.name!r} holds no audio samples that "
                "can be decoded; record or download it again"
            ) from self.cause
        # Behind tags and padding within an MP3, FFmpeg measures it by its bit rate.
        promised = None if self.has_tags_within else source.promised_end
        if promised is not None and self.reached < promised - _MISSING_SECONDS:
            raise AudioFormatError(
                f"expected {promised - source.origin:.1f} s as the header of {source.name!r} "
                f"says, got {self.reached - source.origin:.1f} s; it is truncated: copy or "
                "download it again"
            ) from self.cause
        if self.damaged_at is not None:
            raise AudioFormatError(
                f"expected sound throughout, got damaged data in {source.name!r} at "
                f"{max(0.0, self.damaged_at - source.origin):.1f} s; copy or download it again"
            ) from self.cause
