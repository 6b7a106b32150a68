"""Whether a process without progress hangs, by its own time and not by that of the machine."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from wlk_conformance.stalls import LAST, Stall, look_at

LIMIT = 10.0  # seconds


def hang(*, computes, is_unserved, seconds):
    """Return what is said after *seconds* in which each second had that much processor time."""
    now = [0.0]
    spent = [0.0]
    stall = Stall(lambda: (spent[0], is_unserved), clock=lambda: now[0])
    for _ in range(seconds):
        now[0] += 1.0
        spent[0] += computes
        if said := stall.hang(LIMIT):
            return said
    return ""


@pytest.mark.parametrize(
    ("computes", "is_unserved", "seconds", "said"),
    [
        pytest.param(0.0, False, 9, "", id="idle for less than the limit"),
        pytest.param(0.0, False, 12, "10 s", id="idle"),
        pytest.param(0.05, False, 13, "10 s", id="idle beside a thread that polls"),
        pytest.param(1.0, True, 13, "10 s of processor time", id="in an endless loop"),
        pytest.param(0.05, True, 60, "", id="on a machine that gives it a twentieth"),
        pytest.param(0.0, True, 60, "", id="on a machine that reads its pages from a disk"),
        pytest.param(0.0, True, 101, f"{LAST * LIMIT:g} s", id="on a machine that never goes on"),
    ],
)
def test_a_process_is_judged_by_its_own_time(computes, is_unserved, seconds, said):
    """A process that waits for a processor is not hung until ten times the limit has passed."""
    assert hang(computes=computes, is_unserved=is_unserved, seconds=seconds) == said


def test_progress_begins_again():
    """The limit counts from the last progress."""
    now = [0.0]
    stall = Stall(lambda: (0.0, False), clock=lambda: now[0])
    for _ in range(30):
        now[0] += 1.0
        assert stall.hang(LIMIT) == ""
        if now[0] % 5 == 0:
            stall.moved()


def test_a_process_is_looked_at_with_its_children():
    """A process that waits for its input is idle, one that computes is not, and one may be gone."""
    waiting = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    try:
        spent, _ = look_at(os.getpid())

        assert spent > 0
        assert look_at(os.getpid())[1]  # this thread runs
    finally:
        waiting.communicate(b"\n")

    assert look_at(waiting.pid) == (0.0, False)
