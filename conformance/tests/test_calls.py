"""The record of the calls of a backend, and exceptions that must not escape from a call."""

from __future__ import annotations

import pytest

from wlk_conformance.calls import CallRecord, Calls, ends_within, in_thread
from wlk_conformance.scripted import SCRIPTED_SPEC
from wlk_conformance.sessions.monitor import Monitor, MonitoredProcessor


class Stream:
    """A stream whose calls run a function of the test."""

    def __init__(self, act):
        self.act = act
        self.stats = 7

    def process_iter(self, is_last=False):  # noqa: FBT002 -- pinned
        """Run the function."""
        return self.act()


def opened(act, calls, name):
    """Return a stream whose calls are recorded."""
    return MonitoredProcessor(Stream(act), name, None, Monitor(SCRIPTED_SPEC, object(), calls))


def test_a_keyboard_interrupt_of_a_backend_is_an_error_of_its_call():
    """Ctrl-C reaches only the main thread, so an interrupt in another is the backend's."""

    def fail():
        raise KeyboardInterrupt

    stream = opened(fail, Calls(), "stream 1")
    calling = in_thread(stream.process_iter)
    assert ends_within(30.0, calling)
    with pytest.raises(KeyboardInterrupt):
        stream.process_iter()

    assert str(calling.exception()) == "process_iter of stream 1 raised KeyboardInterrupt"


def test_the_record_names_the_call_that_runs(tmp_path):
    """Another process can read which call of which stream runs, and where in the session."""
    path = tmp_path / "calls"
    calls = Calls(path)
    calls.action = 12
    seen = []
    act = lambda: seen.append(CallRecord.read(path))  # noqa: E731 -- used once
    opened(act, calls, "stream 0").process_iter(is_last=True)

    assert (seen[0].action, seen[0].call, seen[0].stream) == (12, "is_last", "stream 0")
    assert str(seen[0]) == "is_last of stream 0, action 12 of the session"
    assert CallRecord.read(path).call == ""
    assert CallRecord.read(path).moves > seen[0].moves
    assert CallRecord.read(tmp_path / "absent") == CallRecord(0)
    with calls.recorded("finish", "stream 1"):  # a read during a step ends before the step does
        opened(int, calls, "stream 1").stats  # noqa: B018 -- a read is a call

        assert CallRecord.read(path).call == "finish"
