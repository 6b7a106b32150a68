"""Redaction of a key in messages."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from wlk_whisper.openai_api.redaction import redact

KEYS = st.text("sk-0123456789abc", min_size=8, max_size=40)


@given(key=KEYS, before=st.text("xyz ", max_size=20), after=st.text("xyz ", max_size=20))
def test_a_key_is_masked_anywhere_in_a_text(key, before, after):
    """The rest of the text does not change."""
    assert f"{before}***{after}" == redact(key, f"{before}{key}{after}")


@given(key=KEYS, data=st.data())
def test_the_beginning_of_a_key_that_is_cut_off_is_masked(key, data):
    """Quotes are cut at a maximum length, and a key may be cut with them."""
    length = data.draw(st.integers(8, len(key)))

    assert "no ***..." == redact(key, f"no {key[:length]}...")


@given(key=st.text("abc", max_size=7), text=st.text("abc ."))
def test_a_short_key_is_a_placeholder(key, text):
    """A short key stays, because its letters occur in other words."""
    assert text == redact(key, text)
