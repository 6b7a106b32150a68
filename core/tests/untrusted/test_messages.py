"""Text from outside in a message: one line without credentials."""

from __future__ import annotations

import string

from hypothesis import given
from hypothesis import strategies as st
import pytest

from wlk_core.untrusted import mask_secrets, one_line

SECRETS = st.text(st.characters(codec="utf-8", exclude_characters="*"), min_size=6, max_size=20)
ACCOUNTS = st.text(string.ascii_letters + string.digits + ":%!._~-@", min_size=1, max_size=20)


@given(st.text(max_size=400), st.lists(SECRETS, max_size=3), st.text(max_size=20))
def test_no_secret_is_in_a_line(text, secrets, between):
    """Whatever the text is, none of the secrets is in the line that is made of it."""
    line = one_line(between.join([text, *secrets, text]), secrets)

    assert [secret for secret in secrets if secret in line] == []


@given(st.text(max_size=400))
def test_a_line_is_printable_and_short(text):
    """Line ends, control characters and floods of text stay out of a terminal."""
    line = one_line(text)

    assert line.isprintable()
    assert len(line) <= 300 * len("\\U0010ffff")


@given(ACCOUNTS, st.sampled_from(["http", "https", "ftp"]))
def test_no_account_of_an_address_is_in_a_line(account, scheme):
    """The words user:password@ of any address are masked, known or not."""
    line = one_line(f"no route to {scheme}://{account}@hub.example/api")

    assert line == f"no route to {scheme}://***@hub.example/api"


@pytest.mark.parametrize(
    "text",
    [
        "Authorization: Bearer tok-0123456789",
        "authorization: basic tok-0123456789",
        "the token hf_tok0123456789 is invalid",
        "https://cdn.example/file?X-Amz-Signature=tok-0123456789&a=b",
    ],
)
def test_what_is_written_like_a_credential_is_masked(text):
    """A server may repeat a credential that this process does not know."""
    line = one_line(text)

    assert "0123456789" not in line
    assert "***" in line


KEYS = st.text("sk-0123456789abc", min_size=8, max_size=40)


@given(key=KEYS, before=st.text("xyz ", max_size=20), after=st.text("xyz ", max_size=20))
def test_a_key_is_masked_anywhere_in_a_text(key, before, after):
    """The rest of the text does not change."""
    assert f"{before}***{after}" == mask_secrets(f"{before}{key}{after}", [key])


@given(key=KEYS, data=st.data())
def test_the_beginning_of_a_key_that_is_cut_off_is_masked(key, data):
    """Quotes are cut at a maximum length, and a key may be cut with them."""
    length = data.draw(st.integers(8, len(key)))

    assert "no ***..." == mask_secrets(f"no {key[:length]}...", [key], shortest=8)


@given(key=st.text("abc", max_size=7), text=st.text("abc ."))
def test_a_short_key_is_a_placeholder(key, text):
    """A short key stays, because its letters occur in other words."""
    assert text == mask_secrets(text, [key], shortest=8)
