from __future__ import annotations

import importlib
import math
from pathlib import Path
import re
import subprocess
import sys

import pytest

BENCHMARKS = Path(__file__).resolve().parents[1] / "benchmarks"


@pytest.fixture
def talk(monkeypatch):
    """Return the module of talks and reports."""
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    return importlib.import_module("serve_load.talk")


def test_a_talk_has_whole_utterances_with_their_times(talk):
    """Six words each, and silence after the last one."""
    speech = talk.talk_of(15.0, 0)

    assert 6 * len(speech.utterances) == len(speech.words)
    assert 0 < len(speech.audio) <= 15 * 16_000
    for utterance in speech.utterances:
        tail = speech.audio[round(utterance.end * 16_000) :][:16_000]
        assert utterance.last_start < utterance.end
        assert 0 == abs(tail).max()


def test_a_delay_is_to_the_first_final_text_with_the_last_word(talk):
    """Text that ends before the middle of the last word does not count, and missing text is inf."""
    speech = talk.Talk(None, (talk.Utterance(1.0, 2.0), talk.Utterance(5.0, 6.0)), ())
    report = talk.Report(finals=[(1.8, 0.9), (2.5, 1.9), (3.0, 2.0)])

    assert [0.5, math.inf] == report.delays(speech)


def test_a_delay_of_an_utterance_that_the_client_ended_is_from_the_commit(talk):
    """The client commits a little after the end of the speech."""
    speech = talk.Talk(None, (talk.Utterance(1.0, 2.0),), ())
    report = talk.Report(finals=[(2.5, 2.0)], commits=[2.1])

    assert [pytest.approx(0.4)] == report.delays(speech)


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="it reads /proc")
def test_the_benchmark_prints_a_row_for_each_protocol():
    """Every word arrives, whatever the load of the machine does to the delays."""
    pytest.importorskip("faster_whisper")
    command = [sys.executable, str(BENCHMARKS / "serve.py"), "--sessions", "1", "--seconds", "6"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)

    assert 0 == done.returncode, done.stderr
    rows = re.findall(r"^wlk-serve.*errors (\d+)/(\d+)$", done.stdout, re.MULTILINE)
    assert [("0", "6")] * 2 == rows
    second = r"chunks sent p50 \d+, p99 \d+ ms late$"
    assert 2 == len(re.findall(second, done.stdout, re.MULTILINE))
