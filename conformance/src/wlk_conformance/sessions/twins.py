"""Twins: sessions of the same audio in plain calls, whose words must be the same."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs
from msgspec.structs import replace

from wlk_conformance.compare import check_same
from wlk_conformance.sessions.session import Action, Session, Violation
from wlk_core import EPS, SAMPLE_RATE

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from wlk_conformance.sessions.life import Life
    from wlk_core import ASRToken

TWICE = ("start_silence", "is_last", "new_speaker")  # made twice: the second one does nothing
LONGER = 0.7  # seconds more of each silence
TOLERANCE = 0.1  # seconds, as COM-05 allows
SECOND = 16_000  # samples of a chunk that has nothing special


def even_chunks(actions: Iterable[Action], stream: int) -> tuple[Action, ...]:
    """Return *actions* with the audio of *stream* in drained seconds, at the same samples."""
    even, waiting = list[Action](), 0

    def feed() -> None:
        nonlocal waiting
        while waiting > 0:
            even.append(Action(do="insert", stream=stream, samples=min(waiting, SECOND)))
            even.append(Action(do="drain", stream=stream))
            waiting -= SECOND
        waiting = 0

    for action in actions:
        is_own = action.stream == stream
        is_plain = action.form == "plain" and action.end_offset is None
        if is_own and action.do == "insert" and is_plain:
            waiting += action.samples
        elif not (is_own and action.do in ("process", "drain") and not action.faults):
            if is_own:
                feed()
            even.append(action)
    feed()
    return tuple(even)


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
        plain = [twin for action in actions for twin in _plain(action)]
        twins.append(
            replace(
                session,
                name=f"the twin of stream {stream}, life {len(twins) + 1}, in {session.name}",
                tapes=tuple(replace(t, first_sample=life.first_sample) for t in session.tapes),
                actions=even_chunks([*opening, *plain], stream),
            )
        )
    return twins


def compare(life: Life, twin: Life, stream: int) -> Violation | None:
    """Compare a life with that of its twin; one that was not finished may have fewer tokens."""
    expected = _without_pauses(twin)
    if not life.is_complete:
        expected = expected[: len(life.tokens)]
    what = "against the same audio alone, its flushes made twice, its pauses longer (times without "
    try:
        check_same(expected, _without_pauses(life), what=f"{what}pauses)", tolerance=TOLERANCE)
    except AssertionError as error:
        return Violation("COM-04", str(error), kind="differs", stream=f"stream {stream}")
    return None


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
    stream = action.stream
    if action.do == "insert":
        gap = action.end_offset or 0.0
        if gap < -EPS:
            return  # refused
        if gap > EPS:
            yield from 2 * [Action(do="start_silence", stream=stream)]
            yield from _halves(gap, stream)
        yield Action(do="insert", stream=stream, samples=action.samples)
        return
    if action.do in TWICE:
        yield from 2 * [replace(action, faults=(), is_after=False, is_threaded=False, inner=())]
    elif action.do == "end_silence":
        yield from _halves(action.seconds, stream)
    for inner in action.inner:
        if inner.do == "insert" and action.do != "finish":
            yield from _plain(inner)


def _halves(seconds: float, stream: int) -> list[Action]:
    """Return a longer silence than one of *seconds*, in two halves; one of 0 s stays as it is."""
    half = round(seconds / 2 * SAMPLE_RATE) / SAMPLE_RATE
    parts = [part for part in (half, seconds - half + LONGER) if part > 0] if seconds else [0.0]
    return [Action(do="end_silence", stream=stream, seconds=part) for part in parts]


def _without_pauses(life: Life) -> list[ASRToken]:
    """Return the tokens of *life* with times in its audio, as if no pause had been reported."""
    time = life.clock.audio_time
    return [attrs.evolve(t, start=time(t.start), end=time(t.end)) for t in life.tokens]
