"""Optional seams: what a backend may offer so that more of the contract can be tested on it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, runtime_checkable

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

__all__ = ["SupportsCodedAudio", "SupportsEngineGate", "SupportsFaults"]


@runtime_checkable
class SupportsFaults(Protocol):
    """
    A backend whose engine can be made to fail, for the rules ERR.

    `calls` counts the engine calls of all streams, the first one is number 1.  A call whose number
    is in `fail_at` raises an exception of any kind in place of the engine, with whatever state an
    engine that fails in the middle leaves behind.  Both are only ever touched by tests; a plugin
    offers them on the Backend it loads, or on a subclass that its own tests register.
    """

    calls: int
    fail_at: frozenset[int]


@runtime_checkable
class SupportsEngineGate(Protocol):
    """
    A backend whose engine can be held, for the rules on threads.

    Where `before_call` is not None it is run, without arguments, by the thread that is about to
    call the engine, each time.  It may wait; it must not be called with a lock held that an insert
    or `get_buffer` takes.
    """

    before_call: Callable[[], None] | None


@runtime_checkable
class SupportsCodedAudio(Protocol):
    """A backend that reads coded audio: token *i* is heard as ``vocabulary[i - 1]``."""

    vocabulary: Sequence[str]
