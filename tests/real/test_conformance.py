"""Whisper's backends and policies keep the contract's rules about text on open vocabulary."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from .conftest import COLUMNS, MODELS, RECORDINGS

# The rules about text and pauses; `test_streams.py` tests other chunk sizes and measures word
# errors.  The long ones run every option on several clips, for minutes on such weights.  MLX takes
# eight times as long as torch on a CPU.
RULES = ("COM-06", "SIL-05", "SIL-07", "LANG-02", "RES-03", "QUAL-02")
LONG_RULES = ("SIL-01", "QUAL-04")
SHORT_RULES = ("COM-06",)
IS_FULL = os.environ.get("WLK_FULL") == "1"  # nox -s full


@pytest.mark.parametrize(
    "column",
    [
        "faster-whisper",
        "whisper-alignatt",
        "whisper-agreement",
        "mlx-alignatt",
        *(["mlx-agreement"] if IS_FULL else []),
    ],
)
def test_the_rules_of_text_hold_on_open_words(column):
    """No word is lost, repeated or invented at pauses or flushes, or in audio without speech."""
    backend, model, policy = COLUMNS[column]
    options = {"dtype": "float32", "tick_seconds": "2", **policy}
    command = [sys.executable, "-m", "wlk_conformance", backend, "--model", str(MODELS / model)]
    command += ["--words", str(RECORDINGS / "clean"), "--speech"]
    command += [f"--option={name}={value}" for name, value in options.items()]
    rules = (*RULES, *LONG_RULES) if IS_FULL else RULES
    if backend == "mlx-whisper":
        rules = SHORT_RULES
    command += [f"--rule={rule}" for rule in rules]
    done = subprocess.run(command, capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stdout + done.stderr
