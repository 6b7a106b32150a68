"""The declaration of the backend."""

from __future__ import annotations

from wlk_core.models import list_models
from wlk_whisper.plugin import OPENAI_API


def test_it_is_never_a_default():
    """The user must name the backend, because it sends audio to another machine."""
    assert OPENAI_API.preference is None


def test_no_option_holds_a_key():
    """Other users of the machine can read a command line."""
    assert "api_key" not in {option.name for option in OPENAI_API.options}


def test_its_models_are_listed_as_hosted(tmp_path, monkeypatch):
    """Hosted models are never fetched."""
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path))
    rows = list_models([OPENAI_API])

    assert {"hosted"} == {row.state for row in rows}
    assert ["whisper-1"] == [row.name for row in rows if row.is_default]
