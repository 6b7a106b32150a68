"""Draw sessions from a seed: what callers do that no test was written for."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Any

import attrs

from wlk_conformance.sessions.played_stream import BAD
from wlk_conformance.sessions.session import FLUSHES, VOCABULARIES, Action, Session, Tape, Token
from wlk_conformance.testing import CELL_SAMPLES
from wlk_core import SAMPLE_RATE

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from wlk_conformance.sessions.session import Do

__all__ = ["THEMES", "Profile", "generate"]

TINY = (0, 1, 159, 160, 161, 512, 1280, 1599, 1600, 1601)  # samples
USUAL = (1280, 8000, 16_000, 24_000, 40_000)
BIG = (80_000, 320_000, 960_000)


@attrs.frozen(kw_only=True)
class Theme:
    """How often each thing happens after a chunk, and the size of a session; 0 for never."""

    chunks: tuple[int, ...] = (*TINY, *USUAL)
    seconds: float = 12.0
    streams: tuple[int, int] = (1, 1)
    pauses: float = 0.06
    flushes: float = 0.04
    turns: float = 0.03
    clocks: float = 0.1
    forms: float = 0.3
    reads: float = 0.15
    faults: float = 0.0
    threads: float = 0.05
    holds: float = 0.0
    refusals: float = 0.03
    resets: float = 0.0
    warmups: float = 0.01
    neighbours: bool = False
    drains: float = 0.25
    options: float = 0.2
    habits: float = 0.4  # of the sessions: their engine has habits of models


THEMES: Mapping[str, Theme] = {
    "mixed": Theme(faults=0.03, resets=0.02, streams=(1, 2)),
    "chunks": Theme(chunks=(*TINY, 15_999, 16_000, 16_001), seconds=8.0, pauses=0.01, clocks=0.0),
    "pauses": Theme(chunks=USUAL, seconds=24.0, pauses=0.9, clocks=0.0, turns=0.0),
    "many streams": Theme(streams=(9, 9), seconds=5.0, chunks=USUAL),
    "neighbours": Theme(streams=(2, 4), neighbours=True, resets=0.05, faults=0.05, seconds=8.0),
    "faults": Theme(faults=0.6, chunks=USUAL, seconds=14.0),
    "clock": Theme(clocks=0.9, pauses=0.15, chunks=(*TINY, *USUAL)),
    "speakers": Theme(turns=0.5, pauses=0.1, chunks=USUAL, seconds=16.0),
    "monologue": Theme(chunks=(16_000, *BIG), seconds=100.0, pauses=0.0, flushes=0.0, turns=0.0,
                        clocks=0.0, refusals=0.0, resets=0.0, habits=0.9),
    "threads": Theme(threads=0.6, holds=0.4, reads=0.4, pauses=0.25, flushes=0.25, chunks=USUAL),
    "lives": Theme(resets=0.25, chunks=USUAL, seconds=16.0, flushes=0.15),
    "options": Theme(options=1.0, streams=(2, 3), seconds=8.0),
}  # fmt: skip
LONG: Mapping[str, Theme] = {
    "ten minutes": Theme(chunks=(8000, 16_000, *BIG), seconds=600.0, pauses=0.0, flushes=0.0,
                          turns=0.0, clocks=0.0, refusals=0.0),
    "sixty pauses": Theme(chunks=(16_000, 24_000), seconds=80.0, pauses=1.0, clocks=0.0),
}  # fmt: skip


SILENCES = (1 / 16_000, 0.01, 0.1, 0.199, 0.201, 0.5, 1.234567, 4.99, 5.01, 30.0, 60.1, 3600.0,
            7200.25)  # fmt: skip
END_OFFSETS = (0.0, 0.0, -0.019, 0.019, 0.01, -0.007, 0.021, 0.05, 0.5, 3.0, 3600.0, -0.021, -0.5)
TURN_STARTS = (-2.0, -0.3, 0.0, 0.0, 0.0, 0.4, 2.5)
SPEAKERS: tuple[int | str, ...] = (0, 1, 2, "anna", "bert")
USUALLY_BAD = tuple(BAD)[:8]  # the others are rare
# What few callers do.
MANY_SPEAKERS: tuple[int | str, ...] = (*range(10), "carla", "Zoë", "speaker 1")
FAR_STARTS = (-60.0, -20.0, -8.0, -4.0, -3.1, 6.0, 30.0)  # seconds from the end of the audio
STARTS_IN_SILENCE = (0.0, 0.0, -1.0, 0.4)
PAUSES = (0.3, 1.0, 5.5, 40.0)
REFUSED_SAMPLES = (0, 1, 1600, 1601, 16_000, 40_000, 80_000)  # 0 for the usual number
LONG_QUIET_CELLS = (300, 300, 450, 800)  # of 80 ms: 24 to 64 s of zeros
QUIET_CHUNKS = (8000, 16_000, 80_000, 320_000)
UTTERANCE = 24_000  # samples
READ_AFTER = frozenset(
    {"insert", "process", "drain", "start_silence", "end_silence", "is_last", "new_speaker"}
)
FAULTS = ((1,), (1,), (2,), (3,), (1, 2), (1, 3), (2, 3), (1, 2, 3), (5,), (8,), (1, 2, 4))


@attrs.frozen(kw_only=True)
class Profile:
    """
    What the sessions of a backend can contain.

    Attributes:
        is_coded: its engine reads coded audio, which costs almost nothing.
        policies, languages: those that a stream may be opened with; empty for the default.
        options: values at the limits of each option of a stream, and the policies that take it.
        habits: what the engine can imitate.
        has_vocabularies: the words of the engine can be set.
        fixed: arguments of create_processor that every stream has.
        has_turns: streams take speaker turns.
        has_faults: engine calls can be made to fail.
        may_thread: the calls of a stream may come from several threads.
        is_long: ten minutes and sixty pauses are not too much.

    """

    is_coded: bool = True
    policies: tuple[str, ...] = ()
    languages: tuple[str, ...] = ()
    options: Mapping[str, tuple[tuple[Any, ...], Collection[str | None]]] = attrs.field(
        factory=dict
    )
    habits: tuple[str, ...] = ()
    has_vocabularies: bool = False
    fixed: Mapping[str, Any] = attrs.field(factory=dict)
    has_turns: bool = True
    has_faults: bool = True
    may_thread: bool = True
    is_long: bool = False


SLOW = 0.4  # of the seconds, for engines that take time
MANY_STREAMS = 4  # from which on each of them has half as many
SHORTEST = 3.0  # seconds of a stream
SPARSE = 0.2  # share of the tapes with long quiet stretches
QUIET_CELLS = (0, 0, 0, 0, 0, 0, 12, 45, 150)  # of 80 ms, added between two words
WATCHED = 0.5  # share of the sessions whose hypothesis is read after every call
QUIET = 0.2  # share of the streams with tens of seconds of zeros between two words
OTHER_WORDS = 0.3  # share of the sessions whose engine has another vocabulary


def generate(seed: int, index: int, profile: Profile) -> Session:
    """Return session number *index* of *seed*; the same for the same arguments, on any machine."""
    themes = {**THEMES, **(LONG if profile.is_long else {})}
    name = list(themes)[index % len(themes)]
    # What an engine is like is drawn apart, so that the calls are the same on any engine, and so
    # are rare calls, which are added to those that were drawn.
    rng, engine_rng, rare_rng = (
        Random(f"{seed}:{index}{apart}")  # noqa: S311 -- reproducible, not secret
        for apart in ("", ":engine", ":rare")
    )
    # Policies take turns in the sessions of a theme too, whatever the number of themes.
    turn = index % len(themes) + index // len(themes)
    draw = _Draw(rng, engine_rng, rare_rng, profile, themes[name], turn)
    return draw.session(f"seed {seed}, session {index}: {name}")


@attrs.define
class _Draw:
    """One session in the making."""

    _rng: Random
    _engine_rng: Random
    _rare_rng: Random
    _profile: Profile
    _theme: Theme
    _turn: int
    _habits: tuple[str, ...] = attrs.field(init=False)

    def session(self, name: str) -> Session:
        """Return the session: bodies of streams, taking turns."""
        self._habits = self._drawn_habits()
        count = self._rng.randint(*self._theme.streams)
        seconds = self._theme.seconds
        if not self._profile.is_coded:
            seconds = max(SHORTEST, SLOW * seconds / (2 if count > MANY_STREAMS else 1))
        tapes = [self._tape(seconds) for _ in range(count)]
        bodies = [self._body(number, tape, seconds) for number, tape in enumerate(tapes)]
        actions: list[Action] = []
        while any(bodies):
            body = self._choice([body for body in bodies if body])
            burst = self._rng.randint(1, 4)
            actions += body[:burst]
            del body[:burst]
        if self._profile.is_coded:
            self._add_rare_calls(actions)
            self._add_quiet(actions, tapes)
            if self._rare_rng.random() < WATCHED:
                actions = _with_reads(actions)
        vocabulary = self._vocabulary()
        return Session(
            name=name, tapes=tapes, actions=actions, vocabulary=vocabulary, habits=self._habits
        )

    def _add_rare_calls(self, actions: list[Action]) -> None:
        """Add calls that few callers make, none where the theme goes without such calls."""
        theme, profile, rng = self._theme, self._profile, self._rare_rng
        has_turns = profile.has_turns and theme.turns > 0
        fails = profile.has_faults and (theme.faults > 0 or theme.resets > 0)
        rare: tuple[tuple[float, Callable[[int], list[Action]]], ...] = (
            (0.4 * has_turns, lambda stream: [self._rare_turn(stream, FAR_STARTS)]),
            (0.2 * (has_turns and theme.pauses > 0), self._turn_in_silence),
            (0.25 * (theme.pauses > 0), self._empty_silence),
            (0.5 * (theme.refusals > 0), self._refusal),
            (0.3 * fails, self._failures_before_reset),
        )
        for stream in sorted({action.stream for action in actions}):
            for share, make in rare:
                if rng.random() < share:
                    at = rng.choice(_ends_of_inserts(actions, stream) or [len(actions)])
                    actions[at:at] = make(stream)

    def _rare_turn(self, stream: int, starts: Sequence[float]) -> Action:
        start, speaker = self._rare_rng.choice(starts), self._rare_rng.choice(MANY_SPEAKERS)
        return Action(do="new_speaker", stream=stream, speaker=speaker, start=start)

    def _turn_in_silence(self, stream: int) -> list[Action]:
        return [
            Action(do="start_silence", stream=stream),
            self._rare_turn(stream, STARTS_IN_SILENCE),
            Action(do="end_silence", stream=stream, seconds=self._rare_rng.choice(PAUSES)),
        ]

    def _empty_silence(self, stream: int) -> list[Action]:
        end = Action(do="end_silence", stream=stream, seconds=0.0)
        silent = [Action(do="start_silence", stream=stream), end]
        return self._rare_rng.choice([[end], [end], silent])

    def _refusal(self, stream: int) -> list[Action]:
        bad, samples = self._rare_rng.choice(list(BAD)), self._rare_rng.choice(REFUSED_SAMPLES)
        return [Action(do="refuse", stream=stream, bad=bad, samples=samples)]

    def _failures_before_reset(self, stream: int) -> list[Action]:
        """Return failures that a reset must forget, and after it as many as a stream survives."""
        insert = Action(do="insert", stream=stream, samples=UTTERANCE)
        fails = Action(do="is_last", stream=stream, faults=(1,), is_given_up=True)
        faults = self._rare_rng.choice(((1, 2), (1, 2, 3)))
        survives = Action(do="is_last", stream=stream, faults=faults)
        failures = [fails] * self._rare_rng.randint(1, 3)
        return [insert, *failures, Action(do="reset", stream=stream), insert, survives]

    def _add_quiet(self, actions: list[Action], tapes: list[Tape]) -> None:
        """Put tens of seconds of zeros before a word in some of the streams."""
        rng = self._rare_rng
        for stream, tape in enumerate(tapes):
            is_usual = self._theme.pauses and self._theme.chunks == USUAL
            if not is_usual or rng.random() >= QUIET:
                continue
            at = rng.choice(_ends_of_inserts(actions, stream) or [len(actions)])
            samples = sum(
                inner.samples
                for action in actions[:at]
                for inner in (action, *action.inner)
                if inner.stream == stream and inner.do == "insert"
            )
            cells = rng.choice(LONG_QUIET_CELLS)
            tokens = [
                (id_, cell + cells * (cell * CELL_SAMPLES >= samples), length)
                for id_, cell, length in tape.tokens
            ]
            tapes[stream] = attrs.evolve(tape, tokens=tokens)
            quiet, rest = list[Action](), cells * CELL_SAMPLES
            while rest > 0:
                chunk = min(rest, rng.choice(QUIET_CHUNKS))
                quiet.append(Action(do="insert", stream=stream, samples=chunk))
                quiet.append(Action(do=rng.choice(("process", "drain")), stream=stream))
                rest -= chunk
            actions[at:at] = quiet

    def _drawn_habits(self) -> tuple[str, ...]:
        rng, habits = self._engine_rng, self._profile.habits
        if not habits or rng.random() >= self._theme.habits:
            return ()
        drawn = rng.sample(habits, rng.randint(1, len(habits)))
        return tuple(habit for habit in habits if habit in drawn)

    def _vocabulary(self) -> str:
        if not self._profile.has_vocabularies or self._engine_rng.random() >= OTHER_WORDS:
            return ""
        return self._engine_rng.choice(list(VOCABULARIES))

    def _tape(self, seconds: float) -> Tape:
        if not self._profile.is_coded:
            count = max(3, round(1.6 * seconds))
            return Tape(kind="speech", count=count, seed=self._rng.randrange(1000))
        cells = round(seconds * SAMPLE_RATE / CELL_SAMPLES)
        tokens, cell = [], self._rng.randint(0, 6)
        while cell < cells:
            length = self._rng.choice((2, 3, 3, 3, 4, 6, 12))
            tokens.append((self._rng.randint(1, 10), cell, length))
            cell += length + self._rng.choice((0, 1, 1, 2, 3, 8, 20))
        return Tape(tokens=self._spread(tokens))

    def _spread(self, tokens: list[Token]) -> list[Token]:
        """Return *tokens*, on some tapes with seconds of digital silence between them."""
        if self._engine_rng.random() >= SPARSE:
            return tokens
        later, spread = 0, []
        for id_, cell, length in tokens:
            later += self._engine_rng.choice(QUIET_CELLS)
            spread.append((id_, cell + later, length))
        return spread

    def _body(self, stream: int, tape: Tape, seconds: float) -> list[Action]:
        """Return the actions of one stream."""
        actions = [Action(do="open", stream=stream, options=self._options(stream))]
        if self._chance(0.2):
            actions.append(Action(do="end_silence", stream=stream, seconds=self._choice(SILENCES)))
        total = tape.cells * CELL_SAMPLES if self._profile.is_coded else seconds * SAMPLE_RATE
        fed = 0
        while fed < total:
            chunk = self._insert(stream)
            fed += max(1, chunk.samples)
            actions.append(chunk)
            actions += self._after_chunk(stream)
        if self._theme.neighbours and stream and self._chance(0.7):
            at = self._rng.randint(1, len(actions))
            actions[at:at] = self._misfortune(stream)
        if self._chance(0.3):
            actions.append(self._exclusive("finish", stream))
        return actions

    def _after_chunk(self, stream: int) -> list[Action]:
        theme, actions = self._theme, list[Action]()
        if self._chance(theme.drains):
            actions.append(Action(do="drain", stream=stream))
        elif self._chance(0.8):
            actions.append(self._exclusive("process", stream))
        if self._chance(theme.reads):
            times = self._choice((1, 2, 7))
            is_threaded = self._threads()
            actions.append(Action(do="read", stream=stream, times=times, is_threaded=is_threaded))
        return [*actions, *self._events(stream)]

    def _events(self, stream: int) -> list[Action]:
        """Return what happens between two chunks besides decoding."""
        theme, actions = self._theme, list[Action]()
        if self._chance(theme.refusals):
            actions.append(Action(do="refuse", stream=stream, bad=self._choice(USUALLY_BAD)))
        if self._chance(theme.pauses):
            actions += self._pause(stream)
        if self._chance(theme.flushes):
            actions.append(self._exclusive(self._choice(("start_silence", "is_last")), stream))
            actions.append(Action(do="read", stream=stream))
        if self._profile.has_turns and self._chance(theme.turns):
            actions.append(
                attrs.evolve(
                    self._exclusive("new_speaker", stream),
                    speaker=self._choice(SPEAKERS),
                    start=self._choice(TURN_STARTS),
                )
            )
        if self._chance(theme.resets):
            if self._chance(0.5):
                actions.append(self._exclusive("finish", stream))
            actions.append(Action(do="reset", stream=stream))
        if self._chance(theme.warmups):
            actions.append(Action(do="warmup", stream=stream))
        return actions

    def _insert(self, stream: int) -> Action:
        offset = self._choice(END_OFFSETS) if self._chance(self._theme.clocks) else None
        forms = ("read-only", "strided", "reversed", "reused")
        return Action(
            do="insert",
            stream=stream,
            samples=self._choice(self._theme.chunks),
            form=self._choice(forms) if self._chance(self._theme.forms) else "plain",
            end_offset=offset,
            is_threaded=self._threads(),
        )

    def _pause(self, stream: int) -> list[Action]:
        """Return a silence, late, split in two, repeated, or as it should be."""
        end = Action(
            do="end_silence",
            stream=stream,
            seconds=self._choice(SILENCES),
            offset=self._choice((None, None, None, 0.0, 2.0, -1.5)),
        )
        start = self._exclusive("start_silence", stream)
        read = Action(do="read", stream=stream)
        pauses: tuple[list[Action], ...] = (
            [start, end], [start, end], [start, read, end], [end], [start, start, end, end],
        )  # fmt: skip
        return self._rng.choice(pauses)

    def _misfortune(self, stream: int) -> list[Action]:
        """Return how a neighbour ends, and sometimes begins again."""
        ends: list[list[Do]] = [["close"], ["reset"], ["finish", "close"]]
        if self._profile.has_faults:
            ends += [["exhaust"], ["exhaust", "reset"], ["exhaust", "close"]]
        return [Action(do=do, stream=stream) for do in self._choice(ends)]

    def _exclusive(self, do: Do, stream: int) -> Action:
        """Return an exclusive call, with faults or held, as often as the theme has it."""
        theme, profile = self._theme, self._profile
        if profile.has_faults and self._chance(theme.faults):
            return Action(
                do=do, stream=stream, faults=self._choice(FAULTS), is_after=self._chance(0.5)
            )
        if profile.has_faults and profile.may_thread and self._chance(theme.holds):
            insert = Action(do="insert", stream=stream, samples=self._choice(USUAL))
            read = Action(do="read", stream=stream, times=2)
            inner = [read] if do in FLUSHES and self._chance(0.3) else [read, insert]
            return Action(do=do, stream=stream, inner=inner)
        return Action(do=do, stream=stream, is_threaded=self._threads())

    def _options(self, stream: int) -> dict[str, Any]:
        profile, options = self._profile, dict[str, Any]()
        if profile.policies:
            options["policy"] = profile.policies[(self._turn + stream) % len(profile.policies)]
        if self._chance(self._theme.options) and profile.languages:
            options["language"] = self._choice(profile.languages)
        policy = profile.fixed.get("policy", options.get("policy"))
        # A word may be mistaken as often as it is cut off, which is in short ticks.
        for name, (values, policies) in {} if self._habits else profile.options.items():
            if policy in policies and self._engine_rng.random() < self._theme.options:
                options[name] = self._engine_rng.choice(values)
        return {**options, **profile.fixed}

    def _threads(self) -> bool:
        return self._profile.may_thread and self._chance(self._theme.threads)

    def _chance(self, share: float) -> bool:
        return self._rng.random() < share

    def _choice(self, values: Sequence[Any]) -> Any:
        return self._rng.choice(values)


def _with_reads(actions: Sequence[Action]) -> list[Action]:
    """Return *actions* with a read of the hypothesis after every call that may change it."""
    longer = list[Action]()
    for action in actions:
        longer.append(action)
        if action.do in READ_AFTER:
            longer.append(Action(do="read", stream=action.stream))
    return longer


def _ends_of_inserts(actions: Sequence[Action], stream: int) -> list[int]:
    return [
        index + 1
        for index, action in enumerate(actions)
        if action.stream == stream and action.do == "insert"
    ]
