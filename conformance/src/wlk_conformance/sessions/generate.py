"""Generate sessions from a seed, which do what callers do but no test covers."""

from __future__ import annotations

from itertools import chain
from random import Random
from typing import TYPE_CHECKING, Any

import attrs
from msgspec.structs import replace

from wlk_conformance.interfaces import HABITS, SupportsDeclaration, SupportsHabits
from wlk_conformance.sessions.generated_session import (
    FLUSHES,
    VOCABULARIES,
    Action,
    GeneratedSession,
    Tape,
    Token,
)
from wlk_conformance.sessions.played_stream import BAD
from wlk_conformance.testing import CELL_SAMPLES
from wlk_core import SAMPLE_RATE
from wlk_core.options import AUTO

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from wlk_conformance.backend_under_test import BackendUnderTest
    from wlk_conformance.sessions.generated_session import Do
    from wlk_core.options import Option

TINY = (0, 1, 159, 160, 161, 512, 1280, 1599, 1600, 1601)  # samples
USUAL = (1280, 8000, 16_000, 24_000, 40_000)
BIG = (80_000, 320_000, 960_000)


@attrs.frozen(kw_only=True)
class Theme:
    """How often each thing happens after a chunk, 0 for never, and the size of a session."""

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
    habits: float = 0.4  # share of the sessions whose engine has habits of models


THEMES: Mapping[str, Theme] = {
    "mixed": Theme(faults=0.03, resets=0.02, streams=(1, 2)),
    "chunks": Theme(chunks=(*TINY, 15_999, 16_000, 16_001), seconds=8.0, pauses=0.01, clocks=0.0),
    "pauses": Theme(chunks=USUAL, seconds=24.0, pauses=0.9, clocks=0.0, turns=0.0),
    "many streams": Theme(streams=(9, 9), seconds=5.0, chunks=USUAL),
    "neighbours": Theme(streams=(2, 4), neighbours=True, resets=0.05, faults=0.05, seconds=8.0),
    "faults": Theme(faults=0.6, chunks=USUAL, seconds=14.0),
    "clock": Theme(clocks=0.9, pauses=0.15, chunks=(*TINY, *USUAL)),
    "speakers": Theme(turns=0.5, pauses=0.1, chunks=USUAL, seconds=16.0),
    "monologue": Theme(chunks=(16_000, *BIG), seconds=70.0, streams=(2, 2), pauses=0.0, flushes=0.0,
                        turns=0.0, clocks=0.0, refusals=0.0, resets=0.0, habits=0.9),
    "threads": Theme(threads=0.6, holds=0.4, reads=0.4, pauses=0.25, flushes=0.25, chunks=USUAL),
    "resets": Theme(resets=0.35, chunks=USUAL, seconds=24.0, flushes=0.15),
    "options": Theme(options=1.0, streams=(2, 3), seconds=8.0),
}  # fmt: skip
SILENCES = (1 / 16_000, 0.01, 0.1, 0.199, 0.201, 0.5, 1.234567, 4.99, 5.01, 30.0, 60.1, 3600.0,
            7200.25)  # fmt: skip
END_OFFSETS = (0.0, 0.0, -0.019, 0.019, 0.01, -0.007, 0.021, 0.05, 0.5, 3.0, 3600.0, -0.021, -0.5)
HELD_OFFSETS = (None, None, 0.0, 1.0)  # end offsets of a chunk inserted while a call is held
TURN_STARTS = (-2.0, -0.3, 0.0, 0.0, 0.0, 0.4, 2.5)  # seconds from the end of the audio
FAR_STARTS = (-60.0, -20.0, -8.0, -4.0, -3.1, 6.0, 30.0)
SPEAKERS: tuple[int | str, ...] = (0, 1, 2, "anna", "bert")
MANY_SPEAKERS: tuple[int | str, ...] = (*range(10), -1, "carla", "Zoë", "speaker 1", "2")
PAUSES = (0.3, 1.0, 5.5, 40.0)  # seconds, with a turn inside
REFUSED_SAMPLES = (0, 1, 1600, 1601, 16_000, 40_000, 80_000)  # 0 for the usual number
LONG_QUIET_CELLS = (300, 300, 450, 800)  # of 80 ms: 24 to 64 s of zeros
QUIET_CHUNKS = (8000, 16_000, 80_000, 320_000)
FORMS = ("read-only", "strided", "reversed", "reused")
FAULTS = ((1,), (1,), (2,), (3,), (1, 2), (1, 3), (2, 3), (1, 2, 3), (5,), (8,), (1, 2, 4))
READ_AFTER = {"insert", "process", "drain", "end_silence", *FLUSHES} - {"finish"}
SLOW = 0.4  # factor on the seconds for slow engines
MANY_STREAMS = 4  # beyond this, streams are half as long on slow engines
SHORTEST = 3.0  # seconds that a stream lasts at least
SPARSE = 0.2  # share of the tapes with long quiet stretches
GAP_CELLS = (0, 1, 1, 2, 3, 8, 20)  # of 80 ms, between two words
SPARSE_CELLS = (0, 0, 0, 0, 0, 0, 12, 45, 150)  # added to a gap
WATCHED = 0.5  # share of the sessions whose hypothesis is read after every call
QUIET = 0.2  # share of the streams with tens of seconds of zeros between two words
OTHER_WORDS = 0.3  # share of the sessions with another vocabulary


@attrs.frozen(kw_only=True)
class Profile:
    """What the sessions of a backend can contain."""

    is_coded: bool = True  #: its engine reads coded audio, which costs almost nothing
    policies: tuple[str, ...] = ()  #: to open streams with, empty for the default
    languages: tuple[str, ...] = ()  #: likewise
    #: Values at the limits of each option of a stream, and the policies that take it.
    options: Mapping[str, tuple[tuple[Any, ...], Collection[str | None]]] = attrs.field(
        factory=dict
    )
    habits: tuple[str, ...] = ()  #: habits that the engine can imitate
    has_vocabularies: bool = False  #: the engine's words can be set
    #: Arguments of create_processor that every stream has.
    fixed: Mapping[str, Any] = attrs.field(factory=dict)
    has_turns: bool = True
    has_faults: bool = True  #: engine calls can be made to fail
    may_thread: bool = True  #: the calls of a stream may come from several threads

    @classmethod
    def of(cls, under_test: BackendUnderTest) -> Profile:
        """Return the profile of a backend, from its declaration and interfaces."""
        spec, fixed, is_coded = under_test.spec, under_test.stream_options, under_test.is_coded
        can_force = under_test.has("language-forcing") and is_coded
        options: dict[str, tuple[tuple[Any, ...], Collection[str | None]]] = {}
        for option in spec.all_options if is_coded else ():
            limits = _limits(option)
            if option.scope == "stream" and option.name not in fixed and len(limits) > 1:
                options[option.name] = (limits, option.policies or (*spec.policies, None))
        return cls(
            is_coded=is_coded,
            policies=() if "policy" in fixed else spec.policies,
            languages=spec.languages if can_force and "language" not in fixed else (),
            options=options,
            habits=HABITS if is_coded and isinstance(under_test.backend, SupportsHabits) else (),
            # The words of an engine on a server cannot be changed from here.
            has_vocabularies=is_coded and not isinstance(under_test.backend, SupportsDeclaration),
            fixed=fixed,
            has_turns=under_test.has("speaker-turns"),
            has_faults=under_test.engine_calls is not None,
            may_thread=spec.thread_affinity != "same-thread",
        )


def _limits(option: Option) -> tuple[Any, ...]:
    auto = AUTO if option.is_auto_allowed else None
    values = (option.minimum, option.default, option.maximum, auto)
    return tuple(dict.fromkeys(value for value in values if value is not None))


def generate(seed: int, index: int, profile: Profile) -> GeneratedSession:
    """Return session *index* of *seed*, the same on any machine for the same arguments."""
    name = list(THEMES)[index % len(THEMES)]
    rng = Random(f"{seed}:{index}")  # noqa: S311 -- reproducible, not secret
    # Policies also take turns among the sessions of a theme, whatever the number of themes.
    policy_round = index % len(THEMES) + index // len(THEMES)
    draw = _Draw(rng, profile, THEMES[name], policy_round)
    return draw.session(f"seed {seed}, session {index}: {name}")


@attrs.define
class _Draw:
    """A session being generated; actions get the number of their stream last."""

    _rng: Random
    _profile: Profile
    _theme: Theme
    _round: int
    _habits: tuple[str, ...] = ()

    def session(self, name: str) -> GeneratedSession:
        """Return the session, in which the actions of its streams take turns."""
        rng, profile, theme = self._rng, self._profile, self._theme
        vocabulary = ""
        if profile.has_vocabularies and self._chance(OTHER_WORDS):
            vocabulary = self._choice(list(VOCABULARIES))
        if profile.habits and self._chance(theme.habits):
            drawn = rng.sample(profile.habits, rng.randint(1, len(profile.habits)))
            self._habits = tuple(habit for habit in profile.habits if habit in drawn)
        count, seconds = rng.randint(*theme.streams), theme.seconds
        if not profile.is_coded:
            seconds = max(SHORTEST, SLOW * seconds / (2 if count > MANY_STREAMS else 1))
        tapes: list[Tape] = []
        waiting: list[list[Action]] = []  # of each stream
        for stream in range(count):
            tape, of_stream = self._stream(stream, seconds)
            tapes.append(tape)
            waiting.append(of_stream)
        actions: list[Action] = []
        while any(waiting):
            of_stream = self._choice([of_stream for of_stream in waiting if of_stream])
            burst = rng.randint(1, 4)
            actions += of_stream[:burst]
            del of_stream[:burst]
        if profile.is_coded and self._chance(WATCHED):
            actions = _with_reads(actions)
        return GeneratedSession(
            name=name,
            tapes=tuple(tapes),
            actions=tuple(actions),
            vocabulary=vocabulary,
            habits=self._habits,
        )

    def _stream(self, stream: int, seconds: float) -> tuple[Tape, list[Action]]:
        """Return the tape and the actions of a stream."""
        tape, is_coded = self._tape(seconds), self._profile.is_coded
        start = [Action(do="open", options=self._options(stream))]
        if self._chance(0.2):
            start.append(Action(do="end_silence", seconds=self._choice(SILENCES)))
        total = tape.cells * CELL_SAMPLES if is_coded else seconds * SAMPLE_RATE
        groups: list[list[Action]] = []  # each begins with an insert
        fed = 0  # samples
        while fed < total:
            insert = self._insert()
            fed += max(1, insert.samples)
            groups.append([insert, *self._after_chunk()])
        if is_coded:
            for rare in self._rare():
                self._choice(groups)[1:1] = rare
        if self._theme.neighbours and stream and self._chance(0.7):
            groups.insert(self._rng.randint(0, len(groups)), self._ending())
        is_usual = self._theme.pauses and self._theme.chunks == USUAL
        if is_coded and is_usual and self._chance(QUIET):
            tape = self._with_quiet(tape, groups)
        if self._chance(0.3):
            groups.append([self._exclusive("finish")])
        return tape, [_on_stream(action, stream) for action in chain(start, *groups)]

    def _tape(self, seconds: float) -> Tape:
        if not self._profile.is_coded:
            count = max(3, round(1.6 * seconds))
            return Tape(count=count, seed=self._rng.randrange(1000))
        cells = seconds * SAMPLE_RATE / CELL_SAMPLES
        is_sparse = self._chance(SPARSE)
        later = 0  # cells that sparse words added so far
        tokens: list[Token] = []
        cell = self._rng.randint(0, 6)
        while cell < cells:
            if is_sparse:
                later += self._choice(SPARSE_CELLS)
            length = self._choice((2, 3, 3, 3, 4, 6, 12))
            tokens.append((self._rng.randint(1, 10), cell + later, length))
            cell += length + self._choice(GAP_CELLS)
        return Tape(tokens=tuple(tokens))

    def _with_quiet(self, tape: Tape, groups: list[list[Action]]) -> Tape:
        """Put tens of seconds of zeros before a word of *tape*, to be fed in big chunks."""
        index = self._rng.randint(1, len(groups))
        cells = self._choice(LONG_QUIET_CELLS)
        inserted = 0  # samples before the quiet
        for action in chain(*groups[:index]):
            for each in (action, *action.inner):
                if each.do == "insert":
                    inserted += each.samples
        quiet: list[Action] = []
        rest = cells * CELL_SAMPLES
        while rest > 0:
            chunk = min(rest, self._choice(QUIET_CHUNKS))
            quiet.append(Action(do="insert", samples=chunk))
            quiet.append(Action(do=self._choice(("process", "drain"))))
            rest -= chunk
        groups.insert(index, quiet)
        tokens = (
            (id_, cell + cells if cell * CELL_SAMPLES >= inserted else cell, length)
            for id_, cell, length in tape.tokens
        )
        return replace(tape, tokens=tuple(tokens))

    def _after_chunk(self) -> list[Action]:
        theme, choice = self._theme, self._choice
        actions: list[Action] = []
        if self._chance(theme.drains):
            actions.append(Action(do="drain"))
        elif self._chance(0.8):
            actions.append(self._exclusive("process"))
        if self._chance(theme.reads):
            times = choice((1, 2, 7))
            actions.append(Action(do="read", times=times, is_threaded=self._threads()))
        if self._chance(theme.refusals):
            actions.append(Action(do="refuse", bad=choice(list(BAD))))
        if self._chance(theme.pauses):
            actions += self._pause()
        if self._chance(theme.flushes):
            flush = self._exclusive(choice(("start_silence", "is_last")))
            actions += [flush, Action(do="read")]
        if self._chance(theme.turns if self._profile.has_turns else 0.0):
            speaker, start = choice(SPEAKERS), choice(TURN_STARTS)
            turn = self._exclusive("new_speaker")
            actions.append(replace(turn, speaker=speaker, start=start))
        if self._chance(theme.resets):
            actions += self._reset()
        if self._chance(theme.warmups):
            actions.append(Action(do="warmup"))
        return actions

    def _rare(self) -> Iterator[list[Action]]:
        """Yield calls that few callers make, unless the theme excludes them."""
        theme, choice, chance = self._theme, self._choice, self._chance
        has_turns = self._profile.has_turns and theme.turns > 0
        if has_turns and chance(0.4):
            yield [self._rare_turn(choice(FAR_STARTS))]
        if has_turns and theme.pauses and chance(0.2):
            end = Action(do="end_silence", seconds=choice(PAUSES))
            yield [Action(do="start_silence"), self._rare_turn(choice((0.0, 0.0, -1.0, 0.4))), end]
        if theme.pauses and chance(0.25):
            end = Action(do="end_silence", seconds=0.0)
            yield choice([[end], [end], [Action(do="start_silence"), end]])
        if theme.refusals and chance(0.5):
            bad, samples = choice(list(BAD)), choice(REFUSED_SAMPLES)
            yield [Action(do="refuse", bad=bad, samples=samples)]
        if self._profile.has_faults and (theme.faults or theme.resets) and chance(0.3):
            # A reset must forget failures: after it, a stream survives as many as a new one.
            insert = Action(do="insert", samples=24_000)
            fails = Action(do="is_last", faults=(1,), is_given_up=True)
            failures = self._rng.randint(1, 3)
            survives = Action(do="is_last", faults=choice(((1, 2), (1, 2, 3))))
            yield [insert, *[fails] * failures, Action(do="reset"), insert, survives]

    def _rare_turn(self, start: float) -> Action:
        return Action(do="new_speaker", speaker=self._choice(MANY_SPEAKERS), start=start)

    def _insert(self) -> Action:
        theme = self._theme
        return Action(
            do="insert",
            samples=self._choice(theme.chunks),
            form=self._choice(FORMS) if self._chance(theme.forms) else "plain",
            end_offset=self._choice(END_OFFSETS) if self._chance(theme.clocks) else None,
            is_threaded=self._threads(),
        )

    def _pause(self) -> list[Action]:
        """Return a silence: as usual, with a read, without a start, or with repeated calls."""
        offset = self._choice((None, None, None, 0.0, 2.0, -1.5))
        end = Action(do="end_silence", seconds=self._choice(SILENCES), offset=offset)
        start, read = self._exclusive("start_silence"), Action(do="read")
        pauses: tuple[list[Action], ...] = (
            [start, end], [start, end], [start, read, end], [end], [start, start, end, end],
        )  # fmt: skip
        return self._rng.choice(pauses)

    def _reset(self) -> list[Action]:
        """Return a reset, perhaps of a finished stream."""
        reset = Action(do="reset")
        return [self._exclusive("finish"), reset] if self._chance(0.5) else [reset]

    def _ending(self) -> list[Action]:
        """Return how a neighbour ends, and perhaps begins again."""
        ends: list[list[Do]] = [["close"], ["reset"], ["finish", "close"]]
        if self._profile.has_faults:
            ends += [["exhaust"], ["exhaust", "reset"], ["exhaust", "close"]]
        return [Action(do=do) for do in self._choice(ends)]

    def _exclusive(self, do: Do) -> Action:
        """Return an exclusive call, with faults or held as often as the theme says."""
        theme, profile = self._theme, self._profile
        if profile.has_faults and self._chance(theme.faults):
            return Action(do=do, faults=self._choice(FAULTS), is_after=self._chance(0.5))
        if profile.has_faults and profile.may_thread and self._chance(theme.holds):
            samples, end_offset = self._choice(USUAL), self._choice(HELD_OFFSETS)
            insert = Action(do="insert", samples=samples, end_offset=end_offset)
            read = Action(do="read", times=2)
            is_read_only = do in FLUSHES and self._chance(0.3)
            return Action(do=do, inner=(read,) if is_read_only else (read, insert))
        return Action(do=do, is_threaded=self._threads())

    def _options(self, stream: int) -> dict[str, Any]:
        profile = self._profile
        options: dict[str, Any] = {}
        if profile.policies:
            options["policy"] = profile.policies[(self._round + stream) % len(profile.policies)]
        if self._chance(self._theme.options) and profile.languages:
            options["language"] = self._choice(profile.languages)
        policy = profile.fixed.get("policy", options.get("policy"))
        # Habits go without options: in short ticks a word is cut off, and mistaken, too often.
        if not self._habits:
            for name, (values, policies) in profile.options.items():
                if policy in policies and self._chance(self._theme.options):
                    options[name] = self._choice(values)
        return {**options, **profile.fixed}

    def _threads(self) -> bool:
        return self._profile.may_thread and self._chance(self._theme.threads)

    def _chance(self, share: float) -> bool:
        return self._rng.random() < share

    def _choice(self, values: Sequence[Any]) -> Any:
        return self._rng.choice(values)


def _on_stream(action: Action, stream: int) -> Action:
    """Return *action* with the number of its stream, also in the actions made during it."""
    inner = tuple(replace(each, stream=stream) for each in action.inner)
    return replace(action, stream=stream, inner=inner)


def _with_reads(actions: Sequence[Action]) -> list[Action]:
    """Return *actions* with a read of the hypothesis after every call that may change it."""
    watched: list[Action] = []
    for action in actions:
        watched.append(action)
        if action.do in READ_AFTER:
            watched.append(Action(do="read", stream=action.stream))
    return watched
