"""Whether a process without progress hangs, by its own time and not by that of the machine."""

from __future__ import annotations

import os
import subprocess
import sys
import threading

import pytest

from wlk_conformance import stalls
from wlk_conformance.calls import ends_within, in_thread
from wlk_conformance.stalls import LAST, Stall, look_at, timed
from wlk_conformance.suite import packaging

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
        pytest.param(16.0, True, 9, "", id="on sixteen processors for less than the limit"),
        pytest.param(0.4, False, 13, "10 s", id="sleeping and computing in turn"),
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
    """A process that computes is not idle, and neither is its parent; it may be gone."""
    computing = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    try:
        while not look_at(computing.pid)[0]:
            pass

        assert look_at(computing.pid)[1]
        assert look_at(os.getpid())[1]
    finally:
        computing.kill()
        computing.wait()

    assert look_at(computing.pid) == (0.0, False)


def loaded(_pid):
    """Look at a process that waits for a processor and never gets one."""
    return 0.0, True


def idle(_pid):
    """Look at a process in which nothing happens."""
    return 0.0, False


def test_an_interpreter_that_the_machine_keeps_waiting_is_no_failure(monkeypatch):
    """PKG-02 and PKG-05 judge an import by its own time."""
    monkeypatch.setattr(packaging, "IMPORT_LIMIT", 0.01)
    monkeypatch.setattr(stalls, "LAST", 100_000)
    monkeypatch.setattr(packaging, "look_at", loaded)

    assert packaging._run_python("print('imported')") == "imported\n"


def test_an_interpreter_that_hangs_is_a_failure(monkeypatch):
    """An import that waits for something that never comes fails within its limit."""
    monkeypatch.setattr(packaging, "IMPORT_LIMIT", 0.01)
    monkeypatch.setattr(packaging, "look_at", idle)

    with pytest.raises(AssertionError, match=r"a fresh interpreter took more than 0\.01 s"):
        packaging._run_python("import threading; threading.Event().wait()")


@pytest.mark.parametrize("look", [loaded, idle])
def test_a_call_that_the_machine_keeps_waiting_ends_in_time(look, monkeypatch):
    """A call of the backend is blamed for the time in which it does nothing, and for no other."""
    monkeypatch.setattr(stalls, "LAST", 100_000)
    looked = threading.Event()

    def looking(pid):
        looked.set()
        return look(pid)

    monkeypatch.setattr(stalls, "look_at", looking)
    calling = in_thread(looked.wait)

    with timed(0.01) as waiting:
        looked.wait()
        while look is idle and waiting.is_in_time:
            looked.wait(0.001)

    assert waiting.is_in_time == (look is loaded)
    assert ends_within(0.01, calling)
