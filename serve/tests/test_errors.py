"""How errors are written for clients."""

from __future__ import annotations

import json

from wlk_serve.errors import RequestError, error_response


def test_a_message_that_quotes_invalid_unicode_is_an_answer():
    """The answer to half a surrogate pair is not a second error."""
    answer = error_response(RequestError("got \ud800"))

    assert json.loads(answer.body)["error"]["message"] == "got \ud800"
    assert answer.headers["content-type"] == "application/json"
