"""Text from outside in a message: one line without credentials."""

from __future__ import annotations

import base64
import string

from huggingface_hub import constants
from hypothesis import given
from hypothesis import strategies as st
import pytest

from wlk_core.models.foreign_text import known_secrets, one_line

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


def test_the_token_of_a_login_is_known(monkeypatch, tmp_path):
    """The token that `hf auth login` stored is read without the network."""
    (tmp_path / "token").write_text("hf_stored\n")
    monkeypatch.setattr(constants, "HF_TOKEN_PATH", str(tmp_path / "token"))

    assert "hf_stored" in known_secrets()


def test_the_credentials_of_the_endpoint_are_known_in_each_writing(monkeypatch):
    """An answer may repeat them as they were written, decoded, or as the header that was sent."""
    monkeypatch.setenv("HF_ENDPOINT", "https://anna.b:pass%2Fword@hub.example")
    monkeypatch.setenv("HF_TOKEN", "hf_token")

    assert known_secrets() >= {
        "hf_token",
        "anna.b",
        "pass%2Fword",
        "pass/word",
        base64.b64encode(b"anna.b:pass/word").decode(),
    }
