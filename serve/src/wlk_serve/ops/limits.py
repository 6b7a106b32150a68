"""How much clients may use: at once, in a minute, and of one recording or session."""

from __future__ import annotations

import math
import threading

import attrs

from wlk_serve.errors import RequestError

__all__ = ["Budget", "Limits", "Usage"]

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


class Budget:
    """
    A token bucket that holds what may be used in a minute, and is full at the beginning.

    One use may exceed what is left: then nothing can be used until the debt is paid.  The capacity
    is infinite for no limit.
    """

    def __init__(self, per_minute: float) -> None:
        self.per_minute = per_minute
        self._left = per_minute
        self._updated = -math.inf

    def wait_seconds(self, now: float) -> float:
        """Return after how many seconds something can be used; 0 for now."""
        if now > self._updated:
            gained = (now - self._updated) / _MINUTE * self.per_minute  # infinite at first
            self._left = min(self.per_minute, self._left + gained)
            self._updated = now
        return 0.0 if self._left > 0 else (1e-3 - self._left) / self.per_minute * _MINUTE

    def use(self, amount: float) -> None:
        """Take *amount*, even if less is left."""
        self._left -= amount


class Usage:
    """
    The audio of all clients and of each key; an object without a clock, for any thread.

    A key is known by its id, so that there are as many budgets as keys.
    """

    def __init__(self, limits: Limits) -> None:
        self._lock = threading.Lock()
        self._per_key = limits.audio_per_minute_per_key
        self._all = Budget(limits.audio_per_minute)
        self._of_key: dict[str, Budget] = {}

    def use(self, key_id: str, now: float, seconds: float) -> None:
        """
        Count *seconds* of audio of a client.

        Raises:
            RequestError: nothing is left of a budget (429); nothing was counted.

        """
        if not seconds:
            return
        with self._lock:
            if key_id not in self._of_key:
                self._of_key[key_id] = Budget(self._per_key)
            budgets = [self._all, self._of_key[key_id]]
            waits = [budget.wait_seconds(now) for budget in budgets]
            if (wait := math.ceil(max(waits))) > 0:
                limit = budgets[waits.index(max(waits))].per_minute
                raise RequestError(
                    f"more than {limit:g} seconds of audio a minute; try again in {wait} s",
                    status=429,
                    code="rate_limit_exceeded",
                    retry_after=wait,
                )
            for budget in budgets:
                budget.use(seconds)
