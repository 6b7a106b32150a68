"""Exclusive calls: how often one is made."""

from __future__ import annotations

import pytest

from wlk_core.errors import BackendError, StreamBroken
from wlk_core.processor import MAX_RETRIES, attempt
from wlk_core.tokens import Emission

EMISSION = Emission((), 1.0, 1.0)
FAILURES = [BackendError(f"failure {number}") for number in range(1 + MAX_RETRIES)]


@pytest.mark.parametrize(
    ("errors", "calls", "last"),
    [
        *((FAILURES[:count], count + 1, None) for count in range(1 + MAX_RETRIES)),
        (FAILURES, 1 + MAX_RETRIES, FAILURES[-1]),
        ([error := BackendError("no key", retryable=False)], 1, error),
        ([error := BackendError("no answer in 30 s", is_exhausted=True)], 1, error),
        ([error := StreamBroken("broken")], 1, error),
    ],
)
def test_a_call_is_made_again_while_a_retry_may_cure_its_failure(errors, calls, last, caplog):
    """Each failure that passes is logged, and the last one is raised."""
    script, made = iter([*errors, EMISSION]), []

    def call():
        made.append(next(script))
        if isinstance(made[-1], BackendError):
            raise made[-1]
        return made[-1]

    if last is None:
        assert EMISSION == attempt(call)
    else:
        with pytest.raises(BackendError) as caught:
            attempt(call)
        assert last is caught.value
    assert calls == len(made)
    assert calls - 1 == len(caplog.records)
