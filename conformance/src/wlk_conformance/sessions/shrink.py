"""From a session that fails to the smallest one that still does (Zeller 2002, delta debugging)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from wlk_conformance.sessions.actions import Action, Session

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

__all__ = ["even_chunks", "shrink"]

SECOND = 16_000  # samples of a chunk that has nothing special


class _Budget:
    """The sessions that may still be played, counted and not timed: equal on every machine."""

    def __init__(self, fails: Callable[[Session], bool], plays: int) -> None:
        self._fails = fails
        self._left = plays

    def keeps(self, session: Session) -> bool:
        """Return whether *session* still fails; False when no play is left."""
        if self._left <= 0:
            return False
        self._left -= 1
        return self._fails(session)


def shrink(session: Session, fails: Callable[[Session], bool], *, plays: int) -> Session:
    """
    Return a smaller session for which *fails* holds, after at most *plays* tries.

    What remains is needed: without any other stream, fault, thread, silence or shape of a chunk
    that is left the session would not fail, as far as the tries reach.
    """
    budget = _Budget(fails, plays)
    session = _cut_end(session, budget)
    session = _fewer_streams(session, budget)
    session = _simpler_engine(session, budget)
    session = _simpler_everywhere(session, budget)
    session = _without_chunks(session, budget)
    session = _merged(session, budget)
    return _simpler_each(session, budget)


def _fewer_streams(session: Session, budget: _Budget) -> Session:
    """Keep one stream, or drop each that is not needed."""
    numbers = sorted({action.stream for action in session.actions})
    if len(numbers) == 1:
        return session
    for number in numbers:
        alone = _with(session, [action for action in session.actions if action.stream == number])
        if budget.keeps(alone):
            return alone
    for number in numbers:
        others = _with(session, [action for action in session.actions if action.stream != number])
        if budget.keeps(others):
            session = others
    return session


def _with(session: Session, actions: Sequence[Action]) -> Session:
    return attrs.evolve(session, actions=actions)


def _cut_end(session: Session, budget: _Budget) -> Session:
    """Drop the end of the session, by halves."""
    size = len(session.actions) // 2
    while size:
        shorter = _with(session, session.actions[:-size])
        if shorter.actions and budget.keeps(shorter):
            session = shorter
            size = min(size, len(session.actions) // 2)
        else:
            size //= 2
    return session


SIMPLER: tuple[Callable[[Action], Action | None], ...] = (
    lambda action: None if action.do in ("read", "refuse", "warmup") else action,
    lambda action: attrs.evolve(action, faults=(), is_after=False),
    lambda action: None if action.do == "exhaust" else action,
    lambda action: attrs.evolve(action, is_threaded=False, inner=()),
    lambda action: attrs.evolve(action, form="plain"),
    lambda action: attrs.evolve(action, end_offset=None),
    lambda action: None if action.do == "reset" else action,
    lambda action: None if action.do == "new_speaker" else action,
    lambda action: None if action.do == "is_last" else action,
    lambda action: None if action.do == "end_silence" else action,
    lambda action: None if action.do == "start_silence" else action,
    lambda action: attrs.evolve(action, options={}),
    lambda action: attrs.evolve(action, offset=None),
)


def _simplified(
    actions: Iterable[Action], simpler: Callable[[Action], Action | None]
) -> list[Action]:
    return [new for action in actions if (new := simpler(action)) is not None]


def _simpler_engine(session: Session, budget: _Budget) -> Session:
    """Keep words and habits of the engine only if they are needed."""
    for simpler in ({"vocabulary": ""}, {"habits": ()}):
        candidate = attrs.evolve(session, **simpler)
        if candidate != session and budget.keeps(candidate):
            session = candidate
    return session


def _simpler_everywhere(session: Session, budget: _Budget) -> Session:
    """Drop each kind of complication from the whole session, if it is not needed."""
    for simpler in SIMPLER:
        candidate = _with(session, _simplified(session.actions, simpler))
        if candidate.actions != session.actions and budget.keeps(candidate):
            session = candidate
    return session


def _without_chunks(session: Session, budget: _Budget) -> Session:
    """Drop runs of actions, long ones first."""
    size = max(1, len(session.actions) // 2)
    while size:
        first = 0
        while first < len(session.actions):
            rest = [*session.actions[:first], *session.actions[first + size :]]
            if rest and budget.keeps(_with(session, rest)):
                session = _with(session, rest)
            else:
                first += size
        size //= 2
    return session


def even_chunks(session: Session, stream: int) -> Session:
    """Return *session* with the audio of *stream* in drained seconds, at the same samples."""
    return _with(session, list(_even(session.actions, stream)))


def _merged(session: Session, budget: _Budget) -> Session:
    """Feed whole seconds if the sizes of the chunks do not matter."""
    streams = sorted({action.stream for action in session.actions})
    for stream in streams:
        even = even_chunks(session, stream)
        if even.actions != session.actions and budget.keeps(even):
            session = even
    return session


def _even(actions: Sequence[Action], stream: int) -> Iterator[Action]:
    waiting = 0
    for action in actions:
        is_plain = action.form == "plain" and action.end_offset is None
        if action.stream == stream and action.do == "insert" and is_plain:
            waiting += action.samples
            continue
        if action.stream == stream and action.do in ("process", "drain") and not action.faults:
            continue
        if action.stream == stream:
            yield from _seconds(waiting, stream)
            waiting = 0
        yield action
    yield from _seconds(waiting, stream)


def _seconds(samples: int, stream: int) -> Iterator[Action]:
    while samples > 0:
        yield Action(do="insert", stream=stream, samples=min(samples, SECOND))
        yield Action(do="drain", stream=stream)
        samples -= SECOND


def _simpler_each(session: Session, budget: _Budget) -> Session:
    """Simplify one action after another."""
    for index in range(len(session.actions)):
        for simpler in SIMPLER:
            if index >= len(session.actions):
                break
            before, action, after = (
                session.actions[:index], session.actions[index], session.actions[index + 1 :],
            )  # fmt: skip
            new = simpler(action)
            if new == action:
                continue
            candidate = _with(session, [*before, *([new] if new else []), *after])
            if candidate.actions and budget.keeps(candidate):
                session = candidate
    return session
