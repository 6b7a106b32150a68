"""What clients may use."""

from __future__ import annotations

import math

import attrs

__all__ = ["Limits"]


@attrs.frozen(kw_only=True)
class Limits:
    """
    What clients may use.

    Attributes:
        max_sessions: sockets and requests at a time.
        max_sessions_per_key: of them, those of one key; infinity for no limit.
        max_upload_bytes: the size of a form.
        max_audio_seconds: the length of a recording; a small file may hold hours.
        max_session_seconds: how long a socket may last.
        idle_seconds: how long a client of a socket may send nothing.

    """

    max_sessions: int = 100
    max_sessions_per_key: float = math.inf
    max_upload_bytes: int = 1_000_000_000
    max_audio_seconds: float = 12 * 3600.0
    max_session_seconds: float = 6 * 3600.0
    idle_seconds: float = 600.0
