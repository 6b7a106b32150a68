"""The counters of a stream: present as before, never going back, growing with its engine calls."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from wlk_conformance.sessions.violation import Violation

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["COUNTERS", "Counters"]

COUNTERS = (
    "encoder_frames", "decoder_positions", "decoder_forwards", "host_syncs", "detokenised_ids",
)  # fmt: skip


MANY_CALLS = 20  # of the engine, which no model makes without any work that it can count
MANY_TOKENS = 3  # committed meanwhile, so that the engine did not run on silence alone


class Counters:
    """The counters that were read last, and the engine calls since one of them grew."""

    def __init__(self) -> None:
        self._last: dict[str, float] = {}
        self._calls = 0
        self._tokens = 0

    def take(self, stats: Any, call: str, *, made: int = 0, tokens: int = 0) -> Iterator[Violation]:
        """Check *stats*, read after *call*, which made engine calls and committed tokens."""
        yield from self._frozen(stats, call, made, tokens)
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

    def _frozen(self, stats: Any, call: str, made: int, tokens: int) -> Iterator[Violation]:
        """Yield RES-02 where the engine was called many times and no work was counted."""
        counted = {name: getattr(stats, name) for name in COUNTERS}
        known = {name: value for name, value in counted.items() if value is not None}
        has_grown = any(value > self._last.get(name, 0) for name, value in known.items())
        self._calls = 0 if has_grown else self._calls + made
        self._tokens = 0 if has_grown else self._tokens + tokens
        if known and self._calls >= MANY_CALLS and self._tokens >= MANY_TOKENS:
            calls, self._calls = self._calls, 0
            yield Violation(
                "RES-02",
                f"after {call}: {calls} engine calls in a row committed {self._tokens} tokens, and "
                f"none of {', '.join(known)} grew",
            )
