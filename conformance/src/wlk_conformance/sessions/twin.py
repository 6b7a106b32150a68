"""The twin of a stream: what must give the same words by the contract, in other calls."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from wlk_conformance.compare import check_same
from wlk_conformance.sessions.session import Action, Session
from wlk_conformance.sessions.shrink import even_chunks
from wlk_conformance.sessions.violation import Violation
from wlk_core import EPS, SAMPLE_RATE

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from wlk_conformance.sessions.clock import StreamClock
    from wlk_conformance.sessions.oracle import Life
    from wlk_core import ASRToken

__all__ = ["compare", "twins_of"]

FLUSHES = ("start_silence", "is_last", "new_speaker")  # made twice: the second one does nothing
LONGER = 0.7  # seconds more of each silence
TOLERANCE = 0.1  # seconds, as COM-05 allows


def twins_of(session: Session, stream: int, lives: Sequence[Life]) -> list[Session | None]:
    """
    Return a session for each of the *lives* of *stream*, in which the same audio has one life.

    A twin is alone, its audio comes in drained chunks of a second, every flush is made twice, and
    every silence is longer and reported in two halves.  Faults, threads, neighbours, reads, refused
    calls and shapes of arrays are left out.  None of that may change a word.  A life that
    a fault broke has None.
    """
    opening = [a for a in session.actions if a.stream == stream and a.do == "open"][:1]
    twins: list[Session | None] = []
    for life, actions in zip(lives, _actions_of_lives(session, stream), strict=False):
        if actions is None:
            twins.append(None)
            continue
        tapes = [attrs.evolve(tape, first_sample=life.first_sample) for tape in session.tapes]
        plain = [twin for action in actions for twin in _plain(action)]
        single = attrs.evolve(session, actions=[*opening, *plain], tapes=tapes)
        name = f"the twin of stream {stream}, life {len(twins) + 1}, in {session.name}"
        twins.append(attrs.evolve(even_chunks(single, stream), name=name))
    return twins


def compare(life: Life, twin: Life, stream: int) -> Iterator[Violation]:
    """Compare a life with that of its twin; one that was not finished may have fewer tokens."""
    expected = _without_pauses(twin)
    if not life.is_complete:
        expected = expected[: len(life.tokens)]
    try:
        check_same(
            expected,
            _without_pauses(life),
            what="against the same audio alone, its flushes made twice, its pauses longer (times "
            "without pauses)",
            tolerance=TOLERANCE,
        )
    except AssertionError as error:
        yield Violation("COM-04", str(error), kind="differs", stream=f"stream {stream}")


def _actions_of_lives(session: Session, stream: int) -> Iterator[list[Action] | None]:
    """Yield the actions on each life of *stream*; None for one that a fault broke."""
    actions: list[Action] | None = []
    is_over = False  # finished, so that what follows is left out
    for action in session.actions:
        if action.stream != stream:
            continue
        if action.do == "close":
            break
        if action.do == "reset":
            yield actions
            actions, is_over = [], False
        elif action.do == "exhaust" and not is_over:
            actions, is_over = None, True
        elif actions is not None and not is_over:
            actions.append(action)
            is_over = action.do == "finish"
    yield actions


def _plain(action: Action) -> Iterator[Action]:
    """Yield the calls of a twin for *action*."""
    stream = action.stream
    if action.do == "insert":
        if action.end_offset is not None and action.end_offset < -EPS:
            return  # refused
        if action.end_offset is not None and action.end_offset > EPS:
            start = Action(do="start_silence", stream=stream)
            yield from (start, start)
            yield from _halves(action.end_offset, stream)
        yield Action(do="insert", stream=stream, samples=action.samples)
        return
    if action.do in FLUSHES:
        yield from 2 * [
            attrs.evolve(action, faults=(), is_after=False, is_threaded=False, inner=())
        ]
    elif action.do == "end_silence":
        yield from _halves(action.seconds, stream)
    for inner in action.inner:
        if inner.do == "insert" and action.do != "finish":
            yield from _plain(inner)


def _halves(seconds: float, stream: int) -> list[Action]:
    """Return a longer silence than one of *seconds*, in two halves; one of 0 s stays as it is."""
    if seconds == 0:
        return [Action(do="end_silence", stream=stream)]
    half = round(seconds / 2 * SAMPLE_RATE) / SAMPLE_RATE
    halves = (half, seconds - half + LONGER)
    return [Action(do="end_silence", stream=stream, seconds=part) for part in halves if part > 0]


def _without_pauses(life: Life) -> list[ASRToken]:
    """Return the tokens of *life* with times in its audio, as if no pause had been reported."""
    return [
        attrs.evolve(
            token,
            start=_audio_time(life.clock, token.start),
            end=_audio_time(life.clock, token.end),
        )
        for token in life.tokens
    ]


def _audio_time(clock: StreamClock, time: float) -> float:
    """Return the seconds of audio before *time*."""
    silence = 0.0
    for sample, seconds in clock.pauses:
        before = sample / SAMPLE_RATE
        if time <= before + silence:
            break
        if time < before + silence + seconds:
            return before
        silence += seconds
    return max(0.0, time - silence)
