"""The declarations of the plugin."""

from __future__ import annotations

import subprocess
import sys

import pytest

from wlk_whisper.plugin import FASTER_WHISPER, MLX_WHISPER, OPENAI_API, WHISPER, wlk_backends

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


def test_alignatt_is_the_default_where_it_is_possible():
    """The first policy of a spec is its default; the one for recordings comes last."""
    policies = {spec.name: spec.policies for spec in wlk_backends()}

    assert {
        "faster-whisper": ("local-agreement", "long-form"),
        "mlx-whisper": ("alignatt", "local-agreement", "long-form"),
        "openai-api": ("local-agreement", "long-form"),
        "whisper": ("alignatt", "local-agreement", "long-form"),
    } == policies


@pytest.mark.slow
def test_importing_the_plugin_imports_nothing_heavy():
    """Listing backends must not cost a framework."""
    heavy = ("numpy", "ctranslate2", "faster_whisper", "huggingface_hub", "openai", "torch", "mlx")
    code = f"import sys, wlk_whisper.plugin; print([m for m in {heavy!r} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert "[]" == done.stdout.strip()
