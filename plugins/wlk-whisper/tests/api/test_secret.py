"""Messages never show a key."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from wlk_whisper.api_secret import without

KEYS = st.text("sk-0123456789abc", min_size=8, max_size=40)


@given(key=KEYS, before=st.text("xyz ", max_size=20), behind=st.text("xyz ", max_size=20))
def test_a_key_is_masked_wherever_it_stands(key, before, behind):
    """The rest of the text stays as it is."""
    assert f"{before}***{behind}" == without(key, f"{before}{key}{behind}")


@given(key=KEYS, data=st.data())
def test_the_beginning_of_a_key_that_is_cut_off_is_masked(key, data):
    """Long answers are shown up to a length, and a key may lie across it."""
    length = data.draw(st.integers(8, len(key)))

    assert "no ***..." == without(key, f"no {key[:length]}...")


@given(key=st.text("abc", max_size=7), text=st.text("abc ."))
def test_a_short_key_is_a_placeholder(key, text):
    """Its letters stand in other words too."""
    assert text == without(key, text)
