from __future__ import annotations

import pytest

from wlk_realtime.engine.messages import ServerMessageError, parse, to_words


@pytest.mark.parametrize("text", ["", "nonsense", "[]", "7", '{"kind": "x"}', '{"type": 7}', "{"])
def test_a_message_is_an_object_with_a_type(text):
    """Anything else is no message of a server."""
    with pytest.raises(ServerMessageError, match="expected"):
        parse(text)


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"text": None}, "text"),
        ({"text": "a" * 1001}, "text"),
        ({"start": -1.0}, "outside of 1.000-2.000"),
        ({"start": 10**400}, "start"),
        ({"end": float("nan")}, "outside of"),
        ({"end": 2.5}, "outside of"),
        ({"start": 0.5}, "outside of"),
        ({"probability": 1.5}, "probability"),
        ({"probability": True}, "probability"),
    ],
)
def test_a_word_with_something_wrong_is_refused(change, problem):
    """Beyond the audio, before the last word, no number, no probability."""
    record = {"text": " one", "start": 1.2, "end": 1.5, "probability": 0.25, **change}

    with pytest.raises(ServerMessageError, match=problem):
        to_words([record], floor=1.0, latest=2.0)
