"""What one uploaded recording uses, within the limits of its client."""

from __future__ import annotations

import secrets
import time
from typing import TYPE_CHECKING

from wlk_serve.errors import RequestError
from wlk_serve.ops.records import SessionFigures

if TYPE_CHECKING:
    from wlk_serve.ops.limits import Limits, Usage
    from wlk_serve.ops.metrics import Metrics

__all__ = ["UploadMeter"]


class UploadMeter:
    """
    Counts the bytes and the audio of a request; may be called from any thread.

    Args:
        metrics: where they are counted too.
        limits: of one recording.
        usage: what the client has used.
        key_id: the key of the client.

    """

    def __init__(self, metrics: Metrics, limits: Limits, usage: Usage, key_id: str) -> None:
        self._max_audio_seconds = limits.max_audio_seconds
        self._usage = usage
        self._audio_seconds = 0.0
        self.max_bytes = limits.max_upload_bytes  #: the size of the body
        self.outcome = "left"  #: a status, for the log
        self.figures = SessionFigures(
            metrics, protocol="rest", session_id=f"req_{secrets.token_hex(12)}", key_id=key_id
        )

    def use_bytes(self, size: int) -> None:
        """Count bytes; raises RequestError (429) where nothing is left of a budget."""
        self._usage.use(self.figures.key_id, time.monotonic(), size=size)

    def begin_audio(self) -> None:
        """Declare that a decoding begins at the start of the recording."""
        self._audio_seconds = 0.0

    def use_audio(self, seconds: float) -> None:
        """
        Count decoded audio.

        Raises:
            RequestError: the recording is too long (413), or nothing is left of a budget (429).

        """
        self._audio_seconds += seconds
        if self._audio_seconds > self._max_audio_seconds:
            raise RequestError(
                f"the recording is longer than {self._max_audio_seconds:g} s; send it in parts",
                status=413,
                code="audio_too_long",
                param="file",
            )
        self._usage.use(self.figures.key_id, time.monotonic(), audio_seconds=seconds)
        self.figures.add_audio(seconds)

    def close(self) -> None:
        """Log the line of the request."""
        self.figures.finish(self.outcome)
