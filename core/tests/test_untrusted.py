"""What comes from outside: JSON within limits, hosts, and text for messages."""

from __future__ import annotations

import json
import string

from hypothesis import given
from hypothesis import strategies as st
import pytest

from wlk_core.untrusted import (
    JSONLimitError,
    is_loopback,
    mask_secrets,
    one_line,
    parse_limited_json,
)

ACCOUNTS = st.text(string.ascii_letters + string.digits + ":%!._~-@", min_size=1, max_size=20)
KEYS = st.text("sk-0123456789abc", min_size=8, max_size=40)


@given(st.text('[]{}",:\\ax1-.eE \n', max_size=60))
def test_any_text_is_what_json_reads_or_a_value_error(text):
    """Nothing but ValueError is raised."""
    try:
        expected = json.loads(text)
    except ValueError:
        with pytest.raises(ValueError, match=" "):
            parse_limited_json(text.encode(), max_bytes=100)
    else:
        assert expected == parse_limited_json(text.encode(), max_bytes=100)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"[" * 100_000, "nested too deeply"),
        (b'{"a":' * 100_000 + b"1" + b"}" * 100_000, "nested too deeply"),
        (b'"' + b"a" * 2**20 + b'"', "more than 1 MiB"),
    ],
    ids=["lists", "tables", "size"],
)
def test_json_beyond_a_limit_is_refused(content, message):
    """Neither memory nor the stack of Python is the limit."""
    with pytest.raises(JSONLimitError, match=message):
        parse_limited_json(content, max_bytes=2**20)


def test_a_number_of_many_digits_is_refused():
    """Its conversion would take quadratic time."""
    with pytest.raises(ValueError, match="digits"):
        parse_limited_json(b"9" * 100_000, max_bytes=2**20)


@given(st.text(max_size=400))
def test_a_line_is_printable_and_short(text):
    """Line ends, control characters and floods of text stay out of a terminal."""
    line = one_line(text)

    assert line.isprintable()
    assert len(line) <= 300 * len("\\U0010ffff")


@given(ACCOUNTS, st.sampled_from(["http", "https", "ftp"]))
def test_no_account_of_an_address_is_in_a_line(account, scheme):
    """The words user:password@ of any address are masked."""
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


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        *((host, True) for host in ("localhost", "LOCALHOST", "localhost.", "127.9.8.7", "[::1]")),
        *((host, False) for host in ("", "192.168.0.2", "::", "example.com", "localhost.evil")),
        ("127.0.0.1.evil.example", False),
    ],
)
def test_only_names_and_addresses_of_this_machine_are_loopback(host, expected):
    """Upper case, the dot of a full name and the brackets of a URL change nothing."""
    assert is_loopback(host) is expected
