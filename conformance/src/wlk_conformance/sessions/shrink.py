"""Sessions made of others: smaller ones that fail, whose rule they name, and twins."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs

from wlk_conformance.compare import check_same
from wlk_conformance.sessions.played_stream import BAD
from wlk_conformance.sessions.session import Action, Session, Violation
from wlk_core import EPS, SAMPLE_RATE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from wlk_conformance.sessions.oracle import Life
    from wlk_conformance.sessions.reports import StreamClock
    from wlk_conformance.sessions.session import Kind
    from wlk_core import ASRToken

__all__ = ["attribute", "compare", "even_chunks", "shrink", "twins_of"]

TWICE = ("start_silence", "is_last", "new_speaker")  # made twice: the second one does nothing
LONGER = 0.7  # seconds more of each silence
TOLERANCE = 0.1  # seconds, as COM-05 allows
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

    By delta debugging (Zeller 2002).

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
        """Drop each stream that is not needed."""
        for number in sorted({action.stream for action in self.session.actions}):
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
    if action.do in TWICE:
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
    silence = 0.0
    for sample, seconds in clock.pauses:
        before = sample / SAMPLE_RATE
        if time <= before + silence:
            break
        if time < before + silence + seconds:
            return before
        silence += seconds
    return max(0.0, time - silence)
