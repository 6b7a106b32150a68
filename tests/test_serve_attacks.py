"""The attacks on a real server, small; `tools/serve_attacks/run.py` makes them large."""

from __future__ import annotations

import importlib
import json
from pathlib import Path
import subprocess
import sys

import pytest

ATTACKS = Path(__file__).resolve().parents[1] / "tools" / "serve_attacks"
DELTA = "conversation.item.input_audio_transcription.delta"
COMPLETED = "conversation.item.input_audio_transcription.completed"


@pytest.fixture
def modules(monkeypatch):
    """Return the modules of journals, scripts and outcomes."""
    monkeypatch.syspath_prepend(str(ATTACKS))
    return [importlib.import_module(name) for name in ("journal", "scripts", "churn")]


def finished(modules, folder, words):
    """Write the journal of a client that received *words*, and return the outcome."""
    journals, scripts, churn = modules
    script = scripts.Script(7, "scripted")
    journal = journals.Journal(folder / "7.jsonl", 7, "scripted")
    journal.write({"type": "session.created", "session": {"wlk": {}}})
    journal.write({"type": DELTA, "delta": " ".join(words)})
    journal.write({"type": COMPLETED, "transcript": " ".join(words)})
    journal.note(finished=True)
    return churn.outcome_of(folder, ["".join(script.words), "".join(words)])


def test_a_client_with_every_word_lost_none(modules, tmp_path):
    """What it received is what was spoken, and what a stream committed."""
    words = modules[1].Script(7, "scripted").words
    outcome = finished(modules, tmp_path, words)

    assert [] == outcome.problems
    assert (1, len(words)) == (outcome.finished, outcome.words)


def test_a_word_less_is_a_problem(modules, tmp_path):
    """Even if a stream committed exactly that."""
    words = modules[1].Script(7, "scripted").words
    outcome = finished(modules, tmp_path, words[:-1])

    assert 1 == len(outcome.problems)
    assert "spoken" in outcome.problems[0]


def test_a_journal_goes_on_after_half_of_a_line(modules, tmp_path):
    """The client was killed while it wrote: the server sends that event again."""
    path = tmp_path / "1.jsonl"
    events = [{"type": DELTA, "delta": text, "wlk_seq": n} for n, text in enumerate("ab", 1)]
    journal = modules[0].Journal(path, 1, "scripted")
    journal.write(events[0])
    path.write_text(path.read_text() + json.dumps(events[1])[:30])
    journal = modules[0].Journal.resume(path)

    assert ("a", 1) == (journal.deltas, journal.last)
    journal.write(events[1])
    assert "ab" == modules[0].Journal.read(path).deltas


def test_a_script_follows_from_its_seed(modules):
    """A client that replaces a killed one sends the same audio."""
    script, same = (modules[1].Script(3, "scripted") for _ in range(2))

    assert script.data == same.data
    assert (script.words, script.commits, script.losses) == (same.words, same.commits, same.losses)
    assert script.pauses[-1] == script.commits[-1] <= len(script.data) // 4


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="it reads /proc")
@pytest.mark.parametrize(
    "arguments",
    [
        "churn --sessions 5 --minutes 0.1 --warm 1 --rounds 1",
        "shutdown --sessions 5",
    ],
    ids=lambda arguments: arguments.split()[0],
)
def test_an_attack_loses_no_word_and_leaves_nothing(arguments):
    """No session fails, no file stays open, and the server writes its lines only."""
    pytest.importorskip("wlk_conformance")
    pytest.importorskip("wlk_serve")
    command = [sys.executable, str(ATTACKS / "run.py"), *arguments.split()]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)

    assert 0 == done.returncode, done.stdout + done.stderr
