"""What a decoder may keep of a run from one call to the next."""

from __future__ import annotations

from typing import Protocol

__all__ = ["KeptState"]


class KeptState(Protocol):
    """
    The state of a decoder that makes each call cheaper by what the call before it left.

    It may change what a call costs, never what it says: a call that fails halfway leaves a state
    from which the same call can be made again.
    """

    @property
    def nbytes(self) -> int:
        """Bytes held now."""
        ...

    def forget(self) -> None:
        """Let go of everything: the run is over, and what comes next has nothing to do with it."""
        ...
