"""Exclusive calls: how often one is made."""

from __future__ import annotations

import pytest

from wlk_core.errors import BackendError, StreamBroken
from wlk_core.processor import MAX_RETRIES
from wlk_core.session.calls import MAX_ATTEMPTS, attempt
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
