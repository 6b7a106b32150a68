from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
import pytest

from wlk_core.plugins import Word
from wlk_realtime.engine.messages import ServerMessageError, parse, to_words

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner),
    max_leaves=6,
)
RECORDS = st.lists(
    JSON
    | st.fixed_dictionaries(
        {"text": JSON, "start": JSON, "end": JSON}, optional={"probability": JSON}
    ),
    max_size=3,
)


@pytest.mark.parametrize("text", ["", "nonsense", "[]", "7", '{"kind": "x"}', '{"type": 7}', "{"])
def test_a_message_is_an_object_with_a_type(text):
    """Anything else is no message of a server."""
    with pytest.raises(ServerMessageError, match="expected"):
        parse(text)


def test_words_keep_text_and_times():
    """As they are."""
    record = {"text": " one", "start": 1, "end": 1.5, "probability": 0.25}

    assert (Word(1.0, 1.5, " one", 0.25),) == to_words([record], floor=0.5, latest=2.0)


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


@given(RECORDS | JSON)
def test_whatever_a_server_sends_is_words_or_an_error(records):
    """No other exception, and no word outside of the audio."""
    try:
        words = to_words(records, floor=1.0, latest=2.0)
    except ServerMessageError as error:
        assert "\n" not in str(error)
    else:
        assert all(0.98 <= word.start <= word.end <= 2.02 and word.text for word in words)
