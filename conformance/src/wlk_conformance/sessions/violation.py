"""A violation of the contract that a monitor or an oracle detected."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import attrs

if TYPE_CHECKING:
    from wlk_conformance.sessions.session import Session

__all__ = ["Kind", "Violation"]

Kind = Literal[
    "blocked", "invariant", "language", "clock", "missing", "extra", "spacing", "time", "raised",
    "differs",
]  # fmt: skip


@attrs.frozen
class Violation:
    """
    A rule that was broken.

    Attributes:
        rule: its id.
        message: what was fed, what was expected and what came.
        kind: "invariant" or "blocked" where the rule follows from the call alone.  For the other
            kinds it is a first guess, which the smallest session that still fails makes exact.
        stream: the name of the stream.
        twin: for kind "differs", the session whose words are others.

    """

    rule: str
    message: str
    kind: Kind = "invariant"
    stream: str = ""
    twin: Session | None = None
