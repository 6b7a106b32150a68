"""From the smallest session that fails to the rule that it breaks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wlk_conformance.sessions.played_stream import BAD
from wlk_conformance.sessions.shrink import even_chunks

if TYPE_CHECKING:
    from collections.abc import Sequence

    from wlk_conformance.sessions.actions import Action, Session
    from wlk_conformance.sessions.violation import Kind, Violation

__all__ = ["attribute"]

MANY = 4  # silences without which a small error of times does not show: a drift
ALONE: dict[Kind, str] = {
    "missing": "IN-05", "extra": "COM-01", "spacing": "COM-03", "time": "TIME-05",
    "clock": "TIME-03", "differs": "COM-04",
}  # fmt: skip


def attribute(violation: Violation, session: Session) -> str:
    """
    Return the rule that *session* breaks.

    An invariant names its rule.  Lost, repeated or moved words do not: there, what is left in the
    smallest session is what they depend on, such as a neighbour, a fault or a pause.
    """
    if violation.kind in ("invariant", "blocked"):
        return violation.rule
    if violation.kind == "spacing" and session.vocabulary:
        return "COM-03"  # other scripts are needed, and not what was called
    number = violation.stream.rpartition(" ")[2]
    own = [action for action in session.actions if str(action.stream) == number]
    others = [action for action in session.actions if str(action.stream) != number]
    if violation.kind == "language":  # a neighbour that is left is needed
        return "ISO-05" if own and others else "LANG-01"
    return (
        (_by_neighbours(others) if own else None)
        or _by_calls(own or session.actions)
        or _by_silences(own, violation.kind)
        or _by_chunks(session, own)
        or ALONE.get(violation.kind, violation.rule)
    )


def _by_neighbours(others: Sequence[Action]) -> str | None:
    if not others:
        return None
    if any(action.faults or action.do == "exhaust" for action in others):
        return "ERR-04"
    is_threaded = any(action.is_threaded or action.inner for action in others)
    return "ISO-02" if is_threaded else "ISO-01"


def _by_calls(own: Sequence[Action]) -> str | None:
    """Return the rule of the rarest call that is left."""
    if any(action.faults or action.do == "exhaust" for action in own):
        return "ERR-02"
    for action in own:
        if action.do == "refuse":
            return BAD[action.bad]
    for is_left, rule in (
        (any(action.do == "reset" for action in own), "LIFE-06"),
        (any(action.do == "warmup" for action in own), "LIFE-09"),
        (any(action.form == "reused" for action in own), "IN-04"),
        (any(action.form != "plain" for action in own), "IN-01"),
        (any(action.do == "read" for action in own), "HYP-01"),
        (any(action.inner for action in own), "IN-04"),
        (any(action.is_threaded for action in own), "ISO-03"),
        (any(action.end_offset is not None for action in own), "IN-03"),
        (any(action.offset is not None for action in own), "SIL-03"),
        (any(action.do == "new_speaker" for action in own), "SPK-01"),
        (any(action.do == "is_last" for action in own), "LIFE-07"),
    ):
        if is_left:
            return rule
    return None


def _by_silences(own: Sequence[Action], kind: Kind) -> str | None:
    ends = sum(action.do == "end_silence" for action in own)
    starts = sum(action.do == "start_silence" for action in own)
    if not ends and not starts:
        return None
    if kind in ("time", "clock"):
        if max(ends, starts) >= MANY:
            return "SIL-04"
        calls = [action.do for action in own if action.do not in ("open", "process", "drain")]
        is_leading = calls[:1] == ["end_silence"] and ends == 1 and not starts
        return "TIME-04" if is_leading else "SIL-05" if kind == "time" else "SIL-03"
    return "SIL-07" if ends or kind == "extra" or starts > 1 else "SIL-01"


def _by_chunks(session: Session, own: Sequence[Action]) -> str | None:
    """Return COM-05 where even chunks would not fail, or they would have replaced these."""
    if not own:
        return None
    even = even_chunks(session, own[0].stream)
    return None if even.actions == session.actions else "COM-05"
