from __future__ import annotations

from itertools import pairwise

from faulty_backends.base import faulty_cases
import pytest

from wlk_conformance.backend_under_test import BackendUnderTest
from wlk_conformance.interfaces import HABITS
from wlk_conformance.scripted import SCRIPTED_SPEC, ScriptedBackend
from wlk_conformance.sessions.campaign import SESSIONS, Campaign
from wlk_conformance.sessions.generate import THEMES, Profile, generate
from wlk_conformance.sessions.generated_session import (
    VOCABULARIES,
    Action,
    GeneratedSession,
    Tape,
    Violation,
)
from wlk_conformance.sessions.life_cycle import LifeCycle, StreamClock
from wlk_conformance.sessions.played_stream import BAD
from wlk_conformance.sessions.shrink import attribute, compare
from wlk_core import ASRToken

SCRIPTED = Profile(
    policies=SCRIPTED_SPEC.policies,
    languages=SCRIPTED_SPEC.languages,
    options={"tick_seconds": ((0.1, 1.0, 10.0), ["alignatt"])},
    habits=HABITS,
    has_vocabularies=True,
)
SEEDS = (0, 1, 2)


def scripted(**values):
    """Return the scripted backend under test."""

    def load(model=None, **options):
        return ScriptedBackend()

    return BackendUnderTest(spec=SCRIPTED_SPEC, load=load, **values)


def session(*actions, tokens=((1, 0, 3), (2, 5, 3), (3, 10, 3))):
    """Return a session with one tape."""
    return GeneratedSession(name="by hand", tapes=(Tape(tokens=tokens),), actions=actions)


@pytest.mark.parametrize("index", range(len(THEMES)), ids=list(THEMES))
def test_a_session_is_the_same_after_a_round_trip_through_json(index):
    """The file of a session contains everything that playing it needs."""
    drawn = generate(7, index, SCRIPTED)

    assert drawn == GeneratedSession.from_json(drawn.as_json())
    assert drawn == generate(7, index, SCRIPTED)
    assert drawn.actions != generate(8, index, SCRIPTED).actions


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{}",
        '{"version": 1, "name": "x", "tapes": [], "actions": []}',
        '{"version": 2, "name": "x", "tapes": [], "actions": [], "vocabulary": "Klingon"}',
        '{"version": 2, "name": "x", "tapes": [], "actions": [], "habits": ["lies"]}',
        '{"version": 2, "name": "x", "tapes": [], "actions": [{"do": "open"}]}',
    ],
)
def test_another_file_is_no_session(text):
    """A file that contains no session is refused with the reason."""
    with pytest.raises(ValueError, match="expected a session written by wlk-conformance"):
        GeneratedSession.from_json(text)


def test_generated_sessions_contain_the_whole_protocol():
    """Every action, array, fault, bad call, rare call and engine occurs in the default sessions."""
    sessions = [generate(0, index, SCRIPTED) for index in range(SESSIONS)]
    actions = [action for drawn in sessions for action in drawn.actions]
    turns = [action for action in actions if action.do == "new_speaker"]
    pairs = {
        (first.do, then.do)
        for drawn in sessions
        for first, then in pairwise(drawn.actions)
        if first.stream == then.stream
    }

    assert {action.do for action in actions} == {
        "open", "insert", "refuse", "process", "drain", "start_silence", "end_silence", "is_last",
        "new_speaker", "finish", "reset", "close", "read", "warmup", "exhaust",
    }  # fmt: skip
    assert {a.form for a in actions} == {"plain", "read-only", "strided", "reversed", "reused"}
    assert {action.is_after for action in actions if action.faults} == {True, False}
    assert any(action.inner for action in actions)
    assert any(action.is_given_up for action in actions)
    assert {0, 1, 160, 512, 1280, 1599, 1601} <= {action.samples for action in actions}
    assert 1 + max(action.stream for action in actions) == 9
    assert set(range(10)) <= {turn.speaker for turn in turns}
    assert min(turn.start for turn in turns) < -3 < 3 < max(turn.start for turn in turns)
    assert {("start_silence", "new_speaker"), ("new_speaker", "end_silence")} <= pairs
    assert {action.bad for action in actions if action.do == "refuse"} == set(BAD)
    assert {drawn.vocabulary for drawn in sessions} == {"", *VOCABULARIES}
    assert {(), HABITS, HABITS[:1], HABITS[1:]} <= {drawn.habits for drawn in sessions}
    assert {action.options.get("tick_seconds") for action in actions} == {None, 0.1, 1.0, 10.0}
    assert {
        (drawn.name.partition(": ")[2], action.options["policy"])
        for drawn in sessions
        for action in drawn.actions
        if action.do == "open"
    } == {(theme, policy) for theme in THEMES for policy in SCRIPTED_SPEC.policies}


@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS)
def test_a_sound_backend_keeps_every_rule_in_every_session(seed):
    """The scripted backend, whose policies take turns, passes the sessions of every seed."""
    under_test = scripted()

    assert list(Campaign(under_test, seed=seed).findings(SESSIONS)) == []


def test_what_a_session_found_is_written_and_replays(tmp_path):
    """The report of a session has its calls, and its file fails again."""
    case = next(case for case in faulty_cases() if case.name == "LosesWordAfterReset")
    under_test = case.under_test()
    under_test.replays = tmp_path / "replays"
    under_test.begin_rule()
    campaign = Campaign(under_test, seed=0)
    drawn = session(
        Action(do="open"),
        Action(do="reset"),
        Action(do="insert", samples=16_640),
        Action(do="drain"),
    )
    finding = campaign.smallest(drawn, campaign.violation_of(drawn))
    campaign.report(finding)
    campaign.end()
    files = sorted(path.name for path in under_test.replays.iterdir())
    again = GeneratedSession.from_json((under_test.replays / files[0]).read_text(encoding="utf-8"))

    assert finding.rule == "LIFE-06"
    assert files == ["scripted-LIFE-06.json"]
    assert campaign.violation_of(again) is not None
    assert "--replay" in under_test.violations[-1].advice
    assert '{"do": "reset"}' in under_test.violations[-1].advice


@pytest.mark.parametrize(("fault", "count"), [("ProbabilityAboveOne", 1), ("AllTimesLate", 6)])
def test_a_rule_that_a_call_breaks_is_a_failure_once(fault, count, monkeypatch):
    """Words can be wrong for several reasons, but a call that breaks a rule names it."""
    calls = (Action(do="open"), Action(do="insert", samples=24_000), Action(do="drain"))
    drawn = session(*calls, tokens=((1, 0, 12), (2, 14, 3)))
    monkeypatch.setattr("wlk_conformance.sessions.campaign.generate", lambda *_: drawn)
    case = next(case for case in faulty_cases() if case.name == fault)

    assert len(list(Campaign(case.under_test(), seed=0).failures(9))) == count


@pytest.mark.parametrize(
    ("actions", "kind", "rule"),
    [
        ([Action(do="insert", samples=16_000)], "missing", "IN-05"),
        ([Action(do="end_silence", seconds=1.0)], "time", "TIME-04"),
        ([Action(do="end_silence", seconds=0.1)] * 5, "time", "SIL-04"),
    ],
)
def test_what_is_left_of_a_session_names_the_rule(actions, kind, rule):
    """Lost or moved words break the rule of the calls left in the smallest session that fails."""
    drawn = session(Action(do="open"), *actions, Action(do="drain"))
    violation = Violation("IN-05", "a word is missing", kind=kind, stream="stream 0")

    assert attribute(violation, drawn) == rule


@pytest.mark.slow
def test_the_command_replays_a_session(judge, tmp_path):
    """A session that was written is played alone, and a file without one is refused."""
    path = tmp_path / "session.json"
    path.write_text(session(Action(do="open"), Action(do="insert", samples=100)).as_json())
    done = judge("scripted", "--replay", "session.json")
    report = done.report
    path.write_text("{}")
    refused = judge("scripted", "--replay", "session.json")

    assert done.returncode == 0, done.stdout
    assert [row["id"] for row in report["rules"] if row["outcome"] == "pass"] == ["COM-04"]
    assert "  the generated session passes (1 of " in done.stdout
    assert "COMPLIANT" not in done.stdout
    assert refused.returncode == 2
    assert "expected a session" in refused.stderr


def test_a_repeated_word_shrinks_to_its_pauses():
    """A word that is repeated after the third pause needs three pauses."""
    under_test = BackendUnderTest(
        spec=SCRIPTED_SPEC,
        load=next(c for c in faulty_cases() if c.name == "RepeatsWordAfterThirdPause").make,
    )
    campaign = Campaign(under_test, seed=0)
    pause = (Action(do="start_silence"), Action(do="end_silence", seconds=1.0))
    drawn = session(
        Action(do="open"),
        *pause, *pause, Action(do="read"), *pause,
        Action(do="insert", samples=8000, form="strided"),
        Action(do="drain"),
        Action(do="insert", samples=8640),
    )  # fmt: skip
    finding = campaign.smallest(drawn, campaign.violation_of(drawn))

    assert finding.rule == "SIL-07"
    assert sum(action.do == "end_silence" for action in finding.session.actions) == 3
    assert all(action.form == "plain" for action in finding.session.actions)


def cycle_of(*tokens, pause, is_complete=True):
    """Return a life cycle with a pause of *pause* seconds after its first second."""
    clock = StreamClock(16_000).after(pause=pause).after(samples=16_000)
    return LifeCycle(clock, tokens=list(tokens), is_complete=is_complete)


ONE, TWO = ASRToken(0.2, 0.8, " one"), ASRToken(3.1, 3.5, " two")


def test_a_longer_pause_moves_the_words_after_it():
    """Times are compared without the pauses, so a drift with their length is detected."""
    moved = cycle_of(ONE, ASRToken(3.8, 4.2, " two"), pause=2.7)
    drifted = cycle_of(ONE, ASRToken(4.1, 4.5, " two"), pause=2.7)

    assert compare(cycle_of(ONE, TWO, pause=2.0), moved, 0) is None
    found = compare(cycle_of(ONE, TWO, pause=2.0), drifted, 0)
    assert found.kind == "differs"
    assert "0.300 s off" in found.message


def test_a_session_is_listed_with_the_audio_of_the_streams_that_are_left():
    """Shrinking drops the calls of other streams, and their audio says nothing about the fault."""
    tapes = tuple(Tape(tokens=((number, 0, 4),)) for number in range(9))
    actions = (Action(do="open", stream=7), *[Action(do="drain", stream=7)] * 2)
    session = GeneratedSession(name="by hand", tapes=tapes, actions=actions)

    assert [line.strip().partition(":")[0] for line in session.listed().splitlines()] == [
        "audio of stream 7",
        '{"do"',
        '{"do"',
    ]
