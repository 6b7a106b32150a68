"""How much clients may use: at once, in a minute, and of one recording or session."""

from __future__ import annotations

import math
import threading

import attrs

from wlk_serve.errors import RequestError

__all__ = ["Budget", "Limits", "Usage"]

_MINUTE = 60.0  # seconds
_AUDIO, _BYTES = "seconds of audio", "bytes"  # units


@attrs.frozen(kw_only=True)
class Limits:
    """
    What clients may use; infinity for no limit.

    Attributes:
        max_sessions: sockets and requests at a time.
        max_sessions_per_key: of them, those of one key.
        audio_per_minute: seconds of audio in a minute, received or decoded, of all clients.
        audio_per_minute_per_key: of them, those of one key.
        bytes_per_minute: bytes of uploads and messages in a minute, of all clients.
        bytes_per_minute_per_key: of them, those of one key.
        max_upload_bytes: the size of a form.
        max_audio_seconds: the length of a recording; a small file may hold hours.
        max_session_seconds: how long a socket may last.
        idle_seconds: how long a client of a socket may send nothing.
        canary_seconds: how old a canary session may be that makes the server ready.

    """

    max_sessions: int = 100
    max_sessions_per_key: float = math.inf
    audio_per_minute: float = math.inf
    audio_per_minute_per_key: float = math.inf
    bytes_per_minute: float = math.inf
    bytes_per_minute_per_key: float = math.inf
    max_upload_bytes: int = 1_000_000_000
    max_audio_seconds: float = 12 * 3600.0
    max_session_seconds: float = 6 * 3600.0
    idle_seconds: float = 600.0
    canary_seconds: float = 15.0


class Budget:
    """
    A token bucket that holds what may be used in a minute, and is full at the beginning.

    One use may exceed what is left: then nothing can be used until the debt is paid.

    Args:
        per_minute: the capacity, finite.
        unit: what is counted, for messages.

    """

    def __init__(self, per_minute: float, unit: str = "") -> None:
        self.per_minute = per_minute
        self.unit = unit
        self._left = per_minute
        self._updated = -math.inf

    def wait_seconds(self, now: float) -> float:
        """Return after how many seconds something can be used; 0 for now."""
        self._refill(now)
        return 0.0 if self._left > 0 else (1e-3 - self._left) / self.per_minute * _MINUTE

    def check(self, now: float) -> None:
        """Raise RequestError (429) where nothing can be used."""
        if (wait := self.wait_seconds(now)) > 0:
            raise RequestError(
                f"more than {self.per_minute:g} {self.unit} a minute; "
                f"try again in {math.ceil(wait)} s",
                status=429,
                code="rate_limit_exceeded",
                retry_after=math.ceil(wait),
            )

    def use(self, amount: float, now: float) -> None:
        """Take *amount*, even if less is left."""
        self._refill(now)
        self._left -= amount

    def _refill(self, now: float) -> None:
        if now > self._updated:
            gained = (now - self._updated) / _MINUTE * self.per_minute  # infinite at first
            self._left = min(self.per_minute, self._left + gained)
            self._updated = now


class Usage:
    """
    What all clients and each key use; an object without a clock, for any thread.

    A key is known by its id, so that there are as many budgets as keys.
    """

    def __init__(self, limits: Limits) -> None:
        self._lock = threading.Lock()
        self._per_key = (limits.audio_per_minute_per_key, limits.bytes_per_minute_per_key)
        self._all = _budgets(limits.audio_per_minute, limits.bytes_per_minute)
        self._of_key: dict[str, list[Budget]] = {}

    def use(self, key_id: str, now: float, *, audio_seconds: float = 0, size: int = 0) -> None:
        """
        Count audio and bytes of a client.

        Raises:
            RequestError: nothing is left of a budget (429); nothing was counted.

        """
        with self._lock:
            if key_id not in self._of_key:
                self._of_key[key_id] = _budgets(*self._per_key)
            amounts = {_AUDIO: audio_seconds, _BYTES: size}
            budgets = [*self._all, *self._of_key[key_id]]
            used = [budget for budget in budgets if amounts[budget.unit]]
            if used:
                max(used, key=lambda budget: budget.wait_seconds(now)).check(now)
            for budget in used:
                budget.use(amounts[budget.unit], now)


def _budgets(audio: float, size: float) -> list[Budget]:
    """Return the budgets of audio and of bytes that are limited."""
    limits = ((audio, _AUDIO), (size, _BYTES))
    return [Budget(limit, unit) for limit, unit in limits if not math.isinf(limit)]
