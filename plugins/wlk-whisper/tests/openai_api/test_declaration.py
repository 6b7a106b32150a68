"""The declaration of the backend."""

from __future__ import annotations

import subprocess
import sys

import pytest

from wlk_core.models import list_models
from wlk_whisper.plugin import OPENAI_API


def test_it_is_never_a_default():
    """The user must name the backend, because it sends audio to another machine."""
    assert OPENAI_API.preference is None


def test_it_declares_the_capabilities_of_every_endpoint():
    """verbose_json has no probability of words, so tokens have none."""
    assert "probabilities" not in OPENAI_API.capabilities
    assert {"word-times", "translation", "language-detection"} <= OPENAI_API.capabilities


def test_no_option_holds_a_key():
    """Other users of the machine can read a command line."""
    assert "api_key" not in {option.name for option in OPENAI_API.options}


def test_its_models_are_listed_as_hosted(tmp_path, monkeypatch):
    """Hosted models are never fetched."""
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path))
    rows = list_models([OPENAI_API])

    assert {"hosted"} == {row.state for row in rows}
    assert ["whisper-1"] == [row.name for row in rows if row.is_default]


@pytest.mark.slow
def test_declaring_it_imports_no_client():
    """Listing backends must not import an HTTP library."""
    heavy = ("openai", "httpx", "httpx2", "numpy")
    code = f"import sys, wlk_whisper.plugin; print([m for m in {heavy!r} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert "[]" == done.stdout.strip()
