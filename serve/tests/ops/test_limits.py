"""What clients may use."""

from __future__ import annotations

from hypothesis import given, strategies
import pytest

from wlk_serve.errors import RequestError
from wlk_serve.ops.limits import Limits, Usage


@pytest.fixture
def limits():
    """Return limits of audio."""
    return Limits(audio_per_minute=120.0, audio_per_minute_per_key=60.0)


def refusal(usage, key, now, seconds):
    """Return status and retry_after of a use, None where it is allowed."""
    try:
        usage.use(key, now, seconds)
    except RequestError as error:
        assert "rate_limit_exceeded" == error.code
        return error.status, error.retry_after
    return None


def test_a_key_may_use_its_minute_and_no_more(limits):
    """What is used comes back with time."""
    usage = Usage(limits)

    assert None is refusal(usage, "a", 0.0, 60.0)
    assert (429, 1) == refusal(usage, "a", 0.0, 60.0)
    assert None is refusal(usage, "b", 0.0, 60.0)
    assert None is refusal(usage, "a", 60.0, 60.0)


def test_all_keys_share_the_limit_of_all(limits):
    """A third key is refused although it has used nothing."""
    usage = Usage(limits)
    for key in ("a", "b"):
        usage.use(key, 0.0, 60.0)

    assert (429, 1) == refusal(usage, "c", 0.0, 1.0)


def test_one_use_may_exceed_what_is_left_and_is_a_debt(limits):
    """A message is never cut; the client waits until it is paid for."""
    usage = Usage(limits)
    usage.use("a", 0.0, 300.0)

    assert (429, 241) == refusal(usage, "a", 0.0, 0.1)
    assert (429, 1) == refusal(usage, "a", 240.0, 0.1)
    assert None is refusal(usage, "a", 241.0, 0.1)


def test_without_limits_everything_is_allowed():
    """Infinity is no limit."""
    usage = Usage(Limits())

    assert None is refusal(usage, "", 0.0, 1e9)
    assert None is refusal(usage, "", 0.0, 1e9)


@given(
    strategies.lists(
        strategies.tuples(strategies.floats(0, 30), strategies.floats(0.01, 5)), max_size=60
    )
)
def test_no_more_is_used_than_the_budget_and_one_use(uses):
    """At any time, of any length of time; and the time in the answer is enough."""
    usage, now, total = Usage(Limits(audio_per_minute=10.0)), 0.0, 0.0
    for pause, amount in uses:
        now += pause
        refused = refusal(usage, "", now, amount)
        if refused is not None:
            now += refused[1]
            assert None is refusal(usage, "", now, amount)
        total += amount

        assert total <= 10.0 + now / 6 + 5 + 1e-6
