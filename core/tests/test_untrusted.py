"""Untrusted hosts, values and text, made safe to use and to show in messages."""

from __future__ import annotations

import string

from hypothesis import given
from hypothesis import strategies as st
import pytest

from wlk_core.untrusted import ACTIVE, one_line

ACCOUNTS = st.text(string.ascii_letters + string.digits + ":%!._~-@", min_size=1, max_size=20)


@given(st.text(max_size=400))
def test_a_line_is_printable_and_short(text):
    """Line ends, control characters and excess text never reach a terminal."""
    line = one_line(text)

    assert not ACTIVE.search(line)
    assert len(line) <= 300 * len("\\U0010ffff") + len("...")


@given(ACCOUNTS, st.sampled_from(["http", "https", "ftp"]))
def test_no_account_of_an_address_is_in_a_line(account, scheme):
    """The user:password@ part of any address is masked."""
    line = one_line(f"no route to {scheme}://{account}@hub.example/api")

    assert line == f"no route to {scheme}://***@hub.example/api"


@pytest.mark.parametrize(
    "text",
    [
        "the token hf_tok0123456789 is invalid",
        "https://cdn.example/file?X-Amz-Signature=tok-0123456789&a=b",
    ],
)
def test_what_is_written_like_a_credential_is_masked(text):
    """A library may repeat a credential in its messages."""
    line = one_line(text)

    assert "0123456789" not in line
    assert "***" in line
