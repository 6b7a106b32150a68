"""Exclusive calls: how often one is made, and when a stream is drained."""

from __future__ import annotations

import pytest

from wlk_core.errors import BackendError, StreamBroken
from wlk_core.processor import MAX_RETRIES
from wlk_core.session.calls import MAX_ATTEMPTS, attempt, drain
from wlk_core.tokens import Emission

EMISSION = Emission((), 1.0, 1.0)


class Scripted:
    """A call that raises the errors given, one a time, and then succeeds."""

    def __init__(self, *errors):
        self.errors = list(errors)
        self.calls = 0

    def __call__(self):
        """Raise the next error or return an emission."""
        self.calls += 1
        if self.errors:
            raise self.errors.pop(0)
        return EMISSION


class Backlog:
    """A processor whose backlog lasts for a number of process_iter calls."""

    def __init__(self, calls, *, fail_at=()):
        self.left = calls
        self.made = 0
        self.fail_at = fail_at

    @property
    def has_backlog(self):
        """Whether a call is left to make."""
        return self.left > 0

    def process_iter(self):
        """Take one call off the backlog, unless this one is to fail."""
        self.made += 1
        if self.made in self.fail_at:
            raise BackendError("scripted")
        self.left = max(0, self.left - 1)
        return Emission((), float(self.made), 0.0)


@pytest.mark.parametrize("failures", range(MAX_RETRIES + 1))
def test_a_retryable_failure_is_repeated(failures, caplog):
    """A call may fail MAX_RETRIES times in a row before it succeeds; each failure is logged."""
    call = Scripted(*(BackendError(f"failure {i}") for i in range(failures)))

    assert EMISSION == attempt(call)
    assert failures + 1 == call.calls
    assert failures == len(caplog.records)


def test_the_last_failure_is_raised():
    """After MAX_ATTEMPTS failures no further attempt is made."""
    call = Scripted(*(BackendError(f"failure {i}") for i in range(10)))

    with pytest.raises(BackendError, match=f"failure {MAX_ATTEMPTS - 1}"):
        attempt(call)
    assert MAX_ATTEMPTS == call.calls


@pytest.mark.parametrize(
    "error",
    [
        BackendError("no key", retryable=False),
        BackendError("no answer in 30 s", is_exhausted=True),
        StreamBroken("broken"),
        ValueError("other"),
    ],
)
def test_a_failure_that_a_retry_cannot_cure_is_raised_at_once(error):
    """Errors that are not retryable or that a backend repeated, and other errors, end the call."""
    call = Scripted(error)

    with pytest.raises(type(error)):
        attempt(call)
    assert 1 == call.calls


@pytest.mark.parametrize(("backlog", "calls"), [(0, 0), (1, 1), (5, 5)])
def test_draining_ends_when_no_backlog_is_left(backlog, calls):
    """process_iter is called as often as the backlog needs and not once more."""
    processor = Backlog(backlog)

    assert calls == len(list(drain(processor)))
    assert calls == processor.made


def test_draining_repeats_calls_that_failed():
    """A failure within the backlog costs one more call and no emission."""
    processor = Backlog(3, fail_at={2, 3})

    assert 3 == len(list(drain(processor)))
    assert 5 == processor.made


def test_draining_goes_through_the_caller_where_it_wants_to_measure():
    """Each process_iter is made by the function given."""
    made = []

    def make_call(call):
        made.append(call)
        return call()

    assert 2 == len(list(drain(Backlog(2), make_call)))
    assert 2 == len(made)
