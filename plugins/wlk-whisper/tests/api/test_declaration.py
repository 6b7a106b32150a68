"""What the backend declares."""

from __future__ import annotations

import subprocess
import sys

import pytest

from wlk_core.models import list_models
from wlk_whisper.language_names import language_code
from wlk_whisper.languages import LANGUAGES
from wlk_whisper.plugin import wlk_backends
from wlk_whisper.specs.api import OPENAI_API


def test_it_is_used_only_when_it_is_named():
    """Audio is sent away by somebody's decision and never because nothing else is installed."""
    assert OPENAI_API in wlk_backends()
    assert OPENAI_API.preference is None


def test_it_declares_what_every_endpoint_can_do():
    """verbose_json has no likelihood of words, so tokens have none."""
    assert "probabilities" not in OPENAI_API.capabilities
    assert {"word-times", "translation", "language-detection"} <= OPENAI_API.capabilities


def test_no_option_holds_a_key():
    """What is typed on a command line is seen by others."""
    assert "api_key" not in {option.name for option in OPENAI_API.options}


def test_its_models_are_hosted_and_never_fetched(tmp_path):
    """They are listed as what they are."""
    rows = list_models([OPENAI_API], cache_dir=tmp_path)

    assert {"hosted"} == {row.state for row in rows}
    assert ["whisper-1"] == [row.name for row in rows if row.is_default]


def test_every_language_has_a_name():
    """Endpoints report languages in English; a code stays what it is."""
    assert len(LANGUAGES) == len({language_code(code) for code in LANGUAGES})
    assert ("de", "zh", None) == tuple(map(language_code, ("German ", "mandarin", None)))


@pytest.mark.slow
def test_declaring_it_imports_no_client():
    """Listing backends must not cost an HTTP library."""
    heavy = ("openai", "httpx", "httpx2", "numpy")
    code = f"import sys, wlk_whisper.plugin; print([m for m in {heavy!r} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert "[]" == done.stdout.strip()
