"""Which of the offered subprotocols the Realtime WebSocket accepts."""

from __future__ import annotations

import pytest

from wlk_serve.realtime.route import _accepted

KEY = "openai-insecure-api-key.secret"


@pytest.mark.parametrize(
    ("offered", "accepted"),
    [
        ([], None),
        (["realtime", KEY], "realtime"),
        ([KEY, "openai-beta.realtime-v1"], "openai-beta.realtime-v1"),
        ([KEY, "wlk-resume.token"], KEY),
        ([KEY], KEY),
    ],
)
def test_one_of_the_offered_subprotocols_is_accepted(offered, accepted):
    """Browsers fail a connection otherwise; a key is repeated only if nothing else is offered."""
    assert _accepted(offered) == accepted
