from __future__ import annotations

import importlib
from pathlib import Path

import numpy as np
import pytest

from wlk_conformance.testing import connected_digits

ROOT = Path(__file__).resolve().parents[1]
DIGITS = ROOT / "plugins/wlk-whisper/src/wlk_whisper/digits/ctranslate2"


@pytest.mark.slow
@pytest.mark.parametrize("count", [6, 60], ids=["one window", "several windows"])
def test_known_words_are_found_where_they_were_spoken(count, monkeypatch):
    """This holds for recordings longer than Whisper's window too."""
    faster_whisper = pytest.importorskip("faster_whisper", reason="pip install faster-whisper")
    monkeypatch.syspath_prepend(str(ROOT / "tools/real"))
    tool = importlib.import_module("word_times")
    model = faster_whisper.WhisperModel(str(DIGITS), device="cpu", compute_type="float32")
    clip = connected_digits(count, seed=1, gap=(0.05, 0.6), lead=0.2, tail=0.8)

    words = tool.word_times(model, clip.audio, "".join(word.text for word in clip.words))

    assert [word.text for word in words] == [word.text for word in clip.words]
    errors = [abs(w.start - true.start) for w, true in zip(words, clip.words, strict=True)]
    assert np.percentile(errors, 90) < 0.05
