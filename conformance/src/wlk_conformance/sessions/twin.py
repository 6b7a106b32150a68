"""The twin of a stream: the same audio and pauses, fed in the plainest way, alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from wlk_conformance.compare import check_same
from wlk_conformance.sessions.actions import Action, Session
from wlk_conformance.sessions.shrink import even_chunks
from wlk_conformance.sessions.violation import Violation
from wlk_core import EPS

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from wlk_conformance.sessions.oracle import Life

__all__ = ["compare", "twin_of"]

KEPT = ("open", "insert", "start_silence", "end_silence", "is_last", "new_speaker")
TOLERANCE = 0.1  # seconds, as COM-05 allows


def twin_of(session: Session, stream: int) -> Session | None:
    """
    Return a session of the first life of *stream* alone, in drained chunks of a second.

    Faults, threads, neighbours, reads, refused calls and shapes of arrays are left out, because
    they must change nothing.  None for a stream that a fault broke.
    """
    actions: list[Action] = []
    for action in session.actions:
        if action.stream != stream:
            continue
        if action.do == "exhaust":
            return None
        if action.do in ("reset", "finish", "close"):
            break
        if action.do in KEPT or action.inner:
            actions += _plain(action)
    even = even_chunks(attrs.evolve(session, actions=actions), stream)
    return attrs.evolve(even, name=f"the twin of stream {stream} in {session.name}")


def compare(life: Life, twin: Life, stream: int) -> Iterator[Violation]:
    """Compare a life with that of its twin; one that was not finished may have fewer tokens."""
    expected: Sequence[object] = twin.tokens
    if not life.is_complete:
        expected = expected[: len(life.tokens)]
    try:
        check_same(
            expected,  # type: ignore[arg-type]  # tokens, see above
            life.tokens,
            what="against the same audio and pauses, fed plainly and alone",
            tolerance=TOLERANCE,
        )
    except AssertionError as error:
        yield Violation("COM-04", str(error), kind="differs", stream=f"stream {stream}")


def _plain(action: Action) -> Iterator[Action]:
    """Yield the plain calls that an action stands for."""
    if action.do == "insert":
        if action.end_offset is not None and action.end_offset < -EPS:
            return  # refused
        if action.end_offset is not None and action.end_offset > EPS:
            yield Action(do="start_silence", stream=action.stream)
            yield Action(do="end_silence", stream=action.stream, seconds=action.end_offset)
        yield Action(do="insert", stream=action.stream, samples=action.samples)
        return
    if action.do in KEPT:
        yield attrs.evolve(action, faults=(), is_after=False, is_threaded=False, inner=())
    for inner in action.inner:
        if inner.do == "insert" and action.do != "finish":
            yield from _plain(inner)
