"""Derive generated sessions: smaller ones that still fail, and those of reference streams."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs
from msgspec import json
from msgspec.structs import replace

from wlk_conformance.compare import check_same
from wlk_conformance.sessions.generated_session import Action, Violation
from wlk_conformance.sessions.played_stream import BAD
from wlk_core import EPS, SAMPLE_RATE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from wlk_conformance.sessions.generated_session import GeneratedSession, Kind
    from wlk_conformance.sessions.life_cycle import LifeCycle
    from wlk_core import ASRToken

SIMPLER: tuple[Callable[[Action], Action | None], ...] = (
    lambda action: None if action.do in ("read", "refuse", "warmup") else action,
    lambda action: replace(action, faults=(), is_after=False),
    lambda action: None if action.do == "exhaust" else action,
    lambda action: replace(action, is_threaded=False, inner=()),
    lambda action: replace(action, form="plain"),
    lambda action: replace(action, end_offset=None),
    lambda action: None if action.do == "reset" else action,
    lambda action: None if action.do == "new_speaker" else action,
    lambda action: None if action.do == "is_last" else action,
    lambda action: None if action.do == "end_silence" else action,
    lambda action: None if action.do == "start_silence" else action,
    lambda action: replace(action, options={}),
    lambda action: replace(action, offset=None),
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
TWICE = ("start_silence", "is_last", "new_speaker")  # the second call must do nothing
LONGER = 0.7  # seconds added to each silence
TOLERANCE = 0.1  # seconds, as COM-05 allows
SECOND = 16_000  # samples of an ordinary chunk
MANY = 4  # silences from which on an error of times counts as a drift
ALONE: dict[Kind, str] = {
    "missing": "IN-05", "extra": "COM-01", "spacing": "COM-03", "time": "TIME-05",
    "clock": "TIME-03", "differs": "COM-04",
}  # fmt: skip


def shrink(
    session: GeneratedSession, fails: Callable[[GeneratedSession], bool], *, plays: int
) -> GeneratedSession:
    """
    Return a smaller session for which *fails* holds, by delta debugging (Zeller 2002).

    What remains is needed, as far as *plays* attempts can tell.  They are counted, not timed, so
    that the result is the same on every machine.
    """
    shrinking = _Shrinking(session, fails, plays, {json.encode(session)})
    size = len(session.actions) // 2
    while size:  # drop the end of the session, in ever smaller parts
        count = len(shrinking.session.actions)
        if shrinking.drop(count - size, size):
            size = min(size, count // 2)
        else:
            size //= 2
    for stream in shrinking.streams:
        others = (a for a in shrinking.session.actions if a.stream != stream)
        shrinking.try_with(actions=tuple(others))
    shrinking.try_with(vocabulary="")
    shrinking.try_with(habits=())
    for simpler in SIMPLER:  # drop each kind of complication from the whole session
        new = map(simpler, shrinking.session.actions)
        shrinking.try_with(actions=tuple(action for action in new if action is not None))
    shrinking.drop_runs()
    for stream in shrinking.streams:
        shrinking.try_with(actions=even_chunks(shrinking.session.actions, stream))
    for index in range(len(shrinking.session.actions)):
        for simpler in SIMPLER:
            shrinking.simplify(index, simpler)
    return shrinking.session


@attrs.define
class _Shrinking:
    """A session that fails, the plays that are left, and the sessions tried."""

    session: GeneratedSession
    fails: Callable[[GeneratedSession], bool]
    plays: int
    tried: set[bytes]  # because several ways lead to the same session

    @property
    def streams(self) -> list[int]:
        """The numbers of its streams."""
        return sorted({action.stream for action in self.session.actions})

    def try_with(self, **changes: Any) -> bool:
        """Keep *changes* to the session if it still fails, and return whether it does."""
        candidate = replace(self.session, **changes)
        document = json.encode(candidate)
        if self.plays <= 0 or not candidate.actions or document in self.tried:
            return False
        self.tried.add(document)
        self.plays -= 1
        if not self.fails(candidate):
            return False
        self.session = candidate
        return True

    def drop(self, first: int, count: int, *instead: Action) -> bool:
        """Replace *count* actions from the *first* on by *instead*."""
        actions = self.session.actions
        return self.try_with(actions=(*actions[:first], *instead, *actions[first + count :]))

    def drop_runs(self) -> None:
        """Drop runs of actions, the longest first."""
        size = len(self.session.actions) // 2
        while size:
            first = 0
            while first < len(self.session.actions):
                if not self.drop(first, size):
                    first += size
            size //= 2

    def simplify(self, index: int, simpler: Callable[[Action], Action | None]) -> None:
        """Make the action at *index* simpler, or drop it."""
        if index >= len(self.session.actions):
            return  # actions before it were dropped
        simple = simpler(self.session.actions[index])
        if simple is None:
            self.drop(index, 1)
        else:
            self.drop(index, 1, simple)


def attribute(violation: Violation, session: GeneratedSession) -> str:
    """
    Return the rule that *session* breaks.

    An invariant names its rule.  Lost, repeated or moved words do not; for those the smallest
    session tells what they depend on, such as a neighbour, a fault or a pause.
    """
    if violation.is_exact:
        return violation.rule
    if violation.kind == "spacing" and session.vocabulary:
        return "COM-03"  # it needs another script, whatever was called
    number = violation.stream.rpartition(" ")[2]
    own = tuple(action for action in session.actions if str(action.stream) == number)
    return _rule_of(violation.kind, own, session.actions) or violation.rule


def _rule_of(kind: Kind, own: Sequence[Action], every: Sequence[Action]) -> str:
    """Return the rule of the rarest of a stream's *own* actions, or of *every* action; or ""."""
    others = [action for action in every if action not in own] if own else []
    if kind == "language":  # a neighbour that remains is needed
        return "ISO-05" if others else "LANG-01"
    if others:
        return _rule_of_neighbours(others)
    for is_rare, rule in RARE:
        for action in own or every:
            if is_rare(action):
                return rule or BAD[action.bad]
    if rule := _rule_of_silences(own, kind):
        return rule
    # If even chunks failed as well, they would have replaced these.
    if own and even_chunks(own, own[0].stream) != own:
        return "COM-05"
    return ALONE.get(kind, "")


def _rule_of_neighbours(others: Sequence[Action]) -> str:
    if any(action.faults or action.do == "exhaust" for action in others):
        return "ERR-04"
    is_threaded = any(action.is_threaded or action.inner for action in others)
    return "ISO-02" if is_threaded else "ISO-01"


def _rule_of_silences(own: Sequence[Action], kind: Kind) -> str:
    ends = sum(action.do == "end_silence" for action in own)
    starts = sum(action.do == "start_silence" for action in own)
    if not ends and not starts:
        return ""
    if kind in ("time", "clock"):
        if max(ends, starts) >= MANY:
            return "SIL-04"
        calls = [action.do for action in own if action.do not in ("open", "process", "drain")]
        if calls[0] == "end_silence" and ends == 1 and not starts:
            return "TIME-04"
        return "SIL-05" if kind == "time" else "SIL-03"
    return "SIL-07" if ends or kind == "extra" or starts > 1 else "SIL-01"


def even_chunks(actions: Iterable[Action], stream: int) -> tuple[Action, ...]:
    """Return *actions* with the audio of *stream* in drained chunks of a second."""
    even: list[Action] = []
    waiting = 0  # samples

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


def references_of(
    session: GeneratedSession, stream: int, cycles: Sequence[LifeCycle]
) -> list[GeneratedSession | None]:
    """
    Return a session for each life cycle of *stream*, None for one that a fault broke.

    It has a reference stream with the same audio, which is alone: its audio comes in drained chunks
    of a second, every flush is made twice, and every silence is longer and in two halves.  None of
    that may change a word.
    """
    opening = [a for a in session.actions if a.stream == stream and a.do == "open"][:1]
    references: list[GeneratedSession | None] = []
    pairs = zip(cycles, _actions_of_cycles(session, stream), strict=False)
    for number, (cycle, actions) in enumerate(pairs, 1):
        if actions is None:
            references.append(None)
            continue
        plain = [plain_action for action in actions for plain_action in _plain(action)]
        references.append(
            replace(
                session,
                name=f"reference for life cycle {number} of stream {stream} in {session.name}",
                tapes=tuple(replace(t, first_sample=cycle.first_sample) for t in session.tapes),
                actions=even_chunks([*opening, *plain], stream),
            )
        )
    return references


def compare(cycle: LifeCycle, reference: LifeCycle, stream: int) -> Violation | None:
    """Compare a life cycle with its reference; one that was not finished may have fewer tokens."""
    expected = _without_pauses(reference)
    if not cycle.is_complete:
        expected = expected[: len(cycle.tokens)]
    what = "against the same audio alone, flushes repeated, pauses longer (times exclude pauses)"
    try:
        check_same(expected, _without_pauses(cycle), what=what, tolerance=TOLERANCE)
    except AssertionError as error:
        return Violation("COM-04", str(error), kind="differs", stream=f"stream {stream}")
    return None


def _actions_of_cycles(session: GeneratedSession, stream: int) -> Iterator[list[Action] | None]:
    """Yield the actions of each life cycle of *stream*, None for one that a fault broke."""
    actions: list[Action] | None = []
    is_over = False  # finished; what follows is left out
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
    """Yield the calls of the reference stream in place of *action*."""
    stream = action.stream
    if action.do == "insert":
        gap = action.end_offset or 0.0
        if gap < -EPS:
            return  # refused
        if gap > EPS:
            start = Action(do="start_silence", stream=stream)
            yield from (start, start)
            yield from _halves(gap, stream)
        yield Action(do="insert", stream=stream, samples=action.samples)
        return
    if action.do in TWICE:
        plain = replace(action, faults=(), is_after=False, is_threaded=False, inner=())
        yield from (plain, plain)
    elif action.do == "end_silence":
        yield from _halves(action.seconds, stream)
    for inner in action.inner:
        if inner.do == "insert" and action.do != "finish":
            yield from _plain(inner)


def _halves(seconds: float, stream: int) -> list[Action]:
    """Return a silence longer than *seconds* in two halves; a silence of 0 s stays as it is."""
    half = round(seconds / 2 * SAMPLE_RATE) / SAMPLE_RATE
    parts = [half, seconds - half + LONGER] if half else [seconds + LONGER]
    if not seconds:
        parts = [0.0]
    return [Action(do="end_silence", stream=stream, seconds=part) for part in parts]


def _without_pauses(cycle: LifeCycle) -> list[ASRToken]:
    """Return the tokens of *cycle* with times in its audio, as if no pause had been reported."""
    time = cycle.clock.audio_time
    return [attrs.evolve(t, start=time(t.start), end=time(t.end)) for t in cycle.tokens]
