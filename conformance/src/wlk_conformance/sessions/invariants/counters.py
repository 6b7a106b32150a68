"""The counters of a stream: present as before, and never going back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from wlk_conformance.sessions.violation import Violation

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["COUNTERS", "Counters"]

COUNTERS = (
    "encoder_frames", "decoder_positions", "decoder_forwards", "host_syncs", "detokenised_ids",
)  # fmt: skip


class Counters:
    """The counters that were read last."""

    def __init__(self) -> None:
        self._last: dict[str, float] = {}

    def take(self, stats: Any, call: str) -> Iterator[Violation]:
        """Check *stats*, read after *call*."""
        for name in (*COUNTERS, "busy_seconds"):
            value, before = getattr(stats, name), self._last.get(name)
            if value is None and before:
                yield Violation("RES-02", f"after {call} {name} is None, was {before}")
            elif value is not None and value < (before or 0):
                yield Violation("RES-02", f"after {call} {name} is {value}, was {before or 0}")
            if value is not None:
                self._last[name] = value
        held = stats.state_bytes
        if held is not None and held < 0:
            yield Violation("RES-01", f"after {call} state_bytes is {held}")
        elif held is None and "state_bytes" in self._last:
            yield Violation("RES-01", f"after {call} state_bytes is None, and was a number")
        if held is not None:
            self._last["state_bytes"] = held
