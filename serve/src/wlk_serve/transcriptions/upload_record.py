"""What one uploaded recording uses, within the limits of its client."""

from __future__ import annotations

import secrets
import time
from typing import TYPE_CHECKING

from wlk_serve.errors import RequestError
from wlk_serve.ops.records import SessionRecord

if TYPE_CHECKING:
    from collections.abc import Callable

    from wlk_serve.ops.limits import Limits, Usage
    from wlk_serve.ops.metrics import Metrics

__all__ = ["UploadRecord"]


class UploadRecord:
    """
    Counts the bytes and the audio of a request; may be called from any thread.

    Args:
        metrics: where they are counted too.
        limits: of one recording.
        usage: what the client has used.
        key_id: the key of the client.

    """

    def __init__(self, metrics: Metrics, limits: Limits, usage: Usage, key_id: str) -> None:
        self._limits = limits
        self._usage = usage
        self._audio_seconds = 0.0
        self.outcome = "left"  #: a status, for the log
        self.record = SessionRecord(
            metrics, protocol="rest", session_id=f"req_{secrets.token_hex(12)}", key_id=key_id
        )

    @property
    def max_bytes(self) -> int:
        """The size of the body."""
        return self._limits.max_upload_bytes

    def use_bytes(self, size: int) -> None:
        """Count bytes; raises RequestError (429) where nothing is left of a budget."""
        self._usage.use(self.record.key_id, time.monotonic(), size=size)

    def begin_audio(self) -> Callable[[float], object]:
        """Return `use_audio` for a decoding from the beginning of the recording."""
        self._audio_seconds = 0.0
        return self.use_audio

    def use_audio(self, seconds: float) -> None:
        """
        Count decoded audio.

        Raises:
            RequestError: the recording is too long (413), or nothing is left of a budget (429).

        """
        self._audio_seconds += seconds
        most = self._limits.max_audio_seconds
        if self._audio_seconds > most:
            raise RequestError(
                f"the recording is longer than {most:g} s; send it in parts",
                status=413,
                code="audio_too_long",
                param="file",
            )
        self._usage.use(self.record.key_id, time.monotonic(), audio_seconds=seconds)
        self.record.add_audio(seconds)

    def close(self) -> None:
        """Log the line of the request."""
        self.record.finish(self.outcome)
