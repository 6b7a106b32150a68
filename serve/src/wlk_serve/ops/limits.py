"""How much clients may use: at once, in a minute, and of one recording or session."""

from __future__ import annotations

import math
import threading

import attrs

from wlk_serve.errors import RequestError

__all__ = ["Limits", "Usage"]

_MINUTE = 60.0  # seconds


@attrs.frozen(kw_only=True)
class Limits:
    """
    What clients may use; infinity for no limit.

    Attributes:
        max_sessions: sockets and requests at a time.
        max_sessions_per_key: of them, those of one key.
        audio_per_minute: seconds of audio in a minute, received or decoded, of all clients.
        audio_per_minute_per_key: of them, those of one key.
        max_upload_bytes: the size of a form.
        max_audio_seconds: the length of a recording; a small file may hold hours.
        max_session_seconds: how long a socket may last.
        idle_seconds: how long a client of a socket may send nothing.

    """

    max_sessions: int = 100
    max_sessions_per_key: float = math.inf
    audio_per_minute: float = math.inf
    audio_per_minute_per_key: float = math.inf
    max_upload_bytes: int = 1_000_000_000
    max_audio_seconds: float = 12 * 3600.0
    max_session_seconds: float = 6 * 3600.0
    idle_seconds: float = 600.0


class Usage:
    """
    What was used of the budgets of audio: that of all clients, and one of each key.

    A budget holds what may be used in a minute, and is full at the beginning.  One use may exceed
    what is left: then nothing can be used until the debt is paid.  A plain object without a clock,
    for any thread.  A key is known by its id, so that there are as many budgets as keys.
    """

    def __init__(self, limits: Limits) -> None:
        self._lock = threading.Lock()
        self._limits = limits
        self._full_at: dict[str | None, float] = {}  # when the budget of a key, or of all, is full

    def use(self, key_id: str, now: float, seconds: float) -> None:
        """
        Count *seconds* of audio of a client.

        Raises:
            RequestError: nothing is left of a budget (429); nothing was counted.

        """
        if not seconds:
            return
        limits = self._limits
        budgets = {None: limits.audio_per_minute, key_id: limits.audio_per_minute_per_key}
        with self._lock:
            full_at = {key: max(now, self._full_at.get(key, now)) for key in budgets}
            emptiest = max(budgets, key=full_at.__getitem__)
            if (wait := full_at[emptiest] - now - _MINUTE) >= 0:
                wait_seconds = math.floor(wait) + 1
                raise RequestError(
                    f"more than {budgets[emptiest]:g} seconds of audio a minute; "
                    f"try again in {wait_seconds} s",
                    status=429,
                    code="rate_limit_exceeded",
                    retry_after=wait_seconds,
                )
            for key, per_minute in budgets.items():
                self._full_at[key] = full_at[key] + seconds * _MINUTE / per_minute
