"""Shrink a failing session (Zeller 2002, delta debugging), and name the rule it breaks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs

from wlk_conformance.sessions.played_stream import BAD
from wlk_conformance.sessions.session import Action, Session

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from wlk_conformance.sessions.violation import Kind, Violation

__all__ = ["attribute", "even_chunks", "shrink"]

SECOND = 16_000  # samples of a chunk that has nothing special
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
#: Rare calls and the rules that they break, the rarest first; a refused call has its own.
RARE: tuple[tuple[Callable[[Action], object], str], ...] = (
    (lambda action: action.faults or action.do == "exhaust", "ERR-02"),
    (lambda action: action.do == "refuse", ""),
    (lambda action: action.do == "reset", "LIFE-06"),
    (lambda action: action.do == "warmup", "LIFE-09"),
    (lambda action: action.form == "reused", "IN-04"),
    (lambda action: action.form != "plain", "IN-01"),
    (lambda action: action.do == "read", "HYP-01"),
    (lambda action: action.inner, "IN-04"),
    (lambda action: action.is_threaded, "ISO-03"),
    (lambda action: action.end_offset is not None, "IN-03"),
    (lambda action: action.offset is not None, "SIL-03"),
    (lambda action: action.do == "new_speaker", "SPK-01"),
    (lambda action: action.do == "is_last", "LIFE-07"),
)
MANY = 4  # silences without which a small error of times does not show: a drift
ALONE: dict[Kind, str] = {
    "missing": "IN-05", "extra": "COM-01", "spacing": "COM-03", "time": "TIME-05",
    "clock": "TIME-03", "differs": "COM-04",
}  # fmt: skip


def shrink(session: Session, fails: Callable[[Session], bool], *, plays: int) -> Session:
    """
    Return a smaller session for which *fails* holds, after at most *plays* tries.

    What remains is needed: without any other stream, fault, thread, silence or shape of a chunk
    that is left the session would not fail, as far as the tries reach.
    """
    shrinking = _Shrinking(session, fails, plays)
    shrinking.cut_end()
    shrinking.drop_streams()
    shrinking.keeps(vocabulary="")
    shrinking.keeps(habits=())
    for simpler in SIMPLER:  # each kind of complication in the whole session
        new = (simpler(action) for action in shrinking.session.actions)
        shrinking.keeps(actions=[action for action in new if action is not None])
    shrinking.drop_runs()
    for stream in sorted({action.stream for action in shrinking.session.actions}):
        shrinking.keeps(actions=even_chunks(shrinking.session, stream).actions)
    shrinking.simplify_each()
    return shrinking.session


@attrs.define
class _Shrinking:
    """A session, and the plays that are left: counted and not timed, so equal on every machine."""

    session: Session
    fails: Callable[[Session], bool]
    plays: int

    def keeps(self, **changes: Any) -> bool:
        """Take the session with *changes* if it still fails, and return whether it does."""
        candidate = attrs.evolve(self.session, **changes)
        if self.plays <= 0 or not candidate.actions or candidate == self.session:
            return False
        self.plays -= 1
        if self.fails(candidate):
            self.session = candidate
            return True
        return False

    def cut_end(self) -> None:
        """Drop the end of the session, by halves."""
        size = len(self.session.actions) // 2
        while size:
            if self.keeps(actions=self.session.actions[:-size]):
                size = min(size, len(self.session.actions) // 2)
            else:
                size //= 2

    def drop_streams(self) -> None:
        """Keep one stream, or drop each that is not needed."""
        actions = self.session.actions
        numbers = sorted({action.stream for action in actions})
        if len(numbers) == 1:
            return
        for number in numbers:
            if self.keeps(actions=[action for action in actions if action.stream == number]):
                return
        for number in numbers:
            self.keeps(actions=[a for a in self.session.actions if a.stream != number])

    def drop_runs(self) -> None:
        """Drop runs of actions, long ones first."""
        size = max(1, len(self.session.actions) // 2)
        while size:
            first = 0
            while first < len(actions := self.session.actions):
                if not self.keeps(actions=[*actions[:first], *actions[first + size :]]):
                    first += size
            size //= 2

    def simplify_each(self) -> None:
        """Simplify one action after another."""
        for index in range(len(self.session.actions)):
            for simpler in SIMPLER:
                actions = self.session.actions
                if index < len(actions):
                    new = simpler(actions[index])
                    kept = [] if new is None else [new]
                    self.keeps(actions=[*actions[:index], *kept, *actions[index + 1 :]])


def even_chunks(session: Session, stream: int) -> Session:
    """Return *session* with the audio of *stream* in drained seconds, at the same samples."""
    return attrs.evolve(session, actions=_even(session.actions, stream))


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
        (_by_neighbours(others) if own and others else None)
        or _by_calls(own or session.actions)
        or _by_silences(own, violation.kind)
        # Where even chunks would fail as well, they would have replaced these.
        or (own and even_chunks(session, own[0].stream).actions != session.actions and "COM-05")
        or ALONE.get(violation.kind, violation.rule)
    )


def _by_neighbours(others: Sequence[Action]) -> str:
    if any(action.faults or action.do == "exhaust" for action in others):
        return "ERR-04"
    is_threaded = any(action.is_threaded or action.inner for action in others)
    return "ISO-02" if is_threaded else "ISO-01"


def _by_calls(own: Sequence[Action]) -> str | None:
    """Return the rule of the rarest call that is left."""
    for is_rare, rule in RARE:
        if found := next(filter(is_rare, own), None):
            return rule or BAD[found.bad]
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
