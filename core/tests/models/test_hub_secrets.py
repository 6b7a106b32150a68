"""The credentials of a hub that are stored on this machine."""

from __future__ import annotations

import base64

from huggingface_hub import constants

from wlk_core.models.hub_secrets import known_secrets


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
