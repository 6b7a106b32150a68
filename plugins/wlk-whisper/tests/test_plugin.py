"""The declarations of the plugin."""

from __future__ import annotations

import pytest

from wlk_core.models import list_models
from wlk_whisper.plugin import FASTER_WHISPER, MLX_WHISPER, OPENAI_API, WHISPER

LOCAL = [FASTER_WHISPER, MLX_WHISPER, WHISPER]


@pytest.mark.parametrize("spec", [*LOCAL, OPENAI_API], ids=lambda spec: spec.name)
def test_a_default_model_is_listed_and_never_the_digits(spec):
    """The digits recognise ten words, so they are used only when they are named."""
    assert spec.default_model in spec.models
    assert spec.default_model != "digits"


@pytest.mark.parametrize("spec", LOCAL, ids=lambda spec: spec.name)
def test_every_engine_lists_the_sizes_of_whisper(spec):
    """The same aliases name the same models on every engine."""
    sizes = {"tiny", "tiny.en", "base", "small", "medium", "large", "large-v3", "turbo", "digits"}

    assert sizes <= spec.models.keys()


def test_an_endpoint_is_used_when_it_is_named_and_its_models_are_hosted(tmp_path, monkeypatch):
    """It sends audio away, fetches nothing, and its key is never an option: `ps` shows these."""
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path))
    rows = list_models([OPENAI_API])

    assert OPENAI_API.preference is None
    assert "api_key" not in {option.name for option in OPENAI_API.options}
    assert {"hosted"} == {row.state for row in rows}
    assert ["whisper-1"] == [row.name for row in rows if row.is_default]
