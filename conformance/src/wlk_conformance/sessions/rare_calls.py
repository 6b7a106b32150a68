"""Calls that few callers make, added to the sessions that were drawn."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from wlk_conformance.sessions.played_stream import BAD
from wlk_conformance.sessions.session import Action
from wlk_conformance.testing import CELL_SAMPLES

if TYPE_CHECKING:
    from collections.abc import Sequence
    from random import Random

    from wlk_conformance.sessions.session import Tape

__all__ = ["add_quiet", "add_rare_calls", "add_reads"]

SPEAKERS: tuple[int | str, ...] = (*range(10), "carla", "Zoë", "speaker 1")
FAR_STARTS = (-60.0, -20.0, -8.0, -4.0, -3.1, 6.0, 30.0)  # seconds from the end of the audio
STARTS_IN_SILENCE = (0.0, 0.0, -1.0, 0.4)
PAUSES = (0.3, 1.0, 5.5, 40.0)
REFUSED_SAMPLES = (0, 1, 1600, 1601, 16_000, 40_000, 80_000)  # 0 for the usual number
QUIET_CELLS = (300, 300, 450, 800)  # of 80 ms: 24 to 64 s of zeros
QUIET_CHUNKS = (8000, 16_000, 80_000, 320_000)
UTTERANCE = 24_000  # samples
READ_AFTER = frozenset(
    {"insert", "process", "drain", "start_silence", "end_silence", "is_last", "new_speaker"}
)


def add_rare_calls(
    actions: Sequence[Action],
    rng: Random,
    *,
    turns: float = 0.0,
    turns_in_silence: float = 0.0,
    empty_silences: float = 0.0,
    refusals: float = 0.0,
    failures_before_reset: float = 0.0,
) -> list[Action]:
    """Return *actions* with rare calls, each after an insert of its stream, by their shares."""
    longer = list(actions)
    for stream in sorted({action.stream for action in actions}):
        for share, make in (
            (turns, _turn_far_away),
            (turns_in_silence, _turn_in_silence),
            (empty_silences, _empty_silence),
            (refusals, _refusal),
            (failures_before_reset, _failures_before_reset),
        ):
            if rng.random() < share:
                at = rng.choice(_ends_of_inserts(longer, stream) or [len(longer)])
                longer[at:at] = make(stream, rng)
    return longer


def add_quiet(
    actions: Sequence[Action], tape: Tape, stream: int, rng: Random
) -> tuple[list[Action], Tape]:
    """Return *actions* and *tape* with tens of seconds of zeros before a word of *stream*."""
    at = rng.choice(_ends_of_inserts(actions, stream) or [len(actions)])
    samples = sum(
        inner.samples
        for action in actions[:at]
        for inner in (action, *action.inner)
        if inner.stream == stream and inner.do == "insert"
    )
    cells = rng.choice(QUIET_CELLS)
    tokens = [
        (id_, cell + cells * (cell * CELL_SAMPLES >= samples), length)
        for id_, cell, length in tape.tokens
    ]
    quiet, rest = list[Action](), cells * CELL_SAMPLES
    while rest > 0:
        chunk = min(rest, rng.choice(QUIET_CHUNKS))
        quiet.append(Action(do="insert", stream=stream, samples=chunk))
        quiet.append(Action(do=rng.choice(("process", "drain")), stream=stream))
        rest -= chunk
    return [*actions[:at], *quiet, *actions[at:]], attrs.evolve(tape, tokens=tokens)


def add_reads(actions: Sequence[Action]) -> list[Action]:
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


def _turn_far_away(stream: int, rng: Random) -> list[Action]:
    return [_turn(stream, rng, rng.choice(FAR_STARTS))]


def _turn_in_silence(stream: int, rng: Random) -> list[Action]:
    return [
        Action(do="start_silence", stream=stream),
        _turn(stream, rng, rng.choice(STARTS_IN_SILENCE)),
        Action(do="end_silence", stream=stream, seconds=rng.choice(PAUSES)),
    ]


def _turn(stream: int, rng: Random, start: float) -> Action:
    return Action(do="new_speaker", stream=stream, speaker=rng.choice(SPEAKERS), start=start)


def _empty_silence(stream: int, rng: Random) -> list[Action]:
    end = Action(do="end_silence", stream=stream, seconds=0.0)
    return rng.choice([[end], [end], [Action(do="start_silence", stream=stream), end]])


def _refusal(stream: int, rng: Random) -> list[Action]:
    bad, samples = rng.choice(list(BAD)), rng.choice(REFUSED_SAMPLES)
    return [Action(do="refuse", stream=stream, bad=bad, samples=samples)]


def _failures_before_reset(stream: int, rng: Random) -> list[Action]:
    """Return failures that a reset must forget, and after it as many as a stream survives."""
    insert = Action(do="insert", stream=stream, samples=UTTERANCE)
    fails = Action(do="is_last", stream=stream, faults=(1,), is_given_up=True)
    survives = Action(do="is_last", stream=stream, faults=rng.choice(((1, 2), (1, 2, 3))))
    failures = [fails] * rng.randint(1, 3)
    return [insert, *failures, Action(do="reset", stream=stream), insert, survives]
